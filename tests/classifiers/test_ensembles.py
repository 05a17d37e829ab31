"""Meta-estimators and ensembles in the cell engine: equal to brute force on and beside every edge; what is refused."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.utility.engines.cells import TreeCells, cells_for
from epsworth.utility.question import ask

IRIS, SPECIES = load_iris(return_X_y=True)
NOISY = np.where(np.random.default_rng(0).random(150) < 0.15, 1, SPECIES)
ROWS = IRIS[[0, 60, 90]]
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
SETTINGS = {"sensitive": [0, 2], "mechanisms": ["pm", "krr:k=9"], "epsilons": [0.5, 2, 6], "domain": RANGES}
LABELS = {2: np.array(["no", "yes"])[(NOISY > 1).astype(int)], 3: np.array(["a", "b", "c"])[NOISY]}


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
    "bagging of few": lambda: BaggingClassifier(tree(), 8, max_samples=3, random_state=0),  # some know not all classes
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
}
CASES = [
    *((name, classes) for name in ADDITIVE for classes in (2, 3)),
    *((name, 2) for name in BINARY),
    *((name, classes) for name in BESIDE for classes in (2, 3) if classes > 2 or "against" not in name),
]
ALL = ADDITIVE | BINARY | BESIDE
every_case = pytest.mark.parametrize(("name", "classes"), CASES)


@functools.cache
def fitted(name, classes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about small folds
        return ALL[name]().fit(IRIS, LABELS[classes])


def cells_of(model, X=ROWS, **more):
    found = cells_for(ask(model, X, **(SETTINGS | {"y": None} | more)))
    assert isinstance(found, TreeCells), found
    return found


def assert_agrees(model, cells, row, at):
    """Compare the cells of one record with predict, at values of features 0 and 2."""
    rows = np.tile(row, (len(at[0]), 1))
    rows[:, 0], rows[:, 2] = at
    place = [np.searchsorted(e[1:-1], v, side="left") for e, v in zip(cells.edges, at, strict=True)]
    found = cells.table.kinds[cells.table.labels[tuple(place)]]
    np.testing.assert_array_equal(found, ew.as_classifier(model).labels(rows))


@every_case
def test_cells_agree_with_predict_at_random_points_and_on_every_edge(name, classes):
    """Brute force: the label at random points, and at both doubles next to every edge."""
    model, rng = fitted(name, classes), np.random.default_rng(0)
    found = cells_of(model)
    for row, cells, edges in zip(ROWS, found.of(range(3)), [found.sweep.edges] * 3, strict=True):
        edges = [e[np.isfinite(e)] for e in edges]  # also those across which no label changes
        near = [np.concatenate([e, np.nextafter(e, np.inf), rng.uniform(0, 9, 60)]) for e in edges]
        assert_agrees(model, cells, row, [rng.choice(values, 2_000) for values in near])
