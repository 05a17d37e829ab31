"""Confidence bounds that hold together.

`clopper_pearson` is the only interval used; `looks` spends one miss probability over the looks of a
sampling run, so that stopping early never breaks a promise.
"""

from __future__ import annotations

from dataclasses import dataclass
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
