"""A confidence bound on the mutual information when outputs are *sampled*: one scalar, no union over coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.pac.calibration import Plan, Shape, calibrate
from epsworth.pac.lattice import MOST_STEPS, STEPS

HEADROOM = 1.25  # on the largest squared distance seen in the pilot; the clip bites in well under 1 % of trials


def bernstein_upper(mean: ArrayLike, variance: ArrayLike, count: int, width: ArrayLike, miss: float) -> Floats:
    """Return an upper confidence limit on the mean of ``count`` draws from an interval of this width.

    Claim: it misses with probability at most ``miss``, whatever the law.  ``variance`` has ``ddof=1``.

    References
    ----------
    Maurer & Pontil 2009, Theorem 4.
    """
    log = math.log(2 / miss)
    slack = np.sqrt(2 * as_floats(variance) * log / count) + 7 * as_floats(width) * log / (3 * (count - 1))
    return np.asarray(as_floats(mean) + slack)


def certified_mi(moment: float, directions: int) -> float:
    """Return the mutual information when 1/2 sum s_i / e_i is at most ``moment``: d/2 ln(1 + 2 moment / d)."""
    return directions / 2 * math.log1p(2 * moment / directions) if directions else 0.0


@dataclass(frozen=True, eq=False)
class Certificate:
    """What k fresh pairs of trials show of a plan.

    Attributes
    ----------
    plan : Plan
        With the clip, and the noise enlarged where needed.
    confidence : float
        1 - g, over the trials.
    pairs : int
        How many pairs of worlds were compared.
    unconditional : float
        Mutual information that holds whatever the trials were, because outputs are clipped.
    zcdp : float
        rho of zero-concentrated differential privacy for replacing the whole subset, for this fixed plan.
    """

    plan: Plan
    confidence: float
    pairs: int
    unconditional: float
    zcdp: float


def certify(pilot: Floats, left: Floats, right: Floats, beta: float, shape: Shape, *, miss: float) -> Certificate:
    """Return a plan with MI <= ``beta`` with confidence ``1 - miss`` over independent trials.

    Parameters
    ----------
    pilot : ndarray, shape ``(m, d)``
        Outputs of independent worlds: fix centre, directions, noise and clip.
    left, right : ndarray, shape ``(k, d)``
        Outputs of 2k fresh independent worlds, looked at once.

    Notes
    -----
    With |.| the norm in standard deviations of the noise, t = |y - y'|^2 / 4 lies in [0, R^2] after the clip and has
    mean 1/2 sum s_i / e_i, of which MI is a concave function; noise is multiplied by what its upper limit asks for.
    """
    plan = calibrate(pilot, beta, shape)
    directions = len(plan.frame)
    lengths = np.linalg.norm(plan.frame.coordinates(pilot) / (plan.step * STEPS), axis=1)
    clip = math.sqrt(HEADROOM) * float(lengths.max(initial=0.0))
    plan = replace(plan, clip=clip)
    if directions == 0:
        return Certificate(replace(plan, mi=0.0), 1.0, len(left), 0.0, 0.0)
    radius = clip + math.sqrt(directions) / (2 * STEPS)  # rounding to the grid can reach past the clip
    t = ((plan.positions(left) - plan.positions(right)) / STEPS) ** 2
    t = t.sum(axis=1) / 4
    moment = float(bernstein_upper(t.mean(), t.var(ddof=1), len(t), radius**2, miss))
    factor = _enough(moment, directions, beta)
    coarser = math.floor(math.sqrt(factor))  # much more noise gets a coarser grid, and pays for what rounding may add:
    if coarser > 1:  # |y - y'| grows by the roundings of both grids at most, and so does its root mean square
        moment = (math.sqrt(moment) + math.sqrt(directions) * (coarser + 1) / (2 * STEPS)) ** 2
        radius = clip + coarser * math.sqrt(directions) / (2 * STEPS)
        factor = _enough(moment, directions, beta)
    plan = replace(
        plan, noise=(plan.step * STEPS) ** 2 * factor, step=plan.step * coarser, clip=clip / coarser,
        ratio=STEPS * math.sqrt(factor) / coarser, mi=certified_mi(moment / factor, directions),
    )  # fmt: skip
    if plan.ratio > MOST_STEPS:  # a grid that fine has no table
        raise ValueError(
            f"the certificate asks for {factor:.3g} times the pilot's noise, more than its grid allows; take more "
            "worlds or a larger budget"
        )
    always = certified_mi(radius**2 / (2 * factor), directions)
    return Certificate(plan, 1 - miss, len(t), always, 2 * radius**2 / factor)


def _enough(moment: float, directions: int, beta: float) -> float:
    """Return the factor on the noise that takes a moment to the budget, at least 1."""
    return max(1.0, 2 * moment / (directions * math.expm1(2 * beta / directions)))
