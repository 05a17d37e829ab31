"""Confidence bounds that hold together.

A `Risk` is the probability of a miss that an answer may spend.  It can only be divided, and every interval takes its
part out of it, so that what all intervals of an answer spend together never exceeds what was asked for (union
bound).  `looks` divides it over the looks of a sampling run: stopping early never breaks a promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from fractions import Fraction
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.extras import later
from epsworth.numerals import whole
from epsworth.rounding import down, float_above, float_below, up

betaincinv = later("scipy.special", "betaincinv")

# Units by which the inverse beta function may lie above the quantile x of a probability P.  With X the beta variable of
# parameters >= 1, ln X has a log-concave density g; g as a function of P is concave (Bobkov 1996) and at the median at
# least 1 / (sqrt(12) sd), sd^2 <= pi^2 / 6 (Bobkov & Ledoux 2015): below the median a relative error of P moves x
# by 2.3 times as much, relatively, and by 1.8 sd times.  Boost's incomplete beta function, which scipy inverts, states
# errors for parameters up to 10^5 only, of 10^4 units.  Beyond, its powers err in proportion to the trials n and
# sd ~ n^-1/2, so that x errs by some sqrt(n) units of its own, at most a few hundred times that at MOST_DRAWS: 2^23.
# The most that is known to occur is 2^22.  Of more trials than that the units grow as their root.
QUANTILE_ULPS = 2**24
MOST_DRAWS = 10**9
# Of a mean: its values are rounded to doubles, their exact sum is, and its quotient is, by half a unit each, and units
# differ by a factor of two at most.
MEAN_ULPS = 4
FIFTY = Context(50, Emin=-(10**6), Emax=10**6, traps=[InvalidOperation, DivisionByZero, Overflow])  # digits
SLACK = Decimal("1e-40")  # far more than what fifty digits lose in a divergence, less than any that is asked for


class Overspent(RuntimeError):
    """More bounds were taken than a risk was divided for: a fault of the program, never of its input."""


class Risk:
    """A probability of a miss, divided into equal shares, each of which pays for one bound.

    Claim: of all bounds that were paid out of a risk and out of its parts, together, at least one misses with
    probability at most ``total``: they can only be divided (`split`), and a share can be spent once, by one thread
    (union bound; all arithmetic is in fractions).

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
        self._spent = [Fraction(0)]  # this and the lock are shared with all parts
        self._lock = Lock()

    @classmethod
    def of(cls, confidence: float | Fraction) -> Risk:
        """Return what may be spent under a confidence: 1 - confidence, exactly."""
        return cls(1 - Fraction(confidence))

    @classmethod
    def apart(cls, confidence: float | Fraction, n: int) -> Risk:
        """Return a risk of its own for each of n statements, which are *not* promised together."""
        risk = cls.of(confidence)
        risk.left, risk.total = n, n * risk.each
        return risk

    @property
    def spent(self) -> Fraction:
        """What was spent of the risk that this is a part of."""
        return self._spent[0]

    def split(self, n: int) -> Risk:
        """Divide every share into n: the part returned holds all of them, and nothing is left here."""
        if n < 1:
            raise Overspent(f"a risk cannot be divided into {n} shares")
        count = self._emptied()
        return self._part(self.each / n, count * n)

    def divide(self, weights: Sequence[Fraction]) -> list[Risk]:
        """Divide every share by weights that sum to at most 1: one part each, and nothing is left here."""
        if sum(weights) > 1 or min(weights) < 0:
            raise Overspent(f"a risk cannot be divided into parts that sum to {sum(weights)}")
        count = self._emptied()
        return [self._part(self.each * weight, count) for weight in weights]

    def __iter__(self) -> Iterator[Risk]:
        """Take the shares out one by one, each a risk of its own."""
        while self.left:
            yield self.take()

    def take(self, shares: int = 1) -> Risk:
        """Take so many shares out, to pay for as many bounds elsewhere."""
        with self._lock:
            self._pay(shares)
        return self._part(self.each, shares)

    def spend(self, bounds: int = 1) -> float:
        """Pay for so many bounds; return the probability with which each may miss, rounded down."""
        with self._lock:
            self._pay(bounds)
            self._spent[0] += self.each * bounds
        return float_below(self.each)

    def interval(self, successes: ArrayLike, trials: ArrayLike) -> Interval:
        """Return `clopper_pearson` intervals, each of them paid for by a share."""
        return clopper_pearson(successes, trials, self._pay_for(successes, trials))

    def lower(self, successes: ArrayLike, trials: ArrayLike) -> Floats:
        """Return lower limits alone, each paid for by a share: those of intervals of twice its miss."""
        return self._one_sided(successes, trials).lower

    def upper(self, successes: ArrayLike, trials: ArrayLike) -> Floats:
        """Return upper limits alone, each paid for by a share."""
        return self._one_sided(successes, trials).upper

    def mean(self, values: ArrayLike, low: float = 0.0, high: float = 1.0) -> Interval:
        """Return `mean_interval` of the values in each column, each column paid for by a share."""
        found, _ = as_floats(values), _width(low, high)  # refused before anything is paid
        if not found.ndim or not found.size or not ((found >= low) & (found <= high)).all():
            raise ValueError(f"values must lie in [{low!r}, {high!r}], at least one of them; widen low and high")
        columns = found.reshape(len(found), -1).T
        means = [math.fsum(column) / len(found) for column in columns.tolist()]
        bounds = mean_interval(means, len(found), self.spend(len(means)), low, high)
        return Interval(*(np.reshape(bound, found.shape[1:]) for bound in bounds))

    def _one_sided(self, successes: ArrayLike, trials: ArrayLike) -> Interval:
        return clopper_pearson(successes, trials, 2 * self._pay_for(successes, trials))

    def _pay_for(self, successes: ArrayLike, trials: ArrayLike) -> float:
        return self.spend(np.broadcast(np.asarray(successes), np.asarray(trials)).size)

    def _emptied(self) -> int:
        with self._lock:
            count, self.left = self.left, 0
        return count

    def _part(self, each: Fraction, count: int) -> Risk:
        part = Risk(each)
        part.left, part.total, part._spent, part._lock = count, self.total, self._spent, self._lock
        return part

    def _pay(self, shares: int) -> None:
        if not 0 <= shares <= self.left:
            raise Overspent(f"{shares} bounds asked for where the risk of {self.left} is left")
        self.left -= shares

    def __reduce__(self) -> str:
        raise TypeError("a risk cannot be copied: what is spent of a copy would be spent twice")


