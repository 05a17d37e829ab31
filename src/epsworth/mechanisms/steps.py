"""Noise with piecewise-constant density or on an evenly spaced lattice about a true value, and tables of points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.mechanisms.law import DiscreteLaw, Law


@dataclass(frozen=True, eq=False)
class Steps(Law):
    """x plus noise that is uniform between neighbouring ``edges``, with one mass per cell.

    The tables are tuples, so that indexing the batch leaves them alone.
    """

    x: Floats
    edges: tuple[float, ...]
    masses: tuple[float, ...]

    def _cumulated(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.masses)])

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the interval."""
        cumulated = self._cumulated()
        ends = [np.interp(as_floats(end) - self.x, self.edges, cumulated) for end in (lower, upper)]
        return np.clip(ends[1] - ends[0], 0.0, 1.0)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density."""
        density = np.concatenate([[0.0], np.asarray(self.masses) / np.diff(self.edges), [0.0]])
        return as_floats(density[np.searchsorted(self.edges, as_floats(y) - self.x, side="right")])

    def mean(self) -> Floats:
        """Return E[Y]."""
        edges = np.asarray(self.edges)
        return as_floats(self.x + np.dot(self.masses, edges[1:] + edges[:-1]) / 2)

    def mean_square(self) -> Floats:
        """Return E[(Y - x)^2]."""
        a, b = np.asarray(self.edges[:-1]), np.asarray(self.edges[1:])
        return np.full(self.shape, float(np.dot(self.masses, a * a + a * b + b * b)) / 3)

    def var(self) -> Floats:
        """Return the variance."""
        return as_floats(self.mean_square() - (self.mean() - self.x) ** 2)

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile."""
        return as_floats(self.x + np.interp(as_floats(u), self._cumulated(), self.edges))


@dataclass(frozen=True, eq=False)
class Lattice(DiscreteLaw):
    """x plus a multiple of ``step``: ``masses[i]`` on ``(i - half) step``, where the table has 2 half + 1 entries."""

    x: Floats
    step: float
    masses: tuple[float, ...]

    def _points(self) -> Floats:
        half = len(self.masses) // 2
        return as_floats(np.arange(-half, half + 1) * self.step)

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the closed interval."""
        cumulated, points = np.concatenate([[0.0], np.cumsum(self.masses)]), self._points()
        slack = 1e-9 * self.step  # sums of decimals: 0.1 + 0.2 must count as 0.3
        first = np.searchsorted(points, as_floats(lower) - self.x - slack, side="left")
        last = np.searchsorted(points, as_floats(upper) - self.x + slack, side="right")
        return np.clip(np.where(last > first, cumulated[last] - cumulated[first], 0.0), 0.0, 1.0)

    def mean(self) -> Floats:
        """Return E[Y]."""
        return as_floats(self.x + np.dot(self.masses, self._points()))

    def mean_square(self) -> Floats:
        """Return E[(Y - x)^2]."""
        return np.full(self.shape, float(np.dot(self.masses, self._points() ** 2)))

    def var(self) -> Floats:
        """Return the variance."""
        return as_floats(self.mean_square() - (self.mean() - self.x) ** 2)

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile, a lattice value."""
        index = np.searchsorted(np.cumsum(self.masses), as_floats(u), side="left")
        return as_floats(self.x + self._points()[np.minimum(index, len(self.masses) - 1)])


@dataclass(frozen=True, eq=False)
class Points(DiscreteLaw):
    """One of some ``points``, ascending, for a true value x: ``cumulated[row]`` are the sums of their masses."""

    x: Floats
    row: Floats
    points: tuple[float, ...]
    cumulated: tuple[tuple[float, ...], ...]

    @property
    def step(self) -> float:
        """The largest distance of neighbouring points; 1 where there is but one."""
        return float(np.diff(self.points).max(initial=0.0)) or 1.0

    def _sums(self) -> Floats:
        return np.pad(np.array(self.cumulated), ((0, 0), (1, 0)))

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the closed interval."""
        lower, upper, row = np.broadcast_arrays(as_floats(lower), as_floats(upper), self.row.astype(np.intp))
        sums, slack = self._sums(), 1e-12 * float(np.abs(self.points).max())  # sums of decimals: 0.1 + 0.2 is 0.3
        first = np.searchsorted(self.points, lower - slack, "left")
        last = np.searchsorted(self.points, upper + slack, "right")
        return np.clip(np.where(last > first, sums[row, last] - sums[row, first], 0.0), 0.0, 1.0)

    def _moment(self, power: int) -> Floats:
        away = np.asarray(self.points) - self.x[..., np.newaxis]
        return as_floats((np.diff(self._sums())[self.row.astype(np.intp)] * away**power).sum(axis=-1))

    def mean(self) -> Floats:
        """Return E[Y]."""
        return as_floats(self.x + self._moment(1))

    def mean_square(self) -> Floats:
        """Return E[(Y - x)^2]."""
        return self._moment(2)

    def var(self) -> Floats:
        """Return the variance."""
        return as_floats(self._moment(2) - self._moment(1) ** 2)

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile."""
        u, row = np.broadcast_arrays(as_floats(u), self.row.astype(np.intp))
        reached = np.asarray(self.cumulated)[row] >= u[..., np.newaxis]
        index = np.where(reached.any(axis=-1), reached.argmax(axis=-1), len(self.points) - 1)
        return np.asarray(self.points)[index]
