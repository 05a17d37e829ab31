"""The exponential mechanism: weights that depend on the distance alone, renormalised per input.

Totals differ between inputs, so a ratio of weights is not yet a ratio of probabilities.  What saves the promise:
if T(d + 1) <= T(d) <= rho T(d + 1) for every d, the loss is at most (points - 1) ln rho.

Adjacent rows differ by at most rho in every term, so rho^i W(i) is nondecreasing; for i < i' the ratio of two
probabilities is at most rho^(i'-i) W(i')/W(i) <= rho^(points-1) W(points-1)/W(0) = rho^(points-1), as W(0) and
W(points-1) are equal; i > i' by symmetry.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.client.kernels import PRECISION, WORD, exp_below
from epsworth.mechanisms.kernels import require
from epsworth.mechanisms.law import GridLaw, Law, broadcast, nearest_index
from epsworth.mechanisms.mechanism import GridMechanism
from epsworth.mechanisms.noise_kernels import RenewedKernel

FINEST = 64  # T(points - 1)(rho - 1): below about one, the integer recursion stands still


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


@dataclass(frozen=True, eq=False)
class DistanceKernel(RenewedKernel):
    """Weights that fall by about the same factor from one distance to the next.

    ``used`` is the part of epsilon that the weights in fact spend (the textbook exponential mechanism: half).
    """

    used: Fraction

    def ratio(self) -> Fraction:
        """Return e^used from below, which bounds every ratio; the largest one is T(0)/T(points - 1) at least."""
        return exp_below(self.used)

    def prove(self) -> None:
        """Check every step of the weights against rho."""
        step = rho(self.used, self.points)
        falls = all(b <= a and a << PRECISION <= step * b for a, b in pairwise(self.noise))
        require(falls, self, "a step of the weights is larger than e^(epsilon/(points - 1)), or rises")
        require(self.noise[-1] > 0 and self.used <= self.epsilon, self, "an output has weight zero")
        require(self.whole <= WORD, self, "the weights exceed 2^64")


def exponential(epsilon: Fraction, points: int) -> DistanceKernel:
    """Return the exponential mechanism with its textbook constant, which spends half of epsilon (Def. 13)."""
    return distance_kernel("exponential", epsilon, points, epsilon / 2)


def exponential_tight(epsilon: Fraction, points: int) -> DistanceKernel:
    """Return the exponential mechanism, all of epsilon used."""
    return distance_kernel("exponential_tight", epsilon, points, epsilon)


def rho(epsilon: Fraction, points: int) -> int:
    """Return a number below e^(epsilon/(points - 1)), in units of 2^-256."""
    return int(exp_below(epsilon / (points - 1)) * (1 << PRECISION))


def distance_kernel(name: str, epsilon: Fraction, points: int, used: Fraction) -> DistanceKernel:
    """Build T from the outside inwards: T(d) = floor(rho T(d + 1)).

    Rounding e^(-eps d/(points - 1)) itself would break the promise (by 6e-3 with 12 bits on 256 points).
    """
    step, one = rho(used, points), 1 << PRECISION
    # the sum of T is below T(points - 1) (rho E - 1)/(rho - 1): the largest start whose signed sum fits a word
    bound = exp_below(used)
    weight = int(Fraction(WORD // 2 * (step - one)) / (step * bound - one))
    if weight * (step - one) < FINEST * one:
        raise ValueError(
            f"epsilon {float(epsilon):g} does not fit {points} points: the steps of {name} are smaller than its "
            "integer weights can tell apart; use fewer bits"
        )
    noise = [weight]
    for _ in range(points - 1):
        weight = step * weight >> PRECISION
        noise.append(weight)
    return DistanceKernel(name, epsilon, points, tuple(noise[::-1]), used)


@dataclass(frozen=True)
class Exponential(GridMechanism):
    """Mass proportional to exp(-(epsilon/2) |g - x|): the textbook constant, which uses only half of epsilon.

    Def. 13 prints the exponent without its minus sign; with it the mechanism is epsilon-LDP and in fact
    epsilon/2-LDP, since the normaliser is the same at both ends.
    """

    title: ClassVar[str] = "Exponential"
    reference: ClassVar[str] = "McSherry & Talwar 2007; Zheng & Hu 2025, Def. 13 (corrected)"
    integers = staticmethod(exponential)

    @property
    def tight_epsilon(self) -> float:
        """Half of the stated epsilon."""
        return self.scalar_epsilon / 2

    def _law(self, x: Floats) -> Law:
        return TwoSidedGeometric.around(x, self.epsilon / (2 * (self.k - 1)), self.k)


@dataclass(frozen=True)
class ExponentialTight(GridMechanism):
    """Mass proportional to exp(-epsilon |g - x|): the exponential mechanism calibrated by its true loss."""

    title: ClassVar[str] = "Exponential, all of epsilon used"
    reference: ClassVar[str] = "McSherry & Talwar 2007, calibrated by the exact ratio"
    integers = staticmethod(exponential_tight)

    def _law(self, x: Floats) -> Law:
        return TwoSidedGeometric.around(x, self.epsilon / (self.k - 1), self.k)
