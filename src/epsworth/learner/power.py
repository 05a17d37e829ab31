"""Power of the sign test: how probable it is that a cell's certificate is reached, never overstated."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, ndtri

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.learner.coins import Ints
from epsworth.learner.tails import sign_test, units
from epsworth.rounding import down

FINE, COARSE = 1024, 64  # blocks of voters: within four standard deviations, and on either side of them
REACH = 7.5  # standard deviations of the number of voters that are counted at all; the rest has no power


class Ballot(NamedTuple):
    """How a report votes in the sign test of a cell.

    ``share``: probability that it votes at all; ``lead``: that of a vote for class 1 less that of one for class 0, per
    unit of the cell's signed mean.
    """

    share: float
    lead: float


def sign_power(users: int, ballot: Ballot, margin: float, level: float, fakes: int = 0) -> float:
    """Return a lower bound on the probability that the sign test of a cell reaches ``level`` for the right label.

    Where every report votes, the bound holds for all larger numbers of users, too: the exact power rises in a
    saw-tooth, below which a smooth curve lies (`smooth_power`).  Otherwise the number of voters is binomial, and the
    exact powers are averaged; thousands of them by blocks, whose power is at least that of the first number of voters
    with the critical count of the last one (critical counts never fall when voters are added).

    Of ``fakes`` declared, every one may replace an honest vote for the right label by one against it: then the test,
    which allows for as many again, sees the votes of honest users less twice as many (`Mechanism.against`).
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

    A tail of probability Q has the exponent e = z sqrt(n p (1 - p)) and Q z <= 1/5 (its complement is computed where
    that is smaller); the units that `units` counts are 2^-52 of it at most.
    """
    return float(units(trials, math.sqrt(trials) / 5)) * 2.0**-52


def smooth_power(voters: int, agree: float, level: float, more: int = 0) -> float:
    """Return a lower bound on the power where every report votes: without the teeth of the exact one.

    So many votes ``more`` than the critical count are needed.

    The critical count is the least whole number not below the root k of Pr[Binomial(n, 1/2) >= k] = level, continued to
    real k by the incomplete beta function; so it is below k + 1, but for the root's own error, which moves the power by
    no more than the error of a tail.
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
    """Return the least votes that the sign test certifies, per number of voters; one more than all where none do.

    Searched around the normal approximation first, then between 0 and all.
    """
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
