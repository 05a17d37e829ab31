"""Radius of tree models: the distance to boxes of leaves.

With the other features fixed, a sum of trees is constant on the cells between the thresholds of the moved
ones.  One tree: the nearest leaf with another label.  Few cells: all of them.  Many: boxes of cells, the most promising
first.  Thresholds are located to the last bit by the model's own comparison.

What a box can tell is more than how near it lies.  A point flips only where the leaves that hold it let a rival
overtake, and none of them is farther away than the point: so the least distance r at which, of each tree, the best
leaf nearer than r would do, if only these leaves met, bounds every flip of the box from below.  Boxes are taken in
the order of these bounds, so the least of them is proven at any time, and cut where many of the leaves within it end.
A child holds a part of its parent's leaves, those that it meets; a box with nothing left to cut is asked about.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.pipeline import ShortCuts
from epsworth.classifiers.reading import Unsupported
from epsworth.classifiers.trees import LEAF, TreeModel
from epsworth.records import Indices
from epsworth.rounding import down, up
from epsworth.utility.engines.propagation import halves
from epsworth.utility.engines.trees import Leaves, Sweep, sum_of_boxes
from epsworth.utility.radius.question import RadiusQuestion, RadiusResult, Witness
from epsworth.utility.radius.sampled import first_flip, nearest_flip

BOXES_AT_ONCE = 256


def free_radius(
    free: Callable[[Floats, Floats], Bools],
    width: int,
    reach: float,
    budget: float,
    proven: Callable[[float], None] = lambda radius: None,
) -> float:
    """Return the largest radius up to ``reach``, in norm inf, that boxes prove to be free of flips.

    Claim: no point of norm below the answer flips, if ``free`` is right; the boxes that cannot be excluded
    are halved, nearest first, until none is left or the budget is spent.

    Parameters
    ----------
    free : callable
        Takes lower and upper corners, shape ``(n, width)``; true only where no point of the box flips.
    budget : float
        Most boxes to look at.
    proven : callable
        Is given every radius that is proven on the way; it may raise to end the search.
    """
    low, high = np.full((1, width), -reach), np.full((1, width), reach)
    distance, looked = np.zeros(1), 1
    if not reach > 0 or free(low, high).all():
        return max(reach, 0.0)
    while distance.size and looked < budget:
        proven(float(min(reach, distance.min())))
        now, later = nearest_first(distance, BOXES_AT_ONCE)
        a, b = _halved(low[now], high[now])
        looked += len(a)
        near = np.maximum(np.maximum(a, -b).max(axis=1), 0.0)
        kept = near < reach
        kept[kept] = ~free(a[kept], b[kept])
        low, high = np.concatenate([low[later], a[kept]]), np.concatenate([high[later], b[kept]])
        distance = np.concatenate([distance[later], near[kept]])
    return float(min(reach, distance.min())) if distance.size else reach


def nearest_first(distance: Floats, most: int) -> tuple[Indices, Indices]:
    """Return the places of the ``most`` nearest boxes, in any order, and of the others."""
    count = min(most, distance.size)
    order = np.argpartition(distance, count - 1)
    return order[:count], order[count:]


def _halved(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Cut every box across its longest side."""
    rows, axis = np.arange(len(low)), (high - low).argmax(axis=1)
    middle = 0.5 * (low[rows, axis] + high[rows, axis])
    return halves(low, high, axis, middle)


Places = NDArray[np.integer[Any]]

TOGETHER = 32  # boxes that are cut at once
HALVINGS = 8  # of the room between a box's bound and the nearest flip
NEAR = 0.1  # share of that room in which leaves count when a cut is chosen
MOST_OPEN = 1 << 18  # boxes, some hundred megabytes
MOST_HELD = 1 << 24  # leaves that boxes hold, 4 bytes each; others look theirs up again


