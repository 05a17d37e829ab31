"""Radii: reference values, closed forms and searches against brute force, outward rounding, refusals."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction
from operator import mul
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from epsworth.classifiers.networks import Affine
from epsworth.utility.radius import radius, trees
from epsworth.utility.radius.networks import _interval
from epsworth.utility.radius.quadratic import Quadric, nearest_euclidean, nearest_in_boxes
from epsworth.utility.radius.question import ask
from epsworth.utility.radius.sampled import TESTS, ball
from epsworth.utility.radius.trees import free_radius

IRIS, SPECIES = load_iris(return_X_y=True)
CANCER, BENIGN = load_breast_cancer(return_X_y=True)
CANCER = MinMaxScaler().fit_transform(CANCER)
PETAL = IRIS[:, 2:]
BLOBS = np.array([[-1.0, 0.0], [1.0, 1.0], [0.0, 2.0], [-2.0, -1.0], [2.0, 0.5], [0.5, -1.0]])

REFERENCE = {
    entry["input"]["classifier"]: (float(entry["value"]), entry["abs_tol"])
    for entry in json.loads((Path(__file__).parents[1] / "reference" / "utility.json").read_text())["entries"]
    if entry["category"] == "robust_radius" and entry["input"]["norm"] == "linf"
}

LINEAR = [
    LogisticRegression(max_iter=500),
    make_pipeline(StandardScaler(), LinearSVC()),
    make_pipeline(MinMaxScaler(), RobustScaler(with_centering=False), LogisticRegression()),
    make_pipeline(MaxAbsScaler(), "passthrough", LinearDiscriminantAnalysis()),
    RidgeClassifier(),
    SGDClassifier(random_state=0),
    Perceptron(),
    NearestCentroid(),
    make_pipeline(StandardScaler(with_std=False), NearestCentroid()),
    KMeans(4, random_state=0),
    make_pipeline(MinMaxScaler(), MiniBatchKMeans(3, random_state=0)),
    make_pipeline(StandardScaler(), GaussianMixture(3, covariance_type="tied", random_state=0)),
]
QUADRATIC = [
    GaussianNB(),
    make_pipeline(StandardScaler(), GaussianNB()),
    QuadraticDiscriminantAnalysis(),
    make_pipeline(RobustScaler(), QuadraticDiscriminantAnalysis(priors=[0.2, 0.3, 0.5])),
    GaussianMixture(3, random_state=0),
    make_pipeline(StandardScaler(), GaussianMixture(2, covariance_type="diag", random_state=0)),
    GaussianMixture(3, covariance_type="spherical", random_state=0),
]
TREES = [
    DecisionTreeClassifier(random_state=0),
    make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0)),
    RandomForestClassifier(15, random_state=0),
    RandomForestClassifier(4, max_depth=2, random_state=0),  # ties
    make_pipeline(MinMaxScaler(), GradientBoostingClassifier(n_estimators=8, random_state=0)),
    HistGradientBoostingClassifier(max_iter=5),
]
NETWORKS = [
    MLPClassifier((6,), max_iter=60, random_state=0),
    make_pipeline(StandardScaler(), MLPClassifier((5, 4), max_iter=60, random_state=1)),
]
NORMS = [2, math.inf]


@pytest.fixture(autouse=True)
def one_thread():
    """Many small predictions: threads would wait for each other longer than they compute."""
    with threadpool_limits(1):
        yield


def named(models):
    return [
        pytest.param(m, id="+".join(type(s).__name__ for s in getattr(m, "named_steps", {"": m}).values()))
        for m in models
    ]


def relu_network():
    """The network printed in Example 5, with labels 1 and 2."""
    model = MLPClassifier((2,), max_iter=1, random_state=0)
    with pytest.warns(UserWarning, match="converge"):
        model.fit(BLOBS, [1, 2, 1, 2, 1, 2])
    out, bias = np.array([[-3.05, 0.40], [4.02, -0.22]]), np.array([0.94, -0.58])
    model.coefs_ = [np.array([[-1.86, -2.09], [0.12, -0.46]]).T, (out[1] - out[0])[:, np.newaxis]]
    model.intercepts_ = [np.array([3.71, -0.08]), bias[1:] - bias[:1]]
    return model


def example_4(kind):
    """Classes N((0, 0), I) and N((1, 1), 2I): naive Bayes, discriminant analysis, or components of a mixture."""
    means, variances = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [2.0, 2.0]])
    if kind is GaussianMixture:
        model = kind(2, covariance_type="spherical").fit(BLOBS)
        model.means_, model.precisions_cholesky_, model.weights_ = means, variances[:, 0] ** -0.5, np.array([0.5, 0.5])
        return model
    model = kind().fit(BLOBS, [1, 1, 1, 2, 2, 2])
    if kind is GaussianNB:
        model.theta_, model.var_, model.class_prior_ = means, variances, np.array([0.5, 0.5])
    else:
        model.means_, model.scalings_, model.rotations_ = means, list(variances), [np.eye(2), np.eye(2)]
        model.priors_ = np.array([0.5, 0.5])
    return model


def test_intervals_of_a_layer_hold_its_exact_ends():
    rng = np.random.default_rng(0)
    for _ in range(20):
        layer = Affine.of(rng.normal(size=(3, 4)), rng.normal(size=3))
        bottom, top = np.sort(rng.normal(size=(2, 4)), axis=0)
        low, high = _interval(layer, bottom, top)
        for row, bias, least, most in zip(layer.weights, layer.biases, low, high, strict=True):
            products = [
                sorted((Fraction(w) * Fraction(a), Fraction(w) * Fraction(b)))
                for w, a, b in zip(row, bottom, top, strict=True)
            ]
            assert Fraction(least) <= sum((p[0] for p in products), Fraction(bias))
            assert Fraction(most) >= sum((p[1] for p in products), Fraction(bias))


def test_relu_network_of_example_5_has_the_reference_radius():
    truth, tolerance = REFERENCE["relu_2_2_2"]
    found = radius(relu_network(), [0.5, 0.5], norm="inf", rng=0)
    assert found.method == "network"
    assert found.lower <= truth + 1e-15
    assert found.lower == pytest.approx(truth, abs=1e-6)
    assert found.upper == pytest.approx(truth, abs=tolerance)


@pytest.mark.parametrize("kind", [GaussianNB, QuadraticDiscriminantAnalysis, GaussianMixture])
def test_quadric_of_example_4_has_the_reference_radius(kind):
    truth, tolerance = REFERENCE["qda of example 4"]
    found = radius(example_4(kind), [0.5, 0.5], norm=math.inf)
    assert found.lower <= truth <= found.upper
    assert (found.lower, found.upper) == pytest.approx((truth, truth), abs=tolerance)
    circle = 2 * math.sqrt(math.log(2) + 1) - math.hypot(1.5, 1.5)  # Example 4, norm 2
    found = radius(example_4(kind), [0.5, 0.5])
    assert (found.lower, found.upper) == pytest.approx((circle, circle), abs=1e-10)


def probes(rng, point, size, norm, count):
    """Return points on the sphere of a radius: random ones, corners and axes, where nearest points like to be."""
    width = len(point)
    d = rng.standard_normal((count, width)) if norm == 2 else rng.uniform(-1, 1, (count, width))
    if norm == math.inf:
        d[::2] = np.sign(d[::2])
    d = np.concatenate([d, np.eye(width), -np.eye(width)])
    return point + size * d / np.linalg.norm(d, ord=norm, axis=1, keepdims=True)


def check(model, record, columns, norm, found, *, count=4000, nearer=1 - 1e-12):
    """No probe nearer than the lower bound flips; the witness does, and lies as far away as is said."""
    rng, own = np.random.default_rng(1), model.predict(record[np.newaxis])[0]

    def flips(points):
        rows = np.repeat(record[np.newaxis], len(points), axis=0)
        rows[:, columns] = points
        return model.predict(rows) != own

    assert found.lower <= found.upper
    for share in (1.0, 0.9, 0.3):
        if math.isfinite(found.lower):
            points = probes(rng, record[columns], found.lower * share * nearer, norm, count)
            assert not flips(points).any()
    if found.witness is not None:
        assert flips(found.witness[np.newaxis]).all()
        distance = np.linalg.norm(found.witness - record[columns], ord=norm)
        assert distance <= found.upper <= distance * (1 + 1e-14)
    return flips


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("model", "gap", "method"),
    [pytest.param(*m.values, 1e-10, "linear", id=m.id) for m in named(LINEAR)]
    + [pytest.param(*m.values, 2e-7, "quadratic", id=m.id) for m in named(QUADRATIC)]
    + [pytest.param(*m.values, 1e-14, "tree", id=m.id) for m in named(TREES)]
    + [pytest.param(*m.values, 1e-5, "network", id=m.id) for m in named(NETWORKS)],
)
@pytest.mark.cases(1)
def test_bounds_close_and_nothing_nearer_flips(model, gap, method, norm):
    if method == "network" and norm == 2:
        pytest.skip("networks are bounded in norm inf only")
    model.fit(IRIS, SPECIES)
    for row, columns in ((60, [0, 1, 2, 3]), (120, [2, 3]), (3, [3])):
        found = radius(model, IRIS[row], norm=norm, features=columns, rng=0)
        assert found.method.startswith(method)
        assert found.sound
        assert found.confidence == 1
        if math.isinf(found.lower):
            assert found.witness is None
        else:
            assert found.upper - found.lower <= gap * found.upper
        check(model, IRIS[row], columns, norm, found)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("model", named([LINEAR[0], LINEAR[7], QUADRATIC[0], QUADRATIC[2], *TREES, NETWORKS[1]]))
@pytest.mark.cases(1)
def test_radius_agrees_with_a_dense_search_of_the_plane(model, norm):
    """The nearest of 120 000 grid points that flips is at most one grid step too far."""
    if isinstance(model, type(NETWORKS[1])) and "mlpclassifier" in model.named_steps and norm == 2:
        pytest.skip("networks are bounded in norm inf only")
    model.fit(PETAL, SPECIES)
    for row in (55, 70, 110):
        found = radius(model, PETAL[row], norm=norm, rng=0)
        reach = 2 * found.upper
        axis = np.linspace(-reach, reach, 351)
        grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        flipped = grid[model.predict(PETAL[row] + grid) != model.predict(PETAL[[row]])[0]]
        nearest = np.linalg.norm(flipped, ord=norm, axis=1).min()
        assert found.lower <= nearest
        assert nearest <= found.upper + 2 * (axis[1] - axis[0])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.cases(1)
def test_outward_rounding_survives_many_probes(norm):
    for model in (LogisticRegression(max_iter=500), GaussianNB(), DecisionTreeClassifier(random_state=0)):
        model.fit(1e3 + PETAL, SPECIES)  # far from the origin: scores cancel
        found = radius(model, 1e3 + PETAL[70], norm=norm)
        check(model, 1e3 + PETAL[70], [0, 1], norm, found, count=100_000)
    model = LogisticRegression(max_iter=500).fit(1e3 + PETAL, SPECIES)
    for x in 1e3 + PETAL[::9]:
        assert Fraction(radius(model, x, norm=norm).lower) ** 2 <= squared_distance(model, x, norm)


def squared_distance(model, x, norm):
    """The exact distance to where the scores of two classes are equal, squared: rational in both norms."""
    weights, x = [[Fraction(w) for w in row] for row in model.coef_.tolist()], [Fraction(v) for v in x.tolist()]
    scores = [sum(map(mul, row, x)) + Fraction(c) for row, c in zip(weights, model.intercept_.tolist(), strict=True)]
    own, found = max(range(len(scores)), key=scores.__getitem__), []
    for k in set(range(len(scores))) - {own}:
        slopes = [a - b for a, b in zip(weights[own], weights[k], strict=True)]
        dual = sum(w * w for w in slopes) if norm == 2 else sum(map(abs, slopes)) ** 2
        found.append((scores[own] - scores[k]) ** 2 / dual)
    return min(found)


def test_binary_linear_radius_is_margin_over_dual_norm():
    model = LogisticRegression().fit(CANCER, BENIGN)
    score, weights = model.decision_function(CANCER[[7]])[0], model.coef_[0]
    assert radius(model, CANCER[7]).upper == pytest.approx(abs(score) / np.linalg.norm(weights), rel=1e-12)
    assert radius(model, CANCER[7], norm="inf").upper == pytest.approx(abs(score) / np.abs(weights).sum(), rel=1e-12)
    some = radius(model, CANCER[7], norm=math.inf, features=[2, 20])
    assert some.upper == pytest.approx(abs(score) / np.abs(weights[[2, 20]]).sum(), rel=1e-12)


def test_nearest_centroid_is_exact_for_several_classes():
    pairs = np.concatenate([BLOBS - 0.125, BLOBS + 0.125])
    model = NearestCentroid().fit(pairs, np.tile(np.arange(6), 2))
    x = np.array([-0.8, 0.1])
    distances = [
        ((x - m) @ (x - m) - (x - BLOBS[0]) @ (x - BLOBS[0])) / (2 * np.linalg.norm(m - BLOBS[0])) for m in BLOBS[1:]
    ]
    found = radius(model, x)
    assert found.lower <= min(distances) <= found.upper
    assert found.upper == pytest.approx(min(distances), rel=1e-12)


def test_two_centres_are_parted_by_the_plane_between_them():
    model = KMeans(2, n_init=1, random_state=0).fit(PETAL)
    a, b = model.cluster_centers_
    normal, x = (b - a) / np.linalg.norm(b - a), PETAL[70]
    distance = abs((x - (a + b) / 2) @ normal)
    found = radius(model, x)
    assert found.lower <= distance <= found.upper
    assert found.upper == pytest.approx(distance, rel=1e-12)


def test_one_cluster_is_never_left():
    assert radius(KMeans(1, n_init=1).fit(PETAL), PETAL[70]).lower == math.inf


@pytest.mark.parametrize("model", [GaussianNB(), QuadraticDiscriminantAnalysis(), GaussianMixture(3, random_state=0)])
def test_single_precision_is_bounded_by_its_own_rounding(model):
    """Fitted in single precision, the constants are off by 1e-7: the answer in double precision is not promised."""
    model.fit(PETAL.astype(np.float32), SPECIES)
    found = radius(model, PETAL[70])
    assert 1e-6 * found.upper < found.upper - found.lower < 0.1 * found.upper
    check(model, PETAL[70], [0, 1], 2, found, nearer=1)


def test_hard_case_of_the_secular_equation():
    """No slope along the top eigenvector: from the centre of an ellipsoid the answer is its short axis."""
    quadric = Quadric(np.diag([1.0, 4.0]), np.zeros(2), -1.0)
    found = nearest_euclidean(quadric)
    assert found.lower <= 0.5
    assert found.lower == pytest.approx(0.5, rel=1e-12)
    assert np.linalg.norm(found.offsets, axis=1).min() == pytest.approx(0.5, rel=1e-12)
    slope = Quadric(np.diag([-1.0, 2.0]), np.array([1.0, 0.0]), -1.0)  # y0 + 2 y1^2 - y0^2 = 1
    angle = np.linspace(-1, 1, 2_000_001)
    brute = np.sqrt(angle**2 + np.maximum(1 + angle**2 - angle, 0) / 2).min()
    assert nearest_euclidean(slope).lower == pytest.approx(brute, rel=1e-9)


def test_quadrics_that_are_never_reached_are_infinitely_far():
    quadric = Quadric(-np.eye(2), np.zeros(2), -1.0)
    assert nearest_euclidean(quadric).lower == math.inf
    assert nearest_in_boxes(quadric, 1000).lower == math.inf


@pytest.mark.parametrize("seed", range(8))
def test_quadrics_in_norm_inf_against_faces(seed):
    """Lower bounds of the boxes against the exact maximum over every face of the cube, by dense grids."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((2, 2))
    quadric = Quadric(root + root.T, rng.standard_normal(2), -1.0 - rng.uniform())
    found = nearest_in_boxes(quadric, 20_000)
    axis = np.linspace(-1, 1, 40_001)
    faces = np.concatenate([np.c_[axis, 0 * axis + s] for s in (-1, 1)] + [np.c_[0 * axis + s, axis] for s in (-1, 1)])
    brute = quadric.along(faces).min()
    assert found.lower <= brute * (1 + 1e-12)
    assert found.lower == pytest.approx(brute, rel=1e-5)


