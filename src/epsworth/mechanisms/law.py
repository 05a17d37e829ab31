"""What every law offers: masses of closed intervals, cells, densities, moments, draws.

Conventions, fixed for all laws:

- intervals are *closed*, so an atom or grid point on an edge counts;
- a law carries a batch of distributions; its ``shape`` broadcasts against every argument;
- `Law.from_uniform` maps one uniform number to one draw.  For every law but a mixture it is the
  quantile function, so two laws fed the same uniforms give coupled draws (smooth curves in epsilon).

No mass is off by more than `MASS_ERROR`, given the doubles that the law holds.  In units u = 2^-53, and with exp,
expm1 and their like right to 4 units in the last place, 8 u, which is what NumPy allows its vectorised ones:

- Laplace: an argument t is off by 2u, which moves exp(-t) by at most 2u t exp(-t) < u: 9u for a tail, so 11u for the
  difference or sum of two, halved and rounded.  Around the true value all terms are positive: 11u of the mass itself.
- Gaussian: ndtr (Cephes) adds and multiplies 2 * 9 positive terms of a value that is at most 0.16, or errs by 3.7e-16
  of erf below: 6u, with its argument (z phi(z) < 0.25); 13u for a difference.
- Two levels: where y lies in the window, y - x is off by u |y - x|, at most 2u of the window: 8u for both ends.
- Truncated and boosted noise: a mass on one side of x is off by 30u of that of the whole range, which in turn is off
  by 12u of itself; with the tails and both factors 64u.
- Grids: ratios of sums of positive terms; the geometric one, with 19u for a sum G and (G + G') / (G + G' - 1) <= 2 in
  numerator and denominator, is off by 86u, the others by 30u.
- Clipped, quantised and mixed laws: what their parts are off, and 4u.

Not so `Steps` and `Lattice`, noise for answers: u per entry of their table.  What an engine adds up is widened by
this error (`epsworth.utility.engines.contraction.mass_error`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.rounding import UNIT

MASS_ERROR = 96 * UNIT
SMALLEST_UNIFORM = 2.0**-54  # keeps quantiles of unbounded laws finite; shifts masses by < 1e-16


def uniforms(rng: np.random.Generator, size: int | tuple[int, ...]) -> Floats:
    """Draw uniform numbers in the *open* interval (0, 1)."""
    return np.maximum(rng.random(size), SMALLEST_UNIFORM)


def draw_between(law: Law, low: ArrayLike, high: ArrayLike, u: Floats) -> Floats:
    """Return draws given that the cumulative mass lies in [low, high]: the uniform is restricted under the quantile."""
    low, high = as_floats(low), as_floats(high)
    return law.from_uniform(np.clip(low + u * (high - low), SMALLEST_UNIFORM, 1 - 2 * SMALLEST_UNIFORM))


class Law(ABC):
    """A batch of distributions of one released value; subclasses are frozen dataclasses of arrays."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch, to which its arrays and laws broadcast; ``()`` for a single distribution."""
        held = (getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]
        return np.broadcast_shapes(*(part.shape for part in held if isinstance(part, (np.ndarray, Law))))

    @abstractmethod
    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return Pr[lower <= Y <= upper]; atoms on the edges count; 0 where upper < lower."""

    @abstractmethod
    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density of the absolutely continuous part (zero for grid laws)."""

    @abstractmethod
    def mean(self) -> Floats:
        """Return E[Y]."""

    @abstractmethod
    def var(self) -> Floats:
        """Return the variance of Y."""

    @abstractmethod
    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return draws made from uniform numbers ``u`` in (0, 1), broadcast against ``shape``."""

    def pmf(self, y: ArrayLike) -> Floats:
        """Return Pr[Y = y]: the atom at y, zero where there is none."""
        return self.mass(y, y)

    def cdf(self, y: ArrayLike) -> Floats:
        """Return Pr[Y <= y] (right continuous)."""
        return self.mass(-np.inf, y)

    def cdf_left(self, y: ArrayLike) -> Floats:
        """Return Pr[Y < y]."""
        return np.maximum(self.cdf(y) - self.pmf(y), 0.0)

    def cell_masses(self, edges: ArrayLike) -> Floats:
        """Return the masses of the cells (e_i, e_i+1]; the first cell also holds e_0.

        Parameters
        ----------
        edges : array_like, shape ``(m + 1,)``
            Nondecreasing cell edges.

        Returns
        -------
        ndarray, shape ``(*shape, m)``
        """
        edges = as_floats(edges)
        if edges.ndim != 1 or edges.size < 2 or not (np.diff(edges) >= 0).all():
            raise ValueError("edges must be one nondecreasing list of at least two numbers; sort them first")
        law = self[..., np.newaxis]
        masses = np.maximum(np.diff(law.cdf(edges), axis=-1), 0.0)
        masses[..., 0] += law.pmf(edges[:1])[..., 0]
        return masses

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw for analysis: shape ``(*size, *shape)``; never fit for release (floating point, seedable)."""
        size = (size,) if isinstance(size, int) else tuple(size)
        return self.from_uniform(uniforms(rng, size + self.shape))

    def __getitem__(self, index: Any) -> Self:
        """Index the batch: ``law[..., np.newaxis]`` adds an axis to every parameter."""
        indexed = {f.name: _index(getattr(self, f.name), index) for f in fields(self)}  # type: ignore[arg-type]
        return replace(self, **indexed)  # type: ignore[type-var]


