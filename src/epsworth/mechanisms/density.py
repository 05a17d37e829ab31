"""Mechanisms of one's own, from a density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, as_floats
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.mechanism import Mechanism, Output
from epsworth.mechanisms.promise import INPUTS
from epsworth.numerals import short, whole
from epsworth.ranges import checked_range

Density = Callable[[Floats, Floats, float], Floats]

CELLS = 512  # so that every cell of [0, 1] is one of the intervals that `check_promise` compares
MOST_CELLS = 1 << 14
INSIDE = 8  # points of a cell, over which its density is averaged
OFF = 0.01  # by which a density may miss 1, added up over those points
BATCH = 1 << 20  # values of the density at a time
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


@dataclass(frozen=True)
class DensityMechanism(Mechanism):
    """What a density says, taken as constant on cells; `density_mechanism` makes it.

    Parameters
    ----------
    density : callable
        Of the output, the true value on [0, 1] and epsilon.
    ends : tuple of float
        The lowest and the highest output, on the scale of the true value.
    cells : int
        Of equal width.
    """

    density: Density
    ends: tuple[float, float] = (0.0, 1.0)
    cells: int = CELLS

    title: ClassVar[str] = "Density of one's own"
    reference: ClassVar[str] = "whoever brings it"
    output: ClassVar[Output] = "real line"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "ends", _checked(self.density, self.ends, self.cells))
        self._heights(np.linspace(0.0, 1.0, INPUTS), public=True)

    def _law(self, x: Floats) -> Histogram:
        values, rows = np.unique(x, return_inverse=True)
        return Histogram(rows.reshape(x.shape), Cells.of(self._edges, self._heights(values)))

    @property
    def taken(self) -> str:
        """What is analysed in place of the density."""
        return f"its density is taken as constant on each of {self.cells} cells: draw from that histogram"

    @property
    def _edges(self) -> Floats:
        return np.linspace(*self.ends, self.cells + 1)

    def _heights(self, x: Floats, *, public: bool = False) -> Floats:
        """Return the average density of each cell, by true value; only public ones are named in a refusal."""
        edges = self._edges
        places = edges[:-1, np.newaxis] + np.diff(edges)[:, np.newaxis] * (np.arange(INSIDE) + 0.5) / INSIDE
        averages, size = np.empty((len(x), self.cells)), max(1, BATCH // places.size)
        for start in range(0, len(x), size):
            some = x[start : start + size, np.newaxis]
            heights = self._values(places.reshape(1, -1), some)
            if not (np.isfinite(heights) & (heights >= 0)).all():
                raise ValueError("density: some of its values are negative, infinite or none; return finite ones")
            averages[start : start + size] = heights.reshape(len(some), self.cells, INSIDE).mean(axis=2)
        sums = averages @ np.diff(edges)
        if (np.abs(sums - 1) > OFF).any():
            at = int(np.abs(sums - 1).argmax())
            where = f" at input {x[at]:g}, where it is {sums[at]:.4g}" if public else ""
            raise ValueError(
                f"density: it does not add up to 1 over outputs from {self.ends[0]:g} to {self.ends[1]:g}{where}; "
                "divide by what it adds up to, widen output=, or take more cells="
            )
        return averages

    def _values(self, y: Floats, x: Floats) -> Floats:
        """Ask the density; a failure is described without its error, which may hold values."""
        shape, answer = (len(x), y.size), None
        try:
            answer = np.asarray(self.density(y, x, self.scalar_epsilon), dtype=np.float64)
            return np.broadcast_to(answer, shape)
        except Exception:
            problem = f"it returns shape {answer.shape}, not {shape}" if answer is not None else "it fails"
        raise ValueError(
            f"density: {problem} where y is a row of {shape[1]} outputs, x a column of {shape[0]} true values and "
            "epsilon a number; take these three as they come, and return a number for each y and x"
        )


def _checked(density: object, output: object, cells: object) -> tuple[float, float]:
    """Return the ends of the outputs; refuse what makes no mechanism."""
    if not callable(density):
        raise TypeError(f"density must be a function of y, x and epsilon, got {short(density)}")
    whole("cells", cells, least=2, most=MOST_CELLS)
    if not isinstance(output, (tuple, list)) or len(output) != 2:
        raise TypeError(f"output must be the lowest and the highest output, as in (0.0, 1.0), got {short(output)}")
    try:
        return checked_range("output", *output)
    except ValueError as error:
        raise ValueError(str(error).partition("; ")[0] + "; give the lowest and the highest output") from None


def density_mechanism(
    density: Density, *, output: tuple[float, float] = (0.0, 1.0), cells: int = CELLS
) -> Callable[[float], DensityMechanism]:
    """Make a mechanism of one's own from a density, for `stability` and all that compares mechanisms.

    Claim: the law is that of the *histogram* of the density on the cells, and bounds on it hold as on any other's.
    Its promise is checked where it is used, at 257 inputs, and refused where an output is more than e^epsilon times as
    likely from one input as from another; what passes is told as checked, not proven.

    Parameters
    ----------
    density : callable
        ``density(y, x, epsilon)``: of the output y where the true value is x, both on the scale where the feature's
        range is 0 to 1; x comes as a column and y as a row of arrays.
    output : tuple of float
        The lowest and highest output.
    cells : int
        How many cells of equal width the outputs have: the density is averaged over each.

    Returns
    -------
    callable
        From epsilon (of a feature) to the mechanism.

    Raises
    ------
    TypeError
        Where the density is no function, or ``output`` no two numbers.
    ValueError
        Where the density fails, is negative, or does not add up to 1.

    Examples
    --------
    >>> import numpy as np
    >>> import epsworth as ew
    >>> def triangle(y, x, epsilon):  # peaks at x, and is nowhere e^epsilon times as high as elsewhere
    ...     height = 1 + np.expm1(epsilon / 2) * (1 - np.abs(y - x))
    ...     return height / (1 + np.expm1(epsilon / 2) * (1 - (x**2 + (1 - x) ** 2) / 2))
    >>> mine = ew.density_mechanism(triangle)
    >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2]], sensitive=0, mechanisms={"mine": mine},
    ...                       epsilons=[4], rng=1)
    >>> truth = (0.5 + np.expm1(2) * 0.435) / (1 + np.expm1(2) * 0.66)  # of outputs up to 0.5
    >>> bool(curves.lower.item() <= truth <= curves.upper.item())
    True
    """
    return partial(DensityMechanism, density=density, ends=_checked(density, output, cells), cells=cells)
