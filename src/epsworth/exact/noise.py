"""Kernels that add signed integer noise: its law is one table, drawn from in constant time."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.exact.alias import WORD, Alias, Indices
from epsworth.exact.entropy import Words, WordSource
from epsworth.exact.integer import Kernel
from epsworth.exact.pieces import Pieces, of_table


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
        first, step, outcome = of_table(self.table)
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
class RenewedNoise(NoiseKernel):
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
