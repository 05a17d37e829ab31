"""Noise, ex-post losses, profiles, balls, releases."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from exposure_worlds import REFERENCE, SMALL, world
from scipy import integrate, stats

from epsworth.exposure import (
    ExposureError,
    OutputPerturbation,
    fit_base,
    kernels,
    loo,
    profile,
    release,
    releasing,
    sensitivity,
    typical_profile,
)

DRAWS = 100_000


@pytest.mark.parametrize(("X", "y", "case"), SMALL)
def test_reference_losses(X, y, case):
    f = fit_base(X, y, case["Lambda"])
    found = loo(X, y, f, case["Lambda"], "exact")
    beta = case["epsilon"] / sensitivity(len(X), case["Lambda"])
    assert beta == pytest.approx(case["beta"], rel=1e-12)
    np.testing.assert_allclose(beta * found.distances, case["per_instance_eps"], rtol=1e-8)
    for entry in case["privacy_loss"]:
        at = profile(found, entry["M"], beta)
        np.testing.assert_allclose(at.losses, entry["l"], atol=1e-9)
        np.testing.assert_allclose(at.ranked, entry["profile_sorted_abs"], atol=1e-9)
        assert at.rows.tolist() == entry["rank_order_ascending"]
        assert (np.abs(at.losses) <= beta * found.distances * (1 + 1e-12)).all()


def test_numbers_that_would_overflow_are_refused_in_a_sentence():
    X, y = world(20, 3)
    found, noise, huge = loo(X, y, fit_base(X, y, 0.1), 0.1), OutputPerturbation(3, 1.0), [1e308] * 3
    for ask, message in (
        (lambda: OutputPerturbation(3, 1e308), "rate positive"),
        (lambda: OutputPerturbation(3, 1e-308), "rate positive"),
        (lambda: profile(found, huge, 1e308), "rate positive"), (lambda: profile(found, huge, 1.0), "noise must lie"),
        (lambda: noise.losses([huge], [0] * 3), "deltas must lie"), (lambda: noise.logpdf(huge), "noise must lie"),
        (lambda: noise.ball([1e308], 1.0), "rate times distance"),
        (lambda: noise.ball([1.0], 1e308), "rate times radius"),
        (lambda: noise.logpdf(np.zeros(4)), r"noise must have shape \(..., 3\)"), (lambda: noise.logpdf(0.0), "shape"),
        (lambda: noise.sample(10**13, np.random.default_rng(0)), "count must be a whole number"),
    ):  # fmt: skip
        with pytest.raises(ExposureError, match=message):
            ask()
    most = OutputPerturbation(2, 1e90)
    assert np.isfinite(most.losses([[1e90, 1e90]], [1e90, -1e90])).all()
    assert noise.logpdf(np.zeros((2, 5, 3))).shape == (2, 5)


@pytest.mark.parametrize("d", [1, 2, 109, 10**6])
def test_every_advantage_below_one_has_its_distance(d):
    last, law = math.nextafter(1.0, 0.0), kernels(d)
    down, up = (law.inverse_adv([0.5, last], upwards=way) for way in (False, True))
    assert np.isfinite([down, up]).all()
    assert (law.adv(down) <= [0.5, last]).all()
    assert (law.adv(up) >= [0.5 * (1 - 1e-10), last * (1 - 1e-10)]).all()
    assert (down <= up).all()


@pytest.mark.parametrize("d", [1, 2, 3, 50])
def test_noise_has_its_moments(d):
    """Seed 11; 4.5 standard errors on four statistics of four laws: false alarm 1.1e-4."""
    noise = OutputPerturbation(d, 3.0)
    b = noise.sample(DRAWS, np.random.default_rng(11))
    radius = np.linalg.norm(b, axis=1)
    for sample, mean in (
        (radius, d / 3),
        ((radius - d / 3) ** 2, d / 9),
        (b[:, 0] ** 2, (d + 1) / 9),
        (b[:, 0], 0.0),
    ):
        assert abs(sample.mean() - mean) <= 4.5 * sample.std() / math.sqrt(DRAWS)
    assert stats.kstest(b[:, 0] / radius > 0, "uniform").statistic < 0.51


def test_directions_are_uniform():
    """Seed 12; Kolmogorov-Smirnov at level 1e-4."""
    b = OutputPerturbation(2, 1.0).sample(20_000, np.random.default_rng(12))
    assert stats.kstest((np.arctan2(b[:, 1], b[:, 0]) / (2 * np.pi)) % 1, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_the_density_integrates_to_one(d):
    """The published constant beta/2 does so in one dimension only."""
    noise = OutputPerturbation(d, 2.0)
    sphere = 2 * math.pi ** (d / 2) / math.gamma(d / 2)

    def shell(r):
        return sphere * r ** (d - 1) * math.exp(noise.logpdf(np.eye(d)[0] * r))

    assert integrate.quad(shell, 0, 60)[0] == pytest.approx(1, rel=1e-7)
    assert (math.exp(noise.logpdf(np.zeros(d))) == pytest.approx(1.0)) == (d == 1)


def test_losses_are_differences_of_log_densities():
    rng = np.random.default_rng(2)
    noise, deltas, b = OutputPerturbation(4, 1.7), rng.normal(size=(30, 4)), rng.normal(size=4)
    expected = noise.logpdf(b) - noise.logpdf(b - deltas)
    np.testing.assert_allclose(noise.losses(deltas, b), expected, atol=1e-12)
    assert noise.losses(np.zeros((1, 4)), np.zeros(4)) == 0
    tiny = noise.losses(deltas * 1e-14, b)  # the naive difference has no digit left here
    np.testing.assert_allclose(tiny, -1.7e-14 * deltas @ b / np.linalg.norm(b), rtol=1e-9)


def test_balls():
    for entry in REFERENCE["closed_forms"]["ball_coverage_at_centre"]:
        found = OutputPerturbation(entry["d"], 1.0).ball([0.0], entry["beta_c"])
        assert found[0] == pytest.approx(entry["mass"], rel=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3, 9])
def test_balls_agree_with_draws_and_shrink_to_the_density(d):
    """Seed 13; 4.5 standard errors on three distances of four laws: false alarm 8e-5."""
    noise = OutputPerturbation(d, 2.0)
    b = noise.sample(DRAWS, np.random.default_rng(13))
    far = np.array([0.3, d / 2, d / 1.2])
    share = (np.linalg.norm(b[:, None] - far[:, None] * np.eye(d)[0], axis=2) < d / 2).mean(axis=0)
    found = noise.ball(far, d / 2)
    assert (np.abs(share - found) <= 4.5 * np.sqrt(found * (1 - found) / DRAWS) + 1e-12).all()
    volume = math.pi ** (d / 2) / math.gamma(d / 2 + 1) * 1e-3**d
    np.testing.assert_allclose(noise.ball([0.7], 1e-3), np.exp(noise.logpdf(0.7 * np.eye(d)[:1])) * volume, rtol=1e-4)


def test_a_large_fixed_radius_covers_everything():
    """A cutoff of order one says nothing when rows move the model by 1e-5."""
    assert OutputPerturbation(2, 24421.0).ball([1e-5], 1.0) == pytest.approx(1.0)


def test_typical_profiles_average_over_models():
    """Seed 14; the sampled ranks and the exact means have one sum: 4.5 standard errors, false alarm 7e-6."""
    X, y = world(60, 3)
    found = loo(X, y, fit_base(X, y, 0.1), 0.1)
    typical = typical_profile(found, 3.0, rng=np.random.default_rng(14), draws=4000)
    assert (np.diff(typical.ranked) >= 0).all()
    np.testing.assert_allclose(typical.mean_abs, kernels(3).abs(3.0 * found.distances), rtol=1e-12)
    spread = 3.0 * found.distances.sum() / math.sqrt(4000)  # each loss is at most u in size
    assert abs(typical.ranked.sum() - typical.mean_abs.sum()) <= 4.5 * spread
    assert (typical.kl <= typical.mean_abs).all()


def test_rankings_do_not_depend_on_beta():
    X, y = world(60, 3)
    found = loo(X, y, fit_base(X, y, 0.1), 0.1)
    assert (profile(found, [0.1, 0.2, 0.3], 1.0).rows == profile(found, [0.1, 0.2, 0.3], 1e4).rows).all()


def test_releases_lie_on_a_public_lattice_and_charge_for_it():
    X, y = world(400, 3)
    found = release(X, y, 0.1, 1.0, n=400)
    assert np.array_equal(found.coefficients / found.step, np.rint(found.coefficients / found.step))
    assert found.step <= 1 / (1024 * found.rate)
    whole = sensitivity(400, 0.1) + found.step * math.sqrt(3) + 2e-12 / 0.1
    assert found.rate <= 1.0 / whole
    assert found.rate >= 0.999 / sensitivity(400, 0.1)
    assert str(found).endswith("epsilon 1 per row replaced, added or removed")
    other = release(-X[::-1], y, 0.1, 1.0, n=400)
    assert (other.step, other.rate) == (found.step, found.rate)  # functions of public numbers only


@pytest.mark.slow
def test_release_noise_follows_the_law():
    """Unseeded by design; Kolmogorov-Smirnov of radius and angle at level 1e-6 each."""
    b = np.array([releasing._noise(2, 3.0, 1e-9) for _ in range(3000)]) * 1e-9
    radius = np.linalg.norm(b, axis=1)
    assert stats.kstest(radius, stats.gamma(2, scale=1 / 3).cdf).pvalue > 1e-6
    assert stats.kstest((np.arctan2(b[:, 1], b[:, 0]) / (2 * np.pi)) % 1, "uniform").pvalue > 1e-6
    assert all(0 < releasing._uniform() <= Decimal(1) for _ in range(100))


def test_releases_refuse_what_their_noise_does_not_cover():
    X, y = world(50, 2)
    with pytest.raises(ExposureError, match="X has 50 rows, fewer than the public n = 60"):
        release(X, y, 0.1, 1.0, n=60)
    with pytest.raises(ExposureError, match="epsilon must be positive and finite, got 0"):
        release(X, y, 0.1, 0, n=50)
    with pytest.raises(ExposureError, match="rate positive"):
        OutputPerturbation(2, 0.0)
    with pytest.raises(ExposureError, match="deltas must have shape"):
        OutputPerturbation(2, 1.0).losses([[1.0]], [1.0, 2.0])
    with pytest.raises(ExposureError, match="radius must be positive"):
        OutputPerturbation(2, 1.0).ball([0.1], 0.0)
