"""Laplace noise, boosted on the range: outputs within it are made likelier, and pay for it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.mechanisms.law import SMALLEST_UNIFORM, Law
from epsworth.mechanisms.laws import Laplace, Noise, Shaped
from epsworth.mechanisms.mechanism import Mechanism, Output


@dataclass(frozen=True, eq=False)
class Boosted(Shaped):
    """Density C f(y - x), times ``boost`` in [lower, upper], which holds x; an infinite boost truncates.

    Jiang et al. 2025, section 3; C = 1 / (B (1 - P) + P) with P the kernel's mass outside.
    """

    noise: Noise
    lower: Floats
    upper: Floats
    boost: Floats

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


@dataclass(frozen=True)
class BoostedLaplace(Mechanism):
    """Laplace noise whose outputs lie in [0, 1] with probability 1 - ``beta``, for the worst true value.

    Between `Laplace` (no boost) and `BoundedLaplace` (an infinite one).  The loss is epsilon for every boost B: with
    Z(t) = 1 + (B - 1) Pr[inside] the normaliser at t, |Z'| <= epsilon Z, so ln Z changes no faster than the kernel's
    loss; Z(0) = Z(1), so the ends of the range reach epsilon.
    """

    beta: float = 0.1

    title: ClassVar[str] = "Laplace, boosted on the range"
    reference: ClassVar[str] = "Jiang, Zhang, Lu, Du, Sharma & Yan 2025, section 4.2 (fixed region)"
    output: ClassVar[Output] = "real line"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.beta, (int, float)) and 0 < self.beta < 1):
            raise ValueError(f"beta must lie strictly between 0 and 1, got {self.beta!r}")

    @property
    def boost(self) -> Floats:
        """B: weight inside over weight outside."""
        inside = -np.expm1(-as_floats(self.epsilon)) / 2  # of the kernel, for a true value at an end
        return np.maximum((1 - self.beta) / self.beta * (1 - inside) / inside, 1.0)

    def _law(self, x: Floats) -> Law:
        noise = Laplace.around(x, self.epsilon)
        low, high, boost = (np.broadcast_to(v, noise.shape) for v in (0.0, 1.0, self.boost))
        return Boosted(noise, low, high, boost)
