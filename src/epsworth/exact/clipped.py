"""Clipped noise: discrete Laplace and staircase. Whatever lands beyond an end is released as that end.

With T(d) the noise's weight at distance d and tail(n) = T(n) + T(n+1) + .., output 0 has weight tail(i), the other
end tail(points - 1 - i), and y between them T(|i - y|).  The total T(0) + 2 tail(1) is constant.  For *any*
nonincreasing positive T the largest ratio is exactly max(T(0)/T(points - 2), tail(0)/tail(points - 1)).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np

from epsworth.arrays import Floats
from epsworth.exact.alias import WORD, Indices
from epsworth.exact.integer import require
from epsworth.exact.noise import NoiseKernel
from epsworth.exact.rational import PRECISION, exp_below

FINEST = 64  # least outermost weight of discrete Laplace noise: its floor costs at most 1/64 of the loss


@dataclass(frozen=True, eq=False)
class Clipped(NoiseKernel):
    """Add noise and clip; ``noise[points - 1]`` is the whole tail from that distance on."""

    beyond = "clipped"

    @cached_property
    def tail(self) -> tuple[int, ...]:
        """tail(n): the one-sided weight of distances n and more."""
        return tuple(accumulate(reversed(self.noise)))[::-1]

    def weights(self, i: int) -> list[int]:
        """Return the weights of all outputs when the input is i."""
        last = self.points - 1
        inner = [self.noise[abs(i - y)] for y in range(1, last)]
        return [self.tail[i], *inner, self.tail[last - i]]

    def total(self, i: int) -> int:
        """Return the constant total; what is missing to 2^64 is the chance that a word is rejected."""
        return self.whole

    def require_clipped(self) -> None:
        """Check what every clipped noise needs: weights that never rise with distance, and fit a word."""
        require(all(a >= b for a, b in pairwise(self.noise[:-1])), self, "the noise's weights rise with distance")
        require(self.noise[0] > 0 and min(self.noise[-2:]) >= 0, self, "a weight is negative")
        require(self.whole <= WORD, self, "the weights exceed 2^64")

    def ratio(self) -> Fraction:
        """Return the largest ratio, exactly: at an inner output, or at an end; refused where a weight is zero."""
        return max(Fraction(self.noise[0], self.noise[-2]), Fraction(self.tail[0], self.tail[-1]))

    def settle(self, reached: Indices, noise: Indices) -> Indices:
        """Clip to the grid."""
        np.clip(reached, 0, self.points - 1, out=reached)
        if noise.size and noise.max() == self.points:  # rare: a pass that reads is cheaper than one that writes
            reached[noise == self.points] = -1
        return reached

    def mass_of_range(self, index: Floats, low: Floats, high: Floats) -> Floats:
        """Return the probability of the range; an end takes its tail."""
        last = self.points - 1
        return self.mass_between(np.where(low <= 0, -last, low - index), np.where(high >= last, last, high - index))


@dataclass(frozen=True, eq=False)
class ClippedNoise(Clipped):
    """Clipped noise with a pure promise."""

    def prove(self) -> None:
        """Check that the weights never rise, are positive, fit a word, and keep both ratios."""
        self.require_clipped()
        require(min(self.noise[-2:]) > 0, self, "an output has weight zero")
        require(self.ratio() <= exp_below(self.epsilon), self, "a ratio exceeds e^epsilon")


def laplace_clipped(epsilon: Fraction, points: int) -> ClippedNoise:
    """Return discrete Laplace noise (Ghosh, Roughgarden & Sundararajan 2009), clipped.

    With rho just below e^(epsilon/(points - 1)), the tail grows inwards by at most rho a step, and no
    weight exceeds E times the outermost: T(n) = floor(min((rho - 1) tail(n + 1), E T(points - 2))).  The
    tail R to start from is as large as a word allows: the total is below R (E + E/rho), by the floors alone.
    """
    one, bound = 1 << PRECISION, exp_below(epsilon)
    excess = exp_below(epsilon / (points - 1)) - 1
    growth = int(excess * one)
    tail = int(WORD / (bound + bound / (1 + excess))) - 1
    noise = [tail, tail * growth >> PRECISION]
    tail, most = tail + noise[1], int(bound * noise[1])
    for _ in range(points - 2):
        noise.append(min(tail * growth >> PRECISION, most))
        tail += noise[-1]
    if noise[1] < FINEST:
        raise ValueError(
            f"epsilon {float(epsilon):g} does not fit {points} points: the outermost weights of discrete Laplace noise "
            "would be too coarse; use fewer bits"
        )
    return ClippedNoise("laplace_clipped", epsilon, points, tuple(noise[::-1]))


def staircase(epsilon: Fraction, points: int, *, gamma: Fraction | None = None) -> ClippedNoise:
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
    return ClippedNoise("staircase", epsilon, points, (*[high] * wide, *[low] * (last - wide), rest))
