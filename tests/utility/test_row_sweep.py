"""Integer votes and the row sweep: the cells of brute force, by either way, and masses within what is proven."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import epsworth as ew
from epsworth.classifiers.trees import LEAF
from epsworth.utility.engines import loops, trees
from epsworth.utility.engines.cells import TreeCells, cells_for
from epsworth.utility.engines.contraction import LawsOverEpsilon, agreement, mass_error
from epsworth.utility.engines.trees import (
    BITS,
    NEAR,
    Boxes,
    Changes,
    Flips,
    Masses,
    Votes,
    by_strips,
    changes,
    settled,
    sum_error,
    table,
)
from readings import tree_model
from strategies import CONTINUOUS

IRIS, SPECIES = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)
WIDE = RNG.random((400, 4))
LABELS = (WIDE[:, 0] + WIDE[:, 1] * WIDE[:, 2] + RNG.normal(0, 0.2, 400) > 0.8).astype(int)
THREE = LABELS + (WIDE[:, 3] > 0.6)

MODELS = {
    "tree": DecisionTreeClassifier(random_state=0),
    "even forest": RandomForestClassifier(12, random_state=0),
    "odd forest": RandomForestClassifier(5, random_state=1),
    "extra trees": ExtraTreesClassifier(8, random_state=2),
    "soft forest": RandomForestClassifier(8, min_samples_leaf=3, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=8, random_state=0),
    "histogram boosting": HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=5),
    "pipeline": make_pipeline(StandardScaler(), RandomForestClassifier(6, random_state=0)),
    "of votes": VotingClassifier([("a", RandomForestClassifier(3, random_state=0)),
                                  ("b", DecisionTreeClassifier(max_depth=5, random_state=0))]),
}  # fmt: skip
every_model = pytest.mark.parametrize("name", MODELS)
ASKED = {
    "sensitive": [0, 1],
    "mechanisms": CONTINUOUS,
    "per": "feature",
    "epsilons": [0.5, 4.0],
    "domain": None,
    "y": None,
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture
def numba():
    return pytest.importorskip("numba", reason="numba, which compiles the loops, is not installed")


def fitted(name, classes=2, X=WIDE):
    return sklearn.base.clone(MODELS[name]).fit(X, LABELS if classes == 2 else THREE)


def builder(model, X=WIDE[:3], **more):
    found = cells_for(ew.Problem.of(model, X, **(ASKED | more)))
    assert isinstance(found, TreeCells), found
    return found


def drafted(found, record=0):
    drawn = found._leaves(found._public_turns(record), np.inf, fast=False)
    assert drawn is not None
    return drawn


def brute(boxes, offset):
    """Return the scores of every cell in integers, leaf by leaf."""
    scores = np.zeros((boxes.added.shape[1], *boxes.shape), dtype=object) + offset.reshape(-1, *[1] * len(boxes.shape))
    for low, high, added in zip(boxes.low.T, boxes.high.T, boxes.added, strict=True):
        scores[(slice(None), *(slice(a, b + 1) for a, b in zip(low, high, strict=True)))] += added.reshape(
            -1, *[1] * len(boxes.shape)
        )
    return scores


def labels_in(places, shape):
    found = np.zeros(shape, dtype=int)
    found[places.row, places.column] = places.after.astype(int) - places.before
    return found.cumsum(axis=0)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("name", "sensitive"),
    [(name, some) for name in MODELS for some in ([1], [0, 1])]
    + [(name, [0, 1, 2]) for name in ("tree", "boosting")],  # brute force is slow
)
@pytest.mark.cases(1)
def test_states_are_those_of_sums_leaf_by_leaf(name, classes, sensitive, monkeypatch):
    """All cells, added up by the definition; strips of a few rows join without a seam."""
    monkeypatch.setattr(trees, "STRIP", 700)
    X = WIDE[::4] if len(sensitive) == 3 else WIDE
    model = sklearn.base.clone(MODELS[name]).fit(X, (LABELS if classes == 2 else THREE)[:: len(WIDE) // len(X)])
    found = builder(model, X[:1], sensitive=sensitive)
    _, boxes = drafted(found)
    scores = brute(boxes, found.votes.offset).astype(np.int64)
    expected = found.votes.states(scores)
    np.testing.assert_array_equal(table(boxes, found.votes), expected)
    if len(sensitive) < 3:
        flat = expected.reshape(boxes.as_rows().shape)
        at = by_strips(boxes, found.votes)
        ties = flat[at.row, at.column] == NEAR
        np.testing.assert_array_equal(at.after == NEAR, ties)
        shown = settled(at, np.full(ties.sum(), 7, dtype=np.int16))
        np.testing.assert_array_equal(labels_in(shown, flat.shape), np.where(flat == NEAR, 7, flat))


@every_model
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sensitive", [[1], [0, 1]])
def test_compiled_loops_list_the_same_changes(name, classes, sensitive, numba):
    found = builder(fitted(name, classes), sensitive=sensitive)
    for record in range(3):
        turns = found._public_turns(record)
        one, other = found.sweep.leaves(turns), found.sweep.leaves(turns, fast=True)
        order = np.argsort(other.node)
        for part in ("node", "low", "high"):
            np.testing.assert_array_equal(getattr(other, part)[..., order], getattr(one, part))
        np.testing.assert_array_equal(other.starts, one.starts)
        edges, boxes = drafted(found, record)
        edges_too, boxes_too = found._leaves(turns, np.inf, fast=True)
        for a, b in zip(edges, edges_too, strict=True):
            np.testing.assert_array_equal(a, b)
        for a, b in zip(changes(boxes, found.votes, False), changes(boxes_too, found.votes, True), strict=True):
            np.testing.assert_array_equal(a, b)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rows=st.integers(1, 5), columns=st.integers(1, 6), leaves=st.integers(1, 40), near=st.integers(-1, 3),
    scores=st.integers(1, 3), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_both_ways_list_the_same_of_any_boxes(rows, columns, leaves, near, scores, seed):
    """Also where more leaves begin and end in a row than there are columns; plain Python says what numba compiles."""
    rng = np.random.default_rng(seed)
    ends = [np.sort(rng.integers(0, side, (2, leaves)), axis=0) for side in (rows, columns)]
    low, high = (np.array([end[side] for end in ends]) for side in (0, 1))
    low[:, 0], high[:, 0] = 0, (rows - 1, columns - 1)  # as every cell is of some leaf
    boxes = Boxes((rows, columns), low, high, rng.integers(-3, 4, (leaves, scores)))
    votes = Votes(SimpleNamespace(decision=None), np.empty((0, scores)), rng.integers(-2, 3, scores), near, 0, 1 << 20)
    with mock.patch.object(trees, "compiled", return_value=loops.PLAIN):
        for one, other in zip(by_strips(boxes, votes), changes(boxes, votes, True), strict=True):
            np.testing.assert_array_equal(one, other)


def test_curves_are_the_same_bits_with_numba_and_without(numba, monkeypatch):
    """And whatever records are bounded together."""
    model = fitted("even forest")
    asked = {"sensitive": [0, 1], "mechanisms": CONTINUOUS, "per": "feature", "epsilons": [0.5, 4.0], "y": LABELS[:5]}
    fast = ew.stability(model, WIDE[:5], **asked)
    assert "compiled by numba" in fast.notes[0]
    for module in (loops, trees):
        monkeypatch.setattr(module, "compiled", lambda: None)
    slow = ew.stability(model, WIDE[:5], **asked)
    assert "summed by NumPy" in slow.notes[0]
    alone = [ew.stability(model, WIDE[i : i + 1], **(asked | {"y": LABELS[i : i + 1]})) for i in range(5)]
    for found in (fast, slow):
        for side in ("lower", "upper"):
            for got, own in ((found.stability, "stability"), (found.accuracy, "accuracy")):
                apart = np.concatenate([getattr(getattr(one, own), side) for one in alone], axis=-1)
                np.testing.assert_array_equal(getattr(got, side), apart)


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier, DecisionTreeClassifier])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.cases(1)
def test_no_tie_of_counts_is_asked_and_all_are_right(kind, classes):
    """Thousands of cells tie; the forest's own label of a point in each of them is the first of the largest counts."""
    size = {} if kind is DecisionTreeClassifier else {"n_estimators": 30}
    model = kind(random_state=0, **size).fit(WIDE, LABELS if classes == 2 else THREE)
    found = builder(model, WIDE[:8])
    assert found.votes.near < 0
    ties = 0
    for record, flips in enumerate(found.flips(range(8))):
        edges, boxes = drafted(found, record)
        scores = np.sort(brute(boxes, found.votes.offset).astype(int), axis=0)
        tied = np.argwhere(scores[0] == 0 if len(scores) == 1 else scores[-1] == scores[-2])
        ties += len(tied)
        rows = np.tile(WIDE[record], (len(tied), 1))
        for j, edge in enumerate(edges):
            ends = edge[1:][tied[:, j]]
            rows[:, j] = np.where(np.isinf(ends), edge[-2] + 1, ends)
        cells, labels = flips.table()
        at = [np.searchsorted(e[1:-1], rows[:, j], side="left") for j, e in enumerate(cells)]
        if len(tied):
            np.testing.assert_array_equal(labels.kinds[labels.labels[tuple(at)]], model.predict(rows))
    assert found.queries == 0
    assert ties > 2_000 or kind is DecisionTreeClassifier, ties


