"""The noise of every Gaussian calibration against sixty digits: it keeps what is stated, and no less noise does."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from epsworth.mechanisms import GaussianClipped
from epsworth.mechanisms.calibration import clipped_sigma, gaussian_sigma

mpmath.mp.dps = 60
WORST = {  # inputs at which rounding alone would break the promise, most of all where two tails cancel
    "analytic": [
        (3.38e-9, 3.76e-147),
        (3.95e-9, 1.62e-54),
        (1.81e-9, 1.46e-30),
        (4.97e-9, 1.24e-172),
        (1.37e-9, 1.5e-14),
    ],
    "exact_tail": [(1.42e-7, 1.19e-280), (1.33e-7, 1.53e-221), (0.00173, 3.49e-143), (0.0209, 1.82e-273)],
    "pure": [(0.957, 0.1), (0.883, 0.1), (0.912, 0.1), (2.01, 0.1), (5.53, 0.1), (56.0, 0.1), (1e-9, 0.1)],
    "clipped": [(37.8, 3.1e-263), (38.8, 1.19e-118), (114.0, 2.31e-13), (16.0, 3.12e-14), (1e-9, 1e-12)],
    "theorem4": [(1e-9, 0.99), (700.0, 1e-300), (1.0, 0.9999)],
}
CASES = [(calibration, *case) for calibration, cases in WORST.items() for case in cases]
USUAL = [
    ("analytic", 1.0, 1e-5),
    ("exact_tail", 1.0, 1e-5),
    ("pure", 1.0, 0.1),
    ("clipped", 1.0, 1e-5),
    ("clipped", 4.0, 0.3),
]


def sigmas(calibration, epsilon, delta):
    return clipped_sigma(epsilon, delta) if calibration == "clipped" else gaussian_sigma(epsilon, delta, calibration)


def tail(z):
    return mpmath.erfc(-z / mpmath.sqrt(2)) / 2


def needed(calibration, epsilon, sigma):
    """Return the delta at this epsilon (``pure``: the epsilon) that noise of this sigma keeps."""
    epsilon, s = mpmath.mpf(epsilon), mpmath.mpf(sigma)
    half, shift = 1 / (2 * s), epsilon * s
    if calibration == "analytic":
        return tail(half - shift) - mpmath.exp(epsilon) * tail(-half - shift)
    if calibration in ("exact_tail", "theorem4"):
        return tail(half - shift)
    if calibration == "pure":
        return -mpmath.log(2 * tail(-1 / s))
    best = max(mpmath.mpf(1) / 2 - epsilon * s * s, mpmath.mpf(0))  # the best event of clipped noise is 0..c
    return tail(best / s) - mpmath.exp(epsilon) * tail((best - 1) / s)


@pytest.mark.parametrize(("calibration", "epsilon", "delta"), CASES + USUAL)
def test_noise_keeps_its_promise_in_sixty_digits(calibration, epsilon, delta):
    sigma = float(sigmas(calibration, epsilon, delta))
    stated = epsilon if calibration == "pure" else delta
    assert needed(calibration, epsilon, sigma) <= stated
    if calibration != "theorem4":
        assert needed(calibration, epsilon, sigma * (1 - 3e-5)) > stated


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.957, 1.67, 2.01, 2.1, 30.0, 700.0])
def test_the_tight_epsilon_of_clipped_noise_is_not_below_the_truth(epsilon):
    for calibration in ("pure", "exact_tail"):
        mechanism = GaussianClipped(epsilon, calibration=calibration)
        assert needed("pure", epsilon, float(mechanism.sigma)) <= mechanism.tight_epsilon
        assert mechanism.tight_epsilon == pytest.approx(
            float(needed("pure", epsilon, float(mechanism.sigma))), rel=1e-6
        )


@pytest.mark.parametrize("sensitivity", [0.1, 1 / 3, 7.0])
def test_noise_for_another_sensitivity_is_not_rounded_down(sensitivity):
    epsilons = np.geomspace(0.01, 10, 50)
    scaled, plain = (gaussian_sigma(epsilons, 1e-5, sensitivity=s) for s in (sensitivity, 1.0))
    assert all(mpmath.mpf(a) >= mpmath.mpf(sensitivity) * mpmath.mpf(b) for a, b in zip(scaled, plain, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("calibration", WORST)
def test_twenty_thousand_noises_keep_their_promises(calibration):
    rng, n = np.random.default_rng(20), 20_000
    epsilon = np.minimum(10 ** rng.uniform(-9, 2.85, n), 700)
    delta = 10 ** np.concatenate([rng.uniform(-300, -14, n // 4), rng.uniform(-14, 0, n - n // 4)])
    stated = epsilon if calibration == "pure" else delta
    sigma = sigmas(calibration, epsilon, delta)
    for e, bound, s in zip(epsilon.tolist(), stated.tolist(), sigma.tolist(), strict=True):
        assert needed(calibration, e, s) <= bound, (e, bound)
