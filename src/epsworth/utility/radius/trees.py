"""Radius of tree models: the distance to boxes of leaves.

With the other features fixed, a sum of trees is constant on the cells between the thresholds of the moved
ones.  One tree: the nearest leaf with another label.  Few cells: all of them.  Many: boxes of cells, nearest first; a
box is put aside when the sum over the trees of each tree's best leaf in it cannot overtake the own label, and split
otherwise.  Thresholds are located to the last bit by the model's own comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.flat import TreeModel
from epsworth.classifiers.shortcuts import ShortCuts
from epsworth.classifiers.trees import tree_model
from epsworth.records import Indices
from epsworth.utility.engines.partition import Leaves, Sweep, sum_of_boxes
from epsworth.utility.radius.boxes import nearest_first
from epsworth.utility.radius.question import Asked, Found, Witness
from epsworth.utility.radius.sampled import nearest_flip

BATCH = 32
MOST_CELLS = 2_000_000  # up to which all cells are summed at once, instead of searched


def reachable_leaves(sweep: Sweep, given: NDArray[Any], model: TreeModel) -> Leaves:
    """Return the leaves that a record can reach; a split on a feature that stays sends what is given its way."""
    seen = model.seen(given)[0]
    return sweep.leaves(model.turns(seen[model.feature])).compact()


def nearest(edges: tuple[Floats, ...], point: Floats, low: Indices, high: Indices) -> Floats:
    """Return the point of each box of cells, shape ``(boxes, moved)``, that is nearest in every coordinate at once."""
    columns = []
    for j, last_left in enumerate(edges):
        first = np.concatenate([[-np.inf], np.nextafter(last_left, np.inf)])[low[:, j]]
        last = np.concatenate([last_left, [np.inf]])[high[:, j]]
        empty = first > last  # beyond thresholds at infinity
        columns.append(np.where(empty, np.inf, np.clip(point[j], first, np.maximum(first, last))))
    return np.stack(columns, axis=1)


def tree_radius(asked: Asked, rng: np.random.Generator, budget: int) -> Found | None:
    """Return the exact distance, or two-sided bounds where the budget of boxes ran out; None for other models.

    A flip found by sampling comes first: boxes beyond it are not looked at.
    """
    model = None if asked.classifier.inside is None else tree_model(asked.classifier.inside)
    if model is None or model.decision is not None or asked.label not in model.classes.tolist():
        return None
    if model.before.steps and model.before.obstacle(asked.positions) is not None:
        return None
    here = _given(asked, model, dict(zip(asked.positions, asked.point[:, np.newaxis], strict=True)))
    if here.dtype.kind not in "fiu" or not np.isfinite(here).all():
        return None  # missing values take ways of their own
    sweep = Sweep.over(model, asked.positions, ShortCuts.found(model.before, asked.records, asked.positions))
    if not _agrees(asked, model, sweep.edges):
        return None
    leaves = reachable_leaves(sweep, here, model)
    if len(model.roots) == 1:
        points = nearest(leaves.edges, asked.point, leaves.low.T, leaves.high.T)
        witness = asked.nearest(points)
        return Found(_below(asked, witness), witness, "tree")
    leads = _leads(asked, model, model.values[leaves.node])
    if math.prod(len(e) + 1 for e in leaves.edges) <= MOST_CELLS:
        return _from_table(asked, leaves, leads, model.tie)
    return _search(asked, leaves, leads, model.tie, nearest_flip(asked, rng), budget)


def _given(asked: Asked, model: TreeModel, values: Mapping[int, Floats]) -> NDArray[Any]:
    """Return what the trees are given of the record with other values."""
    rows = np.zeros(len(next(iter(values.values()))), dtype=np.intp)
    given = model.before(asked.records.take(rows, values))
    return given.astype(np.float64) if given.dtype == object and asked.records.numbers() is not None else given


def _agrees(asked: Asked, model: TreeModel, edges: tuple[Floats, ...]) -> bool:
    """Check the reading against the classifier, near the record, at thresholds and far away."""

    def read(points: Floats) -> tuple[Bools, Bools]:
        labels, clear = model.labels(_given(asked, model, dict(zip(asked.positions, points.T, strict=True))))
        return np.asarray(labels != asked.label), clear

    finite = [np.append(np.abs(e[np.isfinite(e)] - x), 0.0) for e, x in zip(edges, asked.point, strict=True)]
    return all(
        asked.flips_as_read(read, max(float(size(away)) for away in finite)) for size in (np.min, np.median, np.max)
    )


def _below(asked: Asked, witness: Witness | None) -> float:
    """Return the distance of a nearest point, rounded down."""
    if witness is None:
        return math.inf
    return float(asked.within(witness.point[np.newaxis])[0])


def _leads(asked: Asked, model: TreeModel, values: Floats) -> tuple[Floats, Floats]:
    """Return what leaves add to each rival's lead over the own label, ``(leaves, rivals)``, and its start."""
    own = model.classes.tolist().index(asked.label)
    if values.shape[1] == 1:
        sign = 1.0 if own == 0 else -1.0
        return sign * values, sign * model.offset
    rivals = np.arange(values.shape[1]) != own
    return values[:, rivals] - values[:, [own]], model.offset[rivals] - model.offset[own]


