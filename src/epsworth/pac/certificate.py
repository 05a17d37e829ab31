"""Certificates for sampled outputs: one bounded scalar per world, no union over coordinates.

A pilot fixes directions, noise and clip; of every other world one number, half of its weighted squared distance from
the pilot's centre, is bet on.  A wrong centre costs noise, never the promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.bounds import Risk
from epsworth.pac.allocation import MOST_STEPS, STEPS
from epsworth.pac.calibration import Plan, Shape, calibrate
from epsworth.rounding import UNIT, down, float_below, up

HEADROOM = 1.25  # on the largest squared distance seen in the pilot; the clip bites in well under 1 % of trials
FORMULA_ULPS = 16  # units of 2**-53 in `bernstein_upper`, `betting_upper` and `Tangent.mi`: a dozen roundings at most
PILOT = 5  # one world in so many
BISECTIONS = 60


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


def betting_upper(values: ArrayLike, width: float, miss: float) -> float:
    """Return an upper confidence limit on the mean of independent values in [0, ``width``], rounded up.

    Claim: it misses with probability ``miss`` at most, whatever their law.

    Parameters
    ----------
    values : array_like, shape ``(n,)``
        In the order in which they were drawn.
    width : float
        Positive; no value is larger.
    miss : float
        In (0, 1).

    Examples
    --------
    >>> values = np.random.default_rng(0).uniform(0, 0.2, size=1000)
    >>> 0.1 < betting_upper(values, 1.0, 0.001) < 0.12
    True

    Notes
    -----
    With x = 1 - value / width, wealth prod(1 + l_j (x_j - h)) starts at 1 and is a martingale at h = E x, since each
    l_j is fixed by the values before and below 1 / h: it reaches 1 / miss with probability ``miss`` at most (Ville).
    It falls in h, so that whatever lies below a mean that is refuted is refuted, too.  What rounding may add to its
    logarithm, n + 16 units of the sum of all sizes, is taken off.

    References
    ----------
    Waudby-Smith & Ramdas 2024, with their predictable plug-in bets.
    """
    x = np.clip(down(1 - up(as_floats(values) / width)), 0.0, 1.0)
    count, wanted = len(x), math.log(1 / miss)
    places = np.arange(2, count + 2)
    means = (0.5 + np.cumsum(x)) / places
    spreads = (0.25 + np.cumsum((x - means) ** 2)) / places
    stakes = np.sqrt(2 * wanted / (count * np.append(0.25, spreads[:-1])))

    def refuted(mean: float) -> bool:
        logs = np.log1p(np.minimum(stakes, 0.9 / mean) * (x - mean))
        lost = (count + 16) * UNIT * float(np.abs(logs).sum())
        return float(np.cumsum(logs).max()) - lost >= wanted

    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return up(width * (1 - low), ulps=FORMULA_ULPS)


@dataclass(frozen=True, eq=False)
class Tangent:
    """Where the information, a concave function of the moments, is bounded by a line: at the pilot's a_k = s_k / e_k.

    With z_k = (1 + s_k / (f e_k)) / (1 + a_k), noise of f times the pilot's obeys MI <= 1/2 sum ln(1 + s_k / (f e_k)) =
    1/2 sum ln(1 + a_k) + 1/2 sum ln z_k, sum ln z_k <= d ln(mean z), and sum z_k <= sum 1 / (1 + a_k) + 2 U / f for any
    limit U of the moment 1/2 sum s_k / (e_k (1 + a_k)).  At a = 0 that is d/2 ln(1 + 2 U / (f d)).

    Attributes
    ----------
    ratios : ndarray, shape ``(d,)``
        The a_k, not negative.
    """

    ratios: Floats

    @classmethod
    def of(cls, ratios: Floats, mi: float) -> Tangent:
        """Return the line for a budget; at 0 where no noise would meet it by the pilot's own."""
        found = cls(ratios)
        return found if found._room(mi) > 0 else cls(np.zeros_like(ratios))

    @cached_property
    def weights(self) -> Floats:
        """1 / (1 + a_k)."""
        return np.asarray(1 / (1 + self.ratios))

    @cached_property
    def _start(self) -> float:
        return 0.5 * math.fsum(np.log1p(self.ratios))

    @cached_property
    def _off(self) -> float:
        """Return sum a_k / (1 + a_k), by which the weights sum to less than d."""
        return math.fsum(self.ratios * self.weights)

    def _room(self, mi: float) -> float:
        return len(self.ratios) * math.expm1(2 * (mi - self._start) / len(self.ratios)) + self._off

    def mi(self, moment: float, factor: float = 1.0) -> float:
        """Return an upper limit of the information with ``factor`` times the noise, when the moment is at most that.

        Both terms are off by a dozen units of themselves, and the second by half of what its argument is off by over
        the argument plus one: a dozen units of the sizes of the two numbers whose difference it is.
        """
        size, tangent = len(self.ratios), 2 * moment / factor
        if not size:
            return 0.0
        log = size / 2 * math.log1p((tangent - self._off) / size)
        lost = (
            FORMULA_ULPS * UNIT * (self._start + abs(log) + (tangent + self._off) * max(1.0, math.exp(-2 * log / size)))
        )
        return up(max(0.0, self._start + log) + 2 * lost)

    def enough(self, moment: float, mi: float) -> float:
        """Return the factor on the noise, at least 1, with which the information is at most ``mi``."""
        factor, units = max(1.0, 2 * moment / self._room(mi)), float(FORMULA_ULPS)
        while self.mi(moment, factor) > mi:
            factor, units = up(factor, ulps=units), 2 * units
        return factor


