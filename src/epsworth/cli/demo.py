"""``epsworth demo``: the whole story in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsworth.cli import options, show
from epsworth.extras import needed


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the page, the picture and the numbers.")
    ] = Path("."),
) -> None:
    """Tell the whole story on shipped data."""
    page, picture, document = (output / f"epsworth-demo.{kind}" for kind in ("html", "png", "json"))
    needed("polars", "files,plot", "the demo")
    options.check_outputs(str(document), picture)
    options.check_page(page)

    from epsworth.demo import AT_LEAST, RANGES, stories
    from epsworth.files import check_distinct
    from epsworth.report import Heading, report
    from epsworth.utility.figures import plot_curves

    check_distinct(document=document, picture=picture, page=page)

    screen = show.console(show.SCREEN)
    names = " and ".join(one.name for one in RANGES.features)
    screen.print(f"[bold]What is an epsilon worth?[/bold] Patients perturb {names} before")
    screen.print(f"they query a classifier of breast cancer. Do {AT_LEAST:.0%} of the diagnoses stay?")
    done: dict[str, float] = {}
    with options.progress_bar("asking two classifiers") as progress:

        def step(title: str, share: float) -> None:
            done[title] = share
            progress(sum(done.values()) / 2)

        found = stories(step)
    for story in found:
        screen.print()
        screen.rule(story.title, align="left")
        screen.print("\n".join(story.on_average.verdict), markup=False)
        screen.print(story.on_average.certainty, markup=False)
        screen.print("\n".join(story.made_for_it.verdict), markup=False)
        show.print_curves(story.curves, "average")
    last = found[-1]
    show.write_json(str(document), last.to_dict())
    plot_curves({story.title: story.curves for story in found}, picture)
    purpose = f"The {last.title} of epsworth demo, on breast-cancer data that ships with scikit-learn."
    report(document, command="epsworth demo", heading=Heading(purpose=purpose)).save(page)
    told = f"{page} (open it in a browser) and {document.name}, of the {last.title}, and {picture.name}, of both"
    screen.print(f"\nWrote {told}.", soft_wrap=True)
    show.suggest("recommend", "MODEL", "TABLE", "-s", "FEATURE", why="the same for a classifier of yours")
