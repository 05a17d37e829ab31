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
from epsworth.pac import records as module
from epsworth.pac.exposure import FPR, expose
from epsworth.pac.records import Check, Events, nearest_groups, second_moments, sure_allowed, sure_limits
from epsworth.pac.worlds import Units, near_groups

POOL = np.random.default_rng(0).normal(size=(24, 2))
TWINS = np.vstack([POOL[:1] + 1e-9, POOL])


def fitted(function, budget, pool=POOL, **settings):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The release may tell")
        return PACPrivatizer(function, budget, **{"worlds": 64, "worlds_seed": 0, **settings}).fit(pool)


def any_of_the_twins(rows):
    return [float((np.abs(rows - TWINS[0]).max(axis=1) < 1e-6).any())]


def allowed(q, prior=0.5):
    return sure_allowed(RecordPosterior(q), prior)


def in_one_world(fit_of_one_world):
    """Return a function that is non-zero in one listed world only."""
    return lambda rows: [float(rows.shape == fit_of_one_world.shape and (rows == fit_of_one_world).all())]


@pytest.mark.slow
def test_joint_questions_are_capped_by_default():
    assert RecordPosterior(0.8).joint == MI(0.5)
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
        found = PACPrivatizer("mean", RecordPosterior(0.95, MI(1)), worlds=64, worlds_seed=0).fit(POOL)
    assert found.plan_.mi > math.log(2)
    assert any("above ln 2" in limit for limit in found.report()["limits"])
    quiet = PACPrivatizer("mean", RecordPosterior(0.95, joint=MI(0.69)), worlds=64, worlds_seed=0).fit(POOL)
    assert not any("above ln 2" in limit for limit in quiet.report()["limits"])


@pytest.mark.parametrize("near", [None, 1e-6])
@pytest.mark.slow
def test_the_presence_of_a_near_duplicate_is_not_found_with_certainty(near):
    """Either twin tells; success at "is one of them in" keeps to the nats that q allows, by Bayes' rule."""
    found = fitted(any_of_the_twins, RecordPosterior(0.8, MI(1), near=near), TWINS)
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
    for wrong in ({"fpr": 0.0}, {"fpr": 1.0}, {"tpr": 0.001}, {"tpr": 1.5}):
        with pytest.raises(ValueError, match=r"fpr must lie strictly|tpr must lie above fpr"):
            RecordPosterior(0.7, **wrong)
    with pytest.raises(ValueError, match="near chains 25 of 25 rows to one unit"):
        PACPrivatizer("mean", RecordPosterior(0.7, near=1.5), worlds=16).fit(TWINS)
    with pytest.raises(TypeError, match="near must be a number"):
        RecordPosterior(0.7, near="1")


def units(*of_row):
    return Units(np.array(of_row), np.zeros(max(of_row) + 1, dtype=np.intp))


def test_rows_and_their_nearest_ones_are_groups():
    rows = np.array([[0.0, 0], [1e-9, 0], [10, 100], [10, 101], [4, 50], [4, 50]])
    any_, all_, fours = nearest_groups(rows, units(0, 1, 2, 3, 4, 4))
    assert any_[0].tolist() == all_[0].tolist() == [[0, 1], [1, 4], [2, 3]]
    assert (any_[1], all_[1], fours[1]) == (1, 2, 3)
    assert fours[0].shape[1] == 4
    assert nearest_groups(np.ones((5, 2)), units(0, 0, 0, 0, 0)) == ()
    same = nearest_groups(np.ones((12, 1)), units(*range(12)))  # of one place: every unit is in groups of its own
    for groups, _ in same:
        assert set(groups.reshape(-1).tolist()) == set(range(12))
        assert (np.diff(groups, axis=1) > 0).all()


def test_questions_are_answered_by_counting():
    members = np.random.default_rng(0).random((16, 9)) < 0.5
    groups = ((np.array([[0, 1], [2, 3]]), 1), (np.array([[0, 1]]), 2), (np.array([[0, 1, 2, 3]]), 3))
    events = Events.of(members, groups)
    truth = np.column_stack([
        members, members[:, 0] | members[:, 1], members[:, 2] | members[:, 3], members[:, 0] & members[:, 1],
        members[:, :4].sum(axis=1) >= 3,
    ])  # fmt: skip
    assert len(events) == truth.shape[1]
    assert (truth == events.rows(np.arange(13)).T).all()
    assert (truth[:, [12, 0, 10]] == events.rows(np.array([12, 0, 10])).T).all()
    assert (events.counts == truth.sum(axis=0)).all()
    matrix = np.random.default_rng(1).normal(size=(16, 16))
    matrix = matrix + matrix.T
    exact = np.einsum("ji,jk,ki->i", truth.astype(float), matrix, truth.astype(float))
    np.testing.assert_allclose(events.forms(matrix, np.arange(13), lambda: None), exact, atol=1e-4)


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
    assert caught <= allowed(q) + 5e-4
    assert found.report()["tpr_at_fpr_0.001"] <= allowed(q) + 1e-6
    bare = expose(1e3 * found.trials_.outputs, members, np.random.default_rng(0), draws=16384, risk=Risk(0.01))
    assert bare.surest > 1 / 32 > allowed(q)  # what an audit of the bare answer shows


