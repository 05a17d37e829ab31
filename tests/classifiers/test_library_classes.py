"""Models are read as what they are, not by what they are called: whoever answers by other code is a black box."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from threadpoolctl import threadpool_limits

import epsworth as ew
from epsworth.classifiers.classifier import Classifier, as_classifier
from epsworth.classifiers.reading import library_class, unlike
from epsworth.classifiers.structure import read_network
from epsworth.utility.engines.cells import cells_for
from epsworth.utility.engines.linear import LinearModel, linear_for
from epsworth.utility.engines.propagation import bounds_for
from epsworth.utility.engines.quadratic import quadratic_for
from epsworth.utility.radius.question import ask as ask_radius
from readings import said, tree_model

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 2: (1, 7)}
SETTINGS = {"sensitive": [0, 2], "mechanisms": ["pm"], "epsilons": [2.0], "domain": RANGES}
MODELS = {
    "tree": DecisionTreeClassifier(max_depth=2),
    "extra tree": ExtraTreeClassifier(max_depth=2),
    "forest": RandomForestClassifier(3, max_depth=2),
    "extra trees": ExtraTreesClassifier(3, max_depth=2),
    "boosting": GradientBoostingClassifier(n_estimators=2),
    "histograms": HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=4),
    "logistic": LogisticRegression(max_iter=5),
    "svc": LinearSVC(),
    "lda": LinearDiscriminantAnalysis(),
    "ridge": RidgeClassifier(),
    "sgd": SGDClassifier(random_state=0),
    "perceptron": Perceptron(),
    "naive bayes": GaussianNB(),
    "qda": QuadraticDiscriminantAnalysis(),
    "mixture": GaussianMixture(2, random_state=0),
    "k-means": KMeans(3, n_init=1, random_state=0),
    "mini k-means": MiniBatchKMeans(3, n_init=1, random_state=0),
    "centroids": NearestCentroid(),
    "network": MLPClassifier((3,), max_iter=5, solver="lbfgs", random_state=0),
}
every_model = pytest.mark.parametrize("name", MODELS)
pytestmark = pytest.mark.filterwarnings("ignore:lbfgs failed:sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Histogram boosting starts threads for every call, which takes longer than its few rows."""
    with threadpool_limits(1):
        yield


@functools.cache
def fitted(name):
    return MODELS[name].fit(IRIS, SPECIES)


def readers(model):
    """Return what each engine reads of a model: a sentence, or None, where it reads nothing."""
    problem = ew.Problem.of(model, IRIS[[0, 60]], y=None, **SETTINGS)
    read = [said(reader, problem) for reader in (cells_for, linear_for, quadratic_for, bounds_for)]
    return [found for found in read if not isinstance(found, str)] + [
        found for found in [ask_radius(model, IRIS[0], norm=2, features=None).inside()] if found is not None
    ]


def of_class(name, body, called=None, bases=()):
    """Return a fitted model whose class is a subclass of the same name."""
    model = copy.deepcopy(fitted(name))
    kind = type(model)
    model.__class__ = type(kind)(called or kind.__name__, (*bases, kind), body)
    return model


class Upside:
    """Answers with the label of other records."""

    def predict(self, records):
        return super().predict(np.asarray(records)[:, ::-1])


@every_model
@pytest.mark.cases(1)
def test_a_subclass_that_predicts_by_itself_is_a_black_box(name):
    assert len(readers(fitted(name))) >= 2  # an engine's and the radius'
    model = of_class(name, {"predict": lambda self, records: Upside.predict(self, records)})
    for other in (of_class(name, {}, bases=(Upside,)), of_class(name, {"predict": fitted(name).predict})):
        assert library_class(other) is None
        assert readers(other) == []
    assert library_class(model) is None


