"""Sums of trees on the cells between their thresholds: the leaves that a record can reach, votes, flips, masses.

With the other features fixed, every leaf is a box of cells.  Thresholds are located to the last bit in natural
units, by the model's own comparisons; all trees are swept at once.

*Votes.*  What leaves add are integers: sums are the same in any order, by whatever engine.  A forest of scikit-learn
whose leaves hold one class each adds zeros and ones and divides all sums by the number of trees: equal counts stay
equal.  So the first of the largest counts is the label (of two classes: 1 where more trees say so); nothing is asked.
Elsewhere every value v becomes rint(2^k v), with the largest k for which 2^k (T max |v| + |offset|) is at most 2^58 for
T trees.  Each of T + 1 terms is off by at most 1/2, so a lead of one score over another by T + 1.  Leads within that
and the model's own slack are near ties: the classifier decides them.  A mixed difference of s axes at one point adds at
most 2^s leaves of every tree, so that nothing on the way to the sums exceeds 2^(58 + s): five axes fit into 64 bits.
Boxes (`Leads`) hold sums in doubles that are integers below 2^53.

*Sweep.*  From one row of cells to the next only the columns of leaves that begin or end there change: a difference
array over that range and a running sum update the row of scores, by `loops` (extra ``fast``) or by NumPy, which sums
strips of rows to the same integers.  What is kept is every *flip*: a cell (r, c) whose label differs from that of the
cell before it in its column; before the first row all have the first label.  So memory grows with rows, columns and
flips, never with cells.  With G(r) = Pr[row >= r] and m(c) the mass of a column, telescoping down every column gives

    rho = [label is the first] + sum over flips of +-G(r) m(c),

+ where the label begins and - where it ends.  Only the laws at edges with flips are needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.pipeline import LARGEST, Through
from epsworth.classifiers.trees import LEAF, TreeModel
from epsworth.records import Indices
from epsworth.rounding import UNIT
from epsworth.search import last_passing_by_many
from epsworth.utility.engines.contraction import SMALLEST, LawsOverEpsilon, Table, mass_error, merged
from epsworth.utility.engines.loops import compiled

TOGETHER = 2_048  # values that are handed on at once to locate thresholds
MOST_WAYS = 63


@dataclass(frozen=True, eq=False)
class Leaves:
    """Leaves as boxes of cells ``low..high`` (both included), in the order of their nodes, so tree by tree.

    Attributes
    ----------
    edges : tuple of ndarray
        Per moved feature the last natural values that go left; cell i is ``(edges[i-1], edges[i]]``.
    node : ndarray of int, shape ``(leaves,)``
    low, high : ndarray of int, shape ``(moved, leaves)``
    starts : ndarray of int, shape ``(trees,)``
        Where each tree's leaves begin.
    """

    edges: tuple[Floats, ...]
    node: Indices
    low: Indices
    high: Indices
    starts: Indices

    def compact(self) -> Leaves:
        """Return the boxes over the edges at which some box ends."""
        used_edges, lows, highs = [], [], []
        for places, low, high in zip(self.edges, self.low, self.high, strict=True):
            used = np.zeros(len(places) + 1, dtype=bool)  # the first one stands for the left end
            used[low], used[high[high < len(places)] + 1] = True, True
            used[0] = False
            rank = np.cumsum(used)
            lows.append(rank[low])
            highs.append(rank[high])
            used_edges.append(places[used[1:]])
        return replace(self, edges=tuple(used_edges), low=np.array(lows), high=np.array(highs))


@dataclass(frozen=True, eq=False)
class Sweep:
    """A tree model whose splits on some features are open: node by node the feature (``axis``, -1: none) and cell.

    ``left`` and ``right`` are where small and large natural values go: the model's own, but exchanged behind a step
    that reverses their order.
    """

    model: TreeModel
    edges: tuple[Floats, ...]
    axis: Indices
    place: Indices
    left: Indices
    right: Indices

    @classmethod
    def over(cls, model: TreeModel, positions: Sequence[int], through: Through, within: Bools | None = None) -> Self:
        """Locate the thresholds on the columns of records at some positions, of which there is no `obstacle`.

        Splits that are not ``within`` are closed: every point asked about turns there as its record does.
        """
        axis, place = np.full(len(model.feature), -1, dtype=np.intp), np.zeros(len(model.feature), dtype=np.intp)
        falls, edges = np.zeros(len(model.feature), dtype=bool), []
        for j, position in enumerate(positions):
            fed = np.isin(model.feature, model.before.fed_by(position))
            nodes = np.flatnonzero(fed if within is None else fed & within)
            last, place[nodes] = last_below(model, position, model.feature[nodes], model.threshold[nodes], through)
            axis[nodes], falls[nodes] = j, model.before.falls(model.feature[nodes])
            edges.append(last)
        left, right = model.left, model.right
        return cls(model, tuple(edges), axis, place, np.where(falls, right, left), np.where(falls, left, right))

    @cached_property
    def closed(self) -> Bools:
        """The splits at which a record goes one way."""
        return np.asarray((self.axis < 0) & (self.model.left != LEAF))

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """How many leaves there are, and more than there are splits on any path."""
        return int((self.left == LEAF).sum()), int(np.diff(self.model.roots, append=self.left.size).max())

    def turns_as(self, values: Sequence[Floats], given: NDArray[Any]) -> bool:
        """Tell whether records turn at every open split as the located thresholds say.

        Parameters
        ----------
        values : sequence of ndarray
            Per axis the records' natural values.
        given : ndarray
            What the whole preprocessing hands on of these records.
        """
        seen, falls = self.model.seen(given), self.left != self.model.left
        for j, own in enumerate(values):
            nodes = np.flatnonzero(self.axis == j)
            if nodes.size:
                near = np.asarray(own, dtype=np.float64)[:, np.newaxis] <= self.edges[j][self.place[nodes]]
                left = self.model.turns_left(seen[:, self.model.feature[nodes]], self.model.threshold[nodes])
                if not np.array_equal(near, left != falls[nodes]):
                    return False
        return True

    def leaves(self, turns: Bools, fast: bool = False) -> Leaves:
        """Return the leaves that can be reached by a record that goes left at the closed splits where ``turns``.

        Parameters
        ----------
        fast : bool
            Walk by compiled loops (`loops.compiled`), if they are there: the same leaves, in any order of nodes.
        """
        if fast and (loops := compiled()) is not None:
            ends = np.array([len(edges) for edges in self.edges])
            node, low, high = loops.reached(self.model.roots, self.left, self.right, self.axis, self.place, turns, ends,
                                       self.sizes[0], self.sizes[1])  # fmt: skip
            return Leaves(self.edges, node, low, high, np.searchsorted(node, self.model.roots))
        way = self._way(turns)
        node = way[self.model.roots]
        low = np.zeros((len(self.edges), node.size), dtype=np.intp)
        high = np.repeat([[len(edges)] for edges in self.edges], node.size, axis=1).astype(np.intp)
        leaves_at: list[tuple[Indices, Indices, Indices]] = []
        while node.size:
            leaf = self.left[node] == LEAF
            leaves_at.append((node[leaf], low[:, leaf], high[:, leaf]))
            node, low, high = node[~leaf], low[:, ~leaf], high[:, ~leaf]
            axis, place, at = self.axis[node], self.place[node], np.arange(node.size)
            to_left, to_right = low[axis, at] <= place, high[axis, at] > place
            left_high, right_low = high.copy(), low.copy()
            left_high[axis, at] = np.minimum(high[axis, at], place)
            right_low[axis, at] = np.maximum(low[axis, at], place + 1)
            node = np.concatenate([way[self.left[node[to_left]]], way[self.right[node[to_right]]]])
            low = np.concatenate([low[:, to_left], right_low[:, to_right]], axis=1)
            high = np.concatenate([left_high[:, to_left], high[:, to_right]], axis=1)
        node, low, high = [np.concatenate(part, axis=-1) for part in zip(*leaves_at, strict=True)]
        order = np.argsort(node)
        starts = np.searchsorted(node[order], self.model.roots)  # nodes of one tree are numbered in a row
        return Leaves(self.edges, node[order], low[:, order], high[:, order], starts)

    def _way(self, turns: Bools) -> Indices:
        """Return where each node leads past all closed splits, by pointer doubling."""
        left, right = self.model.left, self.model.right
        way = np.where(self.closed, np.where(turns, left, right), np.arange(left.size))
        while not np.array_equal(further := way[way], way):
            way = further
        return way


def last_below(
    model: TreeModel, position: int, columns: Indices, thresholds: Floats, through: Through
) -> tuple[Floats, Indices]:
    """Return the distinct last values (natural units) on the near side of thresholds, and each one's place among them.

    The near side is the left one, or the right one where a step reverses the order of values; a value that rises turns
    only once (`Preprocessing.obstacle`).  Behind steps by bisection over the doubles, by the model's own comparison of
    what its own preprocessing hands on; -inf where nothing lies on the near side, inf where all does.
    """
    distinct, which = np.unique(np.column_stack([columns, thresholds]), axis=0, return_inverse=True)
    if not distinct.size:
        return np.empty(0), np.empty(0, dtype=np.intp)  # no tree looks at this feature
    column, threshold = distinct[:, 0].astype(np.intp), distinct[:, 1]
    if not model.before.steps:
        last = model.last_left(threshold)
        last = np.where(np.abs(last) > LARGEST, np.copysign(np.inf, last), last)
        last, place = np.unique(last, return_inverse=True)
        return last, place[which.reshape(-1)]
    falls = model.before.falls(column)

    def near(natural: Floats) -> Bools:
        rows = natural.size // column.size
        with np.errstate(over="ignore", invalid="ignore"):  # in single precision: beyond every threshold, as it should
            seen = model.seen(model.before.own(position, np.tile(column, rows), natural.ravel(), through))
        return np.asarray(model.turns_left(seen.reshape(natural.shape), threshold) != falls)

    guess, room, far = model.before.guessed(position, column, threshold, through)
    never, always = near(np.stack([-far, far])) ^ [[True], [False]]
    ways = int(np.clip(TOGETHER // column.size, 1, MOST_WAYS))
    last_left = last_passing_by_many(near, -far, far, (guess - room, guess + room), ways)
    last, place = np.unique(np.where(always, np.inf, np.where(never, -np.inf, last_left)), return_inverse=True)
    return last, place[which.reshape(-1)]


def sum_of_boxes(shape: tuple[int, ...], low: Indices, high: Indices, values: Floats) -> Floats:
    """Add each leaf's values over its box of cells: signed corners, then cumulated along every axis."""
    padded = tuple(c + 1 for c in shape)
    corners, signs = [], []
    for side in product((0, 1), repeat=len(shape)):
        at = [high[j] + 1 if upper else low[j] for j, upper in enumerate(side)]
        corners.append(np.ravel_multi_index(at, padded))
        signs.append((-1.0) ** sum(side))
    flat, size = np.concatenate(corners), int(np.prod(padded))
    sums = []
    for column in values.T:
        weights = np.concatenate([sign * column for sign in signs])
        grid = np.bincount(flat, weights=weights, minlength=size).reshape(padded)
        for axis in range(len(shape)):
            np.cumsum(grid, axis=axis, out=grid)
        sums.append(grid[tuple(slice(c) for c in shape)])
    return np.stack(sums)


