"""The ranked list for one release and for a hundred, and the linear program, beside one bare solve by HiGHS."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import linprog

from benchmarks.timing import Clock, Row, shown
from epsworth import noise

SOLVE = "a linear program of 200 unknowns by HiGHS"


def rows(clock: Clock) -> Iterator[Row]:
    """Yield times over the bare solve's."""
    within = clock.size(5, 2)
    rng = np.random.default_rng(0)
    A, c = rng.random((200, 200)), rng.random(200)

    def bare() -> object:
        return linprog(c, A_ub=-A, b_ub=-np.ones(200), method="highs")

    def relative() -> object:
        return noise.cheapest(0.2, confidence=0.9, region="relative", offset=2, answers=range(clock.size(151, 11)))

    def many() -> object:
        return noise.cheapest(5, confidence=0.95, releases=100)

    def program() -> object:
        return noise.optimal_noise(clock.size(40, 4), confidence=0.99, sensitivity=1.0, delta=1e-6)

    def several() -> object:
        return noise.optimal_noise(within, confidence=0.99, sensitivity=1.0, delta=1e-5, releases=100)

    asked = [
        ("noise: cheapest, one release", lambda: noise.cheapest(within, confidence=0.95), 47.0),
        ("noise: cheapest, relative error", relative, None),
        ("noise: optimum and floor", program, 50.0),
        ("noise: optimum of 100 releases", several, 50.0),
        ("noise: cheapest, 100 releases", many, 1000.0),
    ]
    for what, action, bar in asked:
        found = clock.race(action, bare, runs=3)
        yield Row(what, SOLVE, found.ratio, bar, f"{shown(found.ours)} / {shown(found.theirs)}")
