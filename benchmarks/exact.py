"""Exact engines against the empirical estimate (2000 draws and a predict per point), and against sampling."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler

import epsworth as ew
from benchmarks.timing import Clock, Race, Row, seconds, shown
from epsworth.utility.engines.cells import cells_for
from epsworth.utility.problem import Problem

MECHANISMS = ["pm", "sw", "laplace_clipped", "bounded_laplace", "exponential_tight", "krr"]
DRAWS = 2_000
POINT = f"{DRAWS} draws and a predict"


def forest_and_records() -> tuple[RandomForestClassifier, np.ndarray]:
    """Return 100 trees on six features, and the records they learned from."""
    X, y = make_classification(1_500, 6, n_informative=5, n_redundant=0, flip_y=0.05, random_state=0)
    X = MinMaxScaler().fit_transform(X)
    return RandomForestClassifier(100, random_state=0).fit(X, y), X


def rows(clock: Clock) -> Iterator[Row]:
    """Yield the forest's cells and curves, branch and bound, linear and quadratic brackets, regions, papers' tables."""
    forest, X = forest_and_records()
    yield from _forest(clock, forest, X)
    yield _against_sampling(
        clock, "four features, 100 trees, +-.01", forest, X[:1], 1.0,
        sensitive=[0, 1, 2, 3], mechanisms=MECHANISMS[:5], epsilons=[1, 2, 4, 8][: clock.size(4, 1)],
    )  # fmt: skip
    Z, benign = load_breast_cancer(return_X_y=True)
    Z = MinMaxScaler().fit_transform(Z)
    model = LogisticRegression(C=10, max_iter=10_000).fit(Z[:400], benign[:400])
    yield _against_sampling(
        clock, "logistic regression, 30 features, +-.01", model, Z[455:456], 1.0,
        sensitive=list(range(30)), mechanisms=MECHANISMS, epsilons=np.arange(1.0, clock.size(9, 2)),
    )  # fmt: skip
    Q, species = load_iris(return_X_y=True)
    yield _against_sampling(
        clock, "discriminant analysis, two features", QuadraticDiscriminantAnalysis().fit(Q, species), Q[::15], 0.1,
        sensitive=[0, 2], domain={0: (4, 8), 2: (1, 7)}, mechanisms=["pm", "laplace_clipped"],
        epsilons=np.linspace(0.5, 8, clock.size(10, 2)),
    )  # fmt: skip
    yield _regions(clock)
    yield from _paper_data(clock)


def _regions(clock: Clock) -> Row:
    """Time the kernel of any gain, integers and certificate, over the plain program: a row per ratio, and no proof."""
    k, rng = clock.size(32, 6), np.random.default_rng(0)
    gain = rng.random((k, k)) * rng.dirichlet(np.ones(k))[:, np.newaxis]
    i, j, y = (part.ravel() for part in np.indices((k, k, k)))
    i, j, y = i[i != j], j[i != j], y[i != j]
    count, each, ones = np.arange(i.size), np.arange(k * k), np.ones(i.size)
    places = np.tile(count, 2), np.concatenate([i * k + y, j * k + y])
    ratios = coo_array((np.concatenate([ones, -np.e * ones]), places)).tocsr()
    sums = coo_array((np.ones(k * k), (each // k, each))).tocsr()
    bounds = {"b_ub": np.zeros(i.size), "b_eq": np.ones(k)}

    def plain() -> object:
        return linprog(-gain.ravel(), A_ub=ratios, A_eq=sums, **bounds)

    found = clock.race(lambda: ew.mechanisms.region_kernel(gain, 1), plain, runs=3)
    many = clock.size(64, 8)
    large = seconds(lambda: ew.mechanisms.region_kernel(rng.random((many, many)), 1))
    note = f"{_both(found)}; {many} regions {shown(large)}"
    return Row(f"kernel between {k} regions, any gain", "the plain program, unproven", found.ratio, 0.1, note)


def _forest(clock: Clock, forest: RandomForestClassifier, X: np.ndarray) -> Iterator[Row]:
    many = clock.size(64, 4)
    asked = Problem.of(
        forest, X[:many], sensitive=[0, 1], mechanisms=MECHANISMS, per="feature", epsilons=[1.0], domain=None, y=None
    )
    builder = cells_for(asked)
    cells = builder.of([0])
    assert cells is not None
    size = " x ".join(map(str, cells[0].table.labels.shape))
    empirical = _empirical(forest, X[:1], [0, 1])
    found = clock.race(lambda: builder.of([0]), empirical, runs=11)
    yield Row("mask of one record, 100 trees", POINT, found.ratio, 0.7, f"{_both(found)}, {size} cells of one label")
    found = clock.race(lambda: builder.of(range(many)), empirical, per=(many, 1), runs=3)
    yield Row(f"mask per record, {many} of them", POINT, found.ratio, 0.28, f"{_both(found)}, near ties in batches")
    epsilons = np.linspace(0.1, 10, clock.size(100, 10))

    def curve() -> ew.Curves:
        return ew.stability(
            forest, X[:1], sensitive=[0, 1], mechanisms=MECHANISMS, per="feature", epsilons=epsilons, method="cells"
        )

    found = clock.race(curve, empirical, per=(6 * len(epsilons), 1), runs=5)
    yield Row(f"a point of 6 mechanisms x {len(epsilons)} epsilons", POINT, found.ratio, 1 / 500, _both(found))


def _against_sampling(clock: Clock, what: str, model, X: np.ndarray, bar: float, **settings) -> Row:
    """Time the engine that is chosen, over sampling the same question to the same tolerance."""
    points = len(X) * len(settings["mechanisms"]) * len(settings["epsilons"])
    last: dict[str, ew.Curves] = {}

    def by(method: str) -> Callable[[], None]:
        def answer() -> None:
            last[method] = ew.stability(model, X, method=method, rng=0, **settings)

        return answer

    found = clock.race(by("auto"), by("sampled"), per=(points, points), runs=3)
    gaps = " / ".join(f"{float((last[method].upper - last[method].lower).max()):.2g}" for method in ("auto", "sampled"))
    words = ", ".join(sorted(set(last["auto"].method.ravel().tolist())))
    note = f"{_both(found)} a point; widest {gaps}; {words}"
    return Row(what, "the same sampled", found.ratio, bar, note)


def _empirical(model, record: np.ndarray, sensitive: list[int]) -> Callable[[], float]:
    def point() -> float:
        copies = np.repeat(record, DRAWS, axis=0)
        law = ew.MECHANISMS["pm"](2.0).law(record[0, sensitive])
        copies[:, sensitive] = law.sample(DRAWS, np.random.default_rng(0))
        return float((model.predict(copies) == model.predict(record)).mean())

    return point


def _both(found: Race) -> str:
    return f"{shown(found.ours)} / {shown(found.theirs)}"


def _paper_data(clock: Clock) -> Iterator[Row]:
    folder = os.environ.get("EPSWORTH_DATA")
    if not folder:
        return
    import polars as pl

    for file, target, sensitive in (
        ("stroke_paper_inputs.csv.gz", "stroke", ["age", "bmi"]),
        ("bank_paper_inputs.csv.gz", "Exited", ["Age", "EstimatedSalary"]),
    ):
        table = pl.read_csv(Path(folder) / file)
        y, X = table[target].to_numpy(), table.drop(target)
        X = X.with_columns(pl.col(name).clip(0, 1) for name in sensitive)
        model = RandomForestClassifier(random_state=42, n_jobs=1).fit(X.to_numpy(), y)
        columns = [X.columns.index(name) for name in sensitive]
        seen = X.to_numpy()[: clock.size(len(X), 20)]
        settings = {"sensitive": columns, "mechanisms": MECHANISMS, "per": "feature", "epsilons": np.linspace(1, 8, 15)}
        found = clock.race(
            lambda model=model, seen=seen, settings=settings: ew.stability(model, seen, method="cells", **settings),
            _empirical(model, seen[:1], columns),
            per=(len(seen) * 90, 1),
            runs=1,
        )
        note = f"{_both(found)}; {shown(found.ours * len(seen) * 90)} in all, exact"
        yield Row(f"a point of all {len(seen)} records of {target}", POINT, found.ratio, 1 / 100, note)