BITS = 58  # of the largest sum; 2^(BITS + s) < 2^63
NEAR = -1  # the state of a cell that the classifier decides

Ints = NDArray[np.int64]
States = NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Votes:
    """The integers that leaves add.

    Attributes
    ----------
    model : TreeModel
    values : ndarray of int64, shape ``(nodes, scores)``
        0 where a node is no leaf.
    offset : ndarray of int64, shape ``(scores,)``
    near : int
        Leads up to this are near ties; negative where there are none.
    bits : int
        Every score was multiplied by 2 to this power.
    largest : int
        No score is larger.
    """

    model: TreeModel
    values: Ints
    offset: Ints
    near: int
    bits: int
    largest: int

    @classmethod
    def of(cls, model: TreeModel) -> Self:
        """Return the votes of a model's leaves."""
        trees, size = len(model.roots), model.size
        held = np.where((model.left == LEAF)[:, np.newaxis], model.values, 0.0)
        bits = 0 if model.counts or size == 0 else BITS - math.frexp(size)[1]
        values, offset = [np.rint(np.ldexp(part, bits)).astype(np.int64) for part in (held, model.offset)]
        apart = trees + 1 if values.shape[1] > 1 else (trees + 1) / 2
        with np.errstate(over="ignore"):  # of leaves far below the slack: then everything is a near tie
            slack = float(np.ldexp(model.slack, bits))
        near = -1 if model.counts else math.ceil(min(apart + slack, 2.0 ** (BITS + 1)))
        return cls(model, values, offset, near, bits, math.ceil(math.ldexp(size, bits)))

    @property
    def asks(self) -> bool:
        """Whether some cell may be a near tie."""
        return self.near >= 0 or self.model.decision is not None

    def kind(self, axes: int) -> type[np.signedinteger]:
        """Return the smallest integers that hold all that occurs on the way to the sums over so many axes."""
        most = self.largest << axes
        return next(kind for kind in (np.int16, np.int32, np.int64) if most <= np.iinfo(kind).max)

    def states(self, scores: NDArray[np.signedinteger]) -> States:
        """Return the place of the label of each cell, or `NEAR`.

        Parameters
        ----------
        scores : ndarray of int, shape ``(scores, ..)``
        """
        if self.model.decision is not None:
            flat = np.ldexp(scores.reshape(len(scores), -1).T.astype(np.float64), -self.bits)
            places, clear = self.model.decided(flat)
            result: States = np.where(clear, places, NEAR).astype(np.int16).reshape(scores.shape[1:])
            return result
        if len(scores) == 1:
            result = (scores[0] > 0).astype(np.int16)
            lead = np.abs(scores[0]) if self.near >= 0 else None
        else:
            result = np.argmax(scores, axis=0).astype(np.int16)
            best = np.partition(scores, -2, axis=0)[-2:] if self.near >= 0 else None
            lead = None if best is None else best[1] - best[0]
        if lead is not None:
            result[lead <= self.near] = NEAR
        return result


