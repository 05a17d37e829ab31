"""The learner: a client's report, aggregation, simulated populations; tables of many columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

from benchmarks.timing import Clock, Row, shown
from epsworth.learner import (
    MECHANISMS,
    Aggregator,
    Classifier,
    Client,
    LatticeConfig,
    Number,
    TableConfig,
    TableLearner,
    learn_table,
    simulate,
)

LONG = {"ternary": 10, "oue": 10}  # reports of tens of bytes and more: fewer of them
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
    yield from _of_tables(clock, users, rng)


def _of_tables(clock: Clock, users: int, rng: np.random.Generator) -> Iterator[Row]:
    """Yield a fit of 20 columns over one of raw rows, and closing rounds over adding their reports up."""
    X = rng.random((users, 20))
    y = (X[:, :4].sum(axis=1) > 2).astype(int)
    config = TableConfig([Number(f"x{j}", 0, 1) for j in range(20)], (0, 1), 1, users)
    raw = make_pipeline(KBinsDiscretizer(8, encode="ordinal", strategy="quantile", subsample=None), CategoricalNB())
    found = clock.race(lambda: learn_table(config, X, y, 0), lambda: raw.fit(X, y), runs=3)
    note = f"{shown(found.ours)} / {shown(found.theirs)}, {users:,} users"
    yield Row("a table of 20 columns, simulated", "naive Bayes of scikit-learn on raw rows", found.ratio, 2.0, note)

    for columns, classes, purpose in ((16, 7, "tables"), (28, 2, "weights")):  # about 400 rows each
        names = [Number(f"x{j}", 0, 1) for j in range(columns)]
        config = TableConfig(names, range(classes), 1, 10**5, rounds="additive" if classes > 2 else "weighted")
        learner, some = TableLearner(config), rng.random((1000, columns))
        label = (some[:, 0] * classes).astype(int)
        while (asked := learner.open()) is not None and asked.purpose != purpose:
            learner.close(simulate(asked, some, label, rng, users=asked.users))
        assert asked is not None
        reports = Client(asked).reports(np.tile(some, (users // 1000, 1)), np.tile(label, users // 1000))
        sums, saved = Aggregator(asked), learner.to_dict()
        sums.add(reports)
        closing = [TableLearner.from_dict(saved) for _ in range(32)]

        def closed(closing=closing, sums=sums) -> object:
            return closing.pop().close(sums)

        def added(asked=asked, reports=reports) -> object:
            return Aggregator(asked).add(reports)

        found = clock.race(closed, added, runs=15)
        note = f"{shown(found.ours)} / {shown(found.theirs)}, {len(asked.kernel.weights)} rows, {users:,} reports"
        yield Row(f"closing a round of {purpose}", "adding its reports up", found.ratio, 0.1, note)


def _of_one_mechanism(
    clock: Clock, name: str, config: LatticeConfig, X: np.ndarray, y: np.ndarray, model: LogisticRegression, rng
) -> Iterator[Row]:
    client, point = Client(config), X[0]
    found = clock.race(lambda: client.report(point, 1), lambda: model.predict(X[:1]), runs=301)
    note = f"{shown(found.ours)} / {shown(found.theirs)}, {config.report_size} bytes, {config.kernel.cells} cells"
    yield Row(f"one report: {name}", PREDICT, found.ratio, 1.0, note)

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
