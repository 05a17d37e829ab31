"""Several releases (acceptance 5 and 6)."""

from __future__ import annotations

import math
import time
import tracemalloc

import mpmath
import numpy as np
import pytest
from scipy.signal import fftconvolve

from epsworth import noise
from epsworth.composition import Losses, sampled
from epsworth.noise.mechanism import Boosted
from epsworth.noise.objective import _reach, composed_epsilon, deltas_around
from epsworth.noise.profiles import boost_needed, outside
from epsworth.noise.ranking import noise_named, question
from epsworth.noise.regions import Absolute
from epsworth.noise.staircase import best_staircase


def example():
    where, sigma = Absolute(10.0), 5.6
    return Boosted("gaussian", sigma, float(boost_needed(outside("gaussian", sigma, where), 0.05)), where, 1.0)


def test_plain_gaussians_are_one_of_another_sensitivity():
    gaussian, doubled = (Boosted("gaussian", 3.0, 1.0, Absolute(5.0), size) for size in (1.0, 2.0))
    assert composed_epsilon(gaussian, 1e-5, 4) == pytest.approx(doubled.epsilon(1e-5))


# what dp-accounting 0.6.0 finds on the same grid; name, theta, confidence, k, delta -> epsilon
TOLD = [
    ("laplace", 0.5, 0.9, 2, 1e-3, 9.206340734), ("staircase", 0.5, 0.9, 10, 1e-3, 29.442718275),
    ("staircase", 0.5, 0.9, 100, 1e-6, 294.443729015), ("pb_laplace", 0.5, 0.9, 10, 1e-6, 35.832291525),
    ("pb_laplace", 0.5, 0.9, 100, 1e-10, 344.060500914), ("laplace", 0.5, 0.9, 100, 1e-6, 425.274815446),
]  # fmt: skip


@pytest.mark.parametrize("case", TOLD, ids=[f"{c[0]}-{c[3]}" for c in TOLD])
def test_epsilons_are_those_of_dp_accounting(case):
    name, theta, confidence, releases, delta, told = case
    built = noise_named(name, question(theta, confidence, 1.0, 1e-6))
    found = composed_epsilon(built, delta, releases)
    assert found == pytest.approx(told, rel=2e-5)
    try:
        from dp_accounting.pld import pld_pmf
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        return
    points = 4000
    step = _reach(built, delta / releases) / points
    dots = sampled(built.profile, step, points)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, np.arange(-points, points + 1), dots)
    live = pld.PrivacyLossDistribution(pmf).self_compose(releases).get_epsilon_for_delta(delta)
    assert found == pytest.approx(min(live, releases * built.pure_epsilon), rel=2e-5)


def test_connected_dots_are_exact_on_the_grid_and_above_between():
    found, points = example(), 50
    dots = Losses.of(found.profile, 3.0, points)
    on = np.arange(0, points) * dots.step
    np.testing.assert_allclose([dots.delta(e, 1) for e in on], found.profile(on), rtol=1e-6, atol=1e-12)
    between = on + dots.step / 2
    assert (np.array([dots.delta(e, 1) for e in between]) >= found.profile(between)).all()


@pytest.mark.parametrize("releases", [2, 10])
def test_composition_lies_in_an_independent_bracket(releases):
    """Losses of a fine grid of outputs, rounded down and up to 1e-3, convolved without any library for privacy."""
    found, step, epsilon = example(), 1e-3, 1.0
    z = np.linspace(-60, 61, 1_210_001)
    middle = (z[1:] + z[:-1]) / 2
    mass = found.law(0.0).pdf(middle) * (z[1] - z[0])
    loss = np.log(found.law(0.0).pdf(middle)) - np.log(found.law(1.0).pdf(middle))
    bracket = []
    for rounded in (np.floor(loss / step), np.ceil(loss / step)):
        low = int(rounded.min())
        one = np.bincount((rounded - low).astype(int), weights=mass)
        whole = one
        for _ in range(releases - 1):
            whole = fftconvolve(whole, one)
        losses = (np.arange(whole.size) + low * releases) * step
        bracket.append(float((whole * np.maximum(1 - np.exp(epsilon - losses), 0)).sum()))
    value = deltas_around(found, releases, epsilon=epsilon)(epsilon)
    assert bracket[0] - 1e-9 <= value <= bracket[1] * 1.01


