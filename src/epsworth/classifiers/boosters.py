"""Trees of XGBoost, LightGBM, CatBoost, and of the additive models of interpret.

None of these libraries is imported: a fitted model writes its own trees down, or holds its tables.

- XGBoost sends a value left where ``float32(x) < threshold``, strictly, and sums leaves in single precision; what
  a sparse matrix leaves out is missing to it;
- LightGBM compares doubles with ``<=``, but takes values up to ``1e-35`` for zero;
- an oblivious tree of CatBoost asks the same at every node of a level: ``float32(x) > border``;
- a term of an explainable boosting machine (EBM) is a table over the bins of one feature or of a few: bin i holds the
  values from cut i - 1 up to, and without, cut i; missing values have a bin of their own.

Whatever is read must reproduce the model's own margins and labels on probes at its thresholds.  A model that
does not (another format, another way of predicting) is refused, so that it is sampled instead.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.classifiers.pipeline import Preprocessing
from epsworth.classifiers.reading import UNREADABLE, adjacent_floats, answers_as_read, ignoring_names, leading
from epsworth.classifiers.transformers import CategoryEncoder, Columns, encoder_of
from epsworth.classifiers.trees import (
    LEAF,
    MIDDLE,
    CategorySplits,
    Nodes,
    TreeModel,
    concatenated_trees,
    leaf_values,
    rounded_down,
)

XGBOOST_OBJECTIVES = ("binary:logistic", "multi:softprob", "multi:softmax")
LIGHTGBM_OBJECTIVES = ("binary sigmoid:1", "multiclass num_class:")
CATBOOST_OBJECTIVES = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll")
LINKS = ("logit", "mlogit")
MOST_LEAVES = 1 << 21  # of all tables together
EVEN = 0.5  # the probability from which on CatBoost answers the second of two classes
LIGHTGBM_ZERO = float(np.float32(1e-35))  # kZeroThreshold: entries up to it are dropped, hence zero
PROBES = 64
GAPS = 0.1  # share of values in probes that are missing
CLOSE = 1e-5  # by which the sums of leaves may miss the model's own margins, relatively above 1
SINGLE = 2.0**-24  # unit roundoff of single precision
SQUASHED = 1e-6  # margins that float32 probabilities may confuse: a few times their spacing at 1/2, 6e-8

Trees = tuple[list[Nodes], list[Floats]]


def xgboost_model(model: Any, columns: Columns) -> TreeModel | None:
    """Return the inside of an ``xgboost.XGBClassifier``, or None.

    Refused: linear boosters, several outputs, leaves that are vectors, a ``missing``
    marker other than NaN, and objectives whose labels are not the sign or the argmax of the margins.
    """
    margins = partial(model.predict, output_margin=True, validate_features=False)
    sides = CategorySplits(width_of(model), other=0.0, read=rounded_down)
    trees = _verified_trees(_xgboost_trees, model, margins, columns, sides, dtype=np.float32, strict=True)
    return trees and replace(trees, tie=_single_precision_tie(trees), sparse=False)


def lightgbm_model(model: Any, columns: Columns) -> TreeModel | None:
    """Return the inside of a ``lightgbm.LGBMClassifier``, or None.

    Refused: linear trees, zero as a missing value, predictions that stop early, and objectives
    other than the binary and the softmax one (one-against-all compares saturated probabilities, not margins).
    """
    margins = partial(model.predict, raw_score=True)
    sides = CategorySplits(width_of(model), other=1.0, gap=1.0)
    return _verified_trees(_lightgbm_trees, model, margins, columns, sides, dtype=np.float64, zero=LIGHTGBM_ZERO)


def _verified_trees(
    reader: Callable[[Any, CategorySplits], Trees | None], model: Any, margins: Callable[[Floats], Any],
    columns: Columns, sides: CategorySplits, *, dtype: Any, strict: bool = False, zero: float = 0.0,
) -> TreeModel | None:  # fmt: skip
    try:
        trees, step = reader(model, sides), encoder_of(model)
        if trees is None or len(model.classes_) != max(2, trees[1][0].shape[1]):
            return None
        read = replace(concatenated_trees(*trees, model, dtype), strict=strict, zero=zero)
        verified = verified_margins(read, model, margins, sides)
    except UNREADABLE:
        return None
    if verified is None or not (step or sides.splits):
        return verified
    step = step or CategoryEncoder(tuple(map(str, getattr(model, "feature_names_in_", range(sides.width)))))
    seen = sides.columns(columns, step.codes, type(model).__name__)
    return replace(verified, before=Preprocessing((step, sides), seen))


def _xgboost_trees(model: Any, sides: CategorySplits) -> Trees | None:
    learner = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]
    shape, booster = learner["learner_model_param"], learner["gradient_booster"]
    weights = booster.get("weight_drop")  # dart: one factor per tree, in single precision
    booster = booster["gbtree"] if booster["name"] == "dart" else booster
    if (
        learner["objective"]["name"] not in XGBOOST_OBJECTIVES
        or int(shape.get("num_target", 1)) != 1
        or booster["name"] != "gbtree"
        or not np.isnan(model.missing)
    ):
        return None
    forest, scores = booster["model"], max(1, int(shape["num_class"]))
    best = getattr(model, "best_iteration", None)  # after early stopping, predict uses the rounds up to the best
    used = forest["iteration_indptr"][-1 if best is None else best + 1]
    trees = forest["trees"][:used]
    if any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in trees):
        return None  # leaves that are vectors
    nodes, values = [], []
    factors = np.ones(len(trees)) if weights is None else np.asarray(weights, dtype=np.float32)
    for tree, score, factor in zip(trees, forest["tree_info"], factors, strict=False):
        left = np.asarray(tree["left_children"])
        condition = np.asarray(tree["split_conditions"], dtype=np.float32)  # a leaf keeps its value here
        feature, threshold = _xgboost_splits(tree, condition, sides)
        nodes.append((feature, left, np.asarray(tree["right_children"]), threshold, np.asarray(tree["default_left"])))
        values.append(leaf_values(np.where(left == LEAF, condition * float(factor), 0), score, scores))
    return nodes, values


def _xgboost_splits(
    tree: Any, condition: NDArray[np.float32], sides: CategorySplits
) -> tuple[NDArray[np.intp], Floats]:
    """Return the features and thresholds of a tree's nodes; categories that a split names go right."""
    feature, threshold = np.array(tree["split_indices"], dtype=np.intp), condition.astype(np.float64)
    parts = (tree[f"categories_{part}"] for part in ("nodes", "segments", "sizes"))
    for node, start, size in zip(*parts, strict=True):
        right = tree["categories"][start : start + size]
        feature[node], threshold[node] = sides.column(int(feature[node]), right=right), MIDDLE
    return feature, threshold


