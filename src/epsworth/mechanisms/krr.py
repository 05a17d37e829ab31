"""k-ary randomised response: the true grid point, or any other."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.mechanisms.law import GridLaw, Law, broadcast, nearest_index
from epsworth.mechanisms.mechanism import GridMechanism
from epsworth.mechanisms.two_level import TwoLevelKernel, window_kernel


@dataclass(frozen=True, eq=False)
class RandomisedResponse(GridLaw):
    """e^epsilon/(k-1+e^epsilon) on the true grid point, 1/(k-1+e^epsilon) on every other (Def. 14)."""

    index: Floats
    epsilon: Floats
    k: int

    @classmethod
    def around(cls, x: ArrayLike, epsilon: ArrayLike, k: int) -> Self:
        """Build from the true value, which is rounded to the grid first."""
        index, epsilon = broadcast(nearest_index(x, k), epsilon)
        return cls(index, epsilon, k)

    def _other(self) -> Floats:
        decay = np.exp(-self.epsilon)
        return as_floats(decay / ((self.k - 1) * decay + 1))

    def _extra(self) -> Floats:
        """Return what the true point has beyond `_other`: (e^eps - 1)/(k - 1 + e^eps)."""
        return as_floats(-np.expm1(-self.epsilon) / ((self.k - 1) * np.exp(-self.epsilon) + 1))

    def _mass_of_range(self, low: Floats, high: Floats) -> Floats:
        hit = (low <= self.index) & (self.index <= high)
        return (high - low + 1) * self._other() + np.where(hit, self._extra(), 0.0)

    def _index_from_uniform(self, u: Floats) -> Floats:
        other = self._other()
        below = self.index * other
        up_to = below + other + self._extra()
        above = self.index + 1 + np.floor((u - up_to) / other)
        return np.where(u < below, np.floor(u / other), np.where(u <= up_to, self.index, above))

    def mean(self) -> Floats:
        """Return E[Y]: a mixture of the true point and the uniform grid."""
        value = self.index / (self.k - 1)
        return value + self.k * self._other() * (0.5 - value)

    def var(self) -> Floats:
        """Return the variance."""
        away, uniform = 0.5 - self.index / (self.k - 1), self.k * self._other()
        spread = (self.k + 1) / (12 * (self.k - 1))  # variance of the uniform grid
        return np.maximum(uniform * (spread + away**2) - (uniform * away) ** 2, 0.0)


def krr(epsilon: Fraction, points: int) -> TwoLevelKernel:
    """Return k-ary randomised response over ``points`` values or categories: a window of one."""
    return window_kernel("krr", epsilon, points)


@dataclass(frozen=True)
class KRR(GridMechanism):
    """k-ary randomised response: the true grid point with weight e^epsilon, every other with weight 1."""

    title: ClassVar[str] = "Randomised response"
    reference: ClassVar[str] = "Zheng & Hu 2025, Def. 14; Kairouz, Oh & Viswanath 2014"
    integers = staticmethod(krr)

    def _law(self, x: Floats) -> Law:
        return RandomisedResponse.around(x, self.epsilon, self.k)
