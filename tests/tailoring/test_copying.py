"""Whole-number copies of classifiers: which are made, how they answer, and where that is certain."""

from __future__ import annotations

import json
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from epsworth.classifiers.classifier import as_classifier
from epsworth.classifiers.reading import Unsupported
from epsworth.grids import Grid
from epsworth.records import as_records
from epsworth.space import Feature
from epsworth.tailored.distillation import certificate_of, copy_of
from epsworth.tailored.document import read_copy
from epsworth.tailored.sums import copy_of_sums
from epsworth.tailored.surrogates import IntegerReLU, Trees
from readings import said

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
CANCER, SICK = load_breast_cancer(return_X_y=True)
IRIS, KIND = load_iris(return_X_y=True)
TOWNS = ("ash", "elm", "oak", "yew")
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {"age": RNG.uniform(18, 90, 400), "town": RNG.choice(TOWNS, 400), "pay": RNG.uniform(-1e3, 4e5, 400)}
)
RICH = (TABLE["pay"] / 1e5 + TABLE["age"] / 40 + TABLE["town"].isin(["ash", "yew"]) > 3.4).map(
    {False: "no", True: "yes"}
)
MIXED = [
    Grid(Feature("age", 18, 90), bits=12, missing=40),
    Grid(Feature("town", categories=TOWNS), missing="oak", outside="elm"),
    Grid(Feature("pay", -1e3, 4e5), missing=0),
]


def grids_of(X, bits=16):
    ends = zip(X.min(axis=0), X.max(axis=0), strict=True)
    return [Grid(Feature(f"x{j}", a, b), bits=bits, missing=a) for j, (a, b) in enumerate(ends)]


def words(*rest):
    return make_column_transformer(
        (OneHotEncoder(), ["town"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "pay"]),
        *rest,
    )


def at(grids, places):
    """Return natural values at places, in the kind of table that the grids are of."""
    if grids is MIXED:
        return pd.DataFrame({g.name: g.values[places[:, j]] for j, g in enumerate(grids)})
    return np.column_stack([g.values[places[:, j]] for j, g in enumerate(grids)])


def at_random(grids, n, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(g.input.places, size=n) for g in grids])


def near_ties(copy, grids, n, seed=0):
    """Return neighbouring places on both sides of changes of the region, by bisection between random places."""
    low, high = at_random(grids, n, seed), at_random(grids, n, seed + 1)
    own = copy(low)
    apart = own != copy(high)
    low, high, own = low[apart], high[apart], own[apart]
    for _ in range(17):
        middle = (low + high) // 2
        stays = (copy(middle) == own)[:, np.newaxis]
        low, high = np.where(stays, middle, low), np.where(stays, high, middle)
    return np.vstack([low, high])


def labels(model, grids, places):
    return as_classifier(model).labels(at(grids, places))


MODELS = {
    "forest": (RandomForestClassifier(20, max_depth=5, random_state=0), Trees),
    "extra": (ExtraTreesClassifier(20, max_depth=5, random_state=0), Trees),
    "boosting": (GradientBoostingClassifier(n_estimators=15, random_state=0), Trees),
    "histogram": (HistGradientBoostingClassifier(max_iter=6, max_leaf_nodes=8), Trees),
    "logistic": (LogisticRegression(max_iter=200), IntegerReLU),
    "ridge": (RidgeClassifier(), IntegerReLU),
    "network": (MLPClassifier((6, 5), max_iter=60, learning_rate_init=0.03, random_state=0), IntegerReLU),
}
CASES = [
    *("forest-words", "extra-iris", "boosting-iris", "histogram-words", "histogram-two"),
    *("logistic-words", "logistic-two", "ridge-iris", "network-words", "network-iris"),
]


@pytest.fixture(scope="module", params=CASES)
def made(request):
    """A model, its grids and records, its copy and the certificate."""
    name, data = request.param.split("-")
    from sklearn.base import clone

    estimator, kind = clone(MODELS[name][0]), MODELS[name][1]
    if data == "words":
        model, grids = make_pipeline(words(), estimator).fit(TABLE, RICH), MIXED
        records = as_records(TABLE)
    else:
        X, y = (IRIS, KIND) if data == "iris" else (CANCER[:, :4], np.where(SICK, "sick", "well"))
        model, grids, records = make_pipeline(StandardScaler(), estimator).fit(X, y), grids_of(X), as_records(X)
    copy = copy_of(model, grids, records)
    assert isinstance(copy, kind), copy
    return model, grids, records, copy, certificate_of(model, grids, records, copy)