def _normal(z):
    return 0.5 * math.erfc(-z / math.sqrt(2))


def moment_of(whitened, members):
    return second_moments(whitened, Events.of(members), np.arange(members.shape[1]))


def test_limits_of_sure_guesses_are_limits():
    """Two worlds, a Gaussian each: the best test has a closed form; both limits lie above it."""
    members = np.array([[True], [False]])
    for distance in (0.1, 0.5, 2.0):
        whitened = np.array([[0.0], [distance]])
        truth = _normal(-3.090232306167813 + distance)
        certain = sure_limits(moment_of(whitened, members), np.array([0.5]), FPR)[0]
        simulated = expose(whitened, members, np.random.default_rng(0), draws=60_000, risk=Risk(0.01)).surest
        assert truth <= certain
        assert truth <= simulated <= 1
        if distance == 0.1:
            assert certain < 8 * FPR


def quadrature(whitened, answers, points=200_001):
    """Return Q, and the success at a question, of worlds on a line."""
    at, step = np.linspace(whitened.min() - 9, whitened.max() + 9, points, retstep=True)
    densities = np.exp(-0.5 * (at - whitened[:, :1]) ** 2) / math.sqrt(2 * math.pi) / len(whitened)
    whole = densities.sum(axis=0)
    guess, share = densities[answers].sum(axis=0) / whole, answers.mean()
    return float(((guess - share) ** 2 * whole).sum() * step), float(
        (np.maximum(guess, 1 - guess) * whole).sum() * step
    )


@pytest.mark.parametrize("scale", [0.05, 0.2, 0.5, 1.0])
@pytest.mark.cases(1)
def test_screens_are_never_below_quadrature(scale):
    rng = np.random.default_rng(3)
    for _ in range(5):
        whitened, members = scale * rng.normal(size=(12, 1)), rng.random((12, 6)) < 0.5
        members[:2] = [[True] * 6, [False] * 6]
        check = promise(whitened, members)
        certain = moment_of(whitened, members)
        simulated = check._simulated(np.arange(6), Risk(0.01).split(6), np.random.default_rng(0))
        truths = np.array([quadrature(whitened, column) for column in members.T])
        for limits in (certain, simulated):
            assert (limits >= truths[:, 0]).all()
            assert (check.success(limits) >= truths[:, 1]).all()
        if scale == 0.05:
            assert (certain <= 1.1 * truths[:, 0] + 1e-6).all()


def promise(whitened, members, q=0.6, groups=(), joint=1.0, tpr=None):
    asked = RecordPosterior(q, MI(joint), tpr=tpr)
    nats = pac.budget(q, 0.5)
    events = Events.of(members, groups)
    return Check(whitened, events, q, sure_allowed(asked), asked.fpr, nats, joint, lambda: None)


def test_a_simulated_screen_holds_as_often_as_promised(monkeypatch):
    """Few draws, 400 times, at a tenth: Pr[more than 75 misses] < 1e-6.  An average itself misses half of the time."""
    monkeypatch.setattr(module, "SCREENED", 60)
    rng = np.random.default_rng(4)
    whitened, members = 2 * rng.normal(size=(12, 1)), (np.arange(12) < 3)[:, np.newaxis]
    truth, check = quadrature(whitened, members[:, 0])[0], promise(whitened, members)
    limits = [check._simulated(np.array([0]), Risk(0.1), draws)[0] for draws in rng.spawn(400)]
    assert (np.array(limits) < truth).sum() <= 75
    assert np.median(limits) < 1


