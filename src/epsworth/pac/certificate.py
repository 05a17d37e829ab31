"""A confidence bound on the mutual information when outputs are *sampled*: one scalar, no union over coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.bounds import Risk
from epsworth.pac.allocation import MOST_STEPS, STEPS
from epsworth.pac.calibration import Plan, Shape, calibrate
from epsworth.rounding import float_below, up

HEADROOM = 1.25  # on the largest squared distance seen in the pilot; the clip bites in well under 1 % of trials
FORMULA_ULPS = 16  # units of 2**-53 in `bernstein_upper` and in `certified_mi`: at most a dozen roundings, log1p for 8


def bernstein_upper(mean: ArrayLike, variance: ArrayLike, count: int, width: ArrayLike, risk: Risk) -> Floats:
    """Return an upper confidence limit on the mean of ``count`` draws from an interval of this width, rounded up.

    Claim: it misses with probability at most a share of the risk, whatever the law.  ``variance`` has ``ddof=1``.

    References
    ----------
    Maurer & Pontil 2009, Theorem 4.
    """
    average, square, reach = np.broadcast_arrays(*map(as_floats, (mean, variance, width)))
    log = math.log(2 / risk.spend(average.size))
    slack = np.sqrt(2 * square * log / count) + 7 * reach * log / (3 * (count - 1))
    return up(np.asarray(average + slack), ulps=FORMULA_ULPS)


def certified_mi(moment: float, directions: int) -> float:
    """Return an upper limit of the information when 1/2 sum s_i / e_i <= ``moment``: d/2 ln(1 + 2 moment / d)."""
    return up(directions / 2 * math.log1p(2 * moment / directions), ulps=FORMULA_ULPS) if directions else 0.0


@dataclass(frozen=True, eq=False)
class Certificate:
    """What k fresh pairs of trials show of a plan.

    Attributes
    ----------
    plan : Plan
        With the clip, and the noise enlarged where needed.
    spent : Fraction
        Probability, over the trials, that the certificate misses.
    pairs : int
        How many pairs of worlds were compared.
    unconditional : float
        Mutual information that holds whatever the trials were, because outputs are clipped.
    zcdp : float
        rho of zero-concentrated differential privacy for replacing the whole subset, for this fixed plan.
    """

    plan: Plan
    spent: Fraction
    pairs: int
    unconditional: float
    zcdp: float

    @property
    def confidence(self) -> float:
        """Probability, over the trials, with which the certificate holds."""
        return float_below(1 - self.spent)


def certify(pilot: Floats, left: Floats, right: Floats, mi: float, shape: Shape, risk: Risk) -> Certificate:
    """Return a plan with MI <= ``mi``; over independent trials it misses with a share of the risk.

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

    In units of 2**-53: a computed t is off by d + 3 of itself, the mean of k of them by k more, and their deviation by
    d + k + 5 of R^2 at most, which is sqrt(k) times as much of the limit's last term, 7 R^2 ln(2/miss) / 3k.
    """
    plan = calibrate(pilot, mi, shape)
    directions, before = len(plan.frame), risk.spent
    lengths = np.linalg.norm(plan.frame.coordinates(pilot) / (plan.step * STEPS), axis=1)
    clip = math.sqrt(HEADROOM) * float(lengths.max(initial=0.0))
    plan = replace(plan, clip=clip)
    if directions == 0:
        return Certificate(replace(plan, mi=0.0), Fraction(0), len(left), 0.0, 0.0)
    # rounding to the grid can reach past the clip, and that of the clip itself, d + 8 units, too
    radius = up(clip, ulps=directions + 8) + math.sqrt(directions) / (2 * STEPS)
    t = ((plan.positions(left) - plan.positions(right)) / STEPS) ** 2
    t = t.sum(axis=1) / 4
    limit = float(bernstein_upper(t.mean(), t.var(ddof=1), len(t), radius**2, risk))
    moment = up(limit, ulps=(directions + len(t) + 8) * (1 + math.isqrt(len(t))))
    factor = _enough(moment, directions, mi)
    coarser = math.floor(math.sqrt(factor))  # much more noise gets a coarser grid, and pays for what rounding may add:
    if coarser > 1:  # |y - y'| grows by the roundings of both grids at most, and so does its root mean square
        moment = up((math.sqrt(moment) + math.sqrt(directions) * (coarser + 1) / (2 * STEPS)) ** 2, ulps=FORMULA_ULPS)
        radius = up(clip, ulps=directions + 8) + coarser * math.sqrt(directions) / (2 * STEPS)
        factor = _enough(moment, directions, mi)
    plan = replace(
        plan, step=plan.step * coarser, ratio=STEPS * math.sqrt(factor) / coarser, clip=clip / coarser,
        mi=certified_mi(moment / factor, directions),
    )  # fmt: skip
    if plan.ratio > MOST_STEPS:  # a grid that fine has no table
        raise ValueError(
            f"the certificate asks for {factor:.3g} times the pilot's noise, more than its grid allows; take more "
            "worlds or a larger budget"
        )
    always = certified_mi(radius**2 / (2 * factor), directions)
    zcdp = up(2 * radius**2 / factor, ulps=FORMULA_ULPS)
    return Certificate(plan, risk.spent - before, len(t), always, zcdp)


def _enough(moment: float, directions: int, mi: float) -> float:
    """Return the factor on the noise that takes a moment to the budget, at least 1."""
    factor = max(1.0, 2 * moment / (directions * math.expm1(2 * mi / directions)))
    while certified_mi(moment / factor, directions) > mi:
        factor = up(factor, ulps=FORMULA_ULPS)
    return factor
