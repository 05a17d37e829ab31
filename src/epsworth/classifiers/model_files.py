"""Model files: data is loaded as it is, programs only when the user says so.

skops files may hold what skops and the lists here name, or what the user names; ONNX files, and those that XGBoost,
LightGBM and CatBoost write, hold numbers.  Pickles, Keras archives and PyTorch programs run when they are loaded or
asked.  Boosters hold scores and an objective: where that says what a label is, the model becomes its library's
classifier, of labels 0, 1, 2, ..; else it is refused, since no threshold on a score is ours to choose.

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
import importlib
import io
import json
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.classifiers.boosters import (
    CATBOOST_OBJECTIVES,
    LIGHTGBM_OBJECTIVES,
    XGBOOST_OBJECTIVES,
    lightgbm_classifier,
)
from epsworth.files import check_readable

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


PICKLES = (".pkl", ".pickle", ".joblib")
SCHEMA = "schema.json"  # of what a skops file holds
PROBES = 16
LARGEST = 2**30  # bytes that a skops file may unpack to
SMALL, RATIO = 2**26, 100  # beyond the first, not more than so many times the file's own size


class ArchiveError(ValueError):
    """An archive that unpacks to too much."""


def load_model(path: str | Path, *, trust: bool | Sequence[str] = False) -> Any:
    """Load a fitted classifier.

    Parameters
    ----------
    path : str or Path
        By its ending: ``.skops``; ``.onnx``; ``.ubj`` or ``.json`` of XGBoost, ``.txt`` of LightGBM, ``.cbm`` of
        CatBoost; and, with ``trust=True``, a pickle (``.pkl``, ``.pickle``, ``.joblib``), a PyTorch program
        (``.pt2`` of ``torch.export``, ``.pt`` of TorchScript) or ``.keras``.
    trust : bool or sequence of str
        Names of types that a skops file may hold besides the harmless ones, such as ``("mypackage.MyScaler",)``.
        True runs whatever the file contains, which is code of whoever wrote it, and says so in a warning.

    Returns
    -------
    object
        What was saved; see `as_classifier` for how it is asked.

    Raises
    ------
    ValueError
        For files that are not there, broken, of an unknown kind, or that hold types which ``trust`` does not name.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skops.io import dump
    >>> from sklearn.linear_model import LogisticRegression
    >>> from epsworth import load_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.skops")
    ...     dump(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), path)
    ...     model = load_model(path)
    >>> model.predict([[0.2], [0.9]]).tolist()
    [0, 1]
    """
    path = check_readable(path, "model")
    ending = path.suffix.lower()
    loaders = NATIVE | PROGRAMS
    if ending not in (".skops", *PICKLES, *loaders):
        raise ValueError(
            f"the model {path} has the ending {path.suffix or '(none)'}; give one of .skops, {', '.join(NATIVE)}, "
            f"or with --trust one of {', '.join((*PICKLES, *PROGRAMS))} (a learner's: learner.Classifier.load)"
        )
    if not path.stat().st_size:
        raise ValueError(f"cannot read the model {path}: the file is empty; save the model again")
    if ending == ".skops":
        return _load_skops(path, trust if isinstance(trust, bool) else _types(trust))
    if ending in NATIVE:
        return NATIVE[ending](path)
    what = "a pickle" if ending in PICKLES else "a program"
    if trust is not True:  # names of types are not enough
        raise ValueError(
            f"the model {path} is {what}, and loading it runs code of whoever wrote it; "
            "save it with skops.io.dump or as ONNX, or pass --trust if you made it yourself"
        )
    warnings.warn(f"{path} is {what}: loading it runs the code it contains", UserWarning, stacklevel=2)
    return _load_pickle(path) if ending in PICKLES else PROGRAMS[ending](path)


def _types(trust: Sequence[str]) -> set[str]:
    """Return the names of trusted types."""
    names = [trust] if isinstance(trust, str) else list(trust)
    for name in names:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")) or "." not in name:
            raise ValueError(
                f"trust names {name!r}, which is no type; give names such as 'mypackage.module.Type', "
                "or True to run whatever the file contains"
            )
    return set(names)


def _load_skops(path: Path, trust: bool | set[str]) -> Any:
    from skops import io as skops_io

    trusted, refused = (trust if isinstance(trust, set) else set[str]()), list[str]()
    try:
        data = path.read_bytes()  # once: what is checked is what is loaded
        if trust is not True:
            _check_size(data)
        unknown = skops_io.get_untrusted_types(data=data)
        if trust is not True:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                refused = [one for one in doubtful(json.loads(archive.read(SCHEMA)), unknown) if one not in trusted]
        if not refused:
            model = skops_io.loads(data, trusted=unknown)
            if trust is not True:
                check_trees(model)
    except (ArchiveError, TreeError) as error:
        raise ValueError(f"the model {path} {error}; pass --trust if you made it yourself") from None
    except Exception as error:
        reason = "" if isinstance(error, zipfile.BadZipFile) else f": {_first_line(error)}"
        raise ValueError(
            f"the model {path} is not a skops file, or not a whole one{reason}; save it with skops.io.dump"
        ) from error
    if refused:
        raise ValueError(
            f"the model {path} contains types that skops does not know: {', '.join(refused)}; "
            f"pass --trust {','.join(refused)} if you made it yourself"
        )
    if trust is True and unknown:
        warnings.warn(
            f"{path} is loaded with every type that it names ({', '.join(sorted(unknown))}), which may run code; "
            "name the types to trust instead",
            UserWarning,
            stacklevel=3,
        )
    return model


def _check_size(data: bytes) -> None:
    """Refuse a file that unpacks to too much, before anything in it is loaded."""
    most = min(LARGEST, max(SMALL, RATIO * len(data)))
    if _unpacked(data, most) > most:
        raise ArchiveError(f"unpacks to more than {most / 2**20:,.0f} MB, from {len(data) / 2**20:,.1f} MB")


def _unpacked(data: bytes, most: int) -> int:
    """Return bytes by the stated sizes, with archives within (sparse matrices), a member for each time it is named."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        stated = {info.filename: info.file_size for info in archive.infolist()}
        size = sum(info.file_size for info in archive.infolist())
        for name in stated if size <= most else ():
            member = archive.read(name)
            if member.startswith(b"PK"):
                size += _unpacked(member, most - size)
            elif name == SCHEMA:
                size += sum(stated.get(one, 0) for one in _named_members(member))
    return size


