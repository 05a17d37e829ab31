"""Large forests: a record's cells swept in integers, against the dense table before and against predicting rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks.former_cells import former_draft, former_shares
from benchmarks.memory import peak
from benchmarks.timing import Clock, Row, shown
from epsworth.utility.engines.cells import TreeCells, cells_for
from epsworth.utility.engines.contraction import LawsOverEpsilon
from epsworth.utility.engines.trees import Masses, compiled
from epsworth.utility.problem import Problem

TWO = ["pm", "laplace_clipped"]
SIX = [*TWO, "sw", "bounded_laplace", "exponential_tight", "krr"]
DRAWS = 2_000
RECORDS = 8


def forest_and_records(rows: int, trees: int) -> tuple[RandomForestClassifier, np.ndarray]:
    """Return a fully grown forest on six uniform features, and what it learned from."""
    rng = np.random.default_rng(0)
    X = rng.random((rows, 6))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 0.2, rows) > 0.8
    return RandomForestClassifier(trees, random_state=0).fit(X, y.astype(int)), X


def _builder(
    rows: int, trees: int, names: list[str], epsilons: list[float], records: int = RECORDS
) -> tuple[TreeCells, LawsOverEpsilon]:
    forest, X = forest_and_records(rows, trees)
    asked = Problem.of(
        forest, X[:records], sensitive=[0, 1], mechanisms=names, per="feature", epsilons=epsilons, domain=None, y=None
    )
    return cells_for(asked), LawsOverEpsilon(asked)


def _shares(builder: TreeCells, laws: LawsOverEpsilon, record: int, fast: bool) -> np.ndarray:
    problem, flips = builder.problem, builder.flips([record], fast)
    assert flips is not None
    masses = Masses.of(flips[0], laws, len(problem.names), problem.unit[record], [0, 0])
    return masses.share(problem.labels[record])[0]


def rows(clock: Clock) -> Iterator[Row]:
    """Yield times of a full forest's record by either sweep, of a whole curve, and the memory of both."""
    size, trees = clock.size(5_000, 300), clock.size(100, 10)
    builder, laws = _builder(size, trees, TWO, [1.0, 2.0, 4.0])
    turn = _records()

    def former() -> object:
        return former_shares(builder, laws, next(turn))

    def swept(fast: bool) -> Callable[[], object]:
        return lambda: _shares(builder, laws, next(turn), fast)

    forest, X = builder.problem.classifier.inside, builder.problem.records.numbers()
    copies = np.repeat(X[:1], DRAWS, axis=0) + np.random.default_rng(0).normal(0, 0.1, (DRAWS, 6))
    flips = builder.flips([0])
    assert flips is not None
    what = f"a record, {trees} full trees of {size} rows, 2 features, 6 points"
    cells = f"{' x '.join(map(str, flips[0].shape))} cells, {len(flips[0].at.row)} flips"
    ways = (
        [("NumPy", False, 1 / 3, None), ("numba", True, 1 / 8, 0.25)] if compiled() else [("NumPy", False, 1 / 3, None)]
    )
    for name, fast, bar, of_rows in ways:
        found = clock.race(swept(fast), former, runs=9)
        note = f"{shown(found.ours)} / {shown(found.theirs)}; {cells}"
        yield Row(f"{what}, {name}", "a dense table, ties asked", found.ratio, bar, note)
        found = clock.race(swept(fast), lambda: forest.predict(copies), runs=9)
        note = f"{shown(found.ours)} / {shown(found.theirs)}"
        yield Row(f"{what}, {name}", f"predicting {DRAWS} rows", found.ratio, of_rows, note)
    epsilons = np.linspace(0.1, 10, clock.size(100, 5)).tolist()
    many, curve = _builder(size, trees, SIX, epsilons)
    fast = compiled() is not None
    found = clock.race(
        lambda: _shares(many, curve, next(turn), fast), lambda: former_shares(many, curve, next(turn)), runs=5
    )
    note = f"{shown(found.ours)} / {shown(found.theirs)}"
    yield Row(f"the same, 6 x {len(epsilons)} points", "a dense table, ties asked", found.ratio, 0.7, note)
    block = clock.size(64, 2)
    ours, theirs = (clock.memory(most, size, trees, block, way) for way in (fast, None))
    note = f"{ours:.0f} / {theirs:.0f} MB, forest and imports among them"
    yield Row(f"memory of a process, {block} records at a time", "a dense table, ties asked", ours / theirs, 0.6, note)


def _records() -> Iterator[int]:
    """Yield records in turn: some take longer than others."""
    while True:
        yield from range(RECORDS)


def most(size: int, trees: int, records: int, fast: bool | None) -> float:
    """Return the most memory, in MB, that this process has taken once some records are bounded (None: as before)."""
    builder, _ = _builder(size, trees, TWO, [1.0, 2.0, 4.0], records)
    block = range(len(builder.problem.records))  # whose ties are asked together
    built = [former_draft(builder, record) for record in block] if fast is None else builder.flips(block, fast)
    assert built is not None
    return peak()
