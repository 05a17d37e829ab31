"""Many records: two workers against one, pieces against one run, and memory in parts against arrays."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import epsworth as ew
from benchmarks.memory import peak
from benchmarks.timing import Clock, Row, shown

WORKERS = 0.65  # of one worker's time, by two on two quiet cores
OVERHEAD = 1.25  # of one run's time, in pieces of 64


def rows(clock: Clock) -> Iterator[Row]:
    """Yield ratios."""
    rng = np.random.default_rng(0)
    n, trees = clock.size(640, 80), clock.size(100, 10)
    X = rng.random((5000, 6))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 0.2, 5000) > 0.8
    forest = RandomForestClassifier(trees, random_state=0).fit(X, y)
    asked = {"sensitive": [0, 1], "mechanisms": ["pm"], "per": "feature", "epsilons": [1, 4]}
    one = partial(ew.stability, forest, X[:n], **asked)
    found = clock.race(partial(one, n_jobs=2), partial(one, n_jobs=1), runs=3)
    size = f"{n} records, {trees} trees fully grown, 2 sensitive features"
    yield Row(
        "stability, two workers", "one", found.ratio, WORKERS, f"{shown(found.ours)} vs {shown(found.theirs)}; {size}"
    )
    with tempfile.TemporaryDirectory() as place:
        number = iter(range(1000))

        def in_pieces() -> object:
            return ew.stability_in_parts(ew.Problem.of(forest, X[: n // 4], **asked), Path(place) / f"{next(number)}")

        found = clock.race(in_pieces, partial(ew.stability, forest, X[: n // 4], **asked), runs=3)
    size = f"{n // 4} records, {trees} trees"
    yield Row(
        "stability in parts",
        "in one run",
        found.ratio,
        OVERHEAD,
        f"{shown(found.ours)} vs {shown(found.theirs)}; {size}",
    )
    few, many = clock.size(2_000, 20), clock.size(20_000, 40)
    grown = {kind: clock.memory(most, many, kind) - clock.memory(most, few, kind) for kind in ("parts", "arrays")}
    told = f"{grown['parts']:.0f} MB vs {grown['arrays']:.0f} MB for {many - few} more records, 32 points"
    yield Row("memory of records, in parts", "in arrays", grown["parts"] / max(grown["arrays"], 1e-3), None, told)


def most(n: int, kind: str) -> float:
    """Return the most MB that this process has taken once as many records are bounded."""
    X = np.random.default_rng(0).random((n, 3))
    model = LogisticRegression().fit(X[:500], X[:500].sum(axis=1) > 1.5)
    asked = {"sensitive": [0], "mechanisms": ["pm", "sw", "krr", "laplace_clipped"], "epsilons": np.arange(1, 9)}
    with tempfile.TemporaryDirectory() as place:
        if kind == "arrays":
            ew.stability(model, X, **asked).average()
        else:
            ew.stability_in_parts(ew.Problem.of(model, X, **asked), Path(place) / "parts").average()
    return peak()
