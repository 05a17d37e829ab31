"""Exact stability for tree models with up to three sensitive features.

With the public features fixed, a sum of trees is constant on the cells between the thresholds that can
still be reached.  One sweep over all trees at once collects the leaves (boxes of cells), a difference
array adds them up, and the label of every cell follows.  Thresholds are located to the last bit in natural
units, by the model's own comparisons: an atom, or a grid value, next to a threshold lands on its true side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.flat import TreeModel
from epsworth.classifiers.preprocessing import Through, as_array
from epsworth.classifiers.reading import answers_as_read as reading_agrees
from epsworth.classifiers.scalers import Predict, steps_of
from epsworth.classifiers.shortcuts import ShortCuts
from epsworth.classifiers.trees import NO_TREES, tree_reading
from epsworth.classifiers.views import BY_BATCH
from epsworth.records import Indices
from epsworth.utility.engines.contraction import (
    LawsOverEpsilon,
    Table,
    agreement,
    mass_error,
    merged,
    outward,
    stays_in_range,
    within,
)
from epsworth.utility.engines.engine import ByRecord, Found, Obstacle, Settings, targets
from epsworth.utility.engines.leaves import LeafBoxes
from epsworth.utility.engines.partition import Sweep, sum_of_boxes
from epsworth.utility.engines.probing import SPREAD, answers_as_read, probes
from epsworth.utility.question import Question

MOST_FEATURES = 3
MOST_CELLS = 50_000_000
TOGETHER = 1 << 18  # cells that the rule of an ensemble decides at a time
BLOCK = 64  # records whose ties are asked about together


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
        edges, labels = merged(self.edges, self.labels)
        return Cells(edges, Table(labels, classes))


class TreeCells:
    """Builds the cells of any record of a question; the thresholds are located once."""

    def __init__(self, question: Question, model: TreeModel, given: NDArray[Any], through: Through) -> None:
        self.question, self.model, self.seen = question, model, model.seen(given)
        self.sweep = Sweep.over(model, question.positions, through)
        self.queries = 0

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
        turns = self.model.turns(self.seen[record][self.model.feature])
        return np.asarray(self.sweep.closed & turns)

    @property
    def classes(self) -> NDArray[Any]:
        """The labels."""
        return self.model.classes

    def boxes(self, record: int) -> LeafBoxes:
        """Return a record's reachable leaves, for branch and bound."""
        leaves = self.sweep.leaves(self._public_turns(record))
        ends = [np.concatenate([[-np.inf], edges, [np.inf]]) for edges in leaves.edges]
        return LeafBoxes(
            low=np.column_stack([end[at] for end, at in zip(ends, leaves.low, strict=True)]),
            high=np.column_stack([end[at + 1] for end, at in zip(ends, leaves.high, strict=True)]),
            values=self.model.values[leaves.node],
            starts=leaves.starts,
            offset=self.model.offset,
            slack=self.model.slack,
        )

    def _draft(self, record: int, goes_left: Bools) -> Draft | None:
        leaves = self.sweep.leaves(goes_left).compact()
        edges = tuple(np.concatenate([[-np.inf], e, [np.inf]]) for e in leaves.edges)
        shape = tuple(len(e) - 1 for e in edges)
        if np.prod([float(c) for c in shape]) > MOST_CELLS:
            return None
        scores = sum_of_boxes(shape, leaves.low, leaves.high, self.model.values[leaves.node])
        scores += self.model.offset.reshape(-1, *(1,) * len(shape))
        if self.model.decision is not None:
            labels, clear = self._decided(scores)
            return Draft(record, edges, labels, np.nonzero(~clear))
        if len(scores) == 1:
            labels, margin = (scores[0] > 0).astype(np.intp), np.abs(scores[0])
        else:
            labels = np.argmax(scores, axis=0)
            best = np.partition(scores, -2, axis=0)[-2:]
            margin = best[1] - best[0]
        return Draft(record, edges, labels, np.nonzero(margin < self.model.slack))

    def _decided(self, scores: Floats) -> tuple[Indices, Bools]:
        """Let the rule of an ensemble decide every cell, some cells at a time."""
        flat = scores.reshape(len(scores), -1).T
        found = [self.model.decided(flat[start : start + TOGETHER]) for start in range(0, len(flat), TOGETHER)]
        labels, clear = (np.concatenate(part).reshape(scores.shape[1:]) for part in zip(*found, strict=True))
        return labels, clear

    def _settle_ties(self, drafts: list[Draft]) -> None:
        """Let the classifier decide the cells whose scores (nearly) tie, at a point of each."""
        counts = [draft.tied[0].size for draft in drafts]
        if not sum(counts):
            return
        rows = np.repeat([draft.record for draft in drafts], counts)
        values = [np.concatenate([draft.points(j) for draft in drafts]) for j in range(len(self.sweep.edges))]
        answers = self.model.places(self.question.ask(rows, values))
        self.queries += rows.size
        for draft, found in zip(drafts, np.split(answers, np.cumsum(counts)[:-1]), strict=True):
            draft.labels[draft.tied] = found


