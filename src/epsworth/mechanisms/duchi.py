"""Duchi's two-point mechanism, and the hybrid of it with the piecewise mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, Indices, as_floats
from epsworth.client.kernels import WORD, exp_below
from epsworth.mechanisms.kernels import Kernel, require
from epsworth.mechanisms.law import Law, broadcast
from epsworth.mechanisms.laws import TwoLevel, WithEnds
from epsworth.mechanisms.mechanism import Mechanism, Output
from epsworth.mechanisms.pieces import Pieces, few
from epsworth.mechanisms.piecewise import piecewise_shape
from epsworth.mechanisms.two_level import TwoLevelKernel, window_kernel
from epsworth.mechanisms.words import Words, WordSource

HYBRID_FROM = Fraction(
    61, 100
)  # Wang et al. 2019, eq. (5): below this epsilon Duchi's mechanism alone has less variance


@dataclass(frozen=True, eq=False)
class DuchiKernel(Kernel):
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
class HybridKernel(Kernel):
    """A draw of ``first`` with probability ``share`` / 2^64, else one of ``second``.

    Totals are constant, so no ratio exceeds the larger of the two kernels' (mediant inequality).
    """

    first: TwoLevelKernel
    second: DuchiKernel
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


def duchi(epsilon: Fraction, points: int) -> DuchiKernel:
    """Return the mechanism of Duchi, Jordan & Wainwright: the least base with base + (points - 1) slope <= E base."""
    last = points - 1
    least = -(-WORD // (1 + exp_below(epsilon)))
    slope = (WORD - 2 * int(least)) // last // 2 * 2  # even, so that the base is whole
    if slope < 1:
        raise ValueError(
            f"epsilon {float(epsilon):g} is too small for {points} points: the weights of duchi would all be equal; "
            "use fewer bits or a larger epsilon"
        )
    return DuchiKernel("duchi", epsilon, points, (WORD - last * slope) // 2, slope)


def hybrid(epsilon: Fraction, points: int) -> HybridKernel:
    """Return the hybrid of Wang et al. 2019: piecewise with probability 1 - e^(-eps/2), else Duchi.

    The piecewise part is affine, so that the mean stays linear in the input.  Both parts share the range,
    unlike in the paper, where each is first scaled to be unbiased on its own.
    """
    share = 1 - 1 / exp_below(epsilon / 2) if epsilon > HYBRID_FROM else Fraction(0)
    first, second = window_kernel("pm_affine", epsilon, points), duchi(epsilon, points)
    return HybridKernel("hybrid", epsilon, points, first, second, int(share * WORD))


def _mixture(x: Floats, epsilon: Floats, share: Floats | float) -> WithEnds:
    """Return `PMAffine` with probability ``share``, else `Duchi`."""
    x, epsilon, share = broadcast(x, epsilon, share)
    likely = 1 / (1 + np.exp(-epsilon))  # the true end's probability at that end, e^eps times the other's
    unlikely = likely * np.exp(-epsilon)
    at_zero, at_one = likely * (1 - x) + unlikely * x, unlikely * (1 - x) + likely * x
    rest = 1 - share
    return WithEnds(rest * at_zero, rest * at_one, share, TwoLevel.sliding(x, *piecewise_shape(epsilon)))


@dataclass(frozen=True)
class Duchi(Mechanism):
    """Only 0 or 1 is released: 1 with probability 1/2 + (2x - 1)(e^eps - 1)/(2(e^eps + 1))."""

    title: ClassVar[str] = "Duchi, two points"
    reference: ClassVar[str] = "Duchi, Jordan & Wainwright 2018"
    output: ClassVar[Output] = "[0, 1] with atoms at 0 and 1"
    integers = staticmethod(duchi)

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
    integers = staticmethod(hybrid)

    def _law(self, x: Floats) -> Law:
        epsilon = as_floats(self.epsilon)
        return _mixture(x, epsilon, np.where(epsilon > float(HYBRID_FROM), -np.expm1(-epsilon / 2), 0.0))