def test_boxes_stop_at_the_budget_with_what_they_have_proven():
    def free(low, high):
        return ~((low <= 0.7) & (high >= 0.7)).all(axis=1)  # only the point (.7, .7) flips

    assert free_radius(free, 2, 0.6, 10**6) == 0.6
    assert 0.6 < free_radius(free, 2, 1.0, 3000) <= 0.7
    assert free_radius(free, 2, 1.0, 4) < 0.7


@pytest.mark.slow
def test_forest_bounds_hold_when_the_budget_is_small():
    model = RandomForestClassifier(30, random_state=0).fit(CANCER, BENIGN)
    loose = radius(model, CANCER[3], norm="inf", budget=50, rng=0)
    tight = radius(model, CANCER[3], norm="inf", budget=3000, rng=0)
    assert 0 < loose.lower <= tight.lower <= tight.upper <= loose.upper
    check(model, CANCER[3], list(range(30)), math.inf, tight, count=2000)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("library", "kind"), [("xgboost", "XGBClassifier"), ("lightgbm", "LGBMClassifier")])
def test_boosters_of_other_libraries(library, kind, norm):
    options = {"n_estimators": 8, "n_jobs": 1} | ({"verbose": -1} if library == "lightgbm" else {})
    model = getattr(pytest.importorskip(library), kind)(**options).fit(IRIS, SPECIES)
    for row, columns in ((60, [0, 1, 2, 3]), (120, [2, 3])):
        found = radius(model, IRIS[row], norm=norm, features=columns, rng=0)
        assert found.method == "trees"
        assert found.upper - found.lower <= 1e-14 * found.upper
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            check(model, IRIS[row], columns, norm, found)


