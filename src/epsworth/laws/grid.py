"""Laws on the public grid {i/(k-1)}: randomised response, plain or preferring a window, and the exponential mechanism.

All masses are closed forms in the index range that an interval covers, so their cost does not grow with k.
Grid values are exactly the floats ``i / (k - 1)``; interval ends are compared with those floats.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.laws.law import Law, broadcast


def nearest_index(x: ArrayLike, k: int) -> Floats:
    """Round values in [0, 1] to the index of the nearest grid point (ties to the even index)."""
    return np.rint(as_floats(x) * (k - 1))


def _near(y: ArrayLike) -> Floats:
    return np.minimum(np.maximum(as_floats(y), -1.0), 2.0)  # far ends select the same points and cannot overflow


def first_index_from(y: ArrayLike, k: int) -> Floats:
    """Return the smallest i with i/(k-1) >= y, at least 0; k where there is none."""
    y, steps = _near(y), k - 1
    i = np.ceil(y * steps)  # may be one off in the last bit: compare with the grid's own floats
    i = np.where((i - 1) / steps >= y, i - 1, i)
    i = np.where(i / steps < y, i + 1, i)
    return np.minimum(np.maximum(i, 0.0), k)


def last_index_to(y: ArrayLike, k: int) -> Floats:
    """Return the largest i with i/(k-1) <= y, at most k-1; -1 where there is none."""
    y, steps = _near(y), k - 1
    i = np.floor(y * steps)
    i = np.where((i + 1) / steps <= y, i + 1, i)
    i = np.where(i / steps > y, i - 1, i)
    return np.minimum(np.maximum(i, -1.0), k - 1)


class GridLaw(Law):
    """A law on the k grid points; ``index`` is the grid index of the true value."""

    index: Floats
    k: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return self.index.shape

    @abstractmethod
    def _mass_of_range(self, low: Floats, high: Floats) -> Floats:
        """Return the mass of indices low..high, given 0 <= low <= high <= k-1."""

    @abstractmethod
    def _index_from_uniform(self, u: Floats) -> Floats:
        """Return the quantile as a grid index."""

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the grid points in the closed interval."""
        low, high = first_index_from(lower, self.k), last_index_to(upper, self.k)
        covered = low <= high
        masses = self._mass_of_range(np.where(covered, low, 0.0), np.where(covered, high, 0.0))
        return np.where(covered, np.minimum(masses, 1.0), 0.0)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return zeros: a grid law has no continuous part (see `pmf`)."""
        return np.zeros(np.broadcast_shapes(np.shape(y), self.shape))

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile, a grid value."""
        return np.clip(self._index_from_uniform(as_floats(u)), 0, self.k - 1) / (self.k - 1)


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


@dataclass(frozen=True, eq=False)
class WindowResponse(GridLaw):
    """Weight 1 on the true grid point, ``near`` on others at most ``reach`` away, ``far`` on the rest.

    Randomised response that prefers neighbours (Jiang et al. 2025, Proposition 7), with windows clipped at the ends.
    """

    index: Floats
    near: Floats
    far: Floats
    k: int
    reach: int

    @classmethod
    def around(cls, x: ArrayLike, near: ArrayLike, far: ArrayLike, k: int, reach: int) -> Self:
        """Build from the true value, which is rounded to the grid first."""
        index, near, far = broadcast(nearest_index(x, k), near, far)
        return cls(index, near, far, k, reach)

    def _window(self) -> tuple[Floats, Floats]:
        return np.maximum(self.index - self.reach, 0.0), np.minimum(self.index + self.reach, self.k - 1.0)

    def _total(self) -> Floats:
        first, last = self._window()
        return 1 + self.near * (last - first) + self.far * (self.k - 1 - (last - first))

    def _mass_of_range(self, low: Floats, high: Floats) -> Floats:
        first, last = self._window()
        within = np.maximum(np.minimum(high, last) - np.maximum(low, first) + 1, 0.0)
        hit = ((low <= self.index) & (self.index <= high)) * 1.0
        weight = hit + (within - hit) * self.near + (high - low + 1 - within) * self.far
        return np.asarray(weight / self._total())

    def _index_from_uniform(self, u: Floats) -> Floats:
        first, last = self._window()
        t = u * self._total()
        before, after = (self.index - first) * self.near, (last - self.index) * self.near
        starts = np.cumsum(np.broadcast_arrays(first * self.far, before, 1.0, after), axis=0)
        pieces = [
            np.floor(t / self.far),
            first + np.floor((t - starts[0]) / self.near),
            self.index,
            self.index + 1 + np.floor((t - starts[2]) / self.near),
        ]
        beyond = last + 1 + np.floor((t - starts[3]) / self.far)
        return np.select([t < starts[0], t < starts[1], t <= starts[2], t <= starts[3]], pieces, beyond)

    def _moments(self) -> tuple[Floats, Floats]:
        """Return E[J - index] and E[(J - index)^2] of the released index J."""
        first, last = self._window()
        sums = []
        for low, high in ((first, last), (np.zeros_like(first), np.full_like(last, self.k - 1.0))):
            below, above = self.index - low, high - self.index
            square = [side * (side + 1) * (2 * side + 1) / 6 for side in (below, above)]
            sums.append((above * (above + 1) / 2 - below * (below + 1) / 2, square[0] + square[1]))
        (near_1, near_2), (all_1, all_2) = sums
        extra, total = self.near - self.far, self._total()
        return (extra * near_1 + self.far * all_1) / total, (extra * near_2 + self.far * all_2) / total

    def mean(self) -> Floats:
        """Return E[Y]."""
        return as_floats((self.index + self._moments()[0]) / (self.k - 1))

    def var(self) -> Floats:
        """Return the variance."""
        first, second = self._moments()
        return np.maximum(second - first**2, 0.0) / (self.k - 1) ** 2


