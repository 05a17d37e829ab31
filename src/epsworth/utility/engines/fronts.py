"""Boxes of cells of a sum of trees, thousands at a time: what decides them, where they are cut, tables of their cells.

A box knows only the leaves that it meets, of the trees that still vary on it; a tree with one value left has become a
constant.  The lists of leaves of many boxes stand one after the other in one array.

Boxes with few cells are finished by a table: the open trees are summed on the cells between their own edges.  Tables of
about the same shape are summed together: signed corners, cumulative sums, and the contraction with the masses of the
cells' sides for all points.  Axes are ordered by length and padded with cells of mass zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, TypeVar

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.records import Indices
from epsworth.utility.engines.trees import Cells, Leads

BY_RIVAL = "constant", "values"  # their last axis is that of boxes, or entries
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


Boxes = TypeVar("Boxes", "Front", "Tables")


def joined(parts: Sequence[Boxes]) -> Boxes:
    """Return all boxes of several fronts, or of several tables."""
    if len(parts) == 1:
        return parts[0]
    names = [one.name for one in fields(parts[0])]
    arrays = [np.concatenate([getattr(part, name) for part in parts], axis=int(name in BY_RIVAL)) for name in names]
    return type(parts[0])(*arrays)


def front_of(leads: Leads, low: Cells, high: Cells) -> Front:
    """Return boxes with the leaves that they meet; neighbours are searched together."""
    result = []
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
        result.append(Front(least, most, constant, leaf[np.nonzero(meets)[1]], meets.sum(axis=1)))
    return joined(result)


def look(leads: Leads, front: Front) -> tuple[Bools, Bools, Front, Floats]:
    """Decide boxes by the smallest and the largest value of every tree; trees with one value become constants.

    Return where the label stays, where it is lost, what is left of the other boxes, and how far, entry by entry, the
    tree's values range on the box, shared out over its leaves.
    """
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
    return sure, never, left, np.repeat(spread[kept] / size[kept], size[kept])


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
    box, result = front.box, []
    for j, ends in enumerate(leads.high):
        begin = np.concatenate([[0], np.cumsum(front.high[:, j] - front.low[:, j], dtype=np.intp)])
        end, shift = ends[front.leaf], begin[:-1] - front.low[:, j]
        inside = np.flatnonzero(end < front.high[:, j][box])
        heavy = np.bincount(shift[box[inside]] + end[inside], weight[inside], begin[-1])
        used = np.concatenate([[0], np.cumsum(heavy > 0)])
        result.append(Edges(begin, used, np.concatenate([[0.0], np.cumsum(heavy)])))
    return result


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


TOGETHER = 1 << 17  # cells that are summed at a time: they stay in the processor's cache
STEPS = np.unique(np.rint(np.concatenate([np.arange(1, 9), 1.25 ** np.arange(10, 70)])).astype(np.int64))


@dataclass(frozen=True, eq=False)
class Tables:
    """Boxes, their open trees' leaves as boxes of local cells, and the local edges.

    Attributes
    ----------
    axis : ndarray of int, shape ``(boxes, sensitive)``
        Which axis comes first, second, ..: the longest one first.
    cells : ndarray of int, shape ``(boxes, sensitive)``
        Along each of them.
    begin : ndarray of int, shape ``(boxes, sensitive)``
        Where the places of its edges begin in ``edges``: one more than cells.
    edges : ndarray of int
        Global places: those of cell i end at i + 1.
    low, high : ndarray of int, shape ``(entries, sensitive)``
        First local cell of a leaf, and the first behind it.
    values : ndarray, shape ``(rivals, entries)``
    constant : ndarray, shape ``(rivals, boxes)``
    count : ndarray of int, shape ``(boxes,)``
        How many entries are of each box.
    """

    axis: Indices
    cells: Indices
    begin: Indices
    edges: Indices
    low: Indices
    high: Indices
    values: Floats
    constant: Floats
    count: Indices


def tables_of(leads: Leads, front: Front, edges: Sequence[Edges]) -> Tables:
    """Return the cells within every box, numbered anew."""
    box, s = front.box, len(edges)
    cells = np.column_stack([e.number + 1 for e in edges])
    axis = np.argsort(-cells, axis=1, kind="stable")
    place = np.argsort(axis, axis=1)
    low, high = np.empty((len(box), s), dtype=np.int64), np.empty((len(box), s), dtype=np.int64)
    begin, listed, held = np.empty_like(cells), [], 0
    rows, each = np.arange(len(box)), np.arange(len(cells))
    for j, e in enumerate(edges):
        start, ends = e.begin[:-1] - front.low[:, j], front.high[:, j]
        before, at = e.used[e.begin[:-1]], place[box, j]
        first = np.maximum(leads.low[j][front.leaf], front.low[box, j])
        behind = np.minimum(leads.high[j][front.leaf] + 1, ends[box])
        out = leads.high[j][front.leaf] >= ends[box]
        low[rows, at] = e.used[start[box] + first] - before[box]
        high[rows, at] = np.where(out, cells[box, j], e.used[start[box] + behind] - before[box])
        own = np.cumsum(cells[:, j] + 1) - cells[:, j] - 1
        places = np.empty(own[-1] + cells[-1, j] + 1, dtype=np.int64)
        places[own], places[own + cells[:, j]] = front.low[:, j], ends + 1
        bins = np.flatnonzero(np.diff(e.used))
        of = np.repeat(each, e.number)
        places[own[of] + 1 + np.arange(len(bins)) - before[of]] = bins - start[of] + 1
        begin[each, place[:, j]] = own + held
        listed.append(places)
        held += len(places)
    return Tables(
        axis, np.take_along_axis(cells, axis, axis=1), begin, np.concatenate(listed), low, high,
        leads.values[:, front.leaf], front.constant, front.count,
    )  # fmt: skip


def joined_tables(parts: Sequence[Tables]) -> Tables:
    """Return the boxes of several parts, whose edges then stand one after the other."""
    shift = np.cumsum([0, *(len(part.edges) for part in parts)])
    return joined([replace(part, begin=part.begin + by) for part, by in zip(parts, shift, strict=False)])


class Summed(NamedTuple):
    """What the tables of some boxes tell.

    Attributes
    ----------
    keeps : ndarray, shape ``(boxes, points)``
        The mass of the cells that keep the label.
    loses : ndarray or None, shape ``(boxes, points)``
        The mass of those that lose it; None where that is all the rest.
    low, high : ndarray of int32, shape ``(near, sensitive)``
        Near ties, as boxes of the cells of the whole.
    shape : tuple of int
        Cells along each axis.
    """

    boxes: Indices
    keeps: Floats
    loses: Floats | None
    all_keep: bool
    low: Cells
    high: Cells
    shape: tuple[int, ...]


def summed(tables: Tables, below: Sequence[Floats], slack: float) -> Iterator[Summed]:
    """Yield what the tables tell, some boxes of about the same shape at a time.

    ``below`` holds, per axis, the mass before each edge, shape ``(edges, points)``.
    """
    padded = STEPS[np.searchsorted(STEPS, tables.cells)]
    size = np.prod(padded, axis=1)
    order = np.lexsort((*padded.T,))
    new = np.flatnonzero((np.diff(padded[order], axis=0) != 0).any(axis=1)) + 1
    for group in np.split(order, new):
        many = max(1, TOGETHER // int(size[group[0]]))
        for start in range(0, len(group), many):
            boxes = group[start : start + many]
            yield _sum(tables, boxes, tuple(padded[boxes[0]].tolist()), below, slack)


def _sum(tables: Tables, boxes: Indices, shape: tuple[int, ...], below: Sequence[Floats], slack: float) -> Summed:
    scores = _scores(tables, boxes, shape)
    masses = [_masses(tables, boxes, k, cells, below) for k, cells in enumerate(shape)]
    keeps, loses = np.asarray((scores > slack).all(axis=0)), None
    low, high = np.empty((2, 0, len(shape)), dtype=np.int32)
    if slack:
        lost = np.asarray((scores < -slack).any(axis=0))
        if not (keeps | lost).all():
            low, high = _near(tables, boxes, ~(keeps | lost))
            loses = _contracted(lost, masses)
    return Summed(boxes, _contracted(keeps, masses), loses, bool(keeps.all()), low, high, shape)


def _contracted(which: Bools, masses: Sequence[Floats]) -> Floats:
    """Return the masses of some cells, shape ``(boxes, points)``."""
    first, *others = masses
    total = first @ which.reshape(*which.shape[:2], -1).astype(np.float64)
    for mass in others:
        total = np.einsum("bpc,bpcr->bpr", mass, total.reshape(*mass.shape, -1))
    return np.asarray(total[:, :, 0])


def _scores(tables: Tables, boxes: Indices, shape: tuple[int, ...]) -> Floats:
    """Return the leads over each rival on the cells, shape ``(rivals, boxes, *shape)``: integers, exact."""
    count = tables.count[boxes]
    table = np.repeat(np.arange(len(boxes)), count)
    entry = np.arange(len(table)) + np.repeat(np.cumsum(tables.count)[boxes] - count - np.cumsum(count) + count, count)
    at, who, sign = table * int(np.prod(shape)), np.arange(len(table)), np.ones(len(table))
    for k in range(len(shape)):
        stride = int(np.prod(shape[k + 1 :]))
        low, high = tables.low[entry, k], tables.high[entry, k]
        ends = np.flatnonzero(high[who] < tables.cells[boxes, k][table[who]])
        at = np.concatenate([at + low[who] * stride, at[ends] + high[who[ends]] * stride])
        sign, who = np.concatenate([sign, -sign[ends]]), np.concatenate([who, who[ends]])
    cells, scores = int(np.prod(shape)) * len(boxes), []
    for values, constant in zip(tables.values, tables.constant, strict=True):
        result = np.bincount(at, sign * values[entry][who], cells)
        for k in range(len(shape)):
            along = result.reshape(-1, shape[k], int(np.prod(shape[k + 1 :])))
            if along.shape[2] == 1:
                np.cumsum(along[..., 0], axis=1, out=along[..., 0])
            else:
                for i in range(1, shape[k]):
                    along[:, i] += along[:, i - 1]
        scores.append(result.reshape(len(boxes), -1) + constant[boxes][:, np.newaxis])
    return np.stack(scores).reshape(len(scores), len(boxes), *shape)


def _ends(tables: Tables, boxes: Indices, k: int, cells: int) -> Indices:
    """Return the places of the edges along an axis, shape ``(boxes, cells + 1)``; padding repeats the last one."""
    steps = np.minimum(np.arange(cells + 1), tables.cells[boxes, k][:, np.newaxis])
    return np.asarray(tables.edges[tables.begin[boxes, k][:, np.newaxis] + steps])


def _masses(tables: Tables, boxes: Indices, k: int, cells: int, below: Sequence[Floats]) -> Floats:
    """Return the masses of the sides of cells, shape ``(boxes, points, cells)``."""
    places, result = _ends(tables, boxes, k, cells), np.empty((len(boxes), below[0].shape[1], cells))
    for j, cumulated in enumerate(below):
        own = tables.axis[boxes, k] == j
        if own.any():
            result[own] = np.diff(cumulated[places[own]], axis=1).swapaxes(1, 2)
    return result


def _near(tables: Tables, boxes: Indices, near: Bools) -> tuple[Cells, Cells]:
    """Return the cells of near ties, as boxes of the global cells."""
    box, *local = np.nonzero(near)
    low, high = np.empty((2, len(box), len(local)), dtype=np.int32)
    real = np.ones(len(box), dtype=bool)
    for k, cell in enumerate(local):
        places = _ends(tables, boxes, k, near.shape[1 + k])
        axis = tables.axis[boxes, k][box]
        rows = np.arange(len(box))
        low[rows, axis], high[rows, axis] = places[box, cell], places[box, cell + 1] - 1
        real &= places[box, cell + 1] > places[box, cell]
    return low[real], high[real]
