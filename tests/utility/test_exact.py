"""Exact engines: equal to brute force, to each other, to the reference; traps of ties, edges, rounding."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import epsworth as ew
from epsworth.bounds import Interval, Risk
from epsworth.mechanisms import MECHANISMS
from epsworth.utility.curves import Bounds
from epsworth.utility.engines.cells import CellTables, TreeCells, cells_for
from epsworth.utility.engines.engine import Settings
from epsworth.utility.engines.strata import SharedDraws, binomial_weights
from epsworth.utility.quantities import _mixed
from readings import tree_model
from strategies import CONTINUOUS, sparing

IRIS, SPECIES = load_iris(return_X_y=True)
CANCER, BENIGN = load_breast_cancer(return_X_y=True)
CANCER = MinMaxScaler().fit_transform(CANCER)[:, :8]
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
GRID = ["krr:k=17", "exponential_tight:k=9", "pm:quantise=12"]

TREES = {
    "tree": DecisionTreeClassifier(random_state=0),
    "forest": RandomForestClassifier(20, random_state=0),
    "small forest, many ties": RandomForestClassifier(4, random_state=1),
    "extra trees": ExtraTreesClassifier(10, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=15, random_state=0),
    "histogram boosting": HistGradientBoostingClassifier(max_iter=15, min_samples_leaf=5),
    "scaled forest": make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0)),
    "scaled twice": make_pipeline(
        MinMaxScaler(), RobustScaler(), MaxAbsScaler(), DecisionTreeClassifier(random_state=0)
    ),
}
every_tree = pytest.mark.parametrize("name", TREES)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Histogram boosting starts threads for every call, which takes longer than its few rows."""
    with threadpool_limits(1):
        yield


def problem(model, X, **more):
    settings = {
        "sensitive": [0, 2],
        "mechanisms": CONTINUOUS,
        "per": "feature",
        "epsilons": [0.5, 2, 6],
        "domain": RANGES,
        "y": None,
    }
    return ew.Problem.of(model, X, **(settings | more))


def settings_of(miss):
    return Settings(Risk(miss), 0.01, None, np.random.default_rng(0), lambda share: None)


def builder(asked):
    found = cells_for(asked)
    assert isinstance(found, TreeCells), found
    return found


@every_tree
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.cases(1)
def test_cells_agree_with_predict_at_random_points_and_on_every_edge(name, classes):
    """Brute force: the label at random points, and at both doubles next to every edge."""
    keep = classes > SPECIES if classes == 2 else SPECIES >= 0
    model = TREES[name].fit(IRIS[keep], SPECIES[keep])
    asked = problem(model, IRIS[[0, 60, 90]])
    rng = np.random.default_rng(0)
    for record, cells in enumerate(builder(asked).of(range(3))):
        near = [np.concatenate([e[1:-1], np.nextafter(e[1:-1], np.inf)]) for e in cells.edges]
        near = [np.concatenate([edge, rng.uniform(0, 9, 60)]) for edge in near]
        at = [rng.choice(values, 3_000) for values in near]
        rows = np.tile(IRIS[[0, 60, 90]][record], (3_000, 1))
        rows[:, 0], rows[:, 2] = at
        place = [np.searchsorted(e[1:-1], v, side="left") for e, v in zip(cells.edges, at, strict=True)]
        found = cells.table.kinds[cells.table.labels[tuple(place)]]
        assert (found == model.predict(rows)).all()


@every_tree
@pytest.mark.cases(1)
def test_cells_hold_the_sampled_truth_and_name_themselves(name):
    model = TREES[name].fit(IRIS, SPECIES)
    settings = {"sensitive": [0, 2], "mechanisms": CONTINUOUS, "per": "feature", "epsilons": [0.5, 4], "domain": RANGES}
    exact = ew.stability(model, IRIS[[0, 70, 120]], y=[0, 1, 1], **settings)
    assert (exact.method == "cells").all()
    assert exact.confidence == 1
    assert (exact.upper - exact.lower).max() < 1e-11
    drawn = ew.stability(
        model, IRIS[[0, 70, 120]], y=[0, 1, 1], method="sampled", rng=0, tolerance=0.03, confidence=1 - 1e-6, **settings
    )
    for a, b in ((exact.stability, drawn.stability), (exact.accuracy, drawn.accuracy)):
        assert (b.lower <= a.upper).all()
        assert (a.lower <= b.upper).all()
    assert (exact.labels_possible >= drawn.labels_possible).all()