def _named_members(schema: bytes) -> list[str]:
    """Return the members that a schema names, as often as it does."""
    names: list[Any] = []
    json.loads(schema, object_hook=lambda node: names.append(node.get("file")))
    return [name for name in names if isinstance(name, str)]


def _load_pickle(path: Path) -> Any:
    try:
        if path.suffix.lower() == ".joblib":
            import joblib

            return joblib.load(path)
        with path.open("rb") as file:
            return pickle.load(file)
    except Exception as error:
        raise ValueError(f"cannot load the model {path}: {_first_line(error)}; save it again") from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]


def _imported(package: str, extra: str, path: Path) -> Any:
    """Import a package, or say how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ValueError(
            f'the model {path} needs the package {package}, which is not installed: pip install "epsworth[{extra}]"'
        ) from None


def _parsed(path: Path, what: str, load: Callable[[], Any]) -> Any:
    """Load a file, or say in one sentence that it is none of the library's."""
    try:
        return load()
    except TreeError as error:
        raise ValueError(f"the model {path} {error}; save the model again") from None
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise ValueError(
            f"the model {path} is not {what} file, or not a whole one: {reason}; save the model again"
        ) from error


def _scores_only(path: Path, objective: str, known: tuple[str, ...]) -> ValueError:
    names = ", ".join(name.split(" ")[0] for name in known)
    return ValueError(
        f"the model {path} answers scores of the objective {objective!r}, which does not say what a label is; "
        f"give a model of one of {names}, or a function from records to labels"
    )


