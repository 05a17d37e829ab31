"""Algorithms by name, for the command line: one table line each."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

LABELLED = ("linear_svm", "logistic", "ridge_classifier", "forest", "linear_regression", "ridge")
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
    return estimator.set_params(**given)


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
