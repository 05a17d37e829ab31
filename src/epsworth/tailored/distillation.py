"""Whole-number copies of classifiers that were read, and where these are certain to answer as the classifiers do.

The turns of a tree are asked of its own steps at every place of a grid, so that they are those of the classifier; what
is rounded are leaf values (to 2^-40) and weights (to 24 bits), and a region can differ where scores are that close.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats, Indices
from epsworth.classifiers.classifier import as_classifier
from epsworth.classifiers.networks import DOUBLE, LARGE
from epsworth.classifiers.pipeline import ShortCuts
from epsworth.classifiers.reading import Unsupported, answers_as_read, known_labels, unlike
from epsworth.classifiers.structure import read_trees
from epsworth.classifiers.trees import TreeModel
from epsworth.grids import Grid
from epsworth.records import Records
from epsworth.tailored.sums import Sums, at_random, copy_of_sums, in_whole_numbers, spread, sums_of
from epsworth.tailored.surrogates import EXACT, LEAF, IntegerReLU, Surrogate, Trees

TOGETHER = 4_096  # records that are certified at once
PROBES = 256
# By which error bounds are raised for the rounding of their own sums; an allowance: no input is known that needs it.
ABOVE = 1 + 1e-9


def copy_of(model: Any, grids: Sequence[Grid], records: Records) -> Surrogate:
    """Return a whole-number copy of a classifier's own trees or sums, or say what stands in the way.

    Region k is the k-th of the labels that the model lists (``classes_``), or of a network's scores.

    Parameters
    ----------
    model : fitted classifier
    grids : sequence of Grid
        One for each column of the records.
    records : Records
        At least one: what kind its columns are is what the model's steps are asked with.
    """
    if len(grids) != len(records.names):
        raise Unsupported(f"there are {len(grids)} grids for {len(records.names)} columns")
    try:
        result = copy_of_trees(model, grids, records)
    except Unsupported as no_trees:
        try:
            return copy_of_sums(model, grids, records)
        except Unsupported as no_sums:
            raise Unsupported(f"{no_trees}; {no_sums}") from None
    return _ordered(result, _order(model))


def _order(model: Any) -> Indices:
    """Return where the trees' score of each label stands: thresholds list the labels in an order of their own."""
    trees, labels = read_trees(model), known_labels(model)
    own = np.asarray(trees.classes)
    labels = own if labels is None else labels
    if len(own) != max(2, trees.values.shape[1]) or sorted(map(repr, own.tolist())) != sorted(
        map(repr, labels.tolist())
    ):
        raise Unsupported("the scores of its trees are not one for each label")
    at = {label: place for place, label in enumerate(own.tolist())}
    return np.array([at[label] for label in labels.tolist()], dtype=np.int64)


def _ordered(copy: Trees, order: Indices) -> Trees:
    return copy if (order == np.arange(len(order))).all() else replace(copy, values=copy.values[:, order])


@dataclass(frozen=True, eq=False)
class Certificate(ABC):
    """Where a copy is certain to answer as its classifier does; sufficient, and not necessary."""

    copy: Surrogate
    smooth: Bools

    def __call__(self, places: Indices, between: ArrayLike = False) -> Bools:
        """Tell of which records the classifier's label is that of the copy, for certain.

        Claim: where this is true, the model's own ``predict`` gives the label of region ``copy(places)`` to *every*
        record whose columns hold the grids' values at these places, and, in the columns that lie ``between``, any
        number of the public range whose nearest place is this one.  Nothing is claimed of numbers beyond the range, or
        missing ones, for which a place merely stands; nor of another model, however similar.

        Parameters
        ----------
        places : ndarray of int, shape ``(n, inputs)``
        between : array_like of bool, shape ``(inputs,)`` or ``(n, inputs)``
            Columns whose numbers may lie up to half a step from their places.  What leaves a client holds the grids'
            own values in the sensitive columns, and needs none of these.

        Returns
        -------
        ndarray of bool, shape ``(n,)``
        """
        places = np.asarray(places, dtype=np.int64)
        ordered = np.array([one.ordered for one in self.copy.inputs])
        apart = np.broadcast_to(np.asarray(between, dtype=bool), places.shape) & ordered
        known = ~(apart & ~self.smooth).any(axis=1)
        cuts = range(TOGETHER, len(places), TOGETHER)
        parts = zip(np.split(places, cuts), np.split(apart, cuts), strict=True)
        with np.errstate(invalid="ignore"):  # what is rounded by nobody knows how much certifies nothing, NaN neither
            return np.asarray(np.concatenate([self._leads(p, a) for p, a in parts]) & known)

    @abstractmethod
    def _leads(self, places: Indices, apart: Bools) -> Bools:
        """Tell where the winning score leads all others by more than everything was rounded by."""