def given_to(question: Question, model: TreeModel) -> tuple[Floats, Through] | str:
    """Return what the trees are given of every record, and of values of a column; or why they cannot be read there."""
    if not model.before.steps:
        given, through = question.records.numbers(), ShortCuts(model.before, question.records, {})
    else:
        released = [feature.from_unit(u) for feature, u in zip(question.features, question.unit.T, strict=True)]
        own = dict(zip(question.positions, released, strict=True))
        handed, through = ShortCuts.found(model.before, question.records, own)
        if hasattr(handed, "toarray") and not model.sparse:
            return Obstacle("what a sparse matrix leaves out is missing to the trees; use sparse_output=False")
        given = _numbers(as_array(handed))
        if given is not None and not model.before.row_by_row(
            given, lambda row: question.records.take(np.array([row]), {p: v[[row]] for p, v in own.items()})
        ):
            return Obstacle(BY_BATCH)
    if given is None:
        return Obstacle("the trees are given columns that are not numbers")
    missing: Bools = np.asarray(np.isnan(given).any(axis=0))
    fed = np.isin(np.arange(given.shape[1]), [c for p in question.positions for c in model.before.fed_by(p)])
    if model.missing is None and (missing & ~fed).any():
        return Obstacle("the trees are given missing values, whose way is not read; impute them before")
    if model.before.steps and (missing & fed).any():  # without steps a released value stands in their place
        return Obstacle("the trees are given missing values of a sensitive feature; impute them before")
    return given, through


def _numbers(handed: NDArray[Any]) -> Floats | None:
    try:
        return handed.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        return None


def cells_for(question: Question) -> TreeCells | str:
    """Return the builder of cells, or why there is none; categories of sensitive features must be numbers."""
    if question.classifier.inside is None:
        return "the classifier is a function"
    model = tree_reading(question.classifier.inside)
    if isinstance(model, str):
        return model if model.startswith(NO_TREES) else Obstacle(model)
    if any(isinstance(c, str) for f in question.features for c in f.categories or ()):
        return Obstacle("a sensitive feature has categories that are not numbers")
    if model.before.steps and (why := model.before.obstacle(question.positions)) is not None:
        return Obstacle(why)
    try:
        return _read(question, model)
    except Exception as error:  # a step need not take every number
        if not model.before.steps:
            raise
        return Obstacle(f"a step before the trees failed ({type(error).__name__}) on values of a sensitive feature")


def _read(question: Question, model: TreeModel) -> TreeCells | str:
    """Return the builder of cells if the classifier answers as they say."""
    found = given_to(question, model)
    if isinstance(found, str):
        return found
    builder = TreeCells(question, model, *found)
    agrees = _agrees(question, builder, found[0])
    return builder if agrees else Obstacle("its answers are not those of its trees")


def _agrees(question: Question, builder: TreeCells, given: Floats) -> bool:
    """Tell whether the classifier answers as its trees, at the records, over the ranges and beside thresholds."""
    if builder.model.before.steps:
        return _agrees_behind(question, builder, given)

    def read(rows: Indices, values: list[NDArray[Any]]) -> tuple[NDArray[Any], Bools]:
        table = given[rows]
        table[:, list(question.positions)] = np.column_stack(values)
        return builder.model.labels(table)

    return answers_as_read(question, read, builder.sweep.edges)


def _agrees_behind(question: Question, builder: TreeCells, given: Floats) -> bool:
    """Tell the same behind steps, and whether the located thresholds turn what all steps hand on as its trees do.

    An estimator at the end of the very steps is asked about what they hand on, which is prepared once for it and its
    trees; the whole classifier's own labels of the records are known already.
    """
    model, (rows, values) = builder.model, probes(question, builder.sweep.edges)
    moved = dict(zip(question.positions, values, strict=True))
    handed = model.before.handed_on(question.records.take(rows, moved))
    seen, last = as_array(handed), slice(-2 * SPREAD, None)  # those over the ranges and beside thresholds
    if not builder.sweep.turns_as([own[last] for own in values], seen[last]):
        return False
    estimator, steps = steps_of(question.classifier.inside)
    behind = list(map(id, steps)) == list(map(id, model.before.steps))
    labels = np.asarray(Predict(estimator)(handed)) if behind else question.ask(rows, values)
    own = question.labels if question.answered is None else question.answered
    return reading_agrees(labels, *model.labels(seen)) and reading_agrees(own, *model.labels(given))


class CellTables(ByRecord):
    """Sums a decision table over the cells between thresholds: exact for tree models."""

    name, because = "cells", "a tree model with {features}"
    hands_over = True  # where some record has too many cells
    of_ranges = True
    reading, most_features = cells_for, MOST_FEATURES

    def found(self, question: Question, settings: Settings) -> Iterator[Found | None]:
        """Yield exact bounds for every record."""
        (m, e, n), builder = question.shape, self.read(question)
        laws, stays = LawsOverEpsilon(question), np.array([stays_in_range(row) for row in question.releases])
        summed = [len(feature.categories or ()) for feature in question.features]  # one by one (`below`)
        for step in question.pace.steps(n - question.start, BLOCK, "records"):
            block, before = range(question.start, n)[step], builder.queries
            built = builder.of(block)
            if built is None:
                yield None
                return
            for record, cells in zip(block, built, strict=True):
                masses = [
                    np.concatenate([laws.masses(i, j, question.unit[record, j], edges) for i in range(m)])
                    for j, edges in enumerate(cells.edges)
                ]
                labels = targets(question, record)
                shares = [share.reshape(m, e) for share in agreement(cells.table, labels, masses)]
                inside = np.ix_(*[within(f, edges) for f, edges in zip(question.features, cells.edges, strict=True)])
                reached = cells.table.kinds[np.unique(cells.table.labels[inside])]
                if len(reached) == 1:  # mechanisms that stay in the range cannot change the label
                    for share, label in zip(shares, labels, strict=True):
                        share[stays] = float(reached[0] == label)
                asked = builder.queries - before if record == block[0] else 0
                error = mass_error(sum((len(e) + k) * (1 + k // 48) for e, k in zip(cells.edges, summed, strict=True)))
                yield Found(record, [outward(share, error) for share in shares], len(reached), asked)