@every_tree
@pytest.mark.cases(1)
def test_cells_equal_the_whole_grid(name):
    """Property test 5: two exact engines on the same grid mechanisms, natural units and scalers included."""
    model = TREES[name].fit(IRIS, SPECIES)
    settings = {"sensitive": [0, 2], "mechanisms": GRID, "per": "feature", "epsilons": [0.5, 2, 6], "domain": RANGES}
    one = ew.stability(model, IRIS[::30], method="cells", **settings)
    other = ew.stability(model, IRIS[::30], method="grid", **settings)
    assert (one.method == "cells").all()
    assert (other.method == "grid").all()
    np.testing.assert_allclose(one.lower, other.lower, atol=1e-11)
    np.testing.assert_array_equal(one.labels_possible >= other.labels_possible, True)


def test_three_features_and_one():
    model = RandomForestClassifier(5, max_depth=4, random_state=0).fit(IRIS, SPECIES)
    for sensitive in ([1], [0, 2, 3]):
        settings = {"sensitive": sensitive, "per": "feature", "epsilons": [1, 4], "domain": RANGES}
        one = ew.stability(model, IRIS[::40], mechanisms=GRID, method="cells", **settings)
        other = ew.stability(model, IRIS[::40], mechanisms=GRID, method="grid", **settings)
        np.testing.assert_allclose(one.lower, other.lower, atol=1e-11)


def stump(threshold):
    """A tree of one split at ``threshold`` exactly as given."""
    model = DecisionTreeClassifier(max_depth=1).fit([[threshold - 1.0], [threshold + 1.0]], [0, 1])
    model.tree_.threshold[0] = threshold
    return model


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.5, 1.5, 0.3, np.float64(np.float32(0.1)), 0.1])
@pytest.mark.parametrize("mechanism", ["laplace_clipped", "krr:k=11", "pm", "laplace"])
@pytest.mark.cases(1)
def test_atoms_and_edges_fall_on_their_true_side(threshold, mechanism):
    """A threshold at 0 separates the atom at 0; float32 moves the edge; outside thresholds vanish."""
    model, law = stump(threshold), None
    curves = ew.stability(model, [[0.6]], sensitive=0, mechanisms=mechanism, epsilons=[1.0], method="cells")
    law = ew.MECHANISMS[mechanism.partition(":")[0]](1.0, **({"k": 11} if "krr" in mechanism else {})).law(0.6)
    values = np.arange(11) / 10
    goes_left = values.astype(np.float32) <= np.float64(threshold)
    if "krr" in mechanism:
        left = float(law.pmf(values[goes_left]).sum())
    else:
        below = np.float32(threshold)
        edge = float(below) if below <= threshold else float(np.nextafter(below, np.float32(-np.inf)))
        left = float(law.mass(-np.inf, edge))
    exact = left if curves.labels[0] == 0 else 1 - left
    assert curves.lower.item() - 1e-7 <= exact <= curves.upper.item() + 1e-7
    if threshold == 0.0 and mechanism == "laplace_clipped":
        assert 1 - curves.upper.item() == pytest.approx(float(law.pmf(0.0)), abs=1e-11)


def test_a_histogram_threshold_at_exactly_zero_keeps_its_atom():
    """Doubles near zero are so dense that plain halving would stop at -1e-55, on the wrong side of the atom."""
    x = np.repeat([[-1.0], [1.0]], 40, axis=0)  # bins meet half-way, at 0
    model = HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=1).fit(x, x[:, 0] > 0)
    assert model.predict([[0.0], [1e-9]]).tolist() == [False, True]
    curves = ew.stability(model, [[0.5]], sensitive=0, mechanisms="laplace_clipped", epsilons=[1.0], method="cells")
    atom = float(MECHANISMS["laplace_clipped"](1.0).law(0.5).pmf(0.0))
    assert 1 - curves.lower.item() == pytest.approx(atom, abs=1e-9)


