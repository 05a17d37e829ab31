"""The label of a sum of trees on the cells of one or two features, row by row, and its mass.

Leaves are boxes of cells.  From one row of cells to the next only the columns of leaves that begin or end there
change: a difference array over that range and a running sum update the row of scores.  What is kept is every change of
a cell's state along its column, so memory grows with rows, columns and changes, never with cells.  Two ways to the same
integers, change by change: `loops` (extra ``fast``), and NumPy, which sums strips of rows.

Let a *flip* be a cell (r, c) whose label differs from that of the cell before it in its column; before the first row
all have the first label.  With G(r) = Pr[row >= r] and m(c) the mass of a column, telescoping down every column gives

    rho = [label is the first] + sum over flips of +-G(r) m(c),

+ where the label begins and - where it ends.  Only the laws at edges with flips are needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from epsworth.arrays import Bools, Floats
from epsworth.records import Indices
from epsworth.rounding import UNIT
from epsworth.utility.engines.contraction import SMALLEST, LawsOverEpsilon, Table, mass_error, merged
from epsworth.utility.engines.loops import compiled
from epsworth.utility.engines.votes import NEAR, States, Votes

STRIP = 1 << 16  # cells that NumPy sums at a time, per score: they stay in a cache
MOST_CHANGES = 1 << 24  # of one record: 160 MB

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
    row, place, sign = map(np.concatenate, (rows, places, signs))
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
    return Changes(*map(np.concatenate, zip(*found, strict=True)))


def _touched(boxes: Boxes) -> tuple[Indices, Indices]:
    """Return the first and the last column, by rows, of boxes that begin there or have ended in the row before."""
    rows, columns = boxes.shape
    first, last = np.full(rows + 1, columns), np.full(rows + 1, -1)
    for row in (boxes.low[0], boxes.high[0] + 1):
        np.minimum.at(first, row, boxes.low[1])
        np.maximum.at(last, row, boxes.high[1])
    return first, last


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


IN_A_ROW = 64  # terms that are added one after the other
POINTS = 64  # at a time: their masses stay in a cache


@dataclass(frozen=True, eq=False)
class Flips:
    """The labels of one record's cells over rows and columns (a single row, if one feature is sensitive).

    Attributes
    ----------
    edges : tuple of ndarray
        Of the cells, per sensitive feature, in natural units, from -inf to inf.
    at : Changes
        Of places among ``classes``, by rows.
    """

    edges: tuple[Floats, ...]
    at: Changes
    classes: NDArray[Any]

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return 1 if len(self.edges) == 1 else len(self.edges[0]) - 1, len(self.edges[-1]) - 1

    def table(self) -> tuple[tuple[Floats, ...], Table]:
        """Return all labels, and the edges across which some label changes."""
        places = np.zeros(self.shape, dtype=np.intp)
        places[self.at.row, self.at.column] = self.at.after.astype(np.intp) - self.at.before
        np.cumsum(places, axis=0, out=places)
        edges, labels = merged(self.edges, places.reshape([len(edges) - 1 for edges in self.edges]))
        return edges, Table(labels, self.classes)

    def counts(self, rows: Bools, columns: Bools) -> Indices:
        """Return in how many cells of some rows and columns each class is the label."""
        below = np.cumsum(rows[::-1])[::-1]
        weight = below[self.at.row] * columns[self.at.column]
        found = np.zeros(len(self.classes), dtype=np.int64)
        np.add.at(found, self.at.after, weight)
        np.subtract.at(found, self.at.before, weight)
        found[0] += rows.sum() * columns.sum()
        return found

    def possible(self, inside: Sequence[Bools]) -> NDArray[Any]:
        """Return the labels of the cells that lie ``inside``, per feature."""
        rows, columns = (np.ones(1, dtype=bool), *inside) if len(inside) == 1 else inside
        return np.asarray(self.classes[self.counts(rows, columns) > 0])


@dataclass(frozen=True, eq=False)
class Masses:
    """Laws at the edges with flips of one record, for all points.

    Attributes
    ----------
    beyond : ndarray, shape ``(points, rows)``
        Pr[row >= r], for every row with flips.
    columns : ndarray, shape ``(points, columns)``
        The masses of the columns with flips.
    row, column : ndarray of int, shape ``(flips,)``
        Places of the flips among these.
    """

    flips: Flips
    beyond: Floats
    columns: Floats
    row: Indices
    column: Indices
    listed: tuple[int, ...]
    misplaced: tuple[Floats, Floats]

    @classmethod
    def of(cls, flips: Flips, laws: LawsOverEpsilon, mechanisms: int, unit: Floats, listed: Sequence[int]) -> Masses:
        """Evaluate the laws of a record.

        Parameters
        ----------
        unit : ndarray, shape ``(sensitive,)``
            The true values.
        listed : sequence of int
            How many categories each feature has, whose masses are added one by one; 0 for a number.
        """

        def below(j: int, values: Floats) -> Floats:
            return np.concatenate([laws.below(m, j, unit[j], values) for m in range(mechanisms)])

        rows, row = _ranks(flips.at.row, flips.shape[0])
        columns, column = _ranks(flips.at.column, flips.shape[1])
        last, single = len(flips.edges) - 1, len(flips.edges) == 1
        sides, at = _ranks(np.concatenate([columns, columns + 1]), flips.shape[1] + 1)
        cumulated, at = below(last, flips.edges[last][sides]), at[: columns.size]
        masses = np.maximum(cumulated[:, at + 1] - cumulated[:, at], 0.0)
        beyond = np.ones((len(masses), rows.size)) if single else 1 - below(0, flips.edges[0][rows])
        of_edges = [np.zeros(len(masses))] * single + [laws.misplaced(j, x) for j, x in enumerate(unit.tolist())]
        listed = [0] * single + list(listed)
        return cls(flips, beyond, masses, row, column, tuple(listed), (of_edges[0], of_edges[1]))

    def share(self, label: Any) -> tuple[Floats, Floats]:
        """Return the probability of a label, shape ``(points,)``, and how far it may be off.

        0 and 1 are said only where no cell has it, or every one does (see `outward`).

        What it may be off: `sum_error` of the flips, and what laws are off.  `mass_error` of the columns, as the
        label's share of every column lies between 0 and 1; and of the rows, likewise, or the error of one cumulated
        mass as often as the label flips in a column, whichever is less.  And what lies on the wrong side of an edge.
        """
        place = np.flatnonzero(self.flips.classes == label)
        none = np.zeros(len(self.columns))
        if not place.size:
            return none, none
        shape, at = self.flips.shape, self.flips.at
        cells = self.flips.counts(*(np.ones(side, dtype=bool) for side in shape))[place[0]]
        if cells in (0, math.prod(shape)):
            return none + float(cells > 0), none
        sign = (at.after == place[0]).astype(np.float64) - (at.before == place[0])
        own = np.flatnonzero(sign)
        row, column = self.row[own], self.column[own]
        first = np.diff(row, prepend=-1) > 0
        first[::IN_A_ROW] = True
        starts = np.flatnonzero(first)
        signed = csr_array(
            (sign[own], column, np.append(starts, own.size)), shape=(len(starts), self.columns.shape[1])
        )  # fmt: skip
        found = [
            _added(signed, self.beyond[part, row[starts]], self.columns[part])
            for part in (slice(p, p + POINTS) for p in range(0, len(self.columns), POINTS))
        ]
        value = np.concatenate(found) + float(place[0] == 0)
        most = int(np.bincount(column).max())
        return np.clip(value, SMALLEST, np.nextafter(1, 0)), sum_error(most, own.size) + self._laws_error(most)

    def _laws_error(self, most: int) -> Floats:
        sides = zip((self.beyond, self.columns), self.listed, strict=True)
        rows, columns = ((side.shape[1] + k) * (1 + k // 48) for side, k in sides)
        edges = min(self.beyond.shape[1], most) * self.misplaced[0] + 2 * self.columns.shape[1] * self.misplaced[1]
        laws = mass_error(columns) + mass_error(min(rows, most * max(1, self.listed[0])))
        return np.asarray(edges + laws)


def sum_error(most: int, flips: int) -> float:
    """Bound the rounding of a sum over so many flips, of which a column holds so many at ``most`` (K).

    Claim: in units u = 2^-53.  As columns have a mass of 1 together, the terms' absolute values sum to K.  At most 64
    of them are added one after the other; these sums, of which there are at most F, in pairs (blocks of 128 by 8 sums:
    log2 F + 24).  With both products and the first 1, (64 + 27 + log2 F) K u (Higham 2002, section 4.2).
    """
    return (IN_A_ROW + 27 + math.log2(flips)) * most * UNIT


def _ranks(of: NDArray[np.integer], side: int) -> tuple[Indices, Indices]:
    """Return the distinct rows, or columns, in order, and the place of each one among them."""
    used = np.zeros(side, dtype=bool)
    used[of] = True
    return np.flatnonzero(used), (np.cumsum(used) - 1)[of]


def _added(signed: csr_array[np.float64], beyond: Floats, columns: Floats) -> Floats:
    """Return the sums of signs times both masses, per point."""
    terms = beyond * (signed @ np.ascontiguousarray(columns.T)).T
    return np.asarray(np.ascontiguousarray(terms).sum(axis=1))
