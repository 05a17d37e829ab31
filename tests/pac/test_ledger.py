"""Several releases about one secret."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA

from epsworth.pac import MI, Ledger, PACPrivatizer, RecordPosterior
from epsworth.pac.calibration import Shape, calibrate
from epsworth.pac.exposure import posterior_weights
from epsworth.pac.ledger import updated

X = load_iris()["data"]


def fitted(algorithm="mean", budget=None, **settings):
    return PACPrivatizer(algorithm, budget or MI(0.1), **{"worlds": 64, **settings}).fit(X)


def test_budgets_add_up_and_the_total_ends_the_series():
    ledger, mean, axes = Ledger(MI(0.25)), fitted(), fitted(PCA(1))
    mean.release(ledger)
    report = axes.release(ledger).report()
    assert report["ledger_spent"] == ledger.spent <= 0.2
    with pytest.raises(ValueError, match=r"nats left and this release costs 0\.1"):
        mean.release(ledger)
    assert ledger.releases == 2
    assert ledger.probabilities.sum() == pytest.approx(1)
    assert repr(ledger) == f"Ledger(spent {ledger.spent:g} of 0.25 nats in 2 releases)"
    assert mean.spent_ == 0  # counted there, not here


def test_the_secret_stays_in_memory():
    ledger = Ledger(MI(1.0))
    fitted().release(ledger)
    with pytest.raises(TypeError, match="knows the secret world and stays in memory"):
        pickle.dumps(ledger)
    public = json.loads(json.dumps(ledger.to_dict()))
    assert set(public) == {"total", "spent", "releases", "probabilities"}
    assert len(public["probabilities"]) == 64


def test_other_lists_modes_and_budgets_are_refused():
    ledger = Ledger(MI(1.0))
    fitted().release(ledger)
    with pytest.raises(ValueError, match="a world of another list"):
        fitted(worlds_seed=1).release(ledger)
    with pytest.raises(ValueError, match="a ledger needs mode='exact'"):
        fitted(mode="estimated").release(ledger)
    with pytest.raises(ValueError, match="a ledger needs mode='exact'"):
        fitted(budget=RecordPosterior(0.9), worlds=16).release(ledger)
    with pytest.raises(TypeError, match="total must be MI"):
        Ledger(1.0)


def test_one_world_serves_the_whole_series():
    """Many releases of one statistic average to one world's output, not to the pool's."""
    ledger, mean = Ledger(MI(400.0)), fitted(budget=MI(5.0), worlds=16)
    for _ in range(5):
        mean.release(ledger)
    assert ledger.probabilities.max() > 0.999  # with 25 nats spent the world is known


def test_worlds_ruled_out_may_lie_anywhere():
    """A world of chance 1e-300, a googol away, neither overflows the grid nor costs the others precision."""
    outputs = np.array([[0.0], [1.0], [1e100]])
    plan = calibrate(outputs, 0.5, Shape(basis="diag"), probabilities=np.array([0.5, 0.5, 1e-300]))
    assert abs(plan.positions(outputs)).max() <= 2**52
    assert plan.mi <= 0.5


def test_belief_is_bayes_rule():
    """The table's masses against Gaussian densities."""
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(20, 3))
    plan = calibrate(outputs, 1.0, Shape(basis="svd"))
    positions = plan.positions(outputs)
    seen = positions[4] + plan.law.from_words(rng.integers(0, 2**64, size=3, dtype=np.uint64))
    even = np.full(20, 1 / 20)
    expected = posterior_weights(positions / plan.ratio, (seen / plan.ratio)[np.newaxis], even)[0]
    np.testing.assert_allclose(updated(even, plan, positions, seen), expected, rtol=1e-5)


def test_adaptive_series_keep_the_total():
    """Second query chosen by the first answer, where prior variances understate it: true MI by full simulation.

    Worlds 0..3; the first release tells {0,1} from {2,3} well, the second separates 2 from 3 only if asked to.
    5 standard errors: false alarm 3e-7.
    """
    rng = np.random.default_rng(1)
    first = np.array([0.0, 0.0, 10.0, 10.0])[:, np.newaxis]
    choices = {False: np.array([0.0, 4.0, 0.0, 0.0])[:, np.newaxis], True: np.array([0.0, 0, 0, 4])[:, np.newaxis]}
    even, beta, gains = np.full(4, 0.25), 0.4, []
    one = calibrate(first, 0.7, Shape(basis="diag"))
    for _ in range(1500):
        world = rng.integers(4)
        at = one.positions(first)
        seen = at[world] + one.law.from_words(rng.integers(0, 2**64, size=1, dtype=np.uint64))
        belief = updated(even, one, at, seen)
        second = choices[bool(one.released(seen)[0] > 5)]
        two = calibrate(second, beta, Shape(basis="diag"), probabilities=belief)
        at = two.positions(second)
        seen = at[world] + two.law.from_words(rng.integers(0, 2**64, size=at.shape[1], dtype=np.uint64))
        gains.append(np.log(updated(belief, two, at, seen)[world] / 0.25))
    assert np.mean(gains) <= 0.7 + beta + 5 * np.std(gains) / np.sqrt(len(gains))
