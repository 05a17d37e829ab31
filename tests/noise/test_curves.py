"""Floors and best laws under a privacy curve: Gaussian DP, and what several releases leave to each of them."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from epsworth import noise
from epsworth.composition import Losses
from epsworth.noise import curves, levels
from epsworth.noise.cells import Cells, HalfLine
from epsworth.noise.objective import Objective, composed_epsilon
from epsworth.noise.staircase import best_staircase

LAWS = {
    "staircase": lambda: best_staircase(2.3, 0.05, 1.0),
    "boosted": lambda: noise.boosted("laplace", scale=1.5, theta=2.0, boost=3.0),
    "gaussian": lambda: noise.boosted("gaussian", scale=2.0, theta=3.0, boost=2.0),
    "lattice": lambda: noise.boosted("discrete_laplace", scale=2.0, theta=3.0),
}  # fmt: skip


def asked(theta, beta, **options):
    options = {"delta": 1e-6, **options}
    return noise.optimal_noise(theta, confidence=1 - Fraction(repr(beta)), sensitivity=1.0, **options)


def random_law(cells, rng, levels_out=12):
    """Return falling densities, steep or flat, over some cells, and nothing beyond: a law."""
    count = cells.inside + int(rng.integers(1, levels_out)) * cells.period
    density = np.exp(-np.cumsum(rng.exponential(rng.choice([0.05, 0.5, 3.0]), count)))
    return density / float(density @ cells.sizes(count)[2])


def lost(cells, density, epsilon):
    """Return the hockey-stick divergences of a law on cells from its shift, on the whole line."""
    padded = np.append(density, np.zeros(2 * cells.period + 2))
    first, second, length = cells.pairs(padded.size)
    return np.array([float(length @ np.maximum(padded[first] - math.exp(e) * padded[second], 0)) for e in epsilon])


@pytest.mark.parametrize("theta", ["0.3", "1", "2.3", "5.5"])
def test_no_law_beats_what_a_program_proves(theta):
    """A law's own losses as the curve: what is proved to lie outside is no more than what does, whatever is near."""
    cells, rng = Cells.of(Fraction(theta)), np.random.default_rng(11)
    proved = []
    for _ in range(25):
        density, near = random_law(cells, rng), random_law(cells, rng)
        near = np.append(near, near[-1] * np.exp(-np.arange(1.0, 2 * cells.period + 1)))
        outside = float((density * cells.sizes(density.size)[2])[cells.inside :].sum())
        epsilon = np.linspace(0, float(rng.uniform(0.5, 6)), int(rng.integers(3, 60)))
        delta = np.maximum(lost(cells, density, epsilon), 1e-12)
        found = curves.Program(cells, max(outside, 1e-3), near, epsilon).proved(delta)
        assert found <= outside + 1e-15
        proved.append(found / outside if outside else 0.0)
    assert max(proved) > 0.5  # and that is not nothing


@pytest.mark.parametrize("mu", [0.05, 1.0, 4.0, 12.0])
def test_a_gaussian_curve_is_the_gaussians_and_never_below(mu):
    curve = curves.Gaussian(mu, 1e-9)
    epsilon = np.linspace(0, curve.top, 30)
    with mpmath.workdps(60):
        for e, found in zip(epsilon, curve(epsilon), strict=True):
            m, x = mpmath.mpf(mu), mpmath.mpf(float(e))
            truth = mpmath.ncdf(m / 2 - x / m) - mpmath.exp(x) * mpmath.ncdf(-m / 2 - x / m)
            assert truth <= found <= truth * (1 + mpmath.mpf("1e-5")) + mpmath.mpf("1e-10")
    assert float(curve(np.array([curve.top]))[0]) == pytest.approx(1e-9, rel=1e-6)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("releases", [2, 10, 100])
