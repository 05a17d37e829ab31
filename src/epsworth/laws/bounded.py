"""Laws on [0, 1] made from noise: `Clipped` (the ends carry atoms) and `Truncated` (renormalised)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.laws.law import SMALLEST_UNIFORM
from epsworth.laws.noise import Noise, Shaped


@dataclass(frozen=True, eq=False)
class Clipped(Shaped):
    """min(max(Y, low), high): all that ``noise`` puts outside [0, 1], or those ends, becomes an atom on the nearer."""

    noise: Noise
    low: float = 0.0
    high: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return self.noise.shape

    def atoms(self) -> tuple[Floats, Floats]:
        """Return the masses of the atoms at both ends."""
        return self.noise.mass(-np.inf, self.low), self.noise.mass(self.high, np.inf)

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the closed interval: an edge at or beyond an end takes the whole tail."""
        lower, upper = as_floats(lower), as_floats(upper)
        low, high = self.low, self.high
        masses = self.noise.mass(np.where(lower <= low, -np.inf, lower), np.where(upper >= high, np.inf, upper))
        return np.where((lower <= upper) & (upper >= low) & (lower <= high), masses, 0.0)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density between the ends; the atoms on them are in `pmf`."""
        y = as_floats(y)
        return np.where((y > self.low) & (y < self.high), self.noise.pdf(y), 0.0)

    def _moments(self) -> tuple[Floats, Floats]:
        first, second = self.noise.partial_moments(self.low, self.high)
        at_low, at_high = self.atoms()
        below, above = self.noise.x - self.low, self.high - self.noise.x
        return first - below * at_low + above * at_high, second + below**2 * at_low + above**2 * at_high

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the clipped quantile."""
        return np.clip(self.noise.from_uniform(u), self.low, self.high)


@dataclass(frozen=True, eq=False)
class Truncated(Shaped):
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

    def _moments(self) -> tuple[Floats, Floats]:
        first, second = self.noise.partial_moments()
        inside = self._inside()
        return first / inside, second / inside

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile, found in the part of the noise that lies in [0, 1]."""
        inside = self.noise.mass(-np.inf, 0.0) + as_floats(u) * self._inside()
        inside = np.clip(inside, SMALLEST_UNIFORM, 1 - 2 * SMALLEST_UNIFORM)
        return np.clip(self.noise.from_uniform(inside), 0.0, 1.0)
