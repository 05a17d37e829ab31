"""Noise rules, frames, the integer lattice, and the certificate."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import chi2, norm

from epsworth.bounds import Risk
from epsworth.pac import allocate, dp_posterior, generalised_prior, posterior, procrustes, tpr_bound
from epsworth.pac.allocation import (
    RULES,
    STEPS,
    RoundedGaussian,
    gaussian_bound,
    individual_allocation,
    individual_bound,
    mean_second_moments,
    mean_variances,
)
from epsworth.pac.calibration import MOST_NATS, Shape, calibrate, frame_of
from epsworth.pac.exposure import expose

variances = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=8)
budgets = st.floats(1e-3, 8)


@given(s=variances, beta=budgets)
def test_every_rule_keeps_the_budget_and_optimal_has_the_least_trace(s, beta):
    traces = {}
    for rule in RULES:
        noise = allocate(s, beta, rule)
        assert gaussian_bound(s, noise) <= beta * (1 + 1e-12)
        traces[rule] = noise.sum()
    assert traces["optimal"] <= min(traces.values()) * (1 + 1e-9)
    assert gaussian_bound(s, allocate(s, beta)) == pytest.approx(beta, rel=1e-9)
    assert gaussian_bound(s, allocate(s, beta, "isotropic_exact")) == pytest.approx(beta, rel=1e-9)


@given(s=variances, beta=budgets, scale=st.sampled_from([1e-200, 1e-10, 1e150]))
def test_noise_follows_the_scale_of_the_outputs(s, beta, scale):
    np.testing.assert_allclose(allocate(np.array(s) * scale, beta), scale * allocate(s, beta), rtol=1e-9)


@given(s=st.lists(st.floats(0.01, 10), min_size=2, max_size=5), beta=st.floats(0.05, 4), seed=st.integers(0, 99))
def test_no_allocation_nearby_is_cheaper(s, beta, seed):
    """Move along the constraint: any other noise of the same bound has a larger weighted sum."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 5, len(s))
    best = allocate(s, beta, weights=weights)
    other = best * np.exp(rng.normal(0, 0.3, len(s)))
    other *= np.exp(_root(lambda t: gaussian_bound(s, other * math.exp(t)) - beta))
    assert weights @ best <= weights @ other * (1 + 1e-9)


