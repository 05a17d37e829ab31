"""Closed-form masses of 1e5 (record, epsilon) pairs, against the empirical estimate they replace."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.timing import Row, median_seconds
from epsworth import FAMILIES

PAIRS = 100_000
DRAWS = 2_000


def rows() -> Iterator[Row]:
    """Yield ns per box mass with two sensitive features, and the ratio to 2000 draws of both."""
    rng = np.random.default_rng(0)
    epsilons, x = np.linspace(0.5, 8, 100), rng.random((PAIRS // 100, 2))
    for name, kind in FAMILIES.items():
        mechanisms = [kind(epsilon) for epsilon in epsilons]

        def closed(mechanisms=mechanisms):
            for mechanism in mechanisms:
                mechanism.law(x).mass([0.2, 0.0], [0.8, 0.6]).prod(axis=1)

        def paired(kind=kind):
            pairs = np.repeat(epsilons, len(x))
            kind(pairs[:, np.newaxis]).law(np.tile(x, (100, 1))).mass([0.2, 0.0], [0.8, 0.6]).prod(axis=1)

        def empirical(kind=kind):
            draws = kind(4.0).law(x[0]).sample(DRAWS, rng)
            ((draws >= [0.2, 0.0]) & (draws <= [0.8, 0.6])).all(axis=1).mean()

        bar = 1_000.0 if name.startswith("exponential") else 200.0
        per_value = median_seconds(closed) / PAIRS * 1e9
        all_pairs = median_seconds(paired, runs=3) / PAIRS * 1e9
        sampled = median_seconds(empirical, runs=21) * 1e9
        note = (
            f"{sampled / per_value:,.0f} x faster than {DRAWS} draws; {all_pairs:.0f} ns if every pair has its own law"
        )
        yield Row(f"box mass, 2 features: {name}", per_value, "ns/value", bar, note)
