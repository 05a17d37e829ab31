"""Several shuffled batches with a report of everybody in each: the product of dominating pairs.

The bound of `clones` is the divergence of a pair of laws at every order, so it composes, also where later questions
depend on earlier answers (Zhu, Dong & Wang 2022).  Seen are the number of clones and A ~ Bin(N, 1/2), tilted by the
target's own coin.
"""

from __future__ import annotations

import math

import numpy as np

from epsworth.arrays import Floats
from epsworth.composition import Losses
from epsworth.shuffling.binomials import ETA, below, point_mass
from epsworth.shuffling.clones import (
    LEAST_DELTA,
    MOST_EPSILON,
    MOST_USERS,
    block_starts,
    clone_rate,
)

MOST_POINTS = 3_000_000  # of the pair of one round
PER_SD = 200  # grid points per standard deviation of one round's loss
MOST_ROUNDS = 10_000


def epsilon_of_rounds(users: int, local: float, delta: float, rounds: int, top: float) -> float:
    """Return a central epsilon that so many rounds together keep, ``top`` where that is no less.

    Examples
    --------
    >>> round(epsilon_of_rounds(100_000, 1.0, 1e-6, 2, 0.0263), 3)
    0.018
    """
    if users <= 1 or delta < LEAST_DELTA or local > MOST_EPSILON or top <= 0:
        return top
    loss, mass, lost = _losses_of_one(min(users, MOST_USERS), local, delta / rounds)
    sd = math.sqrt(float(mass @ loss**2) / float(mass.sum()))
    granted = math.exp(2 * ETA)  # point masses
    return min(top, Losses.spread(loss, mass * granted, lost * granted, sd / PER_SD).epsilon(delta, rounds))


def _losses_of_one(users: int, local: float, delta: float) -> tuple[Floats, Floats, float]:
    """Return the losses of one round, their masses under the target's law, and the mass left out."""
    rate = clone_rate(local)
    large = math.exp(local)
    others = users - 1
    wide = math.sqrt(2 * math.log(1e7 / delta))  # Hoeffding: beyond it lies 1e-7 of delta on either side
    per_block = 2 + wide * math.sqrt(others * rate + 1)
    starts = block_starts(users, rate, delta, int(min(512, max(16, MOST_POINTS / per_block))))
    fewer = np.maximum.accumulate(below(starts, others, rate, 1))
    shares = np.diff(fewer, append=1.0)
    lost = float(fewer[0])
    losses, masses = [], []
    for clones, share in zip(starts.tolist(), shares.tolist(), strict=True):
        if share <= 0:
            continue
        n = clones + 1
        reach = wide * math.sqrt(n) / 2 + 1
        a = np.arange(max(0, math.floor(n / 2 - reach)), min(n, math.ceil(n / 2 + reach)) + 1)
        ahead, behind = a * large + (n - a), a + (n - a) * large
        masses.append(share * point_mass(np.array(n), a, 0.5) * 2 * ahead / (n * (large + 1)))
        losses.append(np.log(ahead / behind))
        lost += share * 4e-7 * delta
    return np.concatenate(losses), np.concatenate(masses), lost
