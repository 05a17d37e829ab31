"""The cells between the thresholds of a sum of trees, and the leaves that one record can reach in them.

With the other features fixed, every leaf is a box of cells.  Thresholds are located to the last bit in natural
units, by the model's own comparisons; all trees are swept at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.pipeline import LARGEST, Through
from epsworth.classifiers.trees import LEAF, TreeModel
from epsworth.records import Indices
from epsworth.search import last_passing_by_many
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
        """Return the same boxes over the edges at which some box ends, renumbered."""
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
