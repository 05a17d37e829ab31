"""One row of scores at a time: where the label of a sum of trees changes on the cells of one or two features.

Leaves are boxes of cells.  From one row of cells to the next only the columns of leaves that begin or end there
change: a difference array over that range and a running sum update the row of scores.  What is kept is every change of
a cell's state along its column, so memory grows with rows, columns and changes, never with cells.

Two ways to the same integers, change by change: loops that numba compiles (`loops`, extra ``fast``), and NumPy, which
sums strips of rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.records import Indices
from epsworth.utility.engines import loops
from epsworth.utility.engines.votes import NEAR, States, Votes

STRIP = 1 << 16  # cells that NumPy sums at a time, per score: they stay in a cache
MOST_CHANGES = 1 << 24  # of one record: 160 MB
WORTH_LOADING = 2_000_000  # records times nodes from which on loading compiled loops (half a second) pays

Box = NDArray[np.int64]  # shape ``(axes, leaves)``


class Changes(NamedTuple):
    """Where a cell's state differs from that of the cell before it in its column; before the first row all are 0.

    A near tie (`NEAR`) is listed again wherever its leaves may be others than in the row before, as doubles that
    differ can be the same integer.
    """

    row: NDArray[np.int32]
    column: NDArray[np.int32]
    before: States
    after: States


@dataclass(frozen=True, eq=False)
class Boxes:
    """Leaves as boxes of cells ``low..high``, ends included, over all axes, and the votes of each."""

    shape: tuple[int, ...]
    low: Box
    high: Box
    added: NDArray[np.int64]

    def as_rows(self) -> Boxes:
        """Return boxes over rows and columns; one axis is a single row."""
        if len(self.shape) > 1:
            return self
        flat = np.zeros_like(self.low)
        return Boxes((1, *self.shape), np.concatenate([flat, self.low]), np.concatenate([flat, self.high]), self.added)


def strips(boxes: Boxes, votes: Votes) -> Iterator[tuple[int, States]]:
    """Yield the states of the cells, some rows (along the first axis) at a time, each with the place of its first row.

    Every box adds its votes at its corners, with signs; sums along all axes, the first one last, are the scores.
    """
    (rows, *rest), scores = boxes.shape, boxes.added.shape[1]
    kind = votes.kind(len(boxes.shape))
    padded = tuple(side + 1 for side in rest)
    size = int(np.prod(padded, dtype=np.int64))
    at, place, leaf, sign = _corners(boxes, padded)
    before = np.repeat(votes.offset.astype(kind), size).reshape(scores, *padded)
    each = max(1, STRIP // size)
    starts = [*range(0, rows, each), rows]
    cuts = np.searchsorted(at, starts)
    for (start, stop), (first, last) in zip(pairwise(starts), pairwise(cuts), strict=True):
        summed = np.zeros((scores, stop - start, *padded), dtype=kind)
        here, own = (at[first:last] - start) * size + place[first:last], boxes.added[leaf[first:last]].astype(kind)
        for score in range(scores):
            np.add.at(summed[score].reshape(-1), here, own[:, score] * sign[first:last].astype(kind))
        for axis in range(2, summed.ndim):
            np.add.accumulate(summed, axis=axis, out=summed)
        summed[:, 0] += before
        np.add.accumulate(summed, axis=1, out=summed)
        before = summed[:, -1].copy()
        yield start, votes.states(summed[(slice(None), slice(None), *(slice(side) for side in rest))])


def _corners(boxes: Boxes, padded: tuple[int, ...]) -> tuple[Indices, Indices, Indices, Indices]:
    """Return row, place within the row, leaf and sign of the corners of all boxes, by rows."""
    rows, places, signs = [], [], []
    for far, *sides in product((0, 1), repeat=len(boxes.shape)):
        rows.append(boxes.high[0] + 1 if far else boxes.low[0])
        place = np.zeros(boxes.low.shape[1], dtype=np.int64)
        for upper, low, high, side in zip(sides, boxes.low[1:], boxes.high[1:], padded, strict=True):
            place = place * side + (high + 1 if upper else low)
        places.append(place)
        signs.append(np.full(place.size, (-1) ** (far + sum(sides))))
    row, place, sign = (np.concatenate(part) for part in (rows, places, signs))
    order = np.argsort(row, kind="stable")
    return row[order], place[order], order % boxes.low.shape[1], sign[order]


def table(boxes: Boxes, votes: Votes) -> States:
    """Return the state of every cell, over any number of axes."""
    found = np.empty(boxes.shape, dtype=np.int16)
    for start, states in strips(boxes, votes):
        found[start : start + len(states)] = states
    return found


def by_strips(boxes: Boxes, votes: Votes) -> Changes | None:
    """Return all changes of state, by NumPy; None where there are too many."""
    boxes = boxes.as_rows()
    touched = _touched(boxes) if votes.asks else None
    before, found, count = np.zeros((1, boxes.shape[1]), dtype=np.int16), [], 0
    for start, states in strips(boxes, votes):
        along = np.concatenate([before, states])
        listed = along[1:] != along[:-1]
        if touched is not None:
            row, column = np.nonzero(states == NEAR)
            first, last = touched[0][start + row], touched[1][start + row]
            again = (column >= first) & (column <= last)
            listed[row[again], column[again]] = True
        row, column = np.divmod(np.flatnonzero(listed), boxes.shape[1])  # much faster than two indices at once
        found.append(Changes((start + row).astype(np.int32), column.astype(np.int32),
                             along[row, column], states[row, column]))  # fmt: skip
        before, count = states[-1:], count + row.size
        if count > MOST_CHANGES:
            return None
    return Changes(*(np.concatenate(part) for part in zip(*found, strict=True)))


def _touched(boxes: Boxes) -> tuple[Indices, Indices]:
    """Return the first and the last column, by rows, of boxes that begin there or have ended in the row before."""
    rows, columns = boxes.shape
    first, last = np.full(rows + 1, columns), np.full(rows + 1, -1)
    for row in (boxes.low[0], boxes.high[0] + 1):
        np.minimum.at(first, row, boxes.low[1])
        np.maximum.at(last, row, boxes.high[1])
    return first, last


class Compiled(NamedTuple):
    """The functions of `loops`."""

    reached: Callable[..., Any]
    by_row: Callable[..., Any]
    changes_of_two: Callable[..., Any]
    changes: Callable[..., Any]


@lru_cache(maxsize=1)
def compiled() -> Compiled | None:
    """Return the loops over leaves and rows, compiled (once for all processes, in a cache); None without numba."""
    try:
        from numba import njit
    except ImportError:  # also of a numba that is too old for this NumPy
        return None
    return Compiled(*(njit(cache=True, nogil=True)(getattr(loops, name)) for name in Compiled._fields))


def worth_compiling(records: int, nodes: int) -> bool:
    """Tell whether compiled loops are there, and pay for being loaded."""
    return ("numba" in sys.modules or records * nodes >= WORTH_LOADING) and compiled() is not None


def changes(boxes: Boxes, votes: Votes, fast: bool) -> Changes | None:
    """Return all changes of state; None where there are too many.  The rules of ensembles are left to NumPy."""
    loop = compiled() if fast and votes.model.decision is None else None
    if loop is None:
        return by_strips(boxes, votes)
    boxes = boxes.as_rows()
    rows, columns = boxes.shape
    order = loop.by_row(boxes.low[0], boxes.high[0], rows)
    if votes.offset.size == 1:
        score = np.full(columns, votes.offset[0], dtype=votes.kind(1))
        listed = loop.changes_of_two(
            boxes.low[1], boxes.high[1], boxes.added[:, 0], score, votes.near, rows, MOST_CHANGES, *order
        )
    else:
        listed = loop.changes(
            boxes.low[1], boxes.high[1], boxes.added, votes.offset, votes.near, rows, columns, MOST_CHANGES, *order
        )
    found = Changes(*listed)
    return None if len(found.row) > MOST_CHANGES else found


def settled(found: Changes, answers: Sequence[Indices] | Indices) -> Changes:
    """Return the changes of the label, once the near ties have answers, in their order."""
    after = found.after.copy()
    after[found.after == NEAR] = answers
    order = np.argsort(found.column, kind="stable")
    above = np.concatenate([[0], after[order][:-1]]).astype(np.int16)
    above[np.flatnonzero(np.diff(found.column[order], prepend=-1))] = 0
    before = np.empty_like(after)
    before[order] = above
    kept = before != after
    return Changes(found.row[kept], found.column[kept], before[kept], after[kept])
