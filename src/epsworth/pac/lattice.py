"""Noise fit for release: whole steps of a public grid, drawn from operating-system randomness.

A float sum y + B leaks y through its low-order bits (Mironov 2012).  Here y is first put on a grid that is public,
and a whole number of steps is added; the sum of two integers shows nothing but their sum.  The number of steps
follows the Gaussian rounded to the grid, so the release is a rounding of the Gaussian one: post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.mechanisms.words import SystemWords

STEPS = 2048  # grid steps per standard deviation of the noise, at least
MOST_STEPS = 4 * STEPS  # at most: the cells' masses are rounded to 2**-64 each
REACH = 9.5  # standard deviations in the table; beyond, a step has less than 2**-64 to be drawn
NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)

Steps = NDArray[np.int64]


@dataclass(frozen=True)
class RoundedGaussian:
    """A normal variable of standard deviation ``ratio``, rounded to whole numbers, as a table of 64-bit integers.

    Claim: for ratios of 2048 to 8192, all that are released with, the table is within 2**-49 (total variation) of the
    rounded normal law.

    Examples
    --------
    >>> law = RoundedGaussian(2048.0)
    >>> int(law.masses.sum(dtype=np.uint64))  # all of 2**64, which is 0 in 64 bits
    0
    """

    ratio: float

    @property
    def reach(self) -> int:
        """The largest number of steps."""
        return int(np.ceil(REACH * self.ratio))

    @cached_property
    def masses(self) -> NDArray[np.uint64]:
        """Chance of -reach .. reach, times 2**64; sums to 2**64 exactly."""
        # integrate the density over each cell: three Gauss nodes are exact to rounding at this cell width, and masses
        # keep their relative precision in the tail, which differences of distribution functions would lose
        z = (np.arange(1, self.reach + 1)[:, np.newaxis] + NODES / 2) / self.ratio
        cells = np.exp(-0.5 * z * z) @ (WEIGHTS / 2) / (self.ratio * np.sqrt(2 * np.pi))
        side = np.rint(cells * 2.0**64).astype(np.uint64)
        rest = np.uint64(2**64 - 2 * int(side.sum(dtype=np.uint64)))
        return np.concatenate([side[::-1], [rest], side])

    @cached_property
    def _upper(self) -> NDArray[np.uint64]:
        return np.cumsum(self.masses, dtype=np.uint64)[:-1]

    def from_words(self, words: NDArray[np.uint64]) -> Steps:
        """Return the steps that these uniform 64-bit words stand for."""
        return np.asarray(np.searchsorted(self._upper, words, side="right") - self.reach, dtype=np.int64)

    def draw(self, count: int) -> Steps:
        """Draw for a release: operating-system randomness, which nobody can seed or repeat."""
        if not STEPS <= self.ratio <= MOST_STEPS:
            raise ValueError(f"the grid must have {STEPS} to {MOST_STEPS} steps per deviation, got {self.ratio!r}")
        return self.from_words(SystemWords().words(count))

    def log_mass(self, steps: Steps) -> Floats:
        """Return the logarithm of the chance of these steps, minus infinity beyond the table."""
        inside = np.abs(steps) <= self.reach
        table = np.where(inside, self.masses[np.where(inside, steps, 0) + self.reach], 0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(table.astype(np.float64)) - 64 * np.log(2))
