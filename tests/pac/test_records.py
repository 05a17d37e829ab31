"""Budgets for single records: capped in all, sure guesses and near-duplicates counted, no word against another."""

from __future__ import annotations

import math
import warnings
from statistics import NormalDist

import numpy as np
import pytest

from epsworth import pac
from epsworth.bounds import Risk
from epsworth.pac import MI, DPEquivalent, PACPrivatizer, Posterior, RecordPosterior
from epsworth.pac.exposure import FPR, expose, tpr_limit
from epsworth.pac.records import mutual_neighbours, sure_allowed
from epsworth.pac.worlds import near_groups

POOL = np.random.default_rng(0).normal(size=(24, 2))
TWINS = np.vstack([POOL[:1] + 1e-9, POOL])


def fitted(function, budget, pool=POOL, **settings):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The release may tell")
        return PACPrivatizer(function, budget, **{"worlds": 64, "worlds_seed": 0, **settings}).fit(pool)


def any_of_the_twins(rows):
    return [float((np.abs(rows - TWINS[0]).max(axis=1) < 1e-6).any())]


def in_one_world(fit_of_one_world):
    """Return a function that is non-zero in one listed world only."""
    return lambda rows: [float(rows.shape == fit_of_one_world.shape and (rows == fit_of_one_world).all())]


@pytest.mark.slow
def test_joint_questions_are_capped_by_default():
    assert RecordPosterior(0.8).joint == MI(1.0)
    for joint in (MI(1.0), MI(0.3), Posterior(0.6), DPEquivalent(0.5)):
        found = fitted("mean", RecordPosterior(0.95, joint=joint))
        assert found.plan_.mi <= joint.mi
        assert found.report()["most_nats_in_all"] >= joint.mi
    sampled = fitted("mean", RecordPosterior(0.95, joint=MI(0.05)), worlds=16 * 24, mode="estimated")
    assert 0.04 < sampled.plan_.mi <= 0.05
    assert sampled.release().vector.shape == (2,)
    with pytest.raises(TypeError, match=r"joint must be MI\(\.\.\), Posterior\(\.\.\) or DPEquivalent"):
        RecordPosterior(0.8, joint=1.0)


@pytest.mark.slow
def test_more_than_ln_2_in_all_is_warned_of_and_said():
    with pytest.warns(UserWarning, match=r"may tell .* nats in all: above ln 2 = 0\.693"):
        found = PACPrivatizer("mean", RecordPosterior(0.95), worlds=64, worlds_seed=0).fit(POOL)
    assert found.plan_.mi > math.log(2)
    assert any("above ln 2" in limit for limit in found.report()["limits"])
    quiet = PACPrivatizer("mean", RecordPosterior(0.95, joint=MI(0.69)), worlds=64, worlds_seed=0).fit(POOL)
    assert not any("above ln 2" in limit for limit in quiet.report()["limits"])


@pytest.mark.parametrize("near", [None, 1e-6])
@pytest.mark.slow
def test_the_presence_of_a_near_duplicate_is_not_found_with_certainty(near):
    """Either twin tells; success at "is one of them in" keeps to the nats that q allows, by Bayes' rule."""
    found = fitted(any_of_the_twins, RecordPosterior(0.8, near=near), TWINS)
    event = found.members()[:, :2].any(axis=1, keepdims=True)
    assert event.mean() == pytest.approx(0.5 if near else 0.75, abs=0.15)
    whitened = found.plan_.positions(found.trials_.outputs) / found.plan_.ratio
    truth = expose(whitened, event, np.random.default_rng(1), draws=8000, risk=Risk(0.01))
    allowed = pac.posterior(pac.budget(0.8, 0.5), float(truth.prior[0]))
    assert truth.success[0] <= allowed + 5 * 0.5 / math.sqrt(8000)  # five standard errors
    assert found.report()["posterior_of_membership"] <= 0.8


def test_rows_within_the_declared_tolerance_are_one_unit():
    chain = np.array([[0.0, 0], [0.09, 0], [0.18, 0.09], [1, 0], [1, 0], [5, 5]])
    groups = near_groups(chain, 0.1)
    assert groups[0] == groups[1] == groups[2] != groups[3]
    assert groups[3] == groups[4] != groups[5]
    assert len(set(near_groups(chain, 0.05))) == 5
    decimals = np.array([[0.1, 0.0], [0.2, 0.0], [0.3, 0.0], [0.4, 0.0], [0.4, 1e15]])  # 0.3 - 0.2 < 0.1 < 0.2 - 0.1 ..
    assert len(set(near_groups(decimals, 0.1))) == 2
    assert len(set(near_groups(decimals[:, ::-1], 0.1 * (1 - 1e-12)))) == 5
    labels = np.tile([0, 1], 13)[:25]  # the twins differ in their label and are together all the same
    found = PACPrivatizer("mean", RecordPosterior(0.7, MI(0.3), near=1e-6), worlds=16).fit(TWINS, labels)
    members = found.members()
    assert (members[:, 0] == members[:, 1]).all()
    assert len(found.calibrated_.experiment.sampler.units) == 24
    for near in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="near must be positive and finite"):
            RecordPosterior(0.7, near=near)
    with pytest.raises(TypeError, match="near must be a number"):
        RecordPosterior(0.7, near="1")


