"""``epsworth report``: a result as a page, for people who look before they read."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth.cli import asking, options
from epsworth.inputs import in_a_line, is_address, versions

if TYPE_CHECKING:
    from epsworth.utility.curves import Curves
    from epsworth.utility.panels import Panels
    from epsworth.utility.recommendation import Recommendation


def report(
    result: Annotated[
        Path,
        typer.Argument(
            help="What run -o, or --json of a command that has --report, wrote, or a policy (.toml).", metavar="RESULT"
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, one .html file.")],
    at_least: Annotated[
        float | None,
        typer.Option(help="The least stability or accuracy, in (0, 1]; default: the result's own, or 0.9."),
    ] = None,
    on: Annotated[str | None, typer.Option(help="average, worst, or a row number (a choice per record leaks).")] = None,
    of: Annotated[str | None, typer.Option(help="stability, or accuracy.")] = None,
    delta: Annotated[float | None, typer.Option(help="Largest total delta per record to accept; 0: pure only.")] = None,
    max_epsilon: options.MaxEpsilon = None,
    at_most_sure: options.AtMostSure = None,
    title: Annotated[str | None, typer.Option(help="The page's title; default: the question that it answers.")] = None,
    purpose: Annotated[str | None, typer.Option(help="What the page is made for, in a sentence.")] = None,
    author: Annotated[str | None, typer.Option(help="Who makes the page.")] = None,
) -> None:
    """Write a result as a page.

    One file, which asks for nothing and can be sent to anyone who may see the table.
    """
    from epsworth.report import Heading
    from epsworth.report import report as page_of

    options.check_page(output)
    options.check_choice(0.9 if at_least is None else at_least, of or "stability", delta, max_epsilon, at_most_sure)
    view = None if on is None else options.view_asked(on)
    page_of(
        result, at_least=at_least, on=view, of=of, delta=delta, max_epsilon=max_epsilon, at_most_sure=at_most_sure,
        heading=Heading(title, purpose, author),
    ).save(output)  # fmt: skip
    options.tell_page(output)


def command_line() -> str:
    """Return the command that is running, as it can be given again."""
    return shlex.join(["epsworth", *sys.argv[1:]])


def write_page(
    path: Path, document: Mapping[str, Any], curves: Curves, requested: Mapping[str, Any],
    around: Panels | None, loaded: asking.Inputs | None,
) -> None:  # fmt: skip
    """Write what --report asks for: the page of what --json writes, with the command that made it and what it read."""
    from epsworth.report.result import answer_page

    # of saved curves nothing is known of what was read: it was not this run
    origins = {} if loaded is None else {**loaded.origins, "Versions": in_a_line(versions())}
    answer_page(document, curves, requested, around, command=command_line(), origins=origins).save(path)


def panels_for(
    given: Mapping[str, Any], asked: asking.Inputs, curves: Curves, question: Any, found: Recommendation | None
) -> tuple[Panels | None, bool]:
    """Return what a page shows beside curves, where it is asked for, and whether Ctrl-C has cut that short.

    A run that was to end early ends; a service is not asked again.
    """
    from epsworth.utility.panels import panels_of

    address = is_address(given.get("model") or given.get("source"))
    free = not (address or curves.stopped or given["within_seconds"] is not None)
    try:
        with options.progress_bar("looking around one record") as progress:
            around = panels_of(
                curves, question, asked.frame, found=found, ask_model=free, rng=given["seed"], progress=progress
            )
        return replace(around, declared=not given["domain_from_data"]), False
    except KeyboardInterrupt:
        return None, True


def write_document_page(path: Path | None, document: dict[str, Any]) -> None:
    """Write what --report asks for: the page of what --json writes, with the command that made it."""
    from epsworth.report import report

    if path is not None:
        report(document, command=command_line()).save(path)
