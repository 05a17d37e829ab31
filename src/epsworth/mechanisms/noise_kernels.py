"""Kernels that add signed integer noise: its law is one table, drawn from in constant time."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, Indices
from epsworth.client.kernels import WORD, exp_below
from epsworth.mechanisms.alias import Alias
from epsworth.mechanisms.kernels import Kernel, require
from epsworth.mechanisms.pieces import Pieces
from epsworth.mechanisms.words import Words, WordSource


@dataclass(frozen=True, eq=False)
class NoiseKernel(Kernel):
    """Noise of distance d has weight ``noise[d]`` on either side, d = 0..points - 1."""

    beyond: ClassVar[Literal["clipped", "rejected"]]
    noise: tuple[int, ...]

    @cached_property
    def whole(self) -> int:
        """The weight of all signed noise, at most 2^64."""
        return 2 * sum(self.noise) - self.noise[0]

    @cached_property
    def table(self) -> Alias:
        """Signed noise from -(points - 1) up, then the word's rejection: what is missing to 2^64."""
        return Alias([*self.noise[:0:-1], *self.noise, WORD - self.whole])

    @cached_property
    def cumulated(self) -> Floats:
        """Pr[noise < d] for d from -(points - 1) to points, each rounded once."""
        sums = accumulate([*self.noise[:0:-1], *self.noise], initial=0)
        return np.array([value / self.whole for value in sums])

    def mass_between(self, first: Floats, last: Floats) -> Floats:
        """Return Pr[first <= noise <= last] for whole numbers within the noise's range, before any clipping."""
        zero = self.points - 1
        return self.cumulated[(last + zero + 1).astype(np.intp)] - self.cumulated[(first + zero).astype(np.intp)]

    def outcomes(self, inputs: Indices, source: WordSource) -> Indices:
        """Add a draw of the noise to every input."""
        noise = self.table.draw(source.take(inputs.size))
        noise -= self.points - 1
        return self.settle(noise + inputs, noise)

    @cached_property
    def _runs(self) -> tuple[Words, Words, Indices]:
        first, step, outcome = self.table.runs()
        rejected = 2 * self.points - 1  # of the table's outcomes; `Pieces` calls it `points`
        return first, step, np.where(outcome == rejected, self.points, outcome - (self.points - 1))

    def pieces(self, i: ArrayLike) -> Pieces:
        """Return the runs of the noise's table, shifted by the input."""
        first, step, noise = self._runs
        at = np.atleast_1d(np.asarray(i, dtype=np.int64))
        return Pieces(first, step, np.ones(first.size, dtype=np.int64), noise, self.points, at, self.beyond)

    @abstractmethod
    def settle(self, reached: Indices, noise: Indices) -> Indices:
        """Turn input plus noise into outputs, in place; noise ``points`` stands for a rejected word."""


@dataclass(frozen=True, eq=False)
class RenewedKernel(NoiseKernel):
    """Weight ``noise[|i - y|]``; a draw that leaves the grid is made anew."""

    beyond = "rejected"

    @cached_property
    def sums(self) -> tuple[int, ...]:
        """S(n) = T(0) + .. + T(n)."""
        return tuple(accumulate(self.noise))

    def weights(self, i: int) -> list[int]:
        """Return the weights of all outputs when the input is i."""
        return [self.noise[abs(i - y)] for y in range(self.points)]

    def total(self, i: int) -> int:
        """Return S(i) + S(points - 1 - i) - T(0)."""
        return self.sums[i] + self.sums[self.points - 1 - i] - self.noise[0]

    def settle(self, reached: Indices, noise: Indices) -> Indices:
        """Reject what leaves the grid (a rejected word always does)."""
        outside = reached.view(np.uint64) >= np.uint64(self.points)  # negative numbers are huge as unsigned ones
        np.copyto(reached, -1, where=outside)
        return reached

    def mass_of_range(self, index: Floats, low: Floats, high: Floats) -> Floats:
        """Return the noise's mass on the range over its mass on the grid."""
        last = self.points - 1
        return self.mass_between(low - index, high - index) / self.mass_between(-index, last - index)


@dataclass(frozen=True, eq=False)
class ClippedKernel(NoiseKernel):
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
class PureClippedKernel(ClippedKernel):
    """Clipped noise with a pure promise."""

    def prove(self) -> None:
        """Check that the weights never rise, are positive, fit a word, and keep both ratios."""
        self.require_clipped()
        require(min(self.noise[-2:]) > 0, self, "an output has weight zero")
        require(self.ratio() <= exp_below(self.epsilon), self, "a ratio exceeds e^epsilon")