def test_a_tree_of_one_leaf_never_changes_its_label():
    model = DecisionTreeClassifier().fit(PETAL, np.zeros(len(PETAL)))
    found = radius(model, PETAL[0])
    assert (found.lower, found.upper, found.witness) == (math.inf, math.inf, None)


def test_features_that_do_not_count_give_an_infinite_radius():
    model = LogisticRegression().fit(PETAL, SPECIES > 0)
    model.coef_[0, 1] = 0.0
    assert radius(model, PETAL[0], features=1).lower == math.inf


def test_scores_that_only_rounding_moves_are_bounded_too():
    """One constant column: variances of 1e-9 or so, and scores of 1e10 that cancel."""
    table = np.c_[PETAL, np.full(len(PETAL), -5.0)]
    model = GaussianNB().fit(table, SPECIES)
    found = radius(model, table[70], features=2, norm="inf", rng=0)
    check(model, table[70], [2], math.inf, found)
    assert found.lower > 1  # no harm near the record


def test_thresholds_are_met_to_the_last_bit():
    model = DecisionTreeClassifier(max_depth=1).fit([[0.0], [1.0]], [0, 1])
    found = radius(model, [0.25])
    assert found.witness[0] - 0.5 < 1e-7  # the tree compares float32
    assert model.predict([np.nextafter(found.witness, 0)])[0] == 0


