"""The sampling engine against the plain loop of the literature: 2000 draws and one predict per point."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import MinMaxScaler

import epsworth as ew
from benchmarks.timing import Clock, Row, shown

MECHANISMS = ["pm", "sw", "laplace_clipped", "bounded_laplace", "exponential_tight", "krr"]
DRAWS = 2_000


def rows(clock: Clock) -> Iterator[Row]:
    """Yield time per query over that of 2000 draws and a predict per point of the curve."""
    X, y = load_breast_cancer(return_X_y=True)
    X = MinMaxScaler().fit_transform(X)
    models = {
        "logistic regression": LogisticRegression(max_iter=1000).fit(X, y),
        "random forest of 100 trees": RandomForestClassifier(clock.size(100, 10), random_state=0).fit(X, y),
    }
    epsilons = np.arange(1.0, clock.size(9, 3))
    for title, model in models.items():
        wavering = int(np.argmin(np.abs(model.predict_proba(X)[:, 0] - 0.5)))  # bounds need the most draws there
        yield _against_the_loop(clock, title, model, X[wavering : wavering + 1], epsilons)
    yield _network(clock)


def _against_the_loop(clock: Clock, title: str, model, record: np.ndarray, epsilons: np.ndarray) -> Row:
    settings = {
        "sensitive": [0, 1],
        "mechanisms": MECHANISMS,
        "per": "feature",
        "epsilons": epsilons,
        "tolerance": 0.02,
    }
    last: list[ew.Curves] = []

    def bounded() -> None:
        last[:] = [ew.stability(model, record, method="sampled", rng=0, **settings)]

    def plain() -> None:
        rng = np.random.default_rng(0)
        for name in MECHANISMS:
            for epsilon in epsilons:
                copies = np.repeat(record, DRAWS, axis=0)
                copies[:, :2] = ew.MECHANISMS[name](epsilon).law(record[0, :2]).sample(DRAWS, rng)
                (model.predict(copies) == model.predict(record)).mean()

    bounded()
    points = len(MECHANISMS) * len(epsilons)
    found = clock.race(bounded, plain, per=(last[0].queries, DRAWS * points), runs=3)
    note = f"{shown(found.ours)} a query, {last[0].queries:,} for +-.02 at {points} points together"
    return Row(f"one query: {title}", "one of the plain loop", found.ratio, 1.5, note)


def _network(clock: Clock) -> Row:
    """Time a network of 64 units that reads 49 pixels, all of them sensitive, against its own bare predictions."""
    X, digit = _pictures()
    model = MLPClassifier((64,), early_stopping=True, random_state=42, max_iter=clock.size(200, 5)).fit(X, digit)
    subnormal = sum(int(((w != 0) & (np.abs(w) < np.finfo(float).tiny)).sum()) for w in model.coefs_)
    for weights in model.coefs_:  # decayed to nothing on pixels that are always black: they slow predictions 6 x
        weights[np.abs(weights) < np.finfo(float).tiny] = 0
    settings = {
        "sensitive": list(range(49)),
        "mechanisms": MECHANISMS[:3] + MECHANISMS[4:],
        "per": "feature",
        "epsilons": [1, 2, 4, 8],
    }
    settings |= {"tolerance": 0.05 if clock.short else 0.01, "confidence": 0.999, "rng": 0}
    queries = ew.stability(model, X[:1], **settings).queries
    some = np.random.default_rng(0).random((65_536, 49))
    found = clock.race(
        lambda: ew.stability(model, X[:1], **settings), lambda: model.predict(some), per=(queries, len(some)), runs=3
    )
    note = f"{shown(found.ours * queries / 20)} a point, {queries:,} queries for 20; {subnormal} weights set to 0"
    return Row("one query: network, 49 pixels drawn", "one of a bare predict", found.ratio, 8.0, note)


def _pictures() -> tuple[np.ndarray, np.ndarray]:
    """Return 7 x 7 pixels on [0, 1]: MNIST where there is a copy, else scikit-learn's digits, averaged by fours."""
    folder = os.environ.get("EPSWORTH_DATA")
    if folder:
        data = np.load(Path(folder) / "mnist_7x7.npz")
        return data["x_train"][:10_000].reshape(-1, 49) / float(data["scale"]), data["y_train"][:10_000]
    X, digit = load_digits(return_X_y=True)
    X = X.reshape(-1, 8, 8) / 16
    return (X[:, 1:, 1:] + X[:, 1:, :-1] + X[:, :-1, 1:] + X[:, :-1, :-1]).reshape(-1, 49) / 4, digit
