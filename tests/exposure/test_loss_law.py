"""Kernels: reference values, identities, closed forms, independent quadratures, the table against the integral."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from exposure_worlds import REFERENCE
from scipy import integrate, special, stats

from epsworth.exposure import ExposureError, kernels
from epsworth.exposure.loss_law import bessel_ratio

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


# d, u, t / u, then E l, E |l|, adv, Pr[l >= t], delta at epsilon t: the same law in 50 digits, by mpmath's Bessel
# functions and quadrature, cut around the peak
EXTREMES = [
    (2, 1e-09, 0.3, 2.5e-19, 6.366197723675814e-10, 3.183098861837907e-10, 0.4030133161311458, 1.8274428386289928e-10),
    (2, 2.0**32, 1 - 2.0**-31, 4294967294.0, 4294967294.0, 1.0, 0.6351470442998236, 0.427593295577445),
    (2, 2.0**44, 1 - 2.0**-43, 17592186044414.0, 17592186044414.0, 1.0, 0.6351470442394322, 0.42759329552913194),
    (4, 2.0**32, 1 - 2.0**-31, 4294967292.0, 4294967292.0, 1.0, 0.28922412989139235, 0.1508549640120401),
    (6, 1e-06, 0.3, 8.333333333333268e-14, 3.3953054526271456e-07, 1.6976527263135326e-07,
     0.25665491273364777, 5.7110829280172766e-08),
    (109, 2.0**34, 1 - 2.0**-27, 17179869075.0, 17179869075.0, 1.0, 0.8963020623495676, 0.8844300668379503),
    (802, 30.0, 0.05, 0.5609011147051692, 0.9610534903546228, 0.40374043772572,
     0.18775233244801903, 0.07176533772651542),
    (1000, 1.0, 0.1, 0.0004999998749995625, 0.02524078216716992, 0.012618290101621278,
     0.0008105779414418924, 6.878473915639063e-06),
    (2000, 2.0**32, 1 - 2.0**-20, 4294965296.000466, 4294965296.000466, 1.0, 1.0, 1.0),
    (5000, 1000.0, 0.1, 99.0195134477285, 99.01951344773185, 0.9999999999982608,
     0.47250605940098817, 0.44422248638150774),
]  # fmt: skip


@pytest.mark.parametrize(("d", "u", "share", "kl", "mean", "adv", "survival", "delta"), EXTREMES)
def test_kernels_are_accurate_at_extreme_distances(d, u, share, kl, mean, adv, survival, delta):
    law = kernels(d)
    assert law.kl(u) == pytest.approx(kl, rel=1e-11)
    assert law.abs(u) == pytest.approx(mean, rel=1e-11)
    assert law.adv(u) == pytest.approx(adv, rel=1e-11)
    assert law.survival(u, share * u) == pytest.approx(survival, rel=1e-11)
    assert law.delta(u, share * u) == pytest.approx(delta, rel=1e-11)


@pytest.mark.parametrize("u", [3e13, 7e15])
def test_thresholds_close_to_a_large_distance_lose_no_digit(u):
    """What survives u - 2 no longer depends on u: the value is that of u = 2^44 above."""
    assert kernels(2).survival(u, u - 2) == pytest.approx(0.6351470442394322, rel=1e-11)
    assert kernels(2).delta(u, u - 2) == pytest.approx(0.42759329552913194, rel=1e-11)


@pytest.mark.parametrize(
    ("d", "z", "ratio"),
    [
        (2, 1e-13, 3.004953772458101e-12),
        (2, 0.001, 0.007023715222682749),
        (2, 10000000.0, 0.9999999500000037),
        (7, 2.0, 0.33766233766233766),
        (6, 1000000000.0, 0.9999999975),
        (800, 3.0, 0.00375934523238796),
        (1001, 1000.0, 0.6181575250355741),
        (2000, 1e-05, 5.005005005005005e-09),
        (2000, 100.0, 0.04992517476790003),
        (2000, 30000.0, 0.9672387160177267),
        (2000, 300000.0, 0.9966738888535498),
    ],
)
def test_ratios_of_bessel_functions_equal_those_of_mpmath(d, z, ratio):
    assert bessel_ratio(d, np.array([z]))[0] == pytest.approx(ratio, rel=2e-13)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 109, 1000, 10**6, 10**9])
def test_kernels_know_every_distance(d):
    """Leading terms at both ends, and no jump, warning or nan in between."""
    law, u = kernels(d), np.r_[np.geomspace(1e-320, 1e308, 150), 1.7e308]
    kl, mean, adv = law.kl(u), law.abs(u), law.adv(u)
    small = (u < 1e-9) & (u > 1e-140)
    first = (
        special.gamma(d / 2) / special.gamma((d + 1) / 2)
        if d < 300
        else np.sqrt(2 / d) * (1 + 1 / (4 * d) + 1 / (32 * d * d))
    )
    first /= np.sqrt(np.pi)
    np.testing.assert_allclose(kl[small], u[small] ** 2 / (2 * d), rtol=1e-8)
    small = (u < 1e-9) & (u > 1e-314 * np.sqrt(d))
    np.testing.assert_allclose(mean[small], first * u[small], rtol=1e-9)
    np.testing.assert_allclose(adv[small], first * u[small] / 2, rtol=1e-9)
    assert law.abs(1e-321) == pytest.approx(first * 1e-321, abs=1e-323)  # 202 of the smallest number, to 2 of them
    large = u > 1e10 * d
    np.testing.assert_allclose(kl[large], u[large], rtol=1e-9)
    np.testing.assert_allclose(adv[large], 1, rtol=1e-9)
    for column in (kl, mean, adv):
        assert (np.diff(column) >= -1e-12 * column[1:]).all()
    assert (adv <= 1).all()
    assert (kl <= mean * (1 + 1e-12)).all()
    assert (mean <= u).all()
    for share in (0.0, 0.5, 1 - 1e-12):
        survival, delta = law.survival(u, share * u), law.delta(u, share * u)
        assert ((delta >= 0) & (survival >= delta * (1 - 1e-9)) & (survival <= 1)).all()


@pytest.mark.parametrize("d", [1, 2, 50, 10**6])
def test_inverses_hold_for_the_smallest_and_largest_advantages(d):
    law, wishes = kernels(d), np.array([1e-300, 1e-30, 1e-9, 0.5, 1 - 1e-9, 1 - 1e-15])
    u, above = law.inverse_adv(wishes), law.inverse_adv(wishes, upwards=True)
    assert (law.adv(u) <= wishes).all()
    assert (u <= above).all()
    assert (law.adv(above) >= wishes).all()
    np.testing.assert_allclose(u[:4], above[:4], rtol=1e-9)


def mixture_survival(d, u, t):
    """Integrate over the radius: the other way to the same number (smooth pieces; d >= 2)."""

    def cosine_below(c):
        return special.betainc((d - 1) / 2, (d - 1) / 2, (1 + np.clip(c, -1, 1)) / 2)

    def integrand(r):
        return stats.gamma.pdf(r, d) * cosine_below((u * u - t * t - 2 * r * t) / (2 * u * r))

    cuts = sorted({0.0, abs((u - t) / 2), abs((u + t) / 2), u, 2 * u, d + 0.0, d + 10 * np.sqrt(d) + 40})
    return sum(integrate.quad(integrand, a, b, limit=400, epsabs=1e-12)[0] for a, b in itertools.pairwise(cuts))


@pytest.mark.parametrize(("d", "u"), [(2, 1.0), (2, 6.0), (3, 0.3), (5, 4.0), (12, 9.0), (40, 12.0)])
@pytest.mark.cases(1)
def test_survival_agrees_with_the_mixture_over_radii(d, u):
    for t in (-0.7 * u, 0.0, 0.2 * u, 0.9 * u):
        assert kernels(d).survival(u, t) == pytest.approx(mixture_survival(d, u, t), abs=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 109, 500])
@pytest.mark.cases(1)
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
@pytest.mark.cases(1)
def test_the_table_equals_the_integral(d):
    u = np.geomspace(3e-8, 3e7, 1500)
    law = kernels(d)
    for name in ("kl", "abs", "adv"):
        tabled = getattr(law, name)(u)
        direct = np.concatenate([getattr(law, name)(part) for part in np.array_split(u, 10)])
        np.testing.assert_allclose(tabled, direct, rtol=2e-9)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.cases(1)
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
        with pytest.raises(ExposureError, match=sentence):
            call()
