"""The learner: a client's report, aggregation, simulated populations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.timing import Clock, Row, shown
from epsworth.learner import MECHANISMS, Aggregator, Classifier, Client, LatticeConfig, simulate

LONG = {"ternary": 10, "oue": 10, "slides": 500}  # reports of tens of bytes and more: fewer of them
PREDICT = "predict of scikit-learn, one record"


def rows(clock: Clock) -> Iterator[Row]:
    """Yield a report over a prediction, aggregation over a count of its bytes, simulation over real reports."""
    users = clock.size(1_000_000, 10_000)
    rng = np.random.default_rng(0)
    X = rng.random((users, 2))
    y = (rng.random(users) < X[:, 0]).astype(int)
    model = LogisticRegression().fit(X[:1000], y[:1000])
    for name in MECHANISMS:
        config = LatticeConfig(box=(0, 1), d=2, m=16, mechanism=name, epsilon=1)
        yield from _of_one_mechanism(clock, name, config, X, y, model, rng)
    config = LatticeConfig(box=(0, 1), d=2, m=64, epsilon=1)

    def learnt() -> object:
        sums = simulate(config, X[:1000], y[:1000], rng, users=10**9)
        return Classifier.from_aggregate(sums).predict(X[:1000])

    def received() -> object:
        return Aggregator(config).add(Client(config).reports(X, y))

    found = clock.race(learnt, received, runs=3)
    note = f"{shown(found.ours)} / {shown(found.theirs)}, 4096 cells, 1000 labels"
    yield Row("a learner of 1e9 simulated users", f"{users:,} real reports, added up", found.ratio, 2.0, note)


def _of_one_mechanism(
    clock: Clock, name: str, config: LatticeConfig, X: np.ndarray, y: np.ndarray, model: LogisticRegression, rng
) -> Iterator[Row]:
    client, point = Client(config), X[0]
    found = clock.race(lambda: client.report(point, 1), lambda: model.predict(X[:1]), runs=301)
    note = f"{shown(found.ours)} / {shown(found.theirs)}, {config.report_size} bytes, {config.kernel.cells} cells"
    yield Row(f"one report: {name}", PREDICT, found.ratio, None if name == "slides" else 1.0, note)

    count = len(X) // LONG.get(name, 1)
    reports = client.reports(X[:count], y[:count])
    raw = np.frombuffer(reports, dtype=np.uint8)
    found = clock.race(
        lambda: Aggregator(config).add(reports), lambda: np.bincount(raw, minlength=256), per=(count, count), runs=5
    )
    note = f"{1e-6 / found.ours:.1f}e6 reports/s"
    yield Row(f"aggregation: {name}", "counting its bytes by NumPy", found.ratio, None, note)

    def real() -> object:
        return Aggregator(config).add(client.reports(X[:count], y[:count]))

    found = clock.race(lambda: simulate(config, X, y, rng), real, per=(len(X), count), runs=3)
    note = f"{1e-6 / found.ours:.1f}e6 / {1e-6 / found.theirs:.1f}e6 users/s"
    yield Row(f"simulated users: {name}", "real reports, added up", found.ratio, 1.0, note)
