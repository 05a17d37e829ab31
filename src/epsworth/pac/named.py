"""Algorithms by name, for the command line: one table line each."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from epsworth.numerals import short

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
        raise ValueError(f"--set must be parameter=value, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # a word, such as solver=svd
