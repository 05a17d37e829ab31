"""What can be seen inside the tree models of scikit-learn.

A tree sends a value left where ``float32(x) <= threshold``; histogram boosting compares doubles.  Exactly those
operations are run, so that thresholds can be located to the last bit.  A missing value goes the way that was learned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.columns import Columns
from epsworth.classifiers.flat import LEAF, TreeModel, added, flat_model, with_offset
from epsworth.classifiers.genuine import all_of_kind, kind_of
from epsworth.classifiers.preprocessing import Preprocessing

CODES = 256  # that categories have, at most


def genuine_trees(estimators: Any, *kinds: str) -> bool:
    """Tell whether all members of an ensemble answer by their own ``tree_``, and that is scikit-learn's."""
    from sklearn.tree._tree import Tree

    return all_of_kind(estimators, kinds) and all(type(estimator.tree_) is Tree for estimator in estimators)


def forest_model(model: Any) -> TreeModel | None:
    """Return the inside of a decision tree, or of a forest, whose leaves hold class shares."""
    estimators = getattr(model, "estimators_", [model])
    if not genuine_trees(estimators, "DecisionTreeClassifier", "ExtraTreeClassifier"):
        return None
    trees = [estimator.tree_ for estimator in estimators]
    values = [_shares(tree.value[:, 0, :]) for tree in trees]
    if len(model.classes_) == 1:
        values = [np.full((tree.node_count, 1), -1.0) for tree in trees]  # never a second label
    elif len(model.classes_) == 2:
        values = [shares[:, 1:] - shares[:, :1] for shares in values]  # label 1 wins where its share is larger
    found = flat_model([_sklearn_nodes(tree) for tree in trees], values, model, np.float32)
    return replace(found, counts=all(map(_pure, trees)))


def _pure(tree: Any) -> bool:
    """Tell whether what the leaves of a tree add are zeros and ones; weighted shares may miss 1 by a unit."""
    held = tree.value[tree.children_left == LEAF, 0, :]
    return bool(np.isin(held, (0.0, 1.0)).all() and (held.sum(axis=1) == 1).all())


def _shares(counts: Floats) -> Floats:
    total = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.where(total > 0, total, 1))


def gradient_boosting_model(model: Any) -> TreeModel | None:
    """Return the inside of gradient boosting with a constant start."""
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


def histogram_boosting_model(model: Any, given: Columns) -> TreeModel | None:
    """Return the inside of histogram boosting, categories among them; it knows what stands before its trees."""
    if not all_of_kind((predictor for stage in model._predictors for predictor in stage), ("TreePredictor",)):
        return None
    scores, encoded = len(model._predictors[0]), Encoded(model)
    nodes, values = [], []
    for stage in model._predictors:
        for score, predictor in enumerate(stage):
            node = predictor.nodes
            leaf = node["is_leaf"].astype(bool)
            feature, threshold = encoded.splits(predictor)
            ways = (np.where(leaf, LEAF, part.astype(np.intp)) for part in (feature, node["left"], node["right"]))
            nodes.append((*ways, threshold, node["missing_go_to_left"]))
            values.append(added(node["value"], score, scores))
    found = replace(flat_model(nodes, values, model, np.float64), offset=model._baseline_prediction.ravel())
    if model._preprocessor is None:
        return found
    return replace(found, before=Preprocessing((encoded,), encoded.columns(given)))


class Encoded:
    """What the trees of histogram boosting see where some features are categories, as one step.

    First the codes of the categories and the numbers, as its own preprocessor hands them on.  Then one column for
    every split on categories: 0 for those that go left, 1 for those that go right, and missing for a category that is
    missing or unknown.  So a split on categories is a split at 1/2.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.width = model, model.n_features_in_
        self.features: list[int] = []
        self.sides: list[Floats] = []  # of every code
        if model._preprocessor is not None:
            self.known, self.rows = model._bin_mapper.make_known_categories_bitsets()

    def splits(self, predictor: Any) -> tuple[NDArray[np.intp], Floats]:
        """Return the features and thresholds of a tree's nodes; splits on categories get columns of their own."""
        node = predictor.nodes
        feature, threshold = node["feature_idx"].astype(np.intp), node["num_threshold"].copy()
        for at in np.flatnonzero(node["is_categorical"].astype(bool) & ~node["is_leaf"].astype(bool)):
            left = _bits(predictor.raw_left_cat_bitsets[node["bitset_idx"][at]])
            known = _bits(self.known[self.rows[feature[at]]])
            self.sides.append(np.where(left, 0.0, np.where(known, 1.0, np.nan)))
            self.features.append(int(feature[at]))
            feature[at], threshold[at] = self.width + len(self.features) - 1, 0.5
        return feature, threshold

    def transform(self, records: Any) -> Floats:
        """Return what the trees see."""
        seen = np.asarray(self.model._preprocess_X(records, reset=False), dtype=np.float64)
        if not self.features:
            return seen
        codes = seen[:, self.features]
        no_code = ~((codes >= 0) & (codes < CODES))
        places = np.where(no_code, 0, codes).astype(np.intp)
        sides = np.stack(self.sides)[np.arange(len(self.features)), places]
        return np.column_stack([seen, np.where(no_code, np.nan, sides)])

    def columns(self, given: Columns) -> Columns:
        """Return what is known of these columns: numbers come after categories, unchanged."""
        categories = np.asarray(self.model.is_categorical_, dtype=bool)
        order = np.concatenate([np.flatnonzero(categories), np.flatnonzero(~categories)])
        found = given.taken(np.concatenate([order, order[self.features]]).astype(np.intp))
        numbers = np.arange(len(order)) >= categories.sum()
        kept = np.append(numbers, np.zeros(len(self.features), dtype=bool))
        bent = found.bent(0).behind("HistGradientBoostingClassifier")
        return replace(
            bent,
            order=np.where(kept, found.order, 0).astype(np.int8),
            slopes=np.where(kept[:, np.newaxis], found.slopes, bent.slopes),
            terms=np.where(kept[:, np.newaxis], found.terms, bent.terms),
            constants=np.where(kept, found.constants, bent.constants),
            lost=np.where(kept, found.lost, bent.lost),
        )


def _bits(words: NDArray[np.uint32]) -> Bools:
    """Return which of the codes 0 to 255 are in a set of bits."""
    return ((words[:, np.newaxis] >> np.arange(32, dtype=np.uint32)) & 1).astype(bool).ravel()


def _sklearn_nodes(tree: Any) -> tuple[Any, ...]:
    return tree.feature, tree.children_left, tree.children_right, tree.threshold, tree.missing_go_to_left
