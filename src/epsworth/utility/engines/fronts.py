"""Boxes of cells of a sum of trees, thousands at a time: what a box inherits, what decides it, where it is cut.

A box knows only the leaves that it meets, of the trees that still vary on it; a tree with one value left has become a
constant.  The lists of leaves of many boxes stand one after the other in one array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.records import Indices
from epsworth.utility.engines.leads import Cells, Leads

NEIGHBOURS = 64  # boxes in a row, which meet few leaves together


@dataclass(frozen=True, eq=False)
class Front:
    """Boxes of cells, both ends included, with their lists of leaves.

    Attributes
    ----------
    low, high : ndarray of int32, shape ``(boxes, sensitive)``
    constant : ndarray, shape ``(rivals, boxes)``
        What the trees with one value add.
    leaf : ndarray of int32, shape ``(entries,)``
        Leaves of the other trees, box by box, tree by tree.
    count : ndarray of int, shape ``(boxes,)``
        How many of them are of each box.
    """

    low: Cells
    high: Cells
    constant: Floats
    leaf: Cells
    count: Indices

    @property
    def box(self) -> Indices:
        """The box of every entry."""
        return np.repeat(np.arange(len(self.count)), self.count)

    def take(self, kept: Bools) -> Front:
        """Return some of the boxes."""
        mine = np.repeat(kept, self.count)
        return Front(self.low[kept], self.high[kept], self.constant[:, kept], self.leaf[mine], self.count[kept])

    def parts(self, entries: int) -> Iterator[Front]:
        """Yield the boxes in parts of about so many entries."""
        part = np.cumsum(self.count) // entries
        ends = np.flatnonzero(np.diff(part, prepend=-1, append=-1))
        at = np.concatenate([[0], np.cumsum(self.count)])
        for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            leaf = self.leaf[at[a] : at[b]]
            yield Front(self.low[a:b], self.high[a:b], self.constant[:, a:b], leaf, self.count[a:b])


def joined(fronts: Sequence[Front]) -> Front:
    """Return all boxes of several fronts."""
    if len(fronts) == 1:
        return fronts[0]
    return Front(
        np.concatenate([front.low for front in fronts]),
        np.concatenate([front.high for front in fronts]),
        np.concatenate([front.constant for front in fronts], axis=1),
        np.concatenate([front.leaf for front in fronts]),
        np.concatenate([front.count for front in fronts]),
    )


def front_of(leads: Leads, low: Cells, high: Cells) -> Front:
    """Return boxes with the leaves that they meet; neighbours are searched together."""
    found = []
    for start in range(0, len(low), NEIGHBOURS):
        some = slice(start, start + NEIGHBOURS)
        least, most = low[some], high[some]
        near = (leads.low <= most.max(axis=0)[:, np.newaxis]) & (leads.high >= least.min(axis=0)[:, np.newaxis])
        leaf = np.flatnonzero(near.all(axis=0)).astype(np.int32)
        meets = np.ones((len(least), len(leaf)), dtype=bool)
        for j in range(low.shape[1]):
            meets &= leads.low[j][leaf] <= most[:, j, np.newaxis]
            meets &= leads.high[j][leaf] >= least[:, j, np.newaxis]
        constant = np.repeat(leads.offset[:, np.newaxis], len(least), axis=1)
        found.append(Front(least, most, constant, leaf[np.nonzero(meets)[1]], meets.sum(axis=1)))
    return joined(found)


class Look(NamedTuple):
    """What a look at boxes tells: where the label stays, where it is lost, and what is left of the other boxes.

    ``weight`` says, entry by entry, how far the tree's values range on the box, shared out over its leaves.
    """

    sure: Bools
    never: Bools
    left: Front
    weight: Floats


def look(leads: Leads, front: Front) -> Look:
    """Decide boxes by the smallest and the largest value of every tree; trees with one value become constants."""
    boxes, box, tree = len(front.count), front.box, leads.tree[front.leaf]
    new = np.ones(len(tree), dtype=bool)
    np.not_equal(tree[1:], tree[:-1], out=new[1:])
    new[(np.cumsum(front.count) - front.count)[front.count > 0]] = True
    first = np.flatnonzero(new)
    owner, size, spread = box[first], np.diff(first, append=len(tree)), np.zeros(len(first))
    ends = []
    for values in leads.values if len(first) else ():
        own = values[front.leaf]
        ends.append((np.minimum.reduceat(own, first), np.maximum.reduceat(own, first)))
        spread += ends[-1][1] - ends[-1][0]
    varies, constant = spread > 0, front.constant.copy()
    lower, upper = constant.copy(), constant.copy()
    for r, (least, most) in enumerate(ends):
        fixed = np.bincount(owner, np.where(varies, 0.0, least), boxes)
        constant[r] += fixed
        lower[r] += fixed + np.bincount(owner, np.where(varies, least, 0.0), boxes)
        upper[r] += fixed + np.bincount(owner, np.where(varies, most, 0.0), boxes)
    sure, never = np.asarray((lower > leads.slack).all(axis=0)), np.asarray((upper < -leads.slack).any(axis=0))
    open_ = ~(sure | never)
    kept = varies & open_[owner]
    count = np.bincount(owner[kept], size[kept], boxes).astype(np.intp)
    left = Front(
        front.low[open_], front.high[open_], constant[:, open_], front.leaf[np.repeat(kept, size)], count[open_]
    )
    return Look(sure, never, left, np.repeat(spread[kept] / size[kept], size[kept]))


class Edges(NamedTuple):
    """The edges of open trees within boxes, along one axis; bins are the inner edges of all boxes, one after the other.

    Attributes
    ----------
    begin : ndarray of int, shape ``(boxes + 1,)``
        Where the bins of each box begin.
    used : ndarray of int, shape ``(bins + 1,)``
        How many bins before hold an edge.
    heavy : ndarray, shape ``(bins + 1,)``
        The weight of the bins before.
    """

    begin: Indices
    used: Indices
    heavy: Floats

    @property
    def number(self) -> Indices:
        """How many edges each box has."""
        return np.asarray(np.diff(self.used[self.begin]))


def edges_within(leads: Leads, front: Front, weight: Floats) -> list[Edges]:
    """Return the edges along every axis: those at which leaves end, as others begin there."""
    box, found = front.box, []
    for j, ends in enumerate(leads.high):
        begin = np.concatenate([[0], np.cumsum(front.high[:, j] - front.low[:, j], dtype=np.intp)])
        end, shift = ends[front.leaf], begin[:-1] - front.low[:, j]
        inside = np.flatnonzero(end < front.high[:, j][box])
        heavy = np.bincount(shift[box[inside]] + end[inside], weight[inside], begin[-1])
        used = np.concatenate([[0], np.cumsum(heavy > 0)])
        found.append(Edges(begin, used, np.concatenate([[0.0], np.cumsum(heavy)])))
    return found


def halves(leads: Leads, front: Front, edges: Sequence[Edges]) -> Front:
    """Cut every box along the axis with most weight, at its weighted median; halves stand next to each other."""
    total = np.stack([np.diff(e.heavy[e.begin]) for e in edges])
    axis, place = np.argmax(total, axis=0), np.zeros(len(front.low), dtype=np.int32)
    for j, e in enumerate(edges):
        rows = np.flatnonzero(axis == j)
        begin, end = e.begin[rows], e.begin[rows + 1]
        middle = np.searchsorted(e.heavy, e.heavy[begin] + total[j, rows] / 2) - 1
        place[rows] = np.clip(middle, begin, end - 1) - begin + front.low[rows, j]
    return _cut(leads, front, axis, place)


def _cut(leads: Leads, front: Front, axis: Indices, place: Cells) -> Front:
    """Cut every box behind a cell; each half inherits the leaves that it meets."""
    boxes, box = np.arange(len(axis)), front.box
    low, high = np.repeat(front.low, 2, axis=0), np.repeat(front.high, 2, axis=0)
    high[2 * boxes, axis], low[2 * boxes + 1, axis] = place, place + 1
    own, at = axis[box], place[box]
    meets = leads.low[own, front.leaf] <= at, leads.high[own, front.leaf] > at
    owners = [box[side] for side in meets]
    counts = [np.bincount(owner, minlength=len(axis)) for owner in owners]
    count = np.column_stack(counts).ravel()
    start, leaf = np.cumsum(count) - count, np.empty(count.sum(), dtype=np.int32)
    for half, (side, owner, own_count) in enumerate(zip(meets, owners, counts, strict=True)):
        shift = start[half::2] - (np.cumsum(own_count) - own_count)
        leaf[shift[owner] + np.arange(len(owner))] = front.leaf[side]
    return Front(low, high, np.repeat(front.constant, 2, axis=1), leaf, count)


def pick(front: Front, weight: Floats, edges: Sequence[Edges], kept: Bools) -> tuple[Front, Floats, list[Edges]]:
    """Return some boxes with the weights of their entries and their edges."""
    narrowed = []
    for e in edges:
        mine = np.repeat(kept, np.diff(e.begin))
        narrowed.append(Edges(
            np.concatenate([[0], np.cumsum(np.diff(e.begin)[kept])]),
            np.concatenate([[0], np.cumsum(np.diff(e.used)[mine])]),
            np.concatenate([[0.0], np.cumsum(np.diff(e.heavy)[mine])]),
        ))  # fmt: skip
    return front.take(kept), weight[np.repeat(kept, front.count)], narrowed
