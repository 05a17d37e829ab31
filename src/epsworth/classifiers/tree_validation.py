"""Trees of model files, validated before compiled code walks them: no cycle, children and features in range.

scikit-learn, XGBoost and LightGBM follow the numbers of a tree unchecked: those that somebody wrote by hand could end
the process, or never end.  Other arrays of a model rest on its library.
"""

from __future__ import annotations

import functools
import json
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

PLAIN = (str, bytes, int, float, type, FunctionType, np.ufunc, type(None))


class TreeError(ValueError):
    """A tree that cannot be walked safely."""


def check_trees(model: Any) -> None:
    """Refuse a loaded model with a tree that cannot be walked; let no part start processes of its own.

    Every ``n_jobs`` becomes None, and no attribute may take the place of a method: methods count the columns.
    """
    from scipy.sparse import issparse
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._gb import BaseGradientBoosting
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
    from sklearn.tree import BaseDecisionTree

    ensembles = (BaseForest, BaseGradientBoosting, BaseHistGradientBoosting)
    waiting: list[tuple[Any, Any]] = [(model, None)]  # with how many features the owner lets through
    seen: dict[tuple[int, Any], Any] = {}
    while waiting:
        part, width = waiting.pop()
        if isinstance(part, PLAIN) or (id(part), width) in seen:
            continue
        seen[id(part), width] = part
        _check_part(part, width)
        waiting += [(one, width) for one in _held(part)]
        if issparse(part) and hasattr(part, "check_format"):
            part.check_format(full_check=True)
        if not hasattr(part, "__dict__") or isinstance(part, np.ndarray):
            continue
        own = vars(part)
        if hidden := next((name for name in own if callable(getattr(type(part), name, None))), None):
            raise TreeError(f"holds an attribute {hidden!r} in the place of a method of {type(part).__name__}")
        if "n_jobs" in own:
            own["n_jobs"] = None
        let = own.get("n_features_in_") if isinstance(part, (*ensembles, BaseDecisionTree)) else None
        if isinstance(part, BaseDecisionTree) and type(width) is type(let) is int:
            let = min(width, let)
        waiting += [(one, let) for one in own.values()]


def _held(part: Any) -> list[Any]:
    if isinstance(part, dict):
        return list(part.values())
    if isinstance(part, (list, tuple, set)):
        return list(part)
    if isinstance(part, functools.partial):
        return [*part.args, *part.keywords.values()]
    return part.ravel().tolist() if isinstance(part, np.ndarray) and part.dtype == object else []


def _check_part(part: Any, width: Any) -> None:
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
    from sklearn.neighbors import BallTree, KDTree
    from sklearn.tree._tree import Tree

    if isinstance(part, Tree):
        leaf = part.children_left == -1
        _check_nodes(part.children_left, part.children_right, part.feature, leaf, width)
    elif isinstance(part, TreePredictor):
        nodes, leaf = part.nodes, part.nodes["is_leaf"].astype(bool)
        _check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], leaf, width)
        asks = nodes["is_categorical"].astype(bool) & ~leaf
        if (nodes["bitset_idx"][asks] >= len(part.raw_left_cat_bitsets)).any():
            raise _invalid("a node asks for categories that it does not hold")
    elif isinstance(part, (KDTree, BallTree)):
        _check_neighbours(part)


def _check_neighbours(tree: Any) -> None:
    """Check a tree of records, whose nodes are numbered: the children of i are 2 i + 1 and 2 i + 2."""
    data, places, nodes, bounds, _, _, count, *_ = tree.__getstate__()
    ends, inner = (nodes[name][:count] for name in ("idx_start", "idx_end")), nodes["is_leaf"][:count] == 0
    n = len(data)
    fine = all(((end >= 0) & (end <= n)).all() for end in ends) and ((places >= 0) & (places < n)).all()
    if not fine or len(places) != n or 2 * np.flatnonzero(inner).max(initial=-1) + 2 >= count > 0:
        raise _invalid("a node's child or record is out of range")
    if not 0 < count <= min(len(nodes), bounds.shape[1]) or bounds.shape[2] != data.shape[1]:
        raise _invalid("nodes are miscounted")


def check_xgboost(text: bytes) -> None:
    """Refuse trees of XGBoost, as its library writes them in JSON, that cannot be walked."""
    learner = json.loads(text)["learner"]
    booster, features = learner["gradient_booster"], int(learner["learner_model_param"]["num_feature"])
    for tree in booster.get("gbtree", booster).get("model", {}).get("trees", []):
        left, right, feature = (_ints(tree[name]) for name in ("left_children", "right_children", "split_indices"))
        _check_nodes(left, right, feature, left == -1, features)


def check_lightgbm(text: str) -> None:
    """Refuse trees in the text of LightGBM that cannot be walked."""
    head, *blocks = text.split("\nTree=")
    features = int(_fields(head)["max_feature_idx"]) + 1
    for block in blocks:
        tree = _fields(block.split("\n\n")[0])
        if tree.get("is_linear", "0") != "0":
            raise TreeError("holds leaves that are linear models, which are not checked")
        inner = int(tree["num_leaves"]) - 1
        left, right, feature = (_ints(tree.get(n, "").split()) for n in ("left_child", "right_child", "split_feature"))
        if not len(left) == len(right) == len(feature) == inner:
            raise _invalid("nodes are miscounted")
        if _ints(tree.get("cat_boundaries", "").split()).max(initial=0) > len(tree.get("cat_threshold", "").split()):
            raise _invalid("a node asks for categories that it does not hold")
        left, right = (np.where(side < 0, inner - 1 - side, side) for side in (left, right))  # leaves come last
        leaf = np.arange(2 * inner + 1) >= inner
        left, right, feature = (np.pad(side, (0, inner + 1)) for side in (left, right, feature))
        _check_nodes(left, right, feature, leaf, features)


def _check_nodes(left: Any, right: Any, feature: Any, leaf: NDArray[np.bool_], width: Any) -> None:
    """Check that no node but the root, which is none, is a child twice: then no walk from the root has a cycle."""
    if type(width) is not int or not len(left) == len(right) == len(feature) == len(leaf) > 0:
        raise _invalid("nodes are miscounted, or its owner does not say how many features it takes")
    children = np.concatenate([left[~leaf], right[~leaf]]).astype(np.int64)
    if not ((children > 0) & (children < len(leaf))).all() or len(np.unique(children)) < len(children):
        raise _invalid("a child index is out of range, or there is a cycle")
    asked = feature[~leaf].astype(np.int64)
    if not ((asked >= 0) & (asked < width)).all():
        raise _invalid("a node asks for a feature that there is not")


def _fields(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _ints(values: Any) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _invalid(what: str) -> TreeError:
    return TreeError(f"holds an invalid tree: {what}")