LEAD_BITS = 44  # of the largest lead: mixed differences of six axes stay below 2^53, where doubles are exact
FAR = 2.0 ** (LEAD_BITS + 4)  # no lead is as large

Cells = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Leads:
    """The leaves of one record as boxes of cells, and what each adds to the leads of a label over its rivals.

    The label stays where all sums exceed ``slack``, and is lost where one lies below ``-slack``.

    Attributes
    ----------
    low, high : ndarray of int32, shape ``(sensitive, leaves)``
        First and last cell.
    tree : ndarray of int32, shape ``(leaves,)``
        Rising.
    values : ndarray of integers, shape ``(rivals, leaves)``
    offset : ndarray, shape ``(rivals,)``
        Added to the sums.
    slack : float
    apart : bool
        Whether leaves of different values add different integers: where no tree varies, then, the model answers
        alike, so that one point tells how a near tie is decided.
    """

    low: Cells
    high: Cells
    tree: Cells
    values: Floats
    offset: Floats
    slack: float
    apart: bool

    @classmethod
    def of(cls, model: TreeModel, leaves: Leaves, label: int) -> Self:
        """Return the leads of a label (its place among the classes).

        Counts of trees are integers, and equal ones go to the first label: half a vote decides every tie.  Elsewhere
        every value v becomes rint(2^k v), with T max |v| + |offset| of T trees below 2^`LEAD_BITS`.  A lead is the
        difference of two scores, each off by at most (T + 1) / 2.
        """
        held, trees = model.values[leaves.node], len(leaves.starts)
        size = trees * float(np.abs(held).max(initial=0)) + float(np.abs(model.offset).max(initial=0))
        bits = 0 if model.counts or size == 0 else LEAD_BITS - math.frexp(size)[1]
        values, offset = (np.rint(np.ldexp(part, bits)) for part in (held, model.offset))
        if values.shape[1] == 1:
            sign, first = (1.0, np.array([True])) if label == 1 else (-1.0, np.array([False]))
            values, offset = sign * values, sign * offset
        else:
            first = np.delete(np.arange(len(offset)), label) < label
            values = values[:, [label]] - np.delete(values, label, axis=1)
            offset = offset[label] - np.delete(offset, label)
        return cls(
            low=leaves.low.astype(np.int32),
            high=leaves.high.astype(np.int32),
            tree=np.repeat(
                np.arange(trees, dtype=np.int32), np.diff(leaves.starts, append=len(held))
            ),
            values=np.ascontiguousarray(values.T),
            offset=offset + (np.where(first, -0.5, 0.5) if model.counts else 0.0),
            slack=0.0 if model.counts else trees + 1 + min(float(np.ldexp(model.slack, min(bits, 1000))), FAR),
            apart=len(np.unique(values, axis=0)) == len(np.unique(held, axis=0)),
        )  # fmt: skip


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
    starts = [*range(0, rows, max(1, STRIP // size)), rows]
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
    result = np.empty(boxes.shape, dtype=np.int16)
    for start, states in strips(boxes, votes):
        result[start : start + len(states)] = states
    return result


def by_strips(boxes: Boxes, votes: Votes, check: Callable[[], None] = lambda: None) -> Changes | None:
    """Return all changes of state, by NumPy; None where there are too many.  ``check`` may end the run."""
    boxes = boxes.as_rows()
    touched = _touched(boxes) if votes.asks else None
    before, result, count = np.zeros((1, boxes.shape[1]), dtype=np.int16), [], 0
    for start, states in strips(boxes, votes):
        along = np.concatenate([before, states])
        listed = along[1:] != along[:-1]
        if touched is not None:
            row, column = np.nonzero(states == NEAR)
            first, last = touched[0][start + row], touched[1][start + row]
            again = (column >= first) & (column <= last)
            listed[row[again], column[again]] = True
        row, column = np.divmod(np.flatnonzero(listed), boxes.shape[1])  # much faster than two indices at once
        result.append(Changes((start + row).astype(np.int32), column.astype(np.int32),
                             along[row, column], states[row, column]))  # fmt: skip
        before, count = states[-1:], count + row.size
        if count > MOST_CHANGES:
            return None
        if start:
            check()
    return Changes(*map(np.concatenate, zip(*result, strict=True)))


def _touched(boxes: Boxes) -> tuple[Indices, Indices]:
    """Return the first and the last column, by rows, of boxes that begin there or have ended in the row before."""
    rows, columns = boxes.shape
    first, last = np.full(rows + 1, columns), np.full(rows + 1, -1)
    for row in (boxes.low[0], boxes.high[0] + 1):
        np.minimum.at(first, row, boxes.low[1])
        np.maximum.at(last, row, boxes.high[1])
    return first, last


def changes(boxes: Boxes, votes: Votes, fast: bool, check: Callable[[], None] = lambda: None) -> Changes | None:
    """Return all changes of state; None where there are too many.  The rules of ensembles are left to NumPy."""
    loop = compiled() if fast and votes.model.decision is None else None
    if loop is None:
        return by_strips(boxes, votes, check)
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
    return None if len(listed[0]) > MOST_CHANGES else Changes(*listed)


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
        result = np.zeros(len(self.classes), dtype=np.int64)
        np.add.at(result, self.at.after, weight)
        np.subtract.at(result, self.at.before, weight)
        result[0] += rows.sum() * columns.sum()
        return result

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
        Their masses; ``row`` and ``column`` are the places of the flips among these.
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
        result = [
            _added(signed, self.beyond[part, row[starts]], self.columns[part])
            for part in (slice(p, p + POINTS) for p in range(0, len(self.columns), POINTS))
        ]
        value = np.concatenate(result) + float(place[0] == 0)
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
