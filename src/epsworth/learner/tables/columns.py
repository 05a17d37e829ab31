"""Columns of a real table, how a record is coded, and what a bit may tell of it: rows, drawn by weight.

A row is a sign over the bins of one column times a character of the label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.learner.coins import Ints
from epsworth.learner.encoding import Values, reverse, sequency
from epsworth.numerals import short

BITS = 32  # a number's place in its range, of 2^32
BINS, FINE = 8, 32  # bins of a number: of the tables, and of the round that asks for quantiles
MOST_VALUES = 256  # of a category
Knots = tuple[int, ...]  # of a monotone map of 32 equal parts of the range, in 2^-32
EVEN: Knots = tuple(k << (BITS - 5) for k in range(FINE + 1))
CLASS_ONLY = -1  # the column of rows that tell of the label alone
UNIT = 1024  # weight of a row of order 1


@dataclass(frozen=True)
class Number:
    """A number: its ``name``, its public range ``low`` to ``high`` in natural units, never taken from the data.

    A value outside is moved to the nearer end.  With ``missing`` there may be no value; then it is asked who has one,
    too.  Ends that are not finite, or not in order, are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import Number
    >>> Number("age", 0, 100).place(np.array([50.0, -3.0, np.nan])).tolist()
    [2147483648, 0, 0]
    """

    name: str
    low: float
    high: float
    missing: bool = False

    def __post_init__(self) -> None:
        _check_name(self)
        for end in (self.low, self.high):
            if isinstance(end, bool) or not isinstance(end, (int, float, np.number)) or not math.isfinite(end):
                raise ValueError(f"column {self.name!r}: low and high must be finite numbers, got {short(end)}")
        low, high = float(self.low), float(self.high)
        if not (low < high and math.isfinite(high - low)):
            raise ValueError(f"column {self.name!r}: need finite low < high, got {low:g} and {high:g}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def bins(self) -> int:
        """How many bins its table has."""
        return BINS

    side = bins  # of the Walsh matrix over them

    def place(self, values: Floats) -> Ints:
        """Return where values lie in the range, in units of 2^-32 of it; 0 for NaN."""
        inside = np.where(np.isnan(values), self.low, np.minimum(np.maximum(values, self.low), self.high))
        share = (inside - self.low) / (self.high - self.low)
        return np.asarray(np.minimum(np.floor(share * 2.0**BITS), 2.0**BITS - 1), dtype=np.int64)


@dataclass(frozen=True)
class Category:
    """A category: its ``name`` and two to 256 public ``values``, all texts or all numbers, each of them once.

    A value that is not declared is no value: its user tells nothing about this column.  With ``missing`` there may be
    no value; then it is asked who has one, too.

    Examples
    --------
    >>> from epsworth.learner import Category
    >>> job = Category("job", ("none", "clerk", "nurse"))
    >>> job.bins, job.side, job.number("nurse"), job.number("king")
    (3, 4, 2, -1)
    """

    name: str
    values: Any
    missing: bool = False

    def __post_init__(self) -> None:
        from epsworth.learner.config import checked_classes

        _check_name(self)
        try:
            found = checked_classes(self.values)
        except ValueError as error:
            raise ValueError(f"column {self.name!r}: {str(error).replace('classes', 'values', 1)}") from None
        if len(found) > MOST_VALUES:
            raise ValueError(
                f"column {self.name!r}: at most {MOST_VALUES} values, got {len(found)}; put rare ones together"
            )
        object.__setattr__(self, "values", found)

    @property
    def bins(self) -> int:
        """How many values there are."""
        return len(self.values)

    @property
    def side(self) -> int:
        """Side of the Hadamard matrix over the values."""
        return 1 << (self.bins - 1).bit_length()

    @cached_property
    def known(self) -> Values:
        """Which value an entry of a record is."""
        return Values(self.values)

    def number(self, value: Any) -> int:
        """Return the position of a value, -1 for any other."""
        return self.known.position(value)


Column = Number | Category


class Records(NamedTuple):
    """Coded users: places of numbers, positions of categories ``(n, d)``, what is known, labels (-1: undeclared)."""

    place: Ints
    known: Bools
    label: Ints

    def part(self, users: slice | Ints) -> Records:
        """Return some of the users."""
        return Records(self.place[users], self.known[users], self.label[users])


def fine_bins(place: Ints) -> Ints:
    """Return the 32 equal bins of places."""
    return np.asarray(place >> (BITS - 5))


def bins_of(place: Ints, knots: Knots) -> Ints:
    """Return the bins of places: eight equal parts of the image of the map that the knots give, in integers."""
    at, rest = place >> (BITS - 5), place & ((1 << (BITS - 5)) - 1)
    edges = np.array(knots, dtype=np.int64)
    image = (edges[at] << (BITS - 5)) + rest * (edges[at + 1] - edges[at])  # below 2^59
    return np.asarray(np.minimum(image >> (2 * BITS - 5 - 3), BINS - 1))


def binned(columns: Sequence[Column], place: Ints, knots: Sequence[Knots | None] | None) -> Ints:
    """Return the bins of records' places ``(n, d)``: categories keep theirs, numbers without a map have even ones."""
    found = place.copy()
    for j, column in enumerate(columns):
        if not isinstance(column, Category):
            own = None if knots is None else knots[j]
            found[:, j] = bins_of(found[:, j], EVEN if own is None else own)
    return found