def _index(value: object, index: object) -> object:
    return value[index] if isinstance(value, (np.ndarray, Law)) else value  # type: ignore[call-overload]


def broadcast(*parameters: ArrayLike) -> tuple[Floats, ...]:
    """Broadcast parameters to one shape (as views, without copying)."""
    return tuple(np.broadcast_arrays(*map(as_floats, parameters)))


class DiscreteLaw(Law):
    """A law without a continuous part."""

    def pdf(self, y: ArrayLike) -> Floats:
        """Return zeros."""
        return np.zeros(np.broadcast_shapes(np.shape(y), self.shape))


def nearest_index(x: ArrayLike, k: int) -> Floats:
    """Round values in [0, 1] to the index of the nearest grid point (ties to the even index)."""
    return np.rint(as_floats(x) * (k - 1))


def _near(y: ArrayLike) -> Floats:
    return np.minimum(np.maximum(as_floats(y), -1.0), 2.0)  # far ends select the same points and cannot overflow


def first_index_from(y: ArrayLike, k: int) -> Floats:
    """Return the smallest i with i/(k-1) >= y, at least 0; k where there is none."""
    y, steps = _near(y), k - 1
    i = np.ceil(y * steps)  # may be one off in the last bit: compare with the grid's own floats
    i = np.where((i - 1) / steps >= y, i - 1, i)
    i = np.where(i / steps < y, i + 1, i)
    return np.minimum(np.maximum(i, 0.0), k)


def last_index_to(y: ArrayLike, k: int) -> Floats:
    """Return the largest i with i/(k-1) <= y, at most k-1; -1 where there is none."""
    y, steps = _near(y), k - 1
    i = np.floor(y * steps)
    i = np.where((i + 1) / steps <= y, i + 1, i)
    i = np.where(i / steps > y, i - 1, i)
    return np.minimum(np.maximum(i, -1.0), k - 1)


class GridLaw(DiscreteLaw):
    """A law on the k grid points; ``index`` is the grid index of the true value."""

    index: Floats
    k: int

    @abstractmethod
    def _mass_of_range(self, low: Floats, high: Floats) -> Floats:
        """Return the mass of indices low..high, given 0 <= low <= high <= k-1."""

    @abstractmethod
    def _index_from_uniform(self, u: Floats) -> Floats:
        """Return the quantile as a grid index."""

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return the mass of the grid points in the closed interval."""
        low, high = first_index_from(lower, self.k), last_index_to(upper, self.k)
        covered = low <= high
        masses = self._mass_of_range(np.where(covered, low, 0.0), np.where(covered, high, 0.0))
        return np.where(covered, np.minimum(masses, 1.0), 0.0)

    def from_uniform(self, u: ArrayLike) -> Floats:
        """Return the quantile, a grid value."""
        return np.clip(self._index_from_uniform(as_floats(u)), 0, self.k - 1) / (self.k - 1)
