"""Tree models on boxes: scores are bounded by adding, tree by tree, the smallest and the largest leaf met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.records import Indices
from epsworth.utility.engines.verdicts import Verdict


@dataclass(frozen=True, eq=False)
class LeafBoxes:
    """Reachable leaves of one record, sorted by tree (at ``starts``): their boxes ``(low, high]`` and scores.

    Attributes
    ----------
    low, high : ndarray, shape ``(leaves, sensitive)``
        In natural units, -inf and inf included.
    values : ndarray, shape ``(leaves, scores)``
    offset : ndarray, shape ``(scores,)``
    slack : float
        Margins up to this are near ties, which only the classifier could decide.
    """

    most: ClassVar[int] = 4_096
    together: ClassVar[int] = 32

    low: Floats
    high: Floats
    values: Floats
    starts: Indices
    offset: Floats
    slack: float

    def start(self) -> tuple[Floats, Floats]:
        """Return one box that holds every value."""
        everywhere = np.full((1, self.low.shape[1]), np.inf)
        return -everywhere, everywhere

    def look(self, low: Floats, high: Floats, label: int) -> Verdict:
        """Tell on which boxes the label is certain, or excluded, and where to cut the others."""
        meets = np.ones((len(low), len(self.low)), dtype=bool)
        for j in range(low.shape[1]):
            meets &= (self.low[:, j] < high[:, j, np.newaxis]) & (self.high[:, j] > low[:, j, np.newaxis])
        sure, never = self._certain(meets, label)
        axis, cut = np.full(len(low), -1, dtype=np.intp), np.full(len(low), np.nan)
        for box in np.flatnonzero(~(sure | never)):
            axis[box], cut[box] = self._cut(meets[box], high[box])
        return Verdict(sure, never, axis, cut)

    def _certain(self, meets: Bools, label: int) -> tuple[Bools, Bools]:
        smallest, largest = self._bounds(meets)
        smallest, largest = smallest + self.offset - self.slack, largest + self.offset + self.slack
        if smallest.shape[1] == 1:
            positive, negative = np.asarray(smallest[:, 0] > 0), np.asarray(largest[:, 0] < 0)
            return (positive, negative) if label == 1 else (negative, positive)
        others = np.arange(smallest.shape[1]) != label
        sure = (smallest[:, [label]] > largest[:, others]).all(axis=1)
        never = (largest[:, [label]] < smallest[:, others]).any(axis=1)
        return np.asarray(sure), np.asarray(never)

    def _bounds(self, meets: Bools) -> tuple[Floats, Floats]:
        """Return the smallest and largest sum of the leaves that each box meets, shape ``(boxes, scores)``."""
        smallest, largest = [], []
        for values in self.values.T:
            smallest.append(np.minimum.reduceat(np.where(meets, values, np.inf), self.starts, axis=1).sum(axis=1))
            largest.append(np.maximum.reduceat(np.where(meets, values, -np.inf), self.starts, axis=1).sum(axis=1))
        return np.stack(smallest, axis=1), np.stack(largest, axis=1)

    def _cut(self, inside: Bools, high: Floats) -> tuple[int, float]:
        """Return the axis and the threshold at which to cut a box: where most leaf weight changes, halving it."""
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
