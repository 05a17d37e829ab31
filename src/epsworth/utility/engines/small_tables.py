"""Boxes with few cells are finished by a table: the open trees are summed on the cells between their own edges.

Tables of about the same shape are summed together: signed corners, cumulative sums, and the contraction with the
masses of the cells' sides for all points.  Axes are ordered by length and padded with cells of mass zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.records import Indices
from epsworth.utility.engines.fronts import Edges, Front
from epsworth.utility.engines.leads import Cells, Leads

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
    """Return the boxes of several parts."""
    shift = np.cumsum([0, *(len(part.edges) for part in parts)])
    return Tables(
        np.concatenate([part.axis for part in parts]),
        np.concatenate([part.cells for part in parts]),
        np.concatenate([part.begin + by for part, by in zip(parts, shift, strict=False)]),
        np.concatenate([part.edges for part in parts]),
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.high for part in parts]),
        np.concatenate([part.values for part in parts], axis=1),
        np.concatenate([part.constant for part in parts], axis=1),
        np.concatenate([part.count for part in parts]),
    )


class Summed(NamedTuple):
    """What the tables of some boxes tell.

    Attributes
    ----------
    boxes : ndarray of int
    keeps : ndarray, shape ``(boxes, points)``
        The mass of the cells that keep the label.
    loses : ndarray or None, shape ``(boxes, points)``
        The mass of those that lose it; None where that is all the rest.
    all_keep : bool
        Whether all cells of all boxes do.
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
        found = np.bincount(at, sign * values[entry][who], cells)
        for k in range(len(shape)):
            along = found.reshape(-1, shape[k], int(np.prod(shape[k + 1 :])))
            if along.shape[2] == 1:
                np.cumsum(along[..., 0], axis=1, out=along[..., 0])
            else:
                for i in range(1, shape[k]):
                    along[:, i] += along[:, i - 1]
        scores.append(found.reshape(len(boxes), -1) + constant[boxes][:, np.newaxis])
    return np.stack(scores).reshape(len(scores), len(boxes), *shape)


def _ends(tables: Tables, boxes: Indices, k: int, cells: int) -> Indices:
    """Return the places of the edges along an axis, shape ``(boxes, cells + 1)``; padding repeats the last one."""
    steps = np.minimum(np.arange(cells + 1), tables.cells[boxes, k][:, np.newaxis])
    return np.asarray(tables.edges[tables.begin[boxes, k][:, np.newaxis] + steps])


def _masses(tables: Tables, boxes: Indices, k: int, cells: int, below: Sequence[Floats]) -> Floats:
    """Return the masses of the sides of cells, shape ``(boxes, points, cells)``."""
    places, found = _ends(tables, boxes, k, cells), np.empty((len(boxes), below[0].shape[1], cells))
    for j, cumulated in enumerate(below):
        own = tables.axis[boxes, k] == j
        if own.any():
            found[own] = np.diff(cumulated[places[own]], axis=1).swapaxes(1, 2)
    return found


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
