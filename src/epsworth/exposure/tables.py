"""From a table of people to rows in the unit ball: numbers standardised, categories one-hot, a constant, one scale.

And what the most exposed rows have in common: values of columns that are more frequent among them than among all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.exposure.glm import ExposureError
from epsworth.exposure.inputs import NotPrivate, finite, numbers, share, whole
from epsworth.exposure.sparse import MOST_COLUMNS, Slot, SparseRows
from epsworth.frames import coded_texts, is_categorical
from epsworth.headers import shown_name, shown_names
from epsworth.records import FrameRecords, Records, as_records
from epsworth.rounding import up
from epsworth.tables import read_columns
from epsworth.values import is_missing, items

MOST_CATEGORIES, FEWEST_EACH = 200, 1_000  # of a column; more only where a text stands for so many rows on average
MOST_DENSE = 1 << 25  # numbers, with zeros: 256 MiB
NESTED = (complex, bytes, list, tuple, dict, set, np.ndarray)
Category = tuple[bool, Any]
BINS = 10  # ranges of a column of numbers, with as many rows each
LEAST_SHARE, LEAST_LIFT = 0.1, 1.5  # of the exposed rows, and over the share of all rows: what is worth a word
SMALLEST = 1e-307  # numbers are divided by the largest one, or by this: its inverse is finite


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows in the unit ball and labels.

    Attributes
    ----------
    X : ndarray or SparseRows of shape ``(n, d)``
        Rows of norm at most 1; sparse where they would take more than 256 MiB with their zeros.
    y : ndarray of shape ``(n,)``
        Labels -1/+1; of more than two their numbers.
    names : tuple of str
        What the columns of ``X`` are.
    labels : tuple of str
        The target's values, in order.

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
    labels: tuple[str, ...]

    @property
    def positive(self) -> str:
        """The target's value that is +1."""
        return self.labels[-1]


def encode(table: Any, target: str, *, constant: bool = True, multiclass: bool = False) -> Encoded:
    """Return a table as rows in the unit ball.  The scales are read off the table: fit for analysis, not for a release.

    Numbers are centred and divided by their standard deviation (constant columns are dropped), categories become one
    column each, a constant column takes the intercept's place, and all is divided by the largest norm of a row.

    Parameters
    ----------
    table : data frame or path
        Any frame that narwhals knows, or a file: of Parquet one column is held at a time.
    target : str
        Column with two different values; the larger one (in alphabetical order for text) is +1.
    constant : bool
        Append the constant column; leave it out beside a free intercept (``fit_intercept`` of `fit_base`).
    multiclass : bool
        Take more than two values, too.

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
    labels, kinds = _labels(columns.pop(target)(), f"target {target!r}", multiclass)
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
    if constant:
        slots.append(Slot(len(titles), 1, None, 1.0))
        titles.append("(constant)")
    if not titles:
        raise ExposureError("the table has no column that changes from row to row; give some beside the target")
    n, d = len(labels), len(titles)
    rows = SparseRows(tuple(slots), (n, d))
    longest = float(np.sqrt(rows.squares).max())
    X = rows.dense() / longest if n * d <= MOST_DENSE else rows.scaled(up(longest, ulps=len(slots) + 4))
    return Encoded(X, labels, tuple(titles), kinds)


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
    def declared(self) -> bool:
        """Whether the column's type is one of categories, be they numbers."""
        frame = self.records.frame if isinstance(self.records, FrameRecords) else None
        return frame is not None and is_categorical(frame.get_column(self.records.names[self.position]))

    @property
    def counts(self) -> bool:
        """Whether the column holds numbers, or truths."""
        if self.texts is not None or self.declared:
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


def _labels(column: Column, shown: str, multiclass: bool) -> tuple[Floats, tuple[str, ...]]:
    codes, different = column.coded(shown)
    gap = next((code for code, kind in enumerate(different) if kind[1] is None), None)
    if gap is not None:
        raise ExposureError(f"{shown}, row {int(np.argmax(codes == gap))} has no label; fill or drop it first")
    if column.texts is None:
        _refuse(column.values, shown, "has no label")
    if len(different) < 2 or (len(different) > 2 and not multiclass):
        raise ExposureError(f"{shown} must hold two different labels, got {len(different)}; give a binary target")
    try:
        ordered = sorted(different)
    except TypeError:  # of two kinds
        ordered = sorted(different, key=lambda label: (str(label[1]), type(label[1]).__name__))
    numbers = np.array([ordered.index(kind) for kind in different], dtype=np.float64)[codes]
    return 2 * numbers - 1 if len(different) == 2 else numbers, tuple(str(kind[1]) for kind in ordered)


def _slot(column: Column, name: str, first: int, shown: str) -> tuple[Slot, list[str]] | None:
    """Return a column's entries, and the names of the columns that they fill; None for one that never changes."""
    if column.counts:
        _refuse(column.values, shown, "is missing")
        numbers = as_floats(column.values)
        largest = float(np.abs(numbers).max())
        numbers = numbers / largest if largest >= SMALLEST else numbers / SMALLEST  # neither squares nor sums overflow
        spread = float(numbers.std())
        if spread <= 1e-12 * float(np.abs(numbers).max()):
            if len(set(column.records.exact(column.position).tolist())) > 1:
                raise ExposureError(
                    f"{shown} holds numbers that differ by less than 1e-12 of their size; subtract what they share, "
                    "or drop it"
                )
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


