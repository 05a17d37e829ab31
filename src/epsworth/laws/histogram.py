"""Histograms: densities that are constant on public cells, a row of masses for each true value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, as_floats
from epsworth.laws.law import Law

UNITS = 2.0**52  # masses are multiples of 1 / UNITS, so that no sum of them is rounded


@dataclass(frozen=True, eq=False)
class Cells:
    """Edges of cells, and the mass below every edge, by row; no array of a batch, so that indexing leaves it alone."""

    edges: Floats
    below: Floats

    @classmethod
    def of(cls, edges: Floats, heights: Floats) -> Cells:
        """Make rows of nonnegative heights into masses that add up to 1 exactly."""
        shares = heights * np.diff(edges)
        counts = np.floor(shares / shares.sum(axis=1, keepdims=True) * UNITS).astype(np.int64)
        rows = np.arange(len(counts))
        counts[rows, counts.argmax(axis=1)] += int(UNITS) - counts.sum(axis=1)
        below = np.zeros((len(counts), len(edges)))
        below[:, 1:] = np.cumsum(counts, axis=1) / UNITS
        return cls(edges, below)

    @property
    def masses(self) -> Floats:
        """The mass of every cell, by row."""
        return np.diff(self.below, axis=1)


@dataclass(frozen=True, eq=False)
class Histogram(Law):
    """A density that is constant on cells; ``rows`` says which row of the cells' masses each distribution has.

    Examples
    --------
    >>> cells = Cells.of(np.array([0.0, 0.5, 1.0]), np.array([[1.5, 0.5]]))
    >>> law = Histogram(np.array(0), cells)
    >>> float(law.cdf(0.5)), float(law.mass(0.25, 0.75)), float(law.mean())
    (0.75, 0.5, 0.375)
    """

    rows: NDArray[np.intp]
    cells: Cells

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return self.rows.shape

    def _below(self, y: ArrayLike) -> Floats:
        """Return the mass below y: both differences are of doubles, so each is off by a unit of itself at most."""
        edges = self.cells.edges
        y, rows = np.broadcast_arrays(np.clip(as_floats(y), edges[0], edges[-1]), self.rows)
        at = np.clip(np.searchsorted(edges, y, side="right") - 1, 0, len(edges) - 2)
        first, last = self.cells.below[rows, at], self.cells.below[rows, at + 1]
        return as_floats(first + (y - edges[at]) / (edges[at + 1] - edges[at]) * (last - first))

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the interval."""
        return np.clip(self._below(upper) - self._below(lower), 0.0, 1.0)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density; on an edge that of the cell above it."""
        edges = self.cells.edges
        y, rows = np.broadcast_arrays(as_floats(y), self.rows)
        at = np.clip(np.searchsorted(edges, y, side="right") - 1, 0, len(edges) - 2)
        height = (self.cells.below[rows, at + 1] - self.cells.below[rows, at]) / (edges[at + 1] - edges[at])
        return np.where((y >= edges[0]) & (y <= edges[-1]), height, 0.0)

    def _moment(self, values: Floats) -> Floats:
        return as_floats((self.cells.masses @ values)[self.rows])

    def mean(self) -> Floats:
        """Return E[Y]."""
        edges = self.cells.edges
        return self._moment((edges[1:] + edges[:-1]) / 2)

    def var(self) -> Floats:
        """Return the variance."""
        a, b = self.cells.edges[:-1], self.cells.edges[1:]
        return np.maximum(self._moment((a * a + a * b + b * b) / 3) - self.mean() ** 2, 0.0)

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile: the cell by halving, then the place within it."""
        edges, below = self.cells.edges, self.cells.below
        u, rows = np.broadcast_arrays(as_floats(u), self.rows)
        at: NDArray[Any] = np.zeros(u.shape, dtype=np.intp)
        for power in reversed(range((len(edges) - 1).bit_length())):
            ahead = np.minimum(at + (1 << power), len(edges) - 2)
            at = np.where(below[rows, ahead] <= u, ahead, at)
        mass = below[rows, at + 1] - below[rows, at]
        share = np.divide(u - below[rows, at], mass, out=np.zeros_like(u), where=mass > 0)
        return as_floats(np.clip(edges[at] + share * (edges[at + 1] - edges[at]), edges[at], edges[at + 1]))
