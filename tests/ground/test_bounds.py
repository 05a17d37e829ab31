"""Intervals and looks: exact, outward, and never spending more than they were given."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from epsworth.bounds import Risk, clopper_pearson, draws_needed, looks
from epsworth.rounding import round_down, round_up


@given(n=st.integers(1, 5_000), share=st.floats(0, 1), miss=st.sampled_from([0.05, 1e-3, 1e-6]))
def test_clopper_pearson_agrees_with_scipy(n, share, miss):
    hits = round(share * n)
    lower, upper = clopper_pearson(hits, n, miss)
    expected = binomtest(hits, n).proportion_ci(1 - miss, method="exact")
    assert float(lower) == pytest.approx(expected.low, abs=1e-7)
    assert float(upper) == pytest.approx(expected.high, abs=1e-7)
    assert 0 <= lower <= hits / n <= upper <= 1


shares = st.just(0.0) | st.floats(1e-300, 1)  # below that scipy's own binom.pmf overflows


@given(n=st.integers(1, 60), p=shares, miss=st.sampled_from([0.2, 0.05, 1e-3]))
def test_clopper_pearson_covers_exactly(n, p, miss):
    """The exact probability of missing, summed over all outcomes, is at most ``miss``."""
    hits = np.arange(n + 1)
    lower, upper = clopper_pearson(hits, n, miss)
    missed = (lower > p) | (upper < p)
    assert binom.pmf(hits, n, p)[missed].sum() <= miss


@pytest.mark.parametrize(("half_width", "miss"), [(0.01, 1e-3), (0.02, 1e-6), (0.1, 0.05), (0.3, 0.5)])
def test_draws_needed_is_enough_for_every_outcome(half_width, miss):
    n = draws_needed(half_width, miss)
    lower, upper = clopper_pearson(np.arange(n + 1), n, miss)
    assert (upper - lower).max() <= 2 * half_width
    lower, upper = clopper_pearson(np.arange(n), n - 1, miss)
    assert (upper - lower).max() > 2 * half_width


def test_draws_needed_meets_the_specifications_figure():
    assert draws_needed(0.01, 1e-3) == pytest.approx(27_335, rel=0.01)
    assert draws_needed(0.01, 1e-6) == pytest.approx(60_065, rel=0.01)


@pytest.mark.parametrize("tolerance", [0.3, 0.1, 0.02, 0.01])
def test_looks_spend_all_and_no_more(tolerance):
    risk = Risk(1e-3)
    schedule = looks(tolerance, risk.split(7))  # of seven bounds
    assert risk.left == 0
    assert {look.risk.left for look in schedule} == {7}
    assert sum(7 * look.risk.each for look in schedule) == risk.total
    assert all(a.draws < b.draws for a, b in itertools.pairwise(schedule))
    last = schedule[-1]
    lower, upper = clopper_pearson(np.arange(last.draws + 1), last.draws, last.risk.spend())
    assert (upper - lower).max() <= 2 * tolerance


def test_a_hopeless_tolerance_is_refused():
    with pytest.raises(ValueError, match="take a larger one"):
        draws_needed(1e-7, 1e-3)


@given(value=st.floats(-2, 2), digits=st.integers(0, 9))
def test_rounding_errs_to_the_safe_side(value, digits):
    assert round_down(value, digits) <= value <= round_up(value, digits)
    assert round_up(value, digits) - round_down(value, digits) <= 1.0000001 * 10**-digits


def test_rounding_leaves_infinity_alone():
    assert round_up(np.inf) == np.inf


def test_bounds_are_exact_in_rational_arithmetic():
    """Pr[as many hits or more] at the lower bound stays below its side of the miss, whatever rounding did."""
    for n, hits, miss in itertools.product((1, 2, 7, 30), (1, 2, 5, 29, 30), (0.3, 1e-3, 1e-9)):
        if hits <= n:
            lower, upper = clopper_pearson(hits, n, miss)
            assert tail(n, hits, Fraction(float(lower))) < Fraction(miss) / 2
            assert hits == n or tail(n, n - hits, 1 - Fraction(float(upper))) < Fraction(miss) / 2


def tail(n, hits, p):
    """Pr[Bin(n, p) >= hits], exactly."""
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(hits, n + 1))