def _xgboost(path: Path) -> Any:
    xgboost = _imported("xgboost", "boosting", path)
    data = bytearray(path.read_bytes())  # once: what is checked is what is loaded
    booster = xgboost.Booster()
    _parsed(path, "an XGBoost", lambda: booster.load_model(data))
    _parsed(path, "an XGBoost", lambda: check_xgboost(bytes(booster.save_raw("json"))))
    objective = re.search(r'"objective":\{.*?"name":"([^"]*)"', booster.save_config())
    if objective is None or objective[1] not in XGBOOST_OBJECTIVES:
        raise _scores_only(path, objective[1] if objective else "unknown", XGBOOST_OBJECTIVES)
    model = xgboost.XGBClassifier()
    model.load_model(data)
    return model


def _lightgbm(path: Path) -> Any:
    """Load a booster as a classifier, and compare their answers."""
    lightgbm = _imported("lightgbm", "boosting", path)
    text = _parsed(path, "a LightGBM", lambda: path.read_text(encoding="utf-8"))
    _parsed(path, "a LightGBM", lambda: check_lightgbm(text))
    text = re.sub(r"^tree_sizes=.*\n", "", text, flags=re.MULTILINE)  # places to read at, unchecked
    booster = _parsed(path, "a LightGBM", lambda: lightgbm.Booster(model_str=text))
    model = lightgbm_classifier(booster)
    if model is None:
        objective = re.search(r"^objective=(.*)$", booster.model_to_string(num_iteration=1), flags=re.MULTILINE)
        raise _scores_only(path, objective[1] if objective else "unknown", LIGHTGBM_OBJECTIVES)
    probes = np.random.default_rng(0).normal(size=(PROBES, booster.num_feature()))
    scores = booster.predict(probes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the probes carry no names
        same = model.predict(probes) == (scores > 0.5 if scores.ndim == 1 else scores.argmax(axis=1))
    if not same.all():
        raise ValueError(f"the model {path} is answered in another way by this version of lightgbm; save it with skops")
    return model


def _catboost(path: Path) -> Any:
    catboost = _imported("catboost", "catboost", path)
    plain = _parsed(path, "a CatBoost", lambda: catboost.CatBoost().load_model(str(path)))
    objective = str(plain.get_all_params().get("loss_function", "unknown")).split(":")[0]
    if objective not in CATBOOST_OBJECTIVES:
        raise _scores_only(path, objective, CATBOOST_OBJECTIVES)
    return catboost.CatBoostClassifier().load_model(str(path))


def _onnx(path: Path) -> Any:
    onnx = _imported("onnx", "onnx", path)
    _imported("onnxruntime", "onnx", path)
    model = _parsed(path, "an ONNX", lambda: onnx.load(path))
    _parsed(path, "an ONNX", lambda: onnx.checker.check_model(model))
    return model


def _exported(path: Path) -> Any:
    torch = _imported("torch", "torch", path)
    return _parsed(path, "a torch.export", lambda: torch.export.load(path))


def _scripted(path: Path) -> Any:
    torch = _imported("torch", "torch", path)
    return _parsed(path, "a TorchScript", lambda: torch.jit.load(path, map_location="cpu")).eval()


def _keras(path: Path) -> Any:
    keras = _imported("keras", "keras", path)
    return _parsed(path, "a Keras", lambda: keras.saving.load_model(path, compile=False))


NATIVE: dict[str, Callable[[Path], Any]] = {
    ".onnx": _onnx, ".ubj": _xgboost, ".json": _xgboost, ".txt": _lightgbm, ".cbm": _catboost
}  # fmt: skip
PROGRAMS: dict[str, Callable[[Path], Any]] = {".pt2": _exported, ".pt": _scripted, ".keras": _keras}
