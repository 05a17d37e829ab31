"""Mechanisms that release an end of the range with positive probability by design: Duchi, hybrid, staircase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsworth import laws
from epsworth.arrays import Floats, as_floats
from epsworth.laws import Law
from epsworth.laws.law import broadcast
from epsworth.mechanisms.mechanism import Mechanism, Output
from epsworth.mechanisms.piecewise import piecewise_shape

HYBRID_FROM = 0.61  # Wang et al. 2019, eq. (5): below this epsilon Duchi's mechanism alone has less variance


@dataclass(frozen=True)
class Duchi(Mechanism):
    """Only 0 or 1 is released: 1 with probability 1/2 + (2x - 1)(e^eps - 1)/(2(e^eps + 1))."""

    title: ClassVar[str] = "Duchi, two points"
    reference: ClassVar[str] = "Duchi, Jordan & Wainwright 2018"
    output: ClassVar[Output] = "[0, 1] with atoms at 0 and 1"

    def _law(self, x: Floats) -> Law:
        return _mixture(x, as_floats(self.epsilon), 0.0)


@dataclass(frozen=True)
class Hybrid(Mechanism):
    """`PMAffine` with probability 1 - e^(-eps/2), else `Duchi`; Duchi alone up to epsilon 0.61.

    Both parts share the range [0, 1].  (The paper first scales each part to be unbiased on its own.)
    """

    title: ClassVar[str] = "Hybrid of piecewise and Duchi"
    reference: ClassVar[str] = "Wang et al. 2019"
    output: ClassVar[Output] = "[0, 1] with atoms at 0 and 1"

    def _law(self, x: Floats) -> Law:
        epsilon = as_floats(self.epsilon)
        return _mixture(x, epsilon, np.where(epsilon > HYBRID_FROM, -np.expm1(-epsilon / 2), 0.0))


@dataclass(frozen=True)
class Staircase(Mechanism):
    """Noise whose density falls by e^-eps in steps as long as the range, clipped to [0, 1].

    Within the range there is one step, at distance 1/(1 + e^(eps/2)), which minimises the mean distance.
    """

    title: ClassVar[str] = "Staircase, clipped to the range"
    reference: ClassVar[str] = "Geng & Viswanath 2014; clipping is post-processing"
    output: ClassVar[Output] = "[0, 1] with atoms at 0 and 1"

    def _law(self, x: Floats) -> Law:
        x, epsilon = broadcast(x, self.epsilon)
        decay, step = np.exp(-epsilon), 1 / (1 + np.exp(epsilon / 2))
        high = -np.expm1(-epsilon) / (2 * (step + decay * (1 - step)))
        low = high * decay
        left, right = np.minimum(x, step), np.minimum(1 - x, step)  # how far the upper stair reaches
        inside = low + (high - low) * (left + right)

        def beyond(distance: Floats) -> Floats:
            """Return the one-sided tail from this distance, at most 1; beyond the range it is e^-eps / 2."""
            return decay / 2 + low * (1 - distance) + (high - low) * np.maximum(step - distance, 0.0)

        between = laws.TwoLevel(x, low / inside, (left + right) / 2, left)
        return laws.WithEnds(beyond(x), beyond(1 - x), inside, between)


def _mixture(x: Floats, epsilon: Floats, share: Floats | float) -> laws.WithEnds:
    """Return `PMAffine` with probability ``share``, else `Duchi`."""
    x, epsilon, share = broadcast(x, epsilon, share)
    likely = 1 / (1 + np.exp(-epsilon))  # the true end's probability at that end, e^eps times the other's
    unlikely = likely * np.exp(-epsilon)
    at_zero, at_one = likely * (1 - x) + unlikely * x, unlikely * (1 - x) + likely * x
    rest = 1 - share
    return laws.WithEnds(rest * at_zero, rest * at_one, share, laws.TwoLevel.sliding(x, *piecewise_shape(epsilon)))
