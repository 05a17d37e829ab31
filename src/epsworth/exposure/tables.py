"""From a table of people to rows in the unit ball: numbers standardised, categories one-hot, a constant, one scale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats, as_floats
from epsworth.exposure.glm import ExposureError
from epsworth.exposure.sparse import MOST_COLUMNS, Slot, SparseRows
from epsworth.frames import coded_texts
from epsworth.headers import shown_name, shown_names
from epsworth.records import FrameRecords, Records, as_records
from epsworth.rounding import up
from epsworth.tables import read_columns
from epsworth.values import is_missing, items

MOST_CATEGORIES, FEWEST_EACH = 200, 1_000  # of a column; more only where a text stands for so many rows on average
MOST_DENSE = 1 << 25  # numbers, with zeros: 256 MiB
NESTED = (complex, bytes, list, tuple, dict, set, np.ndarray)
Category = tuple[bool, Any]
SMALLEST = 1e-307  # numbers are divided by the largest one, or by this: its inverse is finite


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows in the unit ball and labels.

    Attributes
    ----------
    X : ndarray or SparseRows of shape ``(n, d)``
        Rows of norm at most 1; sparse where they would take more than 256 MiB with their zeros.
    y : ndarray of shape ``(n,)``
        Labels -1/+1.
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

    X: Floats | SparseRows
    y: Floats
    names: tuple[str, ...]
    positive: str


def encode(table: Any, target: str) -> Encoded:
    """Return a table as rows in the unit ball.  The scales are read off the table: fit for analysis, not for a release.

    Numbers are centred and divided by their standard deviation (constant columns are dropped), categories become one
    column each, a constant column takes the intercept's place, and all is divided by the largest norm of a row.

    Parameters
    ----------
    table : data frame or path
        Any frame that narwhals knows, or a file: of Parquet one column is held at a time.
    target : str
        Column with two different values; the larger one (in alphabetical order for text) is +1.

    Raises
    ------
    ExposureError
        For a target that is not there or has other than two values, for missing and infinite numbers, by row, for
        columns of lists, structures, bytes or complex numbers, and for more categories than can be told apart.

    Examples
    --------
    >>> import polars as pl
    >>> from epsworth.exposure import encode
    >>> found = encode(pl.DataFrame({"age": [20, 30, 70], "sex": ["f", "m", "f"], "sick": [0, 0, 1]}), "sick")
    >>> found.names, found.y
    (('age', 'sex=f', 'sex=m', '(constant)'), array([-1., -1.,  1.]))
    """
    columns = columns_of(table)
    if target not in columns:
        raise ExposureError(f"target: the table has no column {target!r}; {shown_names(list(columns))}")
    labels, positive = _labels(columns.pop(target)(), f"target {target!r}")
    slots: list[Slot] = []
    titles: list[str] = []
    for name, column in columns.items():
        added = _slot(column(), name, len(titles), f"column {shown_name(name, [*columns, target])}")
        if added is not None:
            slots.append(added[0])
            titles += added[1]
        if len(titles) >= MOST_COLUMNS:
            raise ExposureError(
                f"with one column for every category of {shown_name(name, list(columns))} the table has "
                f"{len(titles):,} and more, at most {MOST_COLUMNS:,} can be told apart; drop it, or group its texts"
            )
    n, d = len(labels), len(titles) + 1
    rows = SparseRows((*slots, Slot(d - 1, 1, None, 1.0)), (n, d))
    longest = float(np.sqrt(rows.squares).max())
    X = rows.dense() / longest if n * d <= MOST_DENSE else rows.scaled(up(longest, ulps=len(slots) + 4))
    return Encoded(X, labels, (*titles, "(constant)"), positive)


@dataclass(frozen=True)
class Column:
    """One column of a table: its values, and, where they are texts, numbers of them."""

    records: Records
    position: int

    @cached_property
    def values(self) -> NDArray[Any]:
        """Values as measurements."""
        return self.records.column(self.position)

    @cached_property
    def texts(self) -> tuple[NDArray[Any], list[str | None]] | None:
        """Numbers of texts, and the texts, if the column's type is one of texts."""
        if not isinstance(self.records, FrameRecords):
            return None
        return coded_texts(self.records.frame.get_column(self.records.names[self.position]))

    @property
    def counts(self) -> bool:
        """Whether the column holds numbers, or truths."""
        if self.texts is not None:
            return False
        kinds = (
            {type(value) for value in self.values if not is_missing(value)} if self.values.dtype == object else set()
        )
        return self.values.dtype.kind in "biuf" or bool(self.values.dtype == object and kinds <= {bool, np.bool_})

    def coded(self, shown: str) -> tuple[NDArray[Any], list[Category]]:
        """Return a number for each value, and what tells the values apart: a truth is no number, a gap is None."""
        if self.texts is not None:
            return self.texts[0], [(False, text) for text in self.texts[1]]
        exact = self.records.exact(self.position)
        if exact.dtype.kind in "biuf" and not (exact.dtype.kind == "f" and np.isnan(exact).any()):
            kinds, codes = np.unique(exact, return_inverse=True)
            return codes, [(exact.dtype.kind == "b", kind) for kind in kinds.tolist()]
        different: dict[Category, int] = {}
        values = _kinds(exact, shown)
        codes = np.fromiter((different.setdefault(value, len(different)) for value in values), np.int64, len(values))
        return codes, list(different)