def test_ties_are_decided_by_the_classifier():
    """Two stumps with leaves of 1/4 and 3/4 tie where they disagree: added up in doubles, so the forest is asked."""
    rows = np.tile(IRIS.mean(axis=0), (8, 1))
    rows[:, 0], rows[:, 2] = np.repeat([5.0, 7.0], 4), np.tile([2.0, 2.0, 6.0, 6.0], 2)
    labels = [0, 0, 0, 1, 0, 1, 1, 1]
    stumps = RandomForestClassifier(2, max_depth=1, max_features=1, bootstrap=False, random_state=1).fit(rows, labels)
    assert sorted(tree.tree_.feature[0] for tree in stumps.estimators_) == [0, 2]
    found = builder(problem(stumps, IRIS[[80]], mechanisms=["pm"]))
    (cells,) = found.of([0])
    assert found.queries == 2  # the cells in which one stump says 1/4, the other 3/4
    middle = [(edges[1:-1].min() - 1, edges[1:-1].max() + 1) for edges in cells.edges]
    for a in middle[0]:
        for b in middle[1]:
            row = rows[0].copy()
            row[[0, 2]] = a, b
            at = tuple(np.searchsorted(edges, v) - 1 for edges, v in zip(cells.edges, (a, b), strict=True))
            assert cells.table.kinds[cells.table.labels[at]] == stumps.predict([row])[0]


def test_records_with_the_same_public_turns_share_their_cells():
    model = TREES["forest"].fit(IRIS, SPECIES)
    rows = np.repeat(IRIS[:1], 5, axis=0)
    rows[:, 0] = np.linspace(4.5, 7.5, 5)
    found = builder(problem(model, rows)).of(range(5))
    assert all(cells is found[0] for cells in found)


def test_a_function_and_unsupported_models_are_told_why():
    neighbours = KNeighborsClassifier().fit(IRIS, SPECIES)
    settings = {"sensitive": [0], "mechanisms": ["pm"], "epsilons": [1.0], "domain": RANGES, "rng": 0, "tolerance": 0.1}
    assert ew.stability(neighbours, IRIS[:1], **settings).method.item() == "sampled"
    for method, message in (
        ("cells", "not a supported tree model"),
        ("lattice", "not a supported linear model"),
        ("grid", "use quantise=k"),
    ):
        with pytest.raises(ValueError, match=message):
            ew.stability(neighbours, IRIS[:1], method=method, **settings)
    with pytest.raises(ValueError, match="the classifier is a function"):
        ew.stability(lambda Z: Z[:, 0] > 5, IRIS[:1], method="cells", **settings)
    forest = TREES["forest"].fit(IRIS, SPECIES)
    wide = RandomForestClassifier(3, random_state=0).fit(CANCER, BENIGN)
    with pytest.raises(ValueError, match="more than 3 sensitive features"):
        ew.stability(wide, CANCER[:1], method="cells", **(settings | {"sensitive": list(range(7)), "domain": None}))
    assert ew.stability(forest, IRIS[:1], **(settings | {"sensitive": 1})).method.item() == "cells"
    assert tree_model(make_pipeline(StandardScaler(), neighbours)) is None


def test_quantising_makes_any_classifier_exact():
    neighbours = KNeighborsClassifier().fit(IRIS, SPECIES)
    settings = {
        "sensitive": [0, 2],
        "per": "feature",
        "epsilons": [1.0, 4.0],
        "domain": RANGES,
        "mechanisms": ["pm", "krr:k=9"],
    }
    curves = ew.stability(neighbours, IRIS[:3], quantise=15, y=[0, 0, 1], **settings)
    assert (curves.method == "grid").all()
    assert curves.confidence == 1
    drawn = ew.stability(
        neighbours, IRIS[:3], quantise=15, y=[0, 0, 1], method="sampled", rng=0, tolerance=0.03, confidence=1 - 1e-6,
        **settings,
    )  # fmt: skip
    for a, b in ((curves.stability, drawn.stability), (curves.accuracy, drawn.accuracy)):
        assert (b.lower <= a.upper).all()
        assert (a.lower <= b.upper).all()
    words = ew.stability(neighbours, IRIS[:3], **(settings | {"mechanisms": ["pm:quantise=15", "krr:k=9"]}))
    np.testing.assert_array_equal(words.lower, curves.lower)


