"""`Bounds`: what is known of one quantity - stability or accuracy - for mechanism x epsilon x record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.documents import read_as
from epsworth.numerals import short
from epsworth.results import Result
from epsworth.rounding import down, round_up, up


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
