"""PAC privacy: what one world costs beside a fit of scikit-learn, and a thousand worlds end to end."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import MinMaxScaler

from benchmarks.timing import Clock, Row, seconds, shown
from epsworth.pac import MI, FixedForest, PACPrivatizer
from epsworth.pac.adapters import adapter_for
from epsworth.pac.calibration import Shape, calibrate
from epsworth.pac.simulation import Experiment
from epsworth.pac.worlds import Sampler, units_of

BARS = {"K-Means": 0.5, "forest": 1.2, "PCA": 20.0}  # axes are matched to the reference's, which costs more than a fit


def rows(clock: Clock) -> Iterator[Row]:
    """Yield time per world, time to the release, and the memory of wide outputs."""
    X, y = load_iris(return_X_y=True)
    X = MinMaxScaler().fit_transform(X)
    iris = KMeans(3, n_init=10)
    yield _per_world(clock, "K-Means, Iris", iris, X, y)
    yield _to_the_release(clock, "Iris", iris, MI(1 / 4), X, y)
    yield from _paper_data(clock)
    yield _wide(clock)


def _fit(estimator: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    """Return a fit of scikit-learn on half of the pool."""
    if isinstance(estimator, FixedForest):
        estimator = RandomForestClassifier(estimator.n_trees, max_depth=estimator.depth)
    half = np.random.default_rng(0).permutation(len(X))[: len(X) // 2]
    return lambda: clone(estimator).fit(X[half], y[half])


def _per_world(clock: Clock, what: str, estimator: Any, X: np.ndarray, y: np.ndarray) -> Row:
    mechanism = adapter_for(estimator)(estimator, X, y)
    experiment = Experiment(mechanism, X, y, Sampler(units_of(X, y.astype(np.intp)), 0.5, 0, True))
    worlds = clock.size(16, 2)
    found = clock.race(lambda: experiment.run(range(worlds)), _fit(estimator, X, y), per=(worlds, 1), runs=5)
    bar = next(most for kind, most in BARS.items() if what.startswith(kind))
    note = f"{shown(found.ours)} / {shown(found.theirs)}, {len(mechanism.reference)} numbers"
    return Row(f"one world, {what}", "a fit of scikit-learn", found.ratio, bar, note)


def _to_the_release(clock: Clock, what: str, estimator: Any, budget: MI, X: np.ndarray, y: np.ndarray) -> Row:
    worlds = clock.size(1024, 64)

    def released() -> object:
        return PACPrivatizer(estimator, budget, worlds=worlds).fit(X, y).release()

    found = clock.race(released, _fit(estimator, X, y), per=(worlds, 1), runs=1)
    note = f"{shown(found.ours * worlds)} to the release"
    return Row(
        f"each of {worlds} worlds of {what} K-Means", "a fit of scikit-learn", found.ratio, BARS["K-Means"], note
    )


def _paper_data(clock: Clock) -> Iterator[Row]:
    folder = os.environ.get("EPSWORTH_DATA")
    if not folder:
        return
    import polars as pl

    for table, clusters in (("rice", 2), ("dry_bean", 7)):
        frame = pl.read_csv(Path(folder) / f"{table}.csv.gz")
        y = np.unique(frame["Class"].to_numpy(), return_inverse=True)[1]
        X = MinMaxScaler().fit_transform(frame.drop("Class").to_numpy().astype(float))
        pool = np.random.default_rng(0).permutation(len(X))[: int(clock.size(7, 1) * len(X) / 10)]
        X, y = X[pool], y[pool]
        yield _per_world(clock, f"K-Means, {table}", KMeans(clusters, n_init=10), X, y)
        yield _per_world(clock, f"PCA, {table}", PCA(6), X, y)
        yield _per_world(clock, f"forest 3 x 3, {table}", FixedForest(3, 3), X, y)
    yield _to_the_release(clock, "Dry Bean", KMeans(7, n_init=10), MI(1 / 64), X, y)


def _wide(clock: Clock) -> Row:
    """Return the memory for a hundred thousand outputs: 50 MB of them; a d x d matrix would take 80 GB."""
    outputs = np.random.default_rng(0).normal(size=(64, clock.size(100_000, 1_000)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spent = seconds(lambda: calibrate(outputs, 1.0, Shape(basis="svd")))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 / (outputs.nbytes / 2**20)
    return Row(f"memory of calibration, d = {outputs.shape[1]:,}", "the outputs", grown, 12.0, shown(spent))
