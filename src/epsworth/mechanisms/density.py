"""Mechanisms of one's own, from a density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from epsworth.arrays import Floats
from epsworth.laws import Histogram
from epsworth.laws.histogram import Cells
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
        found, size = np.empty((len(x), self.cells)), max(1, BATCH // places.size)
        for start in range(0, len(x), size):
            some = x[start : start + size, np.newaxis]
            heights = self._values(places.reshape(1, -1), some)
            if not (np.isfinite(heights) & (heights >= 0)).all():
                raise ValueError("density: some of its values are negative, infinite or none; return finite ones")
            found[start : start + size] = heights.reshape(len(some), self.cells, INSIDE).mean(axis=2)
        sums = found @ np.diff(edges)
        if (np.abs(sums - 1) > OFF).any():
            at = int(np.abs(sums - 1).argmax())
            where = f" at input {x[at]:g}, where it is {sums[at]:.4g}" if public else ""
            raise ValueError(
                f"density: it does not add up to 1 over outputs from {self.ends[0]:g} to {self.ends[1]:g}{where}; "
                "divide by what it adds up to, widen output=, or take more cells="
            )
        return found

    def _values(self, y: Floats, x: Floats) -> Floats:
        """Ask the density; what it cannot answer is told without the error, which may hold values."""
        shape, found = (len(x), y.size), None
        try:
            found = np.asarray(self.density(y, x, self.scalar_epsilon), dtype=np.float64)
            return np.broadcast_to(found, shape)
        except Exception:
            told = f"it returns shape {found.shape}, not {shape}" if found is not None else "it fails"
        raise ValueError(
            f"density: {told} where y is a row of {shape[1]} outputs, x a column of {shape[0]} true values and epsilon "
            "a number; take these three as they come, and return a number for each y and x"
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