def columns_of(table: Any) -> dict[str, Callable[[], Column]]:
    """Return what gives each column of a table, or of a file."""
    if isinstance(table, (str, Path)):
        return {name: lambda read=read: Column(as_records(read()), 0) for name, read in read_columns(table).items()}  # type: ignore[misc]
    records = as_records(table)
    return {name: partial(Column, records, position) for position, name in enumerate(records.names)}


def _labels(column: Column, shown: str) -> tuple[Floats, str]:
    codes, different = column.coded(shown)
    gap = next((code for code, kind in enumerate(different) if kind[1] is None), None)
    if gap is not None:
        raise ExposureError(f"{shown}, row {int(np.argmax(codes == gap))} has no label; fill or drop it first")
    if column.texts is None:
        _refuse(column.values, shown, "has no label")
    if len(different) != 2:
        raise ExposureError(f"{shown} must hold two different labels, got {len(different)}; give a binary target")
    try:
        positive = max(different)
    except TypeError:  # of two kinds
        positive = max(different, key=lambda label: (str(label[1]), type(label[1]).__name__))
    return np.where(codes == different.index(positive), 1.0, -1.0), str(positive[1])


def _slot(column: Column, name: str, first: int, shown: str) -> tuple[Slot, list[str]] | None:
    """Return a column's entries, and the names of the columns that they fill; None for one that never changes."""
    if column.counts:
        _refuse(column.values, shown, "is missing")
        numbers = as_floats(column.values)
        largest = float(np.abs(numbers).max())
        numbers = numbers / largest if largest >= SMALLEST else numbers / SMALLEST  # neither squares nor sums overflow
        spread = float(numbers.std())
        if spread <= 1e-12 * float(np.abs(numbers).max()):
            return None
        return Slot(first, 1, None, as_floats((numbers - numbers.mean()) / spread)), [name]
    codes, different = column.coded(shown)
    most = max(MOST_CATEGORIES, len(codes) // FEWEST_EACH)
    if len(different) > most:
        raise ExposureError(f"{shown} has {len(different)} different texts; drop it, or group them into {most} at most")
    titles = _titles(set(different))
    places = {kind: place for place, kind in enumerate(titles)}
    codes = np.array([places[kind] for kind in different], dtype=np.min_scalar_type(len(titles)))[codes]
    return Slot(first, len(titles), codes, 1.0), [f"{name}={title}" for title in titles.values()]


def _kinds(column: NDArray[Any], shown: str) -> list[Category]:
    """Return what tells a column's values apart; refuse what is no single value.

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
