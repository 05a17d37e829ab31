"""What can be seen inside the tree models of scikit-learn.

A tree sends a value left where ``float32(x) <= threshold`` (histogram boosting compares doubles; `boosters` tells
what XGBoost and LightGBM do), after the steps of its pipeline (see `preprocessing`).  Exactly those operations are run,
so that thresholds can be located to the last bit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.classifiers.boosters import lightgbm_model, xgboost_model
from epsworth.classifiers.flat import LEAF, TreeModel, added, flat_model, with_offset
from epsworth.classifiers.genuine import all_of_kind, kind_of
from epsworth.classifiers.onnx_models import is_onnx
from epsworth.classifiers.onnx_reading import onnx_trees
from epsworth.classifiers.preprocessing import preprocessing_before
from epsworth.classifiers.scalers import opened


def tree_model(model: Any) -> TreeModel | None:
    """Return the inside of a supported tree model, or None.

    Supported: decision trees, random forests, extra trees, gradient boosting (with a constant start),
    histogram gradient boosting without categorical splits, XGBoost and LightGBM (see `boosters`); each also behind
    steps that can be seen through (see `preprocessing`).  And the trees of an ONNX model (see `onnx_reading`).
    """
    if is_onnx(model):
        return onnx_trees(model)
    found = opened(model)
    if found is None:
        return None
    estimator, kind, steps = found
    reader = READERS.get(kind)
    if reader is None or np.ndim(getattr(estimator, "classes_", [[]])) != 1:
        return None
    before = preprocessing_before(model, steps)
    if isinstance(before, str):
        return None
    trees = reader(estimator)
    return trees and replace(trees, before=before)


def genuine_trees(estimators: Any, *kinds: str) -> bool:
    """Tell whether all members of an ensemble answer by their own ``tree_``, and that is scikit-learn's."""
    from sklearn.tree._tree import Tree

    return all_of_kind(estimators, kinds) and all(type(estimator.tree_) is Tree for estimator in estimators)


def _forest(model: Any) -> TreeModel | None:
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


def _gradient_boosting(model: Any) -> TreeModel | None:
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


def _hist_gradient_boosting(model: Any) -> TreeModel | None:
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
            nodes.append((*ways, node["num_threshold"]))
            values.append(added(node["value"], score, scores))
    return with_offset(flat_model(nodes, values, model, np.float64), model)


def _sklearn_nodes(tree: Any) -> tuple[Any, ...]:
    return tree.feature, tree.children_left, tree.children_right, tree.threshold


READERS = {
    "DecisionTreeClassifier": _forest,
    "ExtraTreeClassifier": _forest,
    "RandomForestClassifier": _forest,
    "ExtraTreesClassifier": _forest,
    "GradientBoostingClassifier": _gradient_boosting,
    "HistGradientBoostingClassifier": _hist_gradient_boosting,
    "XGBClassifier": xgboost_model,
    "LGBMClassifier": lightgbm_model,
}
