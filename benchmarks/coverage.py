"""Leave-one-out of Adult, kernels, a profile of a million rows, and what retraining would take."""

from __future__ import annotations

import os
import time
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.timing import Row, median_seconds
from epsworth.coverage import encode, fit_base, kernels, loo, window

ROWS = 48_842
SAMPLE = 3  # retrainings timed; the rest is extrapolated


def rows() -> Iterator[Row]:
    """Yield times, peak memory, and the ratio to retraining without each row in turn."""
    where = "Adult" if os.environ.get("EPSWORTH_DATA") else "stand-in of Adult's shape (EPSWORTH_DATA is unset)"
    for name, (X, y), bar in (("d = 2", _two(), 0.05), ("d = 109", _one_hot(), 5.0)):
        f = fit_base(X, y, 1e-3)
        once = median_seconds(lambda X=X, y=y, f=f: loo(X, y, f, 1e-3), runs=3)
        yield Row(f"leave-one-out of {len(X):,} rows, {name}", once, "s", bar, where)
        yield Row(f"the same, peak memory beside the table, {name}", _peak(X, y, f), "GB", 1.0)
        again = _retraining(X, y)
        note = f"{again * len(X):.0f} s, extrapolated from {SAMPLE} fits of scikit-learn (lbfgs, tol 1e-8)"
        yield Row(f"the same / exhaustive retraining, {name}", 1e6 * once / (again * len(X)), "1e-6 x", 1000, note)
    u = 10 ** np.random.default_rng(0).uniform(-5, 3, 100_000)
    for d in (2, 109):
        law = kernels(d)
        law.kl(u)  # fills the table
        yield Row(
            f"kl, |l|, advantage of 100,000 rows, d = {d}",
            median_seconds(lambda law=law: (law.kl(u), law.abs(u), law.adv(u))), "s", 0.1,
        )  # fmt: skip
    X = np.random.default_rng(1).normal(size=(1_000_000, 20))
    X /= np.linalg.norm(X, axis=1).max()
    y = np.where(X[:, 0] + 0.1 * X[:, 1] > 0, 1.0, -1.0)
    yield Row("profile of 1,000,000 rows x 20", median_seconds(lambda: _profile(X, y), runs=1, warmup=0), "s", 20.0)


def _profile(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sort(window(X, y, 1e-3).advantage(1.0))


def _peak(X: np.ndarray, y: np.ndarray, f: np.ndarray) -> float:
    tracemalloc.start()
    loo(X, y, f, 1e-3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e9


def _retraining(X: np.ndarray, y: np.ndarray) -> float:
    """Return seconds per retrained model."""
    from sklearn.linear_model import LogisticRegression

    began = time.perf_counter()
    for i in range(SAMPLE):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            LogisticRegression(C=1 / (1e-3 * (len(X) - 1)), tol=1e-8, max_iter=5000, fit_intercept=False).fit(
                np.delete(X, i, 0), np.delete(y, i)
            )
    return (time.perf_counter() - began) / SAMPLE


def _two() -> tuple[np.ndarray, np.ndarray]:
    if os.environ.get("EPSWORTH_DATA"):
        table = _adult()
        X = table.select("age", "education-num").to_numpy().astype(float)
        X = (X - X.mean(0)) / X.std(0)
        return X / np.linalg.norm(X, axis=1).max(), np.where(table["income"].to_numpy() == ">50K", 1.0, -1.0)
    return _stand_in(2)


def _one_hot() -> tuple[np.ndarray, np.ndarray]:
    if os.environ.get("EPSWORTH_DATA"):
        found = encode(_adult(), "income")
        return found.X, found.y
    return _stand_in(109)


def _adult():
    import polars as pl

    folder = Path(os.environ["EPSWORTH_DATA"])
    return pl.concat([pl.read_csv(folder / f"adult_{part}.csv.gz") for part in ("train", "test")])


def _stand_in(d: int) -> tuple[np.ndarray, np.ndarray]:
    from epsworth.coverage import stand_in

    return stand_in(ROWS, d, rng=np.random.default_rng(0))
