"""Algorithms that can be privatized: one table line each, by the name of the estimator's class."""

from __future__ import annotations

from typing import Any, Literal

from epsworth.arrays import Floats
from epsworth.pac.adapters.adapter import FunctionMechanism, Labels, MeanMechanism, Mechanism, Prepare, as_numbers
from epsworth.pac.adapters.components import PCAMechanism
from epsworth.pac.adapters.forests import ForestMechanism
from epsworth.pac.adapters.kmeans import KMeansMechanism
from epsworth.pac.adapters.linear import LinearMechanism

__all__ = ["ADAPTERS", "Mechanism", "adapter_for", "prepared"]

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
    raise TypeError(f"estimator must be {', '.join(ADAPTERS)}, 'mean' or a function of the rows, got {algorithm!r}")


def prepared(adapter: Literal["auto"] | Prepare, algorithm: Any, X: Floats, y: Labels | None) -> Mechanism:
    """Return an algorithm prepared on the pool, by the table above or by an adapter of the caller's."""
    if adapter == "auto":
        return adapter_for(algorithm)(algorithm, X, y)
    if not callable(adapter):
        raise TypeError(f"adapter must be 'auto' or a function of (estimator, X, y), got {adapter!r}")
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