def nearest(edges: tuple[Floats, ...], point: Floats, low: Places, high: Places) -> Floats:
    """Return the point of each box of cells, shape ``(boxes, moved)``, that is nearest in every coordinate at once."""
    columns = []
    for j, last_left in enumerate(edges):
        firsts, lasts = _ends(last_left)
        first, last = firsts[low[:, j]], lasts[high[:, j]]
        empty = first > last  # beyond thresholds at infinity
        columns.append(np.where(empty, np.inf, np.clip(point[j], first, np.maximum(first, last))))
    return np.stack(columns, axis=1)


def _ends(last_left: Floats) -> tuple[Floats, Floats]:
    """Return the first and the last value of every cell."""
    return np.concatenate([[-np.inf], np.nextafter(last_left, np.inf)]), np.concatenate([last_left, [np.inf]])


def _gaps(last_left: Floats, x: float) -> tuple[Floats, Floats]:
    """Return how far from x the cells begin that lie above it, and end that lie below it."""
    first, last = _ends(last_left)
    return np.maximum(first - x, 0.0), np.maximum(x - last, 0.0)


@dataclass(frozen=True, eq=False)
class Box:
    """Cells ``low..high`` (both included), and the leaves that they meet; None where these are to be looked up."""

    low: Places
    high: Places
    leaves: Places | None