def test_what_releases_keep_together_bounds_each_of_them(name, releases):
    law, delta = LAWS[name](), 1e-5
    together = composed_epsilon(law, delta, releases)
    curve = curves.Counted.epsilon(together, delta, releases, 6.0)
    epsilon = np.linspace(0, 6, 200)
    assert (law.profile(epsilon) <= curve(epsilon) + 1e-15).all()
    assert float(curve(epsilon)[0]) < 1


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("releases", "rate"), [(2, 1e-4), (10, 0.2), (100, 0.01)])
def test_what_attackers_of_releases_gain_bounds_each_of_them(name, releases, rate):
    law = LAWS[name]()
    most = Objective.of(f"tpr@{rate}").cost(law, 0.0, releases)
    epsilon = np.linspace(0, 6, 200)
    assert (law.profile(epsilon) <= curves.Counted.caught(most, rate, releases, 6.0)(epsilon) + 1e-15).all()
    assert float(curves.Counted.caught(0.5 * most, rate, releases, 6.0)(epsilon)[0]) < 1


@pytest.mark.parametrize(("releases", "rate"), [(1, 0.3), (2, 1e-6), (7, 0.05), (40, 0.5), (1000, 1e-9)])
def test_the_power_of_counting_is_never_above_the_best_tests(releases, rate):
    """By forty digits: all of the counts in the rejection's end, and a share of the one before it."""
    with mpmath.workdps(40):
        for p, q in ((0.6, 0.2), (1e-3, 1e-6), (0.999, 0.5), (0.31, 0.3)):
            chances = [
                [mpmath.binomial(releases, j) * s**j * (1 - s) ** (releases - j) for j in range(releases + 1)]
                for s in map(mpmath.mpf, (p, q))
            ]
            left, power = mpmath.mpf(rate), mpmath.mpf(0)
            for ours, theirs in zip(*map(reversed, chances), strict=True):
                share = min(1, left / theirs)
                left, power = left - share * theirs, power + share * ours
            found = float(curves._caught(np.array(p), np.array(q), rate, releases))
            assert power * (1 - mpmath.mpf("1e-6")) <= found <= power


def exact_loss(p, q, epsilon, releases):
    """Return the hockey-stick divergence of two binomials, in forty digits."""
    p, q = mpmath.mpf(float(p)), mpmath.mpf(float(q))
    terms = (
        mpmath.binomial(releases, j)
        * (p**j * (1 - p) ** (releases - j) - mpmath.exp(epsilon) * q**j * (1 - q) ** (releases - j))
        for j in range(releases + 1)
    )
    return sum(term for term in terms if term > 0)


@pytest.mark.parametrize(
    ("epsilon", "delta", "releases"),
    [(1.0, 1e-6, 2), (8.0, 1e-9, 10), (30.0, 1e-5, 100), (0.0, 0.3, 5), (1500.0, 1e-6, 100), (0.01, 1e-300, 100)],
)
def test_events_that_are_ruled_out_break_the_promise(epsilon, delta, releases):
    """The largest p of each q is an end of a bisection: one of the binomials' two orders has more than delta."""
    q, p = curves.largest_events(lambda p, q: curves._lost(p, q, epsilon, delta, releases))
    ruled = np.flatnonzero(p < 1)[::60]
    assert ruled.size > 3
    with mpmath.workdps(40):
        for at in ruled:
            a, b = float(p[at]), float(q[at])
            both = exact_loss(a, b, epsilon, releases), exact_loss(1 - b, 1 - a, epsilon, releases)
            assert max(both) > delta
            assert epsilon > 100 or max(both) < delta * 1.01 + mpmath.mpf("1e-12")  # and hardly more


@pytest.mark.parametrize(("epsilon", "delta", "releases"), [(1.0, 1e-6, 2), (3.0, 1e-3, 12), (0.0, 0.3, 5)])
def test_between_the_grid_no_event_is_ruled_out_that_keeps_the_promise(epsilon, delta, releases):
    """Pairs anywhere, pushed up until they break the promise by forty digits: the curve is above them all."""
    curve, rng = curves.Counted.epsilon(epsilon, delta, releases, 5.0), np.random.default_rng(8)
    tried = np.linspace(0.0, 5.0, 30)
    most, gaps = curve(tried), []
    with mpmath.workdps(40):
        for q in np.concatenate([np.exp(rng.uniform(-12, -0.7, 12)), rng.uniform(0.3, 0.99, 8)]).tolist():
            low, high = q, 1.0
            for _ in range(40):
                p = (low + high) / 2
                both = exact_loss(p, q, epsilon, releases), exact_loss(1 - q, 1 - p, epsilon, releases)
                low, high = (low, p) if max(both) > delta else (p, high)
            gaps.append(float((most - (low - np.exp(tried) * q)).min()))
    assert min(gaps) >= -1e-12
    assert min(gaps) < 1e-2 * most[0]  # and hardly above the highest


