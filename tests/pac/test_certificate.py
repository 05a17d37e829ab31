"""Certificates: what is bet on a mean, the tangent of the information, and the plan that both give."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq

from epsworth.bounds import Risk
from epsworth.pac import MI, PACPrivatizer, certificate
from epsworth.pac.allocation import STEPS
from epsworth.pac.calibration import Shape, calibrate
from epsworth.pac.certificate import Tangent, betting_upper, certify

DIAG = Shape(basis="diag")
HALVES = np.array([[i in half for i in range(12)] for half in combinations(range(12), 6)])  # all 924 of twelve rows


def cruel(name):
    """Return outputs of all halves, one row each, by functions that are hard to bound from a sample."""
    pool = np.random.default_rng(1).normal(size=(12, 2))
    if name == "outlier":
        pool[0] = 100.0
    if name == "heavy":
        pool = np.sign(pool) * np.abs(pool) ** -3.0
    held = [pool[half] for half in HALVES]
    functions = {
        "mean": lambda rows: rows.mean(axis=0),
        "outlier": lambda rows: rows.mean(axis=0),
        "heavy": lambda rows: rows.mean(axis=0),
        "largest": lambda rows: rows.max(axis=0),
        "product": lambda rows: [np.exp(3 * rows[:, 0].sum()), rows[:, 1].prod()],
        "rare": lambda rows: [float(rows[:, 0].sum() > 3.9), rows[:, 1].mean()],
    }
    return np.array([functions[name](rows) for rows in held], dtype=float)


@pytest.mark.parametrize("name", ["outlier", "rare", "heavy", "largest", "product", "mean"])
@pytest.mark.slow
def test_the_certificate_holds_over_repetitions(name):
    """All halves enumerated: neither the moment nor the information is missed by more than a tenth of 600 fits.

    Pr[more than 105 misses of 600] < 1e-7 where each has a chance of at most 0.1.  Of worlds that are drawn, a rare
    output shows in some pilots only; what lies outside the pilot's frame is not released.
    """
    outputs, rng, missed, exceeded = cruel(name), np.random.default_rng(0), 0, 0
    for _ in range(600):
        drawn = outputs[rng.integers(len(outputs), size=300)]
        found = certify(drawn[:60], drawn[60:], 1.0, DIAG, Risk(0.1))
        if not len(found.plan.frame):
            continue
        at = found.plan.positions(outputs) / found.plan.ratio
        exceeded += 0.5 * np.linalg.slogdet(np.eye(at.shape[1]) + np.cov(at.T, ddof=0))[1] > found.plan.mi
        missed += 0.5 * np.log1p(at.var(axis=0)).sum() > found.plan.mi
        assert found.plan.mi <= 1.0
    assert missed <= 105
    assert exceeded <= 105


@pytest.mark.parametrize("name", ["outlier", "product", "heavy", "rare", "largest", "mean"])
@pytest.mark.cases(1)
def test_limits_of_means_hold_as_often_as_promised(name):
    """Pr[more than 90 misses of 500] < 1e-7 where each has a chance of at most 0.1; a mean misses half the time."""
    outputs, rng = cruel(name), np.random.default_rng(0)
    lengths = ((outputs - outputs.mean(axis=0)) ** 2).sum(axis=1)
    width = float(lengths.max())
    drawn = lengths[rng.integers(len(lengths), size=(500, 240))]
    limits = np.array([betting_upper(values, width, 0.1) for values in drawn])
    assert (limits < lengths.mean()).sum() <= 90
    assert limits.mean() < 0.9 * width or lengths.mean() > 0.5 * width


def test_the_order_of_the_values_is_theirs():
    """Bets are made before a value is seen: a sequence that is bounded after it was sorted is another one."""
    values = np.random.default_rng(0).uniform(size=200)
    assert betting_upper(values, 1.0, 0.01) != betting_upper(np.sort(values), 1.0, 0.01)
    assert betting_upper(np.zeros(5000), 1.0, 1e-3) < 0.005
    assert betting_upper(np.ones(500), 1.0, 1e-3) == pytest.approx(1.0)
    assert betting_upper([0.0], 1.0, 1e-3) > 0.99


def exact_wealth(values, width, miss, mean):
    """Return the largest wealth against a mean of 1 - value / width, by fifty digits."""
    with mpmath.workdps(50):
        x = [1 - mpmath.mpf(float(value)) / mpmath.mpf(float(width)) for value in values]
        wealth, best, total, squares, spread = (mpmath.mpf(v) for v in (1, 1, "0.5", "0.25", "0.25"))
        for j, one in enumerate(x, 1):
            stake = min(mpmath.sqrt(2 * mpmath.log(1 / mpmath.mpf(miss)) / (len(x) * spread)), mpmath.mpf("0.9") / mean)
            wealth *= 1 + stake * (one - mean)
            best, total = max(best, wealth), total + one
            squares += (one - total / (j + 1)) ** 2
            spread = squares / (j + 1)
        return best


def test_a_limit_that_was_bet_on_is_never_below_its_formula():
    rng = np.random.default_rng(2)
    for scale in (1e-6, 0.1, 1.0):
        values = scale * rng.uniform(size=60)
        limit = betting_upper(values, 1.0, 0.01)
        mean = 1 - mpmath.mpf(limit)
        assert exact_wealth(values, 1.0, 0.01, mean) >= 100
        assert exact_wealth(values, 1.0, 0.01, mean + mpmath.mpf("1e-9")) < 100  # and above it by next to nothing


def test_the_tangent_bounds_the_information_whatever_the_moments():
    """The claim of `Tangent`, for 5000 random pilots, moments and factors, and where it touches."""
    rng = np.random.default_rng(3)
    for _ in range(5000):
        size = int(rng.integers(1, 20))
        ratios, truth = np.exp(rng.normal(scale=3, size=(2, size)) - 3)
        tangent, factor = Tangent(ratios * (rng.random() < 0.8)), float(np.exp(rng.normal(scale=2)))
        moment = 0.5 * float((truth * tangent.weights).sum())
        assert tangent.mi(moment, factor) >= 0.5 * np.log1p(truth / factor).sum() * (1 - 1e-12)
    touching = Tangent(ratios)
    assert touching.mi(0.5 * float((ratios * touching.weights).sum())) == pytest.approx(0.5 * np.log1p(ratios).sum())


@pytest.mark.parametrize("mi", [1e-9, 1e-3, 0.5, 20.0])
def test_noise_is_enough_to_the_last_digit(mi):
    """By sixty digits, at the factor returned; and hardly more than that."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        size = int(rng.integers(1, 6))
        share = rng.dirichlet(np.ones(size)) * rng.uniform(0.2, 1.5)
        tangent = Tangent.of(np.expm1(2 * mi * share), mi)
        moment = 0.5 * float((tangent.ratios * tangent.weights).sum()) * rng.uniform(1, 2) + mi
        factor = tangent.enough(moment, mi)
        with mpmath.workdps(60):
            a = [mpmath.mpf(float(one)) for one in tangent.ratios]
            whole = sum(1 / (1 + one) for one in a) + 2 * mpmath.mpf(moment) / mpmath.mpf(factor)
            exact = sum(mpmath.log1p(one) for one in a) / 2 + size * mpmath.log(whole / size) / 2
            assert exact <= tangent.mi(moment, factor) <= mi
            assert factor == 1 or exact > mi * (1 - mpmath.mpf("1e-9"))