def _lightgbm_trees(model: Any, sides: CategorySplits) -> Trees | None:
    head, *blocks = model.booster_.model_to_string().split("\nTree=")  # up to the best iteration, as in predict
    header = _fields(head)
    if not header.get("objective", "").startswith(LIGHTGBM_OBJECTIVES) or model.get_params().get("pred_early_stop"):
        return None
    scores = int(header["num_tree_per_iteration"])
    nodes, values = [], []
    for order, block in enumerate(blocks):
        tree = _fields(block.split("\n\n")[0])
        kinds = np.array(tree.get("decision_type", "").split()).astype(np.intp)
        if tree.get("is_linear", "0") != "0" or ((kinds >> 2) & 3 == 1).any():
            return None  # bits 2 and 3: what is missing, 1 means zero
        nodes.append(_lightgbm_nodes(tree, kinds, sides))
        leaves = np.array(tree["leaf_value"].split()).astype(np.float64)
        # random-forest mode averages these before it takes probabilities, which moves no label
        values.append(leaf_values(np.concatenate([np.zeros(kinds.size), leaves]), order % scores, scores))
    return nodes, values


def _lightgbm_nodes(tree: dict[str, str], kinds: NDArray[np.intp], sides: CategorySplits) -> tuple[Any, ...]:
    """Return the splits, then the leaves: LightGBM numbers both from 0 and writes leaf i as child ``-1 - i``.

    Bit 0 of a kind tells categories: the threshold numbers a set of bits, and the codes in it go left.  Where no value
    was missing in training (bits 2 and 3 are 0), a missing one counts for zero.
    """
    parts = [np.array(tree.get(part, "").split()) for part in ("split_feature", "left_child", "right_child")]
    feature, left, right = (part.astype(np.intp) for part in parts)
    left, right = (np.where(child < 0, len(child) - 1 - child, child) for child in (left, right))
    threshold = np.array(tree.get("threshold", "").split()).astype(np.float64)
    missing = np.where(kinds >> 2 == 0, threshold >= 0, kinds & 2 > 0)
    words, ends = (
        np.array(tree.get(f"cat_{part}", "").split()).astype(np.int64) for part in ("threshold", "boundaries")
    )
    for node in np.flatnonzero(kinds & 1):
        first, last = ends[int(threshold[node]) :][:2]
        codes = np.flatnonzero((words[first:last, np.newaxis] >> np.arange(32)) & 1)
        feature[node], threshold[node] = sides.column(int(feature[node]), left=codes), MIDDLE
    leaves = np.full(len(threshold) + 1, LEAF)
    return tuple(np.append(part, leaves) for part in (feature, left, right, threshold, missing))