@pytest.mark.slow
def test_sampled_radius_says_no_more_than_it_knows():
    model = KNeighborsClassifier(3).fit(PETAL, SPECIES)
    found = radius(model, PETAL[70], rng=3)
    assert (found.method, found.sound, found.lower, found.confidence) == ("sampled", False, 0.0, 0.999)
    assert found.tested > 0
    fresh = ball(np.random.default_rng(9), found.tested, 200_000, 2, 2)
    assert (model.predict(PETAL[70] + fresh) != model.predict(PETAL[[70]])).mean() <= 0.01
    check(model, PETAL[70], [0, 1], 2, found)
    again = radius(model, PETAL[70], rng=3)
    assert (again.upper, again.tested) == (found.upper, found.tested)


def test_all_tested_radii_together_miss_as_often_as_was_asked_for(one_sided_misses):
    """What the one-sided bounds may miss sums to the risk."""
    found = radius(lambda Z: Z[:, 0] > 1, [0.5], confidence=0.9, rng=0)
    assert len(one_sided_misses) == TESTS
    assert sum(one_sided_misses) == pytest.approx(found.spent)
    assert found.spent <= 0.1


@pytest.mark.slow
def test_promises_of_tested_radii_are_kept():
    """100 radii at 90 % confidence; false-alarm rate 1e-6.

    The tested radii are .48 times powers of the root of 2; one is just too large where .1464 flips were asked for.
    """
    broken = 0
    for seed in range(100):
        found = radius(lambda Z: Z[:, 0] > 0.48, [0.0], norm="inf", confidence=0.9, failing=0.1464, rng=seed)
        broken += 0.5 - 0.24 / found.tested > found.failing  # of the ball of radius r, .5 - .24 / r flips
    assert broken <= binom.isf(1e-6, 100, 0.1)


