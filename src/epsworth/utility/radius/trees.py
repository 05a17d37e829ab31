"""Radius of tree models: the distance to boxes of leaves.

With the other features fixed, a sum of trees is constant on the cells between the thresholds of the moved
ones.  One tree: the nearest leaf with another label.  Few cells: all of them.  Many: boxes of cells (`search`).
Thresholds are located to the last bit by the model's own comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.pipeline import ShortCuts
from epsworth.classifiers.reading import Unsupported
from epsworth.classifiers.trees import LEAF, TreeModel
from epsworth.rounding import down, up
from epsworth.utility.engines.trees import Leaves, Sweep, sum_of_boxes
from epsworth.utility.radius.bracket import Witness
from epsworth.utility.radius.question import Asked, Found
from epsworth.utility.radius.sampled import first_flip, nearest_flip
from epsworth.utility.radius.search import Search, nearest, nearest_cell

BATCH = 32
FEW, LARGE = (
    2,
    10_000,
)  # features that move, nodes: beyond both a flip is looked for first, and only what is nearer read
RESERVE = 0.5  # share of the run's time that this look leaves
MOST_CELLS = 2_000_000  # up to which all cells are summed at once, instead of searched


def reachable_leaves(sweep: Sweep, given: NDArray[Any], model: TreeModel) -> Leaves:
    """Return the leaves that a record can reach; a split on a feature that stays sends what is given its way."""
    seen = model.seen(given)[0]
    return sweep.leaves(model.turns(seen[model.feature])).compact()


def tree_radius(asked: Asked, rng: np.random.Generator, budget: float) -> Found | None:
    """Return the exact distance, or two-sided bounds where the budget of boxes ran out; None for other models.

    A flip found by sampling comes first: boxes beyond it are not looked at.
    """
    try:
        model = asked.classifier.structure.trees
    except Unsupported:
        return None
    if model.decision is not None or asked.label not in model.classes.tolist():
        return None
    if model.before.steps and model.before.obstacle(asked.positions) is not None:
        return None
    here = _given(asked, model, dict(zip(asked.positions, asked.point[:, np.newaxis], strict=True)))
    if here.dtype.kind not in "fiu" or not np.isfinite(here).all():
        return None  # missing values take ways of their own
    large = len(model.roots) > 1 and len(asked.positions) > FEW and len(model.feature) > LARGE
    within = _within(asked, model, first_flip(asked, rng, RESERVE)) if large else None
    sweep = Sweep.over(model, asked.positions, ShortCuts(model.before, asked.records, {}), within)
    if not _agrees(asked, model, sweep.edges):
        return None
    leaves = reachable_leaves(sweep, here, model)
    if len(model.roots) == 1:
        points = nearest(leaves.edges, asked.point, leaves.low.T, leaves.high.T)
        witness = asked.nearest(points)
        return Found(_below(asked, witness), witness, "tree")
    leads = _leads(asked, model, model.values[leaves.node])
    if not large and math.prod(len(e) + 1 for e in leaves.edges) <= MOST_CELLS:
        return _from_table(asked, leaves, leads, model.tie)
    return _search(asked, leaves, leads, model.tie, None if large else rng, budget)


def _within(asked: Asked, model: TreeModel, flip: Witness | None) -> Bools | None:
    """Tell at which splits points no farther than a flip turn both ways; elsewhere all turn as the record does.

    What the trees see rises or falls with each feature, so the ends of the cube around the ball tell; only splits that
    such points reach are counted.
    """
    if flip is None:
        return None
    reach = up(flip.distance, ulps=2)
    ends = np.stack([down(asked.point - reach, ulps=2), up(asked.point + reach, ulps=2)])
    given = _given(asked, model, dict(zip(asked.positions, ends.T, strict=True)))
    if given.dtype.kind not in "fiu" or not np.isfinite(given).all():
        return None
    low, high = (model.turns(seen[model.feature]) for seen in model.seen(given))
    inner, way = model.left != LEAF, np.where(low, model.left, model.right)
    both, node = np.zeros(len(low), dtype=bool), model.roots
    while (node := node[inner[node]]).size:
        forked = low[node] != high[node]
        both[node[forked]] = True
        node = np.concatenate([way[node], np.where(low[node], model.right[node], model.left[node])[forked]])
    return both


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
    asked: Asked,
    leaves: Leaves,
    leads: tuple[Floats, Floats],
    tie: float,
    rng: np.random.Generator | None,
    budget: float,
) -> Found:
    """Prove at once what needs no search, look for a flip where that is still to be done, then cut nearer boxes."""
    added, offset = leads[0], leads[1] + _slack(leaves, leads[0], tie)
    away = _sizes_below(asked, nearest(leaves.edges, asked.point, leaves.low.T, leaves.high.T))
    asked.run.proves("trees", _certain(leaves, added, offset, away))
    if rng is not None:
        nearest_flip(asked, rng)
    left, notes = nearest_cell(Search(asked, leaves, added, offset, asked.run.upper), budget)
    best = asked.run.witness
    return Found(min(max(left, asked.run.lower), _below(asked, best)), best, "trees", notes)


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