def _fields(text: str) -> dict[str, str]:
    """Return the lines ``name=value``."""
    return {name: value for name, _, value in (line.partition("=") for line in text.splitlines())}


def width_of(model: Any) -> int:
    """Return how many columns a model expects; CatBoost's own files tell it by their names alone."""
    return int(getattr(model, "n_features_in_", 0) or len(getattr(model, "feature_names_", ()) or ()))


def verified_margins(
    trees: TreeModel, model: Any, margins: Callable[[Floats], Any], sides: CategorySplits | None = None
) -> TreeModel | None:
    """Read the constant offset off the model's margins; None unless margins and labels are then reproduced."""
    probes = _probes(trees, width_of(model), sides)
    with ignoring_names():
        given = np.asarray(margins(probes), dtype=np.float64).reshape(PROBES, -1)
        labels = np.asarray(model.predict(probes))
    labels = labels[:, 0] if labels.shape == (PROBES, 1) else labels  # CatBoost answers columns
    sums = trees.scores(sides.transform(probes) if sides else probes)
    if sums.shape != given.shape or labels.shape != (PROBES,):
        return None
    offset, (places, lead) = np.median(given - sums, axis=0), leading(given)
    close = np.allclose(sums + offset, given, rtol=CLOSE, atol=CLOSE)
    same = close and answers_as_read(labels, trees.classes[places], lead > CLOSE)
    return replace(trees, offset=trees.offset + offset) if same else None


def _probes(trees: TreeModel, width: int, sides: CategorySplits | None) -> Floats:
    """Return records on the trees' thresholds and right beside them, where a wrong comparison shows; of all codes."""
    rng = np.random.default_rng(0)
    probes = np.zeros((PROBES, width))
    for column in range(width):
        own = np.unique(trees.threshold[trees.feature == column]).astype(trees.dtype)
        own = own[np.abs(own) < np.finfo(np.float32).max]
        if own.size:
            probes[:, column] = rng.choice(adjacent_floats(own), PROBES)
    for column, codes in (sides.probes(rng, PROBES) if sides else {}).items():
        probes[:, column] = codes
    probes[rng.random(probes.shape) < GAPS] = np.nan
    return probes


