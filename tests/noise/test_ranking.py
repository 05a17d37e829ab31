"""The ranked list: promises, order, inverse uses, the published accounting beside the truth (acceptance 8, 9, 11)."""

from __future__ import annotations

import math
import time
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from epsworth import noise
from epsworth.noise.mechanism import Boosted
from epsworth.noise.profiles import boost_needed, outside
from epsworth.noise.published import published_epsilon
from epsworth.noise.ranking import noise_named, question
from epsworth.noise.regions import Absolute
from epsworth.noise.staircase import best_staircase
from epsworth.rounding import float_below
from strategies import sparing

NAMES = {
    "gaussian", "laplace", "staircase", "pb_gaussian", "pb_laplace", "truncated_gaussian", "truncated_laplace",
    "discrete_gaussian", "discrete_laplace", "pb_discrete_gaussian", "pb_discrete_laplace", "optimal",
}  # fmt: skip


@pytest.mark.slow
def test_the_list_is_complete_ranked_and_meets_the_constraint():
    ranked = noise.cheapest(5.0, confidence=0.95, delta=1e-5)
    assert {choice.name for choice in ranked} | set(ranked.left_out) == NAMES
    assert [c.epsilon for c in ranked] == sorted(c.epsilon for c in ranked)
    for choice in ranked:
        assert choice.sound
        assert choice.delta == 1e-5
        assert float(choice.noise.profile(choice.epsilon)) <= 1e-5
        assert choice.confidence >= 0.95
        half = 5.0 - getattr(choice.noise, "rounding", 0.0)
        assert float(choice.law(0.0).mass(-half, half)) >= 0.95 - 1e-12
        spread = float(choice.law(0.0).var())
        rounding = getattr(choice.noise, "rounding", 0.0)
        assert choice.rmse == pytest.approx(math.sqrt(spread + rounding**2), rel=1e-6)
    assert "Take" in ranked.advice
    assert ranked[0] is next(iter(ranked))
    with pytest.raises(KeyError, match="no choice 'nope'"):
        ranked.named("nope")


# theta, beta -> Gaussian, boosted Gaussian, claimed, truth of the claimed kernel, Laplace, staircase; delta = 1e-5
ONE_RELEASE = [
    (0.5, 0.1, 18.80, 3.627, 5.316, 4.375, 4.605, 2.944),
    (1, 0.2, 5.849, 2.152, 3.621, 2.612, 1.609, 1.609),
    (2, 0.01, 5.883, 4.039, 5.398, 4.643, 2.303, 2.303),
    (5, 0.001, 2.714, 2.574, 2.576, 2.742, 1.382, 1.382),
    (10, 0.001, 1.253, 1.230, 1.213, 1.442, 0.691, 0.691),
]


@pytest.mark.parametrize(("row",), sparing(((row,) for row in ONE_RELEASE), keep=(1, 3)))  # noqa: PT006
@pytest.mark.slow
def test_what_a_user_gains(row):
    theta, beta, gaussian, best, claimed, truth, laplace, staircase = row
    ranked = noise.cheapest(theta, confidence=1 - beta, delta=1e-5, method="published")
    published = ranked.named("pb_gaussian (published)")
    assert not published.sound
    found = [ranked.named(name).epsilon for name in ("gaussian", "pb_gaussian", "laplace", "staircase")]
    assert [*found, published.epsilon] == pytest.approx([gaussian, best, laplace, staircase, claimed], rel=6e-4)
    assert published.exact_epsilon == pytest.approx(truth, rel=2e-2)  # the claim is flat in the kernel, the truth not
    assert ranked.named("pb_gaussian").epsilon <= ranked.named("gaussian").epsilon
    assert ranked.named("optimal").sound


