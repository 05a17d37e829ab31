"""The radius of a fully grown forest after one and five seconds, beside what the former search had proven by then.

100 trees, 5,000 rows, six uniform features, all of which move; the label is x0 + x1 x2 + noise > .8.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import epsworth as ew
from benchmarks.former_radius import radius_within
from benchmarks.timing import Clock, Row

RECORDS = 3
SECONDS = (1.0, 5.0)


def rows(clock: Clock) -> Iterator[Row]:
    """Yield how wide our brackets are, in units of the former ones', which had the same time."""
    rng = np.random.default_rng(0)
    X = rng.random((clock.size(5000, 300), 6))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 0.2, len(X)) > 0.8
    forest = RandomForestClassifier(clock.size(100, 10), random_state=0).fit(X, y)
    for norm in (2, math.inf):
        for seconds in SECONDS[: clock.size(2, 1)]:
            ours, theirs, took = [], [], []
            for x in X[: clock.size(RECORDS, 1)]:
                watch: list[float] = []
                found = ew.radius(
                    forest, x, norm=norm, rng=0, seconds=seconds, watch=lambda at, seen=watch: seen.append(at.seconds)
                )
                ours.append(1 - found.lower / found.upper)
                low, high = radius_within(forest, x, norm=norm, seconds=seconds)
                theirs.append(1 - low / high)
                took.append(max(watch, default=0.0))
            a, b = statistics.median(ours), statistics.median(theirs)
            note = (
                f"medians {a:.1e} / {b:.2f} of the upper bound, {len(ours)} records, last look after {max(took):.1f} s"
            )
            yield Row(f"width of the radius after {seconds:g} s, norm {norm:g}", "former search", a / b, 0.9, note)
