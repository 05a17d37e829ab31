"""Laws that several mechanisms share: noise, what clipping and rounding make of it, and densities of two levels.

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
from epsworth.mechanisms.law import SMALLEST_UNIFORM, DiscreteLaw, Law, broadcast, first_index_from, last_index_to

gammainc, ndtr, ndtri = (later("scipy.special", name) for name in ("gammainc", "ndtr", "ndtri"))


class Noise(Law):
    """A law with full support on the real line, centred at the true value ``x``."""

    x: Floats

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


@dataclass(frozen=True, eq=False)
class Clipped(Shaped):
    """min(max(Y, low), high): all that ``noise`` puts outside [0, 1], or those ends, becomes an atom on the nearer."""

    noise: Noise
    low: float = 0.0
    high: float = 1.0

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


@dataclass(frozen=True, eq=False)
class TwoLevel(Law):
    """With probability ``spread`` uniform on [0, 1], else uniform on a window of width ``2 half`` around x.

    The window is snapped into [0, 1] (Zheng & Hu 2025, Def. 11 and 12) or slides linearly.  ``offset`` is x minus the
    window's left end; keeping it apart from x is what makes windows narrower than one ulp of x exact.
    """

    x: Floats
    spread: Floats
    half: Floats
    offset: Floats

    @classmethod
    def around(cls, x: ArrayLike, spread: ArrayLike, half: ArrayLike) -> Self:
        """Build from the true value, the weight of the uniform part and the window's half-width."""
        x, spread, half = broadcast(x, spread, half)
        offset = np.maximum(np.minimum(half, x), 2 * half - (1 - x))  # x - clip(x - C, 0, 1 - 2C)
        return cls(x, spread, half, offset)

    @classmethod
    def sliding(cls, x: ArrayLike, spread: ArrayLike, half: ArrayLike) -> Self:
        """Build with a window that slides linearly, from [0, 2C] at x = 0 to [1 - 2C, 1] at x = 1."""
        x, spread, half = broadcast(x, spread, half)
        return cls(x, spread, half, 2 * half * x)

    def _share_of_window_below(self, y: Floats) -> Floats:
        return np.minimum(np.maximum((y - self.x + self.offset) / (2 * self.half), 0.0), 1.0)

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the closed interval (there are no atoms)."""
        lower, upper = np.maximum(as_floats(lower), 0.0), np.minimum(as_floats(upper), 1.0)
        in_window = self._share_of_window_below(upper) - self._share_of_window_below(lower)
        masses = self.spread * (upper - lower) + (1 - self.spread) * in_window
        return np.where(upper >= lower, masses, 0.0)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density; window edges belong to the window."""
        y = as_floats(y)
        from_left = y - self.x + self.offset
        window = (from_left >= 0) & (from_left <= 2 * self.half)
        density = self.spread + np.where(window, (1 - self.spread) / (2 * self.half), 0.0)
        return np.where((y >= 0) & (y <= 1), density, 0.0)

    def _centre_minus_x(self) -> Floats:
        return self.half - self.offset

    def mean(self) -> Floats:
        """Return E[Y] = spread/2 + (1 - spread) centre."""
        return self.x + self.spread * (0.5 - self.x) + (1 - self.spread) * self._centre_minus_x()

    def var(self) -> Floats:
        """Return the variance, from moments about x."""
        far, near = 0.5 - self.x, self._centre_minus_x()
        first = self.spread * far + (1 - self.spread) * near
        second = self.spread * (far**2 + 1 / 12) + (1 - self.spread) * (near**2 + self.half**2 / 3)
        return np.maximum(second - first**2, 0.0)

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile: linear below, inside and above the window.

        A window narrower than one ulp of x (epsilon above about 70) collapses to x itself in floating point.
        """
        u = as_floats(u)
        left, width = self.x - self.offset, 2 * self.half
        below = self.spread * left  # mass left of the window
        inside = self.spread * width + (1 - self.spread)
        within = left + width * np.minimum(np.maximum((u - below) / inside, 0.0), 1.0)
        y = np.where(
            u < below,
            u / self.spread,
            np.where(u <= below + inside, within, left + width + (u - below - inside) / self.spread),
        )
        return np.clip(y, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class WithEnds(Law):
    """0 and 1 with probabilities ``at_zero`` and ``at_one``, else (``inside``) a draw from the atomless ``law``."""

    at_zero: Floats
    at_one: Floats
    inside: Floats
    law: Law

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the closed interval, an atom on its edge included."""
        lower, upper = as_floats(lower), as_floats(upper)
        ends = np.where((lower <= 0) & (upper >= 0), self.at_zero, 0.0)
        ends = ends + np.where((lower <= 1) & (upper >= 1), self.at_one, 0.0)
        return np.minimum(ends + self.inside * self.law.mass(lower, upper), 1.0)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density between the atoms."""
        y = as_floats(y)
        return self.inside * self.law.pdf(y)

    def mean(self) -> Floats:
        """Return E[Y]."""
        return self.at_one + self.inside * self.law.mean()

    def var(self) -> Floats:
        """Return the variance, from moments about the mean."""
        mean = self.mean()
        within = self.law.var() + (self.law.mean() - mean) ** 2
        return self.at_zero * mean**2 + self.at_one * (1 - mean) ** 2 + self.inside * within

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile: 0, the law between, 1."""
        u = as_floats(u)
        share = (u - self.at_zero) / np.where(self.inside > 0, self.inside, 1.0)
        between = self.law.from_uniform(np.clip(share, SMALLEST_UNIFORM, 1 - 2 * SMALLEST_UNIFORM))
        return np.where(u <= self.at_zero, 0.0, np.where(u < self.at_zero + self.inside, between, 1.0))


