"""What can be seen inside the tree models of scikit-learn.

A tree sends a value left where ``float32(x) <= threshold``; histogram boosting compares doubles.  Exactly those
operations are run, so that thresholds can be located to the last bit.  A missing value goes the way that was learned.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.classifiers.flat import LEAF, TreeModel, added, flat_model, with_offset
from epsworth.classifiers.genuine import all_of_kind, kind_of


def genuine_trees(estimators: Any, *kinds: str) -> bool:
    """Tell whether all members of an ensemble answer by their own ``tree_``, and that is scikit-learn's."""
    from sklearn.tree._tree import Tree

    return all_of_kind(estimators, kinds) and all(type(estimator.tree_) is Tree for estimator in estimators)


def forest_model(model: Any) -> TreeModel | None:
    estimators = getattr(model, "estimators_", [model])
    if not genuine_trees(estimators, "DecisionTreeClassifier", "ExtraTreeClassifier"):
        return None
    trees = [estimator.tree_ for estimator in estimators]
    values = [_shares(tree.value[:, 0, :]) for tree in trees]
    if len(model.classes_) == 1:
        values = [np.full((tree.node_count, 1), -1.0) for tree in trees]  # never a second label
    elif len(model.classes_) == 2:
        values = [shares[:, 1:] - shares[:, :1] for shares in values]  # label 1 wins where its share is larger
    return flat_model([_sklearn_nodes(tree) for tree in trees], values, model, np.float32)


def _shares(counts: Floats) -> Floats:
    total = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.where(total > 0, total, 1))


def gradient_boosting_model(model: Any) -> TreeModel | None:
    if not genuine_trees(model.estimators_.ravel(), "DecisionTreeRegressor"):
        return None
    same = kind_of(model.init_) == "DummyClassifier" and model.init_.strategy in ("prior", "most_frequent", "constant")
    if not same and not (isinstance(model.init, str) and model.init == "zero"):
        return None  # the start depends on the record, or on chance
    scores = model.estimators_.shape[1]
    nodes, values = [], []
    for stage in model.estimators_:
        for score, estimator in enumerate(stage):
            nodes.append(_sklearn_nodes(estimator.tree_))
            values.append(added(model.learning_rate * estimator.tree_.value[:, 0, 0], score, scores))
    return with_offset(flat_model(nodes, values, model, np.float32), model)


def histogram_boosting_model(model: Any) -> TreeModel | None:
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
            ways = (np.where(leaf, LEAF, node[part].astype(np.intp)) for part in ("feature_idx", "left", "right"))
            nodes.append((*ways, node["num_threshold"], node["missing_go_to_left"]))
            values.append(added(node["value"], score, scores))
    return with_offset(flat_model(nodes, values, model, np.float64), model)


def _sklearn_nodes(tree: Any) -> tuple[Any, ...]:
    return tree.feature, tree.children_left, tree.children_right, tree.threshold, tree.missing_go_to_left
