"""What can be seen inside tree models: every node of every tree in flat arrays.

A tree of scikit-learn sends a value left where ``float32(x) <= threshold`` (histogram boosting compares
doubles), after the scalers of its pipeline.  `TreeModel.goes_left` runs exactly those operations, so that
thresholds can be located to the last bit.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats

LEAF = -1
AFFINE = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")


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

    def seen(self, table: Floats) -> NDArray[Any]:
        """Return the table as the trees see it: scaled, then cast."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            for scaler in self.scalers:
                table = scaler.transform(table)
        return np.asarray(table).astype(self.dtype)

    def goes_left(self, column: int, natural: Floats, threshold: Floats, width: int) -> Bools:
        """Tell whether natural values of one column go left at the thresholds (elementwise)."""
        table = np.zeros((natural.size, width))
        table[:, column] = natural
        return np.asarray(self.seen(table)[:, column] <= threshold)


def tree_model(model: Any) -> TreeModel | None:
    """Return the inside of a supported tree model, or None.

    Supported: decision trees, random forests, extra trees, gradient boosting (with a constant start),
    histogram gradient boosting without categorical splits; each also behind the per-column scalers of a pipeline.
    """
    steps = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    scalers = tuple(step for step in steps[:-1] if step is not None and step != "passthrough")
    if any(type(step).__name__ not in AFFINE for step in scalers):
        return None
    reader = READERS.get(type(steps[-1]).__name__)
    return reader(steps[-1], scalers) if reader and np.ndim(getattr(steps[-1], "classes_", [[]])) == 1 else None


def _forest(model: Any, scalers: tuple[Any, ...]) -> TreeModel:
    estimators = getattr(model, "estimators_", [model])
    trees = [estimator.tree_ for estimator in estimators]
    values = [_shares(tree.value[:, 0, :]) for tree in trees]
    if len(model.classes_) == 2:
        values = [shares[:, 1:] - shares[:, :1] for shares in values]  # label 1 wins where its share is larger
    return _model([_sklearn_nodes(tree) for tree in trees], values, model, scalers, np.float32)


def _shares(counts: Floats) -> Floats:
    total = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.where(total > 0, total, 1))


def _gradient_boosting(model: Any, scalers: tuple[Any, ...]) -> TreeModel | None:
    if type(model.init_).__name__ != "DummyClassifier" and model.init != "zero":
        return None  # the start depends on the record
    scores = model.estimators_.shape[1]
    nodes, values = [], []
    for stage in model.estimators_:
        for score, estimator in enumerate(stage):
            added = np.zeros((estimator.tree_.node_count, scores))
            added[:, score] = model.learning_rate * estimator.tree_.value[:, 0, 0]
            nodes.append(_sklearn_nodes(estimator.tree_))
            values.append(added)
    found = _model(nodes, values, model, scalers, np.float32)
    return _with_offset_from(model, found)


def _hist_gradient_boosting(model: Any, scalers: tuple[Any, ...]) -> TreeModel | None:
    if model._preprocessor is not None:
        return None  # categorical features
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
    found = _model(nodes, values, model, scalers, np.float64)
    return _with_offset_from(model, found)


def _sklearn_nodes(tree: Any) -> tuple[Any, ...]:
    return tree.feature, tree.children_left, tree.children_right, tree.threshold


def _model(
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
    from dataclasses import replace

    probe = np.zeros((1, model.n_features_in_))
    node = found.roots
    seen = probe[0].astype(found.dtype)
    while (found.left[node] != LEAF).any():
        goes_left = seen[found.feature[node]] <= found.threshold[node]
        step = np.where(goes_left, found.left[node], found.right[node])
        node = np.where(found.left[node] == LEAF, node, step)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        score = np.atleast_1d(model.decision_function(probe)[0])
    return replace(found, offset=score - found.values[node].sum(axis=0))


READERS = {
    "DecisionTreeClassifier": _forest,
    "ExtraTreeClassifier": _forest,
    "RandomForestClassifier": _forest,
    "ExtraTreesClassifier": _forest,
    "GradientBoostingClassifier": _gradient_boosting,
    "HistGradientBoostingClassifier": _hist_gradient_boosting,
}