def _from_table(asked: Asked, leaves: Leaves, leads: tuple[Floats, Floats], tie: float) -> Found:
    """Sum the trees on every cell; ask the classifier about those that may flip, nearest first."""
    shape = tuple(len(e) + 1 for e in leaves.edges)
    lead = sum_of_boxes(shape, leaves.low, leaves.high, leads[0])
    offset = leads[1] + _slack(leaves, leads[0], tie)
    cells = np.argwhere((lead + offset.reshape(-1, *(1,) * len(shape)) >= 0).any(axis=0))
    points = nearest(leaves.edges, asked.point, cells, cells)
    points = points[np.argsort(_sizes_below(asked, points), kind="stable")]
    start, size = 0, BATCH
    while start < len(points):
        witness = asked.nearest(points[start : start + size])
        if witness is not None:
            return Found(_below(asked, witness), witness, "trees")
        start, size = start + size, 2 * size
    return Found(math.inf, None, "trees")


def _slack(leaves: Leaves, added: Floats, tie: float) -> float:
    """Return how far sums may be off: sums closer than ``tie`` per tree are left to the classifier itself."""
    return tie * len(leaves.starts) * max(1.0, float(np.abs(added).max()))


def _search(
    asked: Asked, leaves: Leaves, leads: tuple[Floats, Floats], tie: float, best: Witness | None, budget: int
) -> Found:
    """Split boxes of cells, nearest first, until the nearest one left is no nearer than the best flip."""
    added, offset = leads[0], leads[1] + _slack(leaves, leads[0], tie)
    away = _sizes_below(asked, nearest(leaves.edges, asked.point, leaves.low.T, leaves.high.T))
    certain = _certain(leaves, added, offset, away)
    low = np.zeros((1, len(leaves.edges)), dtype=np.intp)
    high = np.array([[len(e) for e in leaves.edges]], dtype=np.intp)
    distance, looked = np.zeros(1), 0
    while distance.size and looked < budget:
        now, later = nearest_first(distance, BATCH)
        a, b = _halved(low[now], high[now])
        looked += len(a)
        points = nearest(leaves.edges, asked.point, a, b)
        near = _sizes_below(asked, points)
        kept = near < (math.inf if best is None else best.distance)
        kept[kept] = _may_flip(leaves, added, offset, a[kept], b[kept])
        a, b, near, points = a[kept], b[kept], near[kept], points[kept]
        single = (a == b).all(axis=1)
        found = asked.nearest(points[single])  # the classifier decides about single cells, ties included
        if found is not None and (best is None or found.distance < best.distance):
            best = found
        low, high = np.concatenate([low[later], a[~single]]), np.concatenate([high[later], b[~single]])
        distance = np.concatenate([distance[later], near[~single]])
        if best is not None:
            open_ = distance < best.distance
            low, high, distance = low[open_], high[open_], distance[open_]
    nearest_left = float(distance.min()) if distance.size else math.inf
    return Found(min(max(nearest_left, certain), _below(asked, best)), best, "trees")


def _sizes_below(asked: Asked, points: Floats) -> Floats:
    finite = np.isfinite(points).all(axis=1)
    sizes = np.full(len(points), np.inf)
    sizes[finite] = asked.within(points[finite])
    return sizes


def _certain(leaves: Leaves, added: Floats, offset: Floats, away: Floats) -> float:
    """Return the largest distance below which no sum of leaves, each one nearer than it, lets a rival overtake.

    The bound does not look whether the leaves have a point in common, so it holds in any dimension and norm.
    """
    steps = np.unique(away)
    first, last = 0, len(steps)  # leaves strictly nearer than steps[first] cannot flip; the own leaves are at 0
    while last - first > 1:
        middle = (first + last) // 2
        reached = np.where((away < steps[middle])[:, np.newaxis], added, -np.inf)
        flips = (np.maximum.reduceat(reached, leaves.starts, axis=0).sum(axis=0) + offset >= 0).any()
        first, last = (first, middle) if flips else (middle, last)
    return float(steps[first])


def _may_flip(leaves: Leaves, added: Floats, offset: Floats, low: Indices, high: Indices) -> Bools:
    """Tell in which boxes the trees' best leaves together could make some rival overtake."""
    if not len(low):
        return np.zeros(0, dtype=bool)
    meets = np.ones((len(low), len(added)), dtype=bool)
    for j in range(low.shape[1]):
        meets &= (leaves.low[j] <= high[:, j, np.newaxis]) & (leaves.high[j] >= low[:, j, np.newaxis])
    may = np.zeros(len(low), dtype=bool)
    for rival, start in zip(added.T, offset, strict=True):
        best = np.maximum.reduceat(np.where(meets, rival, -np.inf), leaves.starts, axis=1)
        may |= best.sum(axis=1) + start >= 0
    return may


def _halved(low: Indices, high: Indices) -> tuple[Indices, Indices]:
    """Cut every box of cells across the feature with the most of them; single cells stay as they are."""
    rows, axis = np.arange(len(low)), (high - low).argmax(axis=1)
    middle = (low[rows, axis] + high[rows, axis]) // 2
    several = high[rows, axis] > low[rows, axis]
    left_high, right_low = high.copy(), low.copy()
    left_high[rows, axis] = middle
    right_low[rows, axis] = middle + 1
    return np.concatenate([low, right_low[several]]), np.concatenate([left_high, high[several]])