def test_sampled_upper_bound_is_near_the_truth_in_the_plane():
    exact = radius(QuadraticDiscriminantAnalysis().fit(PETAL, SPECIES), PETAL[70])
    model = QuadraticDiscriminantAnalysis().fit(PETAL, SPECIES)
    seen = radius(lambda X: model.predict(X), PETAL[70], rng=0)
    assert exact.lower <= seen.upper <= 1.2 * exact.upper


def test_a_function_that_never_changes_its_label():
    found = radius(lambda X: np.zeros(len(X)), [1.0, 2.0], rng=0)
    assert (found.lower, found.upper, found.witness) == (0.0, math.inf, None)
    assert found.tested > 100


def test_a_ball_is_uniform():
    for norm, mean in ((2, 0.75), (math.inf, 0.75)):  # E max(|x|) = s/(s+1) in both norms
        draws = ball(np.random.default_rng(0), 2.0, 20_000, 3, norm)
        sizes = np.linalg.norm(draws, ord=norm, axis=1)
        assert sizes.max() <= 2
        assert sizes.mean() / 2 == pytest.approx(mean, abs=0.01)


def test_other_preprocessing_falls_back_to_sampling():
    model = make_pipeline(PolynomialFeatures(2), LogisticRegression(max_iter=3000)).fit(PETAL, SPECIES)
    assert radius(model, PETAL[0], rng=0).method == "sampled"
    clipped = make_pipeline(MinMaxScaler(clip=True), LogisticRegression()).fit(PETAL, SPECIES)
    assert radius(clipped, PETAL[0], rng=0).method == "sampled"


