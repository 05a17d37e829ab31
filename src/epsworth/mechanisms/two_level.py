"""Two-level kernels: weight A on a window of constant width around the input, weight B everywhere else.

The total m A + (points - m) B is the same for every input, so the loss is ln(A/B) whatever the window's width and
place: rounding those costs utility, never the promise.  The total is 2^64: one random word makes one draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, Indices, as_floats
from epsworth.client.kernels import SHARES, WORD, exp_below, levels
from epsworth.mechanisms.kernels import Kernel, require
from epsworth.mechanisms.pieces import Pieces, few
from epsworth.mechanisms.words import WordSource


@dataclass(frozen=True, eq=False)
class TwoLevelKernel(Kernel):
    """Weight ``high`` on ``width`` outputs around the input, ``low`` on the others.

    The window is snapped into the grid, or, with ``affine``, its place is linear in the input.
    """

    high: int
    low: int
    width: int
    affine: bool = False

    def left(self, i: Indices) -> Indices:
        """Return the windows' first outputs."""
        room = self.points - self.width
        if self.affine:
            return np.asarray((2 * i * room + self.points - 1) // (2 * (self.points - 1)))
        return np.clip(i - (self.width - 1) // 2, 0, room)

    def weights(self, i: int) -> list[int]:
        """Return the weights of all outputs when the input is i."""
        left = int(self.left(np.array(i)))
        after = self.points - self.width - left
        return [self.low] * left + [self.high] * self.width + [self.low] * after

    def total(self, i: int) -> int:
        """Return 2^64."""
        return self.width * self.high + (self.points - self.width) * self.low

    def ratio(self) -> Fraction:
        """Return A/B, exactly the largest ratio."""
        return Fraction(self.high, self.low)

    def slack(self, bound: Fraction) -> Fraction:
        """Return the smallest delta: a window that overlaps the other as little as possible."""
        return min(self.width, self.points - self.width) * (self.high - bound * self.low) / WORD

    def prove(self) -> None:
        """Check the width, the total, the ratio and that every window lies on the grid."""
        require(1 <= self.width < self.points, self, "the window must be smaller than the grid")
        require(self.total(0) == WORD, self, "the weights must add up to 2^64")
        require(1 <= self.low < self.high, self, "the window must weigh more than the rest")
        require(self.high <= exp_below(self.epsilon) * self.low, self, "the weights' ratio exceeds e^epsilon")
        left = self.left(np.arange(self.points))
        inside = left.min() >= 0 and left.max() <= self.points - self.width
        require(bool(inside), self, "a window leaves the grid")

    def outcomes(self, inputs: Indices, source: WordSource) -> Indices:
        """Split 2^64 into a level below (``low`` for every output) and what the window has beyond it."""
        words = source.take(inputs.size)
        below = np.uint64(self.points * self.low)
        hit = words >= below
        drawn = (words // np.uint64(self.low)).view(np.int64)
        if self.width == 1:
            np.copyto(drawn, self.left(inputs), where=hit)
            return drawn
        words = words - below  # wraps where the word is below the level: those places are not used
        words //= np.uint64(self.high - self.low)
        np.copyto(drawn, self.left(inputs) + words.view(np.int64), where=hit)
        return drawn

    def pieces(self, i: ArrayLike) -> Pieces:
        """Return the level below, then what the window has beyond it."""
        at, below = np.atleast_1d(np.asarray(i, dtype=np.int64)), self.points * self.low
        level = 0, self.low, self.points, 0
        return few(at, self.points, [level, (below, self.high - self.low, self.width, self.left(at))])

    def mass_of_range(self, index: Floats, low: Floats, high: Floats) -> Floats:
        """Return (B outputs + (A - B) outputs in the window) / 2^64."""
        left = as_floats(self.left(index.astype(np.int64)))
        within = np.minimum(high, left + self.width - 1) - np.maximum(low, left) + 1
        everywhere, extra = float(Fraction(self.low, WORD)), float(Fraction(self.high - self.low, WORD))
        return np.asarray(everywhere * (high - low + 1) + extra * np.maximum(within, 0.0))


def window_kernel(name: str, epsilon: Fraction, points: int) -> TwoLevelKernel:
    """Build the kernel of a mechanism whose window the client defines (`SHARES`)."""
    share, affine = SHARES[name]
    return two_level(name, epsilon, points, share(epsilon), affine=affine)


def two_level(name: str, epsilon: Fraction, points: int, share: Fraction, *, affine: bool = False) -> TwoLevelKernel:
    """Build the kernel whose window covers about ``share`` of the grid."""
    width, high, low = levels(epsilon, points, share)
    if not 1 <= low < high:
        raise ValueError(
            f"epsilon {float(epsilon):g} is too small for {points} points: the weights of {name} would all be equal; "
            "use fewer bits or a larger epsilon"
        )
    return TwoLevelKernel(name, epsilon, points, high, low, width, affine)