@every_model
def test_a_model_with_a_method_put_in_the_place_of_its_own_is_a_black_box(name):
    model = copy.deepcopy(fitted(name))
    model.predict = lambda records: np.zeros(len(records), dtype=int)
    assert readers(model) == []


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("logistic", {"decision_function": lambda self, X: -super(type(self), self).decision_function(X)}),
        ("logistic", {"__getattribute__": lambda self, name: object.__getattribute__(self, name)}),
        ("logistic", {"__getattr__": lambda self, name: 1}),
        ("logistic", {"coef_": property(lambda self: np.zeros((3, 4)), lambda self, value: None)}),
        ("forest", {"predict_proba": lambda self, X: np.ones((len(X), 3)) / 3}),
        ("forest", {"_validate_X_predict": lambda self, X: X}),
        ("tree", {"tree_": property(lambda self: None, lambda self, value: None)}),
        ("naive bayes", {"_joint_log_likelihood": lambda self, X: np.zeros((len(X), 3))}),
        ("network", {"_predict": lambda self, X: X}),
        ("histograms", {"_raw_predict": lambda self, X: X}),
        ("k-means", {"_check_test_data": lambda self, X: -X}),
    ],
)
def test_whatever_predict_goes_through_must_be_the_librarys(name, body):
    assert library_class(of_class(name, body)) is None


def test_a_property_that_stands_before_a_fitted_attribute_makes_a_black_box():
    """Also where it keeps the value under another name, so that the object itself holds nothing of that one."""
    model = of_class("logistic", {"coef_": property(lambda self: self.kept, lambda self, value: None)})
    model.kept = model.__dict__.pop("coef_")
    assert model.predict(IRIS[:1]).tolist() == fitted("logistic").predict(IRIS[:1]).tolist()
    assert library_class(model) is None


@pytest.mark.parametrize("name", ["logistic", "forest", "naive bayes", "network"])
def test_a_method_patched_on_the_librarys_class_is_found_out_by_asking(name, monkeypatch):
    own = type(fitted(name)).predict
    monkeypatch.setattr(type(fitted(name)), "predict", lambda self, X: own(self, np.asarray(X)[:, ::-1]))
    problem = ew.Problem.of(fitted(name), IRIS[[0, 60]], y=None, **SETTINGS)
    assert all(isinstance(said(reader, problem), str) for reader in (cells_for, linear_for, quadratic_for, bounds_for))
    assert ew.radius(fitted(name), IRIS[60], rng=0).method == "sampled"


def test_classes_of_the_same_name_from_elsewhere_are_not_taken_for_the_librarys():
    class RandomForestClassifier(ew.Classifier):
        __module__ = "sklearn.ensemble._forest"

    class LogisticRegression:
        __module__ = "sklearn.linear_model"
        coef_, intercept_, classes_ = np.ones((1, 4)), np.zeros(1), np.array([0, 1])

        def predict(self, records):
            return np.asarray(records)[:, 1] > 3

        decision_function = predict

    assert library_class(RandomForestClassifier("x", lambda records: records)) is None
    assert readers(LogisticRegression()) == []


class Odd(StandardScaler):
    def transform(self, X, copy=None):
        return super().transform(np.asarray(X)[:, ::-1])


def odd_scaler():
    Odd.__name__ = "StandardScaler"
    return make_pipeline(Odd(), DecisionTreeClassifier(max_depth=3)).fit(IRIS, SPECIES)


def patched_scaler():
    model = make_pipeline(StandardScaler(), GaussianNB()).fit(IRIS, SPECIES)
    model[0].transform = lambda X: -np.asarray(X)
    return model


def odd_pipeline():
    class Reversed(Pipeline):
        def predict(self, X):
            return super().predict(np.asarray(X)[:, ::-1])

    return Reversed([("scale", MinMaxScaler()), ("model", GaussianNB())]).fit(IRIS, SPECIES)


