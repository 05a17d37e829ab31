"""Trees fitted to places: words are split into sets, and no order of them goes into the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsworth.arrays import Floats
from epsworth.release.copies import LEAF, Indices, Input, Trees


@dataclass(frozen=True, eq=False)
class Grown:
    """A fitted tree's nodes in the order in which they were split, the most useful first.

    Attributes
    ----------
    feature, left, right, threshold : ndarray of int, shape ``(nodes,)``
        As in `Trees`; of the words of a column, those whose codes are at most the bound go left.
    sets : dict of node to tuple of int
    shares : ndarray, shape ``(nodes, regions)``
        How the records of each node, inner ones too, are spread over the regions.
    """

    feature: Indices
    left: Indices
    right: Indices
    threshold: Indices
    sets: dict[int, tuple[int, ...]]
    shares: Floats

    def first(self, leaves: int) -> Grown:
        """Return the tree that growing would have stopped at with so many leaves.

        The best split is made next, and nodes are numbered as they are made: what stopped earlier is the beginning.
        """
        kept = min(len(self.feature), 2 * leaves - 1)
        inner = self.left[:kept] < kept  # leaves have LEAF, below every node
        inner &= self.left[:kept] != LEAF
        feature, left, right = (np.where(inner, part[:kept], LEAF) for part in (self.feature, self.left, self.right))
        sets = {node: words for node, words in self.sets.items() if node < kept and inner[node]}
        return Grown(feature, left, right, np.where(inner, self.threshold[:kept], 0), sets, self.shares[:kept])

    def as_copy(self, inputs: Sequence[Input], values: Indices, count: int) -> Trees:
        """Return the tree with these values of its nodes, below ``count``."""
        return Trees(
            tuple(inputs), self.feature, self.left, self.right, self.threshold, self.sets,
            np.zeros(1, dtype=np.int64), values[:, np.newaxis], count, names_regions=True,
        )  # fmt: skip

    def likeliest(self, inputs: Sequence[Input]) -> Trees:
        """Return the copy that says the most frequent region of a leaf, the first of equals."""
        return self.as_copy(inputs, np.argmax(self.shares, axis=1).astype(np.int64), self.shares.shape[1])


def grow(
    places: Indices, regions: Indices, inputs: Sequence[Input], count: int, seed: int, *,
    leaves: int, least: int = 1, weights: Floats | None = None, columns: Indices | None = None,
) -> Grown:  # fmt: skip
    """Grow a tree on some columns, best split first.

    Parameters
    ----------
    places : ndarray of int, shape ``(n, inputs)``
    regions : ndarray of int, shape ``(n,)``
        None of them -1.
    inputs : sequence of Input
    count : int
        How many regions there are; some may have no record.
    seed : int
    leaves : int
        At most so many.
    least : int
        Records that a leaf has at least.
    weights : ndarray, optional
        What each record counts.
    columns : ndarray of int, optional
        The inputs that the tree may ask about; default all.
    """
    from sklearn.tree import DecisionTreeClassifier

    columns = np.arange(len(inputs)) if columns is None else columns
    codes = {int(j): word_codes(places[:, j], regions, inputs[j].places, count, weights) for j in columns
             if not inputs[j].ordered}  # fmt: skip
    seen = np.empty((len(places), len(columns)), dtype=np.float32)
    for at, j in enumerate(columns):
        seen[:, at] = codes[int(j)][places[:, j]] if int(j) in codes else places[:, j]
    if leaves < 2 or not len(columns):
        return _stump(regions, count, weights)
    fitted = DecisionTreeClassifier(max_leaf_nodes=leaves, min_samples_leaf=least, random_state=seed)
    fitted.fit(seen, regions, sample_weight=weights)
    tree = fitted.tree_
    inner = tree.children_left != LEAF
    feature = np.where(inner, columns[np.where(inner, tree.feature, 0)], LEAF).astype(np.int64)
    sets = {
        int(node): tuple(np.flatnonzero(codes[int(feature[node])] <= tree.threshold[node]).tolist())
        for node in np.flatnonzero(inner)
        if int(feature[node]) in codes
    }
    asks_numbers = inner & ~np.isin(np.arange(len(inner)), list(sets))
    shares = np.zeros((len(inner), count))
    shares[:, fitted.classes_] = tree.value[:, 0, :] / tree.value[:, 0, :].sum(axis=1, keepdims=True)
    return Grown(
        feature, np.asarray(tree.children_left, dtype=np.int64), np.asarray(tree.children_right, dtype=np.int64),
        np.where(asks_numbers, np.floor(tree.threshold), 0).astype(np.int64), sets, shares,
    )  # fmt: skip


def word_codes(words: Indices, regions: Indices, places: int, count: int, weights: Floats | None = None) -> Floats:
    """Return a code for each word under which splits by a bound are splits into sets that tell regions apart.

    The words' shares of the regions, along the direction in which these differ most: with two regions the best set is
    among those splits (Breiman et al. 1984), with more it is often found (Coppersmith, Hong & Hosking 1999).  Words
    that no record has stand in the middle.
    """
    table = np.zeros((places, count))
    np.add.at(table, (words, regions), 1.0 if weights is None else weights)
    total = table.sum(axis=1)
    known = total > 0
    shares = table[known] / total[known, np.newaxis]
    middle = np.average(shares, axis=0, weights=total[known])
    apart = (shares - middle) * np.sqrt(total[known, np.newaxis])
    direction = np.linalg.svd(apart, full_matrices=False)[2][0]
    codes = np.zeros(places)
    codes[known] = np.round((shares - middle) @ direction, 6)
    return codes.astype(np.float32).astype(np.float64)  # what trees compare


def _stump(regions: Indices, count: int, weights: Floats | None) -> Grown:
    none = np.full(1, LEAF)
    shares = np.bincount(regions, weights, minlength=count).astype(np.float64)
    return Grown(none, none, none, np.zeros(1, dtype=np.int64), {}, (shares / shares.sum())[np.newaxis])
