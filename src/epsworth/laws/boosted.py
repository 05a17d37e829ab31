"""Noise weighted up inside an interval around the true value: privacy boosting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.laws.law import SMALLEST_UNIFORM
from epsworth.laws.noise import Noise, Shaped


@dataclass(frozen=True, eq=False)
class Boosted(Shaped):
    """Density C f(y - x), times ``boost`` in [lower, upper], which holds x; an infinite boost truncates.

    Jiang et al. 2025, section 3; C = 1 / (B (1 - P) + P) with P the kernel's mass outside.
    """

    noise: Noise
    lower: Floats
    upper: Floats
    boost: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return np.broadcast_shapes(self.noise.shape, self.lower.shape, self.upper.shape, self.boost.shape)

    def weights(self) -> tuple[Floats, Floats]:
        """Return the factors of the kernel's density inside and outside."""
        out = self.noise.mass(-np.inf, self.lower) + self.noise.mass(self.upper, np.inf)
        inside = 1 / (self.noise.mass(self.lower, self.upper) + out / self.boost)
        return inside, inside / self.boost

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the closed interval: its parts below, in and above the preferred one."""
        lower, upper = as_floats(lower), as_floats(upper)
        inside, outside = self.weights()
        middle = self.noise.mass(np.maximum(lower, self.lower), np.minimum(upper, self.upper))
        tails = self.noise.mass(lower, np.minimum(upper, self.lower))
        tails = tails + self.noise.mass(np.maximum(lower, self.upper), upper)
        return np.minimum(inside * middle + outside * tails, 1.0)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density."""
        y = as_floats(y)
        inside, outside = self.weights()
        return np.asarray(self.noise.pdf(y) * np.where((y >= self.lower) & (y <= self.upper), inside, outside))

    def _moments(self) -> tuple[Floats, Floats]:
        inside, outside = self.weights()
        first, second = self.noise.partial_moments(self.lower, self.upper)
        return (inside - outside) * first, outside * self.noise.var() + (inside - outside) * second

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile: the kernel's, restricted to the part that the uniform number falls in.

        Two stages, so that the time taken does not depend on x.  The upper tail is read from its own end.
        """
        u = as_floats(u)
        inside, outside = self.weights()
        below, above = self.noise.mass(-np.inf, self.lower), self.noise.mass(self.upper, np.inf)
        low, high = outside * below, outside * above
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(u < low, u / outside, 0.5)
            right = np.where(1 - u < high, (1 - u) / outside, 0.5)
        tiny = SMALLEST_UNIFORM
        lower_tail = np.minimum(self.noise.from_uniform(np.maximum(left, 1e-300)), self.lower)
        mirrored = 2 * self.noise.x - self.noise.from_uniform(np.maximum(right, 1e-300))
        upper_tail = np.maximum(mirrored, self.upper)
        middle = self.noise.from_uniform(np.clip(below + (u - low) / inside, tiny, 1 - 2 * tiny))
        middle = np.clip(middle, self.lower, self.upper)
        return np.where(u < low, lower_tail, np.where(1 - u < high, upper_tail, middle))