@pytest.mark.cases(1)
def test_copies_answer_as_their_models_at_places_and_near_ties(made):
    model, grids, _, copy, certificate = made
    places = np.vstack([at_random(grids, 1_000), near_ties(copy, grids, 300)])
    same = np.asarray(model.classes_)[copy(places)] == labels(model, grids, places)
    certain = certificate(places)
    assert same[:1_000].mean() >= 0.999
    assert same[certain].all()
    assert certain[:1_000].mean() > 0.95  # forests do tie


@pytest.mark.cases(1)
def test_what_is_certified_holds_for_all_numbers_within_half_a_step(made):
    """Half steps on either side of near ties and of random places, at both ends of each column's cell."""
    model, grids, records, copy, _ = made
    coarse = [
        Grid(g.feature, bits=6, missing=g.missing) if g.input.ordered else g for g in grids
    ]  # where half a step matters
    copy = copy_of(model, coarse, records)
    certificate = certificate_of(model, coarse, records, copy)
    places = np.vstack([at_random(coarse, 400), near_ties(copy, coarse, 300)])
    certain = certificate(places, True)
    assert 0 < certain.sum() < len(certain)
    assert not (certain & ~certificate(places)).any()
    rng = np.random.default_rng(1)
    for _ in range(3):
        columns = {}
        for j, g in enumerate(coarse):
            if not g.input.ordered:
                columns[g.name] = g.values[places[:, j]]
                continue
            step = (g.feature.upper - g.feature.lower) / (g.input.places - 1)
            away = step * 0.499999 * rng.choice([-1, 1], len(places))
            columns[g.name] = np.clip(g.values[places[:, j]] + away, g.feature.lower, g.feature.upper)
            assert (g.places(columns[g.name]) == places[:, j]).all()
        natural = pd.DataFrame(columns)
        found = as_classifier(model).labels(natural if grids is MIXED else natural.to_numpy())
        assert (found == np.asarray(model.classes_)[copy(places)])[certain].all()


def linear(weights, intercept, kinds=(0, 1)):
    """Return a logistic regression of given numbers."""
    model = LogisticRegression().fit(np.vstack([np.zeros(len(weights)), np.ones(len(weights))]), np.array(kinds))
    model.coef_, model.intercept_ = np.array([weights], dtype=float), np.array([intercept], dtype=float)
    return model


def unit_steps(width, bits):
    return [Grid(Feature(f"x{j}", 0, 2**bits - 1), bits=bits, missing=0) for j in range(width)]


@pytest.mark.parametrize("weights", [(1, -1), (3, -5), (1 + 1e-9, -1), (1, -1 - 1e-9), (1e-9, 1), (0, 0), (0.1, -0.3)])
@pytest.mark.parametrize("intercept", [0.0, 1e-10, -7.5])
@pytest.mark.cases(1)
def test_certified_is_never_wrong_at_any_place_of_a_plane(weights, intercept):
    """All 65,536 places: at ties, and where weights of 24 bits cannot tell, nothing is certified."""
    model, grids = linear(weights, intercept), unit_steps(2, 8)
    places = np.stack(np.meshgrid(np.arange(256), np.arange(256)), axis=-1).reshape(-1, 2)
    records = as_records(places[:1].astype(float))
    if weights == (0, 0) and abs(intercept) < 1e-9:  # no label is clear, so that the reading was never compared
        with pytest.raises(Unsupported, match="too few of these are clear"):
            copy_of(model, grids, records)
        return
    copy = copy_of(model, grids, records)
    certificate = certificate_of(model, grids, records, copy)
    certain, wide = certificate(places), certificate(places, True)
    right = copy(places) == model.predict(places.astype(float))
    scores = places @ np.array(weights) + intercept
    room, size = np.abs(weights).sum() / 2, 256 * np.abs(weights).sum() + abs(intercept)
    assert right[certain].all()
    assert not certain[np.abs(scores) < 1e-13 * size].any()
    assert certain[np.abs(scores) > 1e-5 * size].all()
    assert not wide[np.abs(scores) <= room].any()
    assert wide[np.abs(scores) > room + 1e-5 * size].all()
    if weights == (1 + 1e-9, -1) and intercept == 0:
        assert not right.all()


SMALL = MLPClassifier((3,), max_iter=1)


