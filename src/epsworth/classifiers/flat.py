"""What trees, forests and boosters share: every node of every tree in flat arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.preprocessing import NOTHING, Preprocessing
from epsworth.classifiers.reading import leading
from epsworth.classifiers.scalers import ignoring_names

LEAF = -1
TIE = 1e-9  # margins below this, per tree, are decided by the classifier itself


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A sum of trees.

    Attributes
    ----------
    feature, left, right : ndarray of int, shape ``(nodes,)``
        Splitting feature and children (`LEAF` at leaves), over all trees.
    threshold : ndarray, shape ``(nodes,)``
        In the units that the trees see.
    roots : ndarray of int, shape ``(trees,)``
    values : ndarray, shape ``(nodes, scores)``
        What a leaf adds to the scores; one score (label 1 where it is positive) or one per class (argmax).
    offset : ndarray, shape ``(scores,)``
        Added to the sum.
    classes : ndarray
        Labels.
    dtype : numpy dtype
        To which the trees cast their input.
    strict : bool
        Whether a value equal to the threshold goes right.
    zero : float
        Values up to this size are taken for zero.
    sparse : bool
        Whether what a sparse matrix leaves out is zero; else it is missing.
    tie : float
        Margins below this, per tree, are too small to trust: the classifier itself decides.
    before : Preprocessing
        What stands before the trees; features and thresholds are those of the columns that it hands on.
    """

    feature: NDArray[np.intp]
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    threshold: Floats
    roots: NDArray[np.intp]
    values: Floats
    offset: Floats
    classes: NDArray[Any]
    dtype: Any
    strict: bool = False
    zero: float = 0.0
    sparse: bool = True
    tie: float = TIE
    before: Preprocessing = NOTHING

    def seen(self, given: NDArray[Any]) -> NDArray[Any]:
        """Return what is handed on as the trees see it: cast."""
        cast = np.asarray(given).astype(self.dtype)
        if self.zero:
            cast[np.abs(cast) <= self.zero] = 0
        return cast

    def turns_left(self, seen: NDArray[Any], threshold: Floats) -> Bools:
        """Compare values, as the trees see them, with thresholds (elementwise)."""
        return np.asarray(seen < threshold if self.strict else seen <= threshold)

    def labels(self, given: NDArray[Any]) -> tuple[NDArray[Any], Bools]:
        """Return the labels of what is handed on, and where their margins are too large to be near ties."""
        places, lead = leading(self.scores(given))
        return self.classes[np.minimum(places, len(self.classes) - 1)], lead >= self.tie * len(self.roots)

    def places(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Return the places of labels among the classes, which come in any order."""
        at = {label: place for place, label in enumerate(self.classes.tolist())}
        return np.array([at[label] for label in labels.tolist()], dtype=np.intp)

    def scores(self, given: NDArray[Any]) -> Floats:
        """Return the scores of what is handed on, shape ``(records, scores)``, by walking down every tree."""
        seen, node = self.seen(given), np.tile(self.roots, len(given))
        walking = np.flatnonzero(self.left[node] != LEAF)  # most arrive long before the deepest
        while walking.size:
            at = node[walking]
            goes_left = self.turns_left(seen[walking // len(self.roots), self.feature[at]], self.threshold[at])
            node[walking] = np.where(goes_left, self.left[at], self.right[at])
            walking = walking[self.left[node[walking]] != LEAF]
        return np.asarray(self.values[node.reshape(len(given), -1)].sum(axis=1) + self.offset)


def flat_model(nodes: list[tuple[Any, ...]], values: list[Floats], model: Any, dtype: Any) -> TreeModel:
    """Concatenate trees, shifting children by the number of nodes before them."""
    sizes = np.array([len(feature) for feature, *_ in nodes])
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
    shift = np.repeat(roots, sizes)
    feature, left, right, threshold = (np.concatenate([tree[part] for tree in nodes]) for part in range(4))
    leaf = left == LEAF
    return TreeModel(
        feature=np.where(leaf, LEAF, feature).astype(np.intp),
        left=np.where(leaf, LEAF, left + shift).astype(np.intp),
        right=np.where(leaf, LEAF, right + shift).astype(np.intp),
        threshold=threshold.astype(np.float64),
        roots=roots,
        values=np.concatenate(values).astype(np.float64),
        offset=np.zeros(values[0].shape[1]),
        classes=np.asarray(model.classes_),
        dtype=dtype,
    )


def added(leaves: ArrayLike, score: int, scores: int) -> Floats:
    """Return what the nodes of a tree add to each score: nothing but to one."""
    found = np.zeros((len(np.asarray(leaves)), scores))
    found[:, score] = leaves
    return found


def with_offset(found: TreeModel, model: Any) -> TreeModel:
    """Read the constant start of boosting off one record: the model's score minus the trees' sum."""
    probe = np.zeros((1, model.n_features_in_))
    with ignoring_names():
        score = np.atleast_1d(model.decision_function(probe)[0])
    return replace(found, offset=score - found.scores(probe)[0])
