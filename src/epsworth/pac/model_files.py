"""Released models as files: of skops, or arrays alone (.npz); neither runs code when it is loaded.

What is written is the released object and, in an .npz file, its report; nothing else of the fit.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.files import check_readable, check_writable, replacing
from epsworth.pac.mechanism import as_numbers
from epsworth.values import label_array

if TYPE_CHECKING:
    from epsworth.pac.mechanism import Mechanism
    from epsworth.pac.release import Release

ENDINGS = (".skops", ".npz")
KIND = "epsworth: a PAC-private release, 1"
HOMES = {
    "KMeans": "sklearn.cluster",
    "LinearSVC": "sklearn.svm",
    "LogisticRegression": "sklearn.linear_model",
    "RidgeClassifier": "sklearn.linear_model",
    "LinearRegression": "sklearn.linear_model",
    "Ridge": "sklearn.linear_model",
    "PCA": "sklearn.decomposition",
    "FixedForest": "epsworth.pac.forest",
}


def check_model_file(path: str | Path) -> Path:
    """Return the path of a model that can be written, or refuse it."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise ValueError(f"{path} has an unknown ending; released models are written as {' or '.join(ENDINGS)}")
    return check_writable(path)


def save_model(
    release: Release, path: str | Path, names: Sequence[str] | None = None, ranges: ArrayLike | None = None
) -> None:  # fmt: skip
    """Write what `Release.save_model` describes, whole or not at all."""
    path = check_model_file(path)
    if not hasattr(release.estimator_, "get_params"):
        raise ValueError("this release is a vector, which predicts nothing; write its numbers with Release.save")
    if path.suffix.lower() == ".skops":
        from skops import io

        model = _natural(deepcopy(release.estimator_), names, ranges)
        with replacing(path) as temporary:
            io.dump(model, temporary)
        return
    head, arrays = _told(release, names, ranges)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, head=np.array(json.dumps(head)), **arrays)


def load_model(path: str | Path) -> Any:
    """Return the model of an .npz file, which takes columns in natural units: what its release held."""
    path = check_readable(path, "model")
    try:
        with zipfile.ZipFile(path) as archive:
            if any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist()):
                raise ValueError("it is compressed")  # and could be larger than it looks
        with np.load(path, allow_pickle=False) as arrays:
            head = json.loads(str(arrays["head"]))
            if head["kind"] != KIND:
                raise ValueError("it is of another kind")
            vector = as_numbers(arrays["vector"], "the vector")
            if not np.isfinite(vector).all():
                raise ValueError("it holds numbers that are not finite")
            mechanism = MAKERS.get(head["algorithm"], _linear)(head, vector, _estimator(head), arrays)
            return _natural(mechanism.rebuild(vector), head["names"], head["ranges"])
    except Exception as error:  # damage shows anywhere: in the archive, the JSON, a shape
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(
            f"the model {path} is no whole release of privatize --output ({reason}); write it again"
        ) from None


def _told(release: Release, names: Sequence[str] | None, ranges: ArrayLike | None) -> tuple[dict[str, Any], Any]:
    """Return the description of a released estimator and its arrays, of which none is an object."""
    model = release.estimator_
    kind = type(model).__name__
    if not type(model).__module__.startswith(f"{HOMES.get(kind, '-')}"):
        raise ValueError(f"{kind} has no form as .npz; take .skops")
    plain = type(model)().get_params(deep=False)
    own = {name: value for name, value in model.get_params(deep=False).items() if name != "init"}
    params = {name: value for name, value in own.items() if value is not plain[name] and value != plain[name]}
    classes = getattr(model, "classes_", None)
    head = {
        "kind": KIND,
        "algorithm": kind,
        "params": params,
        "classes": None if classes is None else classes.tolist(),
        "columns": int(model.n_features_in_),
        "names": None if names is None else list(names),
        "ranges": None if ranges is None else as_floats(ranges).tolist(),
        "report": release.report(),
    }
    arrays = {"vector": release.vector}
    if kind == "FixedForest":
        arrays["features"] = model.features_
    if kind == "PCA":
        arrays["mean"] = model.mean_
    return head, arrays


def _estimator(head: Any) -> Any:
    kind = getattr(import_module(HOMES[head["algorithm"]]), head["algorithm"])
    return kind().set_params(**{name: value for name, value in head["params"].items() if name != "n_jobs"})


def _linear(head: Any, vector: Floats, template: Any, arrays: Any) -> Mechanism:
    from epsworth.pac.linear import LinearMechanism, blank_of

    classes = None if head["classes"] is None else label_array(head["classes"])
    return LinearMechanism(vector, template, classes, False, blank_of(template, classes, head["columns"]))


def _kmeans(head: Any, vector: Floats, template: Any, arrays: Any) -> Mechanism:
    from epsworth.pac.unsupervised import KMeansMechanism

    if vector.size != int(template.n_clusters) * head["columns"]:
        raise ValueError("its centroids are not those of so many columns")
    return KMeansMechanism(vector, template)


def _pca(head: Any, vector: Floats, template: Any, arrays: Any) -> Mechanism:
    from epsworth.pac.unsupervised import PCAMechanism

    mean = as_numbers(arrays["mean"], "the mean")
    if mean.shape != (head["columns"],):
        raise ValueError("its mean is not that of so many columns")
    return PCAMechanism(vector, template, mean, None)


def _forest(head: Any, vector: Floats, template: Any, arrays: Any) -> Mechanism:
    from epsworth.pac.forest import ForestMechanism

    classes, features = label_array(head["classes"]), np.array(arrays["features"], dtype=np.intp)
    trees, depth = int(template.n_trees), int(template.depth)
    if features.shape != (trees, depth) or features.min() < 0 or features.max() >= head["columns"]:
        raise ValueError("its trees do not ask for columns that it has")
    if vector.size != trees * (2**depth - 1 + 2**depth * len(classes)):  # before so much memory is asked for
        raise ValueError("its numbers are not those of such trees")
    template.features_ = features
    template.thresholds_ = np.zeros((trees, 2**depth - 1))
    template.masses_ = np.zeros((trees, 2**depth, len(classes)))
    return ForestMechanism(vector, template, classes, head["columns"])


MAKERS: dict[str, Callable[[Any, Floats, Any, Any], Mechanism]] = {
    "KMeans": _kmeans, "PCA": _pca, "FixedForest": _forest,
}  # fmt: skip


def _natural(model: Any, names: Sequence[str] | None, ranges: ArrayLike | None) -> Any:
    """Return the model for columns of these names in natural units; public ranges are scaled to [0, 1] before it."""
    first = model
    if ranges is not None:
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import MinMaxScaler

        first = MinMaxScaler().fit(as_floats(ranges).T)
        if first.n_features_in_ != model.n_features_in_:
            raise ValueError(f"ranges must be those of the {model.n_features_in_} columns, got {ranges!r}")
        model = Pipeline([("scale", first), ("model", model)])
    if names is not None:
        if len(names) != first.n_features_in_:
            raise ValueError(f"names must be those of the {first.n_features_in_} columns, got {len(names)} names")
        first.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
    return model