@pytest.mark.slow
def test_the_published_claim_can_be_below_the_truth():
    """sigma = 1.05 sigma_0, theta = 20, beta = .001: 292 times in delta; the chosen kernel loses to the plain one."""
    where = Absolute(20.0)
    sigma = 1.05 * 20 / 3.290526731492
    found = Boosted("gaussian", sigma, float(boost_needed(outside("gaussian", sigma, where), 0.001)), where, 1.0)
    claim, truth = float(noise.published_delta(found, 0.958)), float(found.profile(0.958))
    assert truth / claim > 250
    assert published_epsilon(found, 1e-5) < found.epsilon(1e-5)
    ranked = noise.cheapest(10, confidence=0.999, delta=1e-5, method="published")
    chosen = ranked.named("pb_gaussian (published)")
    assert chosen.epsilon < ranked.named("gaussian").epsilon < chosen.exact_epsilon
    assert not chosen.sound
    assert "published" not in ranked.advice


@pytest.mark.slow
def test_one_release_of_the_advice_is_a_second_at_most():
    noise.cheapest(5.0, confidence=0.95)
    start = time.perf_counter()
    noise.cheapest(3.0, confidence=0.98)
    assert time.perf_counter() - start < 5  # the bar of one second is measured by benchmarks/noise.py


@pytest.mark.parametrize(("c", "theta", "beta", "gaussian", "best", "staircase", "size"), [
    (2, 0.2, 0.1, 3.496, 3.391, 1.151, 1),
    pytest.param(5, 0.2, 0.01, 2.061, 2.061, 0.921, 1, marks=pytest.mark.slow),
    pytest.param(5, 0.2, 0.1, 7.877, 4.034, 2.303, 5, marks=pytest.mark.slow),
])  # fmt: skip
@pytest.mark.slow
def test_relative_errors(c, theta, beta, gaussian, best, staircase, size):
    ranked = noise.cheapest(
        theta, confidence=1 - beta, sensitivity=size, delta=1e-5, region="relative", offset=c, answers=range(151)
    )
    found = [ranked.named(name).epsilon for name in ("gaussian", "pb_gaussian", "staircase")]
    assert found == pytest.approx([gaussian, best, staircase], rel=2e-3)
    assert found[1] <= best * (1 + 6e-4)  # the table tried 11 scales
    assert ranked.named("pb_gaussian").pairs == 2 * sum(150 - d + 1 for d in range(1, size + 1))


def test_fixed_regions_are_met_by_clamping_and_truncation():
    ranked = noise.cheapest((0, 10), confidence=0.9, delta=1e-5, region="fixed", scale=2.0)
    found = [ranked.named(name).epsilon for name in ("clamped_gaussian", "pb_gaussian", "truncated_gaussian")]
    assert found == pytest.approx([1.993, 2.058, 1.735], abs=1e-3)
    for name in ("clamped_gaussian", "truncated_laplace"):
        law = ranked.named(name).law(np.array([0.0, 3.0]))
        np.testing.assert_allclose(law.mass(0.0, 10.0), 1.0, atol=1e-12)
        draws = ranked.named(name).sample(np.full(1000, 3.0), np.random.default_rng(0))
        assert ((draws >= 0) & (draws <= 10)).all()


@pytest.mark.parametrize("delta", [0.25, 0.9])
@pytest.mark.slow
def test_a_delta_that_is_enough_alone_is_answered_with_the_published_choice(delta):
    ranked = noise.cheapest(5.0, confidence=0.95, delta=delta, method="published")
    assert ranked[0].epsilon == 0
    assert all(choice.confidence >= 0.95 for choice in ranked)


def test_no_delta_leaves_the_pure_ones():
    ranked = noise.cheapest(5.0, confidence=0.95, delta=0.0)
    assert set(ranked.left_out) == {name for name in NAMES if "gaussian" in name} | {"truncated_laplace"}
    assert ranked[0].epsilon == pytest.approx(math.log(20) / 5)
    for choice in ranked:
        assert choice.noise.pure_epsilon == choice.epsilon


