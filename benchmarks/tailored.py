"""Policies made for one classifier: building, what clients run, and the exact curve.

A forest of 100 trees on six features, too large to be copied exactly, 20,000 public records; three or all six of the
features are sensitive.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import epsworth as ew
from benchmarks.timing import Clock, Row, seconds, shown
from epsworth.numerals import exact_decimal
from epsworth.records import as_records
from epsworth.utility.retention import Retention

BUILT = 1.5  # what making a policy takes, in units of fitting the forest: 10 s where that takes 7
CLIENT = 2.0  # what a client takes, in units of `pm` on the same columns
CURVE = 0.1  # seconds that 20 epsilons of 1000 records may take once the queries are answered
EPSILONS = np.linspace(0.25, 5, 20)


def rows(clock: Clock) -> Iterator[Row]:
    """Yield building over fitting the forest, perturbing over `pm`, and the curve over its queries."""
    count = clock.size(20_000, 800)
    X, y = make_classification(2 * count, 6, n_informative=5, n_redundant=0, random_state=0)
    names = [f"x{j}" for j in range(6)]
    domain = {name: (float(low), float(high)) for name, low, high in zip(names, X.min(0), X.max(0), strict=True)}
    table = pl.DataFrame(X, schema=names)
    public, unseen = table[:count], table[count:]
    forest = RandomForestClassifier(clock.size(100, 10), random_state=0)
    for sensitive in (names, names[:3]):
        of = f"{len(sensitive)} of 6 sensitive"
        fitting = seconds(lambda: forest.fit(public, y[:count]))
        began = time.perf_counter()
        made = _made(forest, public, sensitive, domain)
        took = time.perf_counter() - began
        note = f"{shown(took)} / {shown(fitting)}, {count:,} records, {made.copied}, {of}"
        yield Row("tailor", "fitting the forest", took / fitting, BUILT, note)
        part = ew.Domain.of({name: domain[name] for name in sensitive})
        pm = ew.Policy.of("pm", 2, part, passing=[name for name in public.columns if name not in sensitive])
        yield from _client(clock, made.policy, pm, unseen, of)
        yield from _curve(clock, made, unseen[: clock.size(5000, 400)], of)


def _made(forest: RandomForestClassifier, public: pl.DataFrame, sensitive: list[str], domain: dict) -> ew.Tailored:
    part = {name: domain[name] for name in sensitive}
    return ew.tailor(forest, public, sensitive=sensitive, epsilon=2, domain=part, rng=0, public=True)


def _client(clock: Clock, tailored: ew.Policy, pm: ew.Policy, table: pl.DataFrame, of: str) -> Iterator[Row]:
    """Yield a frame in memory, and a CSV file, whose cost is mostly that of its text."""
    found = clock.race(lambda: ew.perturb(tailored, table), lambda: ew.perturb(pm, table))
    note = f"{shown(found.ours)} / {shown(found.theirs)}, {len(table):,} rows, {of}"
    yield Row("tailored perturb, frame", "`pm` on the same columns", found.ratio, CLIENT, note)
    with tempfile.TemporaryDirectory() as name, patch.dict(os.environ, {"EPSWORTH_STATE": name}):
        given, sent = Path(name) / "in.csv", Path(name) / "out.csv"
        table.write_csv(given)

        def written(policy: ew.Policy) -> None:
            ew.perturb_file(policy, given, sent, again=True)
            sent.unlink()

        found = clock.race(lambda: written(tailored), lambda: written(pm))
    note = f"{shown(found.ours)} / {shown(found.theirs)}, {len(table):,} rows, {of}"
    yield Row("tailored perturb, CSV", "`pm` on the same columns", found.ratio, CLIENT, note)


def _curve(clock: Clock, made: ew.Tailored, unseen: pl.DataFrame, of: str) -> Iterator[Row]:
    """Yield 20 epsilons of what was asked once, over asking."""
    tailoring = made.policy.tailoring
    assert tailoring is not None
    asked = replace(made.asked, records=as_records(unseen).releasing(made.asked.records.words))
    own = asked.labels(np.arange(len(unseen)))
    kept = Retention.of(tailoring, asked, own)

    def curve() -> object:
        return [kept.at(made.plan.randomiser(exact_decimal("epsilon", float(epsilon)))) for epsilon in EPSILONS]

    found = clock.race(curve, lambda: Retention.of(tailoring, asked, own), runs=5)
    note = f"{shown(found.ours)} / {shown(found.theirs)}, {len(unseen):,} records, {of}"
    yield Row(
        "20 epsilons, after the queries",
        f"{CURVE:g} s per 1000 records",
        1000 * found.ours / len(unseen) / CURVE,
        1.0,
        note,
    )
    yield Row("20 epsilons", "asking about the records", found.ratio, None, note)