def test_categorical_features_on_the_grid():
    table = pd.DataFrame({"age": [20.0, 60.0], "job": ["a", "b"]})

    def classifier(t):
        return (np.asarray(t["age"]) > 40) ^ (np.asarray(t["job"]) == "c")

    curves = ew.stability(
        classifier, table, sensitive=["age", "job"], mechanisms="krr:k=11", per="feature", epsilons=[1.0],
        domain={"age": (0, 100), "job": ["a", "b", "c"]},
    )  # fmt: skip
    assert (curves.method == "grid").all()
    age, job = MECHANISMS["krr"](1.0, k=11).law(0.2), MECHANISMS["krr"](1.0, k=3).law(0.0)
    young, other = float(age.mass(0, 0.4)), float(job.mass(0, 0.5))
    assert curves.lower[0, 0, 0] == pytest.approx(young * other + (1 - young) * (1 - other), abs=1e-10)


@pytest.mark.parametrize("name", sparing(["forest", "scaled forest", "histogram boosting"], keep=(1,)))
@pytest.mark.slow
def test_categorical_features_are_axes_of_the_cells(name):
    """Summing over the category by hand, as a public feature, must give the same as the engine."""
    rng = np.random.default_rng(5)
    kinds, shape, smoker = [3, 0, 7, 1], IRIS[:, 0], rng.integers(2, size=150)
    X = np.column_stack([shape, rng.choice(kinds, 150), smoker])
    y = (shape > 5.8) ^ np.isin(X[:, 1], [0, 7]) ^ (smoker == 1)
    model = sklearn.base.clone(TREES[name]).fit(X, y)
    domain = {0: (4, 8), 1: kinds, 2: [False, True]}
    words = ["pm", "laplace", "krr:k=17"]
    settings = {"mechanisms": words, "epsilons": [0.5, 2.0, 6.0], "per": "feature", "domain": domain, "method": "cells"}
    curves = ew.stability(model, X[:3], sensitive=[0, 1, 2], **settings)
    assert (curves.method == "cells").all()
    assert curves.confidence == 1
    total = np.zeros_like(curves.lower)
    for (i, kind), flag in itertools.product(enumerate(kinds), (0, 1)):
        fixed = X[:3] * [1, 0, 0] + [0, kind, flag]
        alone = ew.stability(model, fixed, sensitive=0, y=curves.labels, **settings).accuracy.lower
        for (e, epsilon), r in itertools.product(enumerate([0.5, 2.0, 6.0]), range(3)):
            job, smokes = MECHANISMS["krr"](epsilon, k=4), MECHANISMS["krr"](epsilon, k=2)
            chance = job.law(kinds.index(X[r, 1]) / 3).pmf(i / 3) * smokes.law(X[r, 2]).pmf(flag)
            total[:, e, r] += chance * alone[:, e, r]
    np.testing.assert_allclose(curves.lower, total, atol=1e-10)


@pytest.mark.parametrize("name", ["pm", "sw", "laplace_clipped", "gaussian_clipped", "laplace"])
@pytest.mark.parametrize("k", [2, 7, 64])
def test_the_quantised_law_is_the_rounded_law(name, k):
    mechanism = ew.MECHANISMS[name](2.0)
    from epsworth.mechanisms import Quantised

    law, inner = Quantised(mechanism, k).law(0.37), mechanism.law(0.37)
    grid = np.arange(k) / (k - 1)
    pmf = law[..., np.newaxis].pmf(grid)
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    middles = (np.arange(1, k) - 0.5) / (k - 1)
    np.testing.assert_allclose(pmf, np.diff(np.concatenate([[0], inner.cdf(middles), [1]])), atol=1e-12)
    draws = law.sample(20_000, np.random.default_rng(0))
    assert abs(draws.mean() - float(law.mean())) < 5.2 * np.sqrt(float(law.var()) / 20_000) + 1e-12
    assert np.isin(draws, grid).all()
    assert Quantised(mechanism, k).guarantee == mechanism.guarantee
    assert (law.pdf(grid) == 0).all()
    np.testing.assert_allclose(law.cell_masses(np.concatenate([[-1], grid])).sum(), 1, atol=1e-12)


