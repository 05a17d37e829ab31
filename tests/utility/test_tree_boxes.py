"""Boxes finished by tables: what exact cells and every point of a grid say, and certain to the tolerance."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import epsworth as ew
from epsworth.utility.engines import loops, tree_boxes
from epsworth.utility.engines.cells import cells_for
from epsworth.utility.engines.contraction import LawsOverEpsilon
from epsworth.utility.engines.tree_boxes import ReachableLeaves
from epsworth.utility.engines.trees import Leads
from strategies import CONTINUOUS

IRIS, SPECIES = load_iris(return_X_y=True)
CANCER, BENIGN = load_breast_cancer(return_X_y=True)
CANCER = CANCER[:, :7]
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
ROUNDING = 1e-8

MODELS = {
    "tree": DecisionTreeClassifier(random_state=0),
    "pure votes": RandomForestClassifier(6, random_state=1),
    "shares": RandomForestClassifier(9, max_depth=3, random_state=0),
    "shares that tie": RandomForestClassifier(4, max_depth=1, bootstrap=False, random_state=0),
    "extra trees": ExtraTreesClassifier(7, max_depth=4, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=12, random_state=0),
    "histogram boosting": HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=5),
    "scaled": make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)),
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Histogram boosting starts threads for every call, which takes longer than its few rows."""
    with threadpool_limits(1):
        yield


def flowers(classes):
    keep = classes > SPECIES if classes == 2 else SPECIES >= 0
    return IRIS[keep], SPECIES[keep]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("at_once", [1, 1 << 20])
@pytest.mark.cases(1)
def test_boxes_meet_the_exact_cells(name, classes, at_once, monkeypatch):
    """Three of four features, so one is public: several records, and labels that they do not have."""
    monkeypatch.setattr(tree_boxes, "MOST_AT_ONCE", at_once)
    monkeypatch.setattr(tree_boxes, "MOST_CELLS", 64)
    monkeypatch.setattr(tree_boxes, "compiled", lambda: None)
    X, y = flowers(classes)
    model = MODELS[name].fit(X, y)
    given = {
        "sensitive": [0, 2, 3], "mechanisms": [*CONTINUOUS, "krr:k=9"], "epsilons": [0.5, 3], "domain": RANGES,
        "y": [1, 0, 0], "tolerance": ROUNDING,
    }  # fmt: skip
    exact = ew.stability(model, X[[3, 60, 90]], method="cells", **given)
    found = ew.stability(model, X[[3, 60, 90]], method="branch_and_bound", **given)
    assert found.confidence == 1
    for cells, boxes in ((exact.stability, found.stability), (exact.accuracy, found.accuracy)):
        assert (boxes.lower <= cells.upper).all()
        assert (cells.lower <= boxes.upper).all()
        assert (boxes.upper - boxes.lower).max() <= 2 * ROUNDING


@pytest.mark.parametrize("features", [4, 5, 6])
@pytest.mark.parametrize("name", ["pure votes", "shares", "boosting", "histogram boosting"])
@pytest.mark.cases(1)
def test_boxes_meet_every_point_of_a_grid(name, features):
    """Brute force; the seventh feature is public, and missing for one record where the model knows such."""
    model, X = MODELS[name], CANCER.copy()
    if name == "histogram boosting":
        X[::3, 6] = np.nan
    model.fit(X, BENIGN)
    given = {
        "sensitive": list(range(features)), "mechanisms": ["krr:k=4", "pm:quantise=3"], "epsilons": [1, 4],
        "domain": {j: (X[:, j].min(), X[:, j].max()) for j in range(features)}, "tolerance": 5e-4,
    }  # fmt: skip
    exact = ew.stability(model, X[[0, 20]], method="grid", **given)
    found = ew.stability(model, X[[0, 20]], method="branch_and_bound", **given)
    assert found.confidence == 1
    assert (found.lower <= exact.upper).all()
    assert (exact.lower <= found.upper).all()
    assert (found.upper - found.lower).max() <= 1e-3