def test_staircase_composes_as_three_point_losses():
    """The loss is eps, 0 or -eps: T releases are a trinomial, summed here directly."""
    from math import comb

    found, releases = best_staircase(2.5, 0.05, 1.0), 6
    top = 0.5 + min(found.share, 1 - found.share) * found._top
    low = top * np.exp(-found.loss)
    flat = 1 - top - low
    epsilon, exact = 3 * found.loss + 0.01, 0.0
    for up in range(releases + 1):
        for down in range(releases + 1 - up):
            ways = comb(releases, up) * comb(releases - up, down)
            chance = ways * top**up * low**down * flat ** (releases - up - down)
            exact += chance * max(0.0, 1 - np.exp(epsilon - (up - down) * found.loss))
    assert deltas_around(found, releases, epsilon=epsilon)(epsilon) == pytest.approx(exact, rel=1e-6)


# T, theta, beta -> Gaussian, boosted Gaussian, Laplace, staircase; total delta = 1e-5
SEVERAL = [
    (10, 0.5, 0.1, 97.6, 34.95, 46.0, 29.5), (10, 2, 0.1, 13.89, 13.10, 11.50, 11.51),
    (10, 5, 0.01, 7.786, 7.766, 9.200, 9.203), (100, 10, 0.1, 7.877, 7.844, 11.08, 10.83),
]  # fmt: skip


@pytest.mark.slow
def test_a_hundred_thousand_releases_take_little_memory():
    laplace = noise_named("laplace", question(2, 0.9, 1.0, 1e-6))
    tracemalloc.start()
    found = composed_epsilon(laplace, 1e-6, 100_000)
    assert tracemalloc.get_traced_memory()[1] < 5e8
    tracemalloc.stop()
    # ln E e^(t loss) of Laplace noise, and what Chernoff's bound makes of it: above, by little
    scale, t = 1 / laplace.pure_epsilon, np.geomspace(1e-4, 1, 20_000)
    size = np.log((1 + t) / (1 + 2 * t) * np.exp(t / scale) + t / (1 + 2 * t) * np.exp(-(1 + t) / scale))
    chernoff = float(((100_000 * size - math.log(1e-6)) / t).min())
    assert 0.99 * chernoff <= found <= chernoff


@pytest.mark.parametrize("delta", [1e-279, 1e-290, 1e-300, 2.3e-308, 5e-324])
@pytest.mark.parametrize("releases", [1, 7, 100_000, 1 << 20])
def test_a_gaussian_keeps_an_epsilon_however_small_delta_is(delta, releases):
    """The true delta at what is listed, to 60 digits, is no larger than asked, and is at hardly less."""
    gaussian = Boosted("gaussian", 2.551, 1.0, Absolute(5.0), 1.0)
    epsilon = composed_epsilon(gaussian, delta, releases)
    with mpmath.workdps(60):
        r = mpmath.sqrt(releases) / mpmath.mpf(2.551)

        def truth(e):
            return mpmath.ncdf(r / 2 - e / r) - mpmath.exp(e) * mpmath.ncdf(-r / 2 - e / r)

        assert truth(mpmath.mpf(epsilon)) <= mpmath.mpf(delta) < truth(mpmath.mpf(epsilon) * mpmath.mpf("0.99"))
    if delta >= 1e-290:  # where the search has masses that it resolves, too
        wide = Boosted("gaussian", 2.551, 1.0, Absolute(5.0), math.sqrt(releases))
        assert super(Boosted, wide).epsilon(delta) == pytest.approx(epsilon, rel=1e-2)


@pytest.mark.parametrize("releases", [1, 100_000])
@pytest.mark.slow
def test_noise_that_is_left_out_for_a_tiny_delta_was_not_tried(releases):
    ranked = noise.cheapest(5, confidence=0.95, delta=1e-300, releases=releases)
    assert math.isfinite(ranked.named("gaussian").epsilon)
    assert ranked.advice.startswith("Take ")
    assert all(why.startswith("was not tried: ") or "different supports" in why for why in ranked.left_out.values())
    assert "masses below 1e-280 are not resolved" in ranked.left_out["discrete_gaussian"]
    lost = noise.cheapest(
        5, confidence=0.95, delta=1e-300, releases=releases, region="relative", offset=1, answers=[0, 1]
    )
    assert all("not tried" in why or "supports" in why for why in lost.left_out.values())


@pytest.mark.slow
@pytest.mark.parametrize("row", SEVERAL, ids=[f"{r[0]}-{r[1]}" for r in SEVERAL])
def test_the_table_of_several_releases(row):
    releases, theta, beta, *expected = row
    start = time.perf_counter()
    ranked = noise.cheapest(theta, confidence=1 - beta, delta=1e-5, releases=releases)
    assert time.perf_counter() - start < 60  # the bar of 20 s is measured by benchmarks/noise.py
    found = [ranked.named(name).epsilon for name in ("gaussian", "pb_gaussian", "laplace", "staircase")]
    assert found == pytest.approx(expected, rel=8e-3)
    assert ranked.named("pb_gaussian").epsilon <= ranked.named("gaussian").epsilon * (1 + 1e-4)
