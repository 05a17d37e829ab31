"""Tail probabilities that turn sums into p-values for "the sign is the opposite one", each rounded up.

Units in the last place are counted where a bound is made.  The library's functions are off by, relatively,

``betainc``  the incomplete beta function (Boost) is a prefix x^a (1 - x)^b / B(a, b) times a continued fraction.
             For a binomial law of n trials the prefix is three Lanczos sums (rational, positive, of degree 12: 50
             roundings each), ten roundings of powers and roots, and exp(a log1p(u) + b log1p(v)), where each term has
             the size of e = |a (1 - x) - b x| and some six roundings.  Rounding up twelve per e leaves a factor to
             spare; each step of the fraction costs four more, of which there are fewer than 2 sqrt(n) + 20 (O(sqrt(n))
             in Press & al., Numerical Recipes, 6.4; tests/learner/test_learner_rounding.py counts them).
``log1p``    4 units (NumPy's vector code; the C library needs 1), ``exp`` likewise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from epsworth.arrays import Floats, as_floats
from epsworth.bounds import Interval, Risk
from epsworth.learner.coins import Ints
from epsworth.rounding import down, up

FIXED, PER_EXPONENT, PER_ROOT = 240, 12, 8  # units of `betainc`, as derived above
# No p-value is smaller.  For fewer than 40 votes against, Boost adds up binomial terms from 2^-n on, which is zero from
# n = 1075 on: then it returns zero for tails of up to 2^-842.
LEAST = 2.0**-800
GOLDEN = (np.sqrt(5) - 1) / 2
STEPS = 70  # golden sections: the bracket shrinks to 2e-15 of itself
FARTHEST_SHARE = 1 - 2.0**-40  # of the way to the exponent's pole: the search needs an end, and any s gives a bound


def units(trials: ArrayLike, exponent: ArrayLike) -> Floats:
    """Return by how many units `betainc` may be off, for a binomial tail whose exponent has this size."""
    return as_floats(FIXED + PER_EXPONENT * as_floats(exponent) + PER_ROOT * np.sqrt(as_floats(trials)))


def sign_test(votes: ArrayLike, against: ArrayLike) -> Floats:
    """Return Pr[Binomial(votes + against, 1/2) >= votes], rounded up: the p-value for "more than half vote for".

    Examples
    --------
    >>> round(float(sign_test(530, 470)), 6)
    0.031012
    """
    k, other = as_floats(votes), as_floats(against)
    p = as_floats(betainc(np.maximum(k, 1.0), other + 1, 0.5))
    above = up(p, ulps=units(k + other, np.abs(k - other)))
    return np.where(k > 0, np.clip(above, LEAST, 1.0), 1.0)


def chernoff(t: ArrayLike, n: int, scale: float) -> Floats:
    """Bound Pr[T_n - E T_n >= t] for the statistic of Berrett & Butucea with n users per half; for every epsilon.

    min over 0 < s < n/b of exp(-s t - n log(1 - (s b / n)^2) - n log(1 - (s b / 2n)^2) + 5 s^2 / 32 n): Laplace noise
    of scale b in both halves (discrete noise has the smaller transform), Hoeffding's lemma for what is sampled.

    Parameters
    ----------
    t : array_like
        By how much the statistic exceeds its mean.
    n : int
        Users per half; nothing is refused, and without users the bound is 1.
    scale : float
        b, the scale of the noise.

    Returns
    -------
    ndarray
        Bounds on the probability, at most 1.

    Examples
    --------
    >>> from epsworth.learner import chernoff
    >>> round(float(chernoff(0.3, 10_000, 8.0)), 4)
    0.0604
    """
    deviation = as_floats(t)
    if n < 1:
        return np.ones(deviation.shape)

    def terms(share: Floats) -> tuple[Floats, Floats]:  # s = share n / b; the share is exact, whatever it is
        s = share * n / scale
        noise = -n * (np.log1p(-(share**2)) + np.log1p(-(share**2) / 4))
        return as_floats(s * deviation), as_floats(noise + 5 * s**2 / (32 * n))

    def exponent(share: Floats) -> Floats:
        gain, cost = terms(share)
        return cost - gain

    low, high = np.zeros(deviation.shape), np.full(deviation.shape, FARTHEST_SHARE)
    for _ in range(STEPS):  # the exponent is convex in s
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        better = exponent(left) < exponent(right)
        low, high = np.where(better, low, left), np.where(better, right, high)
    gain, cost = terms(as_floats((low + high) / 2))  # any s gives a bound
    # cost: 4 of a logarithm, 3 of sums and product (the last term, with 10 of its own, is no larger than half a gain);
    # gain: 4, that of the scale too; and n s^2 b^2 / (n^2 - s^2 b^2), by which the rounding of a square near 1 moves
    # its logarithm, is at most half a gain where the slope vanishes, as is the last term: 1 + 5 more
    least = as_floats(up(up(cost, ulps=8) - down(gain, ulps=10)))
    return np.clip(up(as_floats(np.exp(least)), ulps=4), LEAST, 1.0)


def published_bound(t: float, n: int, scale: float) -> float:
    """Return exp(-n t^2 / (16 b^2)), the bound of Berrett & Butucea, where it is proven: b >= 1 and t <= b.

    It ignores the sampling of users: at epsilon = 100, n = 200, t = 0.06 the true tail is .049 and this 6e-13.

    Parameters
    ----------
    t : float
        By how much the statistic exceeds its mean.
    n : int
        Users per half.
    scale : float
        b, the scale of the noise.

    Raises
    ------
    ValueError
        Where it is not proven.

    Examples
    --------
    >>> from epsworth.learner import chernoff, published_bound
    >>> round(published_bound(0.3, 10_000, 8.0), 4), round(float(chernoff(0.3, 10_000, 8.0)), 4)
    (0.4152, 0.0604)
    """
    if scale < 1:
        raise ValueError(
            f"scale is {scale:g}, below 1 (epsilon above 2^(d + 1)): the published bound ignores sampling and is wrong "
            "there; use chernoff"
        )
    if not 0 <= t <= scale:
        raise ValueError(
            f"t must lie between 0 and the scale {scale:g} of the published bound, got {t:g}; use chernoff"
        )
    return float(np.exp(-n * t**2 / (16 * scale**2)))


def vote_interval(plus: Ints, minus: Ints, votes: Ints, risk: Risk, signal: float) -> Interval:
    """Return intervals for (2 p - 1) / signal, where a vote is for with probability p; each is paid for by a share."""
    lower, upper = risk.interval(plus, np.maximum(votes, 1))
    nobody = votes == 0
    return _outwards(2 * np.where(nobody, 0.0, lower) - 1, 2 * np.where(nobody, 1.0, upper) - 1, signal)


def difference_interval(plus: Ints, minus: Ints, reports: Ints, risk: Risk, signal: float) -> Interval:
    """Return intervals for (p - q) / signal from two counts of the same reports; each pays with half a share twice."""
    lower, upper = risk.split(2).interval(np.stack([plus, minus]), np.maximum(reports, 1))
    (p_low, q_low), (p_high, q_high) = lower, upper
    nobody = reports == 0  # then both probabilities are anywhere in [0, 1]
    return _outwards(np.maximum(p_low - q_high - nobody, -1), np.minimum(p_high - q_low + nobody, 1), signal)


def _outwards(low: Floats, high: Floats, signal: float) -> Interval:
    """Divide by the signal; three roundings: of the difference, the signal, the quotient."""
    return Interval(as_floats(down(low / signal, ulps=3)), as_floats(up(high / signal, ulps=3)))