@dataclass(frozen=True, eq=False)
class TwoSidedGeometric(GridLaw):
    """Mass proportional to exp(-rate |i - index|) on the k grid points: the exponential mechanism.

    With r = e^-rate and G(n) = 1 + r + .. + r^n, the range low..high that holds the index has
    unnormalised mass G(index - low) + G(high - index) - 1.
    """

    index: Floats
    rate: Floats
    k: int

    @classmethod
    def around(cls, x: ArrayLike, rate: ArrayLike, k: int) -> Self:
        """Build from the true value (rounded to the grid first) and the decay per grid step."""
        index, rate = broadcast(nearest_index(x, k), rate)
        return cls(index, rate, k)

    def _sum_to(self, n: Floats) -> Floats:
        return np.expm1(-self.rate * (n + 1)) / np.expm1(-self.rate)  # G(n); 0 at n = -1

    def _total(self) -> Floats:
        return self._sum_to(self.index) + self._sum_to(self.k - 1 - self.index) - 1

    def _mass_of_range(self, low: Floats, high: Floats) -> Floats:
        # a range on one side of the index starts `gap` steps away from it
        gap = np.maximum(np.maximum(low - self.index, self.index - high), 0.0)
        one_sided = np.exp(-self.rate * gap) * self._sum_to(high - low)
        around = self._sum_to(self.index - low) + self._sum_to(high - self.index) - 1
        return np.where(gap > 0, one_sided, around) / self._total()

    def _index_from_uniform(self, u: Floats) -> Floats:
        total, decay = self._total(), -np.expm1(-self.rate)
        strictly_below = self._sum_to(self.index) - 1
        left, right = u * total, (1 - u) * total  # unnormalised masses on either side of the draw
        # cdf of index - d is (r^d - r^(index+1)) / (1 - r): solve for the largest d that still exceeds u
        down = np.log(left * decay + np.exp(-self.rate * (self.index + 1)))
        up = np.log(right * decay + np.exp(-self.rate * (self.k - self.index)))
        below = self.index - np.floor(-down / self.rate)
        above = self.index + np.floor(-up / self.rate)
        return np.where(left < strictly_below, below, np.where(left <= strictly_below + 1, self.index, above))

    def _sums(self, n: Floats, power: int) -> Floats:
        """Return sum_{d<=n} d^power r^d by one table per distinct rate: O(k) per rate, not per record."""
        rates, which = np.unique(self.rate, return_inverse=True)
        d, sums = np.arange(self.k, dtype=np.float64), np.empty(self.shape)
        for number, rate in enumerate(rates):  # one table at a time: memory O(k)
            chosen = which.reshape(self.shape) == number
            sums[chosen] = np.cumsum(d**power * np.exp(-rate * d))[n[chosen].astype(np.intp)]
        return sums

    def _moment_about_x(self, power: int) -> Floats:
        above, below = self._sums(self.k - 1 - self.index, power), self._sums(self.index, power)
        return as_floats((above + (-1) ** power * below) / (self._total() * (self.k - 1) ** power))

    def mean(self) -> Floats:
        """Return E[Y]."""
        return self.index / (self.k - 1) + self._moment_about_x(1)

    def var(self) -> Floats:
        """Return the variance."""
        return np.maximum(self._moment_about_x(2) - self._moment_about_x(1) ** 2, 0.0)
