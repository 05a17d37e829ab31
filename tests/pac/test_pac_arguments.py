"""Numbers of every kind are taken as what they are, and what cannot be is refused in one sentence."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from epsworth import pac
from epsworth.pac import MI, DPEquivalent, Ledger, PACPrivatizer, Posterior, RecordPosterior
from epsworth.pac.modes import MOST_SIMULATED

POOL = np.random.default_rng(0).normal(size=(12, 2))
HUGE = 10**400


@pytest.fixture(scope="module")
def fitted():
    return PACPrivatizer("mean", MI(0.1), worlds=8, worlds_seed=0).fit(POOL)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble, Fraction])
def test_budgets_take_numbers_of_every_kind(kind, fitted):
    given = kind("0.1")
    ledger = Ledger(MI(given))
    assert type(MI(given).mi) is float
    assert MI(given).mi <= given  # never more than was asked for
    assert "of 0.1 nats" in repr(ledger) or kind is np.float16
    PACPrivatizer("mean", MI(ledger.total), worlds=8).fit(POOL).release(ledger)
    for budget in (Posterior(kind("0.7"), kind("0.5")), DPEquivalent(kind("0.5")), RecordPosterior(kind("0.7"))):
        assert budget.__class__.__name__ in repr(budget)
        assert str(budget)
    near = RecordPosterior(0.7, near=kind("0.01"))
    assert near.near >= kind("0.01")  # rather together than apart
    assert "rows within 0.01" in str(near) or kind is np.float16


@pytest.mark.parametrize(
    "asked",
    [
        lambda: pac.posterior(HUGE, 0.5), lambda: pac.posterior(0.1, HUGE), lambda: pac.budget(HUGE, 0.5),
        lambda: pac.tpr_bound(HUGE), lambda: pac.dp_epsilon(HUGE), lambda: pac.dp_posterior(HUGE),
        lambda: pac.allocate([1.0], HUGE), lambda: MI(HUGE), lambda: RecordPosterior(0.7, near=HUGE),
    ],
)  # fmt: skip
def test_numbers_beyond_a_float_are_refused(asked):
    with pytest.raises(ValueError, match=r"must be a number that a float can hold, up to 1\.8e308$"):
        asked()


COUNTS = [None, -1, 0, 1.5, True, math.inf, math.nan, "9", 10**12, HUGE]
SEEDS = ["x", 1.5, True, [1]]


@pytest.mark.parametrize("count", COUNTS, ids=lambda count: repr(count)[:9])
def test_counts_of_simulated_releases_are_whole_and_bounded(fitted, count):
    for name, least, asked in (
        ("draws", 2, lambda: fitted.audit(draws=count)),
        ("n", 1, lambda: fitted.simulate_utility(lambda vector: 0.0, n=count)),
        ("n", 1, lambda: fitted.simulated_releases(count, 0)),
        ("trials", 2, lambda: pac.lira(fitted, POOL, trials=count)),
        ("releases", 2, lambda: pac.pool_test("mean", POOL, POOL[:1], MI(0.1), releases=count)),
    ):
        with pytest.raises(ValueError, match=rf"^{name} must be a whole number from {least} to {MOST_SIMULATED}"):
            asked()


@pytest.mark.parametrize("seed", SEEDS, ids=repr)
def test_generators_of_analyses_are_whole_numbers_or_generators(fitted, seed):
    for asked in (
        lambda: fitted.audit(rng=seed), lambda: fitted.simulated_releases(2, seed),
        lambda: fitted.simulate_utility(lambda vector: 0.0, rng=seed), lambda: pac.lira(fitted, POOL, rng=seed),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"^rng must be a numpy.random.Generator or a seed"):
            asked()
    one, other = (fitted.simulated_releases(3, rng)[1] for rng in (5, np.random.default_rng(5)))
    np.testing.assert_array_equal(one, other)


def test_checkpoints_and_adapters_are_what_they_must_be():
    for given in (5, b"x", True):
        with pytest.raises(TypeError, match=rf"^checkpoint must be the path .* got {re.escape(repr(given))}$"):
            PACPrivatizer("mean", MI(0.1), worlds=8, checkpoint=given).fit(POOL)
    for given in (None, "mean"):
        with pytest.raises(TypeError, match=r"^adapter must return a Mechanism, got a "):
            PACPrivatizer("mean", MI(0.1), worlds=8, adapter=lambda estimator, X, y: given).fit(POOL)  # noqa: B023
    with pytest.raises(TypeError, match=r"^adapter must be 'auto' or a function of"):
        PACPrivatizer("mean", MI(0.1), worlds=8, adapter=5).fit(POOL)


def test_a_generalised_prior_of_many_records_is_quick_or_refused():
    assert 0 < pac.generalised_prior(10_000, 5_000, 5_000, 2_600) < 1
    assert pac.generalised_prior(10**9, 5, 5, 6) == 0.0
    assert pac.generalised_prior(10**9, 5, 5, 0) == 1.0
    with pytest.raises(ValueError, match=r"^n must be at most 100000: the chance is added up exactly; got 1000000000$"):
        pac.generalised_prior(10**9, 5 * 10**8, 5 * 10**8, 10**9 // 3)
    exact = Fraction(math.comb(7, 3) * math.comb(5, 1) + math.comb(7, 4), math.comb(12, 4))
    found = Fraction(pac.generalised_prior(12, 7, 4, 3))
    assert exact <= found <= exact * (1 + Fraction(1, 2**52))  # never below
