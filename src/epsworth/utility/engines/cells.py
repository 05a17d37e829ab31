"""Exact stability for tree models with up to three sensitive features.

With the public features fixed, a sum of trees is constant on the cells between the thresholds that can
still be reached.  The leaves, boxes of cells, are added up in integers (`votes`): row by row for one or two features
(`row_sweep`), of which only the changes of the label are kept (`flips`), as one table for three.  Thresholds are
located to the last bit in natural units, by the model's own comparisons: an atom, or a grid value, next to a threshold
lands on its true side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.pipeline import BY_BATCH, ShortCuts, Through, as_array
from epsworth.classifiers.reading import Predict, Unsupported, steps_of, unlike
from epsworth.classifiers.reading import answers_as_read as reading_agrees
from epsworth.classifiers.trees import NO_TREES, TreeModel
from epsworth.parallel import in_sequence
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
from epsworth.utility.engines.engine import (
    SPREAD,
    ByRecord,
    RecordResult,
    Settings,
    Unreadable,
    answers_as_read,
    probes,
    target_labels,
)
from epsworth.utility.engines.loops import worth_compiling
from epsworth.utility.engines.trees import (
    NEAR,
    Boxes,
    Changes,
    Flips,
    Leaves,
    Masses,
    States,
    Sweep,
    Votes,
    changes,
    settled,
    table,
)
from epsworth.utility.problem import Problem

MOST_FEATURES = 3
FEW_FEATURES = 2  # under auto
MOST_CELLS = 50_000_000  # of a table of all labels
MOST_SWEPT = 5_000_000_000  # of cells that are swept: a second or a few
BLOCK = 64  # records whose ties are asked about together


@dataclass(frozen=True, eq=False)
class Cells:
    """The decision table of one record and the edges of its cells, per sensitive feature, in natural units."""

    edges: tuple[Floats, ...]
    table: Table

    def possible(self, inside: Sequence[Bools]) -> NDArray[Any]:
        """Return the labels of the cells that lie ``inside``, per feature."""
        return np.asarray(self.table.kinds[np.unique(self.table.labels[np.ix_(*inside)])])


@dataclass(frozen=True, eq=False)
class PartialPartition:
    """The states of a record's cells, near ties (``tied``, an index of cells) among them: a table, or changes."""

    record: int
    edges: tuple[Floats, ...]
    states: States | Changes
    tied: tuple[Indices, ...]

    @classmethod
    def of(cls, record: int, edges: tuple[Floats, ...], states: States | Changes) -> PartialPartition:
        """Find the near ties."""
        if not isinstance(states, Changes):
            return cls(record, edges, states, np.nonzero(states == NEAR))
        at = np.flatnonzero(states.after == NEAR)
        tied = states.row[at].astype(np.intp), states.column[at].astype(np.intp)
        return cls(record, edges, states, tied[-len(edges) :])

    def points(self, j: int) -> Floats:
        """Return one natural value per tied cell: a cell (a, b] is represented by b, the last one on its side."""
        right = self.edges[j][1:][self.tied[j]]
        left = self.edges[j][:-1][self.tied[j]]
        beyond = np.where(np.isfinite(left), np.nextafter(left, np.inf), 0.0)  # the last cell has no right end
        return np.where(np.isfinite(right), right, beyond)

    def finished(self, places: Indices, classes: NDArray[Any]) -> Flips | Cells:
        """Return the labels of all cells, given those of the near ties."""
        if isinstance(self.states, Changes):
            at = settled(self.states, places) if places.size else self.states
            return Flips(self.edges, at, classes)
        labels = self.states.astype(np.intp)
        labels[self.tied] = places
        edges, labels = merged(self.edges, labels)  # without the edges across which no label changes
        return Cells(edges, Table(labels, classes))


