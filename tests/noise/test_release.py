"""Draws fit for release: the promise belongs to the integers that are drawn from."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from epsworth import noise
from epsworth.client.kernels import WORD, exp_below
from epsworth.mechanisms.words import NotPrivate, ReplayableWords
from epsworth.noise.lattice import LatticeNoise
from strategies import sparing

RANKED = noise.cheapest(5, confidence=0.95, delta=1e-5, lattice=1)
LATTICE = ("optimal", "discrete_laplace", "pb_discrete_gaussian")


@pytest.mark.parametrize("name", LATTICE)
def test_integers_keep_what_the_list_says(name):
    choice = RANKED.named(name)
    release = choice.for_release()
    assert sum(release.weights) == WORD
    assert release.weights == release.weights[::-1]
    assert release.confidence >= Fraction(95, 100)
    assert choice.epsilon * (1 - 1e-9) <= release.epsilon("1e-5") <= choice.epsilon
    assert release.delta(choice.epsilon) == pytest.approx(1e-5, rel=1e-6)


@pytest.mark.parametrize("name", LATTICE)
def test_the_promise_holds_for_every_shift_exactly(name):
    release = RANKED.named(name).for_release()
    epsilon = release.epsilon("1e-5")
    bound, w = exp_below(Fraction(epsilon)), release.weights
    for shift in range(1, release.shift + 1):
        before, after = [0] * shift + list(w), list(w) + [0] * shift
        for first, second in ((after, before), (before, after)):
            slack = sum(max(a - bound * b, 0) for a, b in zip(first, second, strict=True))
            assert slack / WORD <= Fraction("1e-5")


def test_the_table_draws_with_exactly_these_weights():
    release = RANKED.named("optimal").for_release()
    assert tuple(release._table.weights()[: len(release.weights)]) == release.weights


def test_draws_follow_the_weights():
    """100 000 replayable draws; every share within 5.5 standard errors: false-alarm rate about 1e-6."""
    release, n = RANKED.named("optimal").for_release(), 100_000
    drawn = np.asarray(release.draw(np.full(n, 7), words=ReplayableWords(4)))
    p = np.array([w / WORD for w in release.weights])
    points = np.arange(p.size) - p.size // 2 + 7
    shares = np.array([(drawn == point).mean() for point in points])
    assert (np.abs(shares - p) <= 5.5 * np.sqrt(p * (1 - p) / n) + 1e-4).all()
    assert abs((np.abs(drawn - 7) <= 5).mean() - float(release.confidence)) < 5.5 * np.sqrt(0.05 / n)


def test_releases_are_not_seeded_and_tests_are_marked():
    release = RANKED.named("discrete_laplace").for_release()
    first, second = release.draw(np.zeros(64, dtype=int)), release.draw(np.zeros(64, dtype=int))
    assert (first != second).any()  # equal with probability below 1e-30
    assert not isinstance(first, NotPrivate)
    assert isinstance(release.draw([0], words=ReplayableWords(1)), NotPrivate)


@pytest.mark.slow
def test_answers_are_rounded_to_the_lattice_first():
    release = noise.cheapest(5, confidence=0.95, delta=1e-5).named("discrete_laplace").for_release()
    answers = np.array([0.0, 1.26, -3.99])
    assert (np.abs(release.index(answers) * release.step - answers) <= release.step / 2).all()
    with pytest.raises(ValueError, match="answers must be finite"):
        release.index([np.nan])
    with pytest.raises(TypeError, match="index must be whole numbers"):
        release.draw([0.5])


def test_a_boosted_table_that_does_not_fall_is_checked_at_every_shift():
    masses = np.array([0.1, 0.05, 0.7, 0.05, 0.1])
    release = noise.release_of(LatticeNoise(masses=masses, step=1.0, shift=2, inside=1))
    epsilon, w = 1.0, np.array(release.weights, dtype=object)
    worst = max(
        sum(max(a - exp_below(Fraction(1)) * b, 0) for a, b in zip([*w, *[0] * d], [*[0] * d, *w], strict=True))
        for d in (1, 2)
    )
    assert release.slack(exp_below(Fraction(epsilon))) == Fraction(worst) / WORD


@pytest.mark.parametrize(("theta", "beta", "delta", "lattice"), sparing([
    (1, 0.001, 1e-9, 1), (3, 1e-6, 1e-12, None), (5, 0.05, 1e-14, None),
], keep=(0,)))  # fmt: skip
@pytest.mark.slow
def test_the_list_states_no_less_than_its_integers_keep(theta, beta, delta, lattice):
    """Their tables end, and tails are rounded to 2^-64: with a small delta that costs."""
    ranked = noise.cheapest(theta, confidence=1 - Fraction(repr(beta)), delta=delta, lattice=lattice)
    seen = 0
    for choice in ranked:
        if not isinstance(choice.noise, LatticeNoise):
            continue
        release = choice.for_release()
        assert choice.epsilon >= release.epsilon(delta), choice.name
        assert release.slack(exp_below(Fraction(choice.epsilon))) <= Fraction(repr(delta)), choice.name
        assert release.confidence >= 1 - Fraction(repr(beta))
        seen += 1
    assert seen >= 4


@pytest.mark.parametrize("delta", [0.0, 1e-25])
@pytest.mark.slow
def test_a_row_that_no_table_can_keep_is_not_released(delta):
    choice = noise.cheapest(5, confidence=0.95, delta=delta, lattice=1).named("discrete_laplace")
    with pytest.raises(ValueError, match="no table of 64-bit weights"):
        choice.for_release()


def test_a_sensitivity_of_more_steps_than_the_table_is_counted_fully():
    release = noise.release_of(LatticeNoise(masses=np.array([0.1, 0.8, 0.1]), step=1.0, shift=7, inside=1))
    assert release.slack(exp_below(Fraction(3))) == 1


def test_continuous_laws_are_refused():
    for name in ("laplace", "pb_gaussian", "staircase"):
        with pytest.raises(ValueError, match="not fit for release"):
            RANKED.named(name).for_release()