@dataclass(frozen=True, eq=False)
class RawOr(Law):
    """With probability ``reveal`` the true value ``x`` itself, else a draw from ``law``."""

    x: Floats
    reveal: float
    law: Law

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the closed interval, the atom at x included."""
        raw = (as_floats(lower) <= self.x) & (self.x <= as_floats(upper))
        return self.reveal * raw + (1 - self.reveal) * self.law.mass(lower, upper)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density of the continuous part."""
        return (1 - self.reveal) * self.law.pdf(y)

    def mean(self) -> Floats:
        """Return E[Y]."""
        return self.reveal * self.x + (1 - self.reveal) * self.law.mean()

    def var(self) -> Floats:
        """Return the variance."""
        between = self.reveal * (1 - self.reveal) * (self.x - self.law.mean()) ** 2
        return (1 - self.reveal) * self.law.var() + between

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return a draw: uniforms below ``reveal`` give x, the rest are stretched over ``law`` (not a quantile)."""
        u = as_floats(u)
        stretched = np.clip((u - self.reveal) / (1 - self.reveal), np.finfo(float).tiny, 1 - 2.0**-53)
        return np.where(u < self.reveal, self.x, self.law.from_uniform(stretched))


@dataclass(frozen=True, eq=False)
class Quantised(DiscreteLaw):
    """The nearest of the k grid points {i/(k-1)} to a draw of ``law``; what lies beyond an end goes to that end.

    Cells meet at the doubles (i + 1/2)/(k - 1): that is what is nearest by definition, here and in every draw.
    """

    law: Law
    k: int

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the grid points in the closed interval: that of their rounding cells."""
        low, high = first_index_from(lower, self.k), last_index_to(upper, self.k)
        left = np.where(low <= 0, -np.inf, (low - 0.5) / (self.k - 1))
        right = np.where(high >= self.k - 1, np.inf, (high + 0.5) / (self.k - 1))
        return np.where(low <= high, self.law.mass(left, right), 0.0)

    def _moment(self, power: int, about: ArrayLike = 0.0) -> Floats:
        grid = np.arange(self.k) / (self.k - 1)
        weights = self[..., np.newaxis].pmf(grid)
        return np.asarray((weights * (grid - as_floats(about)[..., np.newaxis]) ** power).sum(axis=-1))

    def mean(self) -> Floats:
        """Return E[Y], a sum over the grid."""
        return self._moment(1)

    def var(self) -> Floats:
        """Return the variance, a sum over the grid."""
        return self._moment(2, about=self.mean())

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the rounded quantile."""
        edges = (np.arange(self.k - 1) + 0.5) / (self.k - 1)
        return np.asarray(np.searchsorted(edges, self.law.from_uniform(u)) / (self.k - 1))