class Search:
    """Leaves that can be met nearer than the nearest known flip, and what boxes of them can do.

    Parameters
    ----------
    added : ndarray, shape ``(leaves, rivals)``
        What leaves add to each rival's lead over the own label.
    offset : ndarray, shape ``(rivals,)``
        Where the leads start, raised by how far sums may be off.
    reach : float
        Distance of the nearest known flip: what lies beyond is not looked at.
    """

    def __init__(self, question: RadiusQuestion, leaves: Leaves, added: Floats, offset: Floats, reach: float) -> None:
        self.asked, self.edges, self.offset, self.reach = question, leaves.edges, offset, reach
        self.trees = len(leaves.starts)
        sides = [_gaps(e, x) for e, x in zip(leaves.edges, question.point, strict=True)]
        self.before, self.after = [low for low, _ in sides], [high for _, high in sides]
        gaps = self.gaps(leaves.low.T, leaves.high.T)
        near = self.size(gaps) < reach
        tree = np.repeat(np.arange(self.trees), np.diff(np.append(leaves.starts, near.size)))
        self.low, self.high = (part.T[near].astype(np.int32) for part in (leaves.low, leaves.high))
        self.tree, self.added, self.away = tree[near], added[near].T.copy(), gaps[near].T.copy()
        self.sizes = self.size(gaps[near])

    def gaps(self, low: Places, high: Places) -> Floats:
        """Return how far boxes lie from the record along each axis, shape ``(boxes, moved)``.

        Rounded to nearest, like the sizes of these, all in one order: so none of both falls when a box shrinks.
        """
        axes = range(low.shape[1])
        return np.stack([np.maximum(self.before[j][low[:, j]], self.after[j][high[:, j]]) for j in axes], axis=1)

    def size(self, gaps: Floats) -> Floats:
        """Return the norm of gaps along the last axis."""
        if math.isinf(self.asked.norm):
            return np.asarray(gaps.max(axis=-1))
        return np.asarray(np.sqrt(sum(gap * gap for gap in np.moveaxis(gaps, -1, 0))))

    def root(self) -> Box:
        """Return the box of all cells."""
        high = np.array([len(e) for e in self.edges], dtype=np.int32)
        return Box(np.zeros_like(high), high, np.arange(len(self.tree), dtype=np.int32))

    def ask(self, cells: Sequence[Box]) -> None:
        """Ask the classifier about boxes in which no leaf ends, ties included; what flips shortens the reach."""
        if cells:
            low, high = np.array([box.low for box in cells]), np.array([box.high for box in cells])
            self.asked.run.found(self.asked.nearest(nearest(self.edges, self.asked.point, low, high)))
            self.reach = min(self.reach, self.asked.run.upper)

    def leaves(self, box: Box) -> Places:
        """Return the leaves that a box meets."""
        if box.leaves is not None:
            return box.leaves
        meets = (self.low <= box.high).all(axis=1) & (self.high >= box.low).all(axis=1)
        return np.flatnonzero(meets).astype(np.int32)

    def bounds(self, boxes: Sequence[Box], floor: Floats) -> Floats:
        """Return bounds from below on the distance of all flips in boxes, at least ``floor``; infinite beyond reach.

        A leaf and a box that meet lie, along each axis, as far away together as the farther of both.
        """
        held = [self.leaves(box) for box in boxes]
        leaf, box = np.concatenate(held), np.repeat(np.arange(len(held)), [len(one) for one in held])
        own = self.gaps(np.array([b.low for b in boxes]), np.array([b.high for b in boxes]))
        if math.isinf(self.asked.norm):
            away = np.maximum(self.sizes[leaf], self.size(own)[box])
        else:
            gaps = [np.maximum(gap[leaf], side[box]) for gap, side in zip(self.away, own.T, strict=True)]
            away = np.sqrt(sum(gap * gap for gap in gaps))
        key = box * self.trees + self.tree[leaf]
        trees = np.flatnonzero(np.diff(key, prepend=-1))
        starts, added = np.searchsorted(box[trees], np.arange(len(boxes))), self.added[:, leaf]

        def flips(nearer: Floats) -> Bools:
            reached, may = away < nearer[box], np.zeros(len(boxes), dtype=bool)
            for lead, start in zip(added, self.offset, strict=True):
                best = np.maximum.reduceat(np.where(reached, lead, -np.inf), trees)
                may |= np.add.reduceat(best, starts) + start >= 0
            return may

        low, high = floor.copy(), np.full(len(boxes), min(self.reach, 2 * float(np.max(away, initial=0.0)) + 1))
        some = flips(high)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            may = flips(middle)
            low, high = np.where(may, low, middle), np.where(may, middle, high)
        return np.where(some, np.maximum(low, self.size(own)), np.inf)

    def halves(self, box: Box, bound: float) -> list[Box]:
        """Cut a box where many of the leaves near its bound end; return none where no leaf ends within it."""
        leaves = self.leaves(box)
        room = bound + NEAR * (self.reach - bound) if math.isfinite(self.reach) else 2 * bound
        for held in (leaves[self.sizes[leaves] <= room], leaves):
            low, high = self.low[held], self.high[held]
            within = low > box.low, high < box.high
            ends = within[0].sum(axis=0) + within[1].sum(axis=0)
            j = int(np.argmax(ends))
            if ends[j]:
                break
        else:
            return []
        cuts = np.concatenate([low[within[0][:, j], j] - 1, high[within[1][:, j], j]])
        cut = np.partition(cuts, cuts.size // 2)[cuts.size // 2]
        left_high, right_low = box.high.copy(), box.low.copy()
        left_high[j], right_low[j] = cut, cut + 1
        return [
            Box(box.low, left_high, leaves[self.low[leaves, j] <= cut]),
            Box(right_low, box.high, leaves[self.high[leaves, j] > cut]),
        ]


def nearest_cell(search: Search, budget: float) -> tuple[float, tuple[str, ...]]:
    """Cut boxes, the least bound first, until none is left below the nearest flip; return what is proven, and why.

    Claim: no point nearer than the answer flips.  The run hears of every bound and of every witness.
    """
    asked, run = search.asked, search.asked.run
    open_: list[tuple[float, int, Box]] = [(0.0, 0, search.root())]
    number, held, dropped = 0, len(search.tree), math.inf

    def proven(bound: float) -> float:
        return max(down(bound, ulps=len(asked.point) + 6), 0.0)  # as `RadiusQuestion.within`

    while open_ and open_[0][0] < min(search.reach, dropped) and number < budget:
        run.proven(proven(open_[0][0]))
        if not run.deadline.free:
            run.deadline.check()
        parts: list[Box] = []
        floor: list[float] = []
        whole: list[Box] = []
        for _ in range(min(TOGETHER, len(open_))):
            bound, _, box = heapq.heappop(open_)
            held -= 0 if box.leaves is None else len(box.leaves)
            halves = search.halves(box, bound)
            parts, floor = parts + halves, floor + [bound] * len(halves)
            whole += [] if halves else [box]
        search.ask(whole)
        bounds = search.bounds(parts, np.array(floor)) if parts else ()
        for bound, box in zip(bounds, parts, strict=True):
            number += 1
            if bound < search.reach:
                kept = box if held + len(search.leaves(box)) <= MOST_HELD else replace(box, leaves=None)
                held += 0 if kept.leaves is None else len(kept.leaves)
                heapq.heappush(open_, (float(bound), number, kept))
        if len(open_) > MOST_OPEN:
            open_.sort()
            dropped = min(dropped, open_[MOST_OPEN // 2][0])
            del open_[MOST_OPEN // 2 :]
            held = sum(len(box.leaves) for _, _, box in open_ if box.leaves is not None)
    left = min(open_[0][0] if open_ else math.inf, dropped)
    if left >= search.reach or math.isinf(left):
        return math.inf, ()
    why = "memory for boxes" if left == dropped else f"budget of {budget:,} boxes"
    return proven(left), (f"the {why} was used up; more can bring the bounds closer",)


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


def tree_radius(question: RadiusQuestion, rng: np.random.Generator, budget: float) -> RadiusResult | None:
    """Return the exact distance, or two-sided bounds where the budget of boxes ran out; None for other models.

    A flip found by sampling comes first: boxes beyond it are not looked at.
    """
    try:
        model = question.classifier.structure.trees
    except Unsupported:
        return None
    if model.decision is not None or question.label not in model.classes.tolist():
        return None
    if model.before.steps and model.before.obstacle(question.positions) is not None:
        return None
    here = _given(question, model, dict(zip(question.positions, question.point[:, np.newaxis], strict=True)))
    if here.dtype.kind not in "fiu" or not np.isfinite(here).all():
        return None  # missing values take ways of their own
    large = len(model.roots) > 1 and len(question.positions) > FEW and len(model.feature) > LARGE
    within = _within(question, model, first_flip(question, rng, RESERVE)) if large else None
    sweep = Sweep.over(model, question.positions, ShortCuts(model.before, question.records, {}), within)
    if not _agrees(question, model, sweep.edges):
        return None
    leaves = reachable_leaves(sweep, here, model)
    if len(model.roots) == 1:
        points = nearest(leaves.edges, question.point, leaves.low.T, leaves.high.T)
        witness = question.nearest(points)
        return RadiusResult(_below(question, witness), witness, "tree")
    leads = _leads(question, model, model.values[leaves.node])
    if not large and math.prod(len(e) + 1 for e in leaves.edges) <= MOST_CELLS:
        return _from_table(question, leaves, leads, model.tie)
    return _search(question, leaves, leads, model.tie, None if large else rng, budget)


def _within(question: RadiusQuestion, model: TreeModel, flip: Witness | None) -> Bools | None:
    """Tell at which splits points no farther than a flip turn both ways; elsewhere all turn as the record does.

    What the trees see rises or falls with each feature, so the ends of the cube around the ball tell; only splits that
    such points reach are counted.
    """
    if flip is None:
        return None
    reach = up(flip.distance, ulps=2)
    ends = np.stack([down(question.point - reach, ulps=2), up(question.point + reach, ulps=2)])
    given = _given(question, model, dict(zip(question.positions, ends.T, strict=True)))
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


def _given(question: RadiusQuestion, model: TreeModel, values: Mapping[int, Floats]) -> NDArray[Any]:
    """Return what the trees are given of the record with other values."""
    rows = np.zeros(len(next(iter(values.values()))), dtype=np.intp)
    given = model.before(question.records.take(rows, values))
    return given.astype(np.float64) if given.dtype == object and question.records.numbers() is not None else given


def _agrees(question: RadiusQuestion, model: TreeModel, edges: tuple[Floats, ...]) -> bool:
    """Check the reading against the classifier, near the record, at thresholds and far away."""

    def read(points: Floats) -> tuple[Bools, Bools]:
        labels, clear = model.labels(_given(question, model, dict(zip(question.positions, points.T, strict=True))))
        return np.asarray(labels != question.label), clear

    finite = [np.append(np.abs(e[np.isfinite(e)] - x), 0.0) for e, x in zip(edges, question.point, strict=True)]
    return all(
        question.flips_as_read(read, max(float(size(away)) for away in finite)) for size in (np.min, np.median, np.max)
    )


def _below(question: RadiusQuestion, witness: Witness | None) -> float:
    """Return the distance of a nearest point, rounded down."""
    if witness is None:
        return math.inf
    return float(question.within(witness.point[np.newaxis])[0])


def _leads(question: RadiusQuestion, model: TreeModel, values: Floats) -> tuple[Floats, Floats]:
    """Return what leaves add to each rival's lead over the own label, ``(leaves, rivals)``, and its start."""
    own = model.classes.tolist().index(question.label)
    if values.shape[1] == 1:
        sign = 1.0 if own == 0 else -1.0
        return sign * values, sign * model.offset
    rivals = np.arange(values.shape[1]) != own
    return values[:, rivals] - values[:, [own]], model.offset[rivals] - model.offset[own]


def _from_table(question: RadiusQuestion, leaves: Leaves, leads: tuple[Floats, Floats], tie: float) -> RadiusResult:
    """Sum the trees on every cell; ask the classifier about those that may flip, nearest first."""
    shape = tuple(len(e) + 1 for e in leaves.edges)
    lead = sum_of_boxes(shape, leaves.low, leaves.high, leads[0])
    offset = leads[1] + _slack(leaves, leads[0], tie)
    cells = np.argwhere((lead + offset.reshape(-1, *(1,) * len(shape)) >= 0).any(axis=0))
    points = nearest(leaves.edges, question.point, cells, cells)
    points = points[np.argsort(_sizes_below(question, points), kind="stable")]
    start, size = 0, BATCH
    while start < len(points):
        witness = question.nearest(points[start : start + size])
        if witness is not None:
            return RadiusResult(_below(question, witness), witness, "trees")
        start, size = start + size, 2 * size
    return RadiusResult(math.inf, None, "trees")


def _slack(leaves: Leaves, added: Floats, tie: float) -> float:
    """Return how far sums may be off: sums closer than ``tie`` per tree are left to the classifier itself."""
    return tie * len(leaves.starts) * max(1.0, float(np.abs(added).max()))


def _search(
    question: RadiusQuestion,
    leaves: Leaves,
    leads: tuple[Floats, Floats],
    tie: float,
    rng: np.random.Generator | None,
    budget: float,
) -> RadiusResult:
    """Prove at once what needs no search, look for a flip where that is still to be done, then cut nearer boxes."""
    added, offset = leads[0], leads[1] + _slack(leaves, leads[0], tie)
    away = _sizes_below(question, nearest(leaves.edges, question.point, leaves.low.T, leaves.high.T))
    question.run.proves("trees", _certain(leaves, added, offset, away))
    if rng is not None:
        nearest_flip(question, rng)
    left, notes = nearest_cell(Search(question, leaves, added, offset, question.run.upper), budget)
    best = question.run.witness
    return RadiusResult(min(max(left, question.run.lower), _below(question, best)), best, "trees", notes)


def _sizes_below(question: RadiusQuestion, points: Floats) -> Floats:
    finite = np.isfinite(points).all(axis=1)
    sizes = np.full(len(points), np.inf)
    sizes[finite] = question.within(points[finite])
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
