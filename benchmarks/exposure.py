"""Leave-one-out of Adult beside retraining, kernels beside quadrature, a profile of a million rows beside one fit."""

from __future__ import annotations

import os
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.integrate import quad
from sklearn.linear_model import LogisticRegression

from benchmarks.timing import Clock, Row, shown
from epsworth.exposure import encode, fit_base, kernels, loo, window

ROWS = 48_842
L2 = 1e-3


def rows(clock: Clock) -> Iterator[Row]:
    """Yield times and peak memory over what each would otherwise cost."""
    where = "Adult" if os.environ.get("EPSWORTH_DATA") else "stand-in of Adult's shape (EPSWORTH_DATA is unset)"
    for name, (X, y) in (("d = 2", _two()), ("d = 109", _one_hot())):
        X, y = X[: clock.size(ROWS, 2_000)], y[: clock.size(ROWS, 2_000)]
        f = fit_base(X, y, L2)
        found = clock.race(lambda X=X, y=y, f=f: loo(X, y, f, L2), _retrained(X, y), per=(len(X), 1), runs=3)
        note = f"{shown(found.ours * len(X))} / {shown(found.theirs * len(X))} for {len(X):,} rows of {where}"
        yield Row(f"leave-one-out of a row, {name}", "a fit of scikit-learn without it", found.ratio, 1e-3, note)
        yield Row(f"its peak memory, {name}", "the table", _peak(X, y, f) / X.nbytes, 25.0, f"{X.nbytes / 1e6:.1f} MB")
    yield from _kernels(clock)
    X = np.random.default_rng(1).normal(size=(clock.size(1_000_000, 10_000), 20))
    X /= np.linalg.norm(X, axis=1).max()
    y = np.where(X[:, 0] + 0.1 * X[:, 1] > 0, 1.0, -1.0)
    found = clock.race(lambda: np.sort(window(X, y, L2).advantage(1.0)), _fit(X, y), runs=1)
    note = f"{shown(found.ours)} / {shown(found.theirs)}"
    yield Row(f"profile of {len(X):,} rows x 20", "one fit of scikit-learn", found.ratio, 10.0, note)


def _kernels(clock: Clock) -> Iterator[Row]:
    u = 10 ** np.random.default_rng(0).uniform(-5, 3, clock.size(100_000, 1_000))

    def by_quadrature() -> object:  # of one kernel at d = 2, at one u: scipy's general rule on the angle's law
        return quad(lambda t: abs(1 - np.hypot(np.cos(t) + 1, np.sin(t))), 0, np.pi)

    for d in (2, 109):
        law = kernels(d)
        law.kl(u)  # fills the table

        def three(law=law) -> object:
            return law.kl(u), law.abs(u), law.adv(u)

        found = clock.race(three, by_quadrature, per=(3 * len(u), 1), runs=5)
        yield Row(
            f"a kernel of {len(u):,} rows, d = {d}", "one call of scipy's quad", found.ratio, 0.01, shown(found.ours)
        )


def _peak(X: np.ndarray, y: np.ndarray, f: np.ndarray) -> float:
    tracemalloc.start()
    loo(X, y, f, L2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def _fit(X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    def fitted() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return LogisticRegression(C=1 / (L2 * len(X)), tol=1e-8, max_iter=5000, fit_intercept=False).fit(X, y)

    return fitted


def _retrained(X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    return _fit(np.delete(X, 0, 0), np.delete(y, 0))


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
    from epsworth.exposure import stand_in

    return stand_in(ROWS, d, rng=np.random.default_rng(0))
