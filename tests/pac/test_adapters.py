"""Canonical forms, and that a released estimator is a function of the noisy vector and the pool only."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

from epsworth.pac import MI, FixedForest, PACPrivatizer
from epsworth.pac.adapters import ADAPTERS, adapter_for
from epsworth.pac.allocation import mean_variances
from epsworth.pac.worlds import Sampler, units_of

IRIS, SPECIES = load_iris(return_X_y=True)
X = MinMaxScaler().fit_transform(IRIS)
HALF = np.random.default_rng(0).random(150) < 0.5

ESTIMATORS = {
    "KMeans": KMeans(3, n_init=3),
    "LinearSVC": LinearSVC(dual=False),
    "LogisticRegression": LogisticRegression(max_iter=500),
    "RidgeClassifier": RidgeClassifier(),
    "LinearRegression": LinearRegression(),
    "Ridge": Ridge(),
    "PCA": PCA(2),
    "FixedForest": FixedForest(2, 2),
}


def prepared(name, y=SPECIES):
    estimator = ESTIMATORS[name]
    return adapter_for(estimator)(estimator, X, y)


def test_every_line_of_the_table_is_tested():
    assert ADAPTERS.keys() == ESTIMATORS.keys()


@pytest.mark.parametrize("name", [*ESTIMATORS, "mean"])
def test_the_output_does_not_depend_on_earlier_fits_and_has_names(name):
    mechanism = adapter_for("mean")("mean", X, SPECIES) if name == "mean" else prepared(name)
    first = mechanism.output(X[HALF], SPECIES[HALF])
    mechanism.output(X[~HALF], SPECIES[~HALF])
    np.testing.assert_array_equal(mechanism.output(X[HALF], SPECIES[HALF]), first)
    assert first.shape == mechanism.reference.shape == (len(mechanism.names),)
    assert len(set(mechanism.names)) == len(mechanism.names)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_pickles_from_two_worlds_are_equal(name):
    """The same noisy vector after fits in different worlds, in different processes' memories: the same bytes."""
    noisy = np.random.default_rng(1).normal(size=prepared(name).reference.shape)
    pickles = []
    for rows in (HALF, ~HALF):
        mechanism = prepared(name)
        mechanism.output(X[rows], SPECIES[rows])
        pickles.append(pickle.dumps(mechanism.rebuild(noisy)))
    assert pickles[0] == pickles[1]
    assert pickles[0] != pickle.dumps(prepared(name).rebuild(noisy + 1))


CLASSIFIERS = ["LinearSVC", "LogisticRegression", "RidgeClassifier", "FixedForest"]


@pytest.mark.parametrize(
    ("name", "two"), [("KMeans", False), *((name, two) for name in CLASSIFIERS for two in (False, True))]
)
def test_without_noise_the_rebuilt_model_labels_as_the_fitted_one(name, two):
    keep = SPECIES > 0 if two else np.ones(150, bool)
    rows, labels = X[keep], np.array(["a", "b", "c"])[SPECIES[keep]]
    estimator = ESTIMATORS[name]
    mechanism = adapter_for(estimator)(estimator, rows, labels)
    found = mechanism.rebuild(mechanism.output(rows, labels)).predict(rows)
    if name == "KMeans":  # clusters are named after the classes' order
        assert (np.array(["a", "b", "c"])[found] == labels).mean() > 0.85
    else:
        np.testing.assert_array_equal(found, type(estimator)(**estimator.get_params()).fit(rows, labels).predict(rows))


@pytest.mark.parametrize("estimator", [LinearRegression(), Ridge(alpha=0.5), LinearRegression(fit_intercept=False)])
def test_regressions_come_back_whole(estimator):
    target = IRIS[:, 3] + 1
    mechanism = adapter_for(estimator)(estimator, X[:, :3], target)
    rebuilt = mechanism.rebuild(mechanism.reference)
    np.testing.assert_allclose(rebuilt.predict(X[:, :3]), estimator.fit(X[:, :3], target).predict(X[:, :3]))


def test_linear_canonical_forms():
    """Classes are centred; only where probabilities do not matter is the scale taken away."""
    svm = prepared("LinearSVC").reference.reshape(3, 5)
    np.testing.assert_allclose(svm.sum(axis=0), 0, atol=1e-12)
    assert np.linalg.norm(svm) == pytest.approx(1)
    soft = prepared("LogisticRegression")
    model = LogisticRegression(max_iter=500, random_state=0).fit(X, SPECIES)
    np.testing.assert_allclose(soft.rebuild(soft.reference).predict_proba(X), model.predict_proba(X), atol=1e-9)


def test_centroids_keep_the_references_order():
    mechanism = prepared("KMeans")
    reference = mechanism.reference.reshape(3, 4)
    for seed in range(5):
        rows = np.random.default_rng(seed).random(150) < 0.5
        found = mechanism.output(X[rows], None).reshape(3, 4)
        nearest = ((reference[:, np.newaxis] - found) ** 2).sum(axis=2).argmin(axis=1)
        np.testing.assert_array_equal(nearest, [0, 1, 2])


