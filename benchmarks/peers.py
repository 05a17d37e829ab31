"""The exact decision table against dtai-veritas (``pip install dtai-veritas``), which answers the radius only.

The same forest and records; two features move on [0, 1], the others stay.  Its forest is converted, and the label
known, before its clock starts; ours reads the forest and asks it for every record anew.  Its default, ten steps of
bisection, leaves the radius known to about 1e-3; ours is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import epsworth as ew
from benchmarks.exact import forest_and_records
from benchmarks.timing import Clock, Row, shown
from epsworth.utility.engines.cells import cells_for
from epsworth.utility.problem import Problem

SENSITIVE = (0, 1)
RECORDS = 16
TIE = 1e-6  # in trees: scikit-learn gives an even vote to the first class, veritas calls it a flip


def rows(clock: Clock) -> Iterator[Row]:
    """Yield our times as ratios to its time, and how far the two radii lie apart."""
    try:
        import veritas
    except ImportError:
        print("dtai-veritas is not installed (pip install dtai-veritas): the comparison with it is left out")
        return
    forest, X = forest_and_records()
    X = X[:RECORDS].astype(np.float32).astype(float)  # the trees compare in single precision, veritas in double
    trees = veritas.get_addtree(forest, silent=True)
    trees.set_base_score(0, trees.get_base_score(0) - TIE)
    labels = forest.predict(X)

    def theirs(i: int, steps: int = 10) -> tuple[float, float]:
        return radius_by_veritas(trees, X[i], bool(labels[i]), steps)

    def table(i: int) -> None:
        cells_for(
            Problem.of(
                forest,
                X[i : i + 1],
                sensitive=SENSITIVE,
                mechanisms="pm",
                per="feature",
                epsilons=[1.0],
                domain=None,
                y=None,
            )
        ).of([0])

    def radius(i: int) -> ew.Radius:
        return ew.radius(forest, X[i], norm=math.inf, features=SENSITIVE, rng=0)

    records = range(clock.size(RECORDS, 2))
    for what, action in (("exact table of a record", table), ("exact radius of a record", radius)):
        found = [clock.race(lambda a=action, i=i: a(i), lambda i=i: theirs(i)) for i in records]
        ours, its, median = (
            float(np.median([getattr(f, side) for f in found])) for side in ("ours", "theirs", "ratio")
        )
        note = f"medians {shown(ours)} / {shown(its)}, {median:.1f} x"
        yield Row(f"{what}, worst", "radius by veritas", max(f.ratio for f in found), 5.0, note)
    apart = []
    for i in records:
        (low, high), exact = theirs(i, steps=30), radius(i)
        apart.append(max(low - exact.lower, exact.upper - high, 0.0))
    yield Row("our radius outside its bracket, at most", "1e-6", 1e6 * max(apart), 1.0, f"{len(records)} records")


def radius_by_veritas(trees: Any, x: np.ndarray, label: bool, steps: int) -> tuple[float, float]:
    """Return its bracket of the distance to the nearest flip, the public features held by pruning the trees."""
    from veritas import Interval, VeritasRobustnessSearch

    ends = [(0.0, 1.0) if j in SENSITIVE else (value, value) for j, value in enumerate(x)]
    box = [Interval(low, np.nextafter(high, 2)) for low, high in ends]  # its intervals exclude their upper ends
    pruned = trees.prune(box)
    source, target = (pruned, None) if label else (None, pruned)
    _, low, high = VeritasRobustnessSearch(x, 1.0, source, target, num_steps=steps, silent=True).search()
    return low, high