class TreeCells:
    """Builds the cells of any record of a question; the thresholds are located once."""

    def __init__(self, problem: Problem, model: TreeModel, given: NDArray[Any], through: Through) -> None:
        self.problem, self.model, self.seen = problem, model, model.seen(given)
        self.sweep, self.votes = Sweep.over(model, problem.positions, through), Votes.of(model)
        self.queries = 0

    def of(self, records: Sequence[int]) -> list[Cells] | None:
        """Return the labels of all cells of some records; None if there are too many cells."""
        if len(self.sweep.edges) > 2:
            return self._built(records, self._tabled)
        changes_of = self.flips(records)
        if changes_of is None or any(math.prod(flips.shape) > MOST_CELLS for flips in changes_of):
            return None
        distinct = {id(flips): Cells(*flips.table()) for flips in changes_of}
        return [distinct[id(flips)] for flips in changes_of]

    def flips(
        self, records: Sequence[int], fast: bool = False, check: Callable[[], None] = lambda: None
    ) -> list[Flips] | None:
        """Return where labels change on the cells of one or two features; None if there are too many.

        Parameters
        ----------
        fast : bool
            Use loops that numba compiles, if it is there; the result is the same.
        check : callable
            Called now and then; may end the run.
        """
        return self._built(records, partial(self._swept, fast=fast, check=check))

    def _built(
        self, records: Sequence[int], draft: Callable[[int, Bools], PartialPartition | None]
    ) -> list[Any] | None:
        """Build each record's cells, near ties asked about together; those of equal public turns are shared."""
        drafts: dict[bytes, PartialPartition] = {}
        keys = []
        for record in records:
            goes_left = self._public_turns(record)
            keys.append(np.packbits(goes_left).tobytes())
            if keys[-1] not in drafts:
                drafted = draft(record, goes_left)
                if drafted is None:
                    return None
                drafts[keys[-1]] = drafted
        answers = self._answers(list(drafts.values()))
        done = {
            key: draft.finished(places, self.model.classes)
            for (key, draft), places in zip(drafts.items(), answers, strict=True)
        }
        return [done[key] for key in keys]

    def _public_turns(self, record: int) -> Bools:
        """Return the public splits at which a record goes left."""
        turns = self.model.turns(self.seen[record][self.model.feature])
        return np.asarray(self.sweep.closed & turns)

    def reached(self, record: int) -> Leaves:
        """Return the leaves that a record can reach, over the edges at which some of them end."""
        return self.sweep.leaves(self._public_turns(record)).compact()

    def _leaves(self, goes_left: Bools, most: float, fast: bool) -> tuple[tuple[Floats, ...], Boxes] | None:
        leaves = self.sweep.leaves(goes_left, fast).compact()
        edges = tuple([np.concatenate([[-np.inf], e, [np.inf]]) for e in leaves.edges])
        shape = tuple([len(e) - 1 for e in edges])
        if math.prod(shape) > most:
            return None
        return edges, Boxes(shape, leaves.low, leaves.high, self.votes.values[leaves.node])

    def _swept(self, record: int, goes_left: Bools, fast: bool, check: Callable[[], None]) -> PartialPartition | None:
        if (reached := self._leaves(goes_left, MOST_SWEPT, fast)) is None:
            return None
        at = changes(reached[1], self.votes, fast, check)
        return None if at is None else PartialPartition.of(record, reached[0], at)

    def _tabled(self, record: int, goes_left: Bools) -> PartialPartition | None:
        reached = self._leaves(goes_left, MOST_CELLS, fast=False)
        return None if reached is None else PartialPartition.of(record, reached[0], table(reached[1], self.votes))

    def _answers(self, drafts: list[PartialPartition]) -> list[Indices]:
        """Let the classifier decide the cells whose scores (nearly) tie, at a point of each.

        Its trees are added one after the other: sums of several threads differ from call to call.
        """
        counts = [draft.tied[0].size for draft in drafts]
        if not sum(counts):
            return [np.empty(0, dtype=np.intp)] * len(drafts)
        rows = np.repeat([draft.record for draft in drafts], counts)
        values = [np.concatenate([draft.points(j) for draft in drafts]) for j in range(len(self.sweep.edges))]
        with in_sequence():
            answers = self.model.places(self.problem.ask(rows, values))
        self.queries += rows.size
        return np.split(answers, np.cumsum(counts)[:-1])


