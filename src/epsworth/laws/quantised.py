"""A law rounded to a public grid: post-processing that makes any classifier exactly answerable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.laws.grid import first_index_from, last_index_to
from epsworth.laws.law import Law


@dataclass(frozen=True, eq=False)
class Quantised(Law):
    """The nearest of the k grid points {i/(k-1)} to a draw of ``law``; what lies beyond an end goes to that end.

    Cells meet at the doubles (i + 1/2)/(k - 1): that is what is nearest by definition, here and in every draw.
    """

    law: Law
    k: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return self.law.shape

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the grid points in the closed interval: that of their rounding cells."""
        low, high = first_index_from(lower, self.k), last_index_to(upper, self.k)
        left = np.where(low <= 0, -np.inf, (low - 0.5) / (self.k - 1))
        right = np.where(high >= self.k - 1, np.inf, (high + 0.5) / (self.k - 1))
        return np.where(low <= high, self.law.mass(left, right), 0.0)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return zeros: there is no continuous part."""
        return np.zeros(np.broadcast_shapes(np.shape(y), self.shape))

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
