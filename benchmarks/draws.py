"""2000 draws of every family, against NumPy's own generator on the same count."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.timing import Row, median_seconds
from epsworth import FAMILIES

DRAWS = 2_000


def rows() -> Iterator[Row]:
    """Yield ms for 2000 draws at one true value."""
    rng = np.random.default_rng(0)
    floor = median_seconds(lambda: rng.random(DRAWS), runs=51) * 1e3
    for name, kind in FAMILIES.items():
        law = kind(2.0).law(0.3)
        spent = median_seconds(lambda law=law: law.sample(DRAWS, rng), runs=51) * 1e3
        yield Row(f"2000 draws: {name}", spent, "ms", 0.5, f"{spent / floor:.0f} x the bare uniforms of numpy")
