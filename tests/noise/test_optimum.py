"""The best noise of several releases and of other objectives, its floors, and what each objective costs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from epsworth import noise
from epsworth.noise import levels, program
from epsworth.noise.cells import Cells, HalfLine
from epsworth.noise.objective import EPSILON, Objective, composed_epsilon
from epsworth.noise.staircase import best_staircase
from epsworth.rounding import show_up
from strategies import sparing

SEVERAL = [
    (5.0, 0.01, 1e-5, 100, None), (2.0, 0.1, 1e-5, 10, None), (13.001, 0.046, 1.2e-6, 2, None),
    (3.0, 0.05, 1e-6, 10, 1.0),
    (0.36, 1e-3, 1e-7, 10, None), (40.0, 0.2, 1e-3, 1000, None), (1.009, 0.16, 2.4e-4, 10, None),
]  # fmt: skip
ORDERS = (1.05, 1.5, 2.0, 4.0, 16.0, 100.0)


def asked(theta, beta, lattice=None, **options):
    return noise.optimal_noise(
        theta, confidence=1 - Fraction(repr(beta)), sensitivity=1.0, lattice=lattice, **{"delta": 1e-6, **options}
    )


@pytest.mark.parametrize(("theta", "beta", "delta", "releases", "lattice"), sparing(SEVERAL, keep=()))
def test_no_row_is_cheaper_for_several_releases(theta, beta, delta, releases, lattice):
    ranked = noise.cheapest(
        theta, confidence=1 - Fraction(repr(beta)), delta=delta, releases=releases, lattice=lattice
    )  # fmt: skip
    best = ranked.named("optimal")
    assert best.epsilon == pytest.approx(composed_epsilon(best.noise, delta, releases), rel=1e-12)
    assert Fraction(best.noise.outside) <= Fraction(repr(beta))
    for choice in ranked:
        assert best.epsilon <= choice.epsilon * (1 + 1e-6), choice.name


@pytest.mark.slow
def test_gains_over_a_gaussian_are_those_measured():
    """Of a hundred releases the Gaussian costs 34.5 here, of ten 13.9 and the staircase 11.5."""
    assert asked(5, 0.01, delta=1e-5, releases=100).cost < 32.6
    assert asked(2, 0.1, delta=1e-5, releases=10).cost < 11.31


@pytest.mark.slow
def test_no_small_change_of_the_law_costs_less_by_a_thousandth():
    """Orders are one parameter: losses from level to level are changed at random, and composed anew."""
    delta, releases, cells, rng = 1e-5, 10, Cells.of(Fraction(2)), np.random.default_rng(5)
    best = asked(2, 0.1, delta=delta, releases=releases)
    start = best_staircase(2.0, 0.1, 1.0).loss
    search = levels.Levels(cells, 0.1, start, 1e-15)

    def cost(half):
        return composed_epsilon(half.noise(cells, 1.0, None), delta, releases)

    density = search.cheapest(cost).density
    for size in (0.02, 0.1, 0.3):
        for _ in range(20):
            losses = -np.diff(np.log(density)) * np.exp(size * rng.normal(size=density.size - 1))
            changed = np.exp(-np.concatenate([[0.0], np.cumsum(losses)]))
            half = HalfLine.of(cells, changed, float(losses[-1]), 0.1)
            assert cost(half) >= best.cost * (1 - 1e-3)


@pytest.mark.parametrize(("theta", "lattice"), [(0.5, None), (2.3, None), (3.0, 1.0)])
def test_pure_epsilons_of_several_releases_add_up_and_so_do_floors(theta, lattice):
    one, many = (asked(theta, 0.05, lattice, delta=0.0, releases=k) for k in (1, 7))
    assert many.cost == pytest.approx(7 * one.cost, rel=1e-12)
    assert many.floor == pytest.approx(7 * one.floor, rel=1e-12)
    assert many.floor <= many.cost <= many.floor * (1 + 1e-6)


# ---- Renyi


@pytest.mark.parametrize("theta", [0.05, 0.5, 0.8, 2.0, 2.3, 13.001, 49.7])
def test_the_renyi_optimum_is_at_its_floor(theta):
    for order, beta, lattice in itertools.product((1.1, 3.0, 20.0), (0.1, 1e-4), (None, 0.25)):
        if lattice and theta < lattice:
            continue
        found = asked(theta, beta, lattice, objective=f"renyi@{order}", releases=3)
        assert found.cost == pytest.approx(3 * found.noise.renyi(order), rel=1e-12)
        assert found.floor <= found.cost <= found.floor * (1 + 1e-6) + 1e-9
        assert Fraction(found.noise.outside) <= Fraction(repr(beta))


def falling(cells, count, rng):
    """Return a law of falling densities."""
    density = np.sort(rng.exponential(size=count))[::-1] * np.exp(-rng.uniform(0.05, 1) * np.arange(count))
    return HalfLine.of(cells, density, 0.5, 0.4999)


@pytest.mark.parametrize("within", [Fraction(3, 10), Fraction(1, 2), Fraction(7, 4), Fraction(2), Fraction(5, 2)])
def test_tangents_bound_random_laws(within):
    """A tangent at any law is below the divergence of every other that meets the constraint: both are random."""
    rng, cells = np.random.default_rng(2), Cells.of(within)
    for _ in range(40):
        order = float(1 + 10 ** rng.uniform(-1, 1))
        half = falling(cells, 40, rng)
        law = half.noise(cells, 1.0, None)
        found = levels.divergence_floor(cells, falling(cells, 40, rng), order, law.outside)
        assert found <= law.renyi(order) * (1 + 1e-9)
        own = levels.divergence_floor(cells, half, order, law.outside)
        assert own <= law.renyi(order) * (1 + 1e-9)


def divergence(found, order):
    """Return a Renyi divergence of a table from its law, with fifty digits, what is beyond it left out."""
    with mpmath.workdps(50):
        masses, total = [mpmath.mpf(float(m)) for m in found.masses], mpmath.mpf(0)
        for first, second in zip(masses[found.shift :], masses[: -found.shift], strict=True):
            if first and second:
                total += first**order * second ** (1 - order)
        return float(mpmath.log(total) / (order - 1))


@pytest.mark.parametrize("order", ORDERS)
def test_renyi_divergences_of_tables_are_sums_and_never_below_them(order):
    for found in (
        asked(2.3, 0.05, delta=0.0).noise, asked(3, 0.1, 1.0, objective="renyi@2").noise,
        noise.boosted("discrete_laplace", scale=2.0, theta=3.0, boost=2.0),
    ):  # fmt: skip
        truth = divergence(found, order)
        assert truth * (1 - 1e-12) <= noise.renyi(found, order) <= truth + 1e-9 / (order - 1)


@pytest.mark.parametrize("order", [*ORDERS, 1.0001, 3000.0])
@pytest.mark.parametrize(("theta", "beta"), [(0.5, 0.1), (2.3, 0.01), (40.0, 0.3)])
def test_the_staircases_divergence_is_that_of_its_two_losses(theta, beta, order):
    found = best_staircase(theta, beta, 1.0)
    with mpmath.workdps(60):
        loss, share = mpmath.mpf(found.loss), mpmath.mpf(found.share)
        top = (1 - mpmath.exp(-loss)) / (2 * (share + mpmath.exp(-loss) * (1 - share)))
        reached, a = mpmath.mpf("0.5") + min(share, 1 - share) * top, mpmath.mpf(order)
        moment = 1 + reached * (mpmath.expm1((a - 1) * loss) + mpmath.exp(-loss) * mpmath.expm1((1 - a) * loss))
        truth = mpmath.log(moment) / (a - 1)
        got = mpmath.mpf(found.renyi(order))
        assert truth <= got <= truth * (1 + mpmath.mpf("1e-9")) + mpmath.mpf("1e-8") * (order < 1.01)


def test_discrete_gaussians_have_no_divergence_that_is_known():
    found = noise.boosted("discrete_gaussian", scale=2.0, theta=3.0)
    assert noise.renyi(found, 2.0) == math.inf
    ranked = noise.cheapest(3, confidence=0.9, lattice=1, objective="renyi@2")
    assert "no bound on its Renyi divergence" in ranked.left_out["discrete_gaussian"]
    assert ranked.floor <= ranked[0].cost <= ranked.floor * (1 + 1e-6)


# ---- other objectives


LAWS = {
    "table": lambda: asked(2.3, 0.05, delta=0.0).noise, "staircase": lambda: best_staircase(2.3, 0.05, 1.0),
    "steep": lambda: best_staircase(0.5, 0.01, 1.0),
    "laplace": lambda: noise.boosted("laplace", scale=1.5, theta=2.0, boost=3.0),
    "lattice": lambda: noise.boosted("discrete_laplace", scale=2.0, theta=3.0),
}  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
def test_rho_is_the_greatest_ratio_of_divergence_and_order(name):
    found = LAWS[name]()
    rho = Objective.of("zcdp").cost(found, 0.0, 1)
    ratios = [found.renyi(order) / order for order in 1 + np.geomspace(1e-4, 1e4, 800)]
    assert max(ratios) <= rho <= max(ratios) * 1.02
    assert Objective.of("zcdp").cost(found, 0.0, 10) == pytest.approx(10 * rho)


@pytest.mark.parametrize("name", LAWS)
def test_mu_is_that_of_a_gaussian_which_is_nowhere_more_private(name):
    found = LAWS[name]()
    mu = Objective.of("gdp").cost(found, 0.0, 1)
    epsilon = np.linspace(0, 1.2 * found.pure_epsilon, 5001)

    def gaussian(mu):
        return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)

    deltas = np.where(epsilon < found.pure_epsilon, found.profile(epsilon), 0.0)
    assert (gaussian(mu) >= deltas - 1e-12).all()
    assert (gaussian(mu * 0.99) < deltas - 1e-12).any()
    assert Objective.of("gdp").cost(found, 0.0, 4) == pytest.approx(2 * mu)


def test_gaussian_noise_is_exact_under_both():
    found = noise.boosted("gaussian", scale=4.0, sensitivity=2.0)
    assert Objective.of("zcdp").cost(found, 0.0, 3) == pytest.approx(3 / 8, rel=1e-12)
    assert Objective.of("gdp").cost(found, 0.0, 9) == pytest.approx(1.5, rel=1e-12)
    clamped = noise.cheapest((0, 10), confidence=0.9, region="fixed", answers=range(11), scale=4.0, objective="gdp")
    assert clamped.named("clamped_gaussian").cost == pytest.approx(0.25, rel=1e-12)


def best_test(found, releases, rate):
    """Return the true positive rate and the advantage of the best test of releases of a table, by enumeration."""
    first = np.r_[found.masses, np.zeros(found.shift)]
    second = np.r_[np.zeros(found.shift), found.masses]
    here, there = first, second
    for _ in range(releases - 1):
        here, there = np.multiply.outer(here, first).ravel(), np.multiply.outer(there, second).ravel()
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(there > 0, here / there, np.inf), kind="stable")
    caught, wrong = np.r_[0, np.cumsum(here[order])], np.r_[0, np.cumsum(there[order])]
    return float(np.interp(rate, wrong, caught)), float((here - there).clip(min=0).sum())


@pytest.mark.parametrize("releases", [1, 2, 3])
@pytest.mark.parametrize("rate", [1e-3, 0.01, 0.2])
def test_what_an_attacker_gains_is_that_of_the_best_test(releases, rate):
    for found in (asked(3, 0.3, 1.0, delta=0.0).noise, noise.boosted("discrete_laplace", scale=1.0, theta=2.0)):
        kept = found.masses.size // 2
        law = type(found)(
            masses=found.masses[kept - 40 : kept + 41], shift=found.shift, inside=found.inside, pure=found.pure,
            lost=1e-9, step=1.0,
        )  # fmt: skip
        caught, advantage = best_test(law, releases, rate)
        for objective, truth in ((f"tpr@{rate}", caught), ("advantage", advantage)):
            cost = Objective.of(objective).cost(law, 0.0, releases)
            assert truth - 1e-12 <= cost <= truth * (1 + 1e-3) + 1e-6, objective


@pytest.mark.parametrize("theta", [0.3, 2.3, 5.0])
def test_the_least_advantage_is_near_its_floor(theta):
    found = asked(theta, 0.01, objective="advantage")
    assert 0 < found.floor <= found.cost <= found.floor * (1 + (1e-3 if theta < 0.5 else 1e-9))


@pytest.mark.parametrize(
    ("theta", "beta", "rate"),
    [
        (2.3, 0.01, 0.01),
        (0.3, 0.1, 0.2),
        (5, 1e-6, 1e-4),
        (1, 0.05, 0.7),
        (20, 0.05, 1e-9),
        (1.5, 1e-6, 0.4),  # even within
        (30, 1e-7, 0.99),  # some step has hardly a mass outside
        (0.5, 1e-9, 0.999999),
    ],
)
def test_the_least_true_positive_rate_is_near_its_floor(theta, beta, rate):
    found = asked(theta, beta, objective=f"tpr@{rate!r}")
    assert rate * (1 - 1e-12) <= found.floor <= found.cost <= found.floor * (1 + 2e-3)


@pytest.mark.parametrize(("theta", "beta", "rate"), [("2.3", 0.05, 0.01), ("0.3", 0.1, 0.2), ("1.75", 0.2, 0.6)])
def test_no_law_is_below_the_floor_of_true_positive_rates(theta, beta, rate):
    """Whatever cost the floor is looked for below: random laws, and the best one, whose power is told by its masses."""
    cells, rng = Cells.of(Fraction(theta)), np.random.default_rng(11)
    powers = [float(asked(float(theta), beta, objective=f"tpr@{rate}").cost)]
    for _ in range(60):
        count = cells.inside + int(rng.integers(1, 12)) * cells.period
        density = np.exp(-np.cumsum(rng.exponential(rng.choice([0.05, 0.5, 3.0]), count)))
        law = HalfLine.of(cells, density, 3.0, beta).noise(cells, 1.0, None)
        powers.append(best_test(law, 1, rate)[0] + law.lost)
    for cost in (min(powers), 1.2 * min(powers), 3 * min(powers)):
        assert rate <= program.rate_floor(cells, beta, rate, min(cost, 1.0)) <= min(powers)


@pytest.mark.parametrize("objective", ["zcdp", "gdp"])
@pytest.mark.parametrize("theta", [0.5, 2.3])
@pytest.mark.cases(1)
def test_floors_of_rho_and_mu_are_below_every_row(objective, theta):
    ranked = noise.cheapest(theta, confidence=0.99, releases=4, objective=objective)
    assert 0 < ranked.floor <= ranked[0].cost <= ranked.floor * (1.1 if theta > 1 else 1.7)
    assert ranked.named("optimal").cost <= ranked[0].cost * (1 + 1e-3)


@pytest.mark.slow
def test_rows_are_ranked_by_what_was_asked_for():
    ranked = noise.cheapest(2, confidence=0.9, delta=1e-5, lattice=1, objective="tpr@0.01")
    assert [c.cost for c in ranked] == sorted(c.cost for c in ranked)
    assert ranked.to_dict()["objective"] == "tpr@0.01"
    assert f"attacker's true positive rate {show_up(ranked.taken.cost)} at false positive rate 0.01" in ranked.advice
    assert ranked.named("optimal").for_release().step == 1.0  # which that of other objectives may refuse
    assert all(c.cost == c.epsilon for c in noise.cheapest(2, confidence=0.9, lattice=1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "eps",
        "tpr",
        "tpr@",
        "tpr@0",
        "tpr@1",
        "tpr@nan",
        "tpr@ 0.1",
        "tpr@\u0660.\u0661",
        "renyi@1",
        "renyi@1_0",
        "renyi@inf",
        "zcdp@2",
        "gdp@",
        3,
        None,
    ],
)
def test_other_objectives_are_refused_in_one_sentence(text):
    for call in (Objective.of, lambda text: noise.cheapest(2, confidence=0.9, objective=text)):
        with pytest.raises(ValueError, match=r"^objective must be epsilon, .* got ") as error:
            call(text)
        assert "\n" not in str(error.value)


def test_an_objective_is_what_its_text_reads():
    for text in ("epsilon", "advantage", "zcdp", "gdp", "tpr@0.001", "renyi@8.5"):
        assert Objective.of(Objective.of(text).text) == Objective.of(text)
    assert Objective.of("epsilon") == EPSILON
    with pytest.raises(ValueError, match="epsilon alone"):
        noise.cheapest(2, confidence=0.9, method="published", objective="zcdp")


@pytest.mark.parametrize("theta", [0.01, 0.05])
def test_mu_of_large_losses_is_not_below_what_total_variation_asks_for(theta):
    """Where doubles of delta are 1: Gaussian noise of this mu must tell as much, Phi(mu / 2) - Phi(-mu / 2)."""
    found = noise.boosted("laplace", scale=theta / 3, theta=theta)
    with mpmath.workdps(400):
        missing, low, high = mpmath.exp(-1 / (2 * mpmath.mpf(found.scale))), mpmath.mpf(0), mpmath.mpf(1000)
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if mpmath.erfc(middle / mpmath.sqrt(8)) > missing else (low, middle)
    assert low <= Objective.of("gdp").cost(found, 0.0, 1) <= 2 * low


@pytest.mark.parametrize("scale", [1.0, 300.0, 3e4])
@pytest.mark.parametrize("order", [1.001, 1.01, 2.0, 7.3])
def test_renyi_divergences_of_laplace_noise_are_not_below_the_closed_form(scale, order):
    found = noise.boosted("laplace", scale=scale, theta=3 * scale)
    with mpmath.workdps(60):
        a, shift = mpmath.mpf(order), 1 / mpmath.mpf(scale)
        moment = a / (2 * a - 1) * mpmath.exp((a - 1) * shift) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * shift)
        truth = mpmath.log(moment) / (a - 1)
        assert truth <= noise.renyi(found, order) <= truth * (1 + mpmath.mpf("1e-9")) + mpmath.mpf("1e-11") / (a - 1)


@pytest.mark.slow
def test_noise_is_drawn_only_for_what_its_integers_keep():
    for objective in ("renyi@4", "zcdp", "gdp"):
        ranked = noise.cheapest(2, confidence=0.9, delta=1e-5, lattice=1, objective=objective)
        with pytest.raises(ValueError, match="tails that no table of 64-bit weights has"):
            ranked.named("optimal").for_release()


@pytest.mark.parametrize(("delta", "releases"), [(5e-324, 1), (1e-300, 2), (5e-324, 2)])
@pytest.mark.cases(1)
def test_deltas_that_no_double_resolves_are_taken_for_none(delta, releases):
    found = asked(2, 0.1, delta=delta, releases=releases)
    assert found.cost == pytest.approx(releases * asked(2, 0.1, delta=0.0).cost, rel=1e-9)
