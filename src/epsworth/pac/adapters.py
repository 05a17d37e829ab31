"""Algorithms that can be privatized: by the class of an estimator, and by name.

Each has one line in `ADAPTERS`; those that the command line knows by name, one in `_factories`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

from epsworth.arrays import Floats
from epsworth.numerals import short
from epsworth.pac.forest import ForestMechanism
from epsworth.pac.linear import LinearMechanism
from epsworth.pac.mechanism import FunctionMechanism, Labels, MeanMechanism, Mechanism, Prepare, as_numbers
from epsworth.pac.unsupervised import KMeansMechanism, PCAMechanism

__all__ = ["ADAPTERS", "adapter_for", "prepared"]

ADAPTERS: dict[str, Prepare] = {
    "KMeans": KMeansMechanism.prepare,
    "LinearSVC": LinearMechanism.prepare,
    "LogisticRegression": LinearMechanism.prepare,
    "RidgeClassifier": LinearMechanism.prepare,
    "LinearRegression": LinearMechanism.prepare,
    "Ridge": LinearMechanism.prepare,
    "PCA": PCAMechanism.prepare,
    "FixedForest": ForestMechanism.prepare,
}


def adapter_for(algorithm: Any) -> Prepare:
    """Return how to prepare an estimator, a function, or the word ``"mean"``; refuse what would leak.

    Only the exact classes of the table: a subclass may keep more fitted state than is released.
    """
    if isinstance(algorithm, str) and algorithm == "mean":
        return MeanMechanism.prepare
    name = type(algorithm).__name__
    ours = type(algorithm).__module__.startswith(("sklearn.", "epsworth.pac."))
    if ours and name in ADAPTERS:
        return ADAPTERS[name]
    if hasattr(algorithm, "fit"):
        raise TypeError(_why_not(algorithm, name))
    if callable(algorithm):
        return FunctionMechanism.prepare
    raise TypeError(
        f"estimator must be {', '.join(ADAPTERS)}, 'mean' or a function of the rows, got {short(algorithm)}"
    )


def prepared(adapter: Literal["auto"] | Prepare, algorithm: Any, X: Floats, y: Labels | None) -> Mechanism:
    """Return an algorithm prepared on the pool, by the table above or by an adapter of the caller's."""
    if adapter == "auto":
        return adapter_for(algorithm)(algorithm, X, y)
    if not callable(adapter):
        raise TypeError(f"adapter must be 'auto' or a function of (estimator, X, y), got {short(adapter)}")
    found = adapter(algorithm, X.copy(), None if y is None else y.copy())  # what is not ours may write to what it gets
    if not isinstance(found, Mechanism):
        raise TypeError(f"adapter must return a Mechanism, got a {type(found).__name__}")
    as_numbers(found.reference, "the reference of the adapter's mechanism")
    return found


def _why_not(algorithm: Any, name: str) -> str:
    if hasattr(algorithm, "steps"):
        inner = ", ".join(step for step, _ in algorithm.steps[:-1])
        return (
            f"a {name} would fit {inner or 'its steps'} on the secret rows and release them without noise; "
            "transform the pool by public constants first, and pass the last step alone"
        )
    return (
        f"{name} has no adapter: which of its fitted attributes leave is unknown; pass adapter=, or a function "
        "that returns all of them as one vector"
    )


LABELLED = ("linear_svm", "logistic", "ridge_classifier", "forest", "linear_regression", "ridge")
REFUSED = re.compile(r"The '(?P<parameter>\w+)' parameter of \w+ must be (?P<allowed>.*?)\. Got ")  # of scikit-learn
NAMES = ("mean", "kmeans", "pca", *LABELLED)


def named(name: str, settings: Sequence[str] = ()) -> Any:
    """Return the algorithm of this name with settings ``parameter=value``.

    Examples
    --------
    >>> named("kmeans", ["n_clusters=3"]).n_clusters
    3
    """
    if name not in NAMES:
        raise ValueError(f"unknown algorithm {name!r}; take one of {', '.join(NAMES)}")
    given = dict(_setting(text) for text in settings)
    if name == "mean":
        if given:
            raise ValueError(f"mean has no parameter {next(iter(given))!r}; drop it")
        return "mean"
    estimator = _factories()[name]()
    unknown = given.keys() - estimator.get_params().keys()
    if unknown:
        raise ValueError(f"{name} has no parameter {min(unknown)!r}; it has {', '.join(estimator.get_params())}")
    _check_settings(name, estimator.set_params(**given), given)
    return estimator


def _check_settings(name: str, estimator: Any, given: dict[str, Any]) -> None:
    """Refuse, before any work, a value that a parameter cannot have."""
    if not hasattr(estimator, "_parameter_constraints"):
        return
    try:
        estimator._validate_params()
    except ValueError as error:
        found = REFUSED.match(str(error))
        if found is None or found["parameter"] not in given:
            raise
        word = found["parameter"]
        raise ValueError(f"--set {word}: {name} takes {found['allowed']} for it, got {short(given[word])}") from None


def _factories() -> dict[str, Callable[[], Any]]:
    from sklearn import linear_model
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.svm import LinearSVC

    from epsworth.pac.forest import FixedForest

    return {
        "kmeans": lambda: KMeans(n_init=10),
        "pca": lambda: PCA(2),
        "linear_svm": lambda: LinearSVC(dual=False),
        "logistic": lambda: linear_model.LogisticRegression(max_iter=1000),
        "ridge_classifier": linear_model.RidgeClassifier,
        "forest": FixedForest,
        "linear_regression": linear_model.LinearRegression,
        "ridge": linear_model.Ridge,
    }


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--set must be parameter=value, got {short(text)}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # a word, such as solver=svd
