"""Classifiers in whole numbers: what a tailored policy takes a record's region from, on any machine, in any language.

Inputs are places on public grids: 0 to 2^bits - 1 for a number, the category's position for a word.  All sums stay
below 2^53, so that doubles hold them exactly whatever the order of addition; nothing is rounded but by a shift.

A record's leaf of a tree is found without walking: per column, a mask of the leaves that its place still allows; the
leaf is the one bit that all columns' masks leave (Lucchese et al. 2015, "QuickScorer"; the masks here rule out right
subtrees, too, so that no order of bits matters).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats, Indices, as_floats
from epsworth.grids import Input
from epsworth.tailored.quickscorer import LeafMasks, leaf_masks

EXACT = 1 << 53  # whole numbers below it are doubles, and so are their sums
MOST_SHIFT = 52
LEAF = -1
NUMBERS = 1 << 16  # that a layer hands on at a time: they stay in a cache, and wake no other thread
WALKERS = 1 << 15  # pairs of a record and a tree that walk together


@dataclass(frozen=True, eq=False)
class Surrogate(ABC):
    """A total function from places to regions, made of whole numbers.

    Attributes
    ----------
    inputs : tuple of Input
    """

    kind: ClassVar[str]
    inputs: tuple[Input, ...]

    def __post_init__(self) -> None:
        self.prove()

    @property
    @abstractmethod
    def regions(self) -> int:
        """How many regions there are."""

    @abstractmethod
    def __call__(self, places: Indices) -> Indices:
        """Return the regions of records, shape ``(n,)``, from their places, shape ``(n, inputs)``."""

    @abstractmethod
    def prove(self) -> None:
        """Refuse tables that could fail, or round, on some places."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the tables as a policy holds them."""


@dataclass(frozen=True, eq=False)
class Layer:
    """``weights @ x + biases``; a hidden layer hands on what is positive of it, shifted to the right."""

    weights: Indices
    biases: Indices
    shift: int


@dataclass(frozen=True, eq=False)
class IntegerReLU(Surrogate):
    """Sums of places (1 for a word's position, else 0), through shifted rectifiers; the first largest score wins."""

    kind = "layers"
    layers: tuple[Layer, ...]

    @property
    def regions(self) -> int:
        """How many scores there are."""
        return len(self.layers[-1].biases)

    def __call__(self, places: Indices) -> Indices:
        """Return the places of the largest scores, the first of equals."""
        scores = self.scores(places)
        if self.regions == 2:  # in a tenth of the time
            return (scores[:, 1] > scores[:, 0]).astype(np.int64)
        return np.asarray(np.argmax(scores, axis=1), dtype=np.int64)

    def scores(self, places: Indices) -> Floats:
        """Return whole scores, exact in doubles, shape ``(n, regions)``."""
        step = max(1, NUMBERS // max(max(weights.shape) for weights, _ in self._matrices))
        scores = np.empty((len(places), self.regions))
        for start in range(0, len(places), step):
            scores[start : start + step] = self._scores(places[start : start + step])
        return scores

    def _scores(self, places: Indices) -> Floats:
        values = self._spread(places)
        *hidden, last = self._matrices
        for weights, biases in hidden:
            values = values @ weights
            values += biases
            np.maximum(values, 0, out=values)
            np.floor(values, out=values)
        values = values @ last[0]
        values += last[1]
        return values

    @cached_property
    def _matrices(self) -> list[tuple[Floats, Floats]]:
        """Return what is multiplied and added, divided by 2^shift at once: doubles keep every bit of that."""
        parts = [(layer, np.float64(2.0**-layer.shift)) for layer in self.layers]
        return [(as_floats(layer.weights.T) * scale, as_floats(layer.biases) * scale) for layer, scale in parts]

    def _spread(self, places: Indices) -> Floats:
        if all(one.ordered for one in self.inputs):
            return places.astype(np.float64)
        parts = [
            places[:, [j]] if one.ordered else places[:, [j]] == np.arange(one.places)
            for j, one in enumerate(self.inputs)
        ]
        return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts], axis=1)

    def prove(self) -> None:
        """Bound every unit: the sum of |weight| times the largest input, and the bias, stay below 2^53."""
        require(bool(self.layers), "layers: there must be at least one")
        reach = [r for one in self.inputs for r in ([one.places - 1] if one.ordered else [1] * one.places)]
        for number, layer in enumerate(self.layers):
            where = f"layers[{number}]"
            shape = layer.weights.shape
            require(layer.weights.ndim == 2 and shape[1] == len(reach), f"{where}: weights must fit what is handed on")
            require(shape[0] == len(layer.biases) >= 1, f"{where}: there must be one bias for each unit")
            require(0 <= layer.shift <= MOST_SHIFT, f"{where}: shift must lie between 0 and {MOST_SHIFT}")
            sums = [
                sum(abs(w) * r for w, r in zip(row, reach, strict=True)) + abs(b)
                for row, b in zip(layer.weights.tolist(), layer.biases.tolist(), strict=True)
            ]
            require(max(sums) < EXACT, f"{where}: a sum can reach 2^53, beyond which doubles round")
            reach = [total >> layer.shift for total in sums]
        require(self.layers[-1].shift == 0, "layers: the last one must have no shift")

    def to_dict(self) -> dict[str, Any]:
        """Return weights, biases and shifts."""
        return {
            "kind": self.kind,
            "layers": [
                {"weights": layer.weights.tolist(), "biases": layer.biases.tolist(), "shift": layer.shift}
                for layer in self.layers
            ],
        }


