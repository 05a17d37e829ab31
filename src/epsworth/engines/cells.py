"""Exact stability for tree models with up to three sensitive features.

With the public features fixed, a sum of trees is constant on the cells between the thresholds that can
still be reached.  One sweep over all trees at once collects the leaves (boxes of cells), a difference
array adds them up, and the label of every cell follows.  Thresholds are located to the last bit in natural
units, by the model's own comparisons: an atom, or a grid value, next to a threshold lands on its true side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.trees import LEAF, TreeModel, tree_model
from epsworth.curves import Bounds
from epsworth.engines.exact import LawsOverEpsilon, Table, agreement, outward, within
from epsworth.engines.leaves import LeafBoxes
from epsworth.engines.question import Question
from epsworth.engines.sampled import Answer, Progress
from epsworth.search import last_passing

MOST_FEATURES = 3
MOST_CELLS = 50_000_000
BLOCK = 64  # records whose ties are asked about together
FAR = 1e6  # unclipped noise beyond this many ranges has no mass in double precision

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Cells:
    """The decision table of one record and the edges of its cells, per sensitive feature, in natural units."""

    edges: tuple[Floats, ...]
    table: Table


@dataclass(frozen=True, eq=False)
class Draft:
    """Cells whose near ties (``tied``, an index) are still open."""

    record: int
    edges: tuple[Floats, ...]
    labels: Indices
    tied: tuple[Indices, ...]

    def points(self, j: int) -> Floats:
        """Return one natural value per tied cell: a cell (a, b] is represented by b, the last one on its side."""
        right = self.edges[j][1:][self.tied[j]]
        left = self.edges[j][:-1][self.tied[j]]
        beyond = np.where(np.isfinite(left), np.nextafter(left, np.inf), 0.0)  # the last cell has no right end
        return np.where(np.isfinite(right), right, beyond)

    def cells(self, classes: NDArray[Any]) -> Cells:
        """Return the finished cells, without the edges across which no label changes."""
        edges, labels = _merge(self.edges, self.labels)
        return Cells(edges, Table(labels, classes))


class TreeCells:
    """Builds the cells of any record of a question; the thresholds are located once."""

    def __init__(self, question: Question, model: TreeModel, natural: Floats) -> None:
        self.question, self.model, self.natural = question, model, natural
        self.seen = model.seen(self.natural)
        self.axis = np.full(len(model.feature), -1, dtype=np.intp)  # sensitive feature of a node, or -1
        self.place = np.zeros(len(model.feature), dtype=np.intp)  # its threshold's place among the axis' edges
        self.thresholds: list[Floats] = []
        for j, position in enumerate(question.positions):
            nodes = np.flatnonzero(model.feature == position)
            edges, place = self._locate(position, model.threshold[nodes])
            self.axis[nodes], self.place[nodes] = j, place
            self.thresholds.append(edges)
        self.public = (self.axis < 0) & (model.left != LEAF)
        self.queries = 0

    def _locate(self, position: int, thresholds: Floats) -> tuple[Floats, Indices]:
        """Return the distinct last values (natural units) that go left, and each threshold's place among them.

        Bisection over the doubles by the model's own comparison; -inf where nothing goes left, inf where all does.
        """
        distinct, which = np.unique(thresholds, return_inverse=True)
        if not distinct.size:
            return distinct, which  # no tree looks at this feature
        feature = self.question.features[self.question.positions.index(position)]
        ends = feature.categories or (feature.lower, feature.upper)
        span, width = float(max(ends)) - float(min(ends)), self.natural.shape[1]
        low = np.full(distinct.size, float(min(ends)) - FAR * span)
        high = np.full(distinct.size, float(max(ends)) + FAR * span)

        def left(natural: Floats) -> Bools:
            return self.model.goes_left(position, natural, distinct, width)

        always, never = left(high), ~left(low)
        found = last_passing(left, low, high, None if self.model.scalers else distinct)
        last, place = np.unique(np.where(always, np.inf, np.where(never, -np.inf, found)), return_inverse=True)
        return last, place[which]

    def of(self, records: Sequence[int]) -> list[Cells] | None:
        """Return the cells of some records, their near ties asked about together; None if there are too many cells."""
        drafts: dict[bytes, Draft] = {}
        keys = []
        for record in records:
            goes_left = self._public_turns(record)
            key = np.packbits(goes_left).tobytes()  # records that take the same public turns share their cells
            keys.append(key)
            if key not in drafts:
                draft = self._draft(record, goes_left)
                if draft is None:
                    return None
                drafts[key] = draft
        self._settle_ties(list(drafts.values()))
        done = {key: draft.cells(self.model.classes) for key, draft in drafts.items()}
        return [done[key] for key in keys]

    def _public_turns(self, record: int) -> Bools:
        """Return the public splits at which a record goes left."""
        turns = self.model.turns_left(self.seen[record][self.model.feature], self.model.threshold)
        return np.asarray(self.public & turns)

    @property
    def classes(self) -> NDArray[Any]:
        """The labels."""
        return self.model.classes

    def boxes(self, record: int) -> LeafBoxes:
        """Return a record's reachable leaves, for branch and bound."""
        leaves, low, high = self._leaves(self._public_turns(record))
        order = np.argsort(leaves, kind="stable")  # nodes of one tree are numbered in a row
        trees = np.searchsorted(self.model.roots, leaves[order], side="right")
        edges = [np.concatenate([[-np.inf], thresholds, [np.inf]]) for thresholds in self.thresholds]
        return LeafBoxes(
            low=np.column_stack([edge[at] for edge, at in zip(edges, low[:, order], strict=True)]),
            high=np.column_stack([edge[at + 1] for edge, at in zip(edges, high[:, order], strict=True)]),
            values=self.model.values[leaves[order]],
            starts=np.flatnonzero(np.diff(trees, prepend=0)),
            offset=self.model.offset,
            slack=self.model.tie * len(self.model.roots),
        )

    def _draft(self, record: int, goes_left: Bools) -> Draft | None:
        leaves, low, high = self._leaves(goes_left)
        places, low, high = reached(self.thresholds, low, high)
        edges = tuple(np.concatenate([[-np.inf], p, [np.inf]]) for p in places)
        shape = tuple(len(e) - 1 for e in edges)
        if np.prod([float(c) for c in shape]) > MOST_CELLS:
            return None
        scores = sum_of_boxes(shape, low, high, self.model.values[leaves])
        scores += self.model.offset.reshape(-1, *(1,) * len(shape))
        if len(scores) == 1:
            labels, margin = (scores[0] > 0).astype(np.intp), np.abs(scores[0])
        else:
            labels = np.argmax(scores, axis=0)
            best = np.partition(scores, -2, axis=0)[-2:]
            margin = best[1] - best[0]
        return Draft(record, edges, labels, np.nonzero(margin < self.model.tie * len(self.model.roots)))

    def _settle_ties(self, drafts: list[Draft]) -> None:
        """Let the classifier decide the cells whose scores (nearly) tie, at a point of each."""
        counts = [draft.tied[0].size for draft in drafts]
        if not sum(counts):
            return
        rows = np.repeat([draft.record for draft in drafts], counts)
        values = [np.concatenate([draft.points(j) for draft in drafts]) for j in range(len(self.thresholds))]
        answers = np.searchsorted(self.model.classes, self.question.ask(rows, values))
        self.queries += rows.size
        for draft, found in zip(drafts, np.split(answers, np.cumsum(counts)[:-1]), strict=True):
            draft.labels[draft.tied] = found

    def _leaves(self, goes_left: Bools) -> tuple[Indices, Indices, Indices]:
        """Sweep all trees at once; return reachable leaves and their boxes of cells, ``low..high`` per axis."""
        model, s = self.model, len(self.thresholds)
        jump = np.where(self.public, np.where(goes_left, model.left, model.right), np.arange(len(model.left)))
        while True:  # pointer doubling: skip all public splits
            further = jump[jump]
            if np.array_equal(further, jump):
                break
            jump = further
        node = jump[model.roots]
        low = np.zeros((s, node.size), dtype=np.intp)
        high = np.repeat([[len(t)] for t in self.thresholds], node.size, axis=1).astype(np.intp)
        found: list[tuple[Indices, Indices, Indices]] = []
        while node.size:
            leaf = model.left[node] == LEAF
            found.append((node[leaf], low[:, leaf], high[:, leaf]))
            node, low, high = node[~leaf], low[:, ~leaf], high[:, ~leaf]
            if not node.size:
                break
            axis, place, at = self.axis[node], self.place[node], np.arange(node.size)
            to_left, to_right = low[axis, at] <= place, high[axis, at] > place
            left_high, right_low = high.copy(), low.copy()
            left_high[axis, at] = np.minimum(high[axis, at], place)
            right_low[axis, at] = np.maximum(low[axis, at], place + 1)
            node, low, high = (
                np.concatenate([jump[model.left[node[to_left]]], jump[model.right[node[to_right]]]]),
                np.concatenate([low[:, to_left], right_low[:, to_right]], axis=1),
                np.concatenate([left_high[:, to_left], high[:, to_right]], axis=1),
            )
        parts = list(zip(*found, strict=True))
        return np.concatenate(parts[0]), np.concatenate(parts[1], axis=1), np.concatenate(parts[2], axis=1)


