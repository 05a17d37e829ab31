"""Noise added on the real line: Laplace and Gaussian, and what their wrappers need to know.

`Noise.partial_moments` integrates (Y - x)^k over an interval around the true value, *about the true value*, so
the variances of clipped, truncated and boosted laws never cancel, however small or large epsilon is.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.extras import later
from epsworth.laws.law import Law, broadcast

gammainc, ndtr, ndtri = (later("scipy.special", name) for name in ("gammainc", "ndtr", "ndtri"))


class Noise(Law):
    """A law with full support on the real line, centred at the true value ``x``."""

    x: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return self.x.shape

    def mean(self) -> Floats:
        """Return the true value: the noise is symmetric."""
        return self.x.copy()

    @abstractmethod
    def partial_moments(self, lower: ArrayLike = 0.0, upper: ArrayLike = 1.0) -> tuple[Floats, Floats]:
        """Return the integrals over [lower, upper], which holds x, of (y - x) f(y) dy and (y - x)^2 f(y) dy."""


@dataclass(frozen=True, eq=False)
class Laplace(Noise):
    """x + Lap(1/rate), density (rate/2) exp(-rate |y - x|)."""

    x: Floats
    rate: Floats

    @classmethod
    def around(cls, x: ArrayLike, rate: ArrayLike) -> Self:
        """Build from broadcastable parameters."""
        return cls(*broadcast(x, rate))

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of [lower, upper]; narrow intervals and far tails keep their relative accuracy."""
        lower, upper = as_floats(lower), as_floats(upper)
        left, right = self.rate * (lower - self.x), self.rate * (upper - self.x)
        from_left, from_right = -np.abs(left), -np.abs(right)
        lack_left, lack_right = np.expm1(from_left), np.expm1(from_right)  # exact near x
        tails = np.abs(np.exp(from_left) - np.exp(from_right))  # exact far away from it
        near = np.maximum(from_left, from_right) > -0.5
        one_sided = np.where(near, np.abs(lack_left - lack_right), tails)
        masses = 0.5 * np.where((left > 0) | (right < 0), one_sided, -(lack_left + lack_right))
        return np.where(upper >= lower, masses, 0.0)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density at y."""
        return 0.5 * self.rate * np.exp(-self.rate * np.abs(as_floats(y) - self.x))

    def var(self) -> Floats:
        """Return 2 / rate^2."""
        return 2.0 / self.rate**2

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile at u."""
        centred = as_floats(u) - 0.5
        return as_floats(self.x - np.sign(centred) * np.log1p(-2 * np.abs(centred)) / self.rate)

    def partial_moments(self, lower: ArrayLike = 0.0, upper: ArrayLike = 1.0) -> tuple[Floats, Floats]:
        """Return the first two moments about x over [lower, upper], by incomplete gamma functions."""
        # integral_0^L t^k e^{-rate t} dt = k! gammainc(k+1, rate L) / rate^{k+1}
        sides = as_floats(upper) - self.x, self.x - as_floats(lower)
        first = [gammainc(2, self.rate * side) / (2 * self.rate) for side in sides]
        second = [gammainc(3, self.rate * side) / self.rate**2 for side in sides]
        return first[0] - first[1], second[0] + second[1]


@dataclass(frozen=True, eq=False)
class Gaussian(Noise):
    """x + N(0, sigma^2)."""

    x: Floats
    sigma: Floats

    @classmethod
    def around(cls, x: ArrayLike, sigma: ArrayLike) -> Self:
        """Build from broadcastable parameters."""
        return cls(*broadcast(x, sigma))

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of [lower, upper]; intervals above x are reflected to keep accuracy."""
        lower, upper = as_floats(lower), as_floats(upper)
        left, right = (lower - self.x) / self.sigma, (upper - self.x) / self.sigma
        above = left > 0
        masses = ndtr(np.where(above, -left, right)) - ndtr(np.where(above, -right, left))
        return np.where(upper >= lower, np.maximum(masses, 0.0), 0.0)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density at y."""
        z = (as_floats(y) - self.x) / self.sigma
        return as_floats(np.exp(-0.5 * z * z) / (np.sqrt(2 * np.pi) * self.sigma))

    def var(self) -> Floats:
        """Return sigma^2."""
        return self.sigma**2

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile at u."""
        return as_floats(self.x + self.sigma * ndtri(as_floats(u)))

    def partial_moments(self, lower: ArrayLike = 0.0, upper: ArrayLike = 1.0) -> tuple[Floats, Floats]:
        """Return the first two moments about x over [lower, upper], free of cancellation."""
        below = 0.5 * ((self.x - as_floats(lower)) / self.sigma) ** 2
        above = 0.5 * ((as_floats(upper) - self.x) / self.sigma) ** 2
        # integral_0^b z phi(z) dz = -phi(0) expm1(-b^2/2);  integral_0^b z^2 phi(z) dz = gammainc(3/2, b^2/2)/2
        first = self.sigma / np.sqrt(2 * np.pi) * (np.expm1(-below) - np.expm1(-above))
        second = 0.5 * self.sigma**2 * (gammainc(1.5, below) + gammainc(1.5, above))
        return first, second


class Shaped(Law):
    """A law made from noise, which biases it; its moments about the true value say mean, variance and error."""

    noise: Noise

    @abstractmethod
    def _moments(self) -> tuple[Floats, Floats]:
        """Return E[Y - x] and E[(Y - x)^2]."""

    def mean(self) -> Floats:
        """Return E[Y]."""
        return np.asarray(self.noise.x + self._moments()[0])

    def var(self) -> Floats:
        """Return the variance."""
        first, second = self._moments()
        return np.maximum(second - first**2, 0.0)

    def mean_square(self) -> Floats:
        """Return E[(Y - x)^2]: the error's square, bias included."""
        return self._moments()[1]
