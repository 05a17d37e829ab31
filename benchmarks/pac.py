"""PAC privacy: what one world costs, and a thousand worlds end to end."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.preprocessing import MinMaxScaler

from benchmarks.timing import Row, median_seconds
from epsworth.pac import MI, FixedForest, PACPrivatizer
from epsworth.pac.adapters import adapter_for
from epsworth.pac.calibration import Shape, calibrate
from epsworth.pac.simulation import Experiment
from epsworth.pac.worlds import Sampler, units_of

WORLDS = 16


def rows() -> Iterator[Row]:
    """Yield milliseconds per world, seconds per thousand worlds, and the memory of wide outputs."""
    X, y = load_iris(return_X_y=True)
    X = MinMaxScaler().fit_transform(X)
    yield _per_world("K-Means, Iris", KMeans(3, n_init=10), X, y, 2.0)
    began = time.perf_counter()
    PACPrivatizer(KMeans(3, n_init=10), MI(1 / 4)).fit(X, y).release()
    yield Row("1024 worlds of Iris K-Means, to the release", time.perf_counter() - began, "s", 10.0)
    yield from _paper_data()
    yield from _wide()


def _per_world(what: str, estimator: Any, X: np.ndarray, y: np.ndarray, bar: float) -> Row:
    mechanism = adapter_for(estimator)(estimator, X, y)
    sampler = Sampler(units_of(X, y.astype(np.intp)), 0.5, 0, True)
    experiment = Experiment(mechanism, X, y, sampler)
    seconds = median_seconds(lambda: experiment.run(range(WORLDS)), runs=3) / WORLDS
    return Row(f"one world, {what}", 1e3 * seconds, "ms", bar, f"{len(mechanism.reference)} numbers")


def _paper_data() -> Iterator[Row]:
    folder = os.environ.get("EPSWORTH_DATA")
    if not folder:
        return
    import polars as pl

    for table, bar, clusters in (("rice", None, 2), ("dry_bean", 15.0, 7)):
        frame = pl.read_csv(Path(folder) / f"{table}.csv.gz")
        y = np.unique(frame["Class"].to_numpy(), return_inverse=True)[1]
        X = MinMaxScaler().fit_transform(frame.drop("Class").to_numpy().astype(float))
        pool = np.random.default_rng(0).permutation(len(X))[: int(0.7 * len(X))]
        X, y = X[pool], y[pool]
        yield _per_world(f"K-Means, {table}", KMeans(clusters, n_init=10), X, y, bar)
        yield _per_world(f"PCA, {table}", PCA(6), X, y, 6.0)
        yield _per_world(f"forest 3 x 3, {table}", FixedForest(3, 3), X, y, 10.0)
    began = time.perf_counter()
    PACPrivatizer(KMeans(7, n_init=10), MI(1 / 64)).fit(X, y).release()
    yield Row("1024 worlds of Dry Bean K-Means, to the release", time.perf_counter() - began, "s", 20.0)


def _wide() -> Iterator[Row]:
    """Yield the memory for a hundred thousand outputs: 50 MB of them; a d x d matrix would take 80 GB."""
    outputs = np.random.default_rng(0).normal(size=(64, 100_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = median_seconds(lambda: calibrate(outputs, 1.0, Shape(basis="svd")), runs=1, warmup=0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 / (outputs.nbytes / 2**20)
    yield Row("memory of calibration / outputs, d = 100 000", grown, "", 12.0, f"{seconds:.1f} s")
