"""Copies made of others: several classifiers at once, and regions cut into cells around medians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from epsworth.release.copies import EXACT, Copy, Indices, Input, Layers, Trees, require

MOST_COMBINATIONS = 1 << 16
SIDE = 1 << 16  # what the longest distance on an input comes to, roughly; a word's where it differs
DISTANCES = 1 << 18  # at a time

Whole = Sequence[int] | Indices


@dataclass(frozen=True, eq=False)
class Joint(Copy):
    """Several classifiers at once: a table says which region a combination of their regions is.

    Attributes
    ----------
    parts : tuple of Layers or Trees
    table : ndarray of int, shape ``(combinations,)``
        By the parts' regions as digits, the first part's the most significant.
    count : int
        How many regions there are.
    """

    kind = "joint"
    parts: tuple[Copy, ...]
    table: Indices
    count: int

    @property
    def regions(self) -> int:
        """How many regions there are."""
        return self.count

    def __call__(self, places: Indices) -> Indices:
        """Return the regions of the parts' combinations."""
        at = np.zeros(len(places), dtype=np.int64)
        for part in self.parts:
            at = at * part.regions + part(places)
        return np.asarray(self.table[at], dtype=np.int64)

    def prove(self) -> None:
        """See that the parts are plain copies of the same inputs, and that every combination has a region."""
        require(len(self.parts) >= 1, "joint: there must be at least one part")
        for number, part in enumerate(self.parts):
            _prove_plain(part, self.inputs, f"joint.parts[{number}]")
        combinations = prod(part.regions for part in self.parts)
        require(1 <= combinations <= MOST_COMBINATIONS, f"joint: at most {MOST_COMBINATIONS} combinations can be told")
        require(
            self.table.shape == (combinations,), f"joint.table: must have one entry for each of {combinations} pairings"
        )
        fine = bool(((self.table >= 0) & (self.table < self.count)).all())
        require(fine, "joint.table: names a region that is not there")

    def to_dict(self) -> dict[str, Any]:
        """Return the parts, how many regions each has, and the table."""
        return {
            "kind": self.kind,
            "counts": [part.regions for part in self.parts],
            "parts": [part.to_dict() for part in self.parts],
            "table": self.table.tolist(),
        }


@dataclass(frozen=True, eq=False)
class Cells(Copy):
    """The nearest median among the cells of a record's region; the first of equals.

    Attributes
    ----------
    part : Layers or Trees
        What tells regions, each of which owns at least one cell.
    sensitive : ndarray of int
        The inputs over which distances are added up.
    labels : ndarray of int, shape ``(cells,)``
        The part's region that a cell belongs to.
    medians : ndarray of int, shape ``(cells, sensitive)``
        Places.
    weights : ndarray of int, shape ``(sensitive,)``
        What a step between neighbouring places comes to; of words, a difference.
    """

    kind = "cells"
    part: Copy
    sensitive: Indices
    labels: Indices
    medians: Indices
    weights: Indices

    @property
    def regions(self) -> int:
        """How many cells there are."""
        return len(self.labels)

    def __call__(self, places: Indices) -> Indices:
        """Return the nearest cells of the records' regions."""
        return self.nearest(places, self.part(places))

    def nearest(self, places: Indices, labels: Indices) -> Indices:
        """Return the nearest cells of regions, whoever named these; -1 where none is named."""
        cells = np.full(len(places), -1, dtype=np.int64)
        for label in np.unique(labels[labels >= 0]).tolist():
            rows, own = np.flatnonzero(labels == label), np.flatnonzero(self.labels == label)
            step = max(1, DISTANCES // len(own))
            for start in range(0, len(rows), step):
                chunk = rows[start : start + step]
                cells[chunk] = own[np.argmin(self.distances(places[chunk], self.medians[own]), axis=1)]
        return cells

    def distances(self, places: Indices, medians: Indices) -> Indices:
        """Return weighted distances of records to cells, shape ``(n, cells)``."""
        total = np.zeros((len(places), len(medians)), dtype=np.int64)
        for column, median, weight in zip(self.sensitive.tolist(), medians.T, self.weights.tolist(), strict=True):
            own = places[:, [column]]
            total += weight * (np.abs(own - median) if self.inputs[column].ordered else own != median)
        return total

    def prove(self) -> None:
        """See that every region owns a cell, that medians are places, and that distances stay below 2^53."""
        _prove_plain(self.part, self.inputs, "cells.part")
        cells, width = len(self.labels), len(self.sensitive)
        columns = self.sensitive.tolist()
        known = all(0 <= column < len(self.inputs) for column in columns)
        require(width >= 1 and known, "cells.sensitive: must name inputs that are there, at least one")
        require(len(set(columns)) == width, "cells.sensitive: must name each input once")
        require(cells >= 1 and self.labels.shape == (cells,), "cells.labels: must be one region for each cell")
        owners = set(self.labels.tolist())
        require(owners <= set(range(self.part.regions)), "cells.labels: names a region that is not there")
        require(len(owners) == self.part.regions, "cells.labels: every region must own at least one cell")
        require(self.medians.shape == (cells, width), "cells.medians: must have one place for each cell and input")
        counts = np.array([self.inputs[column].places for column in columns])
        fine = bool(((self.medians >= 0) & (self.medians < counts)).all())
        require(fine, "cells.medians: names a place that is not there")
        require(self.weights.shape == (width,), "cells.weights: must be one for each sensitive input")
        weights = self.weights.tolist()
        require(min(weights) >= 1, "cells.weights: must be positive")
        longest = [w * _longest(self.inputs[column]) for w, column in zip(weights, columns, strict=True)]
        require(sum(longest) < EXACT, "cells: a distance can reach 2^53, beyond which doubles round")

    def to_dict(self) -> dict[str, Any]:
        """Return the part, how many regions it has, and the cells."""
        return {
            "kind": self.kind,
            "count": self.part.regions,
            "part": self.part.to_dict(),
            "sensitive": self.sensitive.tolist(),
            "labels": self.labels.tolist(),
            "medians": self.medians.tolist(),
            "weights": self.weights.tolist(),
        }


def cell_weights(inputs: Sequence[Input], sensitive: Whole) -> Indices:
    """Return weights that make sensitive inputs equally long: 2^16 from end to end, longer where grids are finer."""
    longest = [_longest(inputs[int(column)]) for column in sensitive]
    side = max(SIDE, *longest)
    return np.array([(2 * side + steps) // (2 * steps) for steps in longest], dtype=np.int64)


def _longest(one: Input) -> int:
    """Return how many steps lie between the ends of an input."""
    return max(1, one.places - 1) if one.ordered else 1


def _prove_plain(part: Copy, inputs: tuple[Input, ...], where: str) -> None:
    require(isinstance(part, (Layers, Trees)), f"{where}: must be a plain copy: layers, trees or a tree")
    require(part.inputs == inputs, f"{where}: must see the same inputs")
