"""Sums of tables, written as trees: the oblivious trees of CatBoost, and the additive models of interpret (EBM).

Neither library is imported.  An oblivious tree asks the same at every node of a level: ``float32(x) > border``.  A term
of an explainable boosting machine is a table over the bins of one feature or of a few: bin i holds the values from cut
i - 1 up to, and without, cut i; missing values have a bin of their own.  Both must reproduce the model's margins on
probes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.classifiers.boosters import verified
from epsworth.classifiers.flat import LEAF, TreeModel, flat_model
from epsworth.classifiers.reading import UNREADABLE

CATBOOST_OBJECTIVES = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll")
LINKS = ("logit", "mlogit")
MOST_LEAVES = 1 << 21  # of all tables together
EVEN = 0.5  # the probability from which on CatBoost answers the second of two classes

Nodes = tuple[NDArray[Any], ...]


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
        if model.get_all_params()["loss_function"] not in CATBOOST_OBJECTIVES or _threshold(model) != EVEN:
            return None
        scale, _ = read["scale_and_bias"]
        known = {f["feature_index"]: f for f in read["features_info"]["float_features"]}
        nodes, values = [], []
        for tree in read["oblivious_trees"]:
            leaves = np.asarray(tree["leaf_values"], dtype=np.float64).reshape(1 << len(tree["splits"]), -1)
            nodes.append(_oblivious(tree["splits"], known))
            values.append(np.concatenate([np.zeros((len(leaves) - 1, leaves.shape[1])), scale * leaves]))
        found = flat_model(nodes, values, model, np.float32)
        return verified(found, model, partial(model.predict, prediction_type="RawFormulaVal"))
    except UNREADABLE:
        return None


def _threshold(model: Any) -> float:
    found = model.get_probability_threshold()
    return EVEN if found is None else float(found)


def _oblivious(splits: Sequence[dict[str, Any]], known: dict[int, dict[str, Any]]) -> Nodes:
    """Return a whole binary tree, level by level; leaf i lies where bit l of i says whether split l was passed."""
    depth = len(splits)
    if any(split["split_type"] != "FloatFeature" for split in splits):
        raise ValueError("a split on categories")
    inner = (1 << depth) - 1
    feature, threshold, missing = np.full(2 * inner + 1, LEAF), np.zeros(2 * inner + 1), np.zeros(2 * inner + 1, bool)
    left, right = np.full(2 * inner + 1, LEAF), np.full(2 * inner + 1, LEAF)
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
            grown = _Growing(list(features), cuts, table)
            grown.over(0, ())
            nodes.append(grown.nodes())
            values.append(np.array(grown.values))
        found = replace(flat_model(nodes, values, model, np.float64), strict=True)
        return verified(found, model, model.decision_function)
    except UNREADABLE:
        return None


class _Growing:
    """A table over bins on its way to become a tree: feature after feature, each halved until one bin is left."""

    def __init__(self, features: list[int], cuts: list[Floats], table: Floats) -> None:
        self.features, self.cuts, self.table = features, cuts, table
        self.rows: list[list[float]] = []  # feature, left, right, threshold, missing
        self.values: list[Floats] = []

    def nodes(self) -> Nodes:
        """Return the tree."""
        feature, left, right, threshold, missing = np.array(self.rows).T
        return feature.astype(np.intp), left.astype(np.intp), right.astype(np.intp), threshold, missing > 0

    def over(self, axis: int, at: tuple[int, ...]) -> int:
        """Grow what follows a choice of bins on the axes before; return its node."""
        if axis == len(self.features):
            return self._node(LEAF, LEAF, 0.0, self.table[at])
        node = self._node(self.features[axis], 0, -np.inf, None)  # nothing but a missing value goes left
        self.rows[node][4] = 1.0
        self.rows[node][1] = self.over(axis + 1, (*at, 0))
        self.rows[node][2] = self._halved(axis, at, 1, len(self.cuts[axis]) + 1)
        return node

    def _halved(self, axis: int, at: tuple[int, ...], first: int, last: int) -> int:
        if first == last:
            return self.over(axis + 1, (*at, first))
        middle = (first + last) // 2
        node = self._node(self.features[axis], 0, float(self.cuts[axis][middle - 1]), None)
        self.rows[node][1] = self._halved(axis, at, first, middle)
        self.rows[node][2] = self._halved(axis, at, middle + 1, last)
        return node

    def _node(self, feature: int, child: int, threshold: float, value: Floats | None) -> int:
        self.rows.append([feature, child, child, threshold, 0.0])
        self.values.append(np.zeros(self.table.shape[-1]) if value is None else value)
        return len(self.rows) - 1
