"""XGBoost and LightGBM in the cell engine: equal to brute force and to the grid; what is refused."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from iris_cells import IRIS, RANGES, ROWS, SPECIES, assert_agrees, cells_of
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import epsworth as ew
from epsworth.classifiers import boosters
from epsworth.classifiers.trees import TIE
from readings import tree_model

GRID = ["krr:k=17", "exponential_tight:k=9", "pm:quantise=12"]
CONTINUOUS = ["pm", "sw", "laplace_clipped", "gaussian_clipped:delta=0.1", "laplace"]
SETTINGS = {"sensitive": [0, 2], "mechanisms": CONTINUOUS, "epsilons": [0.5, 2, 6], "domain": RANGES}
LABELS = {2: (SPECIES > 1).astype(int), 3: SPECIES}


def package_or_skip(name, *version):
    """Import a booster; a missing system library (OpenMP) skips as a missing package does."""
    try:
        return pytest.importorskip(name, *version, reason=f"{name} of the extra epsworth[boosting] is missing")
    except OSError as error:
        pytest.skip(f"{name} cannot be loaded here: {error}")


def xgb(**more):
    package = package_or_skip("xgboost")
    return package.XGBClassifier(**({"n_estimators": 15, "max_depth": 3, "n_jobs": 1} | more))


def lgbm(**more):
    # 4.5 and 4.6 name the columns of an array themselves, so that a domain must use those names
    package = package_or_skip("lightgbm", "4.7")
    settings = {"n_estimators": 15, "num_leaves": 6, "min_child_samples": 5, "n_jobs": 1, "verbose": -1}
    return package.LGBMClassifier(**(settings | more))


BOOSTERS = {
    "xgboost": xgb,
    "xgboost exact": functools.partial(xgb, tree_method="exact", gamma=0.5),  # gamma prunes: deleted nodes
    "xgboost base score": functools.partial(xgb, base_score=0.2),
    "xgboost dart": functools.partial(xgb, booster="dart", rate_drop=0.2),
    "xgboost forests": functools.partial(xgb, n_estimators=4, num_parallel_tree=3, subsample=0.6, random_state=0),
    "lightgbm": lgbm,
    "lightgbm dart": functools.partial(lgbm, boosting_type="dart", drop_rate=0.5),
    "lightgbm forest": functools.partial(lgbm, boosting_type="rf", subsample=0.6, subsample_freq=1),
    "scaled xgboost": lambda: make_pipeline(StandardScaler(), xgb()),
    "scaled lightgbm": lambda: make_pipeline(MinMaxScaler(), StandardScaler(), lgbm()),
}
every_booster = pytest.mark.parametrize("name", BOOSTERS)
both = pytest.mark.parametrize("new", [xgb, lgbm])


@functools.cache
def fitted(name, classes):
    return BOOSTERS[name]().fit(IRIS, LABELS[classes])


def silent(model):
    """Predict without LightGBM's remark that scalers hand it arrays."""
    return ew.as_classifier(model).labels


@every_booster
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.cases(14)
def test_cells_agree_with_predict_at_random_points_and_on_every_edge(name, classes):
    """Brute force: the label at random points, and at both doubles next to every edge."""
    model, rng = fitted(name, classes), np.random.default_rng(0)
    for row, cells in zip(ROWS, cells_of(model).of(range(3)), strict=True):
        near = [np.concatenate([e[1:-1], np.nextafter(e[1:-1], np.inf), rng.uniform(0, 9, 60)]) for e in cells.edges]
        assert_agrees(model, cells, row, [rng.choice(values, 3_000) for values in near])


@every_booster
@pytest.mark.cases(14)
def test_every_threshold_is_located_to_the_last_bit(name):
    """Also those across which no label changes: our walk gives the model's own margins on both sides of all edges."""
    model, rng = fitted(name, 3), np.random.default_rng(0)
    found = cells_of(model)
    inner, scaled = (model[-1], model[:-1].transform) if hasattr(model, "steps") else (model, np.asarray)
    how = {"raw_score": True} if hasattr(inner, "booster_") else {"output_margin": True}
    for position, edges in zip([0, 2], found.sweep.edges, strict=True):
        edges = edges[np.isfinite(edges)]
        sides = [np.nextafter(edges, -np.inf), edges, np.nextafter(edges, np.inf)]
        rows = rng.choice(IRIS, (len(edges) * 40, 4))[:, 0]  # many records meet each edge
        seen = []
        for side in sides:
            rows[:, position] = np.tile(side, 40)
            margins = as_quiet(inner.predict, scaled(rows), how)
            np.testing.assert_allclose(found.model.scores(found.model.before(rows)), margins, atol=1e-5)
            seen.append(margins)
        np.testing.assert_array_equal(seen[0], seen[1])
        assert (seen[1] != seen[2]).reshape(40, -1, 3).any(axis=(0, 2)).mean() > 0.8  # the others are hard to reach


