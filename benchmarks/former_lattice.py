"""How sums of released values were bounded before: differences of powers, and the lattice alone (see `linear`)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.laws import TwoLevel
from epsworth.rounding import UNIT
from epsworth.utility.engines.contraction import widened
from epsworth.utility.engines.sums import FIRST_STEPS, MOST_STEPS, bracket

CLOSE = 1e-9


def closed_form(laws: list[Law], weights: Floats, threshold: float) -> Interval:
    """Bound Pr[sum_j w_j Y_j <= threshold] for at most three piecewise-constant laws, to rounding.

    The density of w_j Y_j jumps at b = w_j (0, l, l + 2C, 1) by J = (q, p - q, q - p, -q) / w_j, so that
    P = sum over the jumps of prod J (threshold - sum b)_+^s / s!.  Where terms cancel too much the interval is wide,
    and the lattice does better.

    In units: a jump is off by 4 (spread, window, difference, weight), their product by 5 s - 1, the power and its
    product by s + 2, and numpy adds up to 64 terms eight by eight, 10 in a row: 6 s + 11.  Each of the s + 1 places
    that a difference is made of is off by 5, relative to the widest one, and their sums by s + d.
    """
    used = np.flatnonzero(weights)
    s, unit = used.size, UNIT * (6 * used.size + 12 + weights.size)
    shift = threshold - float(np.minimum(weights, 0).sum())
    height, place = np.ones((1, 1)), np.zeros((1, 1))
    for j in used:
        law, width = laws[j], abs(weights[j])
        assert isinstance(law, TwoLevel)
        start = law.x - law.offset
        start = start if weights[j] > 0 else 1 - start - 2 * law.half
        central = (1 - law.spread) / (2 * law.half)
        jumps = np.stack([law.spread, central, -central, -law.spread], axis=-1) / width
        at = np.stack([0 * start, start, start + 2 * law.half, 1 + 0 * start], axis=-1) * width
        height = (height[..., np.newaxis] * jumps[..., np.newaxis, :]).reshape(len(jumps), -1)
        place = (place[..., np.newaxis] + at[..., np.newaxis, :]).reshape(len(at), -1)
    eta = unit * (abs(shift) + float(np.abs(weights).sum()))
    above = np.maximum(shift - place, 0.0)
    value = (height * above**s).sum(axis=-1) / math.factorial(s)
    reach = above + eta
    error = (np.abs(height) * (unit * reach**s + s * reach ** (s - 1) * eta)).sum(axis=-1) / math.factorial(s)
    return widened(value, value, error * (1 + 2 * unit))


def at_most(laws: list[Law], weights: Floats, threshold: float, slack: float, tolerance: float) -> Interval:
    """Bound Pr[weights . Y <= t] for every t within ``slack`` of the threshold, as narrowly as the tolerance."""
    form = _closed(laws, weights)
    if form is not None:
        found = Interval(form(threshold - slack).lower, form(threshold + slack).upper)
        if form.func is not closed_form or (found.upper - found.lower).max() <= max(CLOSE, slack):
            return found
    else:
        found = bracket(laws, weights, threshold, FIRST_STEPS, slack)
    steps = FIRST_STEPS
    while True:
        gap = found.upper - found.lower
        wide = gap > tolerance
        if not wide.any() or steps >= MOST_STEPS:
            return found
        # the gap shrinks as 1/steps: jump to where it should do, for the epsilons that need it
        steps = min(MOST_STEPS, int(steps * max(2.0, 1.1 * float(gap.max()) / tolerance)))
        now = bracket([law[wide] if law.shape else law for law in laws], weights, threshold, steps, slack)
        found.lower[wide] = np.maximum(found.lower[wide], now.lower)
        found.upper[wide] = np.minimum(found.upper[wide], now.upper)


def _closed(laws: list[Law], weights: Floats) -> partial[Interval] | None:
    if np.count_nonzero(weights) in (1, 2, 3) and all(isinstance(law, TwoLevel) and law.shape for law in laws):
        return partial(closed_form, laws, weights)
    return None
