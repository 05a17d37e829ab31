"""The former branch and bound of tree models: boxes of natural units, each look at all leaves of the record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsworth.bounds import Interval
from epsworth.utility.engines.branch_and_bound import enough
from epsworth.utility.engines.cells import cells_for
from epsworth.utility.engines.contraction import LawsOverEpsilon, widened
from epsworth.utility.engines.engine import Settings
from epsworth.utility.engines.propagation import Verdict, branch, mass_of_boxes
from epsworth.utility.problem import Problem


@dataclass(frozen=True, eq=False)
class LeafBoxes:
    """Reachable leaves of one record, sorted by tree (at ``starts``): their boxes ``(low, high]`` and scores."""

    most: ClassVar[int] = 4_096
    together: ClassVar[int] = 32

    low: np.ndarray
    high: np.ndarray
    values: np.ndarray
    starts: np.ndarray
    offset: np.ndarray
    slack: float

    @classmethod
    def of(cls, problem: Problem, record: int) -> LeafBoxes:
        """Return the leaves that a record can reach."""
        builder = problem.read(cells_for)
        assert not isinstance(builder, str)
        leaves, model = builder.reached(record), builder.model
        ends = [np.concatenate([[-np.inf], edges, [np.inf]]) for edges in leaves.edges]
        low, high = (
            np.column_stack([end[at + by] for end, at in zip(ends, side, strict=True)])
            for side, by in ((leaves.low, 0), (leaves.high, 1))
        )
        return cls(low, high, model.values[leaves.node], leaves.starts, model.offset, model.slack)

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """Return one box that holds every value."""
        everywhere = np.full((1, self.low.shape[1]), np.inf)
        return -everywhere, everywhere

    def look(self, low: np.ndarray, high: np.ndarray, label: int) -> Verdict:
        """Tell on which boxes the label is certain, or excluded, and where to cut the others."""
        meets = np.ones((len(low), len(self.low)), dtype=bool)
        for j in range(low.shape[1]):
            meets &= (self.low[:, j] < high[:, j, np.newaxis]) & (self.high[:, j] > low[:, j, np.newaxis])
        sure, never = self._certain(meets, label)
        axis, cut = np.full(len(low), -1, dtype=np.intp), np.full(len(low), np.nan)
        for box in np.flatnonzero(~(sure | never)):
            axis[box], cut[box] = self._cut(meets[box], high[box])
        return Verdict(sure, never, axis, cut)

    def _certain(self, meets: np.ndarray, label: int) -> tuple[np.ndarray, np.ndarray]:
        values = self.values[:, 0]
        smallest, largest = (
            extreme.reduceat(np.where(meets, values, empty), self.starts, axis=1).sum(axis=1) + self.offset[0]
            for extreme, empty in ((np.minimum, np.inf), (np.maximum, -np.inf))
        )
        positive, negative = smallest > self.slack, largest < -self.slack
        return (positive, negative) if label == 1 else (negative, positive)

    def _cut(self, inside: np.ndarray, high: np.ndarray) -> tuple[int, float]:
        best, heaviest = (-1, np.nan), 0.0
        weight = np.abs(self.values[inside]).sum(axis=1) + 1e-12
        for j in range(high.size):
            ends = self.high[inside, j]
            within = ends < high[j]
            if within.any():
                order = np.argsort(ends[within], kind="stable")
                heavy = np.cumsum(weight[within][order])
                if heavy[-1] > heaviest:
                    middle = np.searchsorted(heavy, heavy[-1] / 2)
                    best, heaviest = (j, float(ends[within][order][middle])), float(heavy[-1])
        return best


def bounds(problem: Problem, settings: Settings) -> Iterator[Interval]:
    """Yield what the former looks decided of each record of two classes, before anything is sampled."""
    laws, classes = LawsOverEpsilon(problem), problem.read(cells_for).model.classes.tolist()
    for record, label in enumerate(problem.labels.tolist()):

        def mass(low: np.ndarray, high: np.ndarray, record: int = record) -> np.ndarray:
            return mass_of_boxes(laws, problem, record, low, high)

        region = branch(LeafBoxes.of(problem, record), mass, classes.index(label), enough(settings))
        yield widened(region.agrees, 1 - region.differs, region.error)
