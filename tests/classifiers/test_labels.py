"""Labels are told from scores, whatever answers them and however few records are asked about."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.cluster import MeanShift
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from threadpoolctl import threadpool_limits

import epsworth as ew
from epsworth.classifiers import ClassifierError
from epsworth.records import as_records

RNG = np.random.default_rng(0)
TABLE = RNG.uniform(size=(60, 2))
TRUTH = (TABLE.sum(axis=1) > 1).astype(int)
SETTINGS = {"sensitive": [0], "mechanisms": ["pm"], "epsilons": [2.0], "rng": 0, "tolerance": 0.2}
FITTED = GaussianNB().fit(TABLE, TRUTH)
SHALLOW = DecisionTreeClassifier(max_depth=1).fit(TABLE, TRUTH)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Histogram boosting starts threads for every call, which takes longer than its few rows."""
    with threadpool_limits(1):
        yield


class Network:
    """Predicts as Keras does: a column of probabilities."""

    def predict(self, records):
        return FITTED.predict_proba(records)[:, 1:]


class Margins(RidgeClassifier):
    def predict(self, records):
        return self.decision_function(records)


def certainty(Z):
    return FITTED.predict_proba(Z)[:, 1]


SCORES = {
    "probabilities": lambda Z: FITTED.predict_proba(Z)[:, 1],
    "probabilities of a stump": lambda Z: SHALLOW.predict_proba(Z)[:, 1],
    "a column": lambda Z: FITTED.predict_proba(Z)[:, :1],
    "a network": Network(),
    "margins": lambda Z: 5 * np.asarray(Z)[:, 0] - 2.1,
    "single precision": lambda Z: (5 * np.asarray(Z)[:, 0] - 2.1).astype(np.float32),
    "a regression": DecisionTreeRegressor(max_depth=6).fit(TABLE, 10 * TABLE[:, 0] + 0.1).predict,
    "objects": lambda Z: FITTED.predict_proba(Z)[:, 1].astype(object),
    "log-probabilities": lambda Z: FITTED.predict_log_proba(Z)[:, 1],
    "margins of a classifier": Margins().fit(TABLE, TRUTH),
    "fractions": lambda Z: np.array([Fraction(p).limit_denominator(997) for p in certainty(Z)], dtype=object),
    "decimals": lambda Z: np.array([Decimal(str(p)) for p in certainty(Z)], dtype=object),
    "thousandths": lambda Z: (1000 * certainty(Z)).astype(int),
    "small integers": lambda Z: (2000 * certainty(Z) - 1000).astype(np.int16),
    "whole floats": lambda Z: np.round(1000 * certainty(Z)),
    "whole decimals": lambda Z: np.array([Decimal(round(1000 * p)) for p in certainty(Z)], dtype=object),
    "huge integers": lambda Z: (1e6 * certainty(Z)).astype(np.uint64) * np.uint64(10**13),
    "saturated": lambda Z: np.clip(5 * np.asarray(Z)[:, 0] - 2, 0, 1),
}