def gaussian_worlds(rng, count, root):
    return rng.normal(size=(count, root.shape[0])) @ root


def test_the_certificate_clips_and_enlarges():
    rng = np.random.default_rng(0)
    root = np.diag([1.0, 2.0])
    pilot, fresh = gaussian_worlds(rng, 400, root), gaussian_worlds(rng, 800, root)
    plain = calibrate(pilot, 0.25, Shape(basis="svd"))
    found = certify(pilot, fresh, 0.25, Shape(basis="svd"), Risk(1e-3))
    assert found.plan.trace > plain.trace
    assert found.plan.mi <= 0.25 < found.unconditional
    assert found.worlds == 800
    far = found.plan.positions(np.array([[1e9, 0.0]]))
    assert np.linalg.norm(found.plan.clip * far / STEPS) <= 1 + 1e-3


def inflation(found, covariance, mi):
    """Return how much noise the plan has over what these true variances need."""
    variances = np.diag(covariance)
    need = brentq(lambda log: 0.5 * np.log1p(variances / (found.plan.noise * np.exp(log))).sum() - mi, -9, 9)
    return float(np.exp(-need))


@pytest.mark.parametrize(("worlds", "most"), [(300, 1.4), (1026, 1.2), (3000, 1.1)])
def test_certified_noise_is_hardly_more_than_is_needed(worlds, most):
    rng = np.random.default_rng(5)
    roots = [np.diag(np.exp(rng.normal(size=d))) for d in (4, 12, 15)]
    drawn = [gaussian_worlds(rng, worlds, root) for root in roots]
    found = [certify(all_[: worlds // 5], all_[worlds // 5 :], 1 / 16, DIAG, Risk(1e-3)) for all_ in drawn]
    ratios = [inflation(one, root**2, 1 / 16) for one, root in zip(found, roots, strict=True)]
    assert 1 < np.mean(ratios) <= most


def test_a_wrong_centre_costs_noise_and_never_the_promise():
    rng = np.random.default_rng(6)
    pilot, fresh = rng.normal(size=(100, 2)), rng.normal(size=(400, 2))
    right = certify(pilot, fresh, 0.5, DIAG, Risk(1e-3))
    wrong = certify(pilot + 0.5, fresh, 0.5, DIAG, Risk(1e-3))
    assert wrong.plan.trace > 1.1 * right.plan.trace
    at = wrong.plan.positions(rng.normal(size=(20_000, 2))) / wrong.plan.ratio
    assert 0.5 * np.log1p(at.var(axis=0)).sum() < wrong.plan.mi


@pytest.mark.parametrize("factor", [1.0, 30.0])
def test_much_more_noise_gets_a_coarser_grid(factor):
    """Few worlds need far more noise; the table stays within its claim and the promise within the budget.

    The moment is measured again on the grid that is released on: 4000 fresh worlds, whose mean lies below the bound by
    far more than ten standard errors.
    """
    rng = np.random.default_rng(3)
    pilot = rng.normal(size=(40, 2))
    found = certify(pilot, rng.normal(size=(12, 2)) * factor**0.5, 0.1, DIAG, Risk(1e-6))
    assert STEPS <= found.plan.ratio <= 4 * STEPS
    assert found.plan.mi <= 0.1
    assert found.plan.step[0] > calibrate(pilot, 0.1, DIAG).step[0]
    np.testing.assert_allclose(found.plan.noise, (found.plan.step * found.plan.ratio) ** 2)
    at = found.plan.positions(rng.normal(size=(4000, 2)) * factor**0.5) / found.plan.ratio
    assert 0.5 * np.log1p(at.var(axis=0)).sum() < 0.1


def test_extras_hold_whatever_the_worlds_were():
    """Two worlds at opposite ends of the clip: their distance and their information are within the extras."""
    rng = np.random.default_rng(7)
    found = certify(rng.normal(size=(60, 3)), rng.normal(size=(240, 3)), 0.5, DIAG, Risk(1e-3))
    far = 1e9 * np.array([[1.0, 2.0, -1.0], [-1.0, -2.0, 1.0]])
    for axis in np.eye(3):
        ends = found.plan.positions(np.vstack([far, 1e9 * axis, -1e9 * axis])) / found.plan.ratio
        for one, other in combinations(ends, 2):
            assert ((one - other) ** 2).sum() / 2 <= found.zcdp
            assert 0.5 * np.log1p(np.var([one, other], axis=0)).sum() <= found.unconditional
    assert ((ends[0] - ends[1]) ** 2).sum() / 2 > 0.2 * found.zcdp  # no empty limit


def test_outputs_without_bounds_are_clipped_too():
    rng = np.random.default_rng(4)
    plan = certify(rng.normal(size=(100, 2)), rng.normal(size=(200, 2)), 0.5, DIAG, Risk(1e-3)).plan
    for far in (1e20, 1e154, 1e308, -1e308):
        assert 0 < np.linalg.norm(plan.clip * plan.positions(np.array([0.0, far])) / STEPS) <= 1.001


def test_a_certificate_counts_its_roundings(monkeypatch):
    """The limit is asked for values that are no smaller, and a width that is no smaller, than the exact ones."""
    asked = []
    monkeypatch.setattr(certificate, "betting_upper", lambda *given: asked.append(given) or betting_upper(*given))
    rng = np.random.default_rng(8)
    pilot, fresh = rng.normal(size=(40, 3)), 3 * rng.normal(size=(100, 3))
    found = certify(pilot, fresh, 0.5, DIAG, Risk(0.01))
    ((seen, widest, _),) = asked
    plan = calibrate(pilot, 0.5, DIAG)
    a = Tangent.of(plan.spread / STEPS**2, 0.5).ratios
    coarser = float((found.plan.step / plan.step)[0])
    at = replace(found.plan, step=plan.step, clip=found.plan.clip / coarser).positions(fresh)
    with mpmath.workdps(50):
        for value, row in zip(seen, at, strict=True):
            exact = sum(int(p) ** 2 / (1 + mpmath.mpf(float(r))) for p, r in zip(row, a, strict=True)) / (2 * STEPS**2)
            assert exact <= value <= widest


def test_a_pilot_that_never_moves_releases_a_constant():
    found = certify(np.ones((10, 2)), np.random.default_rng(0).normal(size=(30, 2)), 0.5, DIAG, Risk(0.01))
    assert (found.plan.mi, found.unconditional, found.zcdp, found.spent) == (0.0, 0.0, 0.0, 0)
    assert found.plan.positions(np.full(2, 9.0)).size == 0


def test_a_fit_looks_once_and_says_at_how_many_worlds():
    X = np.random.default_rng(0).random((60, 2))
    fitted = PACPrivatizer("mean", MI(0.25), worlds=500, mode="certified", worlds_seed=0).fit(X)
    assert fitted.calibrated_.certificate.worlds == 400
    assert fitted.report()["certified_on_worlds"] == 400
    assert fitted.calibrated_.confidence == 0.999