def check_spent(spent: float | Fraction, confidence: float | Fraction) -> None:
    """Refuse an answer that claims more confidence than its bounds leave: a fault of the program.

    Examples
    --------
    >>> check_spent(0.25, 0.75), check_spent(0.0, 1.0)
    (None, None)
    """
    if Fraction(spent) > 1 - Fraction(confidence):
        raise Overspent(f"bounds that spent {spent!r} cannot hold with confidence {confidence!r}")


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
    units = QUANTILE_ULPS * np.sqrt(np.maximum(total / MOST_DRAWS, 1.0))
    lower, missed = (np.maximum(down(np.asarray(bound), ulps=units), 0.0) for bound in (lower, upper))
    return Interval(np.where(hits > 0, lower, 0.0), np.where(failures > 0, up(1 - missed), 1.0))


def mean_interval(mean: ArrayLike, n: int, miss: float, low: float = 0.0, high: float = 1.0) -> Interval:
    """Return the two-sided interval for the mean of bounded values, rounded outwards.

    Claim: of n independent values on [low, high], whatever their laws, the average of the expected values lies in
    the interval with probability at least 1 - miss, with at most miss/2 lost on either side.

    Parameters
    ----------
    mean : array_like of float
        Means of n values each, as ``math.fsum(values) / n`` rounds them.
    n : int
        At least 1.
    miss : float
        Probability, in [0, 1], that the interval misses; of each mean.
    low, high : float
        ``low < high``: what the values are *proven* to lie between, before any of them is seen.

    Raises
    ------
    ValueError
        If a mean lies outside [low, high], there are no values, or low is not below high.

    Notes
    -----
    All mu with n kl(p, q) <= ln(2 / miss), where p and q are the mean and mu rescaled to [0, 1] and
    kl(p, q) = p ln(p/q) + (1 - p) ln((1 - p)/(1 - q)).  The ends are found in doubles and then proved in fifty digits.
    A mean is taken to be off by `MEAN_ULPS` units.

    Examples
    --------
    >>> lower, upper = mean_interval([0.5, 1.0], 1000, 0.001)
    >>> lower.round(3), upper.round(3)
    (array([0.439, 0.992]), array([0.561, 1.   ]))

    References
    ----------
    Hoeffding 1963, theorem 1.
    """
    means, n, width = as_floats(mean), whole("n", n), _width(low, high)
    if not 0 <= miss <= 1:
        raise ValueError(f"the probability of a miss must lie in [0, 1], got {miss!r}")
    lowest, highest = down(means, ulps=MEAN_ULPS), up(means, ulps=MEAN_ULPS)
    if not ((highest >= low) & (lowest <= high)).all():
        raise ValueError(f"a mean of values on [{low!r}, {high!r}] must lie there, too; widen low and high")
    start, lower, upper = Fraction(low), np.empty(means.shape), np.empty(means.shape)
    for at in np.ndindex(means.shape):
        least, most = ((Fraction(float(end[at])) - start) / width for end in (lowest, highest))
        lower[at] = float_below(start + width * Fraction(_below(max(least, Fraction(0)), n, miss)))
        upper[at] = float_above(start + width * (1 - Fraction(_below(max(1 - most, Fraction(0)), n, miss))))
    return Interval(lower, upper)


