"""Three to six sensitive features of forests: certain bounds, against predictions and against the former boxes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks.former_boxes import bounds
from benchmarks.timing import Clock, Row, seconds, shown
from epsworth.bounds import Risk
from epsworth.utility.engines.cells import cells_for
from epsworth.utility.engines.engine import Settings
from epsworth.utility.engines.tree_boxes import BranchAndBound
from epsworth.utility.problem import Problem

EPSILONS = [0.5, 1, 2, 3, 4, 6]
HALF = 5e-4  # certain to a width of 1e-3
ROWS = 2_000  # of a prediction


def rows(clock: Clock) -> Iterator[Row]:
    """Yield a record's cost by depth and features over predictions, and the former boxes' time and width."""
    cases = [(5, 3, 4.0, 7), (8, 3, None, 3), (None, 3, None, 1), (5, 4, None, 1), (8, 4, None, 1)]
    for depth, features, bar, runs in cases if not clock.short else cases[:1]:
        forest, X = forest_of(depth, clock.size(5_000, 300), clock.size(100, 10))
        asked = Problem.of(
            forest,
            X[:1],
            sensitive=list(range(features)),
            mechanisms=["pm"],
            per="feature",
            epsilons=EPSILONS,
            domain=None,
            y=None,
        )
        asked.read(cells_for)
        copies = np.repeat(X, -(-ROWS // len(X)), axis=0)[:ROWS]
        found = clock.race(
            lambda asked=asked: bounded(asked), lambda forest=forest, copies=copies: forest.predict(copies), runs=runs
        )
        lower, upper = bounded(asked)
        size = f"100 trees of depth {depth or 'any'}, {features} features, {len(EPSILONS)} points"
        note = f"{shown(found.ours)} / {shown(found.theirs)} a record, width {(upper - lower).max():.2g}"
        yield Row(size, f"a prediction of {ROWS}", found.ratio, bar, note)
        if (depth is not None and depth < 8) or clock.short:
            yield _against_former(asked, size, found.ours)


def _against_former(asked: Problem, size: str, ours: float) -> Row:
    found = []
    former = seconds(lambda: found.extend(bounds(asked, settings())))
    width = float((found[0].upper - found[0].lower).max())
    return Row(
        size, "the former boxes", ours / former, 1.0, f"{shown(ours)} / {shown(former)}, theirs undecided {width:.2g}"
    )


def forest_of(depth: int | None, count: int, trees: int) -> tuple[RandomForestClassifier, np.ndarray]:
    """Return a forest and the uniform records it learned from."""
    rng = np.random.default_rng(0)
    X = rng.random((count, 6))
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=count) > 0.8
    return RandomForestClassifier(trees, max_depth=depth, random_state=0).fit(X, y), X


def settings() -> Settings:
    """Return what is asked for, without a word on progress."""
    return Settings(Risk(1e-3), HALF, None, np.random.default_rng(0), lambda share: None)


def bounded(asked: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of the records of a question whose classifier is read already."""
    answer = BranchAndBound().bound(asked, settings())
    assert answer is not None
    return answer.stability.lower, answer.stability.upper