def checked_columns(columns: Any) -> tuple[Column, ...]:
    """Return declared columns; tables, as JSON holds them, are read."""
    if isinstance(columns, (str, Mapping)) or not isinstance(columns, Sequence) or not columns:
        raise ValueError(f"columns must be a list of Number and Category, got {short(columns)}")
    found = tuple(column_of(one) for one in columns)
    names = [column.name for column in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"columns: the name {twice!r} stands twice; rename one")
    return found


def column_of(entry: Any) -> Column:
    """Return a column; from a mapping with the same entries, too."""
    if isinstance(entry, (Number, Category)):
        return entry
    if not isinstance(entry, Mapping):
        raise ValueError(f"columns must be Number and Category, got {short(entry)}")
    kind = Category if "values" in entry else Number
    needed, given = {field.name for field in fields(kind)} - {"missing"}, set(entry) - {"missing"}
    if needed != given:
        raise ValueError(f"columns: a column has {', '.join(sorted(needed))}, and maybe missing, got {short(entry)}")
    return kind(**entry)


def column_told(column: Column) -> dict[str, Any]:
    """Return the JSON form."""
    told: dict[str, Any] = {"name": column.name}
    own = ("values",) if isinstance(column, Category) else ("low", "high")
    told |= {name: getattr(column, name) for name in own}
    return told | ({"missing": True} if column.missing else {})


def _check_name(column: Column) -> None:
    if not isinstance(column.name, str) or not column.name:
        raise ValueError(f"a column's name must be a text, got {short(column.name)}")
    if not isinstance(column.missing, bool):
        raise ValueError(f"column {column.name!r}: missing must be true or false, got {short(column.missing)}")


class Row(NamedTuple):
    """One row: a column, the order and the mask of its signs over bins, a character of the label, a whole weight."""

    column: int
    order: int
    mask: int
    character: int
    weight: int


class Rows:
    """Many rows as columns of integers; a user's row is drawn in proportion to its weight."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.column, self.order, self.mask, self.character, self.weight = (
            np.array(rows, dtype=np.int64).reshape(-1, 5).T
        )

    def __len__(self) -> int:
        return int(self.column.size)


def quantile_rows(columns: Sequence[Column]) -> Rows:
    """Return the dyadic Walsh characters of 32 equal bins: level l = 1..5 has 2^(l-1) rows, which share a fifth."""
    bits = FINE.bit_length() - 1
    return Rows(
        [
            Row(j, r, reverse(r, bits), 0, FINE >> r.bit_length())
            for j, column in enumerate(columns)
            if isinstance(column, Number)
            for r in range(1, FINE)
        ]
    )


def table_rows(columns: Sequence[Column], characters: int, orders: int, *, steep: bool) -> Rows:
    """Return the rows of the tables: (-, 0, c), then per column orders times characters.

    With two classes all but those without a character count twice; missing values have rows of order 0: who is present.
    """
    double = 2 if characters == 2 else 1
    found = [Row(CLASS_ONLY, 0, 0, c, double * UNIT) for c in range(1, characters)]
    for j, column in enumerate(columns):
        bits = column.side.bit_length() - 1
        last = column.side - 1 if isinstance(column, Category) else orders
        for order in range(0 if column.missing else 1, last + 1):
            mask = sequency(order, bits) if isinstance(column, Number) else order
            power = 1.5 if steep and isinstance(column, Number) else 0.5
            weight = int(UNIT / max(order, 1) ** power + 0.5)
            found += [Row(j, order, mask, c, (double if c else 1) * max(weight, 1)) for c in range(characters)]
    return Rows(found)
