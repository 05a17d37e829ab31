"""``epsworth init``: draft the file of public ranges that everything else starts from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth import inputs
from epsworth.cli import options, show
from epsworth.numerals import short

if TYPE_CHECKING:
    from epsworth.space import Feature

MOST_CATEGORIES = 100
DRAFT = """\
# Public ranges of the sensitive features: what anybody could know of them without this table.
"""
LEAK = """\
{draft}: {names}.
# Extreme values and rare categories of real people stand below, and every policy made from this file shows them.
# Replace them by ranges that are public knowledge, then delete these three lines.
"""


def init(
    table: options.Table,
    sensitive: Annotated[list[str] | None, options.PERTURBED] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .toml file to write.")] = Path("ranges.toml"),
    draft: Annotated[
        bool, typer.Option("--draft", help="Ask nothing: take the ranges from the table, and say that this leaks.")
    ] = False,
    sep: options.Sep = ",",
) -> None:
    """Draft the public ranges of the sensitive features.

    Each is asked for, unless --draft takes them from the table.
    """
    from epsworth.files import check_writable, write_text
    from epsworth.space import DRAFT_MARK, Domain
    from epsworth.tables import column, read_table
    from epsworth.values import written

    check_writable(output)
    if output.suffix != ".toml":
        raise ValueError(f"--output must end in .toml, got {output}")
    if output.exists():
        raise ValueError(f"{output} exists; name another file with --output, or move it away")
    if not draft and (not sys.stdin.isatty() or str(table) == "-"):
        raise ValueError(
            "init asks questions, and standard input is no terminal; run it in one, write the ranges by hand (a table "
            "[features.NAME] with lower and upper), or give --draft, which leaks"
        )
    frame = read_table(table, sep=sep)
    words = options.split_commas(sensitive or [], frame.columns)
    if not words and draft:
        raise ValueError("--sensitive is missing; name the features that users perturb")
    names = [inputs.column_named(word, frame.columns) for word in words or _asked_names(frame.columns)]
    columns = [column(frame, name) for name in names]
    features = [
        _with_gaps(inputs.with_whole_numbers(_declared(name, one, draft=draft), one), one, draft=draft)
        for name, one in zip(names, columns, strict=True)
    ]
    head = DRAFT + (LEAK.format(draft=DRAFT_MARK, names=", ".join(map(str, names))) if draft else "")
    write_text(output, head + "\n" + Domain(tuple(features)).to_toml())
    out = show.console()
    out.print(f"Wrote {output}: {', '.join(map(str, names))}.", markup=False)
    for one in features:
        if one.missing is not None:
            out.print(f"Gaps in {one.name} are read as {written(one.missing)}.", markup=False)
    if draft:
        print(
            f"epsworth: warning: {output} holds extreme values of the table, which no mechanism protects; replace them "
            "by public ranges before anybody else sees it",
            file=sys.stderr,
        )
    chosen = ",".join(map(str, names))
    show.suggest("utility", "MODEL", table, "-s", chosen, "--domain", output, why="what each epsilon keeps")


def _declared(name: Any, column: Any, *, draft: bool) -> Feature:
    """Return a feature as it is asked for, or seen; of truths there is nothing to ask."""
    from epsworth.space import Feature

    if column.dtype.to_python() is bool:
        return Feature(name, categories=(False, True))
    return (_seen if draft else _asked)(name, column)


def _with_gaps(feature: Feature, column: Any, *, draft: bool) -> Feature:
    """Let a value that is public stand for gaps, where the column has some: that proposed, unless another is given.

    A word that is none of the categories becomes one.
    """
    from dataclasses import replace

    from epsworth.utility.gaps import proposed
    from epsworth.values import written

    if not feature.gaps(column.to_numpy()).any():
        return feature
    value = proposed(feature)
    while not (draft or isinstance(value, bool)):
        try:
            own = " (a new word becomes a category of its own)" if isinstance(value, str) else ""
            told = typer.prompt(f"{feature.name}: what a gap is read as{own}", default=(usual := written(value)))
            told = str(told).strip() or usual
            if feature.categories is None:
                return replace(feature, missing=_number(told))
            return replace(feature, categories=tuple(dict.fromkeys((*feature.categories, told))), missing=told)
        except ValueError as error:
            typer.echo(f"{error}; again:")
    return replace(feature, missing=value)


def _asked_names(columns: list[str]) -> list[str]:
    typer.echo(f"The table has the columns {', '.join(columns)}.")
    answer = typer.prompt("Which of them do users perturb (separated by commas)")
    return options.split_commas([answer], columns)


def _asked(name: Any, column: Any) -> Feature:
    """Ask for a feature's public range or categories until they are ones; nothing of the table is shown."""
    from epsworth.space import Feature

    while True:
        try:
            if not column.dtype.is_numeric():
                words = typer.prompt(f"{name}: all values that anybody could have (separated by commas)")
                return Feature(name, categories=tuple(word.strip() for word in words.split(",") if word.strip()))
            lower = typer.prompt(f"{name}: the least value that anybody could have")
            upper = typer.prompt(f"{name}: the largest value that anybody could have")
            return Feature(name, _number(lower), _number(upper))
        except ValueError as error:
            typer.echo(f"{error}; again:")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"it must be a number, as in 0.9, got {short(text)}") from None


def _seen(name: Any, column: Any) -> Feature:
    """Take a feature's range or categories from the table."""
    from epsworth.space import Feature

    present = column.drop_nulls()
    if present.len() == 0:
        raise ValueError(f"the column {name!r} holds no value; leave it out, or answer the questions without --draft")
    if present.dtype.is_numeric():
        low, high = float(present.min()), float(present.max())
        return Feature(name, low, high if high > low else low + 1)
    found = sorted(map(str, present.unique().to_list()))
    if not 2 <= len(found) <= MOST_CATEGORIES:
        raise ValueError(
            f"the column {name!r} holds {len(found)} different texts, and 2 to {MOST_CATEGORIES} can be categories; "
            "leave it out"
        )
    return Feature(name, categories=tuple(found))
