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
from benchmarks.timing import Row, median_seconds

MECHANISMS = ["pm", "sw", "laplace_clipped", "bounded_laplace", "exponential_tight", "krr"]
EPSILONS = np.arange(1.0, 9.0)
DRAWS = 2_000


def rows() -> Iterator[Row]:
    """Yield microseconds per query, as a ratio to 2000 draws and a predict per point of the curve."""
    X, y = load_breast_cancer(return_X_y=True)
    X = MinMaxScaler().fit_transform(X)
    models = {
        "logistic regression": LogisticRegression(max_iter=1000).fit(X, y),
        "random forest, 100 trees": RandomForestClassifier(100, random_state=0).fit(X, y),
    }
    for title, model in models.items():
        wavering = int(np.argmin(np.abs(model.predict_proba(X)[:, 0] - 0.5)))  # bounds need the most draws there
        record = X[wavering : wavering + 1]
        curves = ew.stability(
            model,
            record,
            sensitive=[0, 1],
            mechanisms=MECHANISMS,
            epsilons=EPSILONS,
            method="sampled",
            tolerance=0.02,
            rng=0,
        )

        def plain(model=model, record=record):
            rng = np.random.default_rng(0)
            for name in MECHANISMS:
                for epsilon in EPSILONS:
                    copies = np.repeat(record, DRAWS, axis=0)
                    copies[:, :2] = ew.FAMILIES[name](epsilon).law(record[0, :2]).sample(DRAWS, rng)
                    (model.predict(copies) == model.predict(record)).mean()

        ours = curves.seconds / curves.queries
        theirs = median_seconds(plain, runs=3) / (DRAWS * len(MECHANISMS) * len(EPSILONS))
        note = (
            f"{1e6 * ours:.2f} us a query, {curves.queries:,} for +-.02 at 48 points together, {curves.seconds:.2f} s"
        )
        yield Row(f"time per query / plain loop: {title}", ours / theirs, "x", 1.5, note)
    yield _network()


def _network() -> Row:
    """Time a network of 64 units that reads 49 pixels, all of them sensitive."""
    X, digit = _pictures()
    model = MLPClassifier((64,), early_stopping=True, random_state=42).fit(X, digit)
    subnormal = sum(int(((w != 0) & (np.abs(w) < np.finfo(float).tiny)).sum()) for w in model.coefs_)
    for weights in model.coefs_:  # decayed to nothing on pixels that are always black: they slow predictions 6 x
        weights[np.abs(weights) < np.finfo(float).tiny] = 0
    settings = {"sensitive": list(range(49)), "mechanisms": MECHANISMS[:3] + MECHANISMS[4:], "epsilons": [1, 2, 4, 8]}
    seconds, queries = zip(*(_asked(model, X[:1], settings) for _ in range(3)), strict=True)
    per_point = float(np.median(seconds)) / 20
    note = f"{queries[0]:,} queries for 20 points, 99.9 %, +-.01; {subnormal} subnormal weights set to 0"
    return Row("network, 49 pixels, per (mechanism, epsilon)", per_point, "s/point", 0.15, note)


def _asked(model: MLPClassifier, record: np.ndarray, settings: dict) -> tuple[float, int]:
    curves = ew.stability(model, record, tolerance=0.01, confidence=0.999, rng=0, **settings)
    return curves.seconds, curves.queries


def _pictures() -> tuple[np.ndarray, np.ndarray]:
    """Return 7 x 7 pixels on [0, 1]: MNIST where there is a copy, else scikit-learn's digits, averaged by fours."""
    folder = os.environ.get("EPSWORTH_DATA")
    if folder:
        data = np.load(Path(folder) / "mnist_7x7.npz")
        return data["x_train"][:10_000].reshape(-1, 49) / float(data["scale"]), data["y_train"][:10_000]
    X, digit = load_digits(return_X_y=True)
    X = X.reshape(-1, 8, 8) / 16
    return (X[:, 1:, 1:] + X[:, 1:, :-1] + X[:, :-1, 1:] + X[:, :-1, :-1]).reshape(-1, 49) / 4, digit
