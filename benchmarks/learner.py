"""The learner: a client's report, aggregation, simulated populations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.timing import Row, median_seconds
from epsworth.learner import MECHANISMS, Aggregator, Classifier, Client, LatticeConfig, simulate

USERS = 1_000_000
LONG = {"ternary": 10, "oue": 10, "slides": 500}  # reports of tens of bytes and more: fewer of them
MOST = {"hadamard": 50.0}  # microseconds on a device


def rows() -> Iterator[Row]:
    """Yield microseconds per report, and per user in bulk: 1 is a million a second."""
    rng = np.random.default_rng(0)
    X = rng.random((USERS, 2))
    y = (rng.random(USERS) < X[:, 0]).astype(int)
    for name in MECHANISMS:
        config = LatticeConfig(box=(0, 1), d=2, m=16, mechanism=name, alpha=1)
        client, point = Client(config), X[0]
        spent = median_seconds(lambda client=client, point=point: client.report(point, 1), runs=501, warmup=50) * 1e6
        note = f"{config.report_size} bytes, {config.kernel.cells} cells"
        yield Row(f"one report: {name}", spent, "us", MOST.get(name), note)
        count, bar = USERS // LONG.get(name, 1), 1.0 if name != "slides" else None  # 4 bytes for every cell
        reports = client.reports(X[:count], y[:count])
        spent = median_seconds(lambda c=config, r=reports: Aggregator(c).add(r), runs=5) * 1e6 / count
        yield Row(f"aggregation: {name}", spent, "us", bar, f"{1 / spent:.1f}e6 reports/s")
        spent = median_seconds(lambda c=config: simulate(c, X, y, rng), runs=5) * 1e6 / USERS
        yield Row(f"simulated users: {name}", spent, "us", 1.0, f"{1 / spent:.1f}e6 users/s")
    config = LatticeConfig(box=(0, 1), d=2, m=64, alpha=1)
    spent = median_seconds(
        lambda: Classifier.from_aggregate(simulate(config, X[:1000], y[:1000], rng, users=10**9)).predict(X[:1000]),
        runs=3,
    )
    yield Row("a learner of 1e9 simulated users, 4096 cells", spent, "s", 5.0, "sums, smoothing, 1000 labels")