@pytest.mark.parametrize("network", [MLPClassifier((), max_iter=50), MLPClassifier((3,), "tanh", max_iter=50)])
def test_networks_without_relus_fall_back_to_sampling(network):
    with warnings.catch_warnings(action="ignore"):  # it has not converged
        network.fit(PETAL, SPECIES)
    assert radius(network, PETAL[0], norm="inf", rng=0).method == "sampled"


def test_missing_values_elsewhere_are_left_to_the_classifier():
    model = HistGradientBoostingClassifier(max_iter=3).fit(IRIS, SPECIES)
    found = radius(model, [np.nan, 3.0, 4.5, 1.5], features=[2, 3], rng=0)
    assert found.method == "sampled"


def test_frames_and_names():
    frame = pd.DataFrame(PETAL, columns=["length", "width"])
    model = LogisticRegression(max_iter=500).fit(frame, SPECIES)
    found = radius(model, frame.iloc[[70]], features="width")
    assert found.features == ("width",)
    assert found.upper == radius(model, PETAL[70], features=1).upper
    both = radius(model, frame.iloc[[70]][["width", "length"]])  # columns in another order
    assert both.upper == radius(model, PETAL[70]).upper


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"norm": 1}, r"norm must be 2 or math\.inf, got 1"),
        ({"norm": "two"}, "norm must be 2 or math.inf, got 'two'"),
        ({"features": []}, "features is empty; name at least one"),
        ({"features": [0, 0]}, "features names a column twice: 0, 0; list each once"),
        ({"features": "age"}, "features: there is no feature 'age'; the features are x0, x1"),
        ({"features": 7}, "features: there is no column 7; the table has columns 0 to 1"),
        ({"confidence": 1.0}, "confidence must lie strictly between 0 and 1, got 1.0"),
        ({"failing": 0}, "failing must lie strictly between 0 and 1, got 0"),
        ({"budget": 0}, "budget must be a whole number of at least 1, got 0"),
        ({"budget": 1.5}, r"budget must be a whole number of at least 1, got 1\.5"),
        ({"confidence": "a"}, "confidence must lie strictly between 0 and 1, got 'a'"),
        ({"norm": [2]}, r"norm must be 2 or math\.inf, got \[2\]"),
        ({"x": [[1.0, 2.0], [1.0, 2.0]]}, "x must be one record, got 2; give one row at a time"),
        ({"x": [1.0]}, "the table has 1 columns, but the classifier was fitted on 2"),
        ({"x": [1.0, np.nan]}, "feature 'x1' is not finite in this record and cannot move; only finite"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments, sentence):
    model = LogisticRegression().fit(PETAL, SPECIES)
    with pytest.raises(ValueError, match=sentence):
        radius(model, **({"x": PETAL[0]} | arguments))