def as_quiet(predict, rows, how):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return predict(rows, **how)


@every_booster
@pytest.mark.cases(14)
def test_cells_equal_the_whole_grid(name):
    """Two exact engines on the same grid mechanisms, natural units and scalers included."""
    one, other = (
        ew.stability(fitted(name, 3), IRIS[::30], method=method, **(SETTINGS | {"mechanisms": GRID}))
        for method in ("cells", "grid")
    )
    assert (one.method == "cells").all()
    assert (other.method == "grid").all()
    np.testing.assert_allclose(one.lower, other.lower, atol=1e-11)
    assert (one.labels_possible >= other.labels_possible).all()


@every_booster
@pytest.mark.cases(3)
def test_cells_hold_the_sampled_truth_and_name_themselves(name):
    """False-alarm rate of the sampled intervals: 1e-6 per run."""
    model, y = fitted(name, 3), [0, 1, 1]
    exact = ew.stability(model, ROWS, y=y, **SETTINGS)
    assert (exact.method == "cells").all()
    assert exact.confidence == 1
    assert (exact.upper - exact.lower).max() < 1e-11
    drawn = ew.stability(model, ROWS, y=y, method="sampled", rng=0, tolerance=0.03, confidence=1 - 1e-6, **SETTINGS)
    for a, b in ((exact.stability, drawn.stability), (exact.accuracy, drawn.accuracy)):
        assert (b.lower <= a.upper).all()
        assert (a.lower <= b.upper).all()


@both
def test_frames_text_labels_and_three_features(new):
    """LightGBM knows labels by name; both know columns by name, in any order."""
    table = pd.DataFrame(IRIS, columns=["a", "b", "c", "d"])
    labels = np.array(["x", "y", "z"])[SPECIES] if new is lgbm else SPECIES
    model = new(n_estimators=5).fit(table, labels)
    settings = {
        "sensitive": ["a", "c", "d"],
        "mechanisms": GRID,
        "epsilons": [1, 4],
        "domain": {"a": (4, 8), "c": (1, 7), "d": (0, 3)},
    }
    shuffled = table.iloc[::40][["d", "c", "b", "a"]]
    one, other = (ew.stability(model, shuffled, method=method, **settings) for method in ("cells", "grid"))
    np.testing.assert_allclose(one.lower, other.lower, atol=1e-11)


@pytest.mark.parametrize("threshold", [0.25, 0.5, 0.75])
def test_a_value_on_the_threshold(threshold):
    """XGBoost compares strictly: a grid value on the threshold goes right."""
    values = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    strict = xgb(n_estimators=1, max_depth=1, tree_method="exact", min_child_weight=0)
    X = np.repeat([[threshold - 0.25], [threshold + 0.25]], 50, axis=0)  # the exact method splits halfway
    strict.fit(X, X[:, 0] > threshold)
    found = cells_of(strict, [[0.0]], sensitive=[0], domain=None)
    assert found.model.threshold[0] == threshold
    (edge,) = found.sweep.edges[0]
    assert np.float32(edge) < np.float32(threshold) == np.float32(np.nextafter(edge, 1))
    curves = ew.stability(strict, [[0.0]], sensitive=0, mechanisms="krr:k=5", epsilons=[1.0], method="cells")
    np.testing.assert_array_equal(silent(strict)(values[:, None]), values >= threshold)
    pmf = ew.MECHANISMS["krr"](1.0, k=5).law(0.0).pmf(values)
    assert curves.lower.item() == pytest.approx(pmf[values < threshold].sum(), abs=1e-11)


def test_a_public_value_on_the_threshold_takes_its_turn():
    """The comparison of public features is strict, too."""
    X = np.tile([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]], (30, 1))
    model = xgb(n_estimators=3, max_depth=2, tree_method="exact").fit(X, (X > 0.5).all(axis=1))
    rows = [[0.6, 0.5], [0.6, float(np.nextafter(np.float32(0.5), np.float32(0)))]]  # splits lie at 0.5
    for row, cells in zip(rows, cells_of(model, rows, sensitive=[0], domain=None).of(range(2)), strict=True):
        at = np.linspace(0, 1, 101)
        place = np.searchsorted(cells.edges[0][1:-1], at, side="left")
        expected = silent(model)(np.column_stack([at, np.full(101, row[1])]))
        np.testing.assert_array_equal(cells.table.kinds[cells.table.labels[place]], expected)
        assert expected.any() == (row[1] == 0.5)