def _root(falling):
    low, high = -30.0, 30.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return high


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: allocate([-1.0], 1.0), "none negative"),
        (lambda: allocate([1.0], 0.0), "mi must be positive"),
        (lambda: allocate([1.0], 1.0, "best"), "noise rule must be one of optimal"),
        (lambda: allocate([1.0], 1.0, "paper", weights=[1.0]), "weights belong to the rule 'optimal'"),
        (lambda: allocate([1.0, 2.0], 1.0, weights=[1.0]), "weights must be 2 positive numbers"),
        (lambda: posterior(-1, 0.5), "mi must be a number of nats"),
        (lambda: posterior(float("nan"), 0.5), "mi must be a number of nats"),
        (lambda: posterior(1, 0), r"prior must lie in \(0, 1\]"),
        (lambda: dp_posterior(-1), "epsilon must be finite"),
        (lambda: tpr_bound(1, 0.5, 2), r"fpr must lie in \[0, 1\]"),
        (lambda: generalised_prior(10, 11, 5, 2), "must not exceed n = 10"),
        (lambda: procrustes([[1.0]], [[1.0, 2.0]]), "two matrices of one shape"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_conversions_err_upwards_and_invert():
    for mi in (1e-9, 1e-3, 0.1, 0.5):
        for prior in (0.5, 0.9, 1e-6):
            q = posterior(mi, prior)
            assert q >= prior
            if q < 1:
                divergence = q * math.log(q / prior) + (1 - q) * math.log((1 - q) / (1 - prior))
                assert divergence >= mi * (1 - 1e-6)


def test_the_table_is_the_rounded_gaussian():
    """All masses against differences of the distribution function, the total exactly, both moments."""
    law = RoundedGaussian(STEPS * 1.3)
    steps = np.arange(-law.reach, law.reach + 1)
    masses = law.masses.astype(float) / 2.0**64
    assert int(law.masses.sum(dtype=np.uint64)) == 0  # 2**64
    truth = norm.cdf((steps + 0.5) / law.ratio) - norm.cdf((steps - 0.5) / law.ratio)
    np.testing.assert_allclose(masses, truth, atol=1e-15)
    assert (law.masses == law.masses[::-1]).all()
    assert (masses * steps**2).sum() == pytest.approx(law.ratio**2 + 1 / 12, rel=1e-9)
    np.testing.assert_allclose(np.exp(law.log_mass(steps[law.reach : law.reach + 9])), masses[law.reach :][:9])
    assert law.log_mass(np.array([law.reach + 1])).item() == -math.inf


def test_words_become_steps_by_their_rank():
    law = RoundedGaussian(float(STEPS))
    ends = np.array([0, 2**64 - 1, 2**63], dtype=np.uint64)
    low, high, middle = law.from_words(ends)
    assert -law.reach <= low < -8 * STEPS
    assert 8 * STEPS < high <= law.reach
    assert middle == 0


def test_noise_has_the_variance_that_was_allocated():
    """Regression: noise *variances* are variances (an early public version drew them as deviations).

    The sum of squares is chi-squared; two-sided at 1e-6.
    """
    outputs = np.random.default_rng(3).normal(size=(64, 3)) * [0.1, 1.0, 30.0]
    plan = calibrate(outputs, 0.5, Shape(basis="diag"))
    words = np.random.default_rng(4).integers(0, 2**64, size=(20_000, 3), dtype=np.uint64)
    released = plan.released(plan.law.from_words(words)) - plan.frame.centre
    ratio = (released**2).sum(axis=0) / plan.noise
    low, high = chi2.ppf([5e-7, 1 - 5e-7], 20_000)
    assert ((low < ratio) & (ratio < high)).all()


def test_release_noise_cannot_be_seeded():
    law = RoundedGaussian(float(STEPS))
    np.random.seed(0)  # noqa: NPY002  # the point: no seed reaches it
    first = law.draw(8)
    np.random.seed(0)  # noqa: NPY002
    assert (first != law.draw(8)).any()  # false alarm below 1e-20


@pytest.mark.parametrize("basis", ["diag", "svd"])
@pytest.mark.parametrize("beta", [1e-3, 0.25, 4.0, 19.0])
def test_calibration_pays_for_the_grid(basis, beta):
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(100, 4)) @ rng.normal(size=(4, 6)) + 5  # rank 4
    plan = calibrate(outputs, beta, Shape(basis=basis))
    assert len(plan.frame) == (4 if basis == "svd" else 6)
    grid = plan.positions(outputs) * plan.step
    assert gaussian_bound(grid.var(axis=0), plan.noise) <= beta
    assert plan.mi == pytest.approx(beta, rel=1e-4)
    assert (plan.step <= np.sqrt(plan.noise) / 1024).all()
    full = 0.5 * np.linalg.slogdet(np.eye(len(plan.noise)) + np.cov(grid.T, bias=True) / plan.noise)[1]
    assert full <= plan.mi + 1e-12  # Hadamard


def test_what_gets_no_noise_is_released_as_the_pools_constant():
    """A direction without noise must not pass the secret's own value, however small its deviation."""
    outputs = np.column_stack([np.random.default_rng(0).normal(size=64), np.full(64, 7.0), np.zeros(64)])
    outputs[:, 2] = 1e-30 * np.arange(64)
    for basis in ("diag", "svd"):
        plan = calibrate(outputs, 1.0, Shape(basis=basis))
        released = plan.released(plan.positions(outputs))
        assert (released[:, 1] == 7.0).all()
        if basis == "svd":  # below the rank tolerance
            assert np.ptp(released[:, 2]) == 0
        else:  # it varies, so it gets noise
            assert len(plan.frame) == 2


@pytest.mark.parametrize("rule", RULES)
def test_variances_of_any_size_get_finite_noise(rule):
    for variances in ([1e300, 1e-300], [1e-310, 1.0], [5e-324, 5e-324], [1e-10] * 3):
        for beta in (1e-6, 1.0, 20.0):
            noise = allocate(variances, beta, rule)
            assert np.isfinite(noise).all()
            assert gaussian_bound(variances, noise) <= beta * (1 + 1e-12)