@pytest.mark.parametrize(("theta", "beta"), [(0.3, 0.05), (2.3, 0.01), (5, 1e-6), (20.5, 0.01), (1, 1e-9)])
def test_the_least_mu_is_near_its_floor(theta, beta):
    found = asked(theta, beta, objective="gdp")
    assert 0 < found.floor <= found.cost <= found.floor * (1.002 if theta >= 1 else 1.03)
    assert Fraction(found.noise.outside) <= Fraction(repr(beta))
    mu, epsilon = found.cost, np.linspace(0, 8, 400)
    kept = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    assert (found.noise.profile(epsilon) <= kept + 1e-12).all()


def test_the_floor_of_mu_of_several_releases_is_below_what_they_keep_together():
    """Composed, they keep less than root k times the mu of one: 10.49 here, where that is 13.16."""
    found = asked(0.5, 0.1, objective="gdp", releases=16)
    epsilon = np.linspace(0, 40, 200)
    together = Losses.of(found.noise.profile, found.noise.pure_epsilon, 4000).around(20.0, 16)
    mu = 10.7
    kept = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    assert all(together(e) <= most + 1e-9 for e, most in zip(epsilon.tolist(), kept.tolist(), strict=True))
    assert 0 < found.floor < mu < found.cost


def test_no_random_law_has_less_than_the_floor_of_mu():
    """Laws of least divergence of random orders, and random ones made to meet the constraint."""
    cells, rng, gdp = Cells.of(Fraction("2.3")), np.random.default_rng(3), Objective.of("gdp")
    floor = asked(2.3, 0.05, objective="gdp").floor
    search = levels.Levels(cells, 0.05, best_staircase(2.3, 0.05, 1.0).loss, 1e-15)
    found = [gdp.cost(search.law(order).noise(cells, 1.0, None), 0.0, 1) for order in (1.1, 2.0, 5.0, 40.0)]
    for _ in range(40):
        density = search.law(float(rng.uniform(1.1, 9))).density
        density = density * np.exp(0.1 * rng.normal(size=density.size))
        half = HalfLine.of(cells, density, 1.0, 0.05)
        found.append(gdp.cost(half.noise(cells, 1.0, None), 0.0, 1))
    assert floor <= min(found) < 1.05 * floor


@pytest.mark.parametrize(
    ("theta", "beta", "delta", "releases", "near"),
    [(2.3, 0.01, 1e-5, 2, 0.95), (0.3, 0.1, 1e-6, 5, 0.99), (5, 0.1, 1e-6, 10, 0.78), (17.54, 0.1, 1e-5, 100, 0.65)],
)
def test_floors_of_composed_epsilons_are_below_the_best_and_near_it(theta, beta, delta, releases, near):
    found = asked(theta, beta, delta=delta, releases=releases)
    assert near * found.cost < found.floor <= found.cost


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["epsilon", "advantage", "tpr@0.01"])
@pytest.mark.parametrize("releases", [2, 20, 1000])
def test_floors_of_several_releases_are_below_all_rows(objective, releases):
    ranked = noise.cheapest(2.3, confidence=0.95, releases=releases, objective=objective)
    assert (0.3 if "@" in objective else 0.5) * ranked[0].cost < ranked.floor <= ranked[0].cost


@pytest.mark.slow
def test_more_releases_than_are_counted_have_a_floor_of_fewer():
    counted, more = (asked(0.3, 0.1, delta=1e-6, releases=k) for k in (1000, 1001))
    assert 0.5 * counted.cost < more.floor <= counted.cost
