"""The columns that a copy sees, on public grids: a total function from whatever a record holds to a place.

Nothing here is raised, or depends on anything but the value itself: what a value is must not show in whether a record
is refused, nor in what is said of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.exact.table import MOST_BITS
from epsworth.laws.grid import nearest_index
from epsworth.numerals import exact_decimal
from epsworth.records import Records
from epsworth.release.copies import Indices, Input
from epsworth.release.rules import BITS
from epsworth.space import Feature

_OF_NUMPY = frozenset(np.sctypeDict.values())
NUMBERS = frozenset({int, float, Decimal, Fraction}) | {
    kind for kind in _OF_NUMPY if issubclass(kind, (np.integer, np.floating)) and not issubclass(kind, np.timedelta64)
}
"""Exact types: what others answer when they are asked what they are is code of their own, which may raise."""
MOST_POINTS = 1 << 20
WORDS = NUMBERS | {str, bool, np.str_, np.bool_}
PLAIN = "fiu"  # kinds of arrays whose values are numbers all


@dataclass(frozen=True)
class Grid:
    """The places of a record's column: evenly spaced numbers of its public range, or its categories.

    Attributes
    ----------
    feature : Feature
        With ``points``, the grid has so many places, else 2^bits.
    bits : int
    missing : float or category
        What stands for whatever is no finite number, or for a category that is not there.
    outside : category, optional
        What stands for undeclared categories; numbers are clamped.
    """

    feature: Feature
    bits: int = BITS
    missing: Any = None
    outside: Any = None

    def __post_init__(self) -> None:
        feature, categories = self.feature, self.feature.categories
        if isinstance(self.missing, np.generic):
            object.__setattr__(self, "missing", self.missing.item())
        if categories is None:
            if isinstance(self.bits, bool) or not isinstance(self.bits, int) or not 1 <= self.bits <= MOST_BITS:
                raise ValueError(f"bits: must be a whole number from 1 to {MOST_BITS}, got {self.bits!r}")
            if self.outside is not None:
                raise ValueError("outside: numbers outside the range are clamped; leave it out")
            if feature.points is not None and feature.points > MOST_POINTS:
                raise ValueError(f"points: must be at most {MOST_POINTS} where a copy looks; leave it out, for bits")
            if isinstance(self.missing, bool) or not isinstance(self.missing, (int, float, Decimal)):
                raise ValueError(f"missing: must be a number of the range that stands for it, got {self.missing!r}")
            missing = float(exact_decimal("missing", self.missing))
            if not feature.lower <= missing <= feature.upper:
                raise ValueError(f"missing: must lie in {feature.lower:g} to {feature.upper:g}, got {missing:g}")
            object.__setattr__(self, "missing", missing)
            return
        for key in ("missing", "outside"):
            if (value := getattr(self, key)) not in categories:
                raise ValueError(
                    f"{key}: must be one of the categories, got {value!r}; say which stands for such values"
                )

    @property
    def name(self) -> str:
        """The column's name."""
        return self.feature.name

    @property
    def input(self) -> Input:
        """What a copy knows of the column."""
        categories = self.feature.categories
        return Input(
            (self.feature.points or 1 << self.bits) if categories is None else len(categories), categories is None
        )

    @cached_property
    def values(self) -> NDArray[Any]:
        """The natural values at all places, in order: what leaves a client."""
        places = self.input.places
        return self.feature.from_unit(np.arange(places) / (places - 1), points=places if self.input.ordered else None)

    def place(self, value: Any) -> int:
        """Return the place of one value, whatever it is."""
        return int(self.places([value])[0])

    def places(self, column: Any) -> Indices:
        """Return the places of values, shape ``(n,)``, whatever they are; an array of numbers, or any values."""
        with np.errstate(all="ignore"):  # of signalling NaNs, of what is too large or small
            return self._places(column)

    def _places(self, column: Any) -> Indices:
        if type(column) is np.ndarray and column.ndim == 1 and column.dtype.kind in PLAIN and self.input.ordered:
            return self._of_numbers(column.astype(np.float64))
        values: Iterable[Any] = column.tolist() if isinstance(column, np.ndarray) and column.ndim == 1 else column
        if self.input.ordered:
            return self._of_numbers(np.array([_number(value) for value in values], dtype=np.float64))
        return np.array([self._category(value) for value in values], dtype=np.int64)

    def holds(self, column: Any) -> NDArray[np.bool_]:
        """Tell which values their places stand for: numbers within the range, declared categories; no gaps.

        Examples
        --------
        >>> age = Grid(Feature("age", 0, 100), missing=40)
        >>> age.holds(np.array([0.0, 30.2, 101, np.nan])).tolist(), age.holds([None, "30", 30]).tolist()
        ([True, True, False, False], [False, False, True])
        """
        if self.input.ordered:
            plain = type(column) is np.ndarray and column.dtype.kind in PLAIN
            numbers = np.array(column if plain else [_number(value) for value in column], dtype=np.float64)
            return np.asarray((numbers >= self.feature.lower) & (numbers <= self.feature.upper))
        values = column.tolist() if isinstance(column, np.ndarray) else column
        return np.array([type(value) in WORDS and value in self._positions for value in values], dtype=bool)

    def _of_numbers(self, natural: NDArray[np.float64]) -> Indices:
        natural = np.where(np.isfinite(natural), natural, self.missing)
        low, high = self.feature.lower, self.feature.upper
        return nearest_index((np.clip(natural, low, high) - low) / (high - low), self.input.places).astype(np.int64)

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {category: i for i, category in enumerate(self.feature.categories or ())}

    def _category(self, value: Any) -> int:
        try:
            if type(value) in WORDS and value == value:
                return self._positions.get(value, self._positions[self.outside])
            unknown = type(value) in WORDS or _is_gap(value)
        except Exception:  # a signalling NaN: no word may come of it
            unknown = True
        return self._positions[self.missing if unknown else self.outside]


def _is_gap(value: Any) -> bool:
    """Tell None and pandas' gaps from all else, without asking the value."""
    pandas = sys.modules.get("pandas")
    return value is None or (pandas is not None and (value is pandas.NA or value is pandas.NaT))


def _number(value: Any) -> float:
    """Return a finite number as a double, and NaN for everything else: texts, truths, containers, what is too large."""
    if type(value) not in NUMBERS:
        return float("nan")
    try:
        return float(value)
    except Exception:  # a conversion's error says what the value is like
        return float("nan")


def places_of(grids: Iterable[Grid], records: Records) -> Indices:
    """Return the places of records, shape ``(n, grids)``, from the columns that the grids are named after."""
    return np.stack([grid.places(records.column(records.names.index(grid.name))) for grid in grids], axis=1)
