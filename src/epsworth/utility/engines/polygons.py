"""Two-sided bounds for linear classifiers with one or two sensitive features and any number of classes.

A label is kept on a polygon: the intersection of the half planes in which it beats its rivals.  The piecewise and
the square wave mechanism mix uniform laws on rectangles, so their probabilities are areas of polygons, exact.  For
every other law the plane is cut into slabs u in (p, q] of known mass.  By convexity, the polygon holds the points v
that both ends of a slab share; and each half plane is widest at one of the ends.  With slabs of mass at most 1/N
the bracket closes as 1/N.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.laws import TwoLevel
from epsworth.rounding import UNIT
from epsworth.utility.engines.contraction import mass_error, widened
from epsworth.utility.engines.linear import Brackets, Comparison, LinearModel
from epsworth.utility.engines.sums import MARGIN
from epsworth.utility.problem import Problem

FIRST_SLABS, MOST_SLABS = 2**9, 2**15
BLOCK = 512  # records whose polygons are measured together
TAIL = 1e-13  # mass beyond the first and the last slab of an unbounded law; what is beyond counts on the upper side


class HalfPlanes(NamedTuple):
    """Where a u + b v + c > 0: arrays of shape ``(points, planes)``, with one polygon per point."""

    a: Floats
    b: Floats
    c: Floats

    def shifted(self, by: Floats) -> HalfPlanes:
        """Move every boundary: outwards where ``by`` is positive."""
        return self._replace(c=self.c + by)

    def section(self, k: int, u: Floats) -> Interval:
        """Return the ends of {v : (u, v) in half plane k} for u of shape ``(points, n)``; low = inf where empty."""
        a, b, c = (side[:, k, np.newaxis] for side in self)
        value = a * u + c
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            edge = -value / b
        empty = (b == 0) & (value <= 0)
        return Interval(np.where(b > 0, edge, np.where(empty, np.inf, -np.inf)), np.where(b < 0, edge, np.inf))


def half_planes(comparisons: list[Comparison]) -> HalfPlanes:
    """Return the half planes of a label; a single feature is v, and no score looks at u."""
    signs = np.array([1.0 if compared.positive else -1.0 for compared in comparisons])
    weights = np.array([compared.weights for compared in comparisons]).T * signs
    constants = np.array([compared.constant for compared in comparisons]) * signs
    return HalfPlanes(*(side[np.newaxis] for side in (weights[0] * (len(weights) > 1), weights[-1], constants)))


def _of_part(laws: list[Law], planes: HalfPlanes, margin: Floats, tolerance: float) -> Interval:
    pair = (laws[0], laws[-1])
    if all(isinstance(law, TwoLevel) for law in pair):
        lower, upper = (mixed_areas(pair, planes.shifted(by)) for by in (-margin, margin))
        return widened(lower, upper, area_error(planes.c.shape[1]))
    steps, found = FIRST_SLABS, slabs(pair, planes, margin, FIRST_SLABS)
    while (gap := float((found.upper - found.lower).max())) > tolerance and steps < MOST_SLABS:
        steps = min(MOST_SLABS, int(steps * max(2.0, 1.1 * gap / tolerance)))
        now = slabs(pair, planes, margin, steps)
        found = Interval(np.maximum(found.lower, now.lower), np.minimum(found.upper, now.upper))
    return found


def mixed_areas(laws: tuple[Law, Law], planes: HalfPlanes) -> Floats:
    """Return the mass of the polygon under two piecewise-constant laws: four areas, with each rectangle as a square."""
    total = np.zeros(laws[0].shape)
    for (p, left, width), (q, bottom, height) in product(*map(_uniform_parts, laws)):
        a, b, c = planes
        total += p * q * area(HalfPlanes(a * width, b * height, c + a * left + b * bottom))
    return total


def _uniform_parts(law: Law) -> list[tuple[Floats, Floats, Floats]]:
    """Return weight, start and width of the two uniform laws that make up a `TwoLevel`; starts, widths as columns."""
    assert isinstance(law, TwoLevel)
    column = np.zeros((law.x.size, 1))
    window = (law.x - law.offset)[:, np.newaxis], (2 * law.half)[:, np.newaxis]
    return [(law.spread, column, column + 1), (1 - law.spread, *window)]


def area(planes: HalfPlanes) -> Floats:
    """Return the area that half planes share with the unit square, shape ``(points,)``.

    Between the u of two crossings the height of the polygon is linear, so the midpoint rule is exact.  It never
    reads a height on a crossing itself, where steep boundaries jump.
    """
    points = len(planes.c)
    cuts = (planes.c + np.minimum(planes.a, 0) + np.minimum(planes.b, 0) <= 0).any(axis=0)
    planes = HalfPlanes(*(side[:, cuts] for side in planes))  # the others hold the whole square
    sides = [np.broadcast_to(np.array(side, dtype=float), (points, 2)) for side in ((0, 0), (1, -1), (0, 1))]
    a, b, c = (np.concatenate(both, axis=1) for both in zip(planes, sides, strict=True))
    i, j = np.triu_indices(a.shape[1], 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        crossing = (c[:, j] * b[:, i] - c[:, i] * b[:, j]) / (a[:, i] * b[:, j] - a[:, j] * b[:, i])
    ends = np.broadcast_to([0.0, 1.0], (points, 2))
    knots = np.sort(np.concatenate([ends, np.clip(np.nan_to_num(crossing), 0, 1)], axis=1), axis=1)
    middle = (knots[:, 1:] + knots[:, :-1]) / 2
    low, high = np.zeros_like(middle), np.ones_like(middle)
    for k in range(planes.c.shape[1]):
        section = planes.section(k, middle)
        low, high = np.maximum(low, section.lower), np.minimum(high, section.upper)
    return np.asarray((np.diff(knots, axis=1) * np.maximum(high - low, 0)).sum(axis=1))


def area_error(planes: int) -> float:
    """Bound the rounding of `mixed_areas` beyond that of the half planes themselves, which `_margin` holds.

    At a crossing the height bends by s, and the crossing is off by some d.  The midpoint rule then misses s d^2 / 2, or
    d where the height jumps.  Both are at most 16 units: the numerator and the denominator of a crossing are off by 3
    units of their terms each, so that s d is at most 12 units of a height, and d is at most 1.  Every crossing of two
    of the planes and four sides, and both ends, count so, and 4 units for summing the knots (`area` is off by that).
    """
    knots = 2 + (planes + 4) * (planes + 3) // 2
    return 20 * knots * UNIT


def slabs(laws: tuple[Law, Law], planes: HalfPlanes, margin: Floats, steps: int) -> Interval:
    """Bound the mass of the polygon under product laws of shape ``(epsilons,)`` by slabs of at most mass 1/steps.

    ``margin`` is by how much the scores may be rounded at values in [0, 1]; beyond, it grows with them.
    """
    edges = _edges(laws[0], steps)
    masses = np.maximum(np.diff(laws[0][:, np.newaxis].cdf(edges), axis=1), 0.0)
    reach = margin * np.abs(edges).max(initial=1.0)
    inner, outer = (Interval(np.full_like(masses, -np.inf), np.full_like(masses, np.inf)) for _ in range(2))
    for k in range(planes.c.shape[1]):
        low, high = planes.shifted(-reach).section(k, edges)
        np.maximum(inner.lower, np.maximum(low[:, 1:], low[:, :-1]), out=inner.lower)
        np.minimum(inner.upper, np.minimum(high[:, 1:], high[:, :-1]), out=inner.upper)
        low, high = planes.shifted(reach).section(k, edges)
        np.maximum(outer.lower, np.minimum(low[:, 1:], low[:, :-1]), out=outer.lower)
        np.minimum(outer.upper, np.maximum(high[:, 1:], high[:, :-1]), out=outer.upper)
    lower, upper = ((masses * laws[1][:, np.newaxis].mass(*side)).sum(axis=1) for side in (inner, outer))
    beyond = np.maximum(1 - masses.sum(axis=1), 0.0)
    return widened(lower, upper + beyond, mass_error(masses.shape[1] + 2))


def _edges(law: Law, steps: int) -> Floats:
    """Return slab edges, shape ``(epsilons, n)``: quantiles; and each atom alone between two neighbouring doubles."""
    grid = getattr(law, "k", None)
    u = np.concatenate([[TAIL], np.arange(1, steps) / steps, [1 - TAIL]])
    at = np.asarray(law[:, np.newaxis].from_uniform(u))
    if grid is None:
        atoms = np.broadcast_to([0.0, 1.0], (len(at), 2))
    else:  # every point of a small grid; on a large one the heavy points, which quantiles do not miss
        at = atoms = np.broadcast_to(np.arange(grid) / (grid - 1), (len(at), grid)) if grid <= steps else at
    return np.sort(np.concatenate([at, atoms, np.nextafter(atoms, -np.inf)], axis=1), axis=1)


def _possible(problem: Problem, model: LinearModel) -> NDArray[np.int64]:
    """Return how many labels win on some area within the ranges, per record that is asked about."""
    at = np.arange(len(problem.records))[problem.left]
    weights, constants, sizes = model.weights, model.constants[at], model.sizes[at]
    if len(weights) == 1:  # the score of one class over another whose own is zero
        weights, constants = np.concatenate([0 * weights, weights]), np.concatenate([0 * constants, constants], axis=1)
    count = np.zeros(len(at), dtype=np.int64)
    for block in np.array_split(np.arange(len(count)), -(-len(count) // BLOCK)):
        for own in range(len(weights)):
            ahead = np.delete(weights[own] - weights, own, axis=0).T
            c = np.delete(constants[block, own, np.newaxis] - constants[block], own, axis=1)
            planes = HalfPlanes(*np.broadcast_arrays(ahead[0] * (len(ahead) > 1), ahead[-1], c))
            count[block] += area(planes.shifted(-_margin(planes, sizes[block, np.newaxis]))) > 0
    return np.maximum(count, 1)


def _margin(planes: HalfPlanes, sizes: Floats | float) -> Floats:
    """Return by how much the scores may be rounded at values in [0, 1]."""
    return np.asarray(MARGIN * (sizes + np.abs(planes.a) + np.abs(planes.b) + np.abs(planes.c)))


class Polygons(Brackets):
    """Areas of polygons, or slabs of them: exact for ``pm`` and ``sw``, else as narrow as the tolerance."""

    name, reason = "polygons", "a linear model with {features}"
    most_features = 2

    def keeps(self, laws: list[Law], comparisons: list[Comparison], slack: float, tolerance: float) -> Interval:
        """Bound the mass of the polygon on which all comparisons are won."""
        planes = half_planes(comparisons)
        margin = slack + _margin(planes, 0.0)
        return _of_part([law if law.shape else law[np.newaxis] for law in laws], planes, margin, tolerance)

    def possible(self, problem: Problem, model: LinearModel) -> list[int]:
        """Return how many labels win on some area."""
        return [int(count) for count in _possible(problem, model)]
