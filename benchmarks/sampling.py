"""The sampling engine against the plain loop of the literature: 2000 draws and one predict per point."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
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
            model, record, sensitive=[0, 1], mechanisms=MECHANISMS, epsilons=EPSILONS, tolerance=0.02, rng=0
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
