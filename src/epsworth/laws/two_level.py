"""The piecewise-constant law of the piecewise (PM) and square wave (SW) mechanisms on [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.laws.law import Law, broadcast


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

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return self.x.shape

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
