"""What the exact engines share: laws for all epsilons at once, and the contraction of a decision table.

If the label depends on the sensitive features only through the cell of a product partition, then
rho = sum over cells of [label agrees] * prod_j Pr[M_j lies in the cell's side j]: one table serves every
mechanism and epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.bounds import Interval
from epsworth.mechanisms import Mechanism
from epsworth.mechanisms.density import Histogram
from epsworth.mechanisms.law import MASS_ERROR, Law
from epsworth.mechanisms.quantised import Quantised
from epsworth.mechanisms.record import RecordRelease
from epsworth.rounding import UNIT, down, up
from epsworth.space import Feature
from epsworth.utility.problem import Problem

SMALLEST = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class Table:
    """Labels over the cells of a product partition of the sensitive features' values.

    Attributes
    ----------
    labels : ndarray of int, shape ``(cells_1, .., cells_s)``
        Index into ``kinds``.
    kinds : ndarray
        The labels that occur.
    """

    labels: NDArray[np.intp]
    kinds: NDArray[Any]

    def agrees(self, label: Any) -> Floats:
        """Return 1.0 in the cells that have this label."""
        return np.asarray(self.kinds[self.labels] == label, dtype=np.float64)


def merged(
    edges: Sequence[NDArray[Any]], labels: NDArray[np.intp]
) -> tuple[tuple[NDArray[Any], ...], NDArray[np.intp]]:
    """Drop edges across which no label changes."""
    kept_edges = []
    for axis, edge in enumerate(edges):
        along = np.moveaxis(labels, axis, 0).reshape(labels.shape[axis], -1)
        changes = np.concatenate([[True], (along[1:] != along[:-1]).any(axis=1)])
        labels = np.compress(changes, labels, axis=axis)
        kept_edges.append(np.concatenate([edge[:-1][changes], edge[-1:]]))
    return tuple(kept_edges), labels


def contract(table: Floats, masses: Sequence[Floats]) -> Floats:
    """Return the mass of ``table`` under product laws.

    Parameters
    ----------
    table : ndarray, shape ``(c_1, .., c_s)``
    masses : sequence of s ndarrays, shapes ``(points, c_j)``

    Returns
    -------
    ndarray, shape ``(points,)``
    """
    first, *others = masses
    total = first @ table.reshape(table.shape[0], -1)
    for mass in others:
        total = np.einsum("pc,pcr->pr", mass, total.reshape(len(total), mass.shape[1], -1))
    return np.asarray(total[:, 0])


def agreement(table: Table, labels: Sequence[Any], masses: Sequence[Floats]) -> list[Floats]:
    """Return the exact probability of each of some labels, shape ``(points,)``."""
    return [_agreeing(table.agrees(label), masses) for label in labels]


def _agreeing(agrees: Floats, masses: Sequence[Floats]) -> Floats:
    """Contract; 0 and 1 are said only where no cell agrees or every one does (see `outward`)."""
    if agrees.all() or not agrees.any():
        return np.full(len(masses[0]), float(agrees.all()))
    return np.clip(contract(agrees, masses), SMALLEST, np.nextafter(1, 0))


def mass_error(cells: int) -> float:
    """Bound the error of a mass summed over a product partition, with so many ``cells`` in all features together.

    One feature's c masses are differences of cumulated ones, so that whatever is summed of them is off by at most
    2 c `MASS_ERROR` and a unit each; products and sums of c nonnegative terms add c + 1 units (Higham 2002, section
    3.1), relative to a result of at most 1.  The errors of the features add up, as each one's masses sum to 1: half a
    percent of the 4 units pays for their products.  Boxes are unions of cells; each cut adds one.
    """
    return cells * (2 * MASS_ERROR + 4 * UNIT)


def widened(lower: Floats, upper: Floats, error: float | Floats) -> Interval:
    """Return bounds on a probability, moved outwards by an error; what is no number bounds nothing."""
    low, high = np.clip(down(lower - error), 0, 1), np.clip(up(upper + error), 0, 1)
    return Interval(np.where(np.isnan(low), 0.0, low), np.where(np.isnan(high), 1.0, high))


def outward(value: Floats, error: float | Floats) -> Interval:
    """Return an exact value as bounds, moved outwards by its error; 0 and 1 are known for certain and stay."""
    lower, upper = widened(value, value, error)
    return Interval(np.where(value == 1, 1.0, lower), np.where(value == 0, 0.0, upper))


def below(feature: Feature, mechanism: Mechanism, law: Law, values: Floats) -> Floats:
    """Return Pr[released value <= values] in natural units, shape ``(*law.shape, values)``."""
    expanded = law[..., np.newaxis]
    if mechanism.points is None:
        return expanded.cdf(unit_edges(feature, values))
    released, order = _released(feature, mechanism.points)
    count = np.searchsorted(released, values, side="right")
    grid = np.arange(mechanism.points) / (mechanism.points - 1)
    if order is None:
        return np.where(count > 0, expanded.cdf(grid[count - 1]), 0.0)  # of what is asked for alone: grids are fine
    cumulated = np.cumsum(expanded.pmf(grid[order]), axis=-1)  # to add up k masses costs another k units
    padded = np.concatenate([np.zeros((*law.shape, 1)), cumulated], axis=-1)
    return np.asarray(padded[..., count])


def _released(feature: Feature, points: int) -> tuple[Floats, NDArray[np.intp] | None]:
    """Return the natural values on a feature's grid, rising, and their order where it is another than the grid's."""
    return _numbers(feature, points) if feature.categories is None else _rising(feature, points)


@lru_cache(maxsize=32)  # the same for every record
def _numbers(feature: Feature, points: int) -> tuple[Floats, NDArray[np.intp] | None]:
    return _rising(feature, points)


def _rising(feature: Feature, points: int) -> tuple[Floats, NDArray[np.intp] | None]:
    values = as_floats(feature.from_unit(np.arange(points) / (points - 1), points=points))  # these doubles are compared
    if (values[1:] >= values[:-1]).all():
        return values, None
    order = np.argsort(values, kind="stable")
    return values[order], order


class LawsOverEpsilon:
    """The laws of every mechanism at one true value, for all epsilons at once, shape ``(epsilons,)``."""

    def __init__(self, problem: Problem) -> None:
        self.features, self.points = problem.features, problem.shape[0] * problem.shape[1]
        self.stacks = [
            [stack([release.mechanisms[j] for release in row]) for j in range(len(problem.features))]
            for row in problem.releases
        ]

    def below(self, m: int, j: int, x: float, values: Floats) -> Floats:
        """Return Pr[released value <= values] in natural units, shape ``(epsilons, values)``."""
        feature = self.features[j]
        cumulated_of = [below(feature, mechanism, mechanism.law(x), values) for mechanism in self.stacks[m][j]]
        return np.concatenate([np.atleast_2d(cumulated) for cumulated in cumulated_of])

    def misplaced(self, j: int, x: float) -> Floats:
        """Return the mass that an edge of feature j may have on its wrong side, shape ``(points,)``."""
        rows, share = [stacks[j] for stacks in self.stacks], misplaced(self.features[j])
        if not share:
            return np.zeros(self.points)
        return np.concatenate([np.atleast_1d(share * peak(one, x)) for row in rows for one in row])

    def masses(self, m: int, j: int, x: float, edges: Floats) -> Floats:
        """Return the masses of the cells between edges in natural units (-inf to inf), shape ``(epsilons, cells)``."""
        return np.maximum(np.diff(self.below(m, j, x, edges)), 0.0)

    def boxes(self, m: int, j: int, x: float, side: Floats) -> Floats:
        """Return the mass of one closed interval on the unit scale, shape ``(epsilons,)``."""
        return np.concatenate([np.atleast_1d(mechanism.law(x).mass(*side)) for mechanism in self.stacks[m][j]])

    def runs(self, m: int, j: int, x: float, first: Floats, last: Floats) -> Floats:
        """Return the masses of runs of values on the unit scale, ends included, shape ``(epsilons, runs)``."""
        laws = (mechanism.law(x) for mechanism in self.stacks[m][j])
        return np.concatenate([np.atleast_2d(law[..., np.newaxis].mass(first, last)) for law in laws])


def stack(mechanisms: Sequence[Mechanism]) -> list[Mechanism]:
    """Merge mechanisms that differ in epsilon only into one with an array of epsilons."""
    first = mechanisms[0]
    if isinstance(first, Quantised):
        if all(isinstance(m, Quantised) and m.k == first.k for m in mechanisms):
            inner = stack([m.mechanism for m in mechanisms if isinstance(m, Quantised)])
            return [Quantised(mechanism, first.k) for mechanism in inner]
        return list(mechanisms)
    names = [f.name for f in fields(first) if f.name != "epsilon"]
    alike = all(type(m) is type(first) for m in mechanisms) and all(
        getattr(m, name) == getattr(first, name) for m in mechanisms for name in names
    )
    if not alike:
        return list(mechanisms)
    return [replace(first, epsilon=np.array([m.scalar_epsilon for m in mechanisms]))]


def stays_in_range(row: Sequence[RecordRelease]) -> bool:
    """Tell whether no output of some releases can lie outside the declared ranges."""
    return all(mechanism.output != "real line" for release in row for mechanism in release.mechanisms)


def aligned(row: Sequence[RecordRelease], features: int) -> list[list[Mechanism]]:
    """Return mechanisms per feature, stacked over epsilon where that works for every feature."""
    single = [[release.mechanisms[j] for release in row] for j in range(features)]
    stacked = [stack(mechanisms) for mechanisms in single]
    return stacked if len({len(mechanisms) for mechanisms in stacked}) == 1 else single


def unit_edges(feature: Feature, edges: Floats) -> Floats:
    """Convert edges to the unit scale; an edge stays on its side of both ends of the range, where atoms lie."""
    unit = (edges - feature.lower) / (feature.upper - feature.lower)
    unit = np.where(edges >= feature.lower, np.maximum(unit, 0.0), np.minimum(unit, np.nextafter(0, -1)))
    return np.where(edges >= feature.upper, np.maximum(unit, 1.0), np.minimum(unit, np.nextafter(1, 0)))


def misplaced(feature: Feature) -> float:
    """Bound the mass on the wrong side of one of the `unit_edges`, for each unit of the `peak` of a law.

    In units of 2^-53 an edge is off by 3 of itself; the double lower (1 - u) + upper u that leaves for u, by 3 of the
    larger end R for each of |u| and |1 - u|.  With t the distance to x in [0, 1] and the density f both add up to
    (3 + 6 R / width) (1 + t), and t f(t) <= 1 as f falls.  Nothing is rounded from 0 to a power of two.
    """
    if feature.categories is not None or (feature.lower == 0 and math.frexp(feature.upper)[0] == 0.5):
        return 0.0
    largest = max(abs(feature.lower), abs(feature.upper))
    return UNIT * (3 + 6 / (feature.upper / largest - feature.lower / largest))


def peak(mechanism: Mechanism, x: float) -> Floats:
    """Return 1 and the largest density of a law that falls from its true value on; 0 on grids, which are compared."""
    law = mechanism.law(x)
    if mechanism.points is not None:
        return np.zeros(law.shape)
    if isinstance(law, Histogram):
        return np.asarray(1 + (law.cells.masses / np.diff(law.cells.edges)).max(axis=1)[law.rows])
    return 1 + np.maximum(law.pdf(x), law.pdf(min(max(x, SMALLEST), 1 - UNIT)))  # no density on atoms at the ends


def within(feature: Feature, edges: Floats) -> Bools:
    """Return which cells (e_i, e_i+1] meet the declared range, or hold a declared category."""
    if feature.categories is not None:
        return np.isin(np.arange(len(edges) - 1), np.searchsorted(edges, as_floats(feature.categories)) - 1)
    return np.asarray((edges[1:] >= feature.lower) & (edges[:-1] < feature.upper))