@dataclass(frozen=True, eq=False)
class Trees(Surrogate):
    """Sums of whole leaf values; the first largest score wins.  One tree may say the region itself.

    Attributes
    ----------
    feature, left, right : ndarray of int, shape ``(nodes,)``
        Over all trees; `LEAF` for the feature of a leaf.  Children come after their parents.
    threshold : ndarray of int, shape ``(nodes,)``
        Places up to it go left; of words, those in the node's set.
    sets : mapping of node to tuple of int
        Positions of words that go left.
    roots : ndarray of int
    values : ndarray of int, shape ``(nodes, scores)``
        What a leaf adds; with one score and ``names_regions``, the region.
    """

    kind = "trees"
    feature: Indices
    left: Indices
    right: Indices
    threshold: Indices
    sets: Mapping[int, tuple[int, ...]]
    roots: Indices
    values: Indices
    count: int
    names_regions: bool = False

    @property
    def regions(self) -> int:
        """How many regions there are."""
        return self.count

    def __call__(self, places: Indices) -> Indices:
        """Return the places of the largest scores, the first of equals; or what the leaves say."""
        if self.names_regions:
            return self.scores(places)[:, 0]
        if self.count == 2 and self._masks is not None:  # the difference tells, in half the time
            return (self._masks.sums(places, self._difference)[:, 0] > 0).astype(np.int64)
        return np.asarray(np.argmax(self.scores(places), axis=1), dtype=np.int64)

    def scores(self, places: Indices) -> Indices:
        """Return whole scores, shape ``(n, scores)``."""
        return self.walk(places) if self._masks is None else self._masks.sums(places, self._parts)

    @cached_property
    def _masks(self) -> LeafMasks | None:
        counts = [one.places for one in self.inputs]
        return leaf_masks(self.feature, self.left, self.right, self.threshold, self.sets, self.roots, counts)

    @cached_property
    def _parts(self) -> Indices:
        return self._masks.parts(self.values) if self._masks is not None else self.values

    @cached_property
    def _difference(self) -> Indices:
        return self._parts[1:] - self._parts[:1]

    def walk(self, places: Indices) -> Indices:
        """Return the same scores node by node, for trees too large for masks; some trees and records at a time."""
        sums = np.zeros((len(places), self.values.shape[1]), dtype=np.int64)
        for start in range(0, len(places), WALKERS):
            own = np.ascontiguousarray(places[start : start + WALKERS])
            together = max(1, WALKERS // len(own))
            for tree in range(0, len(self.roots), together):
                node = self._leaves(own, self.roots[tree : tree + together])
                sums[start : start + WALKERS] += self.values[node].sum(axis=1)
        return sums

    def _leaves(self, places: Indices, roots: Indices) -> Indices:
        node = np.tile(roots, len(places))
        row = np.repeat(np.arange(len(places)), len(roots))
        walking, at = np.arange(len(node)), node
        while (inner := np.flatnonzero((asked := self.feature[at]) != LEAF)).size:
            walking, at, asked = walking[inner], at[inner], asked[inner]
            seen = places[row[walking], asked]
            right = seen > self.threshold[at]
            if self.sets:
                right = np.where(self._by_set[at], ~self._members[self._row[at], seen], right)
            at = np.where(right, self.right[at], self.left[at])
            node[walking] = at
        return node.reshape(len(places), len(roots))

    @cached_property
    def _by_set(self) -> NDArray[np.bool_]:
        return np.isin(np.arange(len(self.feature)), list(self.sets))

    @cached_property
    def _row(self) -> Indices:
        row = np.zeros(len(self.feature), dtype=np.int64)
        row[list(self.sets)] = np.arange(len(self.sets))
        return row

    @cached_property
    def _members(self) -> NDArray[np.bool_]:
        members = np.zeros((max(1, len(self.sets)), max(one.places for one in self.inputs)), dtype=bool)
        for row, words in enumerate(self.sets.values()):
            members[row, list(words)] = True
        return members

    def prove(self) -> None:
        """See that every walk ends at a leaf, that all indices are in range, and that sums stay below 2^53."""
        nodes = len(self.feature)
        parts = (self.left, self.right, self.threshold, self.values)
        require(nodes > 0 and all(len(part) == nodes for part in parts), "trees: all tables must have one row per node")
        require(self.values.ndim == 2 and self.values.shape[1] >= 1, "trees: leaves must have values")
        inner, place = self.feature != LEAF, np.arange(nodes)
        known = (self.feature >= 0) & (self.feature < len(self.inputs))
        require(bool((known | ~inner).all()), "trees: a node asks about a column that is not there")
        for name, child in (("left", self.left), ("right", self.right)):
            after = (child > place) & (child < nodes)
            require(bool((after | ~inner).all()), f"trees: {name}: children must come after their parents")
        require(len(self.roots) >= 1, "trees: there must be at least one")
        require(bool(((self.roots >= 0) & (self.roots < nodes)).all()), "trees: a root is not there")
        require(all(0 <= at < nodes for at in self.sets), "trees: sets must stand at nodes that are there")
        ordered = np.array([one.ordered for one in self.inputs])
        for at in range(nodes):
            asked = inner[at] and not ordered[self.feature[at]]
            require(
                asked == (at in self.sets), "trees: sets must stand at the nodes that ask about words, and there alone"
            )
        for at, words in self.sets.items():
            most = self.inputs[int(self.feature[at])].places
            require(all(0 <= word < most for word in words), "trees: a set names a word that is not there")
        self._prove_values()

    def _prove_values(self) -> None:
        leaves = self.values[self.feature == LEAF]
        if self.names_regions:
            require(len(self.roots) == 1 and self.values.shape[1] == 1, "trees: one tree alone can name regions")
            require(
                bool(((leaves >= 0) & (leaves < self.count)).all()), "trees: a leaf names a region that is not there"
            )
            return
        require(self.values.shape[1] == self.count >= 1, "trees: leaves must have a value for each region")
        largest = int(max(abs(int(leaves.max())), abs(int(leaves.min()))))
        require(largest * len(self.roots) < EXACT, "trees: a sum can reach 2^53, beyond which doubles round")

    def to_dict(self) -> dict[str, Any]:
        """Return the nodes, tree after tree."""
        return {
            "kind": "tree" if self.names_regions else self.kind,
            "feature": self.feature.tolist(),
            "threshold": self.threshold.tolist(),
            "left": self.left.tolist(),
            "right": self.right.tolist(),
            "sets": {str(at): list(words) for at, words in self.sets.items()},
            "roots": self.roots.tolist(),
            "values": self.values.tolist(),
        }


def require(holds: bool, sentence: str) -> None:
    """Refuse a table that does not hold what it must."""
    if not holds:
        raise ValueError(sentence)


MOST_COMBINATIONS = 1 << 16
SIDE = 1 << 16  # what the longest distance on an input comes to, roughly; a word's where it differs
DISTANCES = 1 << 18  # at a time

Whole = Sequence[int] | Indices


@dataclass(frozen=True, eq=False)
class Joint(Surrogate):
    """Several classifiers at once: a table says which region a combination of their regions is.

    Attributes
    ----------
    parts : tuple of IntegerReLU or Trees
    table : ndarray of int, shape ``(combinations,)``
        By the parts' regions as digits, the first part's the most significant.
    count : int
        How many regions there are.
    """

    kind = "joint"
    parts: tuple[Surrogate, ...]
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
class Cells(Surrogate):
    """The nearest median among the cells of a record's region; the first of equals.

    Attributes
    ----------
    part : IntegerReLU or Trees
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
    part: Surrogate
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


def _prove_plain(part: Surrogate, inputs: tuple[Input, ...], where: str) -> None:
    require(isinstance(part, (IntegerReLU, Trees)), f"{where}: must be a plain copy: layers, trees or a tree")
    require(part.inputs == inputs, f"{where}: must see the same inputs")
