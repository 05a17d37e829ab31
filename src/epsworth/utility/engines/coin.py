"""The privacy indicator's coin: with some probability the raw record is asked about, and the label is its own."""

from __future__ import annotations

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.rounding import down, up
from epsworth.utility.quantities import Bounds
from epsworth.utility.question import Question


def revealing(question: Question) -> Floats:
    """Return the probability with which the raw record is asked about, by mechanism and epsilon."""
    return np.array([[release.reveal for release in row] for row in question.releases], dtype=np.float64)


def with_coin(bounds: Bounds, reveal: Floats, raw: Floats) -> Bounds:
    """Account for the coin; ``raw`` is what the raw records give, one by one."""
    if not reveal.any():
        return bounds
    mixed = _mixed(reveal[:, :, np.newaxis], raw, Interval(bounds.lower, bounds.upper))
    return Bounds(*mixed, None if bounds.pooled is None else _mixed(reveal, raw.mean(), bounds.pooled))


def _mixed(reveal: Floats, raw: Floats | float, found: Interval) -> Interval:
    """Mix bounds with what the raw records give: five roundings, an average's own among them; what is certain stays."""
    lower, upper = (reveal * raw + (1 - reveal) * side for side in found)
    return Interval(
        np.where((found.lower == raw) | (reveal == 0), found.lower, np.maximum(down(lower, ulps=5), 0)),
        np.where((found.upper == raw) | (reveal == 0), found.upper, np.minimum(up(upper, ulps=5), 1)),
    )
