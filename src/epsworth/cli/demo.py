"""``epsworth demo``: the whole story in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsworth.cli import options, show
from epsworth.extras import needed


def demo(
    out: Annotated[Path, typer.Option(help="Folder for epsworth-demo.json and epsworth-demo.png.")] = Path("."),
) -> None:
    """Tell the whole story on shipped data."""
    picture, document = out / "epsworth-demo.png", out / "epsworth-demo.json"
    needed("polars", "files,plot", "the demo")
    options.check_outputs(str(document), picture)

    from epsworth.demo import AT_LEAST, RANGES, SENSITIVE, stories
    from epsworth.files import check_distinct
    from epsworth.utility.figures import plot_curves

    check_distinct(document=document, picture=picture)

    screen = show.console()
    ranges = ", ".join(f"{f.name} in {f.lower:g}..{f.upper:g}" for f in RANGES.features)
    screen.print("[bold]What is an epsilon worth?[/bold]")
    screen.print(
        "Patients query a breast-cancer classifier, but perturb two of its five measurements first "
        f"({' and '.join(SENSITIVE)}; public ranges {ranges}). How often does the diagnosis stay?\n"
    )
    done: dict[str, float] = {}
    with options.progress_bar("asking two classifiers") as progress:

        def step(title: str, share: float) -> None:
            done[title] = share
            progress(sum(done.values()) / 2)

        found = stories(step)
    for story in found:
        screen.rule(story.title, align="left")
        show.print_curves(story.curves, ["average", "worst"])
        show.print_facts(story.curves)
        screen.print()
        for title, answer in (
            ("on average, feature by feature", story.on_average),
            ("for the worst record, feature by feature", story.for_the_worst),
            ("for the worst record, with a policy made for this model", story.made_for_it),
        ):
            screen.print(f"[bold]Keep {AT_LEAST:.0%} of the labels {title}?[/bold] {answer.reason}\n")
    show.write_json(str(document), {"stories": [story.to_dict() for story in found]})
    plot_curves({story.title: story.curves for story in found}, picture)
    screen.print(f"Wrote {document} and {picture}.")