@pytest.mark.parametrize(("theta", "beta", "delta"), sparing([
    (1e-3, 0.05, 1e-6), (5.0, 0.05, 0.3), (5.0, 1e-9, 1e-6), (1e3, 0.05, 0.0),
], keep=(0, 1, 3)))  # fmt: skip
@pytest.mark.slow
def test_extreme_questions_are_answered(theta, beta, delta):
    ranked = noise.cheapest(theta, confidence=1 - beta, delta=delta)
    assert ranked.advice.startswith("Take")
    for choice in ranked:
        assert choice.epsilon >= ranked.floor
        assert choice.confidence >= 1 - beta
    best = next(choice for choice in ranked if choice.name == "optimal")
    assert best.epsilon <= ranked[0].epsilon * (1 + 1e-6)
    assert best.epsilon <= ranked.floor * 1.005


@pytest.mark.parametrize(("theta", "beta", "lattice"), sparing([
    (3, 1e-6, None), (3, 1e-15, 1), (7, 0.999, None),
], keep=(1,)))  # fmt: skip
@pytest.mark.slow
def test_confidences_are_never_below_what_was_asked(theta, beta, lattice):
    """As doubles, and as the laws have it."""
    confidence = 1 - Fraction(repr(beta))
    for choice in noise.cheapest(theta, confidence=confidence, delta=1e-12, lattice=lattice, method="published"):
        assert choice.confidence >= float_below(confidence), choice.name
        assert Fraction(choice.noise.outside) <= 1 - confidence, choice.name


@pytest.mark.parametrize(("theta", "sensitivity", "lattice", "first"), sparing([
    (1e-6, 1.0, None, "staircase"), (1e5, 1.0, None, "pb_laplace"), (5.0, 1e9, 1.0, "staircase"),
], keep=(1,)))  # fmt: skip
@pytest.mark.slow
def test_every_ratio_is_answered_in_bounded_time_and_memory(theta, sensitivity, lattice, first):
    tracemalloc.start()
    ranked = noise.cheapest(theta, confidence=0.95, sensitivity=sensitivity, delta=1e-6, lattice=lattice)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
    assert ranked[0].name == first
    assert {choice.name for choice in ranked} | set(ranked.left_out) == NAMES
    for name, why in ranked.left_out.items():
        assert why, name


@pytest.mark.parametrize(("theta", "sensitivity"), [(1e-10, 1.0), (1e10, 1.0), (1.0, 1e-60), (1e-99, 1e99)])
def test_ratios_beyond_all_use_are_refused(theta, sensitivity):
    with pytest.raises(ValueError, match="sensitivity must lie within a factor 1e"):
        noise.cheapest(theta, confidence=0.95, sensitivity=sensitivity)


@pytest.mark.parametrize("unit", [1e-99, 1e-30, 1e99])
@pytest.mark.cases(1)
def test_the_unit_of_the_answers_does_not_matter(unit):
    asked, other = (question(5 * u, 0.95, u, 1e-5) for u in (1.0, unit))
    for name in ("staircase", "gaussian", "pb_laplace", "truncated_gaussian"):
        here, there = noise_named(name, asked), noise_named(name, other)
        assert there.epsilon(1e-5) == pytest.approx(here.epsilon(1e-5), rel=1e-6)
        assert there.rmse == pytest.approx(here.rmse * unit, rel=1e-4)


def test_a_staircases_error_is_that_of_its_law():
    for theta in (0.3, 1.0, 2.5, 40.0):
        found = best_staircase(theta, 0.05, 1.3)
        assert found.rmse == pytest.approx(math.sqrt(float(found.law(0.0).mean_square())), rel=1e-9)
    with pytest.raises(ValueError, match="needs a table of"):
        best_staircase(1e6, 0.05, 1.0).law()


def test_an_epsilon_that_no_width_affords_is_said():
    with pytest.raises(ValueError, match="affords no theta"):
        noise.narrowest_interval(1e-12, confidence=0.95, delta=0.0, mechanism="laplace")
    with pytest.raises(ValueError, match="affords no theta"):
        noise.narrowest_interval(1e-6, confidence=0.95, delta=0.0, mechanism="discrete_laplace")


