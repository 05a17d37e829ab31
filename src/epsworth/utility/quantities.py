"""`Bounds`: what is known of one quantity - stability or accuracy - for mechanism x epsilon x record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.documents import read_as
from epsworth.numerals import short
from epsworth.results import Result
from epsworth.rounding import down, float_above, float_below, round_up, up

SCALE = 53  # bits of a bound that are counted
LOW = 26  # of them are summed apart, so that 2^35 records fit


@dataclass(frozen=True, eq=False)
class Bounds(Result):
    """Two-sided bounds on one quantity.

    Attributes
    ----------
    lower, upper : ndarray, shape ``(mechanisms, epsilons, records)``
        ``lower <= truth <= upper`` for every entry.
    pooled : Interval, optional
        A direct interval for the average over the records, shape ``(mechanisms, epsilons)``.

    Examples
    --------
    >>> import epsworth as ew
    >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2], [0.8]], sensitive=0, mechanisms="krr:k=11",
    ...                       epsilons=[1, 2, 4])
    >>> bounds = curves.stability
    >>> bounds.lower.shape, bounds.average().lower.shape
    ((1, 3, 2), (1, 3))
    >>> bounds.worst().lower.round(3), bounds.of_record(0).lower.round(3)
    (array([[0.528, 0.655, 0.907]]), array([[0.607, 0.712, 0.923]]))
    """

    lower: Floats
    upper: Floats
    pooled: Interval | None = None

    def average(self) -> Interval:
        """Return bounds on the average over these records, shape ``(mechanisms, epsilons)``."""
        units = self.lower.shape[2] + 1  # one per sum and for the quotient; no average lies beyond all its terms
        lower = np.maximum(down(self.lower.mean(axis=2), ulps=units), self.lower.min(axis=2))
        upper = np.minimum(up(self.upper.mean(axis=2), ulps=units), self.upper.max(axis=2))
        if self.pooled is not None:  # both hold at once, so does their intersection
            lower, upper = np.maximum(lower, self.pooled.lower), np.minimum(upper, self.pooled.upper)
        return Interval(lower, upper)

    def worst(self) -> Interval:
        """Return bounds on the smallest value over *these* records (not over the population)."""
        return Interval(self.lower.min(axis=2), self.upper.min(axis=2))

    def of_record(self, record: int) -> Interval:
        """Return the bounds of one record."""
        count = self.lower.shape[2]
        if not 0 <= record < count:
            raise ValueError(f"on: there is no record {short(record)}; the curves hold records 0 to {count - 1}")
        return Interval(self.lower[:, :, record], self.upper[:, :, record])

    def __str__(self) -> str:
        """Return their number and how wide they are, rounded up."""
        m, e, n = self.lower.shape
        half = round_up(float((self.upper - self.lower).max()) / 2)
        return f"bounds for {m} mechanisms x {e} epsilons x {n} records, half-width at most {half:g}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: full precision, nothing rounded."""
        sides = {"average": self.average(), "worst": self.worst()}
        return {
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            **{name: {"lower": low.tolist(), "upper": high.tolist()} for name, (low, high) in sides.items()},
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        pooled = Interval(*(np.array(document["average"][side], dtype=np.float64) for side in ("lower", "upper")))
        bounds: Self = read_as(cls, document, pooled=pooled)
        if bounds.lower.ndim != 3 or bounds.lower.shape != bounds.upper.shape:
            raise ValueError("lower and upper must be mechanisms x epsilons x records")
        return bounds


def with_coin(bounds: Bounds, reveal: Floats, raw: Floats) -> Bounds:
    """Account for the coin; ``raw`` is what the raw records give, one by one."""
    if not reveal.any():
        return bounds
    mixed = _mixed(reveal[:, :, np.newaxis], raw, Interval(bounds.lower, bounds.upper))
    return Bounds(*mixed, None if bounds.pooled is None else _mixed(reveal, raw.mean(), bounds.pooled))


def _mixed(reveal: Floats, raw: Floats | float, bounds: Interval) -> Interval:
    """Mix bounds with what the raw records give: five roundings, an average's own among them; what is certain stays."""
    lower, upper = (reveal * raw + (1 - reveal) * side for side in bounds)
    return Interval(
        np.where((bounds.lower == raw) | (reveal == 0), bounds.lower, np.maximum(down(lower, ulps=5), 0)),
        np.where((bounds.upper == raw) | (reveal == 0), bounds.upper, np.minimum(up(upper, ulps=5), 1)),
    )


class Totals:
    """Sums and extremes of bounds, of one shape, over records that are added some at a time.

    A bound b in [0, 1] is counted as floor(2^53 b), an upper one as the ceiling: integers, whose sums are exact in any
    order.  So an average is off by less than 2^-53, to the safe side, and its bits do not depend on how records come.

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
        for side, rounded in enumerate((np.floor(np.ldexp(lower, SCALE)), np.ceil(np.ldexp(upper, SCALE)))):
            counts = rounded.astype(np.int64)
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
        quotients = [
            rounded(Fraction((int(h) << LOW) + int(x) + missing, max(n, 1) << SCALE))
            for h, x in zip(high.ravel(), low.ravel(), strict=True)
        ]
        return np.array(quotients).reshape(high.shape)


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
        for counts, steps in zip(self.counts, at, strict=True):
            rows = steps.reshape(-1, n).astype(np.intp) + (np.arange(len(counts)) * (self.STEPS + 1))[:, np.newaxis]
            counts += np.bincount(rows.ravel(), minlength=counts.size).reshape(counts.shape)

    @property
    def values(self) -> Floats:
        """What the steps stand for."""
        return np.arange(self.STEPS + 1) / self.STEPS

    def of(self, side: int) -> NDArray[np.int64]:
        """Return the counts, shape ``(*shape, steps)``: 0 for lower bounds, 1 for 1 less the upper ones."""
        counts: NDArray[np.int64] = self.counts[side].reshape(*self.shape, -1)
        return counts
