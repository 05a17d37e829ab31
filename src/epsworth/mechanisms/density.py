"""Mechanisms of one's own, from a density."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, as_floats
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.mechanism import Mechanism, Output
from epsworth.mechanisms.promise import INPUTS
from epsworth.numerals import short, whole
from epsworth.ranges import checked_range
from epsworth.rounding import show_up

Density = Callable[[Floats, Floats, float], Floats]

CELLS = 512  # so that every cell of [0, 1] is one of the intervals that `check_promise` compares
MOST_CELLS = 1 << 14
INSIDE = 8  # points of a cell, over which its density is averaged, at least
FINE, MOST_PLACES = 1e-3, 1 << 16  # they are doubled till sums are off by so little of 1 - e^-epsilon, or are so many
OFF = 0.01  # by which a density may miss 1, added up over those points
COARSE = 0.03  # by which probabilities may be off
KEPT = 1e-6  # relative error of densities that keep a promise
NOTHING = 1e-6  # of a probability
SUMMED = 1e-11  # relative error of masses, added up
BATCH = 1 << 20  # values of the density at a time
UNITS = 2.0**52  # masses are multiples of 1 / UNITS, so that no sum of them is rounded


@dataclass(frozen=True, eq=False)
class Cells:
    """Edges of cells, and the mass below every edge, by row; no array of a batch, so that indexing leaves it alone."""

    edges: Floats
    below: Floats

    @classmethod
    def of(cls, edges: Floats, heights: Floats) -> Cells:
        """Make rows of nonnegative heights into masses that add up to 1 exactly, none off by more than 5/4 units."""
        below = np.zeros((len(heights), len(edges)))
        np.cumsum(heights * np.diff(edges), axis=1, out=below[:, 1:])
        return cls(edges, np.rint(below / below[:, -1:] * UNITS) / UNITS)

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


@dataclass(frozen=True, eq=False)
class Reading:
    """How a density is read: at how many points a cell, how far off sums are, and what share all histograms have."""

    inside: int
    error: float
    share: float
    common: Floats

    @property
    def off(self) -> float:
        """By how much a probability of the density's own histogram may differ from that of what is analysed."""
        return self.error / (1 - self.error) + self.share if self.error < 1 else math.inf


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
        self._read  # noqa: B018  # refuses what is no density

    def _law(self, x: Floats) -> Histogram:
        values, rows = np.unique(x, return_inverse=True)
        heights = (1 - self._read.share) * self._normal(values, self._averages(values, self._read.inside)[0])
        return Histogram(rows.reshape(x.shape), Cells.of(self._edges, heights + self._read.common))

    @property
    def taken(self) -> str:
        """What is analysed in place of the density."""
        off = show_up(max(NOTHING, self._read.off), 2)
        return (
            f"its density is taken as constant on each of {self.cells} cells, as far as {self._read.inside} points in "
            f"each show with probabilities to within {off}: draw from that histogram"
        )

    @property
    def _edges(self) -> Floats:
        return np.linspace(*self.ends, self.cells + 1)

    @cached_property
    def _read(self) -> Reading:
        """What is done about the error of sums, so that all histograms keep the promise that the density keeps.

        Points keep it, and so do their sums before they are divided by what they add up to, 1 but for an error d each:
        a cell is at most E (1 + v) times as likely from one input as from another, 1 + v = (1 + d) / (1 - d) and
        E = e^epsilon.  So is it from their average; mixed with that by a share s, where s (E - 1) = (1 - s) E v, it is
        at most E times as likely.  Two units of mass over 1 - 2 / (E + 1) on every cell make up for rounding.
        """
        x, inside = np.linspace(0.0, 1.0, INPUTS), INSIDE
        averages, error = self._averages(x, inside)
        less = -math.expm1(-self.scalar_epsilon)
        while error > FINE * less and 2 * inside * self.cells <= MOST_PLACES:
            inside *= 2
            averages, error = self._averages(x, inside)
        normal = self._normal(x, averages, error, public=True)
        share, common = 0.0, np.zeros(self.cells)
        if min(_most_over(averages, self.scalar_epsilon), _most_over(normal, self.scalar_epsilon)) <= KEPT:
            excess = 2 * error / (1 - error) + SUMMED
            mixed, even = excess / (less + excess), 2 * self.cells / math.tanh(self.scalar_epsilon / 2) / UNITS
            share, common = mixed + even, mixed * normal.mean(axis=0) + even / (self.ends[1] - self.ends[0])
        found = Reading(inside, error, share, common)
        if found.off > COARSE:
            raise ValueError(
                f"density: it changes too sharply for {self.cells} cells over outputs from {self.ends[0]:g} to "
                f"{self.ends[1]:g}, on which probabilities may be off by {show_up(found.off, 2)}; take more cells= "
                f"(at most {MOST_CELLS}), or another epsilon"
            )
        return found

    def _averages(self, x: Floats, inside: int) -> tuple[Floats, float]:
        """Return the average density of each cell, by true value, and by how much a sum over the points may be off.

        Next to a jump by J, points that lie h apart miss J h / 2, which is what second differences show; where a
        density is smooth they show more than it is off by.
        """
        edges = self._edges
        places = edges[:-1, np.newaxis] + np.diff(edges)[:, np.newaxis] * (np.arange(inside) + 0.5) / inside
        averages, size, error = np.empty((len(x), self.cells)), max(1, BATCH // places.size), 0.0
        for start in range(0, len(x), size):
            some = x[start : start + size, np.newaxis]
            heights = self._values(places.reshape(1, -1), some)
            if not (np.isfinite(heights) & (heights >= 0)).all():
                raise ValueError("density: some of its values are negative, infinite or none; return finite ones")
            averages[start : start + size] = heights.reshape(len(some), self.cells, inside).mean(axis=2)
            turns = np.abs(np.diff(heights, 2, axis=1)).sum(axis=1)
            error = max(error, float(turns.max()) * (edges[-1] - edges[0]) / places.size / 4)
        return averages, error

    def _normal(self, x: Floats, averages: Floats, error: float = 0.0, *, public: bool = False) -> Floats:
        """Divide averages by what they add up to; only public inputs are named in a refusal."""
        sums = averages @ np.diff(self._edges)
        if (np.abs(sums - 1) > OFF + error).any():
            at = int(np.abs(sums - 1).argmax())
            where = f" at input {x[at]:g}, where it is {sums[at]:.4g}" if public else ""
            raise ValueError(
                f"density: it does not add up to 1 over outputs from {self.ends[0]:g} to {self.ends[1]:g}{where}; "
                "divide by what it adds up to, widen output=, or take more cells="
            )
        return averages / sums[:, np.newaxis]

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


def _most_over(heights: Floats, epsilon: float) -> float:
    """Return by which part the largest of a column exceeds e^epsilon times its smallest, at most."""
    most, least = heights.max(axis=0), np.exp(epsilon) * heights.min(axis=0)
    return float(np.divide(most, least, out=np.where(most > 0, np.inf, 1.0), where=least > 0).max()) - 1


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
    As far as jumps put off the sums that it is made by, at 257 inputs, it is mixed with its average over them, and so
    keeps the e^epsilon that the density keeps, where sums at other inputs are off by no more; notes say by how much
    probabilities may be off, 3 % at most, as far as the points show at which it is asked: a spike between them is not
    seen, and not in the histogram.  Its promise is checked where it is used, at those inputs, and refused where an
    output is more than e^epsilon times as likely from one input as from another; what passes is told as checked, not
    proven.

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