def test_only_single_forests_of_pure_leaves_count():
    """Voting divides, weights need not divide to 1: both are asked about their ties."""
    forest = RandomForestClassifier(4, random_state=0)
    assert tree_model(sklearn.base.clone(forest).fit(WIDE, LABELS)).counts
    assert tree_model(make_pipeline(MinMaxScaler(), forest).fit(WIDE, LABELS)).counts
    for other in (
        VotingClassifier([("one", forest)], voting="soft"),
        sklearn.ensemble.BaggingClassifier(forest, n_estimators=1),
        sklearn.model_selection.FixedThresholdClassifier(forest, threshold=0.5, response_method="predict_proba"),
        sklearn.ensemble.AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3),
        RandomForestClassifier(4, max_depth=3, random_state=0),
        GradientBoostingClassifier(n_estimators=2),
    ):
        read = tree_model(sklearn.base.clone(other).fit(WIDE, LABELS))
        assert not read.counts
        assert Votes.of(read).asks
    tree = DecisionTreeClassifier(random_state=0).fit(WIDE, LABELS)
    leaf = int(np.flatnonzero(tree.tree_.children_left == LEAF)[0])
    assert tree_model(tree).counts
    tree.tree_.value[leaf, 0, :] *= 1 - 2.0**-53
    assert not tree_model(tree).counts  # which does not show in the shares that are read:
    assert np.abs(tree_model(tree).values[leaf]).max() == 1


