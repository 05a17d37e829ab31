"""Staircase noise, clipped to the range."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from epsworth.arrays import Floats
from epsworth.client.kernels import WORD, exp_below
from epsworth.mechanisms.law import Law, broadcast
from epsworth.mechanisms.laws import TwoLevel, WithEnds
from epsworth.mechanisms.mechanism import Mechanism, Output
from epsworth.mechanisms.noise_kernels import PureClippedKernel


def staircase(epsilon: Fraction, points: int, *, gamma: Fraction | None = None) -> PureClippedKernel:
    """Return staircase noise (Geng & Viswanath 2014) for a sensitivity of the whole range, clipped.

    Weight hi for distances below G, lo <= hi <= E lo up to the range's length, where the next, E times lower
    stair begins: the rest R of all stairs is the first stair's weight over E - 1.
    """
    bound, share = exp_below(epsilon), 1 / (1 + exp_below(epsilon / 2)) if gamma is None else gamma
    last = points - 1
    wide = min(max(round(share * last), 1), last)
    low = int(WORD / (2 * (wide * bound + last - wide) * bound / (bound - 1) - bound)) + 1
    whole = WORD + 1
    while whole > WORD and low > 1:
        low -= 1
        high = int(bound * low)
        stair = wide * high + (last - wide) * low
        rest = -int(-stair // (bound - 1))
        whole = 2 * (stair + rest) - high
    if whole > WORD or high == low:
        raise ValueError(
            f"epsilon {float(epsilon):g} does not fit {points} points: both levels of the staircase would weigh the "
            "same, or nothing; use fewer bits"
        )
    return PureClippedKernel("staircase", epsilon, points, (*[high] * wide, *[low] * (last - wide), rest))


@dataclass(frozen=True)
class Staircase(Mechanism):
    """Noise whose density falls by e^-eps in steps as long as the range, clipped to [0, 1].

    Within the range there is one step, at distance 1/(1 + e^(eps/2)), which minimises the mean distance.
    """

    title: ClassVar[str] = "Staircase, clipped to the range"
    reference: ClassVar[str] = "Geng & Viswanath 2014; clipping is post-processing"
    output: ClassVar[Output] = "[0, 1] with atoms at 0 and 1"
    integers = staticmethod(staircase)

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

        between = TwoLevel(x, low / inside, (left + right) / 2, left)
        return WithEnds(beyond(x), beyond(1 - x), inside, between)