@both
@pytest.mark.parametrize("mechanism", ["laplace_clipped", "krr:k=11"])
def test_an_atom_at_zero_falls_on_its_true_side(new, mechanism):
    """Zero means something else: XGBoost splits at the next value, LightGBM at 1e-35."""
    X = np.repeat([0.0, 0.4, 0.8], 40)[:, None]
    model = new(n_estimators=3).fit(X, (X[:, 0] == 0).astype(int))
    settings = {"sensitive": [0], "domain": None, "mechanisms": [mechanism], "epsilons": [1.0]}
    (edge,) = cells_of(model, [[0.4]], **settings).of([0])[0].edges[0][1:-1]
    beyond = np.nextafter(edge, 1)
    assert silent(model)(np.array([[0.0], [edge], [beyond], [0.4]])).tolist() == [1, 1, 0, 0]
    law = ew.MECHANISMS[mechanism.partition(":")[0]](1.0, **({"k": 11} if "krr" in mechanism else {})).law(0.4)
    assert law.mass(-np.inf, edge) >= law.mass(0.0, 0.0) > 0.05
    curves = ew.stability(model, [[0.4]], method="cells", **settings)
    assert curves.lower.item() == pytest.approx(1 - float(law.mass(-np.inf, edge)), abs=1e-11)


def test_lightgbm_takes_tiny_values_for_zero():
    """A value of 1e-35 in single precision is dropped as zero: -1e-35 itself goes right of a split at -1e-35."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((400, 3)) < 0.5, 0, rng.uniform(-1, 1, (400, 3)))
    model = lgbm().fit(X, (X[:, 0] == 0) ^ (X[:, 2] > 0.5))
    zero = boosters.LIGHTGBM_ZERO
    assert {-zero, zero} <= set(tree_model(model).threshold)
    tiny = np.array([np.nextafter(zero, 1), zero, np.nextafter(zero, 0), 1e-40, 0.0])
    at = np.array(np.meshgrid(np.append(tiny, -tiny), [0.0, 0.3, 0.9])).reshape(2, -1)
    row = np.array([0.2, 0.0, 0.1])
    found = tree_model(model).scores(np.column_stack([at[0], np.zeros(at.shape[1]), at[1]]))
    raw = model.predict(np.column_stack([at[0], np.zeros(at.shape[1]), at[1]]), raw_score=True)
    np.testing.assert_allclose(found[:, 0], raw, atol=1e-9)
    cells = cells_of(model, [row], domain={0: (-1, 1), 2: (-1, 1)}).of([0])[0]
    assert_agrees(model, cells, row, at)


@pytest.mark.slow
def test_sums_in_single_precision_leave_a_wider_margin_to_the_classifier():
    """Within the tie margin, and only there, our sums may name another label than XGBoost's."""
    rng = np.random.default_rng(1)
    X = rng.random((500, 2))
    model = xgb(n_estimators=100, max_depth=6, learning_rate=0.3).fit(X, rng.random(500) < 0.5)
    found = tree_model(model)
    probes = rng.random((50_000, 2))
    margins = model.predict(probes, output_margin=True)
    tie = found.tie * len(found.roots)
    missed = np.abs(found.scores(probes)[:, 0] - margins).max()
    assert found.tie > TIE
    assert 1e-8 < missed < tie < 1e-2
    settings = {"sensitive": [0, 1], "mechanisms": ["pm"], "domain": None}
    builder = cells_of(model, X[:1], **settings)
    cells = builder.of([0])[0]
    place = [np.searchsorted(e[1:-1], v, side="left") for e, v in zip(cells.edges, probes.T, strict=True)]
    np.testing.assert_array_equal(cells.table.labels[tuple(place)], silent(model)(probes))
    assert builder.queries > 0  # near ties were asked about