@pytest.mark.slow
def test_inverse_uses_are_affordable_and_nearly_tight():
    theta = noise.narrowest_interval(1.0, confidence=0.95, mechanism="staircase")
    assert noise.cheapest(theta, confidence=0.95).named("staircase").epsilon <= 1.0
    assert noise.cheapest(theta * (1 - 1e-5), confidence=0.95).named("staircase").epsilon > 1.0
    sure = noise.best_confidence(1.0, theta, mechanism="laplace")
    assert noise.cheapest(theta, confidence=sure).named("laplace").epsilon <= 1.0
    assert noise.cheapest(theta, confidence=1 - (1 - sure) * (1 - 1e-4)).named("laplace").epsilon > 1.0
    assert noise.most_releases(0.5, theta, confidence=0.95, mechanism="staircase") == 0
    assert noise.most_releases(3.0, 5.0, confidence=0.95, delta=1e-5, mechanism="gaussian") == 3
    with pytest.raises(ValueError, match="mechanism must be one of"):
        noise.narrowest_interval(1.0, confidence=0.95, mechanism="cauchy")


@pytest.mark.parametrize(("change", "message"), [
    ({"confidence": 0.0}, "confidence must be positive"), ({"confidence": 1.0}, "confidence must lie"),
    ({"delta": 1.0}, "delta must be below 1"), ({"delta": -1e-9}, "delta must be not negative"),
    ({"sensitivity": 0.0}, "sensitivity must be positive"), ({"releases": 0}, "releases must be a whole number"),
    ({"releases": 1.5}, "releases must be a whole number"), ({"method": "guess"}, "method must be"),
    ({"lattice": 0.3}, "sensitivity must be a multiple"), ({"scale": 1.0}, "scale belongs to"),
    ({"region": "fixed", "lattice": 1.0}, "lattice belongs to"), ({"offset": 1.0}, "offset belongs to"),
    ({"theta": math.nan}, "theta must be positive"), ({"theta": math.inf}, "theta must be positive"),
    ({"theta": 10**400}, "theta must be positive"), ({"theta": 1e-320}, "theta must lie"),
    ({"theta": "5"}, "theta must"),
    ({"sensitivity": math.nan}, "sensitivity must"), ({"sensitivity": 1e300}, "sensitivity must lie"),
    ({"confidence": math.nan}, "confidence must"), ({"confidence": 1 - 1e-16}, "confidence must lie"),
    ({"confidence": 1 - Fraction("1e-16")}, "confidence must lie"),
    ({"confidence": Fraction(3, 2)}, "confidence must lie"),
    ({"delta": math.nan}, "delta must"),
    ({"releases": 10**9}, "releases must be at most"), ({"releases": math.nan}, "releases must be a whole number"),
    ({"lattice": math.nan}, "lattice must"), ({"lattice": 1e-320}, "lattice must lie"),
    ({"region": "fixed", "theta": (0, math.inf)}, "theta must be the two ends"),
    ({"region": "fixed", "theta": (0, 1e9)}, "more than 100000 whole numbers"),
    ({"region": "fixed", "theta": (0, 9), "scale": math.inf}, "scale must"),
    ({"region": "relative", "offset": math.nan, "answers": [0, 1]}, "offset must"),
])  # fmt: skip
def test_misuse_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        noise.cheapest(**{"theta": 2.0, "confidence": 0.95, **change})


@pytest.mark.slow
def test_one_row_is_tuned_without_the_others(monkeypatch):
    """The inverse questions ask for one noise dozens of times; the linear program belongs to another."""
    monkeypatch.setattr("epsworth.noise.ranking.optimal_noise", None)
    assert 0.9 < noise.best_confidence(2.0, 5.0, mechanism="laplace") < 1
