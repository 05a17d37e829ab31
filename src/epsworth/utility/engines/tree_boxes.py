"""Certain bounds for tree models with three to six sensitive features: boxes of cells, finished by tables.

See `descent`.  What is left at the end are near ties, which the classifier decides, and boxes for which there was no
time: as everywhere in branch and bound, what they hold is sampled *given* that region.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.parallel import in_sequence
from epsworth.utility.engines.branch_and_bound import Branching, enough
from epsworth.utility.engines.cells import cells_for
from epsworth.utility.engines.contraction import LawsOverEpsilon, stays_in_range, within
from epsworth.utility.engines.descent import Corners, Descent, descend, stacked
from epsworth.utility.engines.engine import BATCH, Settings
from epsworth.utility.engines.leads import Leads
from epsworth.utility.engines.partition import Leaves
from epsworth.utility.pace import Stopped
from epsworth.utility.question import Question

MOST_RECORDS = {4: 1_024, 5: 16, 6: 16}  # under auto, by features; beyond, sampling every one costs less
MOST_ASKED = BATCH  # near ties of a record


@dataclass(frozen=True, eq=False)
class Rest:
    """What is decided of one record, per point, and the boxes in natural units that are not (see `Undecided`)."""

    agrees: Floats
    differs: Floats
    low: Floats
    high: Floats
    mass: Floats
    error: float
    queries: int = 0


@dataclass(frozen=True, eq=False)
class Reach:
    """The leaves that one record can reach, and the mass up to each edge of their cells.

    Attributes
    ----------
    edges : list of ndarray
        Per axis in natural units, -inf and inf included.
    below : list of ndarray, shapes ``(edges, points)``
        Rising: a computed mass that falls is off, and no less so than the largest one before.
    start : Corners
        The cells that can have mass.
    """

    question: Question
    record: int
    leaves: Leaves
    edges: list[Floats]
    below: list[Floats]
    start: Corners

    @classmethod
    def of(cls, question: Question, record: int, laws: LawsOverEpsilon, leaves: Leaves) -> Reach:
        """Evaluate the laws; where all mechanisms stay in the declared ranges, cells beyond them are left out."""
        edges = [np.concatenate([[-np.inf], own, [np.inf]]) for own in leaves.edges]
        below = []
        for j, own in enumerate(edges):
            x = question.unit[record, j]
            cumulated = np.concatenate([laws.below(m, j, x, own) for m in range(question.shape[0])])
            below.append(np.ascontiguousarray(np.maximum.accumulate(cumulated, axis=1).T))
        stays = all(stays_in_range(row) for row in question.releases)
        cells = [
            np.flatnonzero(within(feature, own)) if stays else np.arange(len(own) - 1)
            for feature, own in zip(question.features, edges, strict=True)
        ]
        first, last = (np.array([[some[end] for some in cells]], dtype=np.int32) for end in (0, -1))
        return cls(question, record, leaves, edges, below, (first, last))

    def region(self, place: int, allowed: float) -> Rest:
        """Decide boxes, and near ties where more than is allowed is left; the rest stays open."""
        builder = self.question.read(cells_for)
        leads = Leads.of(builder.model, self.leaves, place)
        found = descend(leads, self.below, self.start, allowed, self.question.pace.check)
        asked = 0
        if leads.apart and found.undecided > allowed:
            with suppress(Stopped):
                asked = self._settle(found, builder.model.classes[place])
        low, high = found.left()
        mass = found.mass(low, high)
        some = (mass > 0).any(axis=1)
        first, last = (
            np.column_stack([own[at[some, j] + by] for j, own in enumerate(self.edges)])
            for at, by in ((low, 0), (high, 1))
        )
        if found.certain and not len(low):  # the label cannot change
            return Rest(np.ones_like(found.agrees), np.zeros_like(found.agrees), first, last, mass[some], 0.0, asked)
        return Rest(found.agrees, found.differs, first, last, mass[some], found.error, asked)

    def _settle(self, found: Descent, label: Any) -> int:
        """Let the classifier decide the heaviest near ties, at the last point of each."""
        low, high = stacked([*found.ties, (np.empty((0, len(self.edges)), dtype=np.int32),) * 2])
        mass = found.mass(low, high)
        order = np.argsort(-mass.max(axis=1), kind="stable")
        first, left = order[:MOST_ASKED], order[MOST_ASKED:]
        values = [_points(own, low[first, j], high[first, j]) for j, own in enumerate(self.edges)]
        with in_sequence():  # sums of several threads differ from call to call
            keeps = self.question.ask(np.full(len(first), self.record), values) == label
        found.agrees += mass[first[keeps]].sum(axis=0)
        found.differs += mass[first[~keeps]].sum(axis=0)
        found.certain &= bool(keeps.all())
        found.boxes += len(first)
        found.ties = [(low[left], high[left])]
        return len(first)


def _points(edges: Floats, low: NDArray[np.int32], high: NDArray[np.int32]) -> Floats:
    """Return a natural value in each run of cells: the last one, or the first where there is no last."""
    first, last = edges[low], edges[high + 1]
    beyond = np.where(np.isfinite(first), np.nextafter(first, np.inf), 0.0)
    return np.where(np.isfinite(last), last, beyond)


class BranchAndBound(Branching):
    """Tree models with more sensitive features than have a table of cells."""

    name, because = "branch_and_bound", "a tree model with {features}"
    reading, most_features = cells_for, 6

    def classes(self, question: Question) -> NDArray[Any]:
        """Return the model's labels."""
        return np.asarray(self.read(question).model.classes)

    def regions(
        self, question: Question, record: int, laws: LawsOverEpsilon, settings: Settings
    ) -> Callable[[int], Rest]:
        """Return what decides the boxes of a record."""
        reach = Reach.of(question, record, laws, self.read(question).reached(record))
        return lambda place: reach.region(place, enough(settings))

    def lacks(self, question: Question, m: int) -> str | None:
        """Refuse categories, and ensembles whose labels do not follow from one sum of trees."""
        if self.read(question).model.decision is not None:
            return "the members of the ensemble decide by themselves, so that bounds on one sum tell nothing"
        ranges = all(feature.categories is None for feature in question.features)
        return None if ranges else "a sensitive feature is categorical"

    def together(self, question: Question, m: int) -> bool:
        """Tell mechanisms that stay in the declared ranges from others: theirs are the cells within."""
        return stays_in_range(question.releases[m])

    def worthwhile(self, question: Question, m: int) -> bool:
        """Tell whether there are not too many records for certain bounds."""
        features = len(question.features)
        return features < min(MOST_RECORDS) or len(question.records) <= MOST_RECORDS[features]
