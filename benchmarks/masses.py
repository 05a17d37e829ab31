"""Closed-form masses of 1e5 (record, epsilon) pairs, against the empirical estimate they replace."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.timing import Clock, Row, shown
from epsworth import MECHANISMS

DRAWS = 2_000
BAR = 1 / 500


def rows(clock: Clock) -> Iterator[Row]:
    """Yield the time per box mass with two sensitive features over that of 2000 draws of both."""
    rng = np.random.default_rng(0)
    pairs = clock.size(100_000, 1_000)
    epsilons, x = np.linspace(0.5, 8, 100), rng.random((pairs // 100, 2))
    for name, kind in MECHANISMS.items():
        mechanisms, law = [kind(epsilon) for epsilon in epsilons], kind(4.0).law(x[0])

        def closed(mechanisms=mechanisms):
            for mechanism in mechanisms:
                mechanism.law(x).mass([0.2, 0.0], [0.8, 0.6]).prod(axis=1)

        def empirical(law=law):
            draws = law.sample(DRAWS, rng)
            ((draws >= [0.2, 0.0]) & (draws <= [0.8, 0.6])).all(axis=1).mean()

        found = clock.race(closed, empirical, per=(pairs, 1), runs=11)
        note = f"{shown(found.ours)} / {shown(found.theirs)} a pair"
        yield Row(f"box mass, 2 features: {name}", f"{DRAWS} draws", found.ratio, BAR, note)
