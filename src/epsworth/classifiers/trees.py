"""What can be seen inside tree models: every node of every tree in flat arrays.

A tree of scikit-learn sends a value left where ``float32(x) <= threshold`` (histogram boosting compares
doubles; `boosters` tells what XGBoost and LightGBM do), after the scalers of its pipeline.
`TreeModel.goes_left` runs exactly those operations, so that thresholds can be located to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.genuine import all_of_kind, kind_of
from epsworth.classifiers.scalers import ignoring_names, opened, rising

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
    scalers : tuple
        Fitted per-column scalers before the trees.
    dtype : numpy dtype
        To which the trees cast their input.
    strict : bool
        Whether a value equal to the threshold goes right.
    zero : float
        Values up to this size are taken for zero.
    tie : float
        Margins below this, per tree, are too small to trust: the classifier itself decides.
    """

    feature: NDArray[np.intp]
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    threshold: Floats
    roots: NDArray[np.intp]
    values: Floats
    offset: Floats
    classes: NDArray[Any]
    scalers: tuple[Any, ...]
    dtype: Any
    strict: bool = False
    zero: float = 0.0
    tie: float = TIE

    def seen(self, table: Floats) -> NDArray[Any]:
        """Return the table as the trees see it: scaled, then cast."""
        with ignoring_names():
            for scaler in self.scalers:
                table = scaler.transform(table)
        cast = np.asarray(table).astype(self.dtype)
        if self.zero:
            cast[np.abs(cast) <= self.zero] = 0
        return cast

    def turns_left(self, seen: NDArray[Any], threshold: Floats) -> Bools:
        """Compare values, as the trees see them, with thresholds (elementwise)."""
        return np.asarray(seen < threshold if self.strict else seen <= threshold)

    def goes_left(self, column: int, natural: Floats, threshold: Floats, width: int) -> Bools:
        """Tell whether natural values of one column go left at the thresholds (elementwise)."""
        if not self.scalers:
            return self.turns_left(self.seen(natural), threshold)
        table = np.zeros((natural.size, width))
        table[:, column] = natural
        return self.turns_left(self.seen(table)[:, column], threshold)

    def labels(self, table: Floats) -> tuple[NDArray[Any], Bools]:
        """Return the labels of records, and where their margins are too large to be near ties."""
        scores = self.scores(table)
        both = np.column_stack([np.zeros(len(table)), scores]) if scores.shape[1] == 1 else scores
        best = np.partition(both, -2, axis=1)[:, -2:]
        clear = best[:, 1] - best[:, 0] >= self.tie * len(self.roots)
        return self.classes[np.minimum(np.argmax(both, axis=1), len(self.classes) - 1)], np.asarray(clear)

    def places(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Return the places of labels among the classes, which come in any order."""
        at = {label: place for place, label in enumerate(self.classes.tolist())}
        return np.array([at[label] for label in labels.tolist()], dtype=np.intp)

    def scores(self, table: Floats) -> Floats:
        """Return the scores of records, shape ``(records, scores)``, by walking down every tree."""
        seen, node = self.seen(table), np.tile(self.roots, len(table))
        walking = np.flatnonzero(self.left[node] != LEAF)  # most arrive long before the deepest
        while walking.size:
            at = node[walking]
            goes_left = self.turns_left(seen[walking // len(self.roots), self.feature[at]], self.threshold[at])
            node[walking] = np.where(goes_left, self.left[at], self.right[at])
            walking = walking[self.left[node[walking]] != LEAF]
        return np.asarray(self.values[node.reshape(len(table), -1)].sum(axis=1) + self.offset)


def tree_model(model: Any) -> TreeModel | None:
    """Return the inside of a supported tree model, or None.

    Supported: decision trees, random forests, extra trees, gradient boosting (with a constant start),
    histogram gradient boosting without categorical splits, XGBoost and LightGBM (see `boosters`); each also behind
    the per-column scalers of a pipeline, where these keep the order of values (thresholds are bisected).
    """
    from epsworth.classifiers.boosters import lightgbm_model, xgboost_model  # which builds on this file

    found = opened(model)  # scalers that clip keep the order, which is enough
    if found is None or not all(map(rising, found[2])):
        return None
    estimator, kind, scalers = found
    boosters = {"XGBClassifier": xgboost_model, "LGBMClassifier": lightgbm_model}
    reader = (READERS | boosters).get(kind)
    return reader(estimator, tuple(scalers)) if reader and np.ndim(getattr(estimator, "classes_", [[]])) == 1 else None


def genuine_trees(estimators: Any, *kinds: str) -> bool:
    """Tell whether all members of an ensemble answer by their own ``tree_``, and that is scikit-learn's."""
    from sklearn.tree._tree import Tree

    return all_of_kind(estimators, kinds) and all(type(estimator.tree_) is Tree for estimator in estimators)


def _forest(model: Any, scalers: tuple[Any, ...]) -> TreeModel | None:
    estimators = getattr(model, "estimators_", [model])
    if not genuine_trees(estimators, "DecisionTreeClassifier", "ExtraTreeClassifier"):
        return None
    trees = [estimator.tree_ for estimator in estimators]
    values = [_shares(tree.value[:, 0, :]) for tree in trees]
    if len(model.classes_) == 1:
        values = [np.full((tree.node_count, 1), -1.0) for tree in trees]  # never a second label
    elif len(model.classes_) == 2:
        values = [shares[:, 1:] - shares[:, :1] for shares in values]  # label 1 wins where its share is larger
    return flat_model([_sklearn_nodes(tree) for tree in trees], values, model, scalers, np.float32)


def _shares(counts: Floats) -> Floats:
    total = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.where(total > 0, total, 1))


