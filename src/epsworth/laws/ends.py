"""A law on [0, 1] with atoms at both ends: Duchi's mechanism, the hybrid, clipped staircase noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.laws.law import SMALLEST_UNIFORM, Law


@dataclass(frozen=True, eq=False)
class WithEnds(Law):
    """0 and 1 with probabilities ``at_zero`` and ``at_one``, else (``inside``) a draw from the atomless ``law``."""

    at_zero: Floats
    at_one: Floats
    inside: Floats
    law: Law

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return self.law.shape

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