@pytest.mark.parametrize("mechanism", ["pm", "krr:k=3"])
@pytest.mark.parametrize("name", SCORES)
def test_scores_are_refused_from_a_single_record_on(name, mechanism):
    with pytest.raises(ClassifierError, match="these look like scores: return labels") as caught:
        ew.stability(SCORES[name], TABLE[:1], **(SETTINGS | {"mechanisms": mechanism}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", SCORES)
def test_scores_are_refused_where_a_radius_is_asked_for(name):
    with pytest.raises(ClassifierError, match="these look like scores"):
        ew.radius(SCORES[name], TABLE[0], rng=0)


def labelling(kinds):
    return lambda Z: np.asarray(kinds)[(np.asarray(Z)[:, 0] * len(kinds)).astype(int).clip(0, len(kinds) - 1)]


@pytest.mark.parametrize(
    "kinds",
    [
        [0.5, 1.5],
        [1.0, 1.5, 2.0, 2.5, 3.0],
        [-0.5, 0.5],
        [0.0, 1.0],
        [10.0, 1e300, -3.0],
        ["0.25", "0.75"],
        [False, True],
        list(range(100)),
        [float(k) for k in range(100)],
        np.array([1.5, "a", 2], dtype=object),
        np.array([Decimal("1.5"), Fraction(5, 2), Fraction(3)], dtype=object),
        [-(2**62), 2**62, 0],
    ],
)
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_labels_of_every_kind_are_taken(kinds, shape):
    """A column is refused only for broken numbers, which networks answer."""
    answer = labelling(kinds)
    broken = any(isinstance(kind, (float, Decimal, Fraction)) and kind % 1 for kind in kinds)
    if broken and shape == (-1, 1):
        with pytest.raises(ClassifierError, match="a column of broken numbers"):
            ew.stability(lambda Z: answer(Z).reshape(shape), TABLE[:5], **SETTINGS)
    else:
        found = ew.stability(lambda Z: answer(Z).reshape(shape), TABLE[:5], **SETTINGS)
        assert found.labels.tolist() == answer(TABLE[:5]).tolist()


@pytest.mark.parametrize(
    ("kinds", "named"),
    [
        ([b"a", b"b"], "bytes"),
        (np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"), "datetime64"),
        (np.array([datetime.date(2020, 1, 1), 1], dtype=object), "date"),
        (np.array([b"a", "b"], dtype=object), "bytes"),
    ],
)
def test_labels_that_no_result_can_hold_are_refused_before_the_work(kinds, named):
    with pytest.raises(ClassifierError, match=f"answers labels of type {named}; let it answer texts, numbers or truth"):
        ew.stability(labelling(kinds), TABLE[:5], **SETTINGS)
    with pytest.raises(ClassifierError, match=f"answers labels of type {named}; let it answer texts, numbers or truth"):
        ew.radius(labelling(kinds), TABLE[0], rng=0)


def test_declared_labels_are_taken_and_others_refused():
    answer = labelling([0.25, 0.75])
    with pytest.raises(ClassifierError, match="all lie between 0 and 1"):
        ew.stability(answer, TABLE[:5], **SETTINGS)
    declared = ew.Classifier("quarters", answer, classes=(0.25, 0.75))
    assert ew.stability(declared, TABLE[:5], **SETTINGS).labels.tolist() == answer(TABLE[:5]).tolist()
    for kinds in ([0.25, 0.5], [0.25, 0.75, 3.5]):
        odd = ew.Classifier("odd", labelling(kinds), classes=(0.25, 0.75))
        with pytest.raises(ClassifierError, match="none of its classes"):
            ew.stability(odd, TABLE[:5], **SETTINGS)
    quarters = np.where(TRUTH, 0.75, 0.25)
    forest = RandomForestClassifier(3, random_state=0).fit(TABLE, quarters.astype(str)).predict
    assert ew.stability(forest, TABLE[:1], **SETTINGS).labels.item() in ("0.25", "0.75")


class Percent(GaussianNB):
    def predict(self, records):
        return np.round(99 * self.predict_proba(records)[:, 1]).astype(int)


@pytest.mark.parametrize(
    ("classes", "kinds", "taken"),
    [
        ((0, 1), [0, 1, 99], False),
        ((0, 1), [0.0, 1.0], True),
        ((0, 1), [False, True], True),
        ((0, 1), ["0", "1"], False),
        (("no", "yes"), ["no", "yes"], True),
        (("no", "yes"), ["no", "yes!"], False),
        (("no", "yes"), [0, 1], False),
        (tuple(range(300)), list(range(300)), True),
        (tuple(range(200)), list(range(300)), False),
        (tuple(range(300)), [str(k) for k in range(300)], False),
        ((Fraction(1, 2), "a"), np.array([0.5, "a"], dtype=object), True),
        ((datetime.date(2020, 1, 1), 1), np.array([datetime.date(2020, 1, 1), 1], dtype=object), True),
    ],
)
def test_whatever_is_answered_is_one_of_the_declared_classes(classes, kinds, taken):
    given = ew.Classifier("given", labelling(kinds), classes=classes)
    if taken:
        expected = labelling(kinds)(TABLE)
        assert given.labels(TABLE).tolist() == expected.tolist()
    else:
        with pytest.raises(ClassifierError, match="values that are none of its classes; these look like scores"):
            ew.stability(given, TABLE, **SETTINGS)


def test_a_predict_that_answers_other_numbers_than_its_models_classes_is_refused():
    with pytest.raises(ClassifierError, match="values that are none of its classes"):
        ew.stability(Percent().fit(TABLE, TRUTH), TABLE, **SETTINGS)


@pytest.mark.parametrize("kind", [complex, np.complex64, object])
def test_complex_numbers_are_no_labels(kind):
    for classes in (None, (0, 1)):
        answer = ew.Classifier("waves", lambda Z: np.exp(1j * Z[:, 0]).astype(kind), classes=classes)
        with pytest.raises(ClassifierError, match="complex numbers, which are no labels"):
            ew.stability(answer, TABLE[:2], **SETTINGS)


def test_up_to_a_hundred_whole_numbers_are_labels():
    """The stated rule: percentages from 0 to 99 cannot be told from labels, the 101st number can."""
    taken = ew.as_classifier(lambda Z: Z[:, 0].astype(int))
    taken.labels(np.arange(100.0)[:, np.newaxis])
    with pytest.raises(ClassifierError, match="more than 100 different whole numbers"):
        taken.labels(np.array([[100.0]]))


def test_clusters_are_labels_however_many():
    many = np.random.default_rng(0).uniform(size=(130, 2))
    model = MeanShift(bandwidth=1e-3, bin_seeding=False, cluster_all=True, max_iter=1).fit(many)
    assert len(model.cluster_centers_) > 100
    assert len(ew.as_classifier(model).labels(many)) == 130


def test_what_was_answered_adds_up_over_questions():
    """Seventeen different numbers, one record at a time."""
    classifier = ew.as_classifier(lambda Z: Z[:, 0])
    for k in range(16):
        classifier.labels(np.array([[k + 0.5]]))
    with pytest.raises(ClassifierError, match="more than 16 different broken numbers"):
        classifier.labels(np.array([[16.5]]))


@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
def test_boosters_answer_labels_where_their_objective_says_what_these_are(package):
    library = pytest.importorskip(package, reason=f"{package} of the extra epsworth[boosting] is missing")
    kind = {"lightgbm": "LGBM", "xgboost": "XGB"}[package]
    for suffix in ("Classifier", "Regressor"):
        model = getattr(library, kind + suffix)(n_estimators=2, max_depth=2, n_jobs=1).fit(TABLE, TRUTH)
        booster = model.booster_ if package == "lightgbm" else model.get_booster()
        if suffix == "Classifier":
            assert ew.stability(model, TABLE[:1], **SETTINGS).method.item() == "cells"
            assert ew.stability(booster, TABLE[:1], **SETTINGS).method.item() == "cells"
            np.testing.assert_array_equal(ew.as_classifier(booster).labels(TABLE), model.predict(TABLE))
        else:
            with pytest.raises(TypeError, match=f"a Booster of {package} whose objective does not say what a label is"):
                ew.stability(booster, TABLE[:1], **SETTINGS)


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, RandomForestClassifier, HistGradientBoostingClassifier])
@pytest.mark.parametrize("features", [1, 4])
def test_models_of_one_class_never_change_their_label(kind, features):
    table = np.column_stack([TABLE, TABLE])
    model = kind(**({"n_estimators": 2} if kind is RandomForestClassifier else {})).fit(table, ["same"] * 60)
    given = SETTINGS | {"sensitive": list(range(features)), "y": ["same", "other"]}
    found = ew.stability(model, table[:2], **given)
    assert found.confidence == 1
    assert (found.lower > 1 - 1e-11).all()
    assert (found.labels_possible == 1).all()
    assert found.accuracy.upper[..., 1].item() < 1e-11
    assert ew.radius(model, table[0]).lower == np.inf


@pytest.mark.filterwarnings("ignore:lbfgs failed:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", [GaussianNB(), MLPClassifier((2,), max_iter=5, solver="lbfgs")])
def test_other_models_of_one_class_are_answered_too(model):
    found = ew.stability(model.fit(TABLE, np.ones(60)), TABLE[:1], **SETTINGS)
    assert found.upper.item() == 1
    assert found.labels.item() == 1


@pytest.mark.parametrize("classes", [2, 3])
def test_sparse_coefficients_are_read_as_dense_ones(classes):
    truth = TRUTH + (TABLE[:, 0] > 0.8) * (classes - 2)
    dense, thin = (SGDClassifier(random_state=0).fit(TABLE, truth) for _ in range(2))
    thin.sparsify()
    one, other = (ew.stability(model, TABLE[:2], **SETTINGS) for model in (dense, thin))
    np.testing.assert_allclose(one.lower, other.lower, atol=1e-12)
    assert other.confidence == 1
    assert ew.radius(thin, TABLE[0]).lower == pytest.approx(ew.radius(dense, TABLE[0]).lower, rel=1e-12)


def jobs():
    rng = np.random.default_rng(0)
    job = pd.Categorical(rng.choice(["b", "c", "a"], 200), categories=["c", "a", "b", "never"])
    table = pd.DataFrame({"age": rng.uniform(size=200), "job": job})
    return table, ((table.age > 0.5) ^ (table.job == "b")).astype(int)


@pytest.mark.parametrize("package", ["lightgbm", "xgboost", "sklearn"])
def test_a_sensitive_column_of_categories_stays_one(package):
    """Against the closed form over the categories, each put into the table by hand."""
    if package == "sklearn":
        model = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    elif package == "xgboost":
        model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1)
    else:
        model = pytest.importorskip("lightgbm").LGBMClassifier(
            n_estimators=5, min_child_samples=5, n_jobs=1, verbose=-1
        )
    table, truth = jobs()
    model.fit(table, truth)
    own = model.predict(table[:4])
    curves = ew.stability(
        model, table[:4], sensitive="job", mechanisms="krr", epsilons=[1.0], domain={"job": ["a", "b", "c"]}
    )
    expected = np.zeros(4)
    for kind in "abc":
        moved = table[:4].assign(job=pd.Categorical([kind] * 4, dtype=table.job.dtype))
        chance = np.where(table.job[:4] == kind, np.e, 1) / (np.e + 2)
        expected += chance * (model.predict(moved) == own)
    np.testing.assert_allclose(curves.lower[0, 0], expected, atol=1e-9)
    assert 0.3 < expected.min() < expected.max()


def test_categories_keep_their_kind_and_order_in_every_frame():
    table, _ = jobs()
    rows, values = np.array([0, 1, 1]), np.array(["b", "a", "c"], dtype=object)
    taken = as_records(table).take(rows, {1: values})
    assert taken.job.dtype == table.job.dtype
    assert taken.job.tolist() == ["b", "a", "c"]
    further = as_records(table).take(rows, {1: np.array(["new", "a", "b"], dtype=object)})
    assert further.job.cat.categories.tolist() == ["c", "a", "b", "never", "new"]
    for kind in (pl.Enum(["c", "a", "b"]), pl.Categorical()):
        frame = pl.DataFrame({"job": pl.Series(["a", "b", "c"], dtype=kind)})
        taken = as_records(frame).take(rows, {0: values})
        assert taken["job"].dtype == kind
        assert taken["job"].to_list() == ["b", "a", "c"]
