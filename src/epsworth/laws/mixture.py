"""The raw value with some probability, else another law: what the privacy indicator releases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.laws.law import Law


@dataclass(frozen=True, eq=False)
class RawOr(Law):
    """With probability ``reveal`` the true value ``x`` itself, else a draw from ``law``."""

    x: Floats
    reveal: float
    law: Law

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return self.law.shape

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