@both
def test_two_equal_opponents_tie(new):
    """Contradictory labels in the middle: its margin is an exact or near tie, which the classifier decides."""
    X = np.repeat([[0.1], [0.4], [0.9]], 20, axis=0)
    model = new(n_estimators=3).fit(X, np.where(X[:, 0] == 0.4, np.tile([0, 1], 30), X[:, 0] > 0.4))
    found = cells_of(model, [[0.4]], sensitive=[0], domain=None)
    cells = found.of([0])[0]
    at = np.linspace(0, 1, 101)
    place = np.searchsorted(cells.edges[0][1:-1], at, side="left")
    np.testing.assert_array_equal(cells.table.kinds[cells.table.labels[place]], silent(model)(at[:, None]))
    assert found.queries > 0


@both
def test_early_stopping_uses_the_first_trees_only(new):
    rng = np.random.default_rng(0)
    y = (SPECIES > 1) ^ (rng.random(150) < 0.2)
    X, held, y, held_y = IRIS[::2], IRIS[1::2], y[::2], y[1::2]
    if new is xgb:
        model = xgb(n_estimators=60, early_stopping_rounds=5).fit(X, y, eval_set=[(held, held_y)], verbose=False)
        best = model.best_iteration + 1
        assert best < model.get_booster().num_boosted_rounds()
    else:
        import lightgbm

        stop = lightgbm.early_stopping(5, verbose=False)
        model = lgbm(n_estimators=60).fit(X, y, eval_X=held, eval_y=held_y, callbacks=[stop])
        best = model.best_iteration_
        assert best < 60
    assert len(tree_model(model).roots) == best
    cells, at = cells_of(model).of(range(3))[1], [rng.uniform(0, 9, 2_000) for _ in range(2)]
    assert_agrees(model, cells, ROWS[1], at)


REFUSED = {
    "linear booster": lambda: xgb(booster="gblinear"),
    "missing is a number": lambda: xgb(missing=-1.0),
    "margins as labels": lambda: xgb(objective="binary:logitraw"),
    "hinge": lambda: xgb(objective="binary:hinge"),
    "linear trees": lambda: lgbm(linear_tree=True),
    "one against all": lambda: lgbm(objective="multiclassova"),
    "own objective": lambda: lgbm(objective=lambda y, score: (score - y, np.ones_like(score))),
    "zero is missing": lambda: lgbm(zero_as_missing=True),
    "stops early": lambda: lgbm(pred_early_stop=True),
    "steeper sigmoid": lambda: lgbm(sigmoid=3.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    X = np.where(IRIS < 1.5, 0, IRIS)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # linear boosters are deprecated, own objectives odd
        model = REFUSED[name]().fit(X, LABELS[3 if name == "one against all" else 2])
    assert tree_model(model) is None


def test_vector_leaves_and_several_outputs_are_refused():
    vector = xgb(multi_strategy="multi_output_tree", tree_method="hist").fit(IRIS, SPECIES)
    assert tree_model(vector) is None
    several = xgb().fit(IRIS, np.column_stack([SPECIES > 0, SPECIES > 1]).astype(int))
    assert tree_model(several) is None


@both
@pytest.mark.parametrize("change", ["margins", "labels", "format"])
def test_a_model_that_contradicts_what_was_read_is_sampled(new, change, monkeypatch):
    """As a future version might: other margins, other labels, other text."""
    model = new().fit(IRIS, LABELS[2])
    assert tree_model(model) is not None
    own = model.predict
    if change == "margins":
        monkeypatch.setattr(model, "predict", lambda X, **how: own(X, **how) * (1.001 if how else 1))
    elif change == "labels":
        monkeypatch.setattr(model, "predict", lambda X, **how: own(X, **how) if how else 1 - own(X))
    elif new is xgb:
        monkeypatch.setattr(type(model.get_booster()), "save_raw", lambda self, kind: b"{}")
    else:
        monkeypatch.setattr(type(model.booster_), "model_to_string", lambda self: "tree\nversion=v9\n")
    assert tree_model(model) is None


@pytest.mark.slow
def test_neither_library_is_imported_by_the_readers():
    code = "import epsworth.classifiers.boosters, sys; sys.exit(bool({'xgboost', 'lightgbm'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_random_forest_of_xgboost_says_why_it_is_sampled():
    forest = package_or_skip("xgboost").XGBRFClassifier(n_estimators=3, n_jobs=1).fit(*load_iris(return_X_y=True))
    curves = ew.stability(
        forest, load_iris().data[:2], sensitive=[0], domain={0: (4, 8)}, mechanisms="pm", epsilons=[2.0],
        tolerance=0.1, rng=0,
    )  # fmt: skip
    assert "XGBRFClassifier is not read" in " ".join(curves.notes)
