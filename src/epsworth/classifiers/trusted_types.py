"""Types that skops files may hold without being trusted by the user, besides skops' own trusted list.

A type is listed where nothing that the author of a file can write down makes it run the author's code: not as an object
made without its constructor and given any attributes, nor when the model answers.  Each name counts only for the way of
loading that it is listed under, so that nothing listed here is ever *called* on loading; of functions a file may hold
the name.  What chooses what is called, by name or by attribute (``operator``, bound methods), is not listed.
"""

from __future__ import annotations

from typing import Any

Ways = dict[str, set[str]]
"""From a name in a file to the ways in which skops is told to load it."""


def _all(module: str, names: str) -> set[str]:
    return {f"{module}.{name}" for name in names.split()}


OBJECTS = (
    # Compiled trees, whose indices `tree_validation` checks.
    _all("sklearn.tree._tree", "Tree")
    | _all("sklearn.ensemble._hist_gradient_boosting.predictor", "TreePredictor")
    | _all("sklearn.neighbors._kd_tree", "KDTree")
    | _all("sklearn.neighbors._ball_tree", "BallTree")
    # Metrics without parameters of their own; those with vectors or matrices index these unchecked.
    | _all("sklearn.metrics._dist_metrics", "EuclideanDistance64 ManhattanDistance64 ChebyshevDistance64")
    # Plain Python that holds fitted numbers, or settings of a search that is over: no method is a hook of loading.
    | _all("sklearn.calibration", "_CalibratedClassifier _SigmoidCalibration _TemperatureScaling")
    | _all("sklearn.compose._column_transformer", "make_column_selector")  # a regular expression and types
    | _all("sklearn.neural_network._stochastic_optimizers", "AdamOptimizer SGDOptimizer")
    | _all("sklearn.gaussian_process._gpc", "_BinaryGaussianProcessClassifierLaplace")
    | _all(
        "sklearn.gaussian_process.kernels",
        "ConstantKernel WhiteKernel RBF Matern RationalQuadratic ExpSineSquared DotProduct Sum Product Exponentiation",
    )
    | _all("sklearn.multiclass", "_ConstantPredictor")
    | _all(
        "sklearn.model_selection._split",
        "KFold StratifiedKFold GroupKFold StratifiedGroupKFold ShuffleSplit StratifiedShuffleSplit RepeatedKFold "
        "RepeatedStratifiedKFold TimeSeriesSplit LeaveOneOut",
    )
    | _all("sklearn.metrics._scorer", "_PassthroughScorer _Scorer _CurveScorer")
    | _all("sklearn.utils._metadata_requests", "MetadataRequest MethodMetadataRequest")
    # Not the Booster within: its trees are bytes of its library, which walks them unchecked.
    | _all("xgboost.sklearn", "XGBClassifier XGBRFClassifier")
    | _all("lightgbm.sklearn", "LGBMClassifier")
    | _all("epsworth.pac.forest", "FixedForest")  # numpy alone, whose indices are checked
)
FUNCTIONS = (  # pure functions of arrays, by which columns or parameters were chosen
    _all("sklearn.utils.validation", "check_array")  # what histogram boosting does to numeric columns
    | _all("sklearn.feature_selection._univariate_selection", "f_classif chi2")
    | _all("sklearn.feature_selection._mutual_info", "mutual_info_classif")
    | _all(
        "sklearn.metrics._classification",
        "accuracy_score balanced_accuracy_score f1_score precision_score recall_score log_loss brier_score_loss "
        "matthews_corrcoef jaccard_score",
    )
    | _all("sklearn.metrics._ranking", "roc_auc_score average_precision_score")
)
ALLOWED: Ways = (
    {name: {"ObjectNode"} for name in OBJECTS}
    | {name: {"FunctionNode"} for name in FUNCTIONS}
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
