"""Central epsilons that no analysis can get below: data sets on which a mechanism tells as much.

All others hold one value c, and the divergence is exact: the blanket is R(c) itself.  Every number errs downwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betainc

from epsworth.rounding import UNIT
from epsworth.shuffling.binomials import below, fair_excess, point_mass
from epsworth.shuffling.clones import LEAST_DELTA, MOST_EPSILON, MOST_USERS, block_starts, depth, holding_end

BLOCKS = 512
_GRANT = 1e-9  # relative, of point masses and tails of coins that are not fair


def floor_of(users: int, local: float, delta: float, mechanism: str, symbols: int | None, top: float) -> float | None:
    """Return a central epsilon that such reports need on some data set; None where no such data set is known.

    Parameters
    ----------
    top : float
        A central epsilon that they keep.

    Examples
    --------
    >>> 0.0379 < floor_of(10_000, 1.0, 1e-6, "any", None, 0.0433) < 0.0381
    True
    """
    if delta < LEAST_DELTA or local > MOST_EPSILON or users > MOST_USERS:
        return None
    large = math.exp(local)
    two = mechanism == "any" or symbols == 2 or (mechanism == "hadamard" and symbols is None)
    rate = None
    if mechanism == "any":
        rate = 1 / (large + 2)  # randomised response to three values
    elif mechanism == "krr" and symbols is not None and symbols > 2:
        rate = 1 / (large + symbols - 1)
    elif mechanism == "oue":
        rate = large / (2 * (large + 1) ** 2)
    found = []
    if mechanism != "oue" and two:
        found.append(_needed(lambda epsilon: delta_of_coins(users, local, epsilon), delta, top))
    if rate is not None:
        found.append(_needed(lambda epsilon: delta_of_thirds(users, rate, local, epsilon, delta), delta, top))
    return max(found, default=None)


def _needed(divergence: Callable[[float], float], delta: float, top: float) -> float:
    if divergence(0.0) <= delta or top <= 0:
        return 0.0
    return holding_end(lambda epsilon: depth(delta) - depth(divergence(epsilon)), 0.0, top, 0.95 * top, 1e-6)


def delta_of_coins(users: int, local: float, epsilon: float) -> float:
    """Return a lower bound on the divergence of shuffled binary randomised response where all others are alike.

    The number of ones is all that is seen.  Seeing s of them or more has probability Pr[O >= s] + c Pr[O = s - 1],
    with c = 1 - p or p by the target's value; the best s is where the likelihood ratio passes e^epsilon.
    """
    if epsilon >= local:
        return 0.0
    p, large = 1 / (math.exp(local) + 1), math.exp(epsilon)
    gain, others, best = 1 - p - large * p, users - 1, 0.0
    if gain <= 0:
        return 0.0
    if others == 0:
        return gain * (1 - 1e-12)
    odds = (large * (1 - p) - p) / gain
    for own in (p, 1 - p) if 1 - p < 1 else (p,):
        near = math.floor(odds * own * users / (1 - own + odds * own))
        s = np.clip(near + np.arange(-1.0, 3.0), 1, users)
        mass = point_mass(np.array(float(others)), s - 1, own)
        inside = np.minimum(s, others)
        tail = np.where(s > others, 0.0, betainc(inside, others - inside + 1, own))
        best = max(best, float((gain * mass * (1 - _GRANT) - math.expm1(epsilon) * tail * (1 + _GRANT)).max()))
    return best * (1 - 1e-12)


def delta_of_thirds(users: int, rate: float, local: float, epsilon: float, delta: float) -> float:
    """Return a lower bound on the divergence where all others hold a third value.

    Each of two kinds of reports, of probability ``rate``, tells as much as epsilon allows, for and against the target's
    value; all others are replaced by their mean, which only lowers the expected excess (Jensen).  In a block of numbers
    N of telling reports those beyond its least number are replaced by their mean, too.
    """
    if epsilon >= local:
        return 0.0
    theta = min(1.0, math.tanh(epsilon / 2) / math.tanh(local / 2) * (1 + 16 * UNIT))
    scale = math.expm1(local) * (math.exp(epsilon) + 1)
    against = math.expm1(epsilon) * max(0.0, 1 - rate * (math.exp(local) + 1)) / (1 - 2 * rate) / scale
    against *= 1 + 32 * UNIT  # what a silent report takes off
    starts = block_starts(users + 1, 2 * rate, delta, BLOCKS)
    starts = np.append(starts[starts >= 1], starts[-1] + 1)
    least, most = starts[:-1], starts[1:] - 1
    inside = below(starts[1:], users, 2 * rate, -1) - below(starts[:-1], users, 2 * rate, 1)
    single = point_mass(np.array(float(users)), least, 2 * rate) * (1 - _GRANT)
    inside = np.where(least == most, single, inside)
    above = np.maximum(*(counted * theta / 2 + (users - counted) * against for counted in (least, most)))
    found = np.maximum(inside, 0.0) @ fair_excess(least, above * (1 + 8 * UNIT), -1)
    return float(found) * scale / users * (1 - 1e-12)
