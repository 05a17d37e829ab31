"""PAC privacy: what one world costs beside a fit of scikit-learn, and a thousand worlds end to end."""

from __future__ import annotations

import os
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
from sklearn.svm import LinearSVC

from benchmarks.former_worlds import former_draw
from benchmarks.memory import peak
from benchmarks.timing import Clock, Row, seconds, shown
from epsworth.pac import MI, FixedForest, PACPrivatizer, RecordPosterior
from epsworth.pac.adapters import adapter_for
from epsworth.pac.allocation import gaussian_bound
from epsworth.pac.calibration import Shape, calibrate
from epsworth.pac.records import Events, nearest_groups, plan_for_records
from epsworth.pac.simulation import Experiment, simulate
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
    yield from _one_pass(clock)
    yield from _task(clock)
    yield _certified(clock)
    yield _records(clock)


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
    wide = clock.size(100_000, 1_000)
    return Row(f"memory of calibration, d = {wide:,}", "the outputs", clock.memory(grown, wide), 12.0)


def grown(wide: int) -> float:
    """Return what calibration adds to this process's memory, as a multiple of the outputs'."""
    outputs = np.random.default_rng(0).normal(size=(64, wide))
    before = peak()
    calibrate(outputs, 1.0, Shape(basis="svd"))
    return (peak() - before) / (outputs.nbytes / 2**20)


def _one_pass(clock: Clock) -> Iterator[Row]:
    """Yield what draws cost, and means of a thousand worlds, beside the former way: sort, gather, average."""
    for n in (clock.size(100_000, 2_000), clock.size(1_000_000, 5_000)):
        yield from _large(clock, np.random.default_rng(0).normal(size=(n, 5)))


def _large(clock: Clock, X: np.ndarray) -> Iterator[Row]:
    n, draws, worlds = len(X), clock.size(16, 2), clock.size(1024, 64)
    sampler = Sampler(units_of(X, np.zeros(n, dtype=np.intp)), 0.5, 0, True)
    one, half = Experiment(adapter_for("mean")("mean", X, None), X, None, sampler), sampler.draw(range(1))[0]

    def drawn() -> object:
        return sampler.packed(range(0, 2 * draws, 2))

    def former() -> None:
        found = former_draw(sampler, 0)
        for members in (found, ~found):
            X[members[sampler.units.of_row]].mean(axis=0)

    for than, theirs, bar in (
        ("sorting keys", lambda: former_draw(sampler, 0), 1 / 40),
        ("the mean of a half, d = 5", lambda: X[half].mean(axis=0), 0.5),
    ):
        found = clock.race(drawn, theirs, per=(draws, 1), runs=5)
        yield Row(f"a draw of half of {n:,}", than, found.ratio, bar, f"{shown(found.ours)} / {shown(found.theirs)}")
    found = clock.race(lambda: simulate(one, worlds), former, per=(worlds, 2), runs=3)
    told = f"{shown(worlds * found.ours)} / {shown(worlds * found.theirs)} for {worlds} worlds"
    yield Row(f"means of worlds of {n:,}", "one by one, by sorting", found.ratio, 1 / 20, told)


def _task(clock: Clock) -> Iterator[Row]:
    """Yield what half of the budget costs in accuracy with noise for the task, beside the least noise: no seconds."""
    folder = os.environ.get("EPSWORTH_DATA")
    if not folder:
        return
    import polars as pl

    frame = pl.read_csv(Path(folder) / "rice.csv.gz")
    y = np.unique(frame["Class"].to_numpy(), return_inverse=True)[1]
    X = MinMaxScaler().fit_transform(frame.drop("Class").to_numpy().astype(float))
    order = np.random.default_rng(0).permutation(len(X))
    inside, outside = order[: clock.size(2000, 200)], order[2000:3000]

    def accuracy(model: Any, rows: Any = outside) -> float:  # as model.predict would give it, many times as fast
        return float(np.mean((X[rows] @ model.coef_[0] + model.intercept_ > 0) == y[rows]))

    made = PACPrivatizer(LinearSVC(dual=False), MI(1.0), worlds=clock.size(128, 16), worlds_seed=0)
    fitted, draws = made.set_params(scorer=lambda model: accuracy(model, inside[:400])).fit(X[inside], y[inside]), 1000
    clean = float(np.mean([accuracy(fitted.mechanism_.rebuild(vector)) for vector in fitted.trials_.outputs]))
    (ours,) = fitted.simulate_utility(accuracy, draws, budgets=[MI(1 / 16)], noises=["task"])
    (theirs,) = fitted.simulate_utility(accuracy, draws, budgets=[MI(1 / 8)])
    ratio = (clean - ours.mean) / (clean - theirs.mean)
    note = f"accuracy on unseen rows {ours.mean:.4f} / {theirs.mean:.4f}, {clean:.4f} without noise; Rice SVM"
    yield Row("accuracy lost at 1/16 nat, noise for the task", "the least noise at 1/8 nat", ratio, 1.0, note)


def _certified(clock: Clock) -> Row:
    """Return how much noise a certificate asks for beside what other worlds' variances need: no seconds."""
    X, _ = load_iris(return_X_y=True)
    made = PACPrivatizer(KMeans(3, n_init=1), MI(1 / 16), worlds=clock.size(1026, 200), mode="certified", basis="diag")
    plan = made.set_params(worlds_seed=0).fit(X).plan_
    fresh = made.set_params(mode="estimated", worlds_seed=1, worlds=clock.size(3000, 200)).fit(X).trials_.outputs
    variances, low, high = (plan.positions(fresh) * plan.step).var(axis=0), 0.1, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_bound(variances, middle * plan.noise) <= 1 / 16 else (middle, high)
    return Row("certified noise, K-Means on Iris at 1/16", "the noise needed", 1 / high, 1.2, f"{made.worlds} worlds")


def _records(clock: Clock) -> Row:
    """Return what a check of many records takes, beside a minute."""
    n, m = clock.size(100_000, 2_000), clock.size(1024, 64)
    X = np.random.default_rng(0).normal(size=(n, 5))
    sampler = Sampler(units_of(X, np.zeros(n, dtype=np.intp)), 0.5, 0, True)
    members = np.unpackbits(sampler.packed(range(m)), axis=1, count=n).view(bool)
    events = Events.of(members, nearest_groups(X, sampler.units))
    outputs, asked = members @ X / (n / 2), RecordPosterior(0.6, MI(1 / 2))

    def checked() -> object:
        return plan_for_records(outputs, events, asked, Shape(), np.random.default_rng(0))

    taken = seconds(checked)
    return Row(f"a check of {n:,} records at 1/2 nat", "a minute", taken / 60, 1.0, f"{len(events) - n:,} groups, too")
