"""Several shuffled batches with a report of everybody in each: the product of dominating pairs.

The bound of `clones` is the divergence of a pair of laws at every order, so it composes, also where later questions
depend on earlier answers (Zhu, Dong & Wang 2022).  Seen are the number of clones and A ~ Bin(N, 1/2), tilted by the
target's own coin.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.fft import irfft, rfft

from epsworth.arrays import Floats, as_floats
from epsworth.rounding import UNIT
from epsworth.shuffling.binomials import ETA, below, point_mass
from epsworth.shuffling.clones import (
    LEAST_DELTA,
    MOST_EPSILON,
    MOST_USERS,
    block_starts,
    clone_rate,
    depth,
    holding_end,
)

MOST_POINTS = 3_000_000  # of the pair of one round
MOST_LATTICE = 1 << 21  # of the losses of all rounds
PER_SD = 200  # lattice points per standard deviation of one round's loss
MOST_ROUNDS = 10_000


def epsilon_of_rounds(users: int, local: float, delta: float, rounds: int, top: float) -> float:
    """Return a central epsilon that so many rounds together are seen to keep, ``top`` where that is no less.

    Examples
    --------
    >>> round(epsilon_of_rounds(100_000, 1.0, 1e-6, 2, 0.0263), 3)
    0.018
    """
    if users <= 1 or delta < LEAST_DELTA or local > MOST_EPSILON or top <= 0:
        return top
    losses, masses, lost = losses_of_rounds(min(users, MOST_USERS), local, delta, rounds)

    def gap(epsilon: float) -> float:
        over = losses > epsilon
        found = float(masses[over] @ -np.expm1(epsilon - losses[over]))
        norm = float(np.sqrt(masses @ masses))
        rough = 64 * UNIT * rounds * math.log2(masses.size) * norm * math.sqrt(np.count_nonzero(over))
        granted = math.exp(2 * ETA * rounds) * (1 + 1e-9)  # point masses, in every round
        return depth((found + rough + lost) * granted) - depth(delta)

    if gap(top) < 0:
        return top
    return 0.0 if gap(0.0) >= 0 else holding_end(gap, top, 0.0, 0.8 * top, 1e-6)


def losses_of_rounds(users: int, local: float, delta: float, rounds: int) -> tuple[Floats, Floats, float]:
    """Return the losses of all rounds on a lattice, their masses, and the mass that counts as lost altogether.

    A loss between two lattice points moves to both such that the masses under both laws are kept: a spread, which
    only raises divergences (Doroshenko et al. 2022).
    """
    loss, mass, lost = _losses_of_one(users, local, delta / rounds)
    furthest = float(np.abs(loss).max())
    sd = math.sqrt(float(mass @ loss**2) / float(mass.sum()))
    step = max(sd / PER_SD, 2 * furthest * rounds / MOST_LATTICE)
    other = mass * np.exp(-loss)
    lower = np.floor(loss / step)
    start = lower * step
    upper = np.clip((mass - other * np.exp(start)) / -math.expm1(-step), 0.0, mass)
    reach = math.ceil(furthest / step) + 1
    index = lower.astype(np.int64) + reach
    one = as_floats(np.bincount(index, mass - upper, minlength=2 * reach + 2))
    one += np.bincount(index + 1, upper, minlength=2 * reach + 2)
    full = rounds * (one.size - 1) + 1
    size = 1 << math.ceil(math.log2(full))
    together = np.maximum(irfft(rfft(one, size) ** rounds, size)[:full], 0.0)
    values = step * (np.arange(full, dtype=np.float64) - rounds * reach)
    return values, as_floats(together), rounds * lost


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