def certificate_of(model: Any, grids: Sequence[Grid], records: Records, copy: Surrogate) -> Certificate:
    """Return where a copy, made by `copy_of` of the same model on the same grids, answers as that; or why not known.

    Every rounding counts: that of weights, leaves and shifts, that of the steps, and what the classifier computes by
    floating-point numbers in any order.
    """
    if isinstance(copy, IntegerReLU):
        return _of_sums(sums_of(model, grids, records), copy)
    trees, order = read_trees(model), _order(model)
    if not isinstance(copy, Trees):
        raise Unsupported("the copy is neither trees nor sums")
    return _of_trees(model, trees, order, grids, records, copy)


@dataclass(frozen=True, eq=False)
class SumsCertificate(Certificate):
    """Of sums: error bounds are carried through the layers.

    ``residual`` holds, layer by layer, by how much weights and biases differ from those of the model in its units.
    """

    copy: IntegerReLU
    sums: Sums
    scales: list[float]
    residual: list[tuple[Floats, Floats]]

    def _leads(self, places: Indices, apart: Bools) -> Bools:
        inputs = spread(self.sums.grids, places)
        off = self._half_steps(apart)
        rounding = np.broadcast_to(self.scales[0] * self.sums.rounding, (len(places), len(self.sums.rounding)))
        pairs = pairwise(self.copy.layers)
        for number, (layer, _) in enumerate(pairs):
            change, of_bias = self.residual[number]
            error = off @ np.abs(layer.weights.T) + (inputs + off) @ np.abs(change.T) + np.abs(of_bias) + rounding
            error *= ABOVE
            result = inputs @ layer.weights.T.astype(np.float64) + layer.biases
            inputs = np.floor(np.maximum(result, 0) / 2.0**layer.shift)
            off = np.where(result + error <= 0, 0.0, error / 2.0**layer.shift + 1)
            later, unit = self.sums.network.affine[number + 1], self.sums.network.unit + 4 * DOUBLE
            natural = (inputs + off) / (self.scales[number] / 2.0**layer.shift)
            terms = natural @ later.terms.T + later.constants + 1  # softmax errs absolutely
            terms = np.where(terms < LARGE, terms, np.inf)
            rounding = self.scales[number + 1] * later.additions * unit * terms
        return self._clear(inputs, off, rounding + self.scales[-1] * self.sums.slack)

    def _half_steps(self, apart: Bools) -> Floats:
        """Return how far the inputs may lie from what the model sees, in places."""
        parts: list[Floats] = []
        for j, grid in enumerate(self.sums.grids):
            if not grid.input.ordered:
                parts.append(np.zeros((len(apart), grid.input.places)))
                continue
            parts.append(np.where(apart[:, [j]], 0.5 + _blur(grid), 0.0))
        return np.concatenate(parts, axis=1)

    def _clear(self, inputs: Floats, off: Floats, rounding: Floats) -> Bools:
        """Compare the leads of the last layer with their errors, in which what two scores share is counted once."""
        layer, (change, of_bias) = self.copy.layers[-1], self.residual[-1]
        weights = layer.weights.astype(np.float64)
        scores = inputs @ weights.T + layer.biases
        top, clear = np.argmax(scores, axis=1), np.ones(len(inputs), dtype=bool)
        for own in np.unique(top):
            rows = np.flatnonzero(top == own)
            error = off[rows] @ np.abs(weights[own] - weights).T
            error += (inputs + off)[rows] @ np.abs(change[own] - change).T + np.abs(of_bias[own] - of_bias)
            error += rounding[rows] + rounding[rows][:, [own]]
            leads = scores[rows][:, [own]] - scores[rows] > error * ABOVE
            leads[:, own] = True
            clear[rows] = leads.all(axis=1)
        return clear