@pytest.mark.parametrize("size", [1e-300, 1e-9, 0.3, 1.0, 7e11])
def test_fixed_point_errs_by_no_more_than_said(size):
    """Exact fractions: T + 1 roundings, and no sum beyond 2^58."""
    read = tree_model(fitted("boosting"))
    factor = size / np.abs(read.values).max()
    read = replace(read, values=read.values * factor, offset=read.offset * factor, tie=0.0)
    votes, trees = Votes.of(read), len(read.roots)
    leaf = read.left == LEAF
    own = [np.flatnonzero(leaf & (np.arange(leaf.size) >= root))[0] for root in read.roots]
    exact = sum(Fraction(read.values[i, 0].item()) for i in own) + Fraction(read.offset[0].item())
    found = int(sum(votes.values[own, 0].tolist()) + votes.offset[0])
    assert abs(found - exact * Fraction(2) ** votes.bits) <= Fraction(trees + 1, 2)
    slack = Fraction(read.slack) * Fraction(2) ** votes.bits  # what sums of doubles err by
    assert votes.near + 1 > min(Fraction(trees + 1, 2) + slack, 2 ** (BITS + 1))
    assert 2 ** (BITS - 1) <= votes.largest <= 2**BITS
    assert votes.kind(5) is np.int64


def test_differences_stay_within_their_integers():
    """An XOR of the corners of two features is four times what a leaf adds, at one place."""
    model = tree_model(DecisionTreeClassifier(random_state=0).fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]))
    for factor, kind in ((2**12, np.int16), (2**13, np.int32), (2**28, np.int32), (2**29, np.int64)):
        votes = Votes.of(replace(model, values=model.values * factor))
        assert votes.largest == factor
        assert votes.kind(2) is (np.int32 if factor == 2**13 else kind)
        low, high = np.array([[0, 0, 1, 1], [0, 1, 0, 1]]), np.array([[0, 0, 1, 1], [0, 1, 0, 1]])
        boxes = Boxes((2, 2), low, high, np.array([[-factor], [factor], [factor], [-factor]]))
        np.testing.assert_array_equal(table(boxes, votes), [[0, 1], [1, 0]])


