"""Radius of tree models: the distance to boxes of leaves.

With the other features fixed, a sum of trees is constant on the cells between the thresholds of the moved
ones.  One tree: the nearest leaf with another label.  Few cells: all of them.  Many: boxes of cells, nearest first; a
box is put aside when the sum over the trees of each tree's best leaf in it cannot overtake the own label, and split
otherwise.  Thresholds are located to the last bit by the model's own comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.trees import LEAF, TreeModel, tree_model
from epsworth.engines.cells import reached, sum_of_boxes
from epsworth.robustness.boxes import nearest_first
from epsworth.robustness.question import Asked, Found, Inside, Witness
from epsworth.robustness.sampled import nearest_flip
from epsworth.search import last_passing

BATCH = 32
MOST_CELLS = 2_000_000  # up to which all cells are summed at once, instead of searched

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves that the record can reach, as boxes of cells ``low..high`` (both included), sorted by tree.

    Attributes
    ----------
    edges : tuple of ndarray
        Per moved feature the last values that go left; cell i is ``(edges[i-1], edges[i]]``.
    low, high : ndarray of int, shape ``(leaves, moved)``
    values : ndarray, shape ``(leaves, scores)``
    starts : ndarray of int, shape ``(trees,)``
        Where each tree's leaves begin.
    """

    edges: tuple[Floats, ...]
    low: Indices
    high: Indices
    values: Floats
    starts: Indices

    def nearest(self, point: Floats, low: Indices, high: Indices) -> Floats:
        """Return the point of each box of cells that is nearest to a point, in every coordinate at once."""
        columns = []
        for j, edges in enumerate(self.edges):
            first = np.concatenate([[-np.inf], np.nextafter(edges, np.inf)])[low[:, j]]
            last = np.concatenate([edges, [np.inf]])[high[:, j]]
            empty = first > last  # beyond thresholds at infinity
            columns.append(np.where(empty, np.inf, np.clip(point[j], first, np.maximum(first, last))))
        return np.stack(columns, axis=1)


def reachable_leaves(asked: Asked, inside: Inside, model: TreeModel) -> Leaves:
    """Sweep all trees at once; a split on a feature that stays sends the record its way."""
    seen = model.seen(inside.row[np.newaxis])[0]
    axis, place = np.full(len(model.feature), -1, dtype=np.intp), np.zeros(len(model.feature), dtype=np.intp)
    edges = []
    for j, position in enumerate(asked.positions):
        nodes = np.flatnonzero(model.feature == position)
        found, where = _last_left(model, inside, position, model.threshold[nodes])
        axis[nodes], place[nodes] = j, where
        edges.append(found)
    tree, node = np.arange(len(model.roots)), model.roots
    low = np.zeros((node.size, len(edges)), dtype=np.intp)
    high = np.repeat([[len(e) for e in edges]], node.size, axis=0).astype(np.intp)
    done: list[tuple[Indices, ...]] = []
    while node.size:
        leaf = model.left[node] == LEAF
        done.append((tree[leaf], node[leaf], low[leaf], high[leaf]))
        tree, node, low, high = tree[~leaf], node[~leaf], low[~leaf], high[~leaf]
        at, j, cell = np.arange(node.size), axis[node], place[node]
        left = model.turns_left(seen[model.feature[node]], model.threshold[node])
        to_left = np.where(j < 0, left, low[at, j] <= cell)
        to_right = np.where(j < 0, ~left, high[at, j] > cell)
        split = np.flatnonzero(j >= 0)
        left_high, right_low = high.copy(), low.copy()
        left_high[split, j[split]] = np.minimum(high[split, j[split]], cell[split])
        right_low[split, j[split]] = np.maximum(low[split, j[split]], cell[split] + 1)
        tree = np.concatenate([tree[to_left], tree[to_right]])
        node = np.concatenate([model.left[node[to_left]], model.right[node[to_right]]])
        low = np.concatenate([low[to_left], right_low[to_right]])
        high = np.concatenate([left_high[to_left], high[to_right]])
    tree, node, low, high = (np.concatenate([part[i] for part in done]) for i in range(4))
    order = np.argsort(tree, kind="stable")
    starts = np.searchsorted(tree[order], np.arange(len(model.roots)))
    kept, lows, highs = reached(edges, low[order].T, high[order].T)
    return Leaves(tuple(kept), lows.T, highs.T, model.values[node[order]], starts)


