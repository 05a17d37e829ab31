"""From a table of people to rows in the unit ball: numbers standardised, categories one-hot, a constant, one scale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats, as_floats
from epsworth.exposure.glm import ExposureError
from epsworth.headers import shown_name, shown_names
from epsworth.records import as_records
from epsworth.values import is_missing, items

MOST_CATEGORIES = 200
NESTED = (complex, bytes, list, tuple, dict, set, np.ndarray)
Category = tuple[bool, Any]
SMALLEST = 1e-307  # numbers are divided by the largest one, or by this: its inverse is finite


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows in the unit ball and labels.

    Attributes
    ----------
    X, y : ndarray of shape ``(n, d)``, ``(n,)``
        Rows of norm at most 1; labels -1/+1.
    names : tuple of str
        What the columns of ``X`` are.
    positive : str
        The target's value that is +1.

    Examples
    --------
    >>> import polars as pl
    >>> from epsworth.exposure import encode
    >>> rows = encode(pl.DataFrame({"age": [20, 30, 70], "sex": ["f", "m", "f"], "sick": ["no", "no", "yes"]}), "sick")
    >>> rows.X.shape, rows.names, rows.positive
    ((3, 4), ('age', 'sex=f', 'sex=m', '(constant)'), 'yes')
    """

    X: Floats
    y: Floats
    names: tuple[str, ...]
    positive: str


def encode(table: Any, target: str) -> Encoded:
    """Return a table as rows in the unit ball.  The scales are read off the table: fit for analysis, not for a release.

    Numbers are centred and divided by their standard deviation (constant columns are dropped), categories become one
    column each, a constant column takes the intercept's place, and all is divided by the largest norm of a row.

    Parameters
    ----------
    table : data frame
        Any kind that narwhals knows.
    target : str
        Column with two different values; the larger one (in alphabetical order for text) is +1.

    Raises
    ------
    ExposureError
        For a target that is not there or has other than two values, for missing and infinite numbers, by row, and for
        columns of lists, structures, bytes or complex numbers.

    Examples
    --------
    >>> import polars as pl
    >>> from epsworth.exposure import encode
    >>> found = encode(pl.DataFrame({"age": [20, 30, 70], "sex": ["f", "m", "f"], "sick": [0, 0, 1]}), "sick")
    >>> found.names, found.y
    (('age', 'sex=f', 'sex=m', '(constant)'), array([-1., -1.,  1.]))
    """
    records = as_records(table)
    if target not in records.names:
        raise ExposureError(f"target: the table has no column {target!r}; {shown_names(records.names)}")
    labels, positive = _labels(records.exact(records.names.index(target)), target)
    blocks: list[Floats] = []
    names: list[str] = []
    for position, name in enumerate(records.names):
        if name != target:
            found, titles = _column(records.column(position), name, records.names)
            blocks.append(found)
            names += titles
    blocks.append(np.ones((len(records), 1)))
    X = np.concatenate(blocks, axis=1)
    return Encoded(as_floats(X / np.linalg.norm(X, axis=1).max()), labels, (*names, "(constant)"), positive)


def _labels(column: NDArray[Any], name: str) -> tuple[Floats, str]:
    labels = _kinds(column, f"target {name!r}")
    _refuse(column, f"target {name!r}", "has no label")
    different = set(labels)
    if len(different) != 2:
        raise ExposureError(
            f"target {name!r} must hold two different labels, got {len(different)}; give a binary target"
        )
    try:
        positive = max(different)
    except TypeError:  # of two kinds
        positive = max(different, key=lambda label: (str(label[1]), type(label[1]).__name__))
    return np.array([1.0 if label == positive else -1.0 for label in labels]), str(positive[1])


def _column(column: NDArray[Any], name: str, given: Sequence[str]) -> tuple[Floats, list[str]]:
    shown = f"column {shown_name(name, given)}"
    truths = column.dtype == object and {type(value) for value in column if not is_missing(value)} <= {bool, np.bool_}
    if column.dtype.kind in "biuf" or truths:
        _refuse(column, shown, "is missing")
        values = as_floats(column)
        largest = float(np.abs(values).max())
        values = values / largest if largest >= SMALLEST else values / SMALLEST  # neither squares nor sums overflow
        spread = float(values.std())
        if spread <= 1e-12 * float(np.abs(values).max()):
            return np.zeros((len(values), 0)), []
        return as_floats((values - values.mean()) / spread)[:, None], [name]
    kinds = _kinds(column, shown)
    titles = _titles(set(kinds))
    if len(titles) > MOST_CATEGORIES:
        raise ExposureError(
            f"{shown} has {len(titles)} different texts; drop it, or group them into {MOST_CATEGORIES} at most"
        )
    places = {kind: place for place, kind in enumerate(titles)}
    codes = np.array([places[kind] for kind in kinds])
    return as_floats(codes[:, None] == np.arange(len(titles))), [f"{name}={title}" for title in titles.values()]


def _kinds(column: NDArray[Any], shown: str) -> list[Category]:
    """Return what tells a column's values apart: a truth is no number, a gap is None; refuse what is no single value.

    Libraries' columns of lists and structures are read as empty lists.
    """
    values = [None if is_missing(value) else value for value in column.tolist()]
    if any(isinstance(value, NESTED) for value in values):
        raise ExposureError(
            f"{shown} holds lists, structures, bytes or complex numbers; drop it, or give texts or numbers"
        )
    return [(isinstance(value, (bool, np.bool_)), value) for value in values]


def _titles(kinds: set[Category]) -> dict[Category, str]:
    """Return categories in alphabetical order by name, quoted where it would be that of another one, or not show."""
    told = {kind: "(missing)" if kind[1] is None else str(kind[1]) for kind in kinds}
    often = Counter(told.values())
    return {
        kind: told[kind] if kind[1] is None or (often[told[kind]] == 1 and told[kind].isprintable()) else repr(kind[1])
        for kind in sorted(kinds, key=lambda kind: (told[kind], repr(kind[1])))
    }


def _refuse(column: NDArray[Any], shown: str, why: str) -> None:
    """Refuse gaps, and numbers that are not finite, by row."""
    if column.dtype.kind == "f" and np.isinf(column).any():
        row, why = int(np.isinf(column).argmax()), "is not finite, or too large for a double"
    else:
        absent = [is_missing(value) for value in items(column)]
        if not any(absent):
            return
        row = absent.index(True)
    raise ExposureError(f"{shown}, row {row} {why}; fill or drop it first")
