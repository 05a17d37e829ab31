"""Exact truths: laws in sixty digits, given the very doubles that they hold, and areas in fractions.

``EPSWORTH_TRUTHS=34`` in the environment asks tests at random that many times as many cases.
"""

from __future__ import annotations

import os
from fractions import Fraction
from functools import singledispatch

import mpmath
import numpy as np

from epsworth.mechanisms import laws
from epsworth.mechanisms.boosted_laplace import Boosted
from epsworth.mechanisms.exponential import TwoSidedGeometric
from epsworth.mechanisms.krr import RandomisedResponse
from epsworth.mechanisms.law import GridLaw
from epsworth.mechanisms.laws import Noise

mpmath.mp.dps = 60
EXACT = mpmath.mpf
TIMES = int(os.environ.get("EPSWORTH_TRUTHS", "1"))


@singledispatch
def mass(law, lower, upper):
    """Return Pr[lower <= Y <= upper] of a law of shape ``()``; ends are numbers of any precision, or infinite."""
    raise NotImplementedError(type(law))


@mass.register(Noise)
def _(law, lower, upper):
    if lower > upper:
        return EXACT(0)
    x, width = (EXACT(float(v)) for v in ((law.x, law.sigma) if isinstance(law, laws.Gaussian) else (law.x, law.rate)))

    def tail(t):
        """Return Pr[noise >= t] of the standard law for t >= 0."""
        if mpmath.isinf(t):
            return EXACT(0)
        return mpmath.erfc(t / mpmath.sqrt(2)) / 2 if isinstance(law, laws.Gaussian) else mpmath.exp(-t) / 2

    a, b = ((end - x) / width if isinstance(law, laws.Gaussian) else (end - x) * width for end in (lower, upper))
    if a > 0:
        return tail(a) - tail(b)
    return tail(-b) - tail(-a) if b < 0 else 1 - tail(-a) - tail(b)


@mass.register(laws.Clipped)
def _(law, lower, upper):
    if lower > upper or upper < law.low or lower > law.high:
        return EXACT(0)
    return mass(law.noise, -mpmath.inf if lower <= law.low else lower, mpmath.inf if upper >= law.high else upper)


@mass.register(laws.Truncated)
def _(law, lower, upper):
    return mass(law.noise, max(lower, EXACT(0)), min(upper, EXACT(1))) / mass(law.noise, EXACT(0), EXACT(1))


@mass.register(Boosted)
def _(law, lower, upper):
    low, high, boost = (EXACT(float(v)) for v in (law.lower, law.upper, law.boost))
    everywhere = mass(law.noise, lower, upper) + (boost - 1) * mass(law.noise, max(lower, low), min(upper, high))
    return everywhere / (1 + (boost - 1) * mass(law.noise, low, high))


@mass.register(laws.TwoLevel)
def _(law, lower, upper):
    x, spread, half, offset = (EXACT(float(v)) for v in (law.x, law.spread, law.half, law.offset))
    lower, upper = max(lower, EXACT(0)), min(upper, EXACT(1))
    if lower > upper:
        return EXACT(0)
    below = [min(max((end - x + offset) / (2 * half), EXACT(0)), EXACT(1)) for end in (lower, upper)]
    return spread * (upper - lower) + (1 - spread) * (below[1] - below[0])


@mass.register(laws.WithEnds)
def _(law, lower, upper):
    zero, one, inside = (EXACT(float(v)) for v in (law.at_zero, law.at_one, law.inside))
    return (lower <= 0 <= upper) * zero + (lower <= 1 <= upper) * one + inside * mass(law.law, lower, upper)


@mass.register(GridLaw)
def _(law, lower, upper):
    grid = np.arange(law.k) / (law.k - 1)
    weights = [EXACT(1) * weight for weight in _weights(law)]
    return sum((w for v, w in zip(grid, weights, strict=True) if lower <= v <= upper), EXACT(0)) / sum(weights)


def _weights(law):
    index = int(law.index)
    if isinstance(law, RandomisedResponse):
        return [mpmath.exp(EXACT(float(law.epsilon))) if i == index else 1 for i in range(law.k)]
    if isinstance(law, TwoSidedGeometric):
        return [mpmath.exp(-EXACT(float(law.rate)) * abs(i - index)) for i in range(law.k)]
    near, far = EXACT(float(law.near)), EXACT(float(law.far))
    return [1 if i == index else near if abs(i - index) <= law.reach else far for i in range(law.k)]


@mass.register(laws.Quantised)
def _(law, lower, upper):
    inside = [i for i in range(law.k) if lower <= i / (law.k - 1) <= upper]
    if not inside:
        return EXACT(0)
    low = (EXACT(inside[0]) - EXACT(0.5)) / (law.k - 1) if inside[0] else -mpmath.inf
    high = (EXACT(inside[-1]) + EXACT(0.5)) / (law.k - 1) if inside[-1] < law.k - 1 else mpmath.inf
    return mass(law.law, low, high)


@mass.register(laws.RawOr)
def _(law, lower, upper):
    reveal = EXACT(law.reveal)
    return reveal * (lower <= float(law.x) <= upper) + (1 - reveal) * mass(law.law, lower, upper)


def rational_area(planes):
    """Clip the unit square by one half plane after the other, in exact rational arithmetic."""
    corners = [(Fraction(x), Fraction(y)) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))]
    for plane in planes:
        a, b, c = map(Fraction, plane)
        values, clipped = [a * x + b * y + c for x, y in corners], []
        for here, there, at, to in zip(
            corners, corners[1:] + corners[:1], values, values[1:] + values[:1], strict=True
        ):
            clipped += [here] if at > 0 else []
            if (at > 0) != (to > 0):
                t = at / (at - to)
                clipped.append(tuple(p + t * (q - p) for p, q in zip(here, there, strict=True)))
        corners = clipped
    pairs = zip(corners, corners[1:] + corners[:1], strict=True)
    return abs(sum(x * v - u * y for (x, y), (u, v) in pairs)) / 2
