"""Tail probabilities that turn sums into p-values for "the sign is the opposite one", each rounded up."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from epsworth.arrays import Floats, as_floats
from epsworth.bounds import Interval, clopper_pearson
from epsworth.learner.coins import Ints

# Relative, per unit of what enters an exponent.  The incomplete beta function is a prefix x^a (1 - x)^b / B(a, b) times
# a continued fraction; with a, b = votes and others and x = 1/2 the prefix is exp of terms of size |votes - others|,
# each with a few roundings of 2^-53, and the rest costs some 16 roundings whatever the sizes.  Largest error seen
# against exact sums, up to 10^9 votes: 2.4 * 2^-53 (16 + |votes - others|).  16 * 2^-53 leaves room for other builds.
SLACK = 2.0**-49
LEAST = np.finfo(np.float64).tiny  # below it numbers lose digits; no p-value is zero
GOLDEN = (np.sqrt(5) - 1) / 2
STEPS = 70  # golden sections: the bracket shrinks to 2e-15 of itself


def sign_test(votes: ArrayLike, against: ArrayLike) -> Floats:
    """Return Pr[Binomial(votes + against, 1/2) >= votes]: the p-value for "more than half vote for".

    Examples
    --------
    >>> round(float(sign_test(530, 470)), 6)
    0.031012
    """
    k, other = as_floats(votes), as_floats(against)
    least = np.maximum(k, 1.0)
    return np.where(k > 0, _above(as_floats(betainc(least, other + 1, 0.5)), np.abs(k - other)), 1.0)


def _above(probability: Floats, exponents: Floats) -> Floats:
    """Return an upper bound on a probability that was computed from exponents of this size."""
    return as_floats(np.clip(probability * (1 + SLACK * (16 + exponents)), LEAST, 1.0))


def chernoff(t: ArrayLike, n: int, scale: float) -> Floats:
    """Bound Pr[T_n - E T_n >= t] for the statistic of Berrett & Butucea with n users per half; for every alpha.

    min over 0 < s < n/b of exp(-s t - n log(1 - (s b / n)^2) - n log(1 - (s b / 2n)^2) + 5 s^2 / 32 n): Laplace noise
    of scale b in both halves (discrete noise has the smaller transform), Hoeffding's lemma for what is sampled.

    Examples
    --------
    >>> round(float(chernoff(0.3, 10_000, 8.0)), 4)
    0.0604
    """
    deviation = as_floats(t)
    if n < 1:
        return np.ones(deviation.shape)

    def terms(share: Floats) -> tuple[Floats, Floats]:  # s = share n / b
        s = share * n / scale
        noise = -n * (np.log1p(-(share**2)) + np.log1p(-(share**2) / 4))
        return as_floats(s * deviation), as_floats(noise + 5 * s**2 / (32 * n))

    def exponent(share: Floats) -> Floats:
        gain, cost = terms(share)
        return cost - gain

    low, high = np.zeros(deviation.shape), np.full(deviation.shape, 1 - 1e-12)
    for _ in range(STEPS):  # the exponent is convex in s
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        better = exponent(left) < exponent(right)
        low, high = np.where(better, low, left), np.where(better, right, high)
    gain, cost = terms((low + high) / 2)  # any s gives a bound
    return _above(np.exp(cost - gain), np.abs(gain) + cost)


def published_bound(t: float, n: int, scale: float) -> float:
    """Return exp(-n t^2 / (16 b^2)), the bound of Berrett & Butucea, where it is proven: b >= 1 and t <= b.

    It ignores the sampling of users: at alpha = 100, n = 200, t = 0.06 the true tail is .049 and this 6e-13.
    """
    if scale < 1:
        raise ValueError(
            f"scale is {scale:g}, below 1 (alpha above 2^(d + 1)): the published bound ignores sampling and is wrong "
            "there; use chernoff"
        )
    if not 0 <= t <= scale:
        raise ValueError(
            f"t must lie between 0 and the scale {scale:g} of the published bound, got {t:g}; use chernoff"
        )
    return float(np.exp(-n * t**2 / (16 * scale**2)))


def difference_interval(plus: Ints, minus: Ints, trials: int, miss: float, signal: float) -> Interval:
    """Return an interval for (p - q) / signal from two counts of the same reports, each with half of the miss."""
    first, second = (clopper_pearson(counts, max(trials, 1), miss / 2) for counts in (plus, minus))
    nobody = 0 if trials else 1  # without reports both probabilities are anywhere in [0, 1]
    low = np.maximum(first.lower - second.upper - nobody, -1)
    high = np.minimum(first.upper - second.lower + nobody, 1)
    return Interval(as_floats(low / signal), as_floats(high / signal))