@given(
    st.lists(st.integers(-40, 40), min_size=6, max_size=6),
    st.lists(st.integers(-9, 9), min_size=3, max_size=3),
    st.integers(-50, 50),
    st.sampled_from([1, 3, 2.0**-20, 2.0**17]),
)
def test_certified_networks_agree_with_exact_arithmetic(first, last, bias, scale):
    """Three rectifiers of weights so that ties are common, and all sums of doubles exact, at all corners of cells."""
    grids, places = unit_steps(2, 4), np.stack(np.meshgrid(np.arange(16), np.arange(16)), axis=-1).reshape(-1, 2)
    if not hasattr(SMALL, "coefs_"):
        SMALL.fit(places[:2], [0, 1])
    SMALL.coefs_ = [scale * np.array(first, float).reshape(2, 3), np.array([last], float).T]
    SMALL.intercepts_ = [scale * np.array([1.0, -2.0, 3.0]), scale * np.array([bias / 2])]
    records = as_records(places[:1].astype(float))
    copy = said(copy_of, SMALL, grids, records)
    if isinstance(copy, str):  # hardly a label is clear, so that the reading was hardly compared
        leads = SMALL._forward_pass_fast(places) - 0.5
        assert (np.abs(leads) < 1e-6).mean() > 0.9
        return
    certificate = certificate_of(SMALL, grids, records, copy)
    certain, wide = certificate(places), certificate(places, [True, False])
    lead = np.full(len(places), np.inf)
    for away, sure in ((0, certain), (-0.5, wide), (0.5, wide)):
        x = np.clip(places + np.array([away, 0.0]), 0, 15)
        scores = np.maximum(x @ SMALL.coefs_[0] + SMALL.intercepts_[0], 0) @ SMALL.coefs_[1][:, 0]
        scores += SMALL.intercepts_[1][0]
        assert ((scores > 0) == copy(places))[sure].all()
        lead = np.minimum(lead, np.abs(scores))
    assert (certain | ~wide).all()
    assert certain[lead > 1e-3 * scale * 40 * 16 * 27].all()


def test_a_threshold_beside_a_place_is_open_to_numbers_between_alone():
    X = np.arange(64.0)[:, np.newaxis]
    model = RandomForestClassifier(1, bootstrap=False, random_state=0).fit(X, X[:, 0] > 20)
    grids, records = unit_steps(1, 6), as_records(X)
    certificate = certificate_of(model, grids, records, copy_of(model, grids, records))
    places = np.arange(64)[:, np.newaxis]
    assert certificate(places).all()
    assert np.flatnonzero(~certificate(places, True)).tolist() == [20, 21]


@pytest.mark.parametrize(("place", "kinds"), [(1, ("a", "b")), (0, ("a", "b")), (1, ("b", "a"))])
@pytest.mark.parametrize("estimator", [LogisticRegression(max_iter=200), RandomForestClassifier(9, random_state=0)])
def test_regions_are_the_labels_in_their_order_behind_thresholds(estimator, place, kinds):
    X, y = CANCER[:, :3], np.array(kinds)[SICK]
    model = FixedThresholdClassifier(
        make_pipeline(StandardScaler(), estimator),
        threshold=0.3,
        pos_label=kinds[place],
        response_method="predict_proba",
    ).fit(X, y)
    grids, records = grids_of(X), as_records(X)
    copy = copy_of(model, grids, records)
    certificate = certificate_of(model, grids, records, copy)
    places = np.vstack([at_random(grids, 1_000), near_ties(copy, grids, 200)])
    same, certain = model.classes_[copy(places)] == labels(model, grids, places), certificate(places)
    assert same[certain].all()
    assert certain[:1_000].mean() > 0.99
    assert same[:1_000].mean() >= 0.999


def test_calibrated_linear_models_are_copied():
    X = CANCER[:, :3]
    model = CalibratedClassifierCV(LogisticRegression(max_iter=200), ensemble=False).fit(X, SICK)
    grids, records = grids_of(X), as_records(X)
    copy = copy_of(model, grids, records)
    places = np.vstack([at_random(grids, 1_000), near_ties(copy, grids, 200)])
    same = copy(places) == labels(model, grids, places)
    assert same[:1_000].all()
    assert same[certificate_of(model, grids, records, copy)(places)].all()


