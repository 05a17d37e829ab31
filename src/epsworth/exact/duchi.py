"""Duchi's two-point mechanism, and the hybrid of it with the piecewise mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.exact.alias import WORD, Indices
from epsworth.exact.entropy import Words, WordSource
from epsworth.exact.integer import Kernel, require
from epsworth.exact.pieces import Pieces, few
from epsworth.exact.rational import exp_below
from epsworth.exact.two_level import TwoLevel, pm_affine

HYBRID_FROM = Fraction(61, 100)  # Wang et al. 2019: below this epsilon the hybrid is Duchi's mechanism


@dataclass(frozen=True, eq=False)
class Duchi(Kernel):
    """Only the ends are released: the upper one with weight ``base + i slope``, exactly linear, so exactly unbiased."""

    base: int
    slope: int

    def weights(self, i: int) -> list[int]:
        """Return the weights of all outputs when the input is i."""
        last = self.points - 1
        return [self.base + (last - i) * self.slope, *[0] * (last - 1), self.base + i * self.slope]

    def total(self, i: int) -> int:
        """Return 2^64."""
        return 2 * self.base + (self.points - 1) * self.slope

    def ratio(self) -> Fraction:
        """Return the ratio of the ends at opposite inputs, exactly the largest."""
        return Fraction(self.base + (self.points - 1) * self.slope, self.base)

    def slack(self, bound: Fraction) -> Fraction:
        """Return the smallest delta: opposite inputs, one output."""
        return (WORD - self.base - bound * self.base) / WORD

    def prove(self) -> None:
        """Check the total and the ratio."""
        require(self.total(0) == WORD, self, "the weights must add up to 2^64")
        require(self.base > 0 and self.slope > 0, self, "the ends must have weight, and rise with the input")
        require(self.ratio() <= exp_below(self.epsilon), self, "the ratio of the ends exceeds e^epsilon")

    def outcomes(self, inputs: Indices, source: WordSource) -> Indices:
        """Compare one word with the upper end's weight."""
        upper = inputs.astype(np.uint64)
        upper *= np.uint64(self.slope)
        upper += np.uint64(self.base)
        return np.where(source.take(inputs.size) < upper, self.points - 1, 0)

    def pieces(self, i: ArrayLike) -> Pieces:
        """Return the upper end's words, then the lower one's."""
        at, last = np.atleast_1d(np.asarray(i, dtype=np.int64)), self.points - 1
        upper, lower = ([self.base + j * self.slope for j in turned.tolist()] for turned in (at, last - at))
        return few(at, self.points, [(0, _words(upper), 1, last), (_words(upper), _words(lower), 1, 0)])

    def mass_of_range(self, index: Floats, low: Floats, high: Floats) -> Floats:
        """Return the mass of the ends that the range holds."""
        last = self.points - 1
        base, slope = self.base / WORD, self.slope / WORD
        lower, upper = base + (last - index) * slope, base + index * slope
        return np.where(low <= 0, lower, 0.0) + np.where(high >= last, upper, 0.0)


@dataclass(frozen=True, eq=False)
class Hybrid(Kernel):
    """A draw of ``first`` with probability ``share`` / 2^64, else one of ``second``.

    Totals are constant, so no ratio exceeds the larger of the two kernels' (mediant inequality).
    """

    first: TwoLevel
    second: Duchi
    share: int

    def weights(self, i: int) -> list[int]:
        """Return the weights of all outputs when the input is i."""
        rows = zip(self.first.weights(i), self.second.weights(i), strict=True)
        return [self.share * a + (WORD - self.share) * b for a, b in rows]

    def total(self, i: int) -> int:
        """Return 2^128."""
        return self.share * self.first.total(i) + (WORD - self.share) * self.second.total(i)

    def ratio(self) -> Fraction:
        """Return the larger ratio of the two kernels: a bound."""
        return max(self.first.ratio(), self.second.ratio())

    def prove(self) -> None:
        """Check both kernels and that the shares are a probability."""
        self.first.prove()
        self.second.prove()
        require(0 <= self.share < WORD, self, "the share must be a probability")
        require(self.first.epsilon == self.second.epsilon == self.epsilon, self, "the parts differ in epsilon")

    def outcomes(self, inputs: Indices, source: WordSource) -> Indices:
        """Toss the coin with a word of its own, then draw from both."""
        coin = source.take(inputs.size) < np.uint64(self.share)
        return np.where(coin, self.first.outcomes(inputs, source), self.second.outcomes(inputs, source))

    def parts(self) -> tuple[tuple[int, Kernel], ...]:
        """Return both kernels."""
        return ((self.share, self.first), (WORD - self.share, self.second))

    def mass_of_range(self, index: Floats, low: Floats, high: Floats) -> Floats:
        """Return the mixture of the kernels' masses."""
        share = self.share / WORD
        first, second = (kernel.mass_of_range(index, low, high) for kernel in (self.first, self.second))
        return share * first + (1 - share) * second


def _words(numbers: list[int]) -> Words:
    return np.array(numbers, dtype=np.uint64)


def duchi(epsilon: Fraction, points: int) -> Duchi:
    """Return the mechanism of Duchi, Jordan & Wainwright: the least base with base + (points - 1) slope <= E base."""
    last = points - 1
    least = -(-WORD // (1 + exp_below(epsilon)))
    slope = (WORD - 2 * int(least)) // last // 2 * 2  # even, so that the base is whole
    if slope < 1:
        raise ValueError(
            f"epsilon {float(epsilon):g} is too small for {points} points: the weights of duchi would all be equal; "
            "use fewer bits or a larger epsilon"
        )
    return Duchi("duchi", epsilon, points, (WORD - last * slope) // 2, slope)


def hybrid(epsilon: Fraction, points: int) -> Hybrid:
    """Return the hybrid of Wang et al. 2019: piecewise with probability 1 - e^(-eps/2), else Duchi.

    The piecewise part is affine, so that the mean stays linear in the input.  Both parts share the range,
    unlike in the paper, where each is first scaled to be unbiased on its own.
    """
    share = 1 - 1 / exp_below(epsilon / 2) if epsilon > HYBRID_FROM else Fraction(0)
    return Hybrid("hybrid", epsilon, points, pm_affine(epsilon, points), duchi(epsilon, points), int(share * WORD))
