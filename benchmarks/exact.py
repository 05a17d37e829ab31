"""Exact engines against the empirical estimate (2000 draws and a predict per point), and against their bars."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler

import epsworth as ew
from benchmarks.timing import Row, median_seconds
from epsworth.engines.cells import cells_for
from epsworth.engines.question import ask

MECHANISMS = ["pm", "sw", "laplace_clipped", "bounded_laplace", "exponential_tight", "krr"]
DRAWS = 2_000


def forest_and_records() -> tuple[RandomForestClassifier, np.ndarray]:
    """Return 100 trees on six features, and the records they learned from."""
    X, y = make_classification(1_500, 6, n_informative=5, n_redundant=0, flip_y=0.05, random_state=0)
    X = MinMaxScaler().fit_transform(X)
    return RandomForestClassifier(100, random_state=0).fit(X, y), X


def rows() -> Iterator[Row]:
    """Yield the forest's mask, its curves, and the linear bracket."""
    forest, X = forest_and_records()
    asked = ask(
        forest, X[:64], sensitive=[0, 1], mechanisms=MECHANISMS, epsilons=[1.0], domain=None, y=None
    )  # fmt: skip
    builder = cells_for(asked)
    drafts = [len(edge) - 1 for edge in builder._draft(0, builder.public & _left(builder, 0)).edges]
    size = " x ".join(map(str, drafts))
    yield Row(
        "mask of one record, 100 trees", 1e3 * median_seconds(lambda: builder.of([0])), "ms", 10.0, f"{size} cells"
    )
    many = median_seconds(lambda: builder.of(range(64)), runs=3) / 64
    yield Row("mask per record over a data set", 1e3 * many, "ms", 4.0, "near ties asked about in batches")

    epsilons = np.linspace(0.1, 10, 100)

    def curve():
        return ew.stability(forest, X[:1], sensitive=[0, 1], mechanisms=MECHANISMS, epsilons=epsilons, method="cells")

    def empirical_point():
        copies = np.repeat(X[:1], DRAWS, axis=0)
        copies[:, :2] = ew.FAMILIES["pm"](2.0).law(X[0, :2]).sample(DRAWS, np.random.default_rng(0))
        (forest.predict(copies) == forest.predict(X[:1])).mean()

    whole, point = median_seconds(curve, runs=5), median_seconds(empirical_point, runs=5)
    speedup = point * 600 / whole
    note = f"{whole * 1e3:.0f} ms exact, {point * 600:.1f} s for 600 points of {DRAWS} draws"
    yield Row("6 mechanisms x 100 epsilons: 500 / speed-up", 500 / speedup, "", 1.0, note)

    yield _branching(forest, X[:1])

    Z, benign = load_breast_cancer(return_X_y=True)
    Z = MinMaxScaler().fit_transform(Z)
    model = LogisticRegression(C=10, max_iter=10_000).fit(Z[:400], benign[:400])
    settings = {"sensitive": list(range(30)), "mechanisms": MECHANISMS, "epsilons": np.arange(1.0, 9.0)}
    found = ew.stability(model, Z[455:456], method="linear", tolerance=0.005, **settings)
    gap = float((found.upper - found.lower).max())
    per_point = 1e3 * found.seconds / (len(MECHANISMS) * 8)
    yield Row("logistic regression, 30 features", per_point, "ms/point", 50.0, f"largest gap {gap:.4f}")
    yield _sections()
    yield from _paper_data()


def _branching(forest: RandomForestClassifier, record: np.ndarray) -> Row:
    settings = {"sensitive": [0, 1, 2, 3], "mechanisms": MECHANISMS[:5], "epsilons": [1, 2, 4, 8]}
    runs = [ew.stability(forest, record, rng=0, **settings) for _ in range(3)]
    sampled = ew.stability(forest, record, rng=0, method="sampled", **settings)
    per_point = float(np.median([found.seconds for found in runs])) / 20
    note = f"{runs[0].method[0, 0]}, {runs[0].queries:,} queries; "
    note += f"sampling alone {sampled.seconds / 20:.2f} s, {sampled.queries:,}"
    return Row("four features, 100 trees, +-.01", per_point, "s/point", None, note)


def _sections() -> Row:
    """Quadratic scores by sections, as a ratio to sampling the same question to the same tolerance."""
    X, y = load_iris(return_X_y=True)
    model = QuadraticDiscriminantAnalysis().fit(X, y)
    settings = {"sensitive": [0, 2], "domain": {0: (4, 8), 2: (1, 7)}, "mechanisms": ["pm", "laplace_clipped"]}
    settings["epsilons"] = np.linspace(0.5, 8, 10)
    sections = ew.stability(model, X[::15], **settings)
    sampled = ew.stability(model, X[::15], method="sampled", rng=0, **settings)
    gaps = [float((found.upper - found.lower).max()) for found in (sections, sampled)]
    times = [1e3 * found.seconds / 200 for found in (sections, sampled)]
    note = f"{times[0]:.2f} ms/point, gap {gaps[0]:.3f}; sampled {times[1]:.1f}, {gaps[1]:.3f}"
    return Row("discriminant analysis, sections / sampled", times[0] / times[1], "", 1.0, note)


def _left(builder, record):
    return builder.seen[record][builder.model.feature] <= builder.model.threshold


def _paper_data() -> Iterator[Row]:
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
        model = RandomForestClassifier(random_state=42, n_jobs=2).fit(X, y)
        found = ew.stability(
            model, X, sensitive=sensitive, mechanisms=MECHANISMS, epsilons=np.linspace(1, 8, 15), method="cells"
        )
        note = (
            f"average pm {found.average().lower[0, [0, -1]].round(3)}, worst {found.worst().lower[0, [0, -1]].round(3)}"
        )
        yield Row(f"all {len(X)} records of {target}, 6 x 15 points", found.seconds, "s", 300.0, note)