def given_to(problem: Problem, model: TreeModel) -> tuple[Floats, Through]:
    """Return what the trees are given of every record, and of values of a column; or why they cannot be read there."""
    if not model.before.steps:
        given, through = problem.records.numbers(), ShortCuts(model.before, problem.records, {})
    else:
        released = [feature.from_unit(u) for feature, u in zip(problem.features, problem.unit.T, strict=True)]
        own = dict(zip(problem.positions, released, strict=True))
        handed, through = ShortCuts.prepared(model.before, problem.records, own)
        if hasattr(handed, "toarray") and not model.sparse:
            raise Unreadable("what a sparse matrix leaves out is missing to the trees; use sparse_output=False")
        given = _numbers(as_array(handed))
        if given is not None and not model.before.row_by_row(
            given, lambda row: problem.records.take(np.array([row]), {p: v[[row]] for p, v in own.items()})
        ):
            raise Unreadable(BY_BATCH)
    if given is None:
        raise Unreadable("the trees are given columns that are not numbers")
    missing: Bools = np.asarray(np.isnan(given).any(axis=0))
    fed = np.isin(np.arange(given.shape[1]), [c for p in problem.positions for c in model.before.fed_by(p)])
    if model.missing is None and (missing & ~fed).any():
        raise Unreadable("the trees are given missing values, whose way is not read; impute them before")
    if model.before.steps and (missing & fed).any():  # without steps a released value stands in their place
        raise Unreadable("the trees are given missing values of a sensitive feature; impute them before")
    return given, through


def _numbers(handed: NDArray[Any]) -> Floats | None:
    try:
        return handed.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        return None


def cells_for(problem: Problem) -> TreeCells:
    """Return the builder of cells, or why there is none; categories of sensitive features must be numbers."""
    if problem.classifier.inside is None:
        raise Unsupported("the classifier is a function")
    try:
        model = problem.classifier.structure.trees
    except Unsupported as none:
        raise none if str(none).startswith(NO_TREES) else Unreadable(str(none)) from None
    if any(isinstance(c, str) for f in problem.features for c in f.categories or ()):
        raise Unreadable("a sensitive feature has categories that are not numbers")
    if model.before.steps and (why := model.before.obstacle(problem.positions)) is not None:
        raise Unreadable(why)
    try:
        return _read(problem, model)
    except Unsupported:
        raise
    except Exception as error:  # a step need not take every number
        if not model.before.steps:
            raise
        kind = type(error).__name__
        raise Unreadable(f"a step before the trees failed ({kind}) on values of a sensitive feature") from None


def _read(problem: Problem, model: TreeModel) -> TreeCells:
    """Return the builder of cells if the classifier answers as they say."""
    given = given_to(problem, model)
    builder = TreeCells(problem, model, *given)
    if not _agrees(problem, builder, given[0]):
        raise Unreadable(unlike("trees"))
    return builder


def _agrees(problem: Problem, builder: TreeCells, given: Floats) -> bool:
    """Tell whether the classifier answers as its trees, at the records, over the ranges and beside thresholds."""
    if builder.model.before.steps:
        return _agrees_behind(problem, builder, given)

    def read(rows: Indices, values: list[NDArray[Any]]) -> tuple[NDArray[Any], Bools]:
        table = given[rows]
        table[:, list(problem.positions)] = np.column_stack(values)
        return builder.model.labels(table)

    return answers_as_read(problem, read, builder.sweep.edges)


def _agrees_behind(problem: Problem, builder: TreeCells, given: Floats) -> bool:
    """Tell the same behind steps, and whether the located thresholds turn what all steps hand on as its trees do.

    An estimator at the end of the very steps is asked about what they hand on, which is prepared once for it and its
    trees; the whole classifier's own labels of the records are known already.
    """
    model, (rows, values) = builder.model, probes(problem, builder.sweep.edges)
    moved = dict(zip(problem.positions, values, strict=True))
    handed = model.before.handed_on(problem.records.take(rows, moved))
    seen, last = as_array(handed), slice(-2 * SPREAD, None)  # those over the ranges and beside thresholds
    if not builder.sweep.turns_as([own[last] for own in values], seen[last]):
        return False
    estimator, steps = steps_of(problem.classifier.inside)
    behind = list(map(id, steps)) == list(map(id, model.before.steps))
    labels = np.asarray(Predict(estimator)(handed)) if behind else problem.ask(rows, values)
    own = problem.labels if problem.answered is None else problem.answered
    columns = [problem.records.column(position) for position in problem.positions]
    gaps = [feature.gaps(column) for feature, column in zip(problem.features, columns, strict=True)]
    whole = ~np.any(gaps, axis=0)  # a label is that of the record with its gap, the trees see what stands for it
    read, clear = (np.concatenate(both) for both in zip(model.labels(seen), model.labels(given[whole]), strict=True))
    return reading_agrees(np.concatenate([labels, own[whole]]), read, clear)


