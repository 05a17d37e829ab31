"""From a table of people to rows in the unit ball: numbers standardised, categories one-hot, a constant, one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.coverage.glm import CoverageError
from epsworth.headers import shown_name, shown_names
from epsworth.records import as_records
from epsworth.values import is_missing

MOST_CATEGORIES = 200
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
    >>> from epsworth.coverage import encode
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
    CoverageError
        For a target that is not there or has other than two values, and for missing values, by row.

    Examples
    --------
    >>> import polars as pl
    >>> from epsworth.coverage import encode
    >>> found = encode(pl.DataFrame({"age": [20, 30, 70], "sex": ["f", "m", "f"], "sick": [0, 0, 1]}), "sick")
    >>> found.names, found.y
    (('age', 'sex=f', 'sex=m', '(constant)'), array([-1., -1.,  1.]))
    """
    records = as_records(table)
    if target not in records.names:
        raise CoverageError(f"target: the table has no column {target!r}; {shown_names(records.names)}")
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
    absent = _missing(column)
    if absent.any():
        raise CoverageError(f"target {name!r}, row {int(absent.argmax())} has no label; fill or drop it first")
    labels = column.tolist()
    different = set(labels)
    if len(different) != 2:
        raise CoverageError(
            f"target {name!r} must hold two different labels, got {len(different)}; give a binary target"
        )
    try:
        positive = max(different)
    except TypeError:  # of two kinds
        positive = max(different, key=lambda label: (str(label), type(label).__name__))
    return np.array([1.0 if label == positive else -1.0 for label in labels]), str(positive)


def _column(column: NDArray[Any], name: str, given: Sequence[str]) -> tuple[Floats, list[str]]:
    absent = _missing(column)
    truths = column.dtype == object and {type(value) for value in column[~absent]} <= {bool, np.bool_}
    if column.dtype.kind in "biuf" or truths:
        if absent.any():
            row, shown = int(absent.argmax()), shown_name(name, given)
            raise CoverageError(f"column {shown}, row {row} is missing; fill or drop it first")
        values = as_floats(column)
        largest = float(np.abs(values).max())
        values = values / largest if largest >= SMALLEST else values / SMALLEST  # neither squares nor sums overflow
        spread = float(values.std())
        if spread <= 1e-12 * float(np.abs(values).max()):
            return np.zeros((len(values), 0)), []
        return as_floats((values - values.mean()) / spread)[:, None], [name]
    texts = ["(missing)" if gap else str(value) for value, gap in zip(column.tolist(), absent.tolist(), strict=True)]
    values, codes = np.unique(texts, return_inverse=True)
    if len(values) > MOST_CATEGORIES:
        shown = shown_name(name, given)
        raise CoverageError(
            f"column {shown} has {len(values)} different texts; drop it, or group them into {MOST_CATEGORIES} at most"
        )
    return as_floats(codes[:, None] == np.arange(len(values))), [f"{name}={value}" for value in values]


def _missing(column: NDArray[Any]) -> Bools:
    if column.dtype.kind == "f":
        return np.asarray(~np.isfinite(column))
    if column.dtype.kind in "mM":
        return np.asarray(np.isnat(column))
    return np.array([is_missing(value) for value in column] if column.dtype == object else [False] * len(column))
