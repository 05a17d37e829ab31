"""Models opened layer by layer, and readings of them that are compared with their labels.

Only what is an object of a library's own class is read, and what is read is believed only where the model's own labels
agree with it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats

LIBRARIES = ("sklearn", "xgboost", "lightgbm", "catboost", "_catboost", "interpret", "torch")
METHODS = {"predict", "predict_proba", "decision_function", "transform", "forward"}
SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
COMPONENTS = {"KMeans": "cluster_centers_", "MiniBatchKMeans": "cluster_centers_", "GaussianMixture": "weights_"}
UNREADABLE = (AttributeError, IndexError, KeyError, TypeError, ValueError)  # from what another version fitted, or wrote
LEAST_CLEAR = 16  # of at least 64 points that every caller asks about
Model = TypeVar("Model")
Form = TypeVar("Form")


class Unsupported(Exception):
    """What stands in the way of reading a model, or of an engine that would answer for it."""


def read_once(memory: dict[Callable[[Model], Any], Any], reader: Callable[[Model], Form], model: Model) -> Form:
    """Return what a reader reads of a model, or raise why it reads nothing: it is asked once, and remembered."""
    if reader not in memory:
        try:
            memory[reader] = reader(model)
        except Unsupported as why:
            memory[reader] = why
    if isinstance(form := memory[reader], Unsupported):
        raise type(form)(*form.args)
    return form  # type: ignore[no-any-return]  # what the reader returned


def library_class(model: Any) -> str | None:
    """Return the name of the library's class that a model is one of; None for a subclass, or another answer.

    Claim: the class is the library's own, not one of its name or made from it, and no method that answers was put in
    the place of the library's on the object; one that was on the class is found out by asking.
    """
    kind: Any = type(model)
    return _library_class(kind) if METHODS.isdisjoint(getattr(model, "__dict__", ())) else None


def library_classes(models: Iterable[Any]) -> set[str | None]:
    """Return the names of the library's classes that models are of, None among them as of `library_class`."""
    models = list(models)
    if not METHODS.isdisjoint([name for model in models for name in getattr(model, "__dict__", ())]):
        return {None}
    return set(map(_library_class, set(map(type, models))))


@cache
def _library_class(kind: type) -> str | None:
    module = sys.modules.get(str(kind.__module__))
    ours = str(kind.__module__).partition(".")[0] in LIBRARIES and getattr(module, kind.__name__, None) is kind
    return kind.__name__ if ours else None


def answers_as_read(labels: NDArray[Any], read: NDArray[Any], clear: Bools) -> bool:
    """Tell whether a model's labels are those of its reading wherever that is clear, which it must be often enough.

    Claim: a reading of which fewer than `LEAST_CLEAR` points are compared is not believed: one wrong at a third of
    the points passes with probability (2/3)^16 = 0.0016 at most.  NaN, of which no comparison holds, is never clear.

    Parameters
    ----------
    labels : ndarray, shape ``(n,)``
        What the model answers.
    read : ndarray, shape ``(n,)``
        What its reading answers for the same records.
    clear : ndarray of bool, shape ``(n,)``
        Where the reading leads by more than rounding can turn.
    """
    return bool(clear.sum() >= LEAST_CLEAR and (labels == read)[clear].all())


def unlike(parts: str) -> str:
    """Say why what was read of a model is not believed."""
    return f"its answers are not those of its {parts}, or too few of these are clear"


def leading(scores: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the place of the largest of each record's scores, the first one of equals, and its lead over the next.

    A single score is that of the second label over the first.

    Examples
    --------
    >>> places, lead = leading(np.array([[0.5], [-2.0]]))
    >>> places.tolist(), lead.tolist()
    ([1, 0], [0.5, 2.0])
    """
    both = np.column_stack([np.zeros(len(scores)), scores]) if scores.shape[1] == 1 else scores
    best = np.partition(both, -2, axis=1)[:, -2:]
    with np.errstate(invalid="ignore"):  # NaN, where both are infinite
        return np.argmax(both, axis=1), np.asarray(best[:, 1] - best[:, 0])


def adjacent_floats(thresholds: NDArray[Any]) -> NDArray[Any]:
    """Return thresholds and their neighbours among numbers of their precision: a wrong comparison shows there."""
    low, high = (np.nextafter(thresholds, thresholds.dtype.type(end)) for end in (-np.inf, np.inf))
    return np.concatenate([low, thresholds, high])


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
    kind = library_class(model)
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
    pairs = isinstance(steps, list) and all(isinstance(step, tuple) and len(step) == 2 for step in steps)
    if not pairs or not steps:
        return model, []
    *before, (_, last) = steps
    own = [step for _, step in before if step is not None and step != "passthrough"]
    if not nested:
        return last, own
    last, inner = steps_of(last)
    return last, [*own, *inner]


class Opened(NamedTuple):
    """The estimator at the end of a pipeline, its kind, and the steps before it, of whatever kind."""

    estimator: Any
    kind: str
    steps: list[Any]


def opened(model: Any) -> Opened | None:
    """Open pipelines, searches and frozen estimators, which answer as what they hold, at any depth.

    None where a layer answers by other code than its library's (`library_class`), or where two classes have the same
    label.
    """
    estimator, steps = model, list[Any]()
    while (kind := library_class(estimator)) is not None:
        inner = delegate(estimator)
        if kind == "Pipeline":
            inner, before = steps_of(estimator, nested=False)
            steps += before
        if inner is estimator:
            return None
        if inner is None:
            labels = getattr(estimator, "classes_", None)
            twice = isinstance(labels, np.ndarray) and len(set(labels.ravel().tolist())) < labels.size
            return None if twice else Opened(estimator, kind, steps)
        estimator = inner
    return None


def dense(coefficients: Any) -> Floats:
    """Return coefficients as an array; ``sparsify`` makes them a sparse matrix."""
    return np.asarray(coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients, dtype=np.float64)


def known_labels(model: Any) -> NDArray[Any] | None:
    """Return the labels that a fitted estimator or pipeline can give, in the order of its scores; None if unknown."""
    classes, last = getattr(model, "classes_", None), steps_of(model)[0]
    if isinstance(classes, np.ndarray):
        return classes if classes.ndim == 1 else None
    counted = COMPONENTS.get(library_class(last) or "") if last is model or library_class(model) == "Pipeline" else None
    return None if counted is None else np.arange(len(getattr(last, counted)))