def _gradient_boosting(model: Any, scalers: tuple[Any, ...]) -> TreeModel | None:
    if not genuine_trees(model.estimators_.ravel(), "DecisionTreeRegressor"):
        return None
    same = kind_of(model.init_) == "DummyClassifier" and model.init_.strategy in ("prior", "most_frequent", "constant")
    if not same and not (isinstance(model.init, str) and model.init == "zero"):
        return None  # the start depends on the record, or on chance
    scores = model.estimators_.shape[1]
    nodes, values = [], []
    for stage in model.estimators_:
        for score, estimator in enumerate(stage):
            added = np.zeros((estimator.tree_.node_count, scores))
            added[:, score] = model.learning_rate * estimator.tree_.value[:, 0, 0]
            nodes.append(_sklearn_nodes(estimator.tree_))
            values.append(added)
    found = flat_model(nodes, values, model, scalers, np.float32)
    return _with_offset_from(model, found)


def _hist_gradient_boosting(model: Any, scalers: tuple[Any, ...]) -> TreeModel | None:
    if model._preprocessor is not None:
        return None  # categorical features
    if not all_of_kind((predictor for stage in model._predictors for predictor in stage), ("TreePredictor",)):
        return None
    scores = len(model._predictors[0])
    nodes, values = [], []
    for stage in model._predictors:
        for score, predictor in enumerate(stage):
            node = predictor.nodes
            leaf = node["is_leaf"].astype(bool)
            if node["is_categorical"][~leaf].any():
                return None
            nodes.append(
                (
                    np.where(leaf, LEAF, node["feature_idx"].astype(np.intp)),
                    np.where(leaf, LEAF, node["left"].astype(np.intp)),
                    np.where(leaf, LEAF, node["right"].astype(np.intp)),
                    node["num_threshold"],
                )
            )
            added = np.zeros((len(node), scores))
            added[:, score] = node["value"]
            values.append(added)
    found = flat_model(nodes, values, model, scalers, np.float64)
    return _with_offset_from(model, found)


def _sklearn_nodes(tree: Any) -> tuple[Any, ...]:
    return tree.feature, tree.children_left, tree.children_right, tree.threshold


def flat_model(
    nodes: list[tuple[Any, ...]], values: list[Floats], model: Any, scalers: tuple[Any, ...], dtype: Any
) -> TreeModel:
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
        scalers=scalers,
        dtype=dtype,
    )


def _with_offset_from(model: Any, found: TreeModel) -> TreeModel:
    """Read the constant start of boosting off one record: the model's score minus the trees' sum."""
    probe = np.zeros((1, model.n_features_in_))
    with ignoring_names():
        score = np.atleast_1d(model.decision_function(probe)[0])
    return replace(found, offset=score - replace(found, scalers=()).scores(probe)[0])


READERS = {
    "DecisionTreeClassifier": _forest,
    "ExtraTreeClassifier": _forest,
    "RandomForestClassifier": _forest,
    "ExtraTreesClassifier": _forest,
    "GradientBoostingClassifier": _gradient_boosting,
    "HistGradientBoostingClassifier": _hist_gradient_boosting,
}