def _single_precision_tie(trees: TreeModel) -> float:
    """Bound, per tree, the margins whose sign is open because XGBoost sums in single precision.

    A sum of n numbers, in any order, is off by at most ``n u sum |number|`` (Higham 2002, section 4.2).  The
    margin of a cell compares two sums, and the offset of each was read off another sum: four errors.
    """
    largest = np.maximum.reduceat(np.abs(trees.values), trees.roots, axis=0)  # of each tree, for each score
    terms = (largest > 0).sum(axis=0) + 1
    error = (terms * SINGLE * (largest.sum(axis=0) + np.abs(trees.offset))).max()
    return float(4 * error + SQUASHED) / len(trees.roots)


def booster_classifier(booster: Any) -> Any:
    """Return the library's classifier, which answers labels 0, 1, .. if a booster's objective says what these are.

    Labels are the sign of a logistic margin, or the place of the largest of several scores; other objectives have none,
    and are refused with a sentence.
    """
    library = type(booster).__module__.split(".")[0]
    model = {"xgboost": _xgboost_classifier, "lightgbm": lightgbm_classifier}[library](booster)
    if model is None:
        raise TypeError(
            f"the model is a Booster of {library} whose objective does not say what a label is, so that its predict "
            "answers scores; give the classifier that holds it, or a function such as lambda records: "
            "booster.predict(records) > 0.5"
        )
    return model


def _xgboost_classifier(booster: Any) -> Any | None:
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    if learner["objective"]["name"] not in XGBOOST_OBJECTIVES:
        return None
    from xgboost import XGBClassifier  # it is there already: it made the booster

    model = XGBClassifier()
    model.load_model(booster.save_raw("ubj"))
    model.get_booster().set_attr(best_iteration=None)  # a booster answers with all its trees
    return model


def lightgbm_classifier(booster: Any) -> Any | None:
    """Put a booster into the classifier that LightGBM's own ``fit`` would have put it in; None if it has no labels."""
    header = _fields(booster.model_to_string(num_iteration=1).split("\nTree=")[0])
    if not header.get("objective", "").startswith(LIGHTGBM_OBJECTIVES):
        return None
    from lightgbm import LGBMClassifier  # it is there already: it made the booster
    from sklearn.preprocessing import LabelEncoder

    count = max(2, booster.num_model_per_iteration())
    model = LGBMClassifier()
    model._Booster, model.fitted_, model._le = booster, True, LabelEncoder().fit(np.arange(count))
    model._classes, model._n_classes, model._objective = np.arange(count), count, header["objective"].split(" ")[0]
    model._n_features = model._n_features_in = booster.num_feature()
    return model


