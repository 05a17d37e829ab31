"""Public grids of columns.

A grid is a total function from whatever a record holds to a place: nothing is raised, or depends on anything but the
value itself, since what a value is must not show in whether a record is refused, nor in what is said of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats, Indices
from epsworth.client.grids import is_whole
from epsworth.client.kernels import MOST_BITS
from epsworth.mechanisms.law import nearest_index
from epsworth.numerals import exact_decimal
from epsworth.records import Records
from epsworth.space import Feature
from epsworth.values import WORDS, is_missing, items, number, numbers

BITS = 16


def values_at(feature: Feature, unit: Floats, points: int) -> NDArray[Any]:
    """Return the natural values of places on a grid of so many points: whole numbers where it holds no others."""
    if feature.categories is not None:
        return feature.from_unit(unit)
    if is_whole(points - 1, feature.lower, feature.upper):
        return int(feature.lower) + np.rint(unit * (points - 1)).astype(np.int64)
    return feature.from_unit(unit, points=points)


@dataclass(frozen=True)
class Input:
    """A column that a copy sees: how many places it has, and whether they have an order."""

    places: int
    ordered: bool


MOST_POINTS = 1 << 20


@dataclass(frozen=True)
class Grid:
    """The places of a record's column: evenly spaced numbers of its public range, or its categories.

    Attributes
    ----------
    feature : Feature
        With ``points``, the grid has so many places, else 2^bits.
    bits : int
    missing : float or category
        What stands for whatever is no finite number, or for a category that is not there; by default what the feature
        declares.
    outside : category, optional
        What stands for undeclared categories; numbers are clamped.
    """

    feature: Feature
    bits: int = BITS
    missing: Any = None
    outside: Any = None

    def __post_init__(self) -> None:
        if self.missing is None:
            object.__setattr__(self, "missing", self.feature.missing)
        feature = replace(self.feature, missing=None, integer=False)  # one place for gaps; whole numbers are points
        object.__setattr__(self, "feature", feature)
        categories = feature.categories
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
        return values_at(self.feature, np.arange(places) / (places - 1), places)

    def place(self, value: Any) -> int:
        """Return the place of one value, whatever it is."""
        return int(self.places([value])[0])

    def places(self, column: Any) -> Indices:
        """Return the places of values, shape ``(n,)``, whatever they are; an array of numbers, or any values."""
        if self.input.ordered:
            return self._of_numbers(numbers(column, number))
        return np.array([self._category(value) for value in items(column)], dtype=np.int64)

    def holds(self, column: Any) -> NDArray[np.bool_]:
        """Tell which values their places stand for: numbers within the range, declared categories; no gaps.

        Examples
        --------
        >>> age = Grid(Feature("age", 0, 100), missing=40)
        >>> age.holds(np.array([0.0, 30.2, 101, np.nan])).tolist(), age.holds([None, "30", 30]).tolist()
        ([True, True, False, False], [False, False, True])
        """
        if self.input.ordered:
            natural = numbers(column, number)
            return np.asarray((natural >= self.feature.lower) & (natural <= self.feature.upper))
        return np.array([type(value) in WORDS and value in self._positions for value in items(column)], dtype=bool)

    def _of_numbers(self, natural: NDArray[np.float64]) -> Indices:
        low, high = self.feature.lower, self.feature.upper
        with np.errstate(all="ignore"):  # whatever is tiny, or signals
            natural = np.where(np.isfinite(natural), natural, self.missing)
            unit = (np.clip(natural, low, high) - low) / (high - low)
        return nearest_index(unit, self.input.places).astype(np.int64)

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {category: i for i, category in enumerate(self.feature.categories or ())}

    def _category(self, value: Any) -> int:
        if is_missing(value):
            return self._positions[self.missing]
        outside = self._positions[self.outside]
        return self._positions.get(value, outside) if type(value) in WORDS else outside


def places_of(grids: Iterable[Grid], records: Records) -> Indices:
    """Return the places of records, shape ``(n, grids)``, from the columns that the grids are named after."""
    return np.stack([grid.places(records.column(records.names.index(grid.name))) for grid in grids], axis=1)
