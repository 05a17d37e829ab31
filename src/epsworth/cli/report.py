"""``epsworth report``: a result as a page, for people who look before they read."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth.cli import options, show
from epsworth.cli.recommend import check_choice, view_asked

if TYPE_CHECKING:
    from epsworth.utility.curves import Curves
    from epsworth.utility.recommendation import Recommendation


def report(
    result: Annotated[Path, typer.Argument(help="What --json of a command wrote.", metavar="RESULT.json")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, one .html file.")],
    at_least: Annotated[
        float | None,
        typer.Option(help="The least stability or accuracy, in (0, 1]; default: the result's own, or 0.9."),
    ] = None,
    on: Annotated[str | None, typer.Option(help="average, worst, or a row number (a choice per record leaks).")] = None,
    of: Annotated[str | None, typer.Option(help="stability, or accuracy.")] = None,
    delta: Annotated[float | None, typer.Option(help="Largest total delta per record to accept; 0: pure only.")] = None,
) -> None:
    """Write a result as a page: one file, which asks for nothing and can be sent to anyone who may see the table."""
    from epsworth.reports import report_file

    options.check_page(output)
    check_choice(0.9 if at_least is None else at_least, of or "stability", delta)
    view = None if on is None else view_asked(on)
    report_file(result, at_least=at_least, on=view, of=of, delta=delta).save(output)
    show.console().print(f"Page: {output}", markup=False, soft_wrap=True)


def write_page(
    path: Path | None, curves: Curves, found: Recommendation | None = None, delta: float | None = None
) -> None:
    """Write what --report asks for: the page of curves, with the command that made them."""
    from epsworth.reports import report

    if path is None:
        return
    command = shlex.join(["epsworth", *sys.argv[1:]])
    if found is not None:
        asked = {"at_least": found.at_least, "on": found.on, "of": found.of}
        report(curves, **asked, delta=delta, command=command).save(path)  # type: ignore[arg-type]  # its own fields
    else:
        on = "average" if len(curves.labels) > 1 else "worst"
        report(curves, on=on, command=command).save(path)


def write_document_page(path: Path | None, document: dict[str, Any]) -> None:
    """Write what --report asks for: the page of what --json writes, with the command that made it."""
    from epsworth.reports import report_document

    if path is not None:
        report_document(document, command=shlex.join(["epsworth", *sys.argv[1:]])).save(path)
