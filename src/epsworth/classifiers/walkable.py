"""Trees that are walked by compiled code, which checks no index: a file's are checked before anything is asked.

scikit-learn follows a child, or looks a feature up, wherever the numbers of a tree point; with numbers that somebody
wrote by hand that is outside the memory of the tree, or a walk without an end.  What checks the records that arrive are
methods, hence no object may put an attribute in the place of one.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.classifiers.compiled import WalkError, check_agreement
from epsworth.classifiers.genuine import shadowed


def check_walks(model: Any) -> None:
    """Refuse a loaded model that leads compiled code out of its memory; let no part start processes of its own.

    Refused are trees whose children, features or records lie outside of them, arrays whose sizes differ from what
    compiled code takes for granted, and attributes in the place of methods.  Every ``n_jobs`` becomes None.
    """
    parts = _check_trees(model)
    for part in parts:
        check_agreement(part)
        if "n_jobs" in getattr(part, "__dict__", ()):
            part.__dict__["n_jobs"] = None


def _check_trees(model: Any) -> list[Any]:
    """Check the trees, and that no method is hidden, of all that a model is made of, which is returned."""
    from sklearn.ensemble import IsolationForest
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._gb import BaseGradientBoosting
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
    from sklearn.neighbors import BallTree, KDTree
    from sklearn.tree import BaseDecisionTree
    from sklearn.tree._tree import Tree

    owners = (BaseDecisionTree, BaseForest, BaseGradientBoosting, BaseHistGradientBoosting, IsolationForest)
    waiting: list[tuple[Any, Any]] = [(model, None)]  # what to look at, and how many features its owner lets through
    seen: set[tuple[int, Any]] = set()
    parts: dict[int, Any] = {}
    while waiting:
        part, width = waiting.pop()
        if isinstance(part, (str, bytes, int, float, type, FunctionType, type(None))) or (id(part), width) in seen:
            continue
        seen.add((id(part), width))
        parts[id(part)] = part
        if isinstance(part, Tree):
            _check_tree(part, width)
        elif isinstance(part, TreePredictor):
            _check_predictor(part, width)
        elif isinstance(part, (KDTree, BallTree)):
            _check_neighbours(part)
        elif isinstance(part, (list, tuple, set)):
            waiting += [(one, width) for one in part]
        elif isinstance(part, dict):
            waiting += [(one, width) for one in part.values()]
        elif isinstance(part, np.ndarray) and part.dtype == object:
            waiting += [(one, width) for one in part.ravel().tolist()]
        elif isinstance(part, functools.partial):
            waiting += [(one, None) for one in (*part.args, *part.keywords.values())]
        if hasattr(part, "__dict__") and not isinstance(part, (np.ndarray, np.ufunc)):  # numpy's own keep such ones
            hidden = shadowed(part)
            if hidden:
                raise WalkError(f"holds an attribute {hidden!r} in the place of a method of {type(part).__name__}")
            inside = isinstance(part, BaseDecisionTree) and width is not None
            let = _let_through(part, width if inside else None) if isinstance(part, owners) else None
            waiting += [(one, let) for one in vars(part).values()]
    return list(parts.values())


def _let_through(owner: Any, width: Any) -> Any:
    """Return how many columns reach an owner's trees: what it says, or its own owner, or what it chose for each."""
    subsets = vars(owner).get("estimators_features_", ())  # an isolation forest gives these, unchecked, to its trees
    counts = [vars(owner).get("n_features_in_"), *(np.size(subset) for subset in subsets)]
    counts += [] if width is None else [width]
    return min(counts) if all(type(count) is int for count in counts) else None


def _check_tree(tree: Any, width: Any) -> None:
    """Check a decision tree, whose nodes come before their children."""
    if not 0 < tree.node_count <= tree.capacity:
        raise _leads_out("a tree states more nodes than it holds")
    _check_nodes(tree.children_left, tree.children_right, tree.feature, tree.children_left == -1, width)


def _check_predictor(predictor: Any, width: Any) -> None:
    """Check a tree of histogram boosting."""
    nodes, categories = predictor.nodes, predictor.raw_left_cat_bitsets
    leaf = nodes["is_leaf"].astype(bool)
    _check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], leaf, width)
    asks = nodes["is_categorical"].astype(bool) & ~leaf
    if asks.any() and not (categories.shape[1:] == (8,) and nodes["bitset_idx"][asks].max() < len(categories)):
        raise _leads_out("a tree asks for categories that it does not hold")


def _check_nodes(left: Any, right: Any, feature: Any, leaf: NDArray[np.bool_], width: Any) -> None:
    """Check that children come after their parents, and that features are among those that the owner lets through."""
    if type(width) is not int:
        raise _leads_out("a tree's owner does not say how many features it takes")
    own, count = np.arange(len(leaf))[~leaf], len(leaf)
    for child in (left, right):
        after = child[~leaf].astype(np.int64)
        if not ((after > own) & (after < count)).all():
            raise _leads_out("a node's child is none of the nodes after it")
    asked = feature[~leaf].astype(np.int64)
    if not count or not ((asked >= 0) & (asked < width)).all():
        raise _leads_out("a node asks for a feature that there is not")


def _check_neighbours(tree: Any) -> None:
    """Check a tree of records: those that its nodes hold, its boxes, and that nodes which divide have two children."""
    data, places, nodes, bounds, _, levels, count, *_ = tree.__getstate__()
    n, width = data.shape
    start, end, inner = (
        nodes["idx_start"][:count],
        nodes["idx_end"][:count],
        np.flatnonzero(nodes["is_leaf"][:count] == 0),
    )
    whole = (
        0 < count <= len(nodes)
        and 0 < levels <= 64
        and len(places) == n
        and ((places >= 0) & (places < n)).all()
        and ((start >= 0) & (start <= end) & (end <= n)).all()
        and (not inner.size or 2 * inner.max() + 2 < count)
        and bounds.ndim == 3
        and bounds.shape[1] >= count
        and bounds.shape[2] == width
        and bounds.shape[0] >= (2 if type(tree).__name__ == "KDTree" else 1)
    )
    if not whole:
        raise _leads_out("a tree of neighbours refers to records or nodes that it does not hold")


def _leads_out(what: str) -> WalkError:
    return WalkError(f"holds a tree that leads out of itself: {what}; save the model again")