def _of_sums(sums: Sums, copy: IntegerReLU) -> Certificate:
    made, scales = in_whole_numbers(sums)
    if made.to_dict() != copy.to_dict():
        raise Unsupported("the copy is not that of this model on these grids")
    handed, residual = 1.0, []
    for layer, (weights, biases), scale in zip(made.layers, sums.layers, scales, strict=True):
        residual.append((layer.weights - scale / handed * weights, layer.biases - scale * biases))
        handed = scale / 2.0**layer.shift
    return SumsCertificate(copy, sums.smooth & _sharp(sums.grids), sums, scales, residual)


@dataclass(frozen=True, eq=False)
class TreesCertificate(Certificate):
    """Of sums of trees: where a number may lie on either side of a threshold, the worse side counts.

    ``slack`` is by how much a lead can be rounded, in the copy's units.
    """

    copy: Trees
    slack: float

    def _leads(self, places: Indices, apart: Bools) -> Bools:
        top, clear, copy = self.copy(places), np.ones(len(places), dtype=bool), self.copy
        ends = self._ends(places, apart)
        for own in np.unique(top):
            rows = np.flatnonzero(top == own)
            leads = self._least[own][ends[rows]].sum(axis=1) > self.slack
            leads[:, own] = True
            clear[rows] = leads.all(axis=1)
        return clear if copy.regions > 1 else np.zeros_like(clear)

    def _ends(self, places: Indices, apart: Bools) -> Indices:
        """Walk down every tree, to a leaf or to the first node whose turn is open; return where the walks end."""
        copy = self.copy
        node = np.tile(copy.roots, (len(places), 1))
        rows = np.broadcast_to(np.arange(len(places))[:, np.newaxis], node.shape)
        walking = copy.feature[node] != LEAF
        by_set, members = self._sets
        while walking.any():
            at, row = node[walking], rows[walking]
            asked = copy.feature[at]
            seen, threshold = places[row, asked], copy.threshold[at]
            # turns change between the threshold and the next place, within half a step of both
            halts = apart[row, asked] & ((seen == threshold) | (seen == threshold + 1))
            left = np.where(by_set[at] >= 0, members[by_set[at], seen], seen <= threshold)
            node[walking] = np.where(halts, at, np.where(left, copy.left[at], copy.right[at]))
            walking[walking] = ~halts & (copy.feature[node[walking]] != LEAF)
        return node

    @cached_property
    def _sets(self) -> tuple[Indices, Bools]:
        """Return which row of the second table tells a node's words, -1 without; one more row for these."""
        copy = self.copy
        row = np.full(len(copy.feature), -1, dtype=np.int64)
        row[list(copy.sets)] = np.arange(len(copy.sets))
        members = np.zeros((len(copy.sets) + 1, max(one.places for one in copy.inputs)), dtype=bool)
        for at, words in enumerate(copy.sets.values()):
            members[at, list(words)] = True
        return row, members

    @cached_property
    def _least(self) -> list[Indices]:
        """Return by how much each score leads the others at least, among the leaves below each node."""
        copy, result = self.copy, []
        levels, level = [], np.unique(copy.roots)
        while level.size:
            inner = level[copy.feature[level] != LEAF]
            levels.append(inner)
            level = np.concatenate([copy.left[inner], copy.right[inner]])
        for own in range(copy.regions):
            least = copy.values[:, [own]] - copy.values
            for inner in reversed(levels):
                least[inner] = np.minimum(least[copy.left[inner]], least[copy.right[inner]])
            result.append(least)
        return result


