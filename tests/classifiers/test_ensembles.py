"""Meta-estimators and ensembles in the cell engine: equal to brute force on and beside every edge; what is refused."""

from __future__ import annotations

import functools
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from iris_cells import IRIS, RANGES, ROWS, SPECIES, assert_agrees, cells_of
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import epsworth as ew
from epsworth.classifiers.structure import read_trees
from epsworth.classifiers.thresholds import Average, Largest, OneVsOne, Stacked, Sums, Votes
from epsworth.classifiers.trees import TreeModel, in_doubles
from epsworth.utility.engines.linear import LinearModel, linear_for
from readings import said

NOISY = np.where(np.random.default_rng(0).random(150) < 0.4, SPECIES[::-1], SPECIES)
SETTINGS = {"sensitive": [0, 2], "mechanisms": ["pm", "krr:k=9"], "epsilons": [0.5, 2, 6], "domain": RANGES}
LABELS = {2: np.array(["no", "yes"])[(NOISY > 0).astype(int)], 3: np.array(["a", "b", "c"])[NOISY]}


def tree(**more):
    return DecisionTreeClassifier(**({"max_depth": 4, "random_state": 0} | more))


def forest(**more):
    return RandomForestClassifier(**({"n_estimators": 7, "max_depth": 4, "random_state": 0} | more))


def boosted(**more):
    return GradientBoostingClassifier(**({"n_estimators": 8, "max_depth": 2, "random_state": 0} | more))


def histogram(**more):
    return HistGradientBoostingClassifier(**({"max_iter": 8, "max_depth": 3, "min_samples_leaf": 5} | more))


def named(*members):
    return [(f"m{i}", member) for i, member in enumerate(members)]


def soft(*members, **more):
    return VotingClassifier(named(*members), voting="soft", **more)


def hard(*members, **more):
    return VotingClassifier(named(*members), **more)


def stacked(*members, **more):
    return StackingClassifier(named(*members), cv=2, **more)


def calibrated(model, **more):
    return CalibratedClassifierCV(model, **({"cv": 3, "ensemble": False} | more))


def frozen(model):
    """A model that was fitted before, calibrated on the same data."""
    return CalibratedClassifierCV(FrozenEstimator(model.fit(IRIS, LABELS[2])), cv=3)