def patched_tree():
    model = RandomForestClassifier(3, max_depth=2, random_state=0).fit(IRIS, SPECIES)
    for tree in model.estimators_:
        tree.predict_proba = lambda X, check_input=True: np.tile([0.0, 0.0, 1.0], (X.shape[0], 1))
    return model


def odd_tree():
    model = RandomForestClassifier(2, max_depth=2, random_state=0).fit(IRIS, SPECIES)
    kind = type("DecisionTreeClassifier", (DecisionTreeClassifier,), {"predict_proba": patched_tree})
    model.estimators_[1].__class__ = kind
    return model


class Holder:
    """Not a pipeline, though it has steps."""

    classes_ = np.arange(3)

    def __init__(self):
        self.steps = [("model", fitted("tree"))]

    def predict(self, records):
        return np.zeros(len(records), dtype=int)


def relabelled():
    model = MLPClassifier((3,), max_iter=5, solver="lbfgs", random_state=0).fit(IRIS, SPECIES)
    model.classes_ = np.array([2, 1, 0])  # which its predict does not look at
    return model


def twice_the_same_label():
    model = copy.deepcopy(fitted("logistic"))
    model.classes_ = np.array([0, 1, 1])
    return model


@pytest.mark.parametrize(
    "make", [odd_scaler, patched_scaler, odd_pipeline, patched_tree, Holder, relabelled, twice_the_same_label]
)
@pytest.mark.cases(1)
def test_every_part_of_a_model_must_be_the_librarys(make):
    model = make()
    problem = ew.Problem.of(model, IRIS[[0, 60]], y=None, **SETTINGS)
    for reader in (cells_for, linear_for, quadratic_for, bounds_for):
        assert isinstance(said(reader, problem), str)
    np.testing.assert_array_equal(as_classifier(model).labels(IRIS), model.predict(IRIS))
    assert ew.radius(model, IRIS[60], rng=0).method == "sampled"


def test_trees_of_a_forest_that_are_not_the_librarys_are_not_read():
    assert tree_model(odd_tree()) is None


def test_a_classifier_whose_answer_is_not_its_models_is_a_function():
    model = fitted("forest")
    given = Classifier("reversed", lambda records: 2 - model.predict(records), classes=(0, 1, 2), model=model)
    assert readers(given) == []
    assert ew.stability(given, IRIS[:1], rng=0, tolerance=0.2, **SETTINGS).method.item() == "sampled"


@pytest.mark.parametrize("name", ["forest", "boosting", "histograms", "logistic", "naive bayes", "centroids"])
@pytest.mark.cases(1)
def test_labels_that_were_exchanged_after_fitting_are_read_as_predict_gives_them(name):
    """Classes in another order than the sorted one, ties and a true label of every kind included."""
    model = copy.deepcopy(fitted(name))
    model.classes_ = np.array(["c", "a", "b"])
    settings = SETTINGS | {"tolerance": 0.1}
    found, as_fitted = (
        ew.stability(one, IRIS[[0, 60]], y=y, **settings) for one, y in ((model, ["a", "b"]), (fitted(name), [1, 2]))
    )
    assert found.confidence == 1
    assert found.labels.tolist() == [model.classes_[label] for label in as_fitted.labels]
    np.testing.assert_array_equal(found.lower, as_fitted.lower)
    np.testing.assert_array_equal(found.accuracy.lower, as_fitted.accuracy.lower)
    here, there = (ew.radius(asked, IRIS[60], rng=0) for asked in (model, lambda records: model.predict(records)))
    assert here.method != "sampled"
    assert here.lower <= there.upper


@pytest.mark.parametrize(
    ("name", "reader"),
    [("forest", cells_for), ("logistic", linear_for), ("naive bayes", quadratic_for), ("network", bounds_for)],
)
def test_a_reading_that_the_labels_contradict_is_not_used(name, reader, monkeypatch):
    """The second line of defence: whoever answers otherwise than the reading says is found out by asking."""
    model = fitted(name)
    problem = ew.Problem.of(model, IRIS[[0, 60]], y=None, **SETTINGS)
    monkeypatch.setattr(type(problem.classifier.answer), "__call__", lambda self, records: np.full(len(records), 2))
    assert "its " in said(reader, problem)
    assert " are not those of its " in said(reader, problem)