def _width(low: float, high: float) -> Fraction:
    if not -1e300 <= low < high <= 1e300:
        raise ValueError(f"low must be below high, and both within 1e300, got {low!r} and {high!r}; widen them")
    return Fraction(high) - Fraction(low)


def _below(p: Fraction, n: int, miss: float) -> float:
    """Return q in [0, p] with n kl(p, q) >= ln(2 / miss), or 0: nothing below q has a smaller divergence."""
    if not miss or not float(p):
        return 0.0
    with localcontext(FIFTY):
        needed = (2 / Decimal(float(miss))).ln() / n
        wanted, near = float(needed), float(p)
        q, above = 0.0, near
        while q < (middle := 0.5 * (q + above)) < above:
            q, above = (middle, above) if _divergence(near, middle) >= wanted else (q, middle)
        back = 2.0**-50 * near
        while q > 0 and _divergence_in_digits(p, q) < needed * (1 + SLACK) + SLACK:
            q, back = max(q - back, 0.0), 2 * back
    return q


def _divergence(p: float, q: float) -> float:
    rest = (1 - p) * math.log1p((q - p) / (1 - q)) if p < 1 else 0.0
    return p * math.log(p / q) + rest


def _divergence_in_digits(p: Fraction, q: float) -> Decimal:
    """Return kl(p, q) to some 48 digits after the point, in the context that is set."""
    share, at = Decimal(p.numerator) / p.denominator, Decimal(q)
    rest = (1 - share) * ((1 - share) / (1 - at)).ln() if share < 1 else Decimal(0)
    return share * (share / at).ln() + rest


@lru_cache(maxsize=256)  # the same for every record
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
    """One look at the data, after ``draws`` draws in all; its risk holds a share for every bound that is looked at."""

    draws: int
    risk: Risk


def looks(tolerance: float, risk: Risk, *, first: int = 256) -> tuple[Look, ...]:
    """Divide a risk over a schedule of looks, the last of which meets the tolerance: nothing is left of it.

    Look i = 0, 1, .. comes after ``first * 2**i`` draws and is given ``1 / ((i+1)(i+2))`` of every share; the last one
    is given what is left and comes as soon as its intervals are narrow enough whatever the truth is.
    Intersecting the intervals of all looks made so far misses with at most the probability of the share,
    whatever rule stopped the run.
    """
    count = 1
    while (last := draws_needed(tolerance, float_below(risk.each / count))) > first * 2 ** (count - 1):
        count += 1
    # sum_{i < L-1} 1/((i+1)(i+2)) = 1 - 1/L, so 1/L is left
    weights = [*(Fraction(1, (i + 1) * (i + 2)) for i in range(count - 1)), Fraction(1, count)]
    draws = [*(first * 2**i for i in range(count - 1)), last]
    return tuple(Look(at, share) for at, share in zip(draws, risk.divide(weights), strict=True))
