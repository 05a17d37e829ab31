"""The nearest cell in which a sum of trees changes its label: boxes of cells, the most promising first.

What a box can tell is more than how near it lies.  A point flips only where the leaves that hold it let a rival
overtake, and none of them is farther away than the point: so the least distance r at which, of each tree, the best
leaf nearer than r would do, if only these leaves met, bounds every flip of the box from below.  Boxes are taken in
the order of these bounds, so the least of them is proven at any time, and cut where many of the leaves within it end.
A child holds a part of its parent's leaves, those that it meets; a box with nothing left to cut is asked about.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.rounding import down
from epsworth.utility.engines.trees import Leaves
from epsworth.utility.radius.question import Asked

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

    def __init__(self, asked: Asked, leaves: Leaves, added: Floats, offset: Floats, reach: float) -> None:
        self.asked, self.edges, self.offset, self.reach = asked, leaves.edges, offset, reach
        self.trees = len(leaves.starts)
        sides = [_gaps(e, x) for e, x in zip(leaves.edges, asked.point, strict=True)]
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
        return max(down(bound, ulps=len(asked.point) + 6), 0.0)  # as `Asked.within`

    while open_ and open_[0][0] < min(search.reach, dropped) and number < budget:
        run.proven(proven(open_[0][0]))
        if not run.pace.free:
            run.pace.check()
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