class CellTables(ByRecord):
    """Sums over the cells between thresholds that have the label: exact for tree models."""

    name, reason = "cells", "a tree model with {features}"
    can_fall_back = True  # where some record has too many cells
    numbers_only = True
    reading, most_features = cells_for, MOST_FEATURES

    def worthwhile(self, problem: Problem, m: int) -> bool:
        """Tell whether boxes would not do as well: with more features they sum a small table, and need no large one."""
        return len(problem.features) <= FEW_FEATURES or self.read(problem).model.decision is not None

    def explain(self, problem: Problem, m: int) -> str:
        """Say who sums the cells: the numbers are the same."""
        summed = "loops compiled by numba" if self._fast(problem) else "NumPy"
        return f"{super().explain(problem, m)}, summed by {summed}"

    def _fast(self, problem: Problem) -> bool:
        builder = self.read(problem)
        swept = len(problem.features) <= 2 and builder.model.decision is None
        return swept and worth_compiling(len(problem.records), len(builder.model.feature))

    def record_results(self, problem: Problem, settings: Settings) -> Iterator[RecordResult | None]:
        """Yield exact bounds for every record."""
        (m, e, _), builder, fast = problem.shape, self.read(problem), self._fast(problem)
        swept = len(problem.features) <= 2
        laws, stays = LawsOverEpsilon(problem), np.array([stays_in_range(row) for row in problem.releases])
        for step in problem.deadline.steps(len(problem.left), BLOCK, "records"):
            block, before = problem.left[step], builder.queries
            built = builder.flips(block, fast, problem.deadline.check) if swept else builder.of(block)
            if built is None:
                yield None
                return
            for record, cells in zip(block, built, strict=True):
                labels = target_labels(problem, record)
                shares = (_of_flips if swept else _of_table)(problem, laws, record, cells, labels)
                inside = [within(f, edges) for f, edges in zip(problem.features, cells.edges, strict=True)]
                reached = cells.possible(inside)
                bounds = []
                for (share, error), label in zip(shares, labels, strict=True):
                    share = share.reshape(m, e)
                    if len(reached) == 1:  # mechanisms that stay in the range cannot change the label
                        share[stays] = float(reached[0] == label)
                    bounds.append(outward(share, error.reshape(m, e)))
                asked = builder.queries - before if record == block[0] else 0
                yield RecordResult(record, bounds, len(reached), asked)


Shares = list[tuple[Floats, Floats]]


def _listed(problem: Problem) -> list[int]:
    """Return how many categories each feature has, whose masses are added one by one (`below`)."""
    return [len(feature.categories or ()) for feature in problem.features]


def _of_flips(problem: Problem, laws: LawsOverEpsilon, record: int, cells: Flips, labels: list[Any]) -> Shares:
    masses = Masses.of(cells, laws, problem.shape[0], problem.unit[record], _listed(problem))
    return [masses.share(label) for label in labels]


def _of_table(problem: Problem, laws: LawsOverEpsilon, record: int, cells: Cells, labels: list[Any]) -> Shares:
    masses = [
        np.concatenate([laws.masses(i, j, problem.unit[record, j], edges) for i in range(problem.shape[0])])
        for j, edges in enumerate(cells.edges)
    ]
    sides = zip(cells.edges, _listed(problem), strict=True)
    error = sum(
        ((len(e) - 2) * laws.misplaced(j, problem.unit[record, j]) for j, e in enumerate(cells.edges)),
        np.full(len(masses[0]), mass_error(sum((len(e) + k) * (1 + k // 48) for e, k in sides))),
    )
    return [(share, error) for share in agreement(cells.table, labels, masses)]