def test_a_grid_mechanism_is_not_quantised_again():
    with pytest.raises(ValueError, match="already lie on a grid of 101 points; set its k instead"):
        ew.stability(lambda Z: Z[:, 0] > 0.5, [[0.2]], sensitive=0, mechanisms="krr:quantise=7", epsilons=[1.0])


def test_exact_answers_do_not_depend_on_how_records_are_grouped():
    model = TREES["small forest, many ties"].fit(IRIS, SPECIES)
    asked = problem(model, IRIS[::7])
    together = CellTables().bound(asked, settings_of(0))
    for record, one in itertools.islice(enumerate(IRIS[::7]), 5):
        alone = problem(model, one[np.newaxis])
        single = CellTables().bound(alone, settings_of(0))
        np.testing.assert_array_equal(single.stability.lower[..., 0], together.stability.lower[..., record])


@pytest.mark.parametrize("name", ["tree", "forest", "boosting", "scaled forest"])
def test_branch_and_bound_meets_the_whole_grid(name):
    """Four sensitive features: the bounds hold what the exact grid says, and are as narrow as asked for."""
    model = TREES[name].fit(IRIS, SPECIES)
    grid = ["krr:k=7", "pm:quantise=9"]
    settings = {
        "sensitive": [0, 1, 2, 3],
        "mechanisms": grid,
        "per": "feature",
        "epsilons": [1, 4],
        "domain": RANGES,
        "y": [0, 2],
    }
    exact = ew.stability(model, IRIS[[0, 70]], method="grid", **settings)
    found = ew.stability(
        model, IRIS[[0, 70]], method="branch_and_bound", rng=0, tolerance=0.03, confidence=1 - 1e-6, **settings
    )
    assert (found.method == "branch_and_bound").all()
    for a, b in ((exact.stability, found.stability), (exact.accuracy, found.accuracy)):
        assert (b.lower <= a.upper).all()
        assert (a.lower <= b.upper).all()
        assert (b.upper - b.lower).max() <= 0.06


@pytest.mark.slow
def test_branch_and_bound_finishes_the_undecided_mass_by_sampling(monkeypatch):
    """With a handful of boxes only, most mass is sampled *given* the undecided region; the truth stays inside."""
    model = RandomForestClassifier(15, random_state=0).fit(IRIS, SPECIES)
    settings = {
        "sensitive": [0, 1, 2, 3],
        "mechanisms": ["pm", "laplace_clipped", "sw"],
        "per": "feature",
        "epsilons": [1, 5],
        "domain": RANGES,
    }
    direct = ew.stability(model, IRIS[[60]], method="sampled", rng=0, tolerance=0.01, confidence=1 - 1e-6, **settings)
    monkeypatch.setattr("epsworth.utility.engines.tree_boxes.MOST_AT_ONCE", 1)
    monkeypatch.setattr("epsworth.utility.engines.tree_boxes.MOST_CELLS", 1)
    for work in (32, 1_000):
        monkeypatch.setattr("epsworth.utility.engines.tree_boxes.MOST_WORK", work)
        found = ew.stability(model, IRIS[[60]], rng=1, tolerance=0.02, confidence=1 - 1e-6, **settings)
        assert (found.method == "branch_and_bound").all()
        assert (found.lower <= direct.upper).all()
        assert (direct.lower <= found.upper).all()
        assert (found.upper - found.lower).max() <= 0.04
        assert found.confidence < 1