def test_nearest_rows_of_each_other_are_pairs():
    rows = np.array([[0.0, 0], [1e-9, 0], [10, 100], [10, 101], [4, 50], [4, 50]])
    assert mutual_neighbours(rows).tolist() == [[0, 1], [2, 3]]
    assert mutual_neighbours(np.ones((5, 2))).shape == (0, 2)


@pytest.mark.slow
def test_an_answer_that_is_rare_but_sure_is_no_small_matter():
    """Non-zero in one world of 64: it hardly moves success on average, and names the records of that world."""
    trace = fitted(lambda rows: rows.mean(axis=0), MI(1.0))
    one = POOL[trace.members()[5]]
    q, function = 0.52, in_one_world(one)
    found = fitted(function, RecordPosterior(q))
    members = found.members()
    assert found.trials_.outputs.sum() == 1
    # the best sure guess of a record in that world: "in" from a threshold with one false alarm in a thousand on
    sigma = math.sqrt(found.plan_.noise[0])
    threshold = np.quantile(np.random.default_rng(0).normal(0, sigma, 200_000), 1 - FPR)
    caught = (1 - _normal((threshold - 1) / sigma)) / 32 + (31 / 32) * FPR
    assert caught <= sure_allowed(q) + 5e-4
    assert found.report()["tpr_at_fpr_0.001"] <= sure_allowed(q) + 1e-6
    bare = expose(1e3 * found.trials_.outputs, members, np.random.default_rng(0), draws=16384, risk=Risk(0.01))
    assert bare.surest > 1 / 32 > sure_allowed(q)  # what an audit of the bare answer shows


def _normal(z):
    return 0.5 * math.erfc(-z / math.sqrt(2))


def test_limits_of_sure_guesses_are_limits():
    """Two worlds, a Gaussian each: the best test has a closed form; both limits lie above it."""
    members = np.array([[True], [False]])
    for distance in (0.1, 0.5, 2.0):
        whitened = np.array([[0.0], [distance]])
        truth = _normal(-3.090232306167813 + distance)
        certain = tpr_limit(whitened, members)[0]
        simulated = expose(whitened, members, np.random.default_rng(0), draws=60_000, risk=Risk(0.01)).surest
        assert truth <= certain
        assert truth <= simulated <= 1
        if distance == 0.1:
            assert certain < 8 * FPR


@pytest.mark.slow
def test_reports_do_not_contradict_themselves():
    """What one line promises for single records, no other line takes back, however small the promise."""
    for q in (0.5001, 0.7):
        found = fitted("mean", RecordPosterior(q, MI(0.6)), worlds=32)
        report = found.report()
        assert found.calibrated_.exposure.worst <= q
        assert report["posterior_of_membership"] <= report["posterior_at_prior_0.5"]
        for name in ("posterior_of_membership", "worst_record_upper_limit"):
            assert 0.5 <= report[name] <= q + 1e-6
        for name in ("tpr_at_fpr_0.001", "worst_record_tpr_at_fpr_0.001"):
            assert FPR <= report[name] <= sure_allowed(q) + 1e-6
        released = found.release().report()
        assert released["posterior_of_membership"] == report["posterior_of_membership"]
    sampled = fitted("mean", RecordPosterior(0.6), worlds=16 * 24, mode="estimated").report()
    assert sampled["posterior_of_membership"] <= 0.6
    assert sampled["tpr_at_fpr_0.001"] <= pac.tpr_bound(pac.budget(0.6, 0.5), 0.5, FPR) + 1e-6


@pytest.mark.parametrize("q", [0.51, 0.588, 0.7, 0.9])
def test_sure_guesses_are_held_to_twice_those_of_a_gaussian_test(q):
    """Two Gaussians at the distance where the better guess succeeds with q: Phi(d / 2) = q, TPR = Phi(d - z)."""
    normal = NormalDist()
    gaussian = normal.cdf(2 * normal.inv_cdf(q) - normal.inv_cdf(1 - FPR))
    assert sure_allowed(q) == pytest.approx(min(1.0, 2 * gaussian), rel=1e-6)
    assert sure_allowed(q, 0.5) >= sure_allowed(q, 0.505)