@pytest.mark.parametrize("classes", [2, 3])
def test_equal_counts_of_trees_go_to_the_first_class_and_are_not_asked(classes):
    X, y = flowers(classes)
    model = RandomForestClassifier(4, random_state=1).fit(X, y)
    given = {"sensitive": [0, 1, 2, 3], "mechanisms": ["krr:k=6"], "epsilons": [1.0], "domain": RANGES}
    exact = ew.stability(model, X[[1, 70]], method="grid", **given)
    found = ew.stability(model, X[[1, 70]], method="branch_and_bound", tolerance=ROUNDING, **given)
    np.testing.assert_allclose(found.lower, exact.lower, atol=ROUNDING)
    none = ew.stability(model, X[[1, 70]], method="branch_and_bound", tolerance=0.4, **given)
    assert found.queries == none.queries
    grid = np.array(list(itertools.product(*[np.linspace(*RANGES[j], 6) for j in range(4)])))
    votes = np.stack([tree.predict_proba(grid) for tree in model.estimators_]).sum(axis=0)
    best = np.sort(votes, axis=1)
    assert (best[:, -1] == best[:, -2]).any()


def test_near_ties_are_put_to_the_classifier_where_they_matter():
    """Stumps that say a quarter or three quarters, each of its own feature: they tie on half of the square."""
    X = np.array([[a, b, c] for a in (0.2, 0.8) for b in (0.2, 0.8) for c in (0.1, 0.9) for _ in range(4)])
    y = (X[:, 0] + X[:, 1] + np.tile([-0.3, 0.3], 16)) > 1
    for seed in range(99):
        model = RandomForestClassifier(2, max_depth=1, max_features=1, bootstrap=False, random_state=seed).fit(X, y)
        if {tree.tree_.feature[0] for tree in model.estimators_} == {0, 1}:
            break
    given = {"sensitive": [0, 1, 2], "mechanisms": ["pm"], "epsilons": [0.5]}
    exact = ew.stability(model, X[[31]], method="cells", **given)
    found = ew.stability(model, X[[31]], method="branch_and_bound", tolerance=ROUNDING, **given)
    assert found.confidence == 1
    assert found.queries > ew.stability(model, X[[31]], method="branch_and_bound", tolerance=0.49, **given).queries
    np.testing.assert_allclose(found.lower, exact.lower, atol=ROUNDING)


def test_categories_that_are_numbers_stand_beside_numbers():
    X, y = flowers(3)
    X = np.column_stack([X, np.arange(len(X)) % 3])
    model = RandomForestClassifier(6, random_state=0).fit(X, (y + X[:, 4]) % 3)
    given = {
        "sensitive": [0, 1, 2, 4], "mechanisms": ["krr:k=5"], "epsilons": [1.0, 3.0],
        "domain": {**{j: RANGES[j] for j in (0, 1, 2)}, 4: [0.0, 1.0, 2.0]},
    }  # fmt: skip
    exact = ew.stability(model, X[[0, 100]], method="grid", **given)
    found = ew.stability(model, X[[0, 100]], method="branch_and_bound", tolerance=ROUNDING, **given)
    assert found.confidence == 1
    np.testing.assert_allclose(found.lower, exact.lower, atol=ROUNDING)
    np.testing.assert_allclose(found.upper, exact.upper, atol=ROUNDING)


@pytest.mark.parametrize("tolerance", [0.01, 5e-4])
@pytest.mark.parametrize("features", [3, 4])
@pytest.mark.slow
def test_the_tolerance_is_met_for_certain_and_not_exceeded_much(features, tolerance):
    rng = np.random.default_rng(0)
    X = rng.random((600, 5))
    model = RandomForestClassifier(20, max_depth=6, random_state=0).fit(X, X[:, 0] + X[:, 1] * X[:, 2] > 0.8)
    given = {"sensitive": list(range(features)), "mechanisms": ["pm", "laplace"], "epsilons": [1.0, 4.0]}
    found = ew.stability(model, X[:2], tolerance=tolerance, rng=0, **given)
    assert (found.method == "branch_and_bound").all()
    assert found.confidence == 1
    width = (found.upper - found.lower).max()
    assert width <= 2 * tolerance
    narrow = ew.stability(model, X[:2], tolerance=2e-5, rng=0, **given)
    assert (found.lower <= narrow.upper).all()
    assert (narrow.lower <= found.upper).all()


