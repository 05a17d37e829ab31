"""Kernels: reference values, identities, closed forms, independent quadratures, the table against the integral."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from coverage_worlds import REFERENCE
from scipy import integrate, special, stats

from epsworth.coverage import CoverageError, kernels

DIMENSIONS = [1, 2, 3, 4, 7, 30, 109, 1000]
U = np.array([1e-3, 0.1, 1.0, 2.5, 10.0, 60.0])


def test_reference_values():
    for entry in REFERENCE["kernels"]:
        law, u = kernels(entry["d"]), entry["u"]
        assert law.kl(u) == pytest.approx(entry["kl"], rel=1e-9)
        assert law.abs(u) == pytest.approx(entry["mean_abs_loss"], rel=1e-9)
        assert law.adv(u) == pytest.approx(entry["tv"], rel=1e-9)
    for entry in REFERENCE["tv_thresholds"]:
        assert kernels(entry["d"]).inverse_adv(entry["tv"]) == pytest.approx(entry["u"], rel=1e-9)
    for entry in REFERENCE["loss_survival"]:
        assert kernels(entry["d"]).survival(entry["u"], entry["t"]) == pytest.approx(entry["P_loss_ge_t"], rel=1e-9)
    for entry in REFERENCE["hockey_stick"]:
        assert kernels(entry["d"]).delta(entry["u"], entry["eps"]) == pytest.approx(entry["delta"], rel=1e-6)
    for d, constant in REFERENCE["closed_forms"]["plateau_constant_E|cos|"].items():
        assert kernels(int(d)).abs(1e-7) / 1e-7 == pytest.approx(constant, rel=1e-6)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_identities(d):
    law = kernels(d)
    adv = law.adv(U)
    np.testing.assert_allclose(law.delta(U, 0.0), adv, rtol=1e-10)
    np.testing.assert_allclose(law.survival(U, 0.0), (1 + adv) / 2, rtol=1e-10)
    share = U / 3
    lower = 1 - law.survival(U, -share)
    np.testing.assert_allclose(law.delta(U, share), law.survival(U, share) - np.exp(share) * lower, atol=1e-8)
    assert (law.kl(U) <= law.abs(U)).all()
    assert (law.abs(U) <= U).all()
    assert (np.abs(law.kl(U)) >= 2 * adv**2 * (1 - 1e-9)).all()  # Pinsker
    np.testing.assert_allclose(law.kl(1e-4) / (1e-8 / (2 * d)), 1, rtol=1e-3)
    np.testing.assert_allclose(law.kl(1e6) / 1e6, 1, rtol=1e-3)
    assert (law.survival(U, -U) == 1).all()
    assert (law.survival(U, 1.001 * U) == 0).all()
    assert (law.delta(U, U) == 0).all()
    assert law.adv(0.0) == law.kl(0.0) == law.abs(0.0) == 0


def test_closed_forms_in_one_and_three_dimensions():
    np.testing.assert_allclose(kernels(1).adv(U), -np.expm1(-U / 2), rtol=1e-13)
    np.testing.assert_allclose(kernels(1).kl(U), U + np.expm1(-U), rtol=1e-9)
    np.testing.assert_allclose(kernels(3).adv(U), -np.expm1(-U / 2) - np.exp(-U / 2) * U / 4, rtol=1e-9, atol=1e-12)


def mixture_survival(d, u, t):
    """Integrate over the radius: the other way to the same number (smooth pieces; d >= 2)."""

    def cosine_below(c):
        return special.betainc((d - 1) / 2, (d - 1) / 2, (1 + np.clip(c, -1, 1)) / 2)

    def integrand(r):
        return stats.gamma.pdf(r, d) * cosine_below((u * u - t * t - 2 * r * t) / (2 * u * r))

    cuts = sorted({0.0, abs((u - t) / 2), abs((u + t) / 2), u, 2 * u, d + 0.0, d + 10 * np.sqrt(d) + 40})
    return sum(integrate.quad(integrand, a, b, limit=400, epsabs=1e-12)[0] for a, b in itertools.pairwise(cuts))


@pytest.mark.parametrize(("d", "u"), [(2, 1.0), (2, 6.0), (3, 0.3), (5, 4.0), (12, 9.0), (40, 12.0)])
def test_survival_agrees_with_the_mixture_over_radii(d, u):
    for t in (-0.7 * u, 0.0, 0.2 * u, 0.9 * u):
        assert kernels(d).survival(u, t) == pytest.approx(mixture_survival(d, u, t), abs=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 109, 500])
def test_advantage_agrees_with_the_scale_mixture_of_normals(d):
    """b = sqrt(S) z with S chi-square of d+1 degrees: adv = E erf(u / sqrt(8 S))."""
    for u in (0.2, 2.0, 15.0):
        low, high = stats.chi2.ppf([1e-15, 1 - 1e-15], d + 1)
        found = integrate.quad(
            lambda x, u=u: 2 * x * stats.chi2.pdf(x * x, d + 1) * special.erf(u / np.sqrt(8) / x),
            np.sqrt(low), np.sqrt(high), limit=400, epsabs=1e-12,
        )[0]  # fmt: skip
        assert kernels(d).adv(u) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize(("d", "u"), [(1, 2.0), (2, 3.0), (20, 5.0)])
def test_means_agree_with_draws(d, u):
    """Seed 5; 4.5 standard errors on six means: false alarm 4e-5."""
    rng = np.random.default_rng(5)
    b = rng.normal(size=(200_000, d))
    b *= (rng.gamma(d, size=200_000) / np.linalg.norm(b, axis=1))[:, None]
    loss = np.linalg.norm(b - np.eye(d)[0] * u, axis=1) - np.linalg.norm(b, axis=1)
    for sample, exact in ((loss, kernels(d).kl(u)), (np.abs(loss), kernels(d).abs(u))):
        assert abs(sample.mean() - exact) <= 4.5 * sample.std() / np.sqrt(len(sample))


@pytest.mark.parametrize("d", [2, 3, 17, 109, 1000])
def test_the_table_equals_the_integral(d):
    u = np.geomspace(3e-8, 3e7, 1500)
    law = kernels(d)
    for name in ("kl", "abs", "adv"):
        tabled = getattr(law, name)(u)
        direct = np.concatenate([getattr(law, name)(part) for part in np.array_split(u, 10)])
        np.testing.assert_allclose(tabled, direct, rtol=2e-9)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_inverses_err_to_the_safe_side(d):
    law, wishes = kernels(d), np.array([0.0, 1e-6, 0.1, 0.5, 0.9, 0.999])
    u = law.inverse_adv(wishes)
    assert (law.adv(u) <= wishes).all()
    assert (law.adv(u * (1 + 1e-7)) >= wishes).all()
    assert (law.delta(U, law.epsilon(U, 1e-5)) <= 1e-5).all()
    epsilon = law.epsilon(U, 1e-5)
    less = law.delta(U, np.maximum(epsilon - 1e-6, 0))
    assert (less >= 1e-5 * (1 - 1e-4))[epsilon > 0].all()


def test_large_dimensions_behave_like_gaussian_noise():
    u = np.array([5.0, 30.0])
    np.testing.assert_allclose(kernels(1000).adv(u), 2 * stats.norm.cdf(u / 2 / np.sqrt(1001)) - 1, rtol=2e-3)


def test_bad_arguments_are_refused():
    for call, sentence in (
        (lambda: kernels(0), "d must be a whole number of at least 1, got 0"),
        (lambda: kernels(2).adv(-1.0), "u must hold finite distances"),
        (lambda: kernels(2).delta(1.0, -1.0), "epsilon must not be negative"),
        (lambda: kernels(2).inverse_adv(1.0), r"an advantage must lie in \[0, 1\), got 1.0"),
        (lambda: kernels(2).epsilon(1.0, 2.0), r"delta must lie in \[0, 1\]"),
    ):
        with pytest.raises(CoverageError, match=sentence):
            call()