@dataclass(frozen=True, eq=False)
class Certificate:
    """What fresh worlds show of a plan.

    Attributes
    ----------
    plan : Plan
        With the clip, and the noise enlarged where needed.
    spent : Fraction
        Probability, over the trials, that the certificate misses.
    worlds : int
        How many worlds were bet on.
    unconditional : float
        Mutual information that holds whatever the trials were, because outputs are clipped.
    zcdp : float
        rho of zero-concentrated differential privacy for replacing the whole subset, for this fixed plan.
    """

    plan: Plan
    spent: Fraction
    worlds: int
    unconditional: float
    zcdp: float

    @property
    def confidence(self) -> float:
        """Probability, over the trials, with which the certificate holds."""
        return float_below(1 - self.spent)


def certify(pilot: Floats, fresh: Floats, mi: float, shape: Shape, risk: Risk) -> Certificate:
    """Return a plan with MI <= ``mi``; over independent trials it misses with a share of the risk.

    Parameters
    ----------
    pilot : ndarray, shape ``(m, d)``
        Outputs of independent worlds: fix centre c, directions, noise e, the tangent a and the clip.
    fresh : ndarray, shape ``(n, d)``
        Outputs of n other independent worlds, looked at once.

    Notes
    -----
    u(y) = 1/2 sum w_k (y_k - c_k)^2, w_k = 1 / (e_k (1 + a_k)), is pulled in to W, 1.25 times the pilot's largest; the
    clip is part of what is released.  E u = 1/2 sum w_k (s_k + (mean_k - c_k)^2) is at least the moment that `Tangent`
    asks for, so that a wrong centre costs and never hurts; one limit on it, looked at once, is all that is needed.
    Rounding to the grid moves the root of u by half a step times the root of 1/2 sum 1 / (1 + a_k) at most.  A computed
    u is off by d + 4 units of 2**-53 of itself, and is taken d + 8 above.
    """
    plan, before = calibrate(pilot, mi, shape), risk.spent
    directions = len(plan.frame)
    if directions == 0:
        return Certificate(replace(plan, mi=0.0), Fraction(0), len(fresh), 0.0, 0.0)
    tangent = Tangent.of(plan.spread / STEPS**2, mi)

    def moments(positions: Floats) -> Floats:
        return up(np.asarray((positions / STEPS) ** 2 @ tangent.weights / 2), ulps=directions + 8)

    reach = HEADROOM * float(moments(plan.frame.coordinates(pilot) / plan.step).max())
    clip = np.sqrt(tangent.weights / (2 * reach))
    plan = replace(plan, clip=clip)
    step = math.sqrt(float(tangent.weights.sum()) / 2) / (2 * STEPS)  # what rounding adds to a root of u, per half step
    widest = up((math.sqrt(reach) + step) ** 2, ulps=2 * directions + 32)  # that of the clip itself, too
    seen = np.minimum(moments(plan.positions(fresh).astype(np.float64)), widest)
    moment = betting_upper(seen, widest, risk.spend())
    factor = tangent.enough(moment, mi)
    coarser = math.floor(math.sqrt(factor))  # much more noise gets a coarser grid, and pays for what rounding may add:
    if coarser > 1:  # positions move by the roundings of both grids at most, and so does the root of the moment
        moment, widest = (
            up((math.sqrt(limit) + (coarser + 1) * step) ** 2, ulps=2 * directions + 32) for limit in (moment, widest)
        )
        factor = tangent.enough(moment, mi)
    plan = replace(
        plan, step=plan.step * coarser, ratio=STEPS * math.sqrt(factor) / coarser, clip=clip * coarser,
        mi=tangent.mi(moment, factor),
    )  # fmt: skip
    if plan.ratio > MOST_STEPS:  # a grid that fine has no table
        raise ValueError(
            f"the certificate asks for {factor:.3g} times the pilot's noise, more than its grid allows; take more "
            "worlds or a larger budget"
        )
    zcdp = up(4 * widest * (1 + float(tangent.ratios.max())) / factor, ulps=FORMULA_ULPS)
    return Certificate(plan, risk.spent - before, len(fresh), tangent.mi(widest, factor), zcdp)