@every_model
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sensitive", [[1], [0, 1]])
@pytest.mark.cases(1)
def test_masses_are_those_of_the_dense_table(name, classes, sensitive):
    """The contraction of all cells: both are right within what each one's error says."""
    found = builder(fitted(name, classes), sensitive=sensitive)
    problem = found.problem
    laws, m = LawsOverEpsilon(problem), problem.shape[0]
    for record, (flips, cells) in enumerate(zip(found.flips(range(3)), found.of(range(3)), strict=True)):
        unit = problem.unit[record]
        masses = Masses.of(flips, laws, m, unit, [0] * len(sensitive))
        sides = [
            np.concatenate([laws.masses(i, j, unit[j], edges) for i in range(m)]) for j, edges in enumerate(cells.edges)
        ]
        dense_error = mass_error(sum(map(len, cells.edges)))
        for label, truth in zip(flips.classes, agreement(cells.table, flips.classes, sides), strict=True):
            share, error = masses.share(label)
            assert error.max() < 1e-10
            assert (np.abs(share - truth) <= error + dense_error).all()
            assert np.abs(share - truth).max() < 1e-13  # neither error is used up
        inside = [(edges[1:] >= 0) & (edges[:-1] < 1) for edges in flips.edges]
        dense = [(edges[1:] >= 0) & (edges[:-1] < 1) for edges in cells.edges]
        np.testing.assert_array_equal(flips.possible(inside), cells.possible(dense))


@pytest.mark.parametrize(("rows", "columns"), [(1, 200), (40, 9), (300, 3)])
def test_sums_over_flips_err_by_no_more_than_counted(rows, columns):
    """Fractions of the very doubles that are added; without the error most sums would miss."""
    rng, missed = np.random.default_rng(rows), 0
    x = rng.random((1, 2))
    for _ in range(2):
        places = (rng.random((rows, columns)) < 0.5).astype(np.int16)
        along = np.concatenate([np.zeros((1, columns), dtype=np.int16), places])
        row, column = np.nonzero(along[1:] != along[:-1])
        at = Changes(row.astype(np.int32), column.astype(np.int32), along[row, column], places[row, column])
        edges = [np.concatenate([[-np.inf], np.sort(rng.random(side - 1)), [np.inf]]) for side in (rows, columns)]
        flips = Flips(tuple(edges if rows > 1 else edges[1:]), at, np.array([0, 1]))
        s = len(flips.edges)
        problem = ew.Problem.of(
            lambda Z: Z[:, 0] > 2, x, **(ASKED | {"sensitive": [0, 1][-s:], "mechanisms": ["pm", "laplace"]})
        )
        masses = Masses.of(flips, LawsOverEpsilon(problem), 2, problem.unit[0], [0] * s)
        most = int(np.bincount(column).max())
        for label in (0, 1):
            for point, found in enumerate(masses.share(label)[0].tolist()):
                beyond, parts = masses.beyond[point].tolist(), masses.columns[point].tolist()
                signs = np.where(at.after == label, 1, -1).tolist()
                terms = zip(signs, masses.row.tolist(), masses.column.tolist(), strict=True)
                exact = sum(s * Fraction(beyond[r]) * Fraction(parts[c]) for s, r, c in terms) + (label == 0)
                assert abs(Fraction(found) - exact) <= sum_error(most, len(row))
                missed += Fraction(found) != exact
    assert missed >= 8  # of 16


@pytest.mark.slow
def test_every_cell_of_averaged_forests_has_the_label_of_predict():
    """Ties of doubles that are one integer: each is asked where its leaves may be others, as its last bits may."""
    X, asked = WIDE[:150], 0
    for seed in range(12):
        forests = [(str(k), RandomForestClassifier(k, random_state=seed + k)) for k in (3, 6, 9)]
        model = VotingClassifier(forests, voting="soft").fit(X, LABELS[:150])
        found = builder(model, X[:1])
        flips = found.flips([0])[0]
        asked += found.queries
        ends = [np.append(edges[1:-1], edges[-2] + 1) for edges in flips.edges]
        points = np.tile(X[0], (flips.shape[0] * flips.shape[1], 1))
        points[:, 0], points[:, 1] = (side.ravel() for side in np.meshgrid(*ends, indexing="ij"))
        np.testing.assert_array_equal(labels_in(flips.at, flips.shape).ravel(), model.predict(points))
    assert asked > 30


