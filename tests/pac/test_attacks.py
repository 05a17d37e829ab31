"""Attacks stay below what Bayes' rule allows, see no advantage where there is none, and find what is unprotected."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from epsworth.bounds import Risk
from epsworth.pac import MI, PACPrivatizer, lira, pool_test
from epsworth.pac.attacks import best_thresholds, confidence_scores, threshold_attack

X, Y = load_iris(return_X_y=True)
X = normalize(X[:], "l1")[::2]
Y = Y[::2]


def test_thresholds_are_the_best_ones():
    rng = np.random.default_rng(0)
    scores, members = rng.integers(0, 6, size=(40, 5)).astype(float), rng.random((40, 5)) < 0.5
    found = best_thresholds(scores, members)
    for i in range(5):
        candidates = [*np.unique(scores[:, i]), np.inf]
        best = max(((scores[:, i] >= t) == members[:, i]).sum() for t in candidates)
        assert ((scores[:, i] >= found[i]) == members[:, i]).sum() == best


def test_noise_shows_no_advantage_on_trials_held_out():
    """On the trials they were chosen on, thresholds show 3 % that is not there.  5 standard errors of the average."""
    rng = np.random.default_rng(0)
    scores, members = rng.normal(size=(1200, 100)), rng.random((1200, 100)) < 0.5
    found = threshold_attack(scores, members, Risk(0.01))
    error = 0.5 / np.sqrt(600 * 100)
    assert abs(found.success.mean() - 0.5) < 5 * error
    assert found.advantage < 0.01
    chosen = (scores[:600] >= best_thresholds(scores[:600], members[:600])) == members[:600]
    assert chosen.mean() > 0.52
    rate, low, high = found.tpr[0.01]
    assert low <= 0.01 <= high
    assert low <= rate <= high
    assert ((found.interval.lower <= 0.5) & (found.interval.upper >= 0.5)).all()  # false alarm 1 %, seeded


def test_a_perfect_score_is_found():
    members = np.random.default_rng(0).random((3000, 3)) < 0.5
    found = threshold_attack(members + 0.0, members, Risk(0.01))
    assert found.success.min() == 1
    assert found.tpr[0.01][0] == 1


@pytest.mark.parametrize("algorithm", [KMeans(3, n_init=3), LinearSVC(dual=False)], ids=["kmeans", "svm"])
@pytest.mark.slow
def test_lira_stays_below_bayes(algorithm):
    """Per record 5 standard errors of either estimate; the promise bounds both."""
    fitted = PACPrivatizer(algorithm, MI(1.0), worlds=64, worlds_seed=0).fit(X, Y)
    found, best = lira(fitted, X, trials=160), fitted.audit(draws=4096)
    assert found.success.mean() <= best.success.mean() + 5 * 0.5 / np.sqrt(80 * len(X))
    assert (found.interval.lower <= best.upper).all()


def test_scores_grow_with_confidence():
    model = KMeans(3, n_init=3).fit(X)
    scores = confidence_scores(model, np.vstack([model.cluster_centers_, X]))
    assert scores[:3] == pytest.approx(1)
    svm = LinearSVC(dual=False).fit(X, Y > 0)
    assert (confidence_scores(svm, X) >= 0.5).all()
    with pytest.raises(TypeError, match="pass score="):
        confidence_scores(object(), X)


def test_pool_membership_is_not_protected():
    """1 000 values and one outlier a hundred times as large: seen nine times in ten, with a budget of 56 %."""
    pool = np.random.default_rng(0).uniform(size=(1000, 1))
    rate, low, _ = pool_test(lambda rows: rows.sum(axis=0), pool, [[100.0]], MI(1 / 128), worlds=128)
    assert low > 0.8 > 0.5627
    assert rate >= low


def test_lira_wants_the_pool_it_was_fitted_on():
    fitted = PACPrivatizer(KMeans(3, n_init=3), MI(1.0), worlds=8).fit(X)
    for other in (X[:-1], X[:, :2], X[0]):
        with pytest.raises(ValueError, match="X must be the pool of 75 rows and 4 columns"):
            lira(fitted, other, trials=10)
