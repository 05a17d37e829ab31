"""Trees of scikit-learn: what can be seen inside, and the answers of forests to few records.

A tree sends a value left where ``float32(x) <= threshold``; histogram boosting compares doubles.  Exactly those
operations are run, so that thresholds can be located to the last bit.  A missing value goes the way that was learned.

Asked about few records, a forest hands every tree to a scheduler, which takes 70 us each: most of the time of a short
question.  `ForestPredict` adds up the class shares in the same order and precision, hence to the same label.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.pipeline import Preprocessing
from epsworth.classifiers.reading import Predict, ignoring_names, library_class, library_classes
from epsworth.classifiers.transformers import Columns
from epsworth.classifiers.trees import LEAF, MIDDLE, CategorySplits, Nodes, TreeModel, concatenated_trees, leaf_values

TREES = ("DecisionTreeClassifier", "ExtraTreeClassifier")
FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier")
CONSTANT = ("prior", "most_frequent", "constant")  # starts of boosting that depend on no record
FEW = 4_096  # records, beyond which the trees' own work dominates and `predict` may use several threads


def own_trees(estimators: Any, *kinds: str) -> bool:
    """Tell whether all members of an ensemble answer by their own ``tree_``, and that is scikit-learn's."""
    from sklearn.tree._tree import Tree

    return library_classes(estimators) <= set(kinds) and {type(one.tree_) for one in estimators} == {Tree}


def forest_model(model: Any) -> TreeModel | None:
    """Return the inside of a decision tree, or of a forest, whose leaves hold class shares.

    Where all leaves hold zeros and ones, the scores count trees; weighted shares may miss 1 by a unit.
    """
    estimators = getattr(model, "estimators_", [model])
    if not own_trees(estimators, *TREES):
        return None
    trees = [estimator.tree_ for estimator in estimators]
    counts = np.concatenate([tree.value[:, 0, :] for tree in trees])
    total = counts.sum(axis=1, keepdims=True)
    values = counts / np.where(total > 0, total, 1)
    if len(model.classes_) == 1:
        values = np.full((len(counts), 1), -1.0)  # never a second label
    elif len(model.classes_) == 2:
        values = values[:, 1:] - values[:, :1]  # label 1 wins where its share is larger
    forest = concatenated_trees(_nodes(trees), [values], model, np.float32)
    leaves = counts[forest.left == LEAF]
    return replace(forest, counts=bool(np.isin(leaves, (0.0, 1.0)).all() and (leaves.sum(axis=1) == 1).all()))


def _nodes(trees: Iterable[Any]) -> list[Nodes]:
    return [(t.feature, t.children_left, t.children_right, t.threshold, t.missing_go_to_left) for t in trees]


def gradient_boosting_model(model: Any) -> TreeModel | None:
    """Return the inside of gradient boosting with a constant start, which is read off one record."""
    estimators, scores = model.estimators_.ravel(), model.estimators_.shape[1]
    if not own_trees(estimators, "DecisionTreeRegressor"):
        return None
    same = library_class(model.init_) == "DummyClassifier" and model.init_.strategy in CONSTANT
    if not same and not (isinstance(model.init, str) and model.init == "zero"):
        return None  # the start depends on the record, or on chance
    trees = [estimator.tree_ for estimator in estimators]
    leaves = [leaf_values(model.learning_rate * t.value[:, 0, 0], at % scores, scores) for at, t in enumerate(trees)]
    sums, probe = concatenated_trees(_nodes(trees), leaves, model, np.float32), np.zeros((1, model.n_features_in_))
    with ignoring_names():
        start = np.atleast_1d(model.decision_function(probe)[0]) - sums.scores(probe)[0]
    return replace(sums, offset=start)


def histogram_boosting_model(model: Any, columns: Columns) -> TreeModel | None:
    """Return the inside of histogram boosting, categories among them; it knows what stands before its trees."""
    if any(library_class(predictor) != "TreePredictor" for stage in model._predictors for predictor in stage):
        return None
    sides = CategorySplits(model.n_features_in_, other=np.nan)
    scores, known = len(model._predictors[0]), _known_codes(model)
    nodes, values = [], []
    for stage in model._predictors:
        for score, predictor in enumerate(stage):
            node = predictor.nodes
            leaf = node["is_leaf"].astype(bool)
            feature, threshold = _splits(predictor, known, sides)
            ways = (np.where(leaf, LEAF, part.astype(np.intp)) for part in (feature, node["left"], node["right"]))
            nodes.append((*ways, threshold, node["missing_go_to_left"]))
            values.append(leaf_values(node["value"], score, scores))
    trees = concatenated_trees(nodes, values, model, np.float64)
    trees = replace(trees, offset=model._baseline_prediction.ravel())
    if model._preprocessor is None:
        return trees
    categories = np.asarray(model.is_categorical_, dtype=bool)
    order = np.argsort(~categories, kind="stable")  # numbers come after categories, unchanged
    seen = sides.columns(columns.take(order), categories[order], "HistGradientBoostingClassifier")
    return replace(trees, before=Preprocessing((Encoded(model), sides), seen))


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


def _splits(predictor: Any, known: dict[int, Bools], sides: CategorySplits) -> tuple[NDArray[np.intp], Floats]:
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


def forest_answer(model: Any) -> Predict:
    """Return a function that answers as ``predict`` does; anything unusual is left to ``predict`` itself."""
    if library_class(model) not in FORESTS or model.n_outputs_ != 1 or model.n_jobs not in (None, 1):
        return Predict(model)  # threads add in any order
    own = type(model).predict.__module__.startswith("sklearn.")  # nobody put another there
    return ForestPredict(model) if own and own_trees(model.estimators_, *TREES) else Predict(model)


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