@pytest.mark.parametrize("place", ["success", "sureness"])
def test_an_untrue_claim_is_borne_out_as_rarely_as_promised(place, monkeypatch):
    """What is allowed lies a hair below the truth; at 5 %, 300 times: Pr[more than 35 borne out] < 1e-5."""
    monkeypatch.setattr(module, "CLEAR", 50.0)
    monkeypatch.setattr(module, "ATTACKED", 1 << 13)
    rng = np.random.default_rng(5)
    whitened = np.array([[0.0], [0.1], [0.6], [0.7]])
    members = np.array([[False], [False], [True], [True]])
    q = quadrature(whitened, members[:, 0])[1]
    if place == "success":
        check, claims = promise(whitened, members, q - 1e-4), np.array([0])
    else:  # sureness by the best ratio of those tried
        at = np.linspace(-9, 10, 400_001)
        inside, outside = (np.exp(-0.5 * (at - side) ** 2).mean(axis=0) for side in (whitened[2:], whitened[:2]))
        step = (at[1] - at[0]) / math.sqrt(2 * math.pi)
        best = min(t * FPR + np.maximum(inside - t * outside, 0).sum() * step for t in module.TRIED)
        check, claims = promise(whitened, members, q, tpr=best - 1e-4), np.array([1])
    borne = sum(check._attacked(claims, Risk(0.05), draws) for draws in rng.spawn(300))
    assert borne <= 35


def test_a_true_claim_is_borne_out():
    whitened = np.array([[0.0], [0.1], [0.6], [0.7]])
    members = np.array([[False], [False], [True], [True]])
    check = promise(whitened, members, quadrature(whitened, members[:, 0])[1] + 0.01)
    assert check._attacked(np.array([0, 1]), Risk(0.001).split(2), np.random.default_rng(0))


def kept(check):
    return check.run(Risk(0.01), Risk(0.01), np.random.default_rng(0))


def test_near_duplicates_are_found_no_better_than_the_nats_allow():
    """Each of two rows is safe, and "one of the two is in" is certain: the group is what refuses the plan."""
    rng = np.random.default_rng(6)
    members = rng.permuted(np.tile([[True], [False]], (128, 12)), axis=0)
    whitened = 6.0 * members[:, :2].any(axis=1, keepdims=True)
    pair = ((np.array([[0, 1]]), 1),)
    asked = {"q": 0.8, "joint": 0.56, "tpr": 0.9}
    assert promise(whitened, members[:, :1], **asked).run(Risk(0.01), Risk(0.01), np.random.default_rng(0)) is not None
    assert (
        promise(whitened, members, groups=pair, **asked).run(Risk(0.01), Risk(0.01), np.random.default_rng(0)) is None
    )


def test_one_world_in_many_that_tells_all_is_refused():
    rng = np.random.default_rng(7)
    members = rng.permuted(np.tile([[True], [False]], (128, 40)), axis=0)
    whitened = 9.0 * (np.arange(256) == 7)[:, np.newaxis].astype(float)
    assert kept(promise(whitened, members, q=0.51)) is None
    found = kept(promise(0.01 * whitened, members, q=0.51))
    assert found.surest <= allowed(0.51)


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
            assert FPR <= report[name] <= allowed(q) + 1e-6
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
    assert allowed(q) == pytest.approx(min(1.0, 2 * gaussian), rel=1e-6)
    assert allowed(q, 0.5) >= allowed(q, 0.505)
    assert sure_allowed(RecordPosterior(q, tpr=0.1, fpr=0.01)) == 0.1


def test_limits_at_another_rate_of_false_alarms_are_not_those_at_a_thousandth():
    """TPR grows with FPR: what is shown at .001 says nothing of .05."""
    rng = np.random.default_rng(8)
    whitened, members = rng.normal(size=(64, 1)), rng.permuted(np.tile([[True], [False]], (32, 6)), axis=0)
    asked = RecordPosterior(0.9, MI(0.5), fpr=0.05, tpr=0.9)
    check = Check(whitened, Events.of(members), 0.9, 0.9, 0.05, pac.budget(0.9, 0.5), 0.5, lambda: None)
    found = check.refined(kept(check), Risk(0.01), np.random.default_rng(0))
    assert found.tpr.min() > 0.05
    assert sure_allowed(asked) == 0.9
    at = np.linspace(-9, 9, 20_001)
    for column, limit in zip(members.T, found.tpr, strict=True):
        inside, outside = (np.exp(-0.5 * (at - whitened[side]) ** 2).mean(axis=0) for side in (column, ~column))
        order = np.argsort(-inside / outside)
        alarms = np.cumsum(outside[order]) / outside.sum()
        assert (np.cumsum(inside[order]) / inside.sum())[np.searchsorted(alarms, 0.05)] <= limit