def test_many_records_with_five_features_are_sampled():
    model = RandomForestClassifier(3, random_state=0).fit(CANCER, BENIGN)
    given = {
        "sensitive": range(5),
        "mechanisms": ["pm"],
        "per": "feature",
        "epsilons": [1.0],
        "rng": 0,
        "tolerance": 0.2,
    }
    assert (ew.stability(model, CANCER[:17], **given).method == "sampled").all()
    assert (ew.stability(model, CANCER[:2], **given).method == "branch_and_bound").all()


@pytest.mark.parametrize("k", [2, 3, 101])
@pytest.mark.parametrize("features", [1, 4, 49])
def test_the_binomial_form_sums_to_one_and_has_the_right_mean(k, features):
    epsilons = np.array([1e-3, 0.5, 2.0, 8.0, 700.0])
    weights = binomial_weights(epsilons, k, features)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-12)
    kept = np.expm1(-epsilons) / -((k - 1) * np.exp(-epsilons) + 1)
    np.testing.assert_allclose(weights @ np.arange(features + 1), features * (1 - kept), atol=1e-9)


@pytest.mark.parametrize("x", [[0.9, 0.9], [0.2, 0.85]])
def test_shared_draws_hold_the_truth_at_every_epsilon(x):
    """The label is XOR of [y >= .8]: not monotone in epsilon (.670/.501/.949 at .1/4/8 for x = (.9, .9))."""

    def xor(Z):
        return (Z[:, 0] >= 0.8) ^ (Z[:, 1] >= 0.8)

    epsilons = [0.1, 1, 2, 3, 4, 6, 8]
    settings = {"sensitive": [0, 1], "mechanisms": "krr", "per": "feature", "epsilons": epsilons}
    exact = ew.stability(xor, [x], y=[True], method="grid", **settings)
    asked = ew.Problem.of(xor, [x], domain=None, y=[True], **settings)
    found = SharedDraws().bound(asked, settings_of(1e-6))
    for a, b in ((exact.stability, found.stability), (exact.accuracy, found.accuracy)):
        assert (b.lower <= a.upper).all()
        assert (a.lower <= b.upper).all()
        assert (b.upper - b.lower).max() <= 0.02
    if x == [0.9, 0.9]:
        np.testing.assert_allclose(exact.lower[0, [0, 4, 6], 0], [0.670, 0.501, 0.949], atol=6e-4)


def test_shared_draws_cost_less_than_separate_ones():
    model = KNeighborsClassifier(3).fit(CANCER, BENIGN)
    settings = {
        "sensitive": list(range(4)),
        "mechanisms": "krr",
        "per": "feature",
        "epsilons": np.linspace(1, 8, 15),
        "tolerance": 0.03,
    }
    shared = ew.stability(model, CANCER[:1], rng=0, **settings)
    separate = ew.stability(model, CANCER[:1], rng=0, method="sampled", **settings)
    assert shared.method.item() == "strata"
    assert shared.queries < separate.queries
    assert (shared.lower <= separate.upper).all()
    assert (separate.lower <= shared.upper).all()
    assert (shared.upper - shared.lower).max() <= 0.06


def test_averages_and_coins_are_rounded_outwards():
    """Against fractions; what is certain stays so."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        sides = np.sort(rng.random((2, 1, 1, 7)), axis=0)
        lower, upper = Bounds(*sides).average()
        assert Fraction(lower.item()) <= sum(map(Fraction, sides[0].ravel().tolist())) / 7
        assert Fraction(upper.item()) >= sum(map(Fraction, sides[1].ravel().tolist())) / 7
        reveal, raw = rng.random(), rng.choice([0.0, 1.0, 1 / 3])
        low, high = _mixed(np.array(reveal), raw, Interval(*sides[:, 0, 0, 0]))
        exact = [Fraction(reveal) * Fraction(raw) + (1 - Fraction(reveal)) * Fraction(s) for s in sides[:, 0, 0, 0]]
        assert Fraction(low.item()) <= exact[0]
        assert Fraction(high.item()) >= exact[1]
    for value in (0.0, 1.0):
        certain = np.full((1, 1, 7), value)
        assert Bounds(certain, certain).average() == (value, value)
        assert _mixed(np.array(0.3), value, Interval(certain, certain)).lower.ravel().tolist() == [value] * 7