def catboost_model(model: Any) -> TreeModel | None:
    """Return the inside of a ``CatBoostClassifier``, or None.

    Refused: splits on categories or texts, trees that are not oblivious, other objectives, and a threshold on
    probabilities other than 1/2.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            model.save_model(str(path), format="json")
            read = json.loads(path.read_text())
        even = model.get_probability_threshold() in (None, EVEN)
        if model.get_all_params()["loss_function"] not in CATBOOST_OBJECTIVES or not even:
            return None
        scale, _ = read["scale_and_bias"]
        known = {f["feature_index"]: f for f in read["features_info"]["float_features"]}
        nodes, values = [], []
        for tree in read["oblivious_trees"]:
            leaves = np.asarray(tree["leaf_values"], dtype=np.float64).reshape(1 << len(tree["splits"]), -1)
            nodes.append(_oblivious(tree["splits"], known))
            values.append(np.concatenate([np.zeros((len(leaves) - 1, leaves.shape[1])), scale * leaves]))
        trees = concatenated_trees(nodes, values, model, np.float32)
        return verified_margins(trees, model, partial(model.predict, prediction_type="RawFormulaVal"))
    except UNREADABLE:
        return None


def _oblivious(splits: Sequence[dict[str, Any]], known: dict[int, dict[str, Any]]) -> Nodes:
    """Return a whole binary tree, level by level; leaf i lies where bit l of i says whether split l was passed."""
    if any(split["split_type"] != "FloatFeature" for split in splits):
        raise ValueError("a split on categories")
    inner = (1 << len(splits)) - 1
    feature, left, right = np.full((3, 2 * inner + 1), LEAF)
    threshold, missing = np.zeros(2 * inner + 1), np.zeros(2 * inner + 1, dtype=bool)
    for level, split in enumerate(splits):
        info, width = known[split["float_feature_index"]], 1 << level
        at = np.arange(width) + width - 1  # node j of a level was reached by passing the splits in its bits
        feature[at], threshold[at] = info["flat_feature_index"], split["border"]
        missing[at] = info["nan_value_treatment"] != "AsTrue"
        left[at], right[at] = np.arange(width) + 2 * width - 1, np.arange(width) + 3 * width - 1
    return feature, left, right, threshold, missing


def additive_model(model: Any) -> TreeModel | None:
    """Return the inside of an ``ExplainableBoostingClassifier`` of interpret, or None.

    Refused: features that it took for categories (numbers with fewer than four values among them), and other links.
    """
    try:
        if model.link_ not in LINKS or any(kind != "continuous" for kind in model.feature_types_in_):
            return None
        nodes, values = [], []
        width = 1 if model.link_ == "logit" else len(model.classes_)
        if sum(np.size(scores) for scores in model.term_scores_) > MOST_LEAVES * width:
            return None
        for features, scores in zip(model.term_features_, model.term_scores_, strict=True):
            table = np.asarray(scores, dtype=np.float64)
            table = table.reshape(*table.shape[: len(features)], width)
            cuts = [np.asarray(model.bins_[f][min(len(model.bins_[f]), len(features)) - 1]) for f in features]
            if any(len(c) + 3 != side for c, side in zip(cuts, table.shape, strict=False)):
                return None
            rows: list[Row] = []
            _grow(rows, list(features), cuts, table)
            feature, left, right, threshold, missing, leaves = map(np.array, zip(*rows, strict=True))
            nodes.append((feature, left, right, threshold, missing))
            values.append(leaves)
        trees = replace(concatenated_trees(nodes, values, model, np.float64), strict=True)
        return verified_margins(trees, model, model.decision_function)
    except UNREADABLE:
        return None


Row = tuple[int, int, int, float, bool, Floats]  # of a node: feature, left, right, threshold, missing, values


def _grow(rows: list[Row], features: list[int], cuts: list[Floats], table: Floats, bins: range | None = None) -> int:
    """Append the tree of a table, whose axes are features in turn, and return its root.

    Nothing but a missing value, which has the first bin, goes left at the first node of a feature; the others are
    halved until one bin is left.
    """
    nothing, node = np.zeros(table.shape[-1]), len(rows)
    if not features:
        rows.append((LEAF, LEAF, LEAF, 0.0, False, table))
    elif bins is None:
        rows.append((features[0], 0, 0, -np.inf, True, nothing))
        left = _grow(rows, features[1:], cuts[1:], table[0])
        right = _grow(rows, features, cuts, table, range(1, len(cuts[0]) + 2))
        rows[node] = (features[0], left, right, -np.inf, True, nothing)
    elif len(bins) == 1:
        return _grow(rows, features[1:], cuts[1:], table[bins[0]])
    else:
        middle = (bins[0] + bins[-1]) // 2
        cut = float(cuts[0][middle - 1])
        rows.append((features[0], 0, 0, cut, False, nothing))
        left = _grow(rows, features, cuts, table, range(bins[0], middle + 1))
        right = _grow(rows, features, cuts, table, range(middle + 1, bins[-1] + 1))
        rows[node] = (features[0], left, right, cut, False, nothing)
    return node