def _of_trees(
    model: Any, trees: TreeModel, order: Indices, grids: Sequence[Grid], records: Records, copy: Trees
) -> TreesCertificate:
    places = at_random(grids, PROBES)
    values = {j: grid.values[places[:, j]] for j, grid in enumerate(grids)}
    asked = records.take(np.zeros(len(places), dtype=np.intp), values)
    given = trees.before(asked)
    if not answers_as_read(as_classifier(model).labels(asked), *trees.labels(given)):
        raise Unsupported(unlike("trees"))
    scores = trees.scores(given)
    scores = (scores if scores.shape[1] > 1 else np.hstack([np.zeros_like(scores), scores]))[:, order]
    whole = copy.scores(places).astype(np.float64)
    if not np.abs(scores).max() or not np.abs(whole).max():
        raise Unsupported("all scores are zero")
    scale = 2.0 ** np.rint(np.log2(np.abs(whole).max() / np.abs(scores).max()))
    slack = len(trees.roots) + scale * trees.slack  # of a lead: half a unit of each leaf, of both scores
    if not (np.abs(whole - scale * scores) <= slack).all():
        raise Unsupported("the copy is not that of this model on these grids")
    return TreesCertificate(copy, _kept_in_order(trees, len(grids)) & _sharp(grids), slack * ABOVE)


def _kept_in_order(trees: TreeModel, width: int) -> Bools:
    """Tell of which columns all that trees ask about keeps or reverses their order, between places, too."""
    if not trees.before.steps:
        return np.ones(width, dtype=bool)
    asked = np.unique(trees.feature[trees.left != LEAF])
    columns = trees.before.columns
    lost: NDArray[np.bool_] = columns.uses[asked] & (columns.order[asked] == 0)[:, np.newaxis]
    return np.asarray(~lost.any(axis=0))


def _sharp(grids: Sequence[Grid]) -> Bools:
    """Tell which numbers' nearest places are found by less than a quarter step's error."""
    return np.array([grid.input.ordered and _blur(grid) < 0.25 for grid in grids])


def _blur(grid: Grid) -> float:
    """Bound the rounding of a number's place and of the grid's values, in steps."""
    low, high = grid.feature.lower, grid.feature.upper
    return 16 * DOUBLE * grid.input.places * (1 + (abs(low) + abs(high)) / (high - low))


FINEST = 40  # bits after the point of leaf values, where sums leave room for them


def copy_of_trees(model: Any, grids: Sequence[Grid], records: Records) -> Trees:
    """Return a copy of trees whose turns are those of the model at all places, or say what stands in the way.

    Parameters
    ----------
    model : fitted classifier
    grids : sequence of Grid
        One for each column of the records.
    records : Records
        At least one: its values stand where a column is not asked about.
    """
    trees = read_trees(model)
    if trees.decision is not None:
        raise Unsupported("the members of the ensemble decide by themselves, so that they are no one sum of trees")
    through = ShortCuts(trees.before, records, {})
    place = np.arange(len(grids)) if not trees.before.steps else _owners(trees, len(grids))
    nodes = np.flatnonzero(trees.left != LEAF)
    sets: dict[int, tuple[int, ...]] = {}
    threshold, swapped = np.zeros(len(trees.feature), dtype=np.int64), np.zeros(len(trees.feature), dtype=bool)
    for position, grid in enumerate(grids):
        own = nodes[place[trees.feature[nodes]] == position]
        if not own.size:
            continue
        columns, at = np.unique(trees.feature[own], return_inverse=True)
        seen = _seen(trees, columns, position, grid, through)
        if grid.input.ordered:
            steps = np.diff(seen, axis=1)
            falls = np.asarray((steps <= 0).all(axis=1))
            if not (falls | (steps >= 0).all(axis=1)).all():
                raise Unsupported(f"a step keeps no order of {grid.feature.name!r}")
            swapped[own] = np.asarray(falls)[at]
            threshold[own] = _changes(trees, own, seen, at) - 1
        else:
            sets |= {
                int(node): tuple(np.flatnonzero(trees.turns(seen[c], np.full(seen.shape[1], node))).tolist())
                for node, c in zip(own, at, strict=True)
            }
    return _tables(trees, grids, place, threshold, swapped, sets)