def test_a_reading_is_checked_at_thresholds_and_beyond_the_ranges(monkeypatch):
    """A model that differs on one side of a threshold only, or where unclipped noise goes."""
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(IRIS[:, [0, 2]], SPECIES)
    settings = SETTINGS | {"sensitive": [0, 1], "domain": {0: (4, 8), 1: (1, 7)}, "y": None}
    problem = ew.Problem.of(model, IRIS[:1, [0, 2]], **settings)
    edge = cells_for(problem).sweep.edges[1][0]
    for odd in (lambda Z: Z[:, 1] == np.nextafter(edge, 9), lambda Z: Z[:, 1] == edge, lambda Z: Z[:, 0] > 8.5):
        with monkeypatch.context() as patched:
            kind = type(problem.classifier.answer)
            patched.setattr(kind, "__call__", lambda self, Z, odd=odd: (self.model.predict(Z) + odd(Z)) % 3)
            assert said(cells_for, problem) == unlike("trees")


@pytest.mark.parametrize(
    "scalers", [(), (StandardScaler(),), (RobustScaler(), MaxAbsScaler(), "passthrough", MinMaxScaler())]
)
def test_pipelines_of_the_library_are_seen_through(scalers):
    model = make_pipeline(*map(copy.copy, scalers), LogisticRegression(max_iter=5)).fit(IRIS, SPECIES)
    assert isinstance(linear_for(ew.Problem.of(model, IRIS[:2], y=None, **SETTINGS)), LinearModel)


@pytest.mark.parametrize("strategy", ["uniform", "stratified"])
@pytest.mark.parametrize("seed", [None, 0])
def test_estimators_that_draw_their_labels_are_refused(strategy, seed):
    dummy = DummyClassifier(strategy=strategy, random_state=seed).fit(IRIS, SPECIES)
    start = DummyClassifier(strategy=strategy)
    boosted = GradientBoostingClassifier(n_estimators=1, init=start).fit(IRIS, SPECIES)
    for model in (
        dummy,
        make_pipeline(StandardScaler(), DummyClassifier(strategy=strategy)).fit(IRIS, SPECIES),
        boosted,
    ):
        with pytest.raises(ValueError, match="draws its labels at random"):
            ew.stability(model, IRIS[:1], **(SETTINGS | {"mechanisms": "krr:k=3"}))
    constant = DummyClassifier().fit(IRIS, SPECIES)
    assert ew.stability(constant, IRIS[:1], **(SETTINGS | {"mechanisms": "krr:k=3"})).lower.item() > 0.999


@pytest.mark.parametrize("by", ["call", "place"])
def test_estimators_are_asked_twice_as_functions_are(by):
    """Labels that change with the call, and with the place of a record in the batch."""

    class Noisy(GaussianNB):
        calls = 0

        def predict(self, records):
            Noisy.calls += 1
            return (np.arange(len(records)) if by == "place" else np.full(len(records), Noisy.calls)) % 2

    why = {"call": "; .* fix its seed", "place": ", alone and among others: its answer depends on the other rows"}[by]
    with pytest.raises(ew.ClassifierError, match=f"different labels for the same records{why}"):
        ew.stability(Noisy().fit(IRIS, SPECIES), IRIS[:1], **SETTINGS)
    with pytest.raises(ew.ClassifierError, match=f"different labels for the same record{why}"):
        ew.radius(Noisy().fit(IRIS, SPECIES), IRIS[0])


def test_network_models_say_why_they_are_not_read():
    assert "is not a network" in said(read_network, of_class("network", {"predict": lambda self, X: X}))