def reached(
    thresholds: Sequence[Floats], low: Indices, high: Indices
) -> tuple[list[Floats], NDArray[np.intp], NDArray[np.intp]]:
    """Keep only the thresholds at which some box ends; boxes ``low..high``, shape ``(axes, boxes)``, are renumbered."""
    kept, lows, highs = [], [], []
    for j, places in enumerate(thresholds):
        used = np.unique(np.concatenate([low[j] - 1, high[j]]))
        used = used[(used >= 0) & (used < len(places))]
        lows.append(np.searchsorted(used, low[j] - 1, side="right"))
        highs.append(np.searchsorted(used, high[j], side="left"))
        kept.append(places[used])
    return kept, np.array(lows), np.array(highs)


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


def _merge(edges: tuple[Floats, ...], labels: Indices) -> tuple[tuple[Floats, ...], Indices]:
    """Drop edges across which no label changes."""
    kept = []
    for axis, edge in enumerate(edges):
        along = np.moveaxis(labels, axis, 0).reshape(labels.shape[axis], -1)
        changes = np.concatenate([[True], (along[1:] != along[:-1]).any(axis=1)])
        labels = np.compress(changes, labels, axis=axis)
        kept.append(np.concatenate([edge[:-1][changes], edge[-1:]]))
    return tuple(kept), labels


