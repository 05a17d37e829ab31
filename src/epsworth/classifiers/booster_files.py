"""Trees in the files of XGBoost and LightGBM: these libraries walk them unchecked, hence they are read here first.

Every node but the root is the child of exactly one node, which leaves no circle that can be reached;
features, categories, classes and the sizes of all lists are compared with what the file says elsewhere.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.classifiers.levels import levels_of_xgboost

LARGEST_CATEGORY = 2**24  # beyond, single precision no longer tells numbers apart
PER_LEAF = ("leaf_value", "leaf_weight", "leaf_count")
PER_SPLIT = ("left_child", "right_child", "split_feature", "decision_type", "threshold")
STATISTICS = ("leaf_weight", "leaf_count", "split_gain", "internal_value", "internal_weight", "internal_count")
Ints = NDArray[np.int64]


class TreeFileError(ValueError):
    """Trees that lead out of themselves, or levels of other columns."""


def check_xgboost(text: bytes) -> None:
    """Refuse trees of XGBoost, as its library writes them in JSON, that lead out of themselves."""
    learner = json.loads(text)["learner"]
    shape, booster = learner["learner_model_param"], learner["gradient_booster"]
    features, classes = int(shape["num_feature"]), max(1, int(shape["num_class"]))
    _demand(int(shape.get("num_target", 1)) == 1, "it answers several targets")
    if booster["name"] == "gblinear":
        _demand(len(booster["model"]["weights"]) == (features + 1) * classes, "weights and columns differ in number")
        return
    weights = booster.get("weight_drop")
    forest = (booster["gbtree"] if booster["name"] == "dart" else booster)["model"]
    trees, scores, rounds = forest["trees"], _ints(forest["tree_info"]), _ints(forest["iteration_indptr"])
    _demand(len(scores) == len(trees) and (weights is None or len(weights) == len(trees)), "trees are miscounted")
    _demand(_within(scores, classes) and classes <= max(1, len(trees)), "a tree adds to a class that there is not")
    _demand(rounds[:1].tolist() == [0] and rounds[-1] == len(trees), "rounds hold other trees")
    _demand((np.diff(rounds) >= 0).all(), "rounds hold other trees")
    _check_levels(learner, forest.get("cats", {}), features)
    for tree in trees:
        _check_xgboost_tree(tree, features)


def _check_xgboost_tree(tree: dict[str, Any], features: int) -> None:
    left, right, parents = (_ints(tree[name]) for name in ("left_children", "right_children", "parents"))
    count, inner = len(left), left != -1
    sizes = {len(tree[name]) for name in ("split_indices", "split_conditions", "default_left", "split_type")}
    _demand(
        sizes == {count} == {len(right), len(parents), int(tree["tree_param"]["num_nodes"])}, "nodes are miscounted"
    )
    _demand(int(tree["tree_param"]["size_leaf_vector"]) <= 1, "leaves are vectors")
    _check_children(np.concatenate([left[inner], right[inner]]), count)
    _demand((right[~inner] == -1).all(), "a node has one child")
    own = np.flatnonzero(inner)
    _demand((parents[left[inner]] == own).all() and (parents[right[inner]] == own).all(), "a parent is another node")
    _demand(_within(_ints(tree["split_indices"])[inner], features), "a node asks for a feature that there is not")
    nodes, starts, lengths, held = (_ints(tree[f"categories{part}"]) for part in ("_nodes", "_segments", "_sizes", ""))
    asks = np.flatnonzero((_ints(tree["split_type"]) == 1) & inner)
    whole = np.array_equal(nodes, asks) and len(starts) == len(lengths) == len(nodes)
    whole = whole and bool((starts >= 0).all() and (lengths >= 0).all() and (starts + lengths <= len(held)).all())
    _demand(whole and _within(held, LARGEST_CATEGORY), "a node asks for categories that it does not hold")


def _check_levels(learner: dict[str, Any], held: dict[str, Any], features: int) -> None:
    """Refuse levels of categories that are not those of its features: XGBoost finds them by what it holds of them."""
    if not any(map(len, held.values())):
        return
    texts = [(_ints(part["offsets"] or [0]), part["values"]) for part in held["enc"] if "offsets" in part]
    whole = all(e[0] == 0 and e[-1] == len(values) and (np.diff(e) >= 0).all() for e, values in texts)
    levels, order = [own for own, _ in levels_of_xgboost(learner)] if whole else [], _ints(held["sorted_idx"])
    ends = np.cumsum([0, *map(len, levels)])
    whole = len(levels) == features and np.array_equal(_ints(held["feature_segments"]), ends) and len(order) == ends[-1]
    sorts = (sorted(order[start:end].tolist()) == list(range(end - start)) for start, end in itertools.pairwise(ends))
    told = [[level for level in own if level is not None] for own in levels]  # which XGBoost has cut
    if not (whole and all(sorts) and all(len(set(own)) == len(own) for own in told)):
        raise TreeFileError("holds levels of categories that are not those of its features")


def check_lightgbm(text: str) -> None:
    """Refuse trees in the text of LightGBM that lead out of themselves."""
    head, *blocks = text.split("\nTree=")
    header = _fields(head)
    features, scores = int(header["max_feature_idx"]) + 1, int(header["num_tree_per_iteration"])
    _demand(0 < scores <= max(1, len(blocks)) and len(blocks) % scores == 0, "trees are miscounted")
    _demand(0 < int(header["num_class"]) <= scores, "trees and classes are miscounted")
    for name in ("feature_names", "feature_infos"):
        _demand(len(header[name].split()) == features, "features are miscounted")
    for block in blocks:
        _check_lightgbm_tree(_fields(block.split("\n\n")[0]), features)


def _check_lightgbm_tree(tree: dict[str, str], features: int) -> None:
    leaves = int(tree["num_leaves"])
    inner = leaves - 1
    sizes = dict.fromkeys((*PER_SPLIT, *STATISTICS), inner) | dict.fromkeys(PER_LEAF, leaves)
    for name, size in sizes.items():
        given = len(tree.get(name, "").split())
        _demand(given == size or (not given and name in STATISTICS), "nodes are miscounted")
    left, right, feature, kinds = (
        _ints(tree.get(name, "").split()) for name in ("left_child", "right_child", "split_feature", "decision_type")
    )
    children = np.concatenate([left, right])
    _check_children(np.where(children < 0, inner - 1 - children, children), inner + leaves)
    _demand(_within(feature, features), "a node asks for a feature that there is not")
    categories = (kinds & 1).astype(bool)
    count = int(tree.get("num_cat", "0"))
    bounds, held = _ints(tree.get("cat_boundaries", "").split()), _ints(tree.get("cat_threshold", "").split())
    _demand(count >= 0 and len(bounds) == (count + 1 if count else 0), "categories are miscounted")
    whole = not count or (bounds[0] == 0 and bounds[-1] == len(held) and bool((np.diff(bounds) >= 0).all()))
    asked = np.array(tree.get("threshold", "").split(), dtype=np.float64)[categories]
    _demand(whole and _within(asked, count), "a node asks for categories that it does not hold")
    _demand(tree.get("is_linear", "0") == "0", "leaves are linear models, which are not checked")


def _check_children(children: Ints, count: int) -> None:
    """Check that each node but the root, which is first, is a child exactly once."""
    once = np.array_equal(np.sort(children), np.arange(1, count))
    _demand(count > 0 and once, "a node is no other's child, or that of several")


def _fields(text: str) -> dict[str, str]:
    """Return the lines ``name=value``; none may be there twice."""
    lines = [line.partition("=") for line in text.splitlines() if "=" in line]
    _demand(len({name for name, _, _ in lines}) == len(lines), "a line is there twice")
    return {name: value for name, _, value in lines}


def _ints(values: Any) -> Ints:
    return np.array(values, dtype=np.int64)


def _within(values: Any, count: int) -> bool:
    return bool(((values >= 0) & (values < count)).all())


def _demand(held: Any, otherwise: str) -> None:
    if not held:
        raise TreeFileError(f"holds trees that lead out of themselves: {otherwise}")
