"""Averages and worst cases of bounds on any number of records, in the memory of a few.

A bound b in [0, 1] is counted as floor(2^53 b), an upper one as the ceiling: integers, whose sums are exact in any
order.  So an average is off by less than 2^-53, to the safe side, and its bits do not depend on how records come.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.rounding import float_above, float_below

SCALE = 53  # bits of a bound that are counted
LOW = 26  # of them are summed apart, so that 2^35 records fit


class Totals:
    """Sums and extremes of bounds, of one shape, over records that are added some at a time.

    Examples
    --------
    >>> import numpy as np
    >>> totals = Totals((1,))
    >>> totals.add(np.array([[0.25, 0.5]]), np.array([[0.5, 1.0]]))
    >>> totals.average(), totals.average(4)  # of two records; and of four, two of which are not known
    (Interval(lower=array([0.375]), upper=array([0.75])), Interval(lower=array([0.1875]), upper=array([0.875])))
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.sums = np.zeros((2, 2, *shape), dtype=np.int64)  # of lower and upper bounds, by high and low bits
        self.least = np.ones((2, *shape))
        self.most, self.width, self.records = np.zeros(shape), np.zeros(shape), 0

    def add(self, lower: Floats, upper: Floats) -> None:
        """Take in bounds, records along the last axis."""
        if not lower.shape[-1]:
            return
        for side, found in enumerate((np.floor(np.ldexp(lower, SCALE)), np.ceil(np.ldexp(upper, SCALE)))):
            counts = found.astype(np.int64)
            self.sums[side, 0] += (counts >> LOW).sum(axis=-1)
            self.sums[side, 1] += (counts & ((1 << LOW) - 1)).sum(axis=-1)
            np.minimum(self.least[side], (lower, upper)[side].min(axis=-1), out=self.least[side])
        np.maximum(self.most, upper.max(axis=-1), out=self.most)
        np.maximum(self.width, (upper - lower).max(axis=-1), out=self.width)
        self.records += lower.shape[-1]

    def average(self, records: int | None = None) -> Interval:
        """Return bounds on the average; of records that were not added nothing is known."""
        n = self.records if records is None else records
        lower, upper = (self._quotients(side, n) for side in (0, 1))
        if n == self.records and n:  # no average lies beyond all its terms
            lower, upper = np.maximum(lower, self.least[0]), np.minimum(upper, self.most)
        return Interval(lower, upper)

    def worst(self) -> Interval:
        """Return bounds on the smallest value of those that were added."""
        return Interval(*self.least)

    def _quotients(self, side: int, n: int) -> Floats:
        high, low = self.sums[side]
        missing = (n - self.records) << SCALE if side else 0
        rounded = float_above if side else float_below
        found = [
            rounded(Fraction((int(h) << LOW) + int(x) + missing, max(n, 1) << SCALE))
            for h, x in zip(high.ravel(), low.ravel(), strict=True)
        ]
        return np.array(found).reshape(high.shape)


class Histogram:
    """How many records have their bounds in which of 2^14 equal steps: rounded to the safe side."""

    STEPS = 1 << 14

    def __init__(self, shape: tuple[int, ...]) -> None:
        points = int(np.prod(shape))
        self.shape, self.counts = shape, np.zeros((2, points, self.STEPS + 1), dtype=np.int64)

    def add(self, lower: Floats, upper: Floats) -> None:
        """Take in bounds, records along the last axis: lower ones rounded down, and 1 less the upper ones."""
        n = lower.shape[-1]
        at = np.floor(lower * self.STEPS), self.STEPS - np.ceil(upper * self.STEPS)
        for counts, found in zip(self.counts, at, strict=True):
            rows = found.reshape(-1, n).astype(np.intp) + (np.arange(len(counts)) * (self.STEPS + 1))[:, np.newaxis]
            counts += np.bincount(rows.ravel(), minlength=counts.size).reshape(counts.shape)

    @property
    def values(self) -> Floats:
        """What the steps stand for."""
        return np.arange(self.STEPS + 1) / self.STEPS

    def of(self, side: int) -> NDArray[np.int64]:
        """Return the counts, shape ``(*shape, steps)``: 0 for lower bounds, 1 for 1 less the upper ones."""
        found: NDArray[np.int64] = self.counts[side].reshape(*self.shape, -1)
        return found
