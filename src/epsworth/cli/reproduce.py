"""``epsworth reproduce``: each figure, table and theorem of the five papers, beside our own number."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsworth.cli import options, show

if TYPE_CHECKING:
    from epsworth.reproduce import Item, Outcome, Setting

PAGE, NUMBERS = "reproduce.md", "reproduce.json"
NOT_ALL = 1  # exit status


def reproduce(
    what: Annotated[
        str | None, typer.Argument(metavar="[ID|all]", help="An ID, such as 000-fig-2, or all; --list shows them.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show what there is, and compute nothing.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Compute briefly; of all, only what takes seconds.")] = False,
    data: Annotated[
        Path | None,
        typer.Option("--data", envvar="EPSWORTH_DATA", help="Folder of the papers' tables; some items need none."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help=f"Folder for {PAGE}, its pictures, and {NUMBERS}; made if need be."),
    ] = None,
) -> None:
    """Compute what the five papers state, and say what holds.

    An outcome "does not hold" is no failure: the exit status is 0 wherever everything asked for was looked at, and 1
    where something was not, for want of data.
    """
    if not listed and what is None:
        raise ValueError("name an ID, or all; epsworth reproduce --list shows what there is")
    if listed and out is not None:
        raise ValueError("--list computes nothing, so --out has nothing to write; drop one of them")
    if data is not None and not data.is_dir():
        raise ValueError(f"--data {data} is no folder; name the one with the papers' tables")
    if out is not None:
        _check_folder(out)
    from epsworth.reproduce import Setting, named

    chosen = named(what or "all")
    if quick and len(chosen) > 1:
        chosen = [item for item in chosen if item.quick]
    if listed:
        _list(chosen, data)
        return
    outcomes = _computed(chosen, Setting(data, quick))
    if len(chosen) > 1:
        _summary(outcomes)
    else:
        _print(chosen[0], outcomes[chosen[0].id])
    if out is not None:
        _write(out, outcomes, quick)
    _leave_if_left_out(outcomes)


def _check_folder(out: Path) -> None:
    """Refuse, before any work, a folder in which nothing can be drawn; one that is not there is made at the end."""
    from epsworth.drawing import drawn_by

    drawn_by("matplotlib")
    if out.is_dir():
        for name in (PAGE, NUMBERS):
            options.check_outputs(str(out / name), None)
        return
    above = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not above.is_dir():
        raise ValueError(f"--out {out} is no folder, for {above} is a file; choose another place")
    if not os.access(above, os.W_OK):
        raise ValueError(f"--out {out} cannot be made: permission denied; choose another place")


def _leave_if_left_out(outcomes: dict[str, Outcome]) -> None:
    from epsworth.reproduce import Verdict

    left = [name for name, outcome in outcomes.items() if outcome.verdict is Verdict.NOT_RUN]
    if left:
        typer.echo(f"{len(left)} of {len(outcomes)} were not looked at ({left[0]}: {outcomes[left[0]].why}).", err=True)
        raise typer.Exit(NOT_ALL)


def _list(chosen: list[Item], data: Path | None) -> None:
    from collections import Counter

    from epsworth.reproduce import PAPERS

    screen = show.console()
    for paper, title in PAPERS.items():
        own = [item for item in chosen if item.paper == paper]
        if not own:
            continue
        screen.print(f"[bold]{paper}[/bold] {title}")
        found = show.table("ID", "what", "quick", "state", left=("ID", "what", "quick", "state"))
        for item in own:
            found.add_row(item.id, item.what, "yes" if item.quick else "", item.standing(data))
        screen.print(found)
        screen.print()
    count = Counter(item.standing(data) for item in chosen)
    screen.print(", ".join(f"{number} {state}" for state, number in count.items()) + ".")


def _computed(chosen: list[Item], setting: Setting) -> dict[str, Outcome]:
    from epsworth.reproduce import outcome_of

    outcomes: dict[str, Outcome] = {}
    with options.progress_bar("computing") as progress:
        for done, item in enumerate(chosen):
            progress(done / len(chosen))
            outcomes[item.id] = outcome_of(item, setting)
    return outcomes


def _print(item: Item, outcome: Outcome) -> None:
    from epsworth.reproduce import PAPERS

    screen = show.console()
    screen.print(f"[bold]{item.id}[/bold]  {item.what} of {PAPERS[item.paper]}", highlight=False)
    rows = {"the paper": item.statement, "ours": outcome.ours, "verdict": f"{outcome.verdict}", "because": outcome.why}
    for name, words in rows.items():
        if words:
            screen.print(f"{name}: {words}", markup=False, highlight=False)
    screen.print(f"{outcome.seconds:.2f} s", highlight=False)


def _summary(outcomes: dict[str, Outcome]) -> None:
    from epsworth.reproduce.pages import counted

    screen = show.console()
    found = show.table("ID", "verdict", "s", left=("ID", "verdict"))
    for name, outcome in outcomes.items():
        found.add_row(name, str(outcome.verdict), f"{outcome.seconds:.1f}")
    screen.print(found)
    screen.print(f"{counted(outcomes)}.")


def _write(folder: Path, outcomes: dict[str, Outcome], quick: bool) -> None:
    """Write the page, its pictures and the numbers, all of them whole, or none."""
    import json

    from epsworth.files import replacing
    from epsworth.reproduce.pages import PICTURES, as_json, as_markdown, pictures

    folder.mkdir(parents=True, exist_ok=True)
    shown = pictures(outcomes)
    numbers = json.dumps(as_json(outcomes, quick), indent=1) + "\n"
    texts = {PAGE: as_markdown(outcomes, quick), NUMBERS: numbers, **shown}
    if shown:
        (folder / PICTURES).mkdir(exist_ok=True)
    with ExitStack() as together:
        beside = {name: together.enter_context(replacing(folder / name)) for name in texts}
        for name, text in texts.items():
            beside[name].write_text(text, encoding="utf-8")
    also = f", {len(shown)} pictures in {folder / PICTURES}" if shown else ""
    show.console().print(f"Wrote {folder / PAGE} and {folder / NUMBERS}{also}.", markup=False)
