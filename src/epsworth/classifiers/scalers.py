"""Per-column scalers in front of an estimator: it sees ``scale * natural + shift``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.classifiers.genuine import kind_of

SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
AFFINE = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")


@contextmanager
def ignoring_names() -> Iterator[None]:
    """Silence scikit-learn's remark that arrays carry no names, or frames carry some: positions are checked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X (does not have valid|has) feature names")
        yield


@dataclass(frozen=True, eq=False)
class Predict:
    """Ask a model's own ``predict``, whether the records carry names or not."""

    model: Any

    def __call__(self, records: Any) -> Any:
        """Return what the model predicts: scikit-learn does not know the columns of Arrow's tables by name."""
        if hasattr(records, "column_names") and find_spec("polars") and type(self.model).__module__[:8] == "sklearn.":
            import narwhals as nw

            records = nw.from_native(records, eager_only=True).to_polars()
        with ignoring_names():
            return self.model.predict(records)


def delegate(model: Any) -> Any | None:
    """Return the estimator that answers in a model's place: the best one of a search, or a frozen one."""
    kind = kind_of(model)
    if kind in SEARCHES:
        return getattr(model, "best_estimator_", None)
    return model.estimator if kind == "FrozenEstimator" else None


def steps_of(model: Any, *, nested: bool = True) -> tuple[Any, list[Any]]:
    """Return the estimator at the end of a pipeline and the steps before it that do something.

    ``nested``: also of what answers in its place (`delegate`), and of pipelines within pipelines.
    """
    if nested and (inner := delegate(model)) is not None:
        return steps_of(inner)
    steps = getattr(model, "steps", None)
    if (
        not isinstance(steps, list)
        or not steps
        or not all(isinstance(step, tuple) and len(step) == 2 for step in steps)
    ):
        return model, []
    *before, (_, last) = steps
    own = [step for _, step in before if step is not None and step != "passthrough"]
    if not nested:
        return last, own
    last, inner = steps_of(last)
    return last, [*own, *inner]


def opened(model: Any) -> tuple[Any, str, list[Any]] | None:
    """Return the estimator at the end of a pipeline, its kind, and the steps before it, of whatever kind.

    Searches and frozen estimators answer as what they hold, at any depth.  None where a layer answers by other code
    than its library's (`kind_of`), or where two classes have the same label.
    """
    estimator, steps = model, list[Any]()
    while True:
        kind = kind_of(estimator)
        inner = delegate(estimator)
        if kind == "Pipeline":
            inner, before = steps_of(estimator, nested=False)
            steps += before
        if kind is None or inner is estimator:
            return None
        if inner is None:
            break
        estimator = inner
    labels = getattr(estimator, "classes_", None)
    if isinstance(labels, np.ndarray) and len(set(labels.ravel().tolist())) < labels.size:
        return None
    return estimator, kind, steps


def plain(step: Any) -> bool:
    """Tell whether a per-column scaler is affine: one that clips is not."""
    return not getattr(step, "clip", False)


def dense(coefficients: Any) -> Floats:
    """Return coefficients as an array; ``sparsify`` makes them a sparse matrix."""
    return np.asarray(coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients, dtype=np.float64)


def per_column(scaler: Any, width: int) -> tuple[Floats, Floats]:
    """Return the scale and the shift of a fitted scaler (one of `AFFINE`), shapes ``(width,)``."""
    kind, ones = kind_of(scaler), np.ones(width)
    if kind == "MinMaxScaler":
        return scaler.scale_ * ones, scaler.min_ * ones
    used = {"StandardScaler": "with_std", "RobustScaler": "with_scaling"}.get(kind or "")  # asked by every transform
    spread = getattr(scaler, "scale_", None) if used is None or getattr(scaler, used) else None
    factor = ones if spread is None else ones / np.asarray(spread)
    centre = getattr(scaler, {"StandardScaler": "mean_", "RobustScaler": "center_"}.get(kind or "", ""), None)
    centred = getattr(
        scaler, {"StandardScaler": "with_mean", "RobustScaler": "with_centering"}.get(kind or "", ""), False
    )
    return factor, -factor * centre if centred and centre is not None else 0 * ones