def _owners(trees: TreeModel, width: int) -> NDArray[np.intp]:
    """Return which of the record's columns feeds each seen one."""
    uses = trees.before.columns.uses
    asked = np.unique(trees.feature[trees.left != LEAF])
    if (uses[asked].sum(axis=1) > 1).any():
        raise Unsupported("a step mixes several columns, so that a tree's turn depends on all of them")
    return np.where(uses.any(axis=1), np.argmax(uses, axis=1), 0)


def _seen(trees: TreeModel, columns: Indices, position: int, grid: Grid, through: ShortCuts) -> NDArray[Any]:
    """Return what trees see in some of their columns at all places of a record's, shape ``(columns, places)``."""
    if trees.before.steps:
        handed = through(position, grid.values)[:, columns]
    else:
        handed = np.repeat(np.asarray(grid.values, dtype=np.float64)[:, np.newaxis], len(columns), axis=1)
    return np.ascontiguousarray(trees.seen(np.asarray(handed, dtype=np.float64)).T)


def _changes(trees: TreeModel, nodes: Indices, seen: NDArray[Any], at: Indices) -> Indices:
    """Return how many places, counted from the first, go the way that small ones go; turns change once."""
    low, high = np.zeros(len(nodes), dtype=np.int64), np.full(len(nodes), seen.shape[1])
    rises = seen[at, 0] <= seen[at, -1]
    while (low < high).any():
        middle = np.minimum((low + high) // 2, seen.shape[1] - 1)
        before = trees.turns(seen[at, middle], nodes) == rises
        low, high = np.where(before & (low < high), middle + 1, low), np.where(before, high, np.minimum(high, middle))
    return low


def _tables(
    trees: TreeModel, grids: Sequence[Grid], place: NDArray[np.intp], threshold: Indices, swapped: Bools,
    sets: dict[int, tuple[int, ...]],
) -> Trees:  # fmt: skip
    leaf = trees.left == LEAF
    left, right = np.where(swapped, trees.right, trees.left), np.where(swapped, trees.left, trees.right)
    values = trees.values if trees.values.shape[1] > 1 else np.hstack([np.zeros_like(trees.values), trees.values])
    offset = trees.offset if trees.values.shape[1] > 1 else np.concatenate([[0.0], trees.offset])
    values = np.where(leaf[:, np.newaxis], values, 0.0)
    values[leaf & (np.arange(len(leaf)) < _end_of_first(trees))] += offset  # what every record starts from
    largest = float(np.abs(values).max()) * len(trees.roots) + 1
    bits = min(FINEST, int(np.log2(EXACT / 2 / largest)))
    order = _parents_first(left, right, trees.roots)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    feature = np.where(leaf, LEAF, place[np.where(leaf, 0, trees.feature)])
    return Trees(
        tuple(grid.input for grid in grids),
        feature[order].astype(np.int64),
        np.where(leaf, LEAF, rank[np.where(leaf, 0, left)])[order],
        np.where(leaf, LEAF, rank[np.where(leaf, 0, right)])[order],
        threshold[order],
        {int(rank[node]): words for node, words in sets.items()},
        rank[trees.roots].astype(np.int64),
        np.rint(values[order] * 2.0**bits).astype(np.int64),
        values.shape[1],
    )


def _end_of_first(trees: TreeModel) -> int:
    """Return where the nodes of the first tree end."""
    return int(trees.roots[1]) if len(trees.roots) > 1 else len(trees.feature)


def _parents_first(left: Indices, right: Indices, roots: Indices) -> Indices:
    """Return all reachable nodes, level by level."""
    result, level = [], np.asarray(roots, dtype=np.int64)
    while level.size:
        result.append(level)
        inner = level[left[level] != LEAF]
        level = np.concatenate([left[inner], right[inner]])
    return np.concatenate(result)