@pytest.mark.parametrize("step", [PCA(2), SimpleImputer(), MinMaxScaler(clip=True), PolynomialFeatures(1)])
def test_steps_that_are_affine_on_the_grids_are_folded(step):
    X = IRIS
    model = make_pipeline(StandardScaler(), step, LogisticRegression(max_iter=100)).fit(X, KIND)
    grids, records = grids_of(X), as_records(X)
    copy = copy_of(model, grids, records)
    assert isinstance(copy, IntegerReLU)
    places = at_random(grids, 2_000)
    certain = certificate_of(model, grids, records, copy)(places)
    assert (copy(places) == labels(model, grids, places))[certain].all()
    assert certain.mean() > 0.99


def test_what_is_affine_at_places_alone_is_certified_there_alone():
    """A clipping scaler bends beyond the range that it was fitted on, where no place lies; no rule says so."""
    model = make_pipeline(MinMaxScaler(clip=True), LogisticRegression()).fit(IRIS, KIND)
    grids, records = grids_of(IRIS, 8), as_records(IRIS)
    certificate = certificate_of(model, grids, records, copy_of(model, grids, records))
    places = at_random(grids, 500)
    assert certificate(places).mean() > 0.99
    assert not certificate(places, True).any()


def test_codes_of_words_and_gaps_are_tables():
    model = make_pipeline(
        make_column_transformer((make_pipeline(OrdinalEncoder(), StandardScaler()), ["town"]), remainder="passthrough"),
        StandardScaler(),
        LogisticRegression(),
    ).fit(TABLE, RICH)
    records = as_records(TABLE.assign(pay=np.nan))  # of the records nothing is taken but the kind of their columns
    copy = copy_of(model, MIXED, records)
    places = at_random(MIXED, 2_000)
    certain = certificate_of(model, MIXED, records, copy)(places)
    assert (model.classes_[copy(places)] == labels(model, MIXED, places))[certain].all()
    assert certain.mean() > 0.99


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (make_pipeline(FunctionTransformer(np.log1p), LogisticRegression()), "not affine in 'x0'"),
        (make_pipeline(FunctionTransformer(np.abs), LogisticRegression()), None),
        (make_pipeline(KBinsDiscretizer(3, quantile_method="linear"), LogisticRegression()), "not affine in 'x0'"),
        (make_pipeline(PolynomialFeatures(2), LogisticRegression(max_iter=200)), "mixes several columns"),
        (make_pipeline(Normalizer(), LogisticRegression()), "mixes several columns"),
        (make_pipeline(SimpleImputer(missing_values=5.0), LogisticRegression(max_iter=100)), "not affine in"),
        (make_pipeline(MLPClassifier((3,), activation="tanh", max_iter=5)), "rectifiers"),
        (KNeighborsClassifier(), "no linear model"),
        (SVC(), "no linear model"),
    ],
)
def test_what_is_refused_is_said_plainly(model, word):
    X = IRIS
    model.fit(X, KIND)
    grids = [Grid(Feature(f"x{j}", 0, 10), bits=1 if word is None else 8, missing=1) for j in range(4)]
    if word is not None and "imputer" in str(model).lower():
        grids = [Grid(Feature(f"x{j}", 0, 10, points=11), missing=1) for j in range(4)]
    found = said(copy_of, model, grids, as_records(X))
    assert isinstance(found, IntegerReLU) if word is None else word in found


def test_trees_that_mix_columns_and_other_counts_of_grids_are_refused():
    model = make_pipeline(PCA(2), RandomForestClassifier(5)).fit(IRIS, KIND)
    assert "mixes several columns" in said(copy_of, model, grids_of(IRIS), as_records(IRIS))
    assert "3 grids for 4 columns" in said(copy_of, model, grids_of(IRIS)[:3], as_records(IRIS))
    assert "3 grids for 4 columns" in said(copy_of_sums, model, grids_of(IRIS)[:3], as_records(IRIS))


def test_a_certificate_is_that_of_one_model_and_one_copy():
    records, grids = as_records(IRIS), grids_of(IRIS)
    one, other = (LogisticRegression(C=c, max_iter=2000).fit(IRIS, KIND) for c in (1, 2))
    assert "not that of this model" in said(certificate_of, one, grids, records, copy_of(other, grids, records))
    one, other = (RandomForestClassifier(5, random_state=seed).fit(IRIS, KIND) for seed in (1, 2))
    assert "not that of this model" in said(certificate_of, one, grids, records, copy_of(other, grids, records))
    assert isinstance(said(certificate_of, KNeighborsClassifier().fit(IRIS, KIND), grids, records, copy_of(one, grids, records)), str)  # fmt: skip # noqa: E501


