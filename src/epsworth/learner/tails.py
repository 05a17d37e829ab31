"""Tail probabilities that turn sums into p-values, each rounded up, and the power of the sign test, never overstated.

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

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, ndtri

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.bounds import Interval, Risk
from epsworth.learner.coins import Ints
from epsworth.rounding import down, up

FIXED, PER_EXPONENT, PER_ROOT = 240, 12, 8  # units of `betainc`, as derived above
# No p-value is smaller.  For fewer than 40 votes against, Boost adds up binomial terms from 2^-n on, which is zero from
# n = 1075 on: then it returns zero for tails of up to 2^-842.
LEAST = 2.0**-800
FINE, COARSE = 1024, 64  # blocks of voters: within four standard deviations, and on either side of them
REACH = 7.5  # standard deviations of the number of voters that are counted at all; the rest has no power


def units(trials: ArrayLike, exponent: ArrayLike) -> Floats:
    """Return by how many units `betainc` may be off, for a binomial tail whose exponent has this size."""
    return as_floats(FIXED + PER_EXPONENT * as_floats(exponent) + PER_ROOT * np.sqrt(as_floats(trials)))


def sign_test(votes: ArrayLike, against: ArrayLike) -> Floats:
    """Return Pr[Binomial(votes + against, 1/2) >= votes], rounded up: the p-value for "more than half vote for"."""
    k, other = as_floats(votes), as_floats(against)
    p = as_floats(betainc(np.maximum(k, 1.0), other + 1, 0.5))
    above = up(p, ulps=units(k + other, np.abs(k - other)))
    return np.where(k > 0, np.clip(above, LEAST, 1.0), 1.0)


def vote_interval(plus: Ints, minus: Ints, votes: Ints, risk: Risk, signal: float, fakes: int = 0) -> Interval:
    """Return intervals for (2 p - 1) / signal, where a vote, of so many not ``fakes``, is for with probability p."""
    trials, half = np.maximum(votes, 1), risk.split(2)
    lower = half.lower(np.maximum(plus - fakes, 0), trials)
    upper = half.upper(np.minimum(plus + fakes, trials), trials)
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


class Ballot(NamedTuple):
    """``share``: how likely a report votes in a cell's sign test; ``lead`` of class 1 per unit of signed mean."""

    share: float
    lead: float


def sign_power(users: int, ballot: Ballot, margin: float, level: float, fakes: int = 0) -> float:
    """Return a lower bound on the probability that the sign test of a cell reaches ``level`` for the right label.

    Where every report votes, it holds for all larger numbers of users, too (`smooth_power`).  Otherwise the number of
    voters is binomial, and exact powers are averaged; thousands of them by blocks, whose power is at least that of the
    first number of voters with the critical count of the last one.  Of ``fakes`` declared, every one may replace an
    honest vote for the right label by one against it: the test, which allows for as many again, sees twice as many
    fewer.
    """
    if 2 * fakes >= users:
        return 0.0
    # rounded: lead, product, share (as a sum of five terms) and quotient; the sum is at least 1
    agree = down((1 + min(1.0, down(ballot.lead * margin / ballot.share, ulps=10))) / 2)
    if ballot.share >= 1:
        return smooth_power(users, agree, level, 2 * fakes)
    first, last, weight = _blocks(users, ballot.share)
    # every weight is a difference of two tails, and the tail it multiplies is a third
    least = critical(last, level) + 2 * fakes
    return float(weight @ tail(first, least, agree)) - 3 * weight.size * tail_error(users)


def tail_error(trials: int) -> float:
    """Bound the absolute error of a binomial tail.

    Of probability Q and exponent e = z sqrt(n p (1 - p)), Q z <= 1/5 (the complement is computed where it is smaller).
    """
    return float(units(trials, math.sqrt(trials) / 5)) * 2.0**-52


def smooth_power(voters: int, agree: float, level: float, more: int = 0) -> float:
    """Return a lower bound on the power where every report votes, so many ``more`` than the critical count needed.

    That count is the least whole number not below the root k of Pr[Binomial(n, 1/2) >= k] = level, continued to real k;
    so it is below k + 1, but for the root's own error, which moves the power by no more than the error of a tail.
    """
    n, low, high = float(voters), 0.0, float(voters) + 1
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if float(sign_test(middle, n - middle)) <= level:
            high = middle
        else:
            low = middle
    high += more
    if high >= n:
        return 0.0
    return float(betainc(high + 1, n - high, agree)) - 2 * tail_error(voters)


def critical(voters: Ints, level: float) -> Ints:
    """Return the least votes that the sign test certifies, per number of voters; one more than all where none do."""
    n = np.asarray(voters, dtype=np.int64)
    guess = np.floor((n - ndtri(level) * np.sqrt(n)) / 2).astype(np.int64)
    low, high = np.clip(guess - 3, 0, n), np.clip(guess + 5, 1, n + 1)
    low = np.where(_certified(low, n, level), 0, low)
    high = np.where(_certified(high, n, level), high, n + 1)
    while (high - low > 1).any():
        middle = (low + high) // 2
        reached = _certified(middle, n, level)
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return high


def _certified(votes: Ints, voters: Ints, level: float) -> Bools:
    return np.asarray((votes <= voters) & (sign_test(votes, np.maximum(voters - votes, 0)) <= level))


def tail(trials: Ints, least: Ints, p: float) -> Floats:
    """Return Pr[Binomial(trials, p) >= least] for ``least`` of at least 1."""
    some = least <= trials
    return np.where(some, betainc(least, np.where(some, trials - least, 0) + 1.0, p), 0.0)


def _blocks(users: int, share: float) -> tuple[Ints, Ints, Floats]:
    """Return first and last number of voters of consecutive blocks, and their binomial probabilities."""
    mean, deviation = users * share, math.sqrt(users * share * (1 - share))
    ends = [mean + k * deviation for k in (-REACH, -4, 4, REACH)]
    parts = [np.linspace(a, b, k) for a, b, k in zip(ends[:-1], ends[1:], (COARSE, FINE, COARSE), strict=True)]
    near = np.floor(np.concatenate([*parts, [ends[-1] + 30, ends[0] - 30]])).clip(0, users).astype(np.int64)
    edges = np.unique(np.append(near, users + 1 if ends[-1] + 30 >= users else near.max()))
    first, last = edges[:-1], edges[1:] - 1
    upto = as_floats(np.where(last < users, betainc(np.maximum(users - last, 1), last + 1.0, 1 - share), 1.0))
    before = np.where(first > 0, betainc(users - first + 1.0, np.maximum(first, 1), 1 - share), 0.0)
    return first, last, np.maximum(upto - before, 0.0)
