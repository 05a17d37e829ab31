"""Weights that depend on the distance alone, renormalised per input: bounded Laplace and the exponential mechanism.

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

from epsworth.exact.alias import WORD
from epsworth.exact.integer import require
from epsworth.exact.noise import RenewedNoise
from epsworth.exact.rational import PRECISION, exp_below

FINEST = 64  # T(points - 1)(rho - 1): below about one, the integer recursion stands still


@dataclass(frozen=True, eq=False)
class DistanceKernel(RenewedNoise):
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


def bounded_laplace(epsilon: Fraction, points: int) -> DistanceKernel:
    """Return Laplace noise conditioned on the range; on a grid it is `exponential_tight` under another name."""
    return _distance("bounded_laplace", epsilon, points, epsilon)


def exponential_tight(epsilon: Fraction, points: int) -> DistanceKernel:
    """Return the exponential mechanism, all of epsilon used."""
    return _distance("exponential_tight", epsilon, points, epsilon)


def exponential(epsilon: Fraction, points: int) -> DistanceKernel:
    """Return the exponential mechanism with its textbook constant, which spends half of epsilon (Def. 13)."""
    return _distance("exponential", epsilon, points, epsilon / 2)


def rho(epsilon: Fraction, points: int) -> int:
    """Return a number below e^(epsilon/(points - 1)), in units of 2^-256."""
    return int(exp_below(epsilon / (points - 1)) * (1 << PRECISION))


def _distance(name: str, epsilon: Fraction, points: int, used: Fraction) -> DistanceKernel:
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
