"""What a model file may hold without being trusted: listed types, made of a state, and trees that can be walked.

A type is listed, besides skops' own trusted list, where nothing that the author of a file can write down makes it run
the author's code: not as an object made without its constructor and given any attributes, nor when the model answers.
Each name counts only for the way of loading that it is listed under, so that nothing listed here is ever *called* on
loading; of functions a file may hold the name.  What chooses what is called, by name or by attribute (``operator``,
bound methods), is not listed.

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
Ways = dict[str, set[str]]
"""From a name in a file to the ways in which skops is told to load it."""


OBJECTS = {  # by their modules
    # Compiled trees, whose indices are checked below.
    "sklearn.tree._tree": "Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.neighbors._kd_tree": "KDTree",
    "sklearn.neighbors._ball_tree": "BallTree",
    # Metrics without parameters of their own; those with vectors or matrices index these unchecked.
    "sklearn.metrics._dist_metrics": "EuclideanDistance64 ManhattanDistance64 ChebyshevDistance64",
    # Plain Python that holds fitted numbers, or settings of a search that is over: no method is a hook of loading.
    "sklearn.calibration": "_CalibratedClassifier _SigmoidCalibration _TemperatureScaling",
    "sklearn.compose._column_transformer": "make_column_selector",  # a regular expression and types
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.gaussian_process._gpc": "_BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels": "ConstantKernel WhiteKernel RBF Matern RationalQuadratic ExpSineSquared "
    "DotProduct Sum Product Exponentiation",
    "sklearn.multiclass": "_ConstantPredictor",
    "sklearn.model_selection._split": "KFold StratifiedKFold GroupKFold StratifiedGroupKFold ShuffleSplit "
    "StratifiedShuffleSplit RepeatedKFold RepeatedStratifiedKFold TimeSeriesSplit LeaveOneOut",
    "sklearn.metrics._scorer": "_PassthroughScorer _Scorer _CurveScorer",
    "sklearn.utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
    # Not the Booster within: its trees are bytes of its library, which walks them unchecked.
    "xgboost.sklearn": "XGBClassifier XGBRFClassifier",
    "lightgbm.sklearn": "LGBMClassifier",
    "epsworth.pac.forest": "FixedForest",  # numpy alone, whose indices are checked
}
FUNCTIONS = {  # pure functions of arrays, by which columns or parameters were chosen
    "sklearn.utils.validation": "check_array",  # what histogram boosting does to numeric columns
    "sklearn.feature_selection._univariate_selection": "f_classif chi2",
    "sklearn.feature_selection._mutual_info": "mutual_info_classif",
    "sklearn.metrics._classification": "accuracy_score balanced_accuracy_score f1_score precision_score recall_score "
    "log_loss brier_score_loss matthews_corrcoef jaccard_score",
    "sklearn.metrics._ranking": "roc_auc_score average_precision_score",
}
ALLOWED: Ways = (
    {f"{module}.{name}": {"ObjectNode"} for module, names in OBJECTS.items() for name in names.split()}
    | {f"{module}.{name}": {"FunctionNode"} for module, names in FUNCTIONS.items() for name in names.split()}
    | {
        "sklearn.tree._tree.Tree": {"TreeNode"},
        "sklearn.utils._bunch.Bunch": {"DictNode"},  # a dict whose entries are attributes, too
        "numpy.dtype": {"DTypeNode"},  # that of an empty array without objects
        "numpy.number": {"TypeNode"},  # a class, named by make_column_selector
        "collections.OrderedDict": {"TypeNode", "DictNode"},
        "functools.partial": {"PartialNode"},  # of a function that may be held itself
    }
)


def doubtful(schema: Any, unknown: list[str]) -> list[str]:
    """Return the unknown types of a file that are not listed here, or are not loaded as they are listed.

    Parameters
    ----------
    schema : object
        The file's description of what it holds, as parsed from JSON.
    unknown : list of str
        Types that skops does not vouch for.

    Examples
    --------
    >>> node = {"__module__": "numpy", "__class__": "dtype", "__loader__": "DTypeNode"}
    >>> doubtful(node, ["numpy.dtype", "os.system"])
    ['os.system']
    >>> doubtful(node | {"__loader__": "ConstructorFromReduceNode"}, ["numpy.dtype"])
    ['numpy.dtype']
    """
    ways: Ways = {}
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            name = f"{part.get('__module__')}.{part.get('__class__')}"
            ways.setdefault(name, set()).add(str(part.get("__loader__")))
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return sorted(name for name in unknown if not ways.get(name, {""}) <= ALLOWED.get(name, set()))


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
        waiting += [(one, width) for one in _items(part)]
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


def _items(part: Any) -> list[Any]:
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