def test_svd_never_costs_more_than_the_coordinates():
    rng = np.random.default_rng(1)
    outputs = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3))
    for beta in (1 / 64, 1.0, 4.0):
        turned, plain = (calibrate(outputs, beta, Shape(basis=basis)).trace for basis in ("svd", "diag"))
        assert turned <= plain * (1 + 1e-6)


@pytest.mark.parametrize("beta", [1 / 16, 2.0])
def test_weighted_noise_is_the_least_of_all_gaussian_noises(beta):
    """Two ways: eigenvectors of W^1/2 S W^1/2 taken back, against random covariances brought to the same budget."""
    rng = np.random.default_rng(4)
    outputs = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3))
    weights = np.array([9.0, 1.0, 0.25])
    S = np.cov(outputs.T, ddof=0)

    def budget_of(E):
        return 0.5 * np.linalg.slogdet(np.eye(3) + S @ np.linalg.inv(E))[1]

    plan = calibrate(outputs, beta, Shape(weights=weights))
    back = plan.frame.axes.T / plan.frame.units[:, np.newaxis]
    E = back @ np.diag(plan.noise) @ back.T
    assert budget_of(E) == pytest.approx(beta, rel=1e-5)  # the grid moves variances a little
    assert plan.trace == pytest.approx(weights @ np.diag(E))
    np.testing.assert_allclose(plan.frame.vectors(plan.frame.coordinates(outputs)), outputs)
    by_coordinates = calibrate(outputs, beta, Shape(basis="diag", weights=weights))
    np.testing.assert_allclose(by_coordinates.noise / weights, allocate(np.diag(S), beta, weights=weights), rtol=1e-4)
    assert plan.trace <= by_coordinates.trace
    for _ in range(200):
        root = np.linalg.cholesky(E) @ (np.eye(3) + 0.1 * rng.normal(size=(3, 3)))
        near = root @ root.T
        scale = brentq(lambda c, near=near: budget_of(c * near) - beta, 1e-3, 1e3, xtol=1e-14)
        assert weights @ np.diag(scale * near) >= plan.trace * (1 - 1e-5)


def test_frames_use_no_square_matrix():
    outputs = np.random.default_rng(0).normal(size=(16, 20_000)).astype(float)
    frame, _ = frame_of(outputs, Shape(basis="svd"))
    assert frame.axes.shape[0] <= 16
    frame, _ = frame_of(outputs, Shape(basis="diag"))
    assert frame.axes.shape == (20_000,)
    np.testing.assert_allclose(frame.vectors(frame.coordinates(outputs)), outputs)


@pytest.mark.slow
def test_a_records_own_information_stays_below_its_bound():
    """All 70 halves of 8 rows, so that simulated truth and the coupling's bound speak of the same law.

    Monte Carlo error of the information below 0.002 (200 000 draws of a variable of deviation below 0.15: 5 sigma).
    """
    pool = np.random.default_rng(2).normal(size=(8, 2)) * [1.0, 0.2]
    members = np.array([[i in half for i in range(8)] for half in combinations(range(8), 4)])
    outputs = np.array([pool[half].mean(axis=0) for half in members])
    np.testing.assert_allclose(outputs.var(axis=0), mean_variances(pool, 4))
    moments = mean_second_moments(pool, 4)
    for beta in (0.02, 0.25):
        noise = individual_allocation(moments, beta)
        bound = individual_bound(moments, noise)
        truth = expose(
            outputs / np.sqrt(noise), members, np.random.default_rng(0), draws=200_000, risk=Risk(0.01)
        ).record_mi
        assert (bound <= beta * (1 + 1e-12)).all()
        assert (truth <= bound + 0.002).all()
        assert truth.max() > 0.2 * beta  # the bound is no empty one


def test_budgets_that_promise_nothing_are_refused():
    with pytest.raises(ValueError, match="promises nothing"):
        calibrate(np.zeros((4, 2)), MOST_NATS + 1)
