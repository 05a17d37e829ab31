"""2000 draws of every family for analysis, against NumPy's own Laplace noise on the same count."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.timing import Clock, Row, shown
from epsworth import MECHANISMS

DRAWS = 2_000
BAR = 6.0


def rows(clock: Clock) -> Iterator[Row]:
    """Yield the time for 2000 draws at one true value over NumPy's."""
    rng = np.random.default_rng(0)
    for name, kind in MECHANISMS.items():
        law = kind(2.0).law(0.3)
        found = clock.race(lambda law=law: law.sample(DRAWS, rng), lambda: rng.laplace(size=DRAWS), runs=51)
        yield Row(
            f"{DRAWS} draws: {name}",
            "numpy's Laplace",
            found.ratio,
            BAR,
            f"{shown(found.ours)} / {shown(found.theirs)}",
        )