@dataclass(frozen=True)
class Group(NotPrivate):
    """A value, or a range of numbers, of a column.

    Attributes
    ----------
    column, value : str
        What the rows have in common.
    of_exposed, of_all : float
        Its share of the most exposed rows, and of all rows.

    Examples
    --------
    >>> from epsworth.exposure import Group
    >>> print(Group("job", "smith", 0.8, 0.1))
    job = smith: 80 % of the most exposed rows, 10 % of all
    """

    column: str
    value: str
    of_exposed: float
    of_all: float

    def __str__(self) -> str:
        return f"{self.column} = {self.value}: {100 * self.of_exposed:.3g} % of the most exposed rows, " + (
            f"{100 * self.of_all:.3g} % of all"
        )


def exposed_groups(
    table: Any, exposure: ArrayLike, *, without: str | None = None, part: float = 0.05, most: int = 5
) -> list[Group]:
    """Return what the most exposed rows of a table have in common, the most telling first; not private.

    Parameters
    ----------
    table : data frame or path
        As in `encode`.
    exposure : array_like of shape ``(n,)``
        Of each row, from `Window.exposure`, `Moves.distances` or `Memorisation.estimates`.
    without : str, optional
        A column that is left out.
    part : float
        Share of the rows that counts as the most exposed; rows that are as exposed as the last of them count, too,
        unless that doubles it: then none of those do.
    most : int
        How many groups to return.

    Raises
    ------
    ExposureError
        For exposures of another number of rows, and a column to leave out that is not there.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from epsworth.exposure import exposed_groups
    >>> table = pl.DataFrame({"job": ["clerk"] * 90 + ["smith"] * 10, "age": list(range(100))})
    >>> for group in exposed_groups(table, np.r_[np.zeros(90), np.ones(10)]):
    ...     print(group)
    age = 90 to 99: 100 % of the most exposed rows, 10 % of all
    job = smith: 100 % of the most exposed rows, 10 % of all
    """
    part, most, largest = share("part", part), whole("most", most, 0), np.finfo(np.float64).max
    of_row = finite(np.minimum(numbers(exposure, "exposure"), largest), "exposure", (None,))  # inf: no model without it
    top = _most_exposed(of_row, math.ceil(part * len(of_row)))
    found: list[tuple[float, Group]] = []
    columns = columns_of(table)
    if without is not None and without not in columns:
        raise ExposureError(f"without: the table has no column {without!r}; {shown_names(list(columns))}")
    for name, column in columns.items():
        if name == without:
            continue
        codes, titles = _binned(column(), name)
        if len(codes) != len(of_row):
            raise ExposureError(f"exposure must have one number for each of {len(codes)} rows, got {len(of_row)}")
        if not top.any():
            continue
        exposed, all_ = (np.bincount(some, minlength=len(titles)) / len(some) for some in (codes[top], codes))
        for code in np.flatnonzero((exposed >= LEAST_SHARE) & (exposed >= LEAST_LIFT * all_)).tolist():
            telling = float(exposed[code] * np.log(exposed[code] / all_[code]))
            found.append((-telling, Group(name, titles[code], float(exposed[code]), float(all_[code]))))
    return [group for _, group in sorted(found, key=lambda one: (one[0], one[1].column))[:most]]


def _most_exposed(of_row: Floats, size: int) -> Bools:
    """Return which rows are exposed the most, equals with them; without those of the cut where they are too many."""
    cut = np.sort(of_row)[-size] if size else np.inf
    top = of_row >= cut
    return np.array(top if top.sum() <= 2 * size else of_row > cut)


def _binned(column: Column, name: str) -> tuple[NDArray[Any], list[str]]:
    """Return a number for each row, and what the numbers stand for: texts, or ranges with about as many rows each."""
    if not column.counts:
        codes, kinds = column.coded(f"column {name!r}")
        titles = ["(missing)" if kind[1] is None else str(kind[1]) for kind in kinds]
        order = np.argsort(np.array(titles, dtype=object), kind="stable")  # that of the rows would show
        return np.argsort(order)[codes], [titles[place] for place in order]
    values = as_floats(column.values)
    known = values[np.isfinite(values)]
    steps = np.linspace(0, 1, BINS, endpoint=False)
    ends = np.unique(np.quantile(known, steps, method="higher")) if len(known) else np.zeros(1)
    codes = np.where(np.isfinite(values), np.clip(np.searchsorted(ends, values, side="right") - 1, 0, None), len(ends))
    ranges = []
    for code, low in enumerate(ends.tolist()):
        inside = known[(known >= low) & (known < (ends[code + 1] if code + 1 < len(ends) else math.inf))]
        high = float(inside.max()) if len(inside) else low
        ranges.append(f"{low:g}" if high == low else f"{low:g} to {high:g}")
    return codes, [*ranges, "(missing)"]