def test_an_even_forest_whose_cells_are_all_asked():
    """Independent truth: the forest's own label in every cell, and masses added up one by one."""
    model = RandomForestClassifier(10, max_depth=5, random_state=0).fit(WIDE, LABELS)
    names = ["pm", "laplace_clipped", "sw"]
    asked = {"sensitive": [0, 1], "mechanisms": names, "per": "feature", "epsilons": [1.0, 6.0]}
    curves = ew.stability(model, WIDE[:4], **asked)
    for record in range(4):
        cuts = [np.unique(np.float64(np.float32(0)) + _last_left(model, j)) for j in (0, 1)]
        ends = [np.append(c, 2.0) for c in cuts]
        rows = np.tile(WIDE[record], (len(ends[0]) * len(ends[1]), 1))
        rows[:, 0], rows[:, 1] = (side.ravel() for side in np.meshgrid(*ends, indexing="ij"))
        agrees = (model.predict(rows) == curves.labels[record]).reshape(len(ends[0]), -1)
        for i, name in enumerate(names):
            for e, epsilon in enumerate((1.0, 6.0)):
                sides = []
                for j in (0, 1):
                    law = ew.MECHANISMS[name](epsilon).law(float(WIDE[record, j]))
                    below = np.array([law.cdf(c) for c in cuts[j].tolist()])
                    sides.append(np.diff(np.concatenate([[0.0], below, [1.0]])))
                truth = float(sides[0] @ agrees @ sides[1])
                assert curves.lower[i, e, record] == pytest.approx(truth, abs=1e-10)
                assert curves.upper[i, e, record] == pytest.approx(truth, abs=1e-10)
                assert curves.lower[i, e, record] <= truth + 1e-14
                assert curves.upper[i, e, record] >= truth - 1e-14


def _last_left(model, j):
    """Return the last doubles whose float32 does not exceed a threshold, for values between the float32s."""
    thresholds = np.concatenate([t.tree_.threshold[t.tree_.feature == j] for t in model.estimators_])
    below = thresholds.astype(np.float32)
    below = np.where(below > thresholds, np.nextafter(below, np.float32(-1)), below).astype(np.float32)
    middle = (below.astype(float) + np.nextafter(below, np.float32(2)).astype(float)) / 2
    return np.where(middle.astype(np.float32) <= below, middle, np.nextafter(middle, -1))


def test_near_ties_are_asked_on_one_thread():
    """Sums of several threads differ from call to call: the trees are added one after the other, whatever n_jobs."""
    import joblib

    model = RandomForestClassifier(4, min_samples_leaf=4, random_state=0, n_jobs=2).fit(WIDE, LABELS)
    found, seen = builder(model), []
    problem = found.problem

    class Watched:
        def __getattr__(self, name):
            return getattr(problem, name)

        def ask(self, *given):
            seen.append(joblib.effective_n_jobs(model.n_jobs))
            return problem.ask(*given)

    found.problem = Watched()
    found.flips(range(3))
    assert seen == [1]
    assert model.n_jobs == 2
    assert joblib.effective_n_jobs(2) == 2


def test_too_many_changes_hand_over(monkeypatch):
    """For lack of memory, not of cells: sampling takes over."""
    monkeypatch.setattr(trees, "MOST_CHANGES", 50)
    found = builder(fitted("even forest"))
    assert found.flips([0]) is None
    curves = ew.stability(fitted("even forest"), WIDE[:1], sensitive=[0, 1], mechanisms="pm",
    per="feature", epsilons=[1.0], rng=0,
                          tolerance=0.1)  # fmt: skip
    assert (curves.method == "sampled").all()


def test_too_many_changes_end_compiled_loops_too(numba, monkeypatch):
    monkeypatch.setattr(trees, "MOST_CHANGES", 50)
    assert builder(fitted("even forest")).flips([0], fast=True) is None


def test_missing_values_of_public_columns_take_the_way_that_was_learned():
    X = WIDE.copy()
    X[::5, 3] = np.nan
    model = RandomForestClassifier(10, random_state=0).fit(X, LABELS)
    found = builder(model, X[:6])
    for record, flips in enumerate(found.flips(range(6))):
        points = np.tile(X[record], (500, 1))
        points[:, :2] = np.random.default_rng(record).random((500, 2))
        edges, labels = flips.table()
        at = [np.searchsorted(e[1:-1], points[:, j], side="left") for j, e in enumerate(edges)]
        np.testing.assert_array_equal(labels.kinds[labels.labels[tuple(at)]], model.predict(points))