ADDITIVE = {  # read as one sum of trees, which every engine takes
    "search": lambda: GridSearchCV(
        make_pipeline(StandardScaler(), forest()), {"randomforestclassifier__max_depth": [3]}
    ),
    "search in a pipeline": lambda: make_pipeline(MinMaxScaler(), GridSearchCV(boosted(), {"max_depth": [2]})),
    "pipeline in a pipeline": lambda: make_pipeline(MinMaxScaler(), make_pipeline(StandardScaler(), tree())),
    "soft": lambda: soft(forest(), tree(), ExtraTreesClassifier(4, random_state=0), weights=[2, 1, 0.5]),
    "soft behind steps": lambda: soft(make_pipeline(StandardScaler(), forest()), make_pipeline(MinMaxScaler(), tree())),
    "soft in soft": lambda: make_pipeline(StandardScaler(), soft(soft(tree(), forest()), tree(max_depth=2))),
    "bagging": lambda: BaggingClassifier(tree(), 6, max_features=0.75, random_state=0),
    "bagging of pipelines": lambda: BaggingClassifier(
        make_pipeline(StandardScaler(), tree()), 4, max_features=3, bootstrap_features=True, random_state=0
    ),
    "bagging of few": lambda: BaggingClassifier(  # some know not all classes
        make_pipeline(MinMaxScaler(), tree()), 12, max_samples=3, random_state=0
    ),
    "ada boost": lambda: AdaBoostClassifier(tree(max_depth=2), n_estimators=7, random_state=0),
    "ada boost of stumps": lambda: make_pipeline(MinMaxScaler(), AdaBoostClassifier(n_estimators=9, random_state=0)),
}
BINARY = {
    "threshold on probabilities": lambda: FixedThresholdClassifier(forest(), threshold=0.31),
    "threshold on a share": lambda: FixedThresholdClassifier(forest(n_estimators=4, max_depth=None), threshold=0.75),
    "threshold on the first class": lambda: FixedThresholdClassifier(boosted(), threshold=0.2, pos_label="no"),
    "threshold on scores": lambda: FixedThresholdClassifier(
        histogram(), threshold=0.4, response_method="decision_function"
    ),
    "threshold on scores of the first class": lambda: make_pipeline(
        StandardScaler(),
        FixedThresholdClassifier(boosted(), threshold=-0.3, response_method="decision_function", pos_label="no"),
    ),
    "threshold that all reach": lambda: FixedThresholdClassifier(boosted(), threshold=0.0),
    "threshold far out": lambda: FixedThresholdClassifier(histogram(max_iter=60), threshold=1 - 1e-6),
    "tuned threshold": lambda: TunedThresholdClassifierCV(boosted(), cv=2, scoring="balanced_accuracy"),
    "sigmoid of boosting": lambda: calibrated(boosted()),
    "sigmoid of a forest": lambda: calibrated(forest()),
    "isotonic": lambda: calibrated(forest(), method="isotonic"),
    "isotonic behind a scaler": lambda: make_pipeline(StandardScaler(), calibrated(histogram(), method="isotonic")),
    "frozen": lambda: frozen(boosted()),
    "threshold on a calibrated model": lambda: FixedThresholdClassifier(calibrated(forest()), threshold=0.4),
    "exponential loss": lambda: FixedThresholdClassifier(boosted(loss="exponential"), threshold=0.6),
}
BESIDE = {  # members decide by themselves: their sums stand beside each other
    "soft with boosting": lambda: soft(boosted(), histogram(), make_pipeline(StandardScaler(), forest())),
    "hard": lambda: hard(forest(), boosted(), tree(max_depth=3)),
    "hard, weighted": lambda: make_pipeline(MinMaxScaler(), hard(forest(), histogram(), tree(), weights=[1, 1, 2])),
    "calibrated ensemble": lambda: calibrated(boosted(), ensemble=True),
    "isotonic ensemble": lambda: calibrated(forest(), ensemble=True, method="isotonic"),
    "one against the rest": lambda: OneVsRestClassifier(boosted()),
    "one forest against the rest": lambda: OneVsRestClassifier(forest()),
    "one boosting against one": lambda: OneVsOneClassifier(boosted(n_estimators=3)),
    "one forest against one": lambda: make_pipeline(MinMaxScaler(), OneVsOneClassifier(forest(n_estimators=4))),
    "one pipeline against one": lambda: OneVsOneClassifier(make_pipeline(StandardScaler(), tree())),
    "stacking": lambda: stacked(forest(), boosted(), make_pipeline(StandardScaler(), histogram())),
    "stacked scores": lambda: stacked(boosted(), histogram(), stack_method="decision_function"),
    "stacking under a ridge": lambda: make_pipeline(
        MinMaxScaler(), stacked(tree(), forest(), final_estimator=RidgeClassifier())
    ),
}
TWICE = (  # with two classes, too
    *("stacking", "stacked scores", "stacking under a ridge"),
    *("soft", "bagging", "bagging of few", "ada boost", "hard", "isotonic ensemble"),
)
CASES = [
    *((name, 3) for name in [*ADDITIVE, *BESIDE]),
    *((name, 2) for name in [*TWICE, *BINARY]),
]
ALL = ADDITIVE | BINARY | BESIDE
every_case = pytest.mark.parametrize(("name", "classes"), CASES)


