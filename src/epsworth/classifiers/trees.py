"""Sums of trees: every node of every tree in flat arrays, splits on categories among them; those of scikit-learn.

A tree of scikit-learn sends a value left where ``float32(x) <= threshold``; histogram boosting compares doubles.
Exactly those operations are run, so that thresholds can be located to the last bit.  A missing value goes the way that
was learned.

Asked about few records, a forest hands every tree to a scheduler, which takes 70 us each: most of the time of a short
question.  `ForestPredict` adds up the class shares in the same order and precision, hence to the same label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.pipeline import NOTHING, Preprocessing
from epsworth.classifiers.reading import Predict, ignoring_names, leading, library_class, library_classes
from epsworth.classifiers.transformers import Columns

NO_TREES = "the classifier is not a supported tree model"
LEAF = -1
MIDDLE = 0.5  # where a column of sides is split
TIE = 1e-9  # margins below this, per tree, are decided by the classifier itself
Nodes = tuple[Any, Any, Any, Any, Any]
"""Of a tree: features, left and right children, thresholds, and who sends missing values left."""
Decision = Callable[[Floats], tuple[NDArray[np.intp], Bools]]
"""From scores to the places of labels, and where rounding cannot change these."""


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
    missing : ndarray of bool, shape ``(nodes,)``, optional
        Which splits send missing values left; None where missing values cannot be answered.
    decision : callable, optional
        How labels follow from the scores, where not as `values` says: of ensembles whose members answer by themselves.
    counts : bool
        Whether the scores count trees, exactly, and labels are those of the counts, the first one of equals.
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
    missing: Bools | None = None
    decision: Decision | None = None
    counts: bool = False

    @cached_property
    def size(self) -> float:
        """No sum of leaves, one of every tree, is larger."""
        largest = float(np.abs(self.values[self.left == LEAF]).max(initial=0))
        return len(self.roots) * largest + float(np.abs(self.offset).max(initial=0))

    @cached_property
    def slack(self) -> float:
        """Margins below this are too small to trust.

        T + 1 additions of doubles are each off by 2^-53 of the largest sum, in either of two scores; four times that.
        """
        additions = len(self.roots) + 1
        return max(self.tie * len(self.roots), 8 * additions * 2.0**-53 * self.size)

    def seen(self, given: NDArray[Any]) -> NDArray[Any]:
        """Return what is handed on as the trees see it: cast."""
        cast = np.asarray(given).astype(self.dtype)
        if self.zero:
            cast[np.abs(cast) <= self.zero] = 0
        return cast

    def turns_left(self, seen: NDArray[Any], threshold: Floats) -> Bools:
        """Compare values, as the trees see them, with thresholds (elementwise)."""
        return np.asarray(seen < threshold if self.strict else seen <= threshold)

    def turns(self, seen: NDArray[Any], nodes: Any = slice(None)) -> Bools:
        """Tell whether values, as the trees see them and missing ones among them, go left at nodes (elementwise)."""
        left = self.turns_left(seen, self.threshold[nodes])
        return left if self.missing is None else np.where(np.isnan(seen), self.missing[nodes], left)

    def last_left(self, threshold: Floats) -> Floats:
        """Return the last doubles that go left at thresholds, as they do all before them.

        Claim: every double takes the same way at every node.  A value is cast to a float32 up to the threshold exactly
        where it is not beyond the middle between that float32 and the next, to which ties may be rounded.
        """
        if self.dtype == np.float32:
            below = threshold.astype(np.float32)
            beyond = below >= threshold if self.strict else below > threshold
            with np.errstate(over="ignore"):
                below = np.where(beyond, np.nextafter(below, np.float32(-np.inf)), below)
                cast = np.isneginf(below) & ~(beyond & np.isneginf(threshold))  # from doubles below all finite float32
                lower = np.where(cast, -(2.0**128), below.astype(np.float64))
                middle = (lower + _next_up(below)) / 2
                threshold = np.where(middle.astype(np.float32) <= below, middle, np.nextafter(middle, -np.inf))
        elif self.strict:
            threshold = np.nextafter(threshold, -np.inf)
        tiny = np.abs(threshold) < self.zero  # values up to there count for zero
        threshold = np.where(tiny & (threshold >= 0), self.zero, threshold)
        outside = (tiny & (threshold < 0)) | ((threshold == -self.zero) & (self.zero > 0))
        return np.where(outside, np.nextafter(-self.zero, -np.inf), threshold)

    def labels(self, given: NDArray[Any]) -> tuple[NDArray[Any], Bools]:
        """Return the labels of what is handed on, and where their margins are too large to be near ties."""
        places, clear = self.decided(self.scores(given))
        return self.classes[np.minimum(places, len(self.classes) - 1)], clear

    def decided(self, scores: Floats) -> tuple[NDArray[np.intp], Bools]:
        """Return the places of the labels of scores, and where these are clear."""
        if self.decision is not None:
            return self.decision(scores)
        places, lead = leading(scores)
        return places, np.asarray(lead >= self.slack)

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
            goes_left = self.turns(seen[walking // len(self.roots), self.feature[at]], at)
            node[walking] = np.where(goes_left, self.left[at], self.right[at])
            walking = walking[self.left[node[walking]] != LEAF]
        return np.asarray(self.values[node.reshape(len(given), -1)].sum(axis=1) + self.offset)


def concatenated_trees(nodes: Sequence[Nodes], values: Sequence[Floats], model: Any, dtype: Any) -> TreeModel:
    """Return trees, of which each numbers its nodes from 0, as one model with the labels of a fitted one."""
    sizes = np.array([len(feature) for feature, *_ in nodes])
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
    shift = np.repeat(roots, sizes)
    feature, left, right, threshold, missing = (np.concatenate(part) for part in zip(*nodes, strict=True))
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
        missing=missing.astype(bool),
    )


def in_doubles(model: TreeModel) -> TreeModel:
    """Return the same trees with thresholds that doubles are compared with as they are, by ``<=``."""
    return replace(model, threshold=model.last_left(model.threshold), dtype=np.float64, strict=False, zero=0.0)


def _next_up(singles: NDArray[np.float32]) -> Floats:
    """Return the next float32 as doubles; beyond the largest, the one that would follow if exponents went on."""
    above = np.nextafter(singles, np.float32(np.inf)).astype(np.float64)
    return np.where(np.isinf(above) & np.isfinite(singles), 2.0**128, above)


def stack_trees(models: Sequence[TreeModel]) -> TreeModel:
    """Return trees that see columns side by side as one model, the scores of one after those of the other.

    It has no decision and no classes of its own: who stacks models says these.
    """
    starts, scores = (np.cumsum([0, *sizes]).tolist() for sizes in zip(*(m.values.shape for m in models), strict=True))
    values = np.zeros((starts[-1], scores[-1]))
    for model, node, score in zip(models, starts, scores, strict=False):
        values[node : node + len(model.feature), score : score + model.values.shape[1]] = model.values
    offset, slack = np.concatenate([model.offset for model in models]), max(model.slack for model in models)
    return _joined(models, values, offset, slack)


def weighted_sum(models: Sequence[TreeModel], weights: Floats) -> TreeModel:
    """Return the weighted sum of the sums of models, of equal classes in the same order, as `stack_trees` does."""
    weighted = list(zip(weights.tolist(), models, strict=True))
    offset = np.array([weight * model.offset for weight, model in weighted]).sum(axis=0)
    slack = float(sum(abs(weight) * model.slack for weight, model in weighted))
    return _joined(models, np.concatenate([weight * model.values for weight, model in weighted]), offset, slack)


def _joined(models: Sequence[TreeModel], values: Floats, offset: Floats, slack: float) -> TreeModel:
    models = [in_doubles(model) for model in models]
    starts = np.cumsum([0, *(len(model.feature) for model in models)]).tolist()
    numbered = list(zip(models, starts, strict=False))
    missing = [model.missing for model in models if model.missing is not None]
    return replace(
        models[0],
        feature=np.concatenate([model.feature for model in models]),
        left=np.concatenate([np.where(model.left == LEAF, LEAF, model.left + start) for model, start in numbered]),
        right=np.concatenate([np.where(model.left == LEAF, LEAF, model.right + start) for model, start in numbered]),
        threshold=np.concatenate([model.threshold for model in models]),
        roots=np.concatenate([model.roots + start for model, start in numbered]),
        values=values,
        offset=offset,
        tie=slack / sum(len(model.roots) for model in models),
        missing=np.concatenate(missing) if len(missing) == len(models) else None,
        decision=None,
    )


def leaf_values(leaves: ArrayLike, score: int, scores: int) -> Floats:
    """Return what the nodes of a tree add to each score: nothing but to one."""
    values = np.zeros((len(np.asarray(leaves)), scores))
    values[:, score] = leaves
    return values


def rounded_down(values: Floats) -> Floats:
    """Return codes as XGBoost reads them off single precision: nothing below 0 is one."""
    with np.errstate(over="ignore"):
        return np.floor(values.astype(np.float32)).astype(np.float64)


class CategorySplits:
    """Columns beside those of codes and numbers: 0 for a code that a split sends left, 1 for right, NaN for missing.

    Parameters
    ----------
    width : int
        How many columns of codes and numbers there are.
    other, gap : float
        The sides of codes that no split names, and of missing ones.
    read : callable
        From numbers in a column of codes to whole ones.
    """

    def __init__(
        self, width: int, *, other: float, gap: float = np.nan, read: Callable[[Floats], Floats] = np.trunc
    ) -> None:
        self.width, self.other, self.gap, self.read = width, other, gap, read
        self.splits: dict[tuple[int, tuple[tuple[int, float], ...]], int] = {}

    def column(self, feature: int, left: Iterable[int] = (), right: Iterable[int] = ()) -> int:
        """Return the column of a split on a feature, equal ones once."""
        sides = {int(code): 0.0 for code in left} | {int(code): 1.0 for code in right}
        return self.splits.setdefault((feature, tuple(sorted(sides.items()))), self.width + len(self.splits))

    @cached_property
    def tables(self) -> dict[int, tuple[Floats, NDArray[np.intp], Floats]]:
        """Of every feature the codes that its splits name, the columns of these, and their sides of the codes.

        Two rows more are those of other codes and of missing ones.
        """
        tables = {}
        for feature in {feature for feature, _ in self.splits}:
            own = [(dict(sides), at) for (of, sides), at in self.splits.items() if of == feature]
            named = sorted({code for sides, _ in own for code in sides})
            rows = [[sides.get(code, self.other) for sides, _ in own] for code in named]
            rows += [[self.other] * len(own), [self.gap] * len(own)]
            columns = np.array([at for _, at in own], dtype=np.intp)
            tables[feature] = np.array(named, dtype=np.float64), columns, np.array(rows)
        return tables

    def transform(self, seen: Floats) -> Floats:
        """Return the columns of codes and numbers, and behind them those of sides."""
        handed = np.empty((len(seen), self.width + len(self.splits)))
        handed[:, : self.width] = seen
        for feature, (named, columns, sides) in self.tables.items():
            values = np.asarray(seen[:, feature], dtype=np.float64)
            codes = self.read(values)
            place = np.searchsorted(named, codes)
            known = np.append(named, np.nan)[place] == codes
            handed[:, columns] = sides[np.where(known, place, len(named) + np.isnan(values))]
        return handed

    def columns(self, given: Columns, codes: Bools, kind: str) -> Columns:
        """Return what is known of the columns: codes and sides keep no order, numbers are those that were given."""
        features = [feature for feature, _ in self.splits]
        own = given.take(np.append(np.arange(self.width), features).astype(np.intp))
        numbers, at = np.append(~codes, np.zeros(len(features), dtype=bool)), np.arange(len(own))
        either = Columns.stack([own, own.bent(0).behind(kind)], given.uses.shape[1])
        return either.take(np.where(numbers, at, at + len(at)))

    def probes(self, rng: np.random.Generator, count: int) -> dict[int, Floats]:
        """Return values of every column of codes that is split: codes that splits name, and others beside them."""
        return {
            feature: rng.choice(np.concatenate([own, own, own + 0.5, own + 1, [-1.0]]), count)
            for feature, (own, _, _) in self.tables.items()
        }


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
