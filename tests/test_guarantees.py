"""Promises, their composition, and the ceiling."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

import epsworth as ew
from epsworth.guarantees import Approximate, Probabilistic, Pure, ceiling, compose, epsilon_needed
from epsworth.mechanisms import MECHANISMS, PM, GaussianClipped, Laplace, PrivacyIndicator, gaussian_sigma, hockey_stick
from epsworth.mechanisms.record import record_release
from epsworth.space import Feature


@given(st.lists(st.floats(1e-6, 50), min_size=1, max_size=60))
def test_composed_epsilon_is_never_below_the_sum(parts):
    whole = compose([Pure(epsilon) for epsilon in parts])
    assert whole.unit == "record"
    assert Fraction(whole.epsilon) >= sum(map(Fraction, parts))
    assert whole.epsilon == pytest.approx(math.fsum(parts), rel=1e-12)


def test_the_weakest_notion_wins():
    assert compose([Pure(1), Probabilistic(1, 0.1)]).notion == "probabilistic"
    assert compose([Probabilistic(1, 0.1), Approximate(1, 0.1)]).notion == "approximate"
    assert compose([Approximate(1, 0.1)] * 2).delta == pytest.approx(0.19, abs=1e-12)  # not 0.1: paper, C.5.1
    with pytest.raises(ValueError, match="nothing to compose"):
        compose([])


def test_printed_losses_are_never_below_the_promise():
    assert "epsilon 12.3457 " in str(Pure(12.34561))
    assert "epsilon 60.0001 " in str(compose([Pure(20.00001)] * 3))
    assert "delta 0.00001004 " in str(Approximate(1.0, 1.004e-5))
    assert "delta 1E-30 " in str(Approximate(1.0, 1e-30))


def test_every_promise_prints_its_unit():
    for promise in (Pure(2.0), Probabilistic(2.0, 0.1), Approximate(2.0, 1e-5)):
        assert "epsilon 2" in str(promise)
        assert "per feature" in str(promise)
        assert "per record" in str(compose([promise]))


@given(epsilon=st.floats(0, 30), labels=st.integers(1, 20), delta=st.floats(0, 1))
def test_ceiling_matches_its_closed_forms(epsilon, labels, delta):
    cap = ceiling(epsilon, labels, delta)
    assert 1 / labels <= cap + 1e-12
    assert cap <= 1
    if labels == 2:
        assert cap == pytest.approx((math.exp(epsilon) + delta) / (math.exp(epsilon) + 1), abs=1e-12)
    if delta == 0:
        assert cap == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + labels - 1), abs=1e-12)


@given(p=st.floats(0.5, 0.9999), labels=st.integers(2, 10), delta=st.sampled_from([0.0, 1e-5, 0.1]))
def test_epsilon_needed_inverts_the_ceiling(p, labels, delta):
    epsilon = epsilon_needed(p, labels, delta)
    if epsilon > 0:
        assert ceiling(epsilon, labels, delta) == pytest.approx(p, abs=1e-9)
    else:
        assert ceiling(0.0, labels, delta) >= p - 1e-12


@pytest.mark.parametrize(
    "bad", [(-1, 2, 0), (math.nan, 2, 0), (1, 0, 0), (1, True, 0), (1, 2.5, 0), (1, 2, -0.1), (1, 2, 1.1)]
)
def test_ceiling_refuses_nonsense(bad):
    with pytest.raises(ValueError, match="must"):
        ceiling(*bad)


@pytest.mark.parametrize("name", [n for n, kind in MECHANISMS.items() if n not in ("gaussian", "gaussian_clipped")])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_the_ceiling_is_never_exceeded(name, epsilon):
    """Exact stability at every input of a threshold and a three-label classifier (property test 10)."""
    x = np.linspace(0, 1, 401)
    law = MECHANISMS[name](epsilon).law(x)
    for cuts in ([0.37], [0.2, 0.71]):
        marks = np.array([-np.inf, *cuts, np.inf])
        label = np.searchsorted(cuts, x, side="left")  # x <= cut goes left
        edges_left = np.where(label > 0, np.nextafter(marks[label], 1), -np.inf)
        rho = law.mass(edges_left, marks[label + 1])
        assert rho.min() <= ceiling(epsilon, len(cuts) + 1) + 1e-12


def test_gaussian_calibrations_are_tight_and_err_to_privacy():
    for epsilon in (1e-3, 0.1, 1.0, 4.0, 20.0, 100.0):
        for delta in (0.3, 0.1, 1e-5, 1e-9):
            sigma = gaussian_sigma(epsilon, delta)
            assert hockey_stick(sigma, epsilon) <= delta
            assert hockey_stick(sigma * (1 - 1e-5), epsilon) > delta
            root = brentq(lambda s, e=epsilon, d=delta: float(hockey_stick(np.exp(s), e)) - d, -12, np.log(sigma) + 1)
            assert float(sigma) == pytest.approx(np.exp(root), rel=1e-5)
            tail = gaussian_sigma(epsilon, delta, "exact_tail")
            assert norm.sf(epsilon * tail - 1 / (2 * tail)) == pytest.approx(delta, rel=1e-6)
            assert sigma <= tail <= gaussian_sigma(epsilon, delta, "theorem4")


def test_clipping_can_break_the_probabilistic_promise():
    """Probabilistic DP is not closed under post-processing: at delta = 0.4 the clipped atom loses more.

    The atom at 1 has mass 1/2 under x = 1 and a loss above epsilon, so the loss exceeds epsilon with
    probability 1/2 > 0.4: the guarantee must not say probabilistic.
    """
    mechanism = GaussianClipped(0.3, delta=0.4, calibration="exact_tail")
    ones, zeros = mechanism.law(1.0).pmf(1.0), mechanism.law(0.0).pmf(1.0)
    assert np.log(ones / zeros) > 0.3
    assert ones > 0.4
    assert mechanism.guarantee.notion == "approximate"
    assert GaussianClipped(1.0, delta=0.1, calibration="exact_tail").guarantee.notion == "probabilistic"


@pytest.mark.parametrize(("epsilon", "expected"), [(1, 0.634), (2, 1.294), (4, 2.685), (8, 5.651)])
def test_clipped_gaussian_has_a_pure_loss(epsilon, expected):
    tight = GaussianClipped(epsilon, delta=0.1, calibration="exact_tail").tight_epsilon
    assert tight == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 8.0, 100.0, 700.0])
def test_the_pure_calibration_is_the_least_clipped_noise_that_keeps_epsilon(epsilon):
    mechanism = GaussianClipped(epsilon, calibration="pure")
    assert mechanism.guarantee == Pure(epsilon)
    assert epsilon * (1 - 1e-10) <= mechanism.tight_epsilon <= epsilon
    law = mechanism.law([0.0, 1.0])  # the atoms at opposite ends are the worst outputs
    with np.errstate(divide="ignore"):
        assert np.log(law.pmf(0.0)[0]) - np.log(law.pmf(0.0)[1]) <= epsilon * (1 + 1e-12)
    if epsilon == 1:
        assert float(mechanism.sigma) == pytest.approx(1.110, abs=1e-3)
    with pytest.raises(ValueError, match="use gaussian_clipped"):
        MECHANISMS["gaussian"](epsilon, calibration="pure")


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1, 0.3, 0.45, 0.6])
@pytest.mark.cases(1)
def test_clipped_gaussian_noise_is_the_least_that_keeps_epsilon_and_delta(epsilon, delta):
    """Against the definition: the best event 0..c of the clipped outputs, over many c."""
    c = np.linspace(0, 1, 20_001)[:-1]

    def needed(sigma):
        return float((norm.cdf(c / sigma) - np.exp(epsilon) * norm.cdf((c - 1) / sigma)).max())

    mechanism = GaussianClipped(epsilon, delta=delta)
    assert needed(mechanism.sigma) <= delta * (1 + 1e-9) + 1e-15
    assert needed(mechanism.sigma * (1 - 1e-4)) > delta
    assert mechanism.sigma <= gaussian_sigma(epsilon, delta)
    grid = GaussianClipped(np.array([[epsilon, 2.0]]), delta=delta)
    alone = [float(mechanism.sigma), float(GaussianClipped(2.0, delta=delta).sigma)]
    assert grid.sigma[0].tolist() == pytest.approx(alone, rel=1e-12)
    if delta == 1e-5 and epsilon == 1:
        assert mechanism.tight_epsilon == pytest.approx(1, abs=3e-5)  # unclipped noise kept 0.237 of it


def test_gaussian_options_are_checked():
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1, got 0"):
        MECHANISMS["gaussian"](1.0, delta=0)
    with pytest.raises(
        ValueError, match="calibration must be one of 'analytic', 'exact_tail', 'theorem4', 'pure', got 'x'"
    ):
        MECHANISMS["gaussian"](1.0, calibration="x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, 0.1, "theorem5"), "calibration must be one of"),
        ((1.0, 0.0), "delta must lie strictly between 0 and 1, got 0"),
        ((-1.0, 0.1), "epsilon must be positive and finite, got -1"),
        ((1.0, 0.1, "analytic", 0.0), "sensitivity must be positive"),
    ],
)
def test_gaussian_sigma_checks_its_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        gaussian_sigma(*arguments)


def test_the_indicator_tosses_one_coin_for_the_record():
    features = (Feature("a", 0, 1), Feature("b", 0, 1))
    release = record_release(PrivacyIndicator(PM(2.0), 0.1), features)
    assert (release.guarantee.epsilon, release.guarantee.delta) == (4.0, 0.1)
    assert release.guarantee.notion == "approximate"
    assert release.reveal == 0.1
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        PrivacyIndicator(PM(1.0), 1.0)


def test_indicator_loses_more_where_the_raw_value_meets_an_atom():
    assert PrivacyIndicator(Laplace(1.0), 0.1).loss_exceeds() == pytest.approx(0.1)
    clipped = PrivacyIndicator(MECHANISMS["laplace_clipped"](1.0), 0.1)
    assert clipped.loss_exceeds() == pytest.approx(0.1 + 0.9 * 0.5)
    assert "raw record" in clipped.cost


def test_categorical_features_get_randomised_response_and_grids_are_honoured():
    features = (Feature("age", 0, 100), Feature("sex", categories=("f", "m")), Feature("rank", 0, 10, points=11))
    release = record_release(ew.MECHANISMS["exponential_tight"](1.5), features)
    age, sex, rank = release.mechanisms
    assert (age.k, sex.k, rank.k) == (101, 2, 11)
    assert type(sex).__name__ == "KRR"
    assert release.guarantee == Pure(4.5, "record")
