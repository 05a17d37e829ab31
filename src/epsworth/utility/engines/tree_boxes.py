"""Certain bounds for tree models with three to six sensitive features: boxes of cells, finished by tables.

Rounds: boxes of little mass wait, as corners only, while all others are decided, cut, or summed; then the mass up to
which boxes wait falls.  What is left at the end are near ties, which the classifier decides, and boxes for which there
was no time: as everywhere in branch and bound, what they hold is sampled *given* that region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.parallel import in_sequence
from epsworth.rounding import UNIT
from epsworth.utility.deadline import Stopped
from epsworth.utility.engines.branch_and_bound import Branching, Undecided, enough
from epsworth.utility.engines.cells import cells_for
from epsworth.utility.engines.contraction import LawsOverEpsilon, mass_error, stays_in_range, within
from epsworth.utility.engines.engine import BATCH, Settings
from epsworth.utility.engines.fronts import (
    Front,
    Tables,
    edges_within,
    front_of,
    halves,
    joined,
    joined_tables,
    look,
    pick,
    summed,
    tables_of,
)
from epsworth.utility.engines.loops import compiled
from epsworth.utility.engines.trees import Cells, Leads, Leaves
from epsworth.utility.problem import Problem

MOST_CELLS = 4_096  # of a table
MOST_AT_ONCE = 1 << 20  # of the one table of a record
MOST_WORK = 1 << 29  # leaves that are looked at, and cells that are summed, for one record
FEW = 4  # features; with more a certain answer is rarely near, and a quarter of the work is done
MOST_WAITING = 1 << 20  # boxes
ENTRIES = 1 << 16  # leaves that are looked at together
TOGETHER = 4_096  # boxes that are finished together, or taken up again
HEAVY = 1e-3  # mass of boxes that wait in the first round
PIECE = 1 << 26  # work between two looks at the clock: a quarter of a second or so
AT_ONCE = 1 << 15  # boxes that a compiled loop leaves, at most
FALLS = 1 / 8, 2 / 3  # of it from round to round, least and most

Ints = NDArray[np.int64]
Corners = tuple[Cells, Cells]
"""First and last cells of boxes, shapes ``(boxes, sensitive)``."""


@dataclass(eq=False)
class Descent:
    """What is decided of one record, per point, and which boxes of cells are left.

    Attributes
    ----------
    below : sequence of ndarray, shape ``(edges, points)``
        Per axis the mass up to each edge, -inf and inf included.
    agrees, differs : ndarray, shape ``(points,)``
    waiting, ties : list of `Corners`
        Boxes that wait, and cells that the classifier alone could decide.
    certain : bool
        Whether no box or cell was found that loses the label, or is left out as it has no mass.
    """

    leads: Leads
    below: Sequence[Floats]
    agrees: Floats
    differs: Floats
    waiting: list[Corners] = field(default_factory=list)
    ties: list[Corners] = field(default_factory=list)
    pool: list[tuple[Tables, Corners]] = field(default_factory=list)
    certain: bool = True
    boxes: int = 0
    sides: int = 0
    work: int = 0

    @classmethod
    def of(cls, leads: Leads, below: Sequence[Floats]) -> Descent:
        """Return that nothing is decided."""
        return cls(leads, below, *np.zeros((2, below[0].shape[1])))

    @property
    def undecided(self) -> float:
        """The largest mass, over all points, of what is left."""
        return float((1 - self.agrees - self.differs).max())

    @property
    def allowance(self) -> int:
        """The work that is still allowed."""
        return (MOST_WORK >> 2 if len(self.below) > FEW else MOST_WORK) - self.work

    @property
    def error(self) -> float:
        """How far the masses of what is decided may be off.

        Masses of cells telescope over any union of boxes, so that the laws' errors are those of the edges
        (`mass_error`).  A box's mass is a product of s differences: 2s - 1 roundings; a table adds one per cell of each
        side for products and sums, s for differences, and one where what differs is the rest of its box.  All terms
        are positive, so each box adds one more to the sum.  All are relative to a result of at most 1.
        """
        edges = mass_error(sum(len(side) - 1 for side in self.below))
        return edges + (self.boxes + self.sides + 4 * len(self.below)) * UNIT

    def mass(self, low: Cells, high: Cells) -> Floats:
        """Return the masses of boxes, shape ``(boxes, points)``."""
        mass = np.ones((len(low), len(self.agrees)))
        for j, below in enumerate(self.below):
            mass *= below[high[:, j] + 1] - below[low[:, j]]
        return mass

    def round(self, light: float, enough: float, check: Callable[[], None]) -> None:
        """Go down all boxes that wait, until those of at most ``light`` mass do, or enough is decided."""
        low, high = stacked(self.waiting)
        stack: list[Front] = []
        self.waiting, at = [], 0
        try:
            while (stack or at < len(low)) and not self.done(enough):
                check()
                if not stack:
                    some = slice(at, at + TOGETHER)
                    stack += front_of(self.leads, low[some], high[some]).parts(ENTRIES)
                    at += TOGETHER
                left = self._step(_top(stack), light)
                stack += [] if left is None else left.parts(ENTRIES)
                if sum(len(low) for _, (low, _) in self.pool) >= TOGETHER:
                    self._finish()
            self._finish()
        finally:
            self.waiting += [(front.low, front.high) for front in stack] + [(low[at:], high[at:])]

    def compiled_round(self, loop: Callable[..., Ints], light: float, enough: float, check: Callable[[], None]) -> None:
        """Do a round by a compiled loop; boxes with near ties are summed by NumPy."""
        low, high = stacked(self.waiting)
        self.waiting, leads = [], self.leads
        below = np.zeros((len(self.below), max(map(len, self.below)), len(self.agrees)))
        for j, side in enumerate(self.below):
            below[j, : len(side)] = side
        try:
            if not self.boxes:  # perhaps one table does
                check()
                halved = self._step(front_of(leads, low, high), light)
                low, high = (low[:0], high[:0]) if halved is None else (halved.low, halved.high)
                self._finish()
            while len(low) and not self.done(enough):
                check()
                left, tied = (np.empty((2, AT_ONCE, len(below)), dtype=np.int32) for _ in range(2))
                begun, boxes, many, near, sides, work, lost = loop(
                    leads.tree, leads.low, leads.high, leads.values, leads.offset, leads.slack, below, low, high, light,
                    enough, MOST_CELLS, min(PIECE, self.allowance), self.agrees, self.differs, *left, *tied,
                ).tolist()  # fmt: skip
                self.boxes, self.sides, self.work = self.boxes + boxes, max(self.sides, sides), self.work + work
                self.certain &= not lost
                mine = left[:, :many]
                wait = self.mass(*mine).max(axis=1) <= light
                self.waiting.append((mine[0, wait], mine[1, wait]))
                low, high = stacked([(mine[0, ~wait], mine[1, ~wait]), (low[begun:], high[begun:])])
                for front in front_of(leads, *tied[:, :near]).parts(ENTRIES) if near else ():
                    self._step(front, 0.0)
            self._finish()
        finally:
            self.waiting.append((low, high))

    def done(self, enough: float) -> bool:
        """Tell whether enough is decided, or all the work is done that one record may take."""
        many = sum(len(low) for low, _ in self.waiting)
        return self.undecided <= enough or self.allowance <= 0 or many >= MOST_WAITING

    def _step(self, front: Front, light: float) -> Front | None:
        """Decide boxes; light ones wait, those of few cells are pooled; return the halves of the others."""
        most = MOST_CELLS if self.boxes else MOST_AT_ONCE
        self.boxes, self.work = self.boxes + len(front.low), self.work + len(front.leaf)
        mass = self.mass(front.low, front.high)
        sure, never, left, weight = look(self.leads, front)
        self.agrees += mass[sure].sum(axis=0)
        self.differs += mass[never].sum(axis=0)
        largest = mass[~(sure | never)].max(axis=1)
        self.certain &= not (never.any() or (largest == 0).any())
        heavy = largest > light
        wait = ~heavy & (largest > 0)
        self.waiting.append((left.low[wait], left.high[wait]))
        left, weight = left.take(heavy), weight[np.repeat(heavy, left.count)]
        if not len(left.low):
            return None
        edges = edges_within(self.leads, left, weight)
        few = np.prod([e.number + 1.0 for e in edges], axis=0) <= most
        if few.any():
            small, _, within = pick(left, weight, edges, few)
            self.pool.append((tables_of(self.leads, small, within), (small.low, small.high)))
        if few.all():
            return None
        left, _, edges = pick(left, weight, edges, ~few)
        return halves(self.leads, left, edges)

    def _finish(self) -> None:
        """Sum the boxes that are pooled."""
        if not self.pool:
            return
        parts, corners = zip(*self.pool, strict=True)
        tables, (low, high) = joined_tables(parts), stacked(corners)
        self.pool = []
        for tables_sum in summed(tables, self.below, self.leads.slack):
            loses = tables_sum.loses
            if loses is None:
                loses = np.maximum(self.mass(low[tables_sum.boxes], high[tables_sum.boxes]) - tables_sum.keeps, 0.0)
            else:
                self.ties.append((tables_sum.low, tables_sum.high))
            self.agrees += tables_sum.keeps.sum(axis=0)
            self.differs += loses.sum(axis=0)
            self.certain &= tables_sum.all_keep
            self.sides = max(self.sides, sum(tables_sum.shape))
            self.work += len(tables_sum.boxes) * int(np.prod(tables_sum.shape))

    def left(self) -> Corners:
        """Return all boxes that are not decided."""
        return stacked([*self.waiting, *(corners for _, corners in self.pool), *self.ties])


def _top(stack: list[Front]) -> Front:
    """Take the last boxes off a stack, of about as many leaves as are looked at together."""
    fronts = [stack.pop()]
    while stack and sum(len(front.leaf) for front in fronts) + len(stack[-1].leaf) <= ENTRIES:
        fronts.append(stack.pop())
    return joined(fronts)


def stacked(boxes: Sequence[Corners]) -> Corners:
    """Return all boxes of several lists."""
    low, high = zip(*boxes, strict=True)
    return np.concatenate(low), np.concatenate(high)


def descend(
    leads: Leads, below: Sequence[Floats], start: Corners, enough: float, check: Callable[[], None] = lambda: None
) -> Descent:
    """Decide the cells of some boxes until at most ``enough`` of their mass is left, for every point.

    Parameters
    ----------
    check : callable
        Raises Stopped where no more is to be done: what is not decided then stays so.
    """
    descent, light, loops = Descent.of(leads, below), HEAVY, compiled()
    descent.waiting.append(start)
    with suppress(Stopped):
        while not descent.done(enough) and any(len(low) for low, _ in descent.waiting):
            if loops is None:
                descent.round(light, enough, check)
            else:
                descent.compiled_round(loops.descended, light, enough, check)
            least, most = FALLS
            light *= min(most, max(least, enough / descent.undecided)) if descent.undecided > 0 else least
    return descent


MOST_RECORDS = {4: 1_024, 5: 16, 6: 16}  # under auto, by features; beyond, sampling every one costs less
MOST_ASKED = BATCH  # near ties of a record


@dataclass(frozen=True, eq=False)
class ReachableLeaves:
    """The leaves that one record can reach, and the mass up to each edge of their cells.

    Attributes
    ----------
    edges : list of ndarray
        Per axis in natural units, -inf and inf included.
    below : list of ndarray, shapes ``(edges, points)``
        Rising: a computed mass that falls is off, and no less so than the largest one before.
    start : Corners
        The cells that can have mass.
    misplaced : ndarray, shape ``(points,)``
        The mass that may lie on the wrong sides of all edges together.
    """

    problem: Problem
    record: int
    leaves: Leaves
    edges: list[Floats]
    below: list[Floats]
    start: Corners
    misplaced: Floats

    @classmethod
    def of(cls, problem: Problem, record: int, laws: LawsOverEpsilon, leaves: Leaves) -> ReachableLeaves:
        """Evaluate the laws; where all mechanisms stay in the declared ranges, cells beyond them are left out."""
        edges = [np.concatenate([[-np.inf], own, [np.inf]]) for own in leaves.edges]
        below = []
        for j, own in enumerate(edges):
            x = problem.unit[record, j]
            cumulated = np.concatenate([laws.below(m, j, x, own) for m in range(problem.shape[0])])
            below.append(np.ascontiguousarray(np.maximum.accumulate(cumulated, axis=1).T))
        stays = all(stays_in_range(row) for row in problem.releases)
        cells = [
            np.flatnonzero(within(feature, own)) if stays else np.arange(len(own) - 1)
            for feature, own in zip(problem.features, edges, strict=True)
        ]
        first, last = (np.array([[some[end] for some in cells]], dtype=np.int32) for end in (0, -1))
        off = [len(own) * laws.misplaced(j, problem.unit[record, j]) for j, own in enumerate(leaves.edges)]
        return cls(problem, record, leaves, edges, below, (first, last), np.sum(off, axis=0))

    def region(self, place: int, allowed: float) -> Undecided:
        """Decide boxes, and near ties where more than is allowed is left; the rest stays open."""
        builder = self.problem.read(cells_for)
        leads = Leads.of(builder.model, self.leaves, place)
        descent = descend(leads, self.below, self.start, allowed, self.problem.deadline.check)
        queries = 0
        if leads.apart and descent.undecided > allowed:
            with suppress(Stopped):
                queries = self._settle(descent, builder.model.classes[place])
        low, high = descent.left()
        mass = descent.mass(low, high)
        some = (mass > 0).any(axis=1)
        first, last = (
            np.column_stack([own[at[some, j] + by] for j, own in enumerate(self.edges)])
            for at, by in ((low, 0), (high, 1))
        )
        if descent.certain and not len(low):  # the label cannot change
            none = np.zeros_like(descent.agrees)
            return Undecided(none + 1, none, first, last, mass[some], none, queries)
        off = descent.error + self.misplaced
        return Undecided(descent.agrees, descent.differs, first, last, mass[some], off, queries)

    def _settle(self, descent: Descent, label: Any) -> int:
        """Let the classifier decide the heaviest near ties, at the last point of each."""
        low, high = stacked([*descent.ties, (np.empty((0, len(self.edges)), dtype=np.int32),) * 2])
        mass = descent.mass(low, high)
        order = np.argsort(-mass.max(axis=1), kind="stable")
        first, left = order[:MOST_ASKED], order[MOST_ASKED:]
        values = [_points(own, low[first, j], high[first, j]) for j, own in enumerate(self.edges)]
        with in_sequence():  # sums of several threads differ from call to call
            keeps = self.problem.ask(np.full(len(first), self.record), values) == label
        descent.agrees += mass[first[keeps]].sum(axis=0)
        descent.differs += mass[first[~keeps]].sum(axis=0)
        descent.certain &= bool(keeps.all())
        descent.boxes += len(first)
        descent.ties = [(low[left], high[left])]
        return len(first)


def _points(edges: Floats, low: NDArray[np.int32], high: NDArray[np.int32]) -> Floats:
    """Return a natural value in each run of cells: the last one, or the first where there is no last."""
    first, last = edges[low], edges[high + 1]
    beyond = np.where(np.isfinite(first), np.nextafter(first, np.inf), 0.0)
    return np.where(np.isfinite(last), last, beyond)


class BranchAndBound(Branching):
    """Tree models with more sensitive features than have a table of cells."""

    name, reason = "branch_and_bound", "a tree model with {features}"
    reading, most_features = cells_for, 6

    def classes(self, problem: Problem) -> NDArray[Any]:
        """Return the model's labels."""
        return np.asarray(self.read(problem).model.classes)

    def regions(
        self, problem: Problem, record: int, laws: LawsOverEpsilon, settings: Settings
    ) -> Callable[[int], Undecided]:
        """Return what decides the boxes of a record."""
        reach = ReachableLeaves.of(problem, record, laws, self.read(problem).reached(record))
        return lambda place: reach.region(place, enough(settings))

    def unsupported_reason(self, problem: Problem, m: int) -> str | None:
        """Refuse categories, and ensembles whose labels do not follow from one sum of trees."""
        if self.read(problem).model.decision is not None:
            return "the members of the ensemble decide by themselves, so that bounds on one sum tell nothing"
        ranges = all(feature.categories is None for feature in problem.features)
        return None if ranges else "a sensitive feature is categorical"

    def group_key(self, problem: Problem, m: int) -> bool:
        """Tell mechanisms that stay in the declared ranges from others: theirs are the cells within."""
        return stays_in_range(problem.releases[m])

    def worthwhile(self, problem: Problem, m: int) -> bool:
        """Tell whether there are not too many records for certain bounds."""
        features = len(problem.features)
        return features < min(MOST_RECORDS) or len(problem.records) <= MOST_RECORDS[features]