def test_axes_span_the_same_space_and_are_nearest_to_the_reference():
    mechanism = prepared("PCA")
    axes = mechanism.output(X[HALF], None).reshape(2, 4)
    plain = PCA(2, svd_solver="full").fit(X[HALF]).components_
    np.testing.assert_allclose(axes.T @ axes, plain.T @ plain, atol=1e-12)
    noisy = mechanism.rebuild(axes.reshape(-1) + 0.1)
    np.testing.assert_allclose(noisy.components_ @ noisy.components_.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(noisy.mean_, X.mean(axis=0))  # the pool's, not the secret's
    assert noisy.inverse_transform(noisy.transform(X)).shape == X.shape


def brute_force_tree(rows, y, features, steps, w1, w2, depth):
    """The fixed forest's definition, one node at a time."""
    grid, thresholds, leaves, level = np.arange(steps + 1) / steps, [], [], [(rows, y)]
    for d in range(depth):
        following = []
        for part, labels in level:
            x = part[:, features[d]]
            H = np.array([weighted_entropy(labels[x < v], labels[x >= v]) for v in grid])
            score = []
            for j, v in enumerate(grid):
                near = [H[i] for i in (j - 1, j + 1) if 0 <= i <= steps]
                score.append((1 - w2) * ((1 - w1) * H[j] + w1 * np.mean(near)) + w2 * v)
            best = int(np.argmin(np.round(score, 12)))
            thresholds.append(grid[best])
            left = x < grid[best]
            following += [(part[left], labels[left]), (part[~left], labels[~left])]
        level = following
    for _, labels in level:
        leaves += [(labels == k).sum() / len(y) for k in range(3)]
    return thresholds, leaves


def weighted_entropy(*sides):
    total = sum(len(side) for side in sides)
    if total == 0:
        return 0.0
    found = 0.0
    for side in sides:
        for k in range(3):
            share = (side == k).mean() if len(side) else 0
            found -= len(side) / total * share * np.log(share) if share > 0 else 0
    return found


@pytest.mark.parametrize(("w1", "w2"), [(0.0, 0.0), (0.2, 0.2), (0.5, 0.05)])
def test_trees_follow_their_definition(w1, w2):
    forest = FixedForest(2, 3, p=0.05, w1=w1, w2=w2, random_state=3).fit(X, SPECIES)
    for t in range(2):
        thresholds, leaves = brute_force_tree(X, SPECIES, forest.features_[t], 20, w1, w2, 3)
        np.testing.assert_allclose(forest.thresholds_[t], thresholds)
        np.testing.assert_allclose(forest.masses_[t].reshape(-1), leaves)
    assert forest.score(X, SPECIES) > 0.6


@pytest.mark.slow
def test_the_mean_varies_as_its_closed_form():
    """The simulator's unit test: sample variances over 20 000 worlds, relative error 5 sigma = 5 sqrt(2 / 20 000)."""
    rows = X[:40] + np.arange(40)[:, np.newaxis] * 1e-6  # all different
    fitted = PACPrivatizer("mean", MI(1.0), worlds=256, mode="estimated", worlds_seed=0).fit(rows)
    worlds = Sampler(units_of(rows, np.zeros(40, dtype=int)), 0.5, 0, paired=False).draw(range(20_000))
    outputs = worlds @ rows / 20
    rounded = 2.0**-36 * np.abs(rows - rows.mean(axis=0)).max(axis=0)  # the promise of `pac.moments`
    assert (np.abs(fitted.trials_.outputs - outputs[:256]) <= rounded + 1e-15).all()
    np.testing.assert_allclose(outputs.var(axis=0), mean_variances(rows, 20), rtol=0.05)


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (make_pipeline(StandardScaler(), LinearSVC()), TypeError, "would fit standardscaler on the secret rows"),
        (SVC(), TypeError, "SVC has no adapter"),
        (type("MyKMeans", (KMeans,), {})(3), TypeError, "MyKMeans has no adapter"),
        (7, TypeError, "or a function of the rows, got 7"),
        (PCA(2, whiten=True), ValueError, "take whiten=False"),
        (PCA(0.9), ValueError, "n_components must be a whole number"),
        (KMeans(3, random_state=np.random.RandomState(0)), ValueError, "random_state must be a whole number"),
        (FixedForest(1, 9), ValueError, "depth 9 needs as many features"),
        (FixedForest(1, 2, p=0.3), ValueError, "p must be 1 over a whole number"),
        (FixedForest(1, 2, w1=2), ValueError, r"w1 must be a number in \[0, 1\]"),
        (FixedForest(1, 1, features=[[7]]), ValueError, "features must be 1 lists of 1 columns below 4"),
    ],
)
def test_what_would_leak_is_refused(estimator, error, message):
    with pytest.raises(error, match=message):
        PACPrivatizer(estimator, MI(1.0), worlds=8).fit(X, SPECIES)


def test_fits_on_the_secret_print_nothing(capsys):
    PACPrivatizer(KMeans(3, verbose=1), MI(1.0), worlds=8, mode="estimated").fit(X).release()
    assert capsys.readouterr().out == ""


def test_labels_are_needed_and_checked():
    for name in ("LinearSVC", "FixedForest"):
        with pytest.raises(ValueError, match="learns from labels; give y"):
            PACPrivatizer(ESTIMATORS[name], MI(1.0), worlds=8).fit(X)
    with pytest.raises(ValueError, match=r"features must lie on \[0, 1\]"):
        PACPrivatizer(FixedForest(), MI(1.0), worlds=8).fit(IRIS, SPECIES)
    with pytest.raises(ValueError, match="single class"):
        PACPrivatizer(LinearSVC(), MI(1.0), worlds=8).fit(X[:50], SPECIES[:50])