def cells_for(question: Question) -> TreeCells | str:
    """Return the builder of cells, or why there is none; categories of sensitive features must be numbers."""
    if question.classifier.model is None:
        return "the classifier is a function"
    model = tree_model(question.classifier.model)
    if model is None:
        return "the classifier is not a supported tree model"
    natural = question.records.numbers()
    if natural is None or any(isinstance(c, str) for f in question.features for c in f.categories or ()):
        return "the table holds columns that are not numbers"
    if np.isnan(natural).any():
        return "the table has missing values, whose way through the trees is not read"
    return TreeCells(question, model, natural)


def exact_cells(question: Question, builder: TreeCells, progress: Progress) -> Answer | None:
    """Return exact bounds for every record, or None where some record has too many cells."""
    m, e, n = question.shape
    laws = LawsOverEpsilon(question)
    stability, accuracy = np.empty((m, e, n)), np.empty((m, e, n))
    possible = np.empty(n, dtype=np.int64)
    for start in range(0, n, BLOCK):
        block = range(start, min(start + BLOCK, n))
        built = builder.of(block)
        if built is None:
            return None
        for record, cells in zip(block, built, strict=True):
            masses = [
                np.concatenate([laws.masses(i, j, question.unit[record, j], edges) for i in range(m)])
                for j, edges in enumerate(cells.edges)
            ]
            own, right = agreement(question, record, cells.table, masses)
            stability[:, :, record], accuracy[:, :, record] = own.reshape(m, e), right.reshape(m, e)
            inside = np.ix_(*[within(f, edges) for f, edges in zip(question.features, cells.edges, strict=True)])
            possible[record] = len(np.unique(cells.table.labels[inside]))
        progress(block.stop / n)
    exact = None if question.y is None else Bounds(*outward(accuracy))
    return Answer(Bounds(*outward(stability)), exact, possible, builder.queries)
