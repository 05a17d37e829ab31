"""Confidence bounds that hold together.

A `Risk` is the probability of a miss that an answer may spend.  It can only be divided, and every interval takes its
part out of it, so that what all intervals of an answer spend together never exceeds what was asked for (union
bound).  `looks` divides it over the looks of a sampling run: stopping early never breaks a promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from epsworth.arrays import Floats

# Relative, for the inverse beta function's own rounding.  Below the median of a beta law a quantile moves by at most
# twice the relative error of the probability, and the incomplete beta function of Boost, which is inverted, has peak
# errors of some 1e4 units (2e-12): a factor of some hundred is to spare.
QUANTILE_SLACK = 1e-9
MOST_DRAWS = 10**9


class Overspent(RuntimeError):
    """More bounds were taken than a risk was divided for: a fault of the program, never of its input."""


class Risk:
    """A probability of a miss, divided into equal shares, each of which pays for one bound.

    Claim: of all bounds that were paid out of a risk and out of its parts, together, at least one misses with
    probability at most ``total``: they can only be divided (`split`), and a share can be spent once (union bound;
    all arithmetic is in fractions).

    Parameters
    ----------
    miss : float or Fraction
        In [0, 1].

    Attributes
    ----------
    each : Fraction
        Probability that one bound may miss.
    left : int
        How many bounds may still be paid.

    Examples
    --------
    >>> risk = Risk(0.001)
    >>> of_records, of_average = risk.split(2)
    >>> of_records.split(50).spend(50) <= 0.0005 / 50  # of each of fifty bounds
    True
    >>> float(risk.spent), float(risk.total)  # that of the average is left
    (0.0005, 0.001)
    >>> of_average.spend(2)
    Traceback (most recent call last):
        ...
    epsworth.bounds.Overspent: 2 bounds asked for where the risk of 1 is left
    """

    def __init__(self, miss: float | Fraction) -> None:
        if not 0 <= miss <= 1:
            raise ValueError(f"the probability of a miss must lie in [0, 1], got {miss!r}")
        self.each, self.left = Fraction(miss), 1
        self.total = self.each
        self._spent = [Fraction(0)]  # shared with all parts

    @classmethod
    def of(cls, confidence: float) -> Risk:
        """Return what may be spent under a confidence: 1 - confidence, exactly."""
        return cls(1 - Fraction(confidence))

    @property
    def spent(self) -> Fraction:
        """What was spent of the risk that this is a part of."""
        return self._spent[0]

    def split(self, n: int) -> Risk:
        """Divide every share into n: the part returned holds all of them, and nothing is left here."""
        if n < 1:
            raise Overspent(f"a risk cannot be divided into {n} shares")
        count, self.left = self.left, 0
        return self._part(self.each / n, count * n)

    def divide(self, weights: Sequence[Fraction]) -> list[Risk]:
        """Divide every share by weights that sum to at most 1: one part each, and nothing is left here."""
        if sum(weights) > 1 or min(weights) < 0:
            raise Overspent(f"a risk cannot be divided into parts that sum to {sum(weights)}")
        count, self.left = self.left, 0
        return [self._part(self.each * weight, count) for weight in weights]

    def __iter__(self) -> Iterator[Risk]:
        """Take the shares out one by one, each a risk of its own."""
        while self.left:
            self.left -= 1
            yield self._part(self.each, 1)

    def spend(self, bounds: int = 1) -> float:
        """Pay for so many bounds; return the probability with which each may miss, rounded down."""
        if bounds > self.left:
            raise Overspent(f"{bounds} bounds asked for where the risk of {self.left} is left")
        self.left -= bounds
        self._spent[0] += self.each * bounds
        return floor(self.each)

    def interval(self, successes: ArrayLike, trials: ArrayLike) -> Interval:
        """Return `clopper_pearson` intervals, each of them paid for by a share."""
        count = np.broadcast(np.asarray(successes), np.asarray(trials)).size
        return clopper_pearson(successes, trials, self.spend(count))

    def lower(self, successes: ArrayLike, trials: ArrayLike) -> Floats:
        """Return lower limits alone, each paid for by a share: those of intervals of twice its miss."""
        return self._one_sided(successes, trials).lower

    def upper(self, successes: ArrayLike, trials: ArrayLike) -> Floats:
        """Return upper limits alone, each paid for by a share."""
        return self._one_sided(successes, trials).upper

    def _one_sided(self, successes: ArrayLike, trials: ArrayLike) -> Interval:
        count = np.broadcast(np.asarray(successes), np.asarray(trials)).size
        return clopper_pearson(successes, trials, 2 * self.spend(count))

    def _part(self, each: Fraction, count: int) -> Risk:
        part = Risk(each)
        part.left, part.total, part._spent = count, self.total, self._spent
        return part

    def __reduce__(self) -> str:
        raise TypeError("a risk cannot be copied: what is spent of a copy would be spent twice")


def floor(value: Fraction) -> float:
    """Return the largest double that does not exceed a fraction, or the one below it.

    Examples
    --------
    >>> floor(Fraction(1, 3)) <= Fraction(1, 3), floor(Fraction(1, 2))
    (True, 0.5)
    """
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


class Interval(NamedTuple):
    """Two-sided bound: ``lower <= truth <= upper``; arrays of one shape."""

    lower: Floats
    upper: Floats


def clopper_pearson(successes: ArrayLike, trials: ArrayLike, miss: ArrayLike) -> Interval:
    """Return the exact two-sided interval for a probability, rounded outwards.

    Claim: if ``successes`` is binomial with ``trials`` draws of probability p, then
    Pr[lower <= p <= upper] >= 1 - miss, with at most miss/2 lost on either side.

    Parameters
    ----------
    successes, trials : array_like of int
        ``0 <= successes <= trials``, ``trials >= 1``.
    miss : array_like of float
        Probability, in (0, 1), that the interval misses.

    Examples
    --------
    >>> lower, upper = clopper_pearson(299, 299, 0.1)  # no failure in 299 draws
    >>> bool(lower >= 0.99), float(upper)
    (True, 1.0)

    References
    ----------
    Clopper & Pearson 1934.
    """
    hits, total, side = (np.asarray(v, dtype=np.float64) for v in (successes, trials, miss))
    side = side / 2
    failures = total - hits
    lower = betaincinv(np.maximum(hits, 0.5), failures + 1, side)
    upper = betaincinv(np.maximum(failures, 0.5), hits + 1, side)  # of the failures: keeps the small tail exact
    lower = np.where(hits > 0, lower * (1 - QUANTILE_SLACK), 0.0)
    upper = np.where(failures > 0, np.nextafter(1 - upper * (1 - QUANTILE_SLACK), 2), 1.0)
    return Interval(np.asarray(lower, np.float64), np.asarray(upper, np.float64))


def draws_needed(half_width: float, miss: float) -> int:
    """Return the fewest draws for which every Clopper-Pearson interval has at most this half-width.

    Examples
    --------
    >>> 27_000 < draws_needed(0.01, 1e-3) < 27_700
    True
    """

    def wide(n: int) -> bool:  # the interval is widest where half of the draws succeed
        lower, upper = clopper_pearson([n // 2, (n + 1) // 2], n, miss)
        return bool((upper - lower).max() > 2 * half_width)

    high = 1
    while wide(high):
        high *= 2
        if high > MOST_DRAWS:
            raise ValueError(
                f"tolerance {half_width:g} would need more than {MOST_DRAWS:.0e} draws a point; take a larger one"
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wide(middle) else (low, middle)
    return high


@dataclass(frozen=True)
class Look:
    """One look at the data: after ``draws`` draws in all, an interval that may miss with probability ``miss``."""

    draws: int
    miss: float


def looks(tolerance: float, miss: float, *, first: int = 256) -> tuple[Look, ...]:
    """Return a schedule of looks whose misses sum to ``miss`` and whose last look meets the tolerance.

    Look i = 0, 1, .. comes after ``first * 2**i`` draws and spends ``miss / ((i+1)(i+2))``; the last one
    spends what is left and comes as soon as its interval is narrow enough whatever the truth is.
    Intersecting the intervals of all looks made so far misses with probability at most ``miss``,
    whatever rule stopped the run.
    """
    count = 1
    while (last := draws_needed(tolerance, miss / count)) > first * 2 ** (count - 1):
        count += 1
    early = [Look(first * 2**i, miss / ((i + 1) * (i + 2))) for i in range(count - 1)]
    # sum_{i < L-1} 1/((i+1)(i+2)) = 1 - 1/L, so 1/L is left
    return (*early, Look(last, miss / count))
