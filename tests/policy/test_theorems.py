"""Theorems 2, 3 and 4 of Zheng & Hu 2025, as printed and as corrected; accounting is (epsilon, delta)-DP by default."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import epsworth as ew
from epsworth.guarantees import Approximate, Probabilistic, compose
from epsworth.mechanisms import MECHANISMS


def test_theorem_2_composes_probabilistic_promises():
    assert compose([Probabilistic(1.0, 0.1)] * 2) == Probabilistic(2.0, 0.19, "record")
    share = 1 - math.sqrt(0.9)  # not .05, nor the paper's rounded .052
    whole = compose([Probabilistic(2.0, share)] * 2)
    assert whole.epsilon == 4
    assert 0.1 <= whole.delta < 0.1 + 1e-12


def test_theorem_2_is_loose_for_gaussians():
    """Two features at epsilon 2: the total loss is normal, and exceeds 4 far more rarely than the claimed 0.1."""
    sigma = float(ew.gaussian_sigma(2.0, 1 - math.sqrt(0.9), "theorem4"))
    mean, deviation = 2 / (2 * sigma**2), math.sqrt(2) / sigma
    assert norm.sf((4 - mean) / deviation) == pytest.approx(6.5e-5, rel=0.02)


@pytest.mark.parametrize(("epsilon", "failure"), [(1, 0.1238), (2, 0.1619), (4, 0.4178)])
def test_theorem_3_holds_as_approximate_dp_only(epsilon, failure):
    """The raw value coincides with a grid point, whose whole mass is then lost: not (epsilon, 0.1)-probabilistic DP."""
    delta = 0.1
    release = ew.PrivacyIndicator(MECHANISMS["krr"](float(epsilon)), delta)
    assert release.loss_exceeds() == pytest.approx(failure, abs=5e-5)
    grid = np.arange(101) / 100
    rows = np.array([release.law(x).pmf(grid) for x in (0.0, 0.37, 1.0)])
    for p in rows:
        for q in rows:
            assert np.maximum(p - np.exp(epsilon) * q, 0).sum() <= delta + 1e-12
    assert release.guarantee == Approximate(float(epsilon), delta)


def test_theorem_4_has_the_same_true_tail_at_every_epsilon():
    for delta in (0.1, 1e-5):
        for epsilon in (0.5, 2.0, 8.0):
            sigma = float(ew.gaussian_sigma(epsilon, delta, "theorem4"))
            tail = norm.sf(epsilon * sigma - 1 / (2 * sigma))
            assert tail == pytest.approx(norm.sf(math.sqrt(2 * math.log(2 / delta))), rel=1e-9)
            assert tail < delta / 10


def test_accounting_is_approximate_dp_unless_asked_for():
    assert MECHANISMS["gaussian_clipped"](1.0, delta=0.1).guarantee.notion == "approximate"
    assert MECHANISMS["gaussian_clipped"](1.0, delta=0.1, calibration="theorem4").guarantee.notion == "probabilistic"