@pytest.mark.parametrize("bits", [4, 24])
@pytest.mark.parametrize("layers", [(200, 100), (30, 30, 30)])
def test_wide_and_deep_networks_fit_below_2_53(layers, bits):
    model = make_pipeline(StandardScaler(), MLPClassifier(layers, max_iter=5, random_state=0)).fit(IRIS, KIND)
    grids, records = grids_of(IRIS), as_records(IRIS)
    copy = copy_of_sums(model, grids, records, bits=bits)
    assert isinstance(copy, IntegerReLU)
    places = at_random(grids, 1_000)
    if bits > 4:
        same = model.classes_[copy(places)] == labels(model, grids, places)
        assert same.mean() >= 0.999
    table = json.loads(json.dumps(copy.to_dict()))
    np.testing.assert_array_equal(read_copy(table, copy.inputs, 3)(places), copy(places))


def test_modules_of_single_precision_are_copied():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
    grids, records = grids_of(IRIS), as_records(IRIS)
    copy = copy_of(model, grids, records)
    places = np.vstack([at_random(grids, 2_000), near_ties(copy, grids, 200)])
    certain = certificate_of(model, grids, records, copy)(places)
    assert (copy(places) == labels(model, grids, places))[certain].all()
    assert certain[:2_000].mean() > 0.99


@pytest.mark.slow
def test_what_a_shift_drops_is_counted():
    """One weight is copied exactly (as 2^23 - 1): all that the copy loses is what the shift drops."""
    network = MLPClassifier((1,), max_iter=1).fit([[0.0], [1.0]], [0, 1])
    network.coefs_, grids = [np.ones((1, 1)), np.ones((1, 1))], [Grid(Feature("x0", 0, 65535), missing=0)]
    wrong = certain = 0
    for place in (5, 12345, 33333, 54321, 65000):
        for margin in np.linspace(0, 2**-7, 12, endpoint=False) + 2**-14:
            network.intercepts_ = [np.zeros(1), np.array([margin - place])]
            records = as_records(np.array([[0.0]]))
            copy = copy_of(network, grids, records)
            agrees = copy([[place]] * np.ones((1, 1), int))[0] == network.predict([[float(place)]])[0]
            sure = certificate_of(network, grids, records, copy)(np.array([[place]]))[0]
            assert agrees or not sure
            wrong, certain = wrong + (not agrees), certain + sure
    assert wrong > 2
    assert certain > 30


@pytest.mark.slow
def test_exact_ties_of_trees_are_certified_nowhere():
    """Shares of tenths that add up to one half: doubles and rounded leaves break the tie, each in their own way."""
    X, kinds = np.arange(10.0)[:, np.newaxis], np.arange(10)
    grids, records = [Grid(Feature("x0", 0, 9, points=10), missing=0)], as_records(X)
    alone = [DecisionTreeClassifier(min_samples_split=99).fit(X, (kinds < n) * 1.0) for n in range(1, 10)]
    half = (np.arange(20) % 2 == 1) | (np.arange(20) >= 8)
    split = DecisionTreeClassifier(max_depth=1, min_samples_leaf=4).fit(np.repeat(X, 2, axis=0), half * 1.0)
    forest = RandomForestClassifier(6, random_state=0).fit(X, kinds < 4)
    broken = 0
    for tenths in combinations_with_replacement(range(1, 10), 5):
        if sum(tenths) == 25:
            forest.estimators_ = [*(alone[n - 1] for n in tenths), split]
            copy = copy_of(forest, grids, records)
            scores, certain = copy.scores(kinds[:, np.newaxis]), certificate_of(forest, grids, records, copy)
            broken += scores[0, 0] != scores[0, 1]
            assert certain(kinds[:, np.newaxis]).tolist() == [False] * 4 + [True] * 6
    assert broken > 20


def test_nothing_is_certified_where_single_precision_could_overflow():
    model = MLPClassifier((3,), max_iter=60, random_state=0).fit(IRIS, KIND)
    grids, records = grids_of(IRIS), as_records(IRIS)
    wide = [Grid(Feature("x0", 0, 1e31), bits=grids[0].bits, missing=1.0), *grids[1:]]
    for own, certain in ((grids, True), (wide, False)):
        certificate = certificate_of(model, own, records, copy_of(model, own, records))
        assert certificate(at_random(own, 200)).any() == certain
