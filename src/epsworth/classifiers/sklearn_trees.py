"""What can be seen inside the tree models of scikit-learn.

A tree sends a value left where ``float32(x) <= threshold``; histogram boosting compares doubles.  Exactly those
operations are run, so that thresholds can be located to the last bit.  A missing value goes the way that was learned.


Random forests asked about few records: the sums of ``predict`` without its per-tree ceremony.

scikit-learn hands every tree to a scheduler, which takes 70 us each: most of the time of a short question.
Here the trees add up their class shares in the same order, in the same precision, hence to the same label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.pipeline import Preprocessing
from epsworth.classifiers.reading import Predict, library_class
from epsworth.classifiers.transformers import Columns
from epsworth.classifiers.trees import LEAF, MIDDLE, Sides, TreeModel, added, flat_model, with_offset


def genuine_trees(estimators: Any, *kinds: str) -> bool:
    """Tell whether all members of an ensemble answer by their own ``tree_``, and that is scikit-learn's."""
    from sklearn.tree._tree import Tree

    return all(library_class(one) in kinds and type(one.tree_) is Tree for one in estimators)


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
    constant = ("prior", "most_frequent", "constant")
    same = library_class(model.init_) == "DummyClassifier" and model.init_.strategy in constant
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
    if any(library_class(predictor) != "TreePredictor" for stage in model._predictors for predictor in stage):
        return None
    sides = Sides(model.n_features_in_, other=np.nan)
    scores, known = len(model._predictors[0]), _known_codes(model)
    nodes, values = [], []
    for stage in model._predictors:
        for score, predictor in enumerate(stage):
            node = predictor.nodes
            leaf = node["is_leaf"].astype(bool)
            feature, threshold = _splits(predictor, known, sides)
            ways = (np.where(leaf, LEAF, part.astype(np.intp)) for part in (feature, node["left"], node["right"]))
            nodes.append((*ways, threshold, node["missing_go_to_left"]))
            values.append(added(node["value"], score, scores))
    found = replace(flat_model(nodes, values, model, np.float64), offset=model._baseline_prediction.ravel())
    if model._preprocessor is None:
        return found
    categories = np.asarray(model.is_categorical_, dtype=bool)
    order = np.argsort(~categories, kind="stable")  # numbers come after categories, unchanged
    columns = sides.columns(given.taken(order), categories[order], "HistGradientBoostingClassifier")
    return replace(found, before=Preprocessing((Encoded(model), sides), columns))


@dataclass(frozen=True, eq=False)
class Encoded:
    """The codes of the categories and the numbers, as histogram boosting's own preprocessor hands them on."""

    model: Any

    def transform(self, records: Any) -> Floats:
        """Return what the trees see."""
        return np.asarray(self.model._preprocess_X(records, reset=False), dtype=np.float64)


def _known_codes(model: Any) -> dict[int, Bools]:
    """Return which codes histogram boosting knows of each feature of categories."""
    if model._preprocessor is None:
        return {}
    known, rows = model._bin_mapper.make_known_categories_bitsets()
    return {int(feature): _bits(known[rows[feature]]) for feature in np.flatnonzero(model._bin_mapper.is_categorical_)}


def _splits(predictor: Any, known: dict[int, Bools], sides: Sides) -> tuple[NDArray[np.intp], Floats]:
    """Return the features and thresholds of a tree's nodes; splits on categories get columns of their own."""
    node = predictor.nodes
    feature, threshold = node["feature_idx"].astype(np.intp), node["num_threshold"].copy()
    for at in np.flatnonzero(node["is_categorical"].astype(bool) & ~node["is_leaf"].astype(bool)):
        left, own = _bits(predictor.raw_left_cat_bitsets[node["bitset_idx"][at]]), int(feature[at])
        right = np.flatnonzero(known[own] & ~left)
        feature[at], threshold[at] = sides.column(own, np.flatnonzero(left), right), MIDDLE
    return feature, threshold


def _bits(words: NDArray[np.uint32]) -> Bools:
    """Return which of the codes 0 to 255 are in a set of bits."""
    return ((words[:, np.newaxis] >> np.arange(32, dtype=np.uint32)) & 1).astype(bool).ravel()


def _sklearn_nodes(tree: Any) -> tuple[Any, ...]:
    return tree.feature, tree.children_left, tree.children_right, tree.threshold, tree.missing_go_to_left


FOREST = ("RandomForestClassifier", "ExtraTreesClassifier")
FEW = 4_096  # records, beyond which the trees' own work dominates and `predict` may use several threads


def forest_answer(model: Any) -> Predict:
    """Return a function that answers as ``predict`` does; anything unusual is left to ``predict`` itself."""
    if library_class(model) not in FOREST or model.n_outputs_ != 1 or model.n_jobs not in (None, 1):
        return Predict(model)  # threads add in any order
    own = type(model).predict.__module__.startswith("sklearn.")  # nobody put another there
    trees = genuine_trees(model.estimators_, "DecisionTreeClassifier", "ExtraTreeClassifier")
    return ForestPredict(model) if own and trees else Predict(model)


@dataclass(frozen=True, eq=False)
class ForestPredict(Predict):
    """Add up the trees' shares of few records."""

    def __call__(self, records: Any) -> Any:
        """Return the labels."""
        model = self.model
        names = list(getattr(model, "feature_names_in_", ()))
        if len(records) > FEW or list(getattr(records, "columns", names)) != names:
            return super().__call__(records)
        numbers = np.asarray(records)
        if numbers.dtype.kind not in "fiu" or numbers.shape[1:] != (model.n_features_in_,):
            return super().__call__(records)
        with np.errstate(over="ignore"):
            seen = np.ascontiguousarray(numbers, dtype=np.float32)
        if not np.isfinite(seen).all():
            return super().__call__(records)
        shares = np.zeros((len(seen), len(model.classes_)))
        for tree in model.estimators_:
            shares += tree.tree_.predict(seen)
        shares /= len(model.estimators_)
        return model.classes_.take(np.argmax(shares, axis=1))
