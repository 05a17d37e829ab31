"""Gaps in sensitive columns: counted, and refused where nothing stands for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.headers import looks_like_header, shown_name
from epsworth.lines import place
from epsworth.sources import first_line
from epsworth.space import Feature
from epsworth.values import spelling, written

BARE = re.compile(r"[A-Za-z0-9_-]+")  # keys that TOML takes without quotes


def check_gaps(
    features: Sequence[Feature],
    columns: Sequence[ArrayLike],
    names: Sequence[str],
    table: str | Path | None = None,
    *,
    declared: bool = True,
) -> None:
    """Refuse a column with gaps for which its feature says nothing: how many, where, and what to do.

    Parameters
    ----------
    features : sequence of Feature
    columns : sequence of array_like
        Their values.
    names : sequence of str
        All columns of the table: none is shown where they look like a record.
    table : str or Path, optional
        The file; a record of CSV is a line.
    declared : bool
        False where nobody declared the features' ranges: these come first.

    Examples
    --------
    >>> check_gaps([Feature("bmi", 15, 60)], [[22.5, None]], ["age", "bmi"], "test.csv")
    Traceback (most recent call last):
    ValueError: 1 of 2 rows lack bmi (first: data row 1, line 3 of test.csv). Add `missing = 37.5` under \
[features.bmi], or drop them.
    """
    for feature, column in zip(features, columns, strict=True):
        if feature.missing is None and (gaps := feature.gaps(column)).any():
            result, row = f"{int(gaps.sum()):,} of {len(gaps):,} rows", int(np.argmax(gaps))
            shown = feature.name if looks_like_header(names) else shown_name(feature.name, names)
            remedy = _remedy(feature, shown, table) if declared else _ranges_first(table)
            where = f"row {row}" if table is None else place(row, table, first_line(table))
            raise ValueError(f"{result} lack {shown} (first: {where}). {remedy}")


def check_for_box(features: Sequence[Feature], columns: Sequence[NDArray[Any]]) -> None:
    """Refuse one record around which no box can be: its values must be there, of features with continuous laws."""
    for feature, column in zip(features, columns, strict=True):
        if feature.categories is not None:
            raise ValueError("a sensitive feature is categorical, and a box needs ranges; leave it out")
        if feature.gaps(column).any():
            raise ValueError(f"x lacks {feature.name}, and a box lies around a value; leave the feature out")


def note_of_gaps(features: Sequence[Feature]) -> tuple[str, ...]:
    """Say what stands for gaps, where that is declared."""
    told = [f"{one.name} = {_written(one.missing)}" for one in features if one.missing is not None]
    if not told:
        return ()
    return (f"gaps are read as {', '.join(told)} and perturbed; the label to keep is that of the record with its gap",)


def _remedy(feature: Feature, shown: str, table: str | Path | None) -> str:
    """Propose what is public: the middle of the range, or a category."""
    value = _written(proposed(feature))
    if table is None:
        return f'Add "missing": {value} to what the domain declares of {shown}, or drop them.'
    key = feature.name if BARE.fullmatch(feature.name) else f'"{feature.name}"'
    section = f"[features.{key}]" if shown == feature.name else "its section of the domain"
    return f"Add `missing = {value}` under {section}, or drop them."


def _ranges_first(table: str | Path | None) -> str:
    if table is None:
        return 'Declare the public ranges by domain, with "missing" for what stands for a gap, or drop them.'
    return (
        "Declare the public ranges by --domain, in a file that epsworth init drafts, with missing for what stands for "
        "a gap, or drop them."
    )


def proposed(feature: Feature) -> Any:
    """Return what may stand for gaps, from what is declared: the middle of a range, or the last category."""
    if feature.categories is not None:
        return feature.categories[-1]
    middle = feature.lower + (feature.upper - feature.lower) / 2
    return float(np.floor(middle)) if feature.integer else middle


def _written(value: Any) -> str:
    """Return a value as TOML and JSON write it."""
    return f'"{value}"' if isinstance(value, str) else spelling(written(value))
