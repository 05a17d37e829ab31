"""One bound for every epsilon-LDP randomiser behind a shuffler.

Theorem: let n reports of one randomiser that keeps e0 be shuffled.  For neighbours that replace one record, the
divergence of order e^eps of what is seen is at most

    delta(n, e0, eps) = E D(M + 1),  M ~ Bin(n - 1, 2 / (e^e0 + 1)),
    D(N) = (2 / N) tanh(e0 / 2) (e^eps + 1) E(A - N (1 + theta) / 2)_+,  A ~ Bin(N, 1/2),
    theta = tanh(eps / 2) / tanh(e0 / 2).

M counts the others that might as well hold the target's record, its clones.  The value is that of the stronger clones
of Feldman, McMillan & Talwar 2023; the proof by the blanket e^-e0 max(P, Q) is in the theory pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr, ndtr

from epsworth.arrays import Floats
from epsworth.rounding import UNIT
from epsworth.shuffling.binomials import TINY, below, fair_excess

BLOCKS = 1024  # of numbers of clones; they raise epsilon by less than 1e-5 of itself
MOST_USERS = 10**9  # more are counted as so many: fewer reports hide less
MOST_EPSILON = 60.0  # of a report; beyond it nothing is said to be hidden
LEAST_DELTA = 1e-250  # below it nothing is said to be hidden
SHARP = 1e-7  # relative, of searches; nothing is returned but what was seen to hold


def clone_rate(local: float) -> float:
    """Return the chance that a report is a clone, 2 / (e^e0 + 1), from below: fewer clones hide less."""
    return 2 / (math.exp(local) + 1) * (1 - 8 * UNIT)


def angle(local: float, epsilon: float) -> float:
    """Return theta from below: a lower threshold is exceeded by more."""
    return min(1.0, math.tanh(epsilon / 2) / math.tanh(local / 2) * (1 - 16 * UNIT))


def block_starts(users: int, rate: float, delta: float, blocks: int) -> Floats:
    """Return where blocks of numbers of clones start: all where they are few, denser around the mean."""
    others = users - 1
    mean, sd = others * rate, math.sqrt(others * rate * (1 - rate))
    wide = math.sqrt(2 * math.log(1e8 / delta)) + 3
    reach = wide * sd + wide * wide / 3
    low, high = max(0, math.floor(mean - reach)), min(others, math.ceil(mean + reach))
    if high - low < blocks:
        return np.arange(low, high + 1, dtype=np.float64)
    s = np.linspace(-1, 1, blocks)
    offset = 0.35 * s + 0.65 * s**5
    return np.unique(np.round(mean + offset * np.where(s < 0, mean - low, high - mean)))


def with_clones(counted: Floats, local: float, epsilon: float) -> Floats:
    """Return D(N) from above, for numbers N of reports among which the target hides."""
    excess = fair_excess(counted, counted * angle(local, epsilon) / 2, 1)
    return 2 / counted * math.tanh(local / 2) * (math.exp(epsilon) + 1) * excess


def delta_of_any(users: int, local: float, epsilon: float, delta: float, blocks: int = BLOCKS) -> float:
    """Return an upper bound on the divergence of any randomiser; ``delta`` says how small a part may matter.

    D falls in N, so a block of numbers of clones counts as its least one.  With D_0 = D(1) and D_j of block j,
    E D <= D_last + sum over j of Pr[M < start_j] (D_{j-1} - D_j): no term is negative, so probabilities from above
    give a bound from above, and fewer clones than the first block's count as none.

    Examples
    --------
    >>> 3.68e-1 < delta_of_any(1, 1.0, 0.3, 1e-6) < 3.681e-1  # a report alone hides nothing
    True
    """
    if epsilon >= local:
        return 0.0
    if users == 1:
        found = with_clones(np.ones(1), local, epsilon)[0]
    else:
        rate = clone_rate(local)
        starts = block_starts(users, rate, delta, blocks)
        values = with_clones(np.concatenate([[1.0], starts + 1]), local, epsilon)
        fewer = below(starts, users - 1, rate, 1)
        found = values[-1] + fewer @ np.maximum(values[:-1] - values[1:], 0.0)
    return min(1.0, float(found) * (1 + 1e-12) + TINY)


def epsilon_of_any(users: int, local: float, delta: float) -> float:
    """Return a central epsilon that every randomiser keeps, seen to hold and within `SHARP` of the bound's.

    Examples
    --------
    >>> round(epsilon_of_any(10_000, 1.0, 1e-6), 4)
    0.0432
    """
    if users <= 1 or delta < LEAST_DELTA or local > MOST_EPSILON:
        return local
    n = min(users, MOST_USERS)

    def gap(epsilon: float) -> float:
        return depth(delta_of_any(n, local, epsilon, delta)) - depth(delta)

    if gap(0.0) >= 0:
        return 0.0
    return holding_end(gap, local, 0.0, normal_epsilon(normal_shift(n, local), delta))


def local_epsilon_of_any(users: int, epsilon: float, delta: float) -> float:
    """Return a local epsilon at which every randomiser is seen to keep the central one; never less than that.

    Examples
    --------
    >>> round(local_epsilon_of_any(100_000, 0.25, 1e-6), 2)
    5.35
    """
    if users <= 1 or delta < LEAST_DELTA:
        return epsilon
    n = min(users, MOST_USERS)

    def gap(local: float) -> float:
        return depth(delta_of_any(n, local, epsilon, delta)) - depth(delta)

    if gap(MOST_EPSILON) >= 0:
        return MOST_EPSILON
    low, high = epsilon, MOST_EPSILON
    for _ in range(30):
        middle = (low + high) / 2
        enough = normal_epsilon(min(normal_shift(n, middle), 50.0), delta) <= epsilon
        low, high = (middle, high) if enough else (low, middle)
    return holding_end(gap, epsilon, MOST_EPSILON, low)


def normal_shift(users: int, local: float) -> float:
    """Return mu of the normal limit N(0, 1) against N(mu, 1)."""
    return math.expm1(local) * math.sqrt(2 / ((math.exp(local) + 1) * users))


def normal_epsilon(mu: float, delta: float) -> float:
    """Return epsilon of N(0, 1) against N(mu, 1): where searches begin, and nothing rests on it."""

    def divergence(epsilon: float) -> float:
        other = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
        return float(ndtr(mu / 2 - epsilon / mu)) - math.exp(min(0.0, other))

    low, high = 0.0, mu * (mu / 2 + 40)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if divergence(middle) <= delta else (middle, high)
    return high


def depth(probability: float) -> float:
    """Return the root of minus the logarithm: nearly straight in epsilon, infinite at zero."""
    if probability <= 0:
        return math.inf
    return math.sqrt(-math.log(probability)) if probability < 1 else 0.0


def holding_end(gap: Callable[[float], float], good: float, bad: float, guess: float, sharp: float = SHARP) -> float:
    """Return a number seen to hold, within a relative ``sharp`` of one that does not.

    Parameters
    ----------
    gap : callable
        Not negative where a number holds; monotone, and nearly straight.
    good, bad : float
        A number that is known to hold, and one that does not, in either order.
    guess : float
        Where to begin.

    Examples
    --------
    >>> root = holding_end(lambda x: x * x - 2, 2.0, 1.0, 1.5)
    >>> 0 <= root * root - 2 < 1e-6
    True
    """
    gaps: dict[bool, float | None] = {True: None, False: None}
    x, step, width = guess, 0.01, abs(good - bad)
    for turn in range(400):
        if not min(good, bad) < x < max(good, bad):
            x = _between(good, bad)
        found = gap(x)
        holds = found >= 0
        gaps[holds] = found
        good, bad = (x, bad) if holds else (good, x)
        if abs(good - bad) <= sharp * max(good, bad):
            break
        reached, missed = gaps[True], gaps[False]
        if reached is None or missed is None:  # one side is still as it was given: go there in growing steps
            towards = bad if holds else good
            x, step = x * (1 + math.copysign(step, towards - x)), step * 4
        elif not math.isfinite(reached) or (turn % 4 == 3 and abs(good - bad) > width / 2):
            x, width = _between(good, bad), abs(good - bad)
        else:
            straight = bad + (good - bad) * missed / (missed - reached)
            beyond = math.copysign(0.4 * sharp * good, good - bad)  # a step over the root, once to either side
            x = straight + (beyond if turn % 2 else -beyond)
            inner = 0.05 * sharp * max(good, bad)
            x = min(max(x, min(good, bad) + inner), max(good, bad) - inner)
    return good


def _between(good: float, bad: float) -> float:
    """Return the middle; near zero, where what matters is relative, an eighth."""
    return max(good, bad) / 8 if min(good, bad) == 0 else (good + bad) / 2