def test_a_label_that_cannot_change_stays_for_certain():
    X, y = flowers(2)
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    given = {"sensitive": [0, 2, 3], "domain": {0: (4, 6), 2: (1, 1.5), 3: (0, 0.5)}, "epsilons": [1.0]}
    found = ew.stability(model, X[[0]], mechanisms=["pm", "laplace"], tolerance=ROUNDING, **given)
    assert (found.method == "branch_and_bound").all()
    assert found.lower[0].item() == 1
    assert found.upper[1].item() < 1


def descended(X, model, record, enough, **more):
    asked = ew.Problem.of(model, X, mechanisms=["pm", "sw"], epsilons=[0.5, 3.0], domain=RANGES, y=None, **more)
    builder = cells_for(asked)
    reach = ReachableLeaves.of(asked, record, LawsOverEpsilon(asked), builder.reached(record))
    return tree_boxes.descend(
        Leads.of(builder.model, reach.leaves, asked.labels[record]), reach.below, reach.start, enough
    )


@pytest.mark.parametrize("enough", [0.3, 0.02, 0.0])
def test_what_is_decided_and_what_is_left_is_all_there_is(enough, monkeypatch):
    X, y = flowers(3)
    model = RandomForestClassifier(9, random_state=0).fit(X, y)
    monkeypatch.setattr(tree_boxes, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(tree_boxes, "MOST_CELLS", 16)
    monkeypatch.setattr(tree_boxes, "ENTRIES", 256)
    monkeypatch.setattr(tree_boxes, "TOGETHER", 5)
    monkeypatch.setattr(tree_boxes, "compiled", lambda: None)
    found = descended(X, model, 70, enough, sensitive=[0, 1, 2, 3])
    low, high = found.left()
    np.testing.assert_allclose(found.agrees + found.differs + found.mass(low, high).sum(axis=0), 1, atol=1e-12)
    assert found.undecided <= enough + 1e-12
    middle = (low + high) // 2
    if len(low):  # boxes are disjoint
        inside = (low <= middle[:, np.newaxis]) & (middle[:, np.newaxis] <= high)
        assert (inside.all(axis=2).sum(axis=1) == 1).all()


@pytest.mark.parametrize("name", ["pure votes", "shares", "boosting"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_loop_over_boxes_decides_what_numpy_does(name, classes, monkeypatch):
    """The loop as it stands, in plain Python: with numba it is the same."""
    X, y = flowers(classes)
    model = MODELS[name].fit(X, y)
    monkeypatch.setattr(tree_boxes, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(tree_boxes, "MOST_CELLS", 32)
    found = []
    for loop in (None, loops.PLAIN):
        monkeypatch.setattr(tree_boxes, "compiled", lambda loop=loop: loop)
        found.append(descended(X, model, 60, 0.0, sensitive=[0, 2, 3]))
    numpy, plain = found
    np.testing.assert_allclose(plain.agrees, numpy.agrees, atol=1e-14)
    np.testing.assert_allclose(plain.differs, numpy.differs, atol=1e-14)
    assert plain.certain == numpy.certain
    assert {*map(bytes, np.hstack(plain.left()))} == {*map(bytes, np.hstack(numpy.left()))}


def test_a_stopped_run_goes_on_to_the_bit(tmp_path):
    """Also where the rest is sampled: the work is cut short, so that draws are needed."""
    X, y = flowers(3)
    model = RandomForestClassifier(15, random_state=0).fit(X, y)
    given = {
        "sensitive": [0, 1, 2, 3], "mechanisms": ["pm"], "epsilons": [0.5, 3.0], "domain": RANGES, "rng": 3,
        "tolerance": 0.02,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tree_boxes, "MOST_WORK", 500)
        patched.setattr(tree_boxes, "MOST_AT_ONCE", 1)
        whole = ew.stability(model, X[[0, 60, 70, 100]], checkpoint=tmp_path / "whole", **given)
        assert whole.confidence < 1
        early = ew.stability(
            model, X[[0, 60, 70, 100]], checkpoint=tmp_path / "run", watch=lambda now: now.done > 0.6, **given
        )
        assert early.stopped
        again = ew.stability(model, X[[0, 60, 70, 100]], checkpoint=tmp_path / "run", **given)
    np.testing.assert_array_equal(again.lower, whole.lower)
    np.testing.assert_array_equal(again.upper, whole.upper)
    assert (early.lower <= whole.upper).all()
    assert (whole.lower <= early.upper).all()