@functools.cache
def fitted(name, classes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about small folds
        return ALL[name]().fit(IRIS, LABELS[classes])


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with threadpool_limits(1):
        yield


@every_case
@pytest.mark.cases(8)
def test_cells_agree_with_predict_at_random_points_and_on_every_edge(name, classes):
    """Brute force: the label at random points, and at both doubles next to every edge."""
    model, rng = fitted(name, classes), np.random.default_rng(0)
    found = cells_of(model)
    edges = [e[np.isfinite(e)] for e in found.sweep.edges]  # also those across which no label changes
    near = [np.concatenate([e, np.nextafter(e, np.inf), rng.uniform(0, 9, 60)]) for e in edges]
    for row, cells in zip(ROWS, found.of(range(3)), strict=True):
        assert_agrees(model, cells, row, [rng.choice(values, 1_000) for values in near])


@every_case
@pytest.mark.cases(6)
def test_what_was_read_answers_as_predict_does_wherever_it_says_that_it_is_clear(name, classes):
    """Nothing is asked here: sums, thresholds, votes and calibrators alone, at thresholds of all features."""
    model, rng = fitted(name, classes), np.random.default_rng(1)
    read = read_trees(model)
    edges = cells_of(model, sensitive=[0, 1, 2]).sweep.edges
    points = rng.choice(IRIS, (1_500, 4))[:, 0]
    for j, edge in enumerate(edges):
        values = np.concatenate([edge, np.nextafter(edge, np.inf), np.nextafter(edge, -np.inf), IRIS[:, j]])
        points[:, j] = rng.choice(values[np.isfinite(values)], len(points))
    labels, clear = read.labels(read.before(points))
    np.testing.assert_array_equal(labels[clear], model.predict(points)[clear])
    assert clear.mean() > 0.6
    assert (read.decision is None) == (name not in BESIDE or name == "one against the rest")


def test_an_open_vote_is_taken_for_nobody_and_counts_for_everybody():
    """One member of weight 2 is open: the other's vote does not settle it, and where it is clear it does."""
    clear = np.array([[True, False], [True, True]])
    votes = [Votes(lambda sums, slack, one=one: (np.array([0, 0]), one), 3) for one in clear]
    low, high = votes[0](np.zeros((2, 1)), np.zeros(1))
    assert low.tolist() == [[1, 0, 0], [0, 0, 0]]
    assert high.tolist() == [[1, 0, 0], [1, 1, 1]]
    places = [slice(0, 1), slice(1, 2)]
    decided = Largest(Average(tuple(zip(votes, places, strict=True)), np.array([2.0, 1.0])), np.zeros(2))
    assert decided(np.zeros((2, 2)))[1].tolist() == [True, False]


def test_scores_against_the_rest_are_parted_by_both_their_slacks():
    model = fitted("one against the rest", 3)
    slack = max(read_trees(one).slack for one in model.estimators_)
    _, clear = read_trees(model).decided(np.array([[1.9 * slack, 0, -1], [2.1 * slack, 0, -1]]))
    assert clear.tolist() == [False, True]


def pair_scores(trust, votes):
    return [v + x / (3 * (abs(x) + 1)) for v, x in zip(votes, trust, strict=True)]


COMBINED = {  # a response to three sums of one member each, and its value in fractions
    "average": (
        Average(tuple((Sums(), slice(i, i + 1)) for i in range(3)), np.array([0.1, 0.7, 0.2])),
        lambda x: [Fraction(0.1) * x[0] + Fraction(0.7) * x[1] + Fraction(0.2) * x[2]],
    ),
    "stacked": (
        Stacked(tuple((Sums(), slice(i, i + 1)) for i in range(3)), np.array([[0.1, -0.7, 1e3]]), np.array([0.3])),
        lambda x: [Fraction(0.1) * x[0] - Fraction(0.7) * x[1] + 1000 * x[2] + Fraction(0.3)],
    ),
    "pairs": (
        OneVsOne(tuple((Sums(), Votes(lambda s, _: ((s[:, 0] > 0).astype(int), s[:, 0] > 0), 2), slice(i, i + 1))
                    for i in range(3)), 3),
        lambda x: pair_scores([-x[0] - x[1], x[0] - x[2], x[1] + x[2]], [0, 1, 2]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMBINED)
def test_the_ends_of_combined_answers_hold_their_exact_values(name):
    response, exact = COMBINED[name]
    sums = np.exp(np.random.default_rng(0).normal(0, 3, (200, 3)))
    low, high = response(sums, np.zeros(3))
    for row, given in enumerate(sums):
        for value, a, b in zip(exact([Fraction(v) for v in given]), low[row], high[row], strict=True):
            assert Fraction(a) < value < Fraction(b)
    assert (high - low <= 1e-9 * (1 + np.abs(low))).all()


SPLIT = {  # per kind of comparison: type, strict, zero
    "forests": (np.float32, False, 0.0),
    "xgboost": (np.float32, True, 0.0),
    "lightgbm": (np.float64, False, float(np.float32(1e-35))),
    "tables": (np.float64, True, 0.0),
}


@pytest.mark.parametrize("kind", SPLIT)
def test_thresholds_in_doubles_send_every_double_the_same_way(kind):
    dtype, strict, zero = SPLIT[kind]
    rng = np.random.default_rng(0)
    tiny = np.array([0.0, -0.0, 1e-35, -1e-35, zero, -zero, 1e-40, -1e-40, 5e-324, 3e38, -3e38])
    thresholds = np.concatenate([rng.normal(size=40), rng.normal(size=40).astype(np.float32), tiny]).astype(dtype)
    single = thresholds.astype(np.float32)
    ends = (np.nextafter(single, np.float32(s)).astype(float) for s in (-np.inf, np.inf))
    halves = [(end + single) / 2 for end in ends]  # where a float32 is rounded to the next
    values = np.concatenate([thresholds, single, *halves]).astype(float)
    values = np.concatenate([values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf)])
    node = len(thresholds)
    model = TreeModel(
        *(np.zeros(node, dtype=np.intp) for _ in range(3)), thresholds.astype(float), np.zeros(1, dtype=np.intp),
        np.zeros((node, 1)), np.zeros(1), np.arange(2), dtype, strict=strict, zero=zero,
    )  # fmt: skip
    plain = in_doubles(model)
    for one, other in zip(thresholds.astype(float), plain.threshold, strict=True):
        np.testing.assert_array_equal(model.turns_left(model.seen(values), one), values <= other)


GAPPY = {
    "tree": lambda: tree(),
    "forest": lambda: forest(),
    "extra trees": lambda: ExtraTreesClassifier(5, random_state=0),
    "histogram": lambda: histogram(),
    "soft": lambda: soft(forest(), histogram()),
}


@pytest.mark.parametrize("gaps_in_training", [False, True])
@pytest.mark.parametrize("name", GAPPY)
@pytest.mark.cases(4)
def test_missing_public_values_go_the_way_that_was_learned(name, gaps_in_training):
    rng = np.random.default_rng(2)
    table = IRIS.copy()
    table[rng.random(150) < 0.3, 1] = np.nan
    table[rng.random(150) < 0.3, 3] = np.nan
    model = GAPPY[name]().fit(table if gaps_in_training else IRIS, LABELS[3])
    rows = table[[0, 7, 33, 60, 90, 120]]
    found = cells_of(model, rows)
    for row, cells in zip(rows, found.of(range(len(rows))), strict=True):
        assert_agrees(model, cells, row, [rng.uniform(0, 9, 300) for _ in range(2)])
    asked = {**SETTINGS, "sensitive": [0, 2], "mechanisms": "pm"}
    assert (ew.stability(model, rows, **asked).method == "cells").all()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.slow
def test_native_categories_of_histogram_boosting(classes):
    """A split on categories is one on an indicator: unknown ones and gaps go the way of missing values."""
    rng = np.random.default_rng(0)
    jobs, towns = (rng.choice(list(names), 400) for names in ("abcdefgh", "xyz"))
    table = pd.DataFrame({"age": rng.random(400), "job": jobs, "pay": rng.random(400), "town": towns})
    table.loc[rng.random(400) < 0.1, "job"] = None
    table = table.astype({"job": "category", "town": "category"})
    score = table["age"] + table["pay"] * table["job"].isin(["a", "d", "g"]) + 0.3 * (table["town"] == "x")
    model = histogram(max_iter=10).fit(table, np.digitize(score, [0.5, 0.9][: classes - 1]))
    rows = table.iloc[:8].copy()
    rows["job"] = pd.Categorical([*rows["job"][:6], "never seen", None])
    settings = {"sensitive": ["pay", "age"], "domain": {"age": (0, 1), "pay": (0, 1)}}
    found = cells_of(model, rows, **settings)
    assert (found.model.feature >= 4).any()
    for number, cells in enumerate(found.of(range(8))):
        at = [rng.uniform(0, 1, 400), rng.uniform(0, 1, 400)]
        asked = rows.iloc[np.full(400, number)].assign(pay=at[0], age=at[1])
        place = [np.searchsorted(e[1:-1], v, side="left") for e, v in zip(cells.edges, at, strict=True)]
        np.testing.assert_array_equal(cells.table.kinds[cells.table.labels[tuple(place)]], model.predict(asked))


class Own(RandomForestClassifier):
    def predict_proba(self, X):
        return super().predict_proba(X)[:, ::-1]


SAMPLED = {
    "stacking beside the record": (lambda: stacked(tree(), passthrough=True), "not linear in its members"),
    "stacking under a forest": (lambda: stacked(tree(), final_estimator=forest()), "not linear in its members"),
    "stacked labels": (lambda: stacked(tree(), stack_method="predict"), "answers that are not read"),
    "a linear member": (lambda: hard(tree(), LogisticRegression(max_iter=500)), "LogisticRegression is none"),
    "one of two against the other": (lambda: OneVsOneClassifier(forest()), "has two classes"),
    "a member of one's own": (lambda: soft(Own(3), tree()), "Own answers by code of its own"),
    "a temperature": (lambda: calibrated(forest(), method="temperature"), "neither a sigmoid nor isotonic"),
    "bagged boosting": (lambda: BaggingClassifier(boosted(), 2), "not averages of leaves"),
    "boosted forests": (lambda: AdaBoostClassifier(forest(n_estimators=2), n_estimators=2), "no single trees"),
}


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.cases(14)
def test_what_is_not_read_is_named(name):
    build, why = SAMPLED[name]
    if name == "a temperature":
        pytest.importorskip("sklearn", "1.8", reason="this scikit-learn has no temperature scaling")
    model = build().fit(IRIS, LABELS[2])
    assert why in said(read_trees, model)
    settings = {**SETTINGS, "mechanisms": "pm", "rng": 0, "tolerance": 0.2}
    found = ew.stability(model, ROWS[:1], **settings)
    assert found.method.item(0) == "sampled"
    if "tree model" not in why and not isinstance(model, (StackingClassifier, OneVsOneClassifier)):
        assert any(why in note for note in found.notes)


@pytest.mark.parametrize("known", [[0], [1, 2]])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_stack_of_members_that_know_other_classes_is_not_read(known, classes):
    """Fitted before, on a part of the classes, or on more of them than the stack chooses from."""
    few = np.isin(SPECIES, known)
    members = [forest().fit(IRIS[few], SPECIES[few]), tree().fit(IRIS, SPECIES)]
    model = StackingClassifier(named(*members), cv="prefit").fit(IRIS, LABELS[classes])
    assert (said(read_trees, model) == "a member of the ensemble knows other classes") == (
        classes == 2 or len(known) == 1
    )
    found = ew.stability(model, ROWS, **SETTINGS | {"mechanisms": "pm", "epsilons": [2.0]}, tolerance=0.1, rng=0)
    assert found.confidence < 1 or isinstance(said(read_trees, model), TreeModel)


@pytest.mark.parametrize("part", ["search", "best", "member", "calibrator"])
def test_a_part_that_answers_by_other_code_is_not_read(part):
    """Every layer must be the library's own."""
    model = {
        "search": lambda: GridSearchCV(tree(), {}),
        "best": lambda: GridSearchCV(tree(), {}),
        "member": lambda: soft(tree(), forest()),
        "calibrator": lambda: calibrated(forest()),
    }[part]().fit(IRIS, LABELS[2])
    assert not isinstance(said(read_trees, model), str)
    changed = {
        "search": lambda: model,
        "best": lambda: model.best_estimator_,
        "member": lambda: model.estimators_[1].estimators_[0],
        "calibrator": lambda: model.calibrated_classifiers_[0].calibrators[0],
    }[part]()
    changed.predict = lambda X: np.zeros(len(X))
    assert isinstance(said(read_trees, model), str)


def test_ensembles_that_decide_beside_each_other_have_cells_only():
    model = fitted("hard", 2)
    with pytest.raises(ValueError, match="decide by themselves"):
        ew.stability(model, ROWS, method="branch_and_bound", **{**SETTINGS, "mechanisms": "pm"})
    exact = ew.stability(model, ROWS, **{**SETTINGS, "mechanisms": "krr:k=9"}, method="cells")
    grid = ew.stability(model, ROWS, **{**SETTINGS, "mechanisms": "krr:k=9"}, method="grid")
    np.testing.assert_allclose(exact.lower, grid.lower, atol=1e-11)
    additive = ew.radius(fitted("bagging", 2), ROWS[1], norm="inf", features=[0, 2])
    assert additive.method == "trees"


def test_searches_and_nested_pipelines_of_linear_models_are_read():
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    model = make_pipeline(MinMaxScaler(), GridSearchCV(inner, {"logisticregression__C": [1.0, 10.0]}, cv=3))
    model.fit(IRIS, LABELS[2])
    found = ew.stability(model, ROWS, **{**SETTINGS, "mechanisms": "pm"})
    assert (found.method == "lattice").all()


LINEAR = {
    "threshold": lambda: FixedThresholdClassifier(logistic(), threshold=0.3),
    "threshold on the first class": lambda: FixedThresholdClassifier(logistic(), threshold=0.35, pos_label="no"),
    "threshold on scores": lambda: FixedThresholdClassifier(
        LinearSVC(), threshold=0.2, response_method="decision_function", pos_label="no"
    ),
    "tuned": lambda: TunedThresholdClassifierCV(logistic(), cv=2),
    "sigmoid": lambda: calibrated(LinearSVC()),
    "isotonic": lambda: make_pipeline(StandardScaler(), calibrated(logistic(), method="isotonic")),
    "threshold on a sigmoid": lambda: GridSearchCV(
        FixedThresholdClassifier(make_pipeline(MinMaxScaler(), calibrated(LinearSVC()))), {"threshold": [0.4]}, cv=2
    ),
}


def logistic():
    return LogisticRegression(max_iter=1_000)


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.cases(1)
def test_thresholds_on_linear_scores(name):
    """Against the grid, and the label on both sides of the boundary that was read."""
    model = LINEAR[name]().fit(IRIS, LABELS[2])
    read = linear_for(ew.Problem.of(model, ROWS, **{**SETTINGS, "y": None}))
    assert isinstance(read, LinearModel), read
    rng = np.random.default_rng(0)
    unit = rng.uniform(0, 1, (2_000, 2))
    for record, row in enumerate(ROWS):
        weights, constant = read.weights[0], read.constants[record, 0]
        unit[:, 1] = -(constant + unit[:, 0] * weights[0] + rng.choice([-1, 1], 2_000) * 1e-7) / weights[1]
        rows = np.tile(row, (2_000, 1))
        rows[:, 0], rows[:, 2] = 4 + 4 * unit[:, 0], 1 + 6 * unit[:, 1]
        score = unit @ weights + constant
        clear = np.abs(score) > 5e-8
        np.testing.assert_array_equal(read.classes[(score[clear] > 0).astype(int)], model.predict(rows)[clear])
    found = ew.stability(model, ROWS, **{**SETTINGS, "mechanisms": "pm"})
    assert (found.method == "lattice").all()
    assert found.confidence == 1