def test_texts_cannot_move():
    with pytest.raises(ValueError, match="feature 'b' is a str in this record and cannot move"):
        radius(lambda t: (t["a"] > 0).to_numpy(), pd.DataFrame({"a": [1.0], "b": ["red"]}))


def test_scores_are_checked_against_the_classifier():
    """A subclass that answers otherwise under the same name is not believed to be linear."""
    kind = type(
        "LogisticRegression", (LogisticRegression,), {"predict": lambda self, X: (np.asarray(X)[:, 0] ** 2 > 1) * 1}
    )
    model = kind().fit(PETAL, SPECIES > 0)
    asked = ask(model, PETAL[0], norm=2, features=None)
    assert asked.label == 1
    assert radius(model, PETAL[0], rng=0).method == "sampled"


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("features", [[0], [0, 2]])
@pytest.mark.slow
def test_the_table_of_cells_and_the_search_agree(norm, features, monkeypatch):
    for model in (RandomForestClassifier(12, random_state=0), RandomForestClassifier(4, random_state=1)):
        model.fit(IRIS, SPECIES)
        for row in range(0, 150, 25):
            settings = {"norm": norm, "features": features, "rng": 0}
            table = radius(model, IRIS[row], **settings)
            with monkeypatch.context() as patched:
                patched.setattr(trees, "MOST_CELLS", 0)
                searched = radius(model, IRIS[row], **settings)
            assert (table.lower, table.upper) == (searched.lower, searched.upper)


def test_a_model_of_one_label_never_flips_for_certain():
    points = np.random.default_rng(0).normal(size=(50, 2)) / 100  # close together: the density exceeds 1
    for model in (GaussianMixture(1).fit(points), KMeans(1, n_init=1).fit(points)):
        found = radius(model, points[0])
        assert (found.lower, found.sound) == (np.inf, True)


@pytest.mark.parametrize("weight", [1e-150, 1e-163, 1e-200, 1e150])
@pytest.mark.parametrize("norm", [2, np.inf])
def test_lengths_of_tiny_and_huge_weights_are_held(weight, norm):
    """Squares of 1e-163 are zero: the label could not change, it was said."""
    model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    model.coef_, model.intercept_ = np.array([[weight]]), np.array([-1.0])
    truth = abs(1 / weight - 0.5)
    found = radius(model, [0.5], norm=norm)
    assert truth * (1 - 1e-6) <= found.lower <= truth * (1 + 1e-12)
    assert truth * (1 - 1e-12) <= found.upper <= truth * (1 + 1e-6)