def _last_left(model: TreeModel, inside: Inside, position: int, thresholds: Floats) -> tuple[Floats, Indices]:
    """Return the distinct last natural values that go left, and each threshold's place among them."""
    distinct, which = np.unique(thresholds, return_inverse=True)
    if not distinct.size:
        return distinct, which  # no tree looks at this feature
    scale, shift, width = inside.scale[position], inside.shift[position], len(inside.row)
    finite = np.where(np.isfinite(distinct), distinct, 0.0)
    guess = (finite - shift) / scale
    room = 1e-6 * (np.abs(guess) + np.abs(shift / scale) + 1e-30)  # a float32 is off by less than 1e-7

    def left(natural: Floats) -> Bools:
        return model.goes_left(position, natural, distinct, width)

    low, high = guess - room, guess + room
    for _ in range(60):
        low_fails, high_fails = ~left(low) & np.isfinite(distinct), left(high) & np.isfinite(distinct)
        if not (low_fails | high_fails).any():
            break
        room = room * 4
        low, high = np.where(low_fails, guess - room, low), np.where(high_fails, guess + room, high)
    found = last_passing(left, low, high)
    last, place = np.unique(np.where(np.isfinite(distinct), found, distinct), return_inverse=True)
    return last, place[which]


def tree_radius(asked: Asked, inside: Inside, rng: np.random.Generator, budget: int) -> Found | None:
    """Return the exact distance, or two-sided bounds where the budget of boxes ran out; None for other models.

    A flip found by sampling comes first: boxes beyond it are not looked at.
    """
    model = tree_model(asked.classifier.model)
    if model is None:
        return None
    leaves = reachable_leaves(asked, inside, model)
    if len(model.roots) == 1:
        points = leaves.nearest(asked.point, leaves.low, leaves.high)
        witness = asked.nearest(points)
        return Found(_below(asked, witness), witness, "tree")
    leads = _leads(asked, model, leaves.values)
    if math.prod(len(e) + 1 for e in leaves.edges) <= MOST_CELLS:
        return _from_table(asked, leaves, leads, model.tie)
    return _search(asked, leaves, leads, model.tie, nearest_flip(asked, rng), budget)


def _below(asked: Asked, witness: Witness | None) -> float:
    """Return the distance of a nearest point, rounded down."""
    if witness is None:
        return math.inf
    slack = (len(asked.point) + 4) * np.finfo(float).eps
    return max(float(asked.size(witness.point - asked.point)) * (1 - slack), 0.0)


def _leads(asked: Asked, model: TreeModel, values: Floats) -> tuple[Floats, Floats]:
    """Return what leaves add to each rival's lead over the own label, ``(leaves, rivals)``, and its start."""
    own = int(np.searchsorted(model.classes, asked.label))
    if values.shape[1] == 1:
        sign = 1.0 if own == 0 else -1.0
        return sign * values, sign * model.offset
    rivals = np.arange(values.shape[1]) != own
    return values[:, rivals] - values[:, [own]], model.offset[rivals] - model.offset[own]


def _from_table(asked: Asked, leaves: Leaves, leads: tuple[Floats, Floats], tie: float) -> Found:
    """Sum the trees on every cell; ask the classifier about those that may flip, nearest first."""
    shape = tuple(len(e) + 1 for e in leaves.edges)
    lead = sum_of_boxes(shape, leaves.low.T, leaves.high.T, leads[0])
    offset = leads[1] + _slack(leaves, leads[0], tie)
    cells = np.argwhere((lead + offset.reshape(-1, *(1,) * len(shape)) >= 0).any(axis=0))
    points = leaves.nearest(asked.point, cells, cells)
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
    away = _sizes_below(asked, leaves.nearest(asked.point, leaves.low, leaves.high))
    certain = _certain(leaves, added, offset, away)
    low = np.zeros((1, len(leaves.edges)), dtype=np.intp)
    high = np.array([[len(e) for e in leaves.edges]], dtype=np.intp)
    distance, looked = np.zeros(1), 0
    while distance.size and looked < budget:
        now, later = nearest_first(distance, BATCH)
        a, b = _halved(low[now], high[now])
        looked += len(a)
        points = leaves.nearest(asked.point, a, b)
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
    sizes[finite] = asked.size(points[finite] - asked.point) * (1 - (len(asked.point) + 4) * np.finfo(float).eps)
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
        meets &= (leaves.low[:, j] <= high[:, j, np.newaxis]) & (leaves.high[:, j] >= low[:, j, np.newaxis])
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
