"""Laws on [0, 1] made from noise: `Clipped` (the ends carry atoms) and `Truncated` (renormalised)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.laws.law import SMALLEST_UNIFORM, Law
from epsworth.laws.noise import Noise


@dataclass(frozen=True, eq=False)
class Clipped(Law):
    """min(max(Y, 0), 1): everything that ``noise`` puts outside [0, 1] becomes an atom on the nearer end."""

    noise: Noise

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return self.noise.shape

    def atoms(self) -> tuple[Floats, Floats]:
        """Return the masses of the atoms at 0 and at 1."""
        return self.noise.mass(-np.inf, 0.0), self.noise.mass(1.0, np.inf)

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the closed interval: an edge at or beyond an end takes the whole tail."""
        lower, upper = as_floats(lower), as_floats(upper)
        masses = self.noise.mass(np.where(lower <= 0, -np.inf, lower), np.where(upper >= 1, np.inf, upper))
        return np.where((lower <= upper) & (upper >= 0) & (lower <= 1), masses, 0.0)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density inside (0, 1); the atoms at the ends are in `pmf`."""
        y = as_floats(y)
        return np.where((y > 0) & (y < 1), self.noise.pdf(y), 0.0)

    def _moments(self) -> tuple[Floats, Floats]:
        first, second = self.noise.partial_moments()
        at_zero, at_one = self.atoms()
        x = self.noise.x
        return first - x * at_zero + (1 - x) * at_one, second + x**2 * at_zero + (1 - x) ** 2 * at_one

    def mean(self) -> Floats:
        """Return E[Y]."""
        return self.noise.x + self._moments()[0]

    def var(self) -> Floats:
        """Return the variance."""
        first, second = self._moments()
        return np.maximum(second - first**2, 0.0)

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the clipped quantile."""
        return np.clip(self.noise.from_uniform(u), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Truncated(Law):
    """Y given 0 <= Y <= 1: ``noise`` restricted to [0, 1] and renormalised; no atoms."""

    noise: Noise

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return self.noise.shape

    def _inside(self) -> Floats:
        return self.noise.mass(0.0, 1.0)

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the closed interval."""
        lower, upper = np.maximum(as_floats(lower), 0.0), np.minimum(as_floats(upper), 1.0)
        return np.minimum(self.noise.mass(lower, upper) / self._inside(), 1.0)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density on [0, 1]."""
        y = as_floats(y)
        return np.where((y >= 0) & (y <= 1), self.noise.pdf(y) / self._inside(), 0.0)

    def mean(self) -> Floats:
        """Return E[Y]."""
        return self.noise.x + self.noise.partial_moments()[0] / self._inside()

    def var(self) -> Floats:
        """Return the variance."""
        first, second = (moment / self._inside() for moment in self.noise.partial_moments())
        return np.maximum(second - first**2, 0.0)

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile, found in the part of the noise that lies in [0, 1]."""
        inside = self.noise.mass(-np.inf, 0.0) + as_floats(u) * self._inside()
        inside = np.clip(inside, SMALLEST_UNIFORM, 1 - 2 * SMALLEST_UNIFORM)
        return np.clip(self.noise.from_uniform(inside), 0.0, 1.0)
