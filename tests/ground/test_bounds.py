"""Intervals and looks: exact, outward, and never spending more than they were given."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from epsworth.bounds import Overspent, Risk, clopper_pearson, draws_needed, looks
from epsworth.rounding import float_below, round_down, round_up


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


INVERTED_BADLY = [  # trials, hits, miss at which the inverted beta function is up to 200,000 units too large
    (14, 10, 2.6638303842922993e-08), (183, 70, 0.01214470411354515), (406, 255, 2.1948451651291227e-11),
    (571, 118, 1.152318e-07), (76, 64, 7.984928e-10), (378, 227, 1.31853e-09),
    (2_177_653, 224_844, 6.1606121285e-10), (208_489_783, 11_399_744, 0.020337315538), (10, 1, 0.3), (10, 10, 1e-12),
]  # fmt: skip


def sixty_digit_tail(n, hits, p):
    """Return Pr[Bin(n, p) >= hits] for p below hits / n: its first term times a continued fraction (Lentz)."""
    with mpmath.workdps(60):
        p, a, b = mpmath.mpf(p), mpmath.mpf(hits), mpmath.mpf(n - hits + 1)
        log_first = a * mpmath.log(p) + b * mpmath.log1p(-p) + mpmath.loggamma(a + b)
        first = mpmath.exp(log_first - mpmath.loggamma(a + 1) - mpmath.loggamma(b))
        d = 1 / (1 - (a + b) * p / (a + 1))
        c, found, m = mpmath.mpf(1), d, 1
        while True:
            even = m * (b - m) * p / ((a + 2 * m - 1) * (a + 2 * m))
            d, c = 1 / (1 + even * d), 1 + even / c
            found *= d * c
            odd = -(a + m) * (a + b + m) * p / ((a + 2 * m) * (a + 2 * m + 1))
            d, c = 1 / (1 + odd * d), 1 + odd / c
            found *= d * c
            if abs(d * c - 1) < mpmath.mpf(10) ** -40:
                return first * found
            m += 1


@pytest.mark.parametrize(("trials", "hits", "miss"), INVERTED_BADLY)
def test_intervals_allow_for_the_error_of_the_inverted_beta_function(trials, hits, miss):
    lower = float(clopper_pearson(hits, trials, miss).lower)
    upper = float(clopper_pearson(trials - hits, trials, miss).upper)
    assert sixty_digit_tail(trials, hits, lower) < mpmath.mpf(miss) / 2
    assert sixty_digit_tail(trials, hits, 1 - mpmath.mpf(upper)) <= mpmath.mpf(miss) / 2
    assert sixty_digit_tail(trials, hits, lower * (1 + 1e-8)) > mpmath.mpf(miss) / 2


@pytest.mark.slow
def test_a_hundred_thousand_intervals_hold_in_sixty_digits():
    rng = np.random.default_rng(14)
    trials = (10 ** rng.uniform(0, 3.3, 100_000)).astype(int)
    hits = np.maximum(1, (trials * rng.uniform(size=trials.size)).astype(int))
    miss = 10 ** -rng.uniform(0.1, 12, trials.size)
    lower = clopper_pearson(hits, trials, miss).lower
    with mpmath.workdps(60):
        for n, k, side, p in zip(trials.tolist(), hits.tolist(), miss.tolist(), lower.tolist(), strict=True):
            term = total = int(
                mpmath.ldexp(math.comb(n, k) * mpmath.mpf(p) ** k * mpmath.mpf(1 - mpmath.mpf(p)) ** (n - k), 300)
            )
            odds, one = int(mpmath.ldexp(mpmath.mpf(p) / (1 - mpmath.mpf(p)), 200)), 1 << 200
            while term and k < n:
                term = term * (n - k) * odds // ((k + 1) * one)
                total, k = total + term, k + 1
            assert total <= int(mpmath.ldexp(mpmath.mpf(side) / 2, 300)), (n, k, side)
    for n in (10**6, 10**7, 10**8, 5 * 10**8):
        for share in (1e-3, 0.05, 0.1, 0.3):
            for side in (0.1, 1e-4, 1e-9):
                k = int(share * n)
                assert sixty_digit_tail(n, k, float(clopper_pearson(k, n, side).lower)) <= mpmath.mpf(side) / 2


weights = st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any)
actions = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 40) | weights | st.none()), max_size=12)


@given(miss=st.fractions(0, 1) | st.floats(0, 1), actions=actions)
def test_whatever_is_split_divided_and_spent_never_exceeds_the_risk(miss, actions):
    """Any tree of splits; the parts, those already divided among them, try to spend more than they have."""
    risk, paid = Risk(miss), Fraction(0)
    parts = [risk]
    for place, action in actions:
        part = parts[place % len(parts)]
        if action is None:
            parts += list(part)[:5]
        elif isinstance(action, list):
            parts += part.divide([Fraction(w, sum(action)) for w in action])
        elif action % 2:
            parts.append(part.split(action))
        else:
            bounds = min(action, part.left)
            paid += Fraction(part.spend(bounds)) * bounds
    for part in parts:
        with pytest.raises(Overspent):
            part.divide([Fraction(1, 3), Fraction(2, 3), Fraction(1, 10**30)])
        left = part.left
        with pytest.raises(Overspent):
            part.spend(left + 1)
        paid += Fraction(part.spend(left)) * left
    assert paid <= risk.spent <= risk.total == Fraction(miss)


def test_all_of_a_risk_can_be_spent_and_no_share_twice():
    risk = Risk.of(0.999)
    of_points, of_looks = risk.split(2)
    assert of_points.split(1000).spend(1000) == float_below((1 - Fraction(0.999)) / 2000)
    first, second = of_looks.divide([Fraction(1, 3), Fraction(2, 3)])
    assert first.spend() + second.spend() <= of_points.total / 2
    assert risk.spent == risk.total == 1 - Fraction(0.999)
    for part in (risk, of_points, of_looks, first, second):
        assert part.left == 0
        for bounds in (1, -1):
            with pytest.raises(Overspent, match="asked for where the risk of 0 is left"):
                part.spend(bounds)


@pytest.mark.parametrize(
    "weights", [[Fraction(1, 2), Fraction(1, 2), Fraction(1, 10**30)], [Fraction(-1, 2), Fraction(1)]]
)
def test_a_risk_is_not_divided_into_more_than_there_is(weights):
    with pytest.raises(Overspent, match="cannot be divided"):
        Risk(0.1).divide(weights)


@pytest.mark.parametrize("miss", [-1e-9, 1.5, math.nan])
def test_a_risk_is_a_probability(miss):
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        Risk(miss)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_risk_cannot_be_copied(copied):
    with pytest.raises(TypeError, match="a risk cannot be copied"):
        copied(Risk(0.1))


def test_threads_cannot_spend_a_share_twice():
    def spend_until_over(part):
        spent = 0
        while True:
            try:
                part.spend()
            except Overspent:
                return spent
            spent += 1

    for _ in range(20):
        risk = Risk(0.5)
        part = risk.split(500)
        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(spend_until_over, [part] * 4)) == 500
        assert risk.spent == risk.total


@given(value=st.fractions(0, 1))
def test_the_floor_of_a_fraction_is_the_double_below_it(value):
    assert Fraction(float_below(value)) <= value
    assert Fraction(math.nextafter(float_below(value), 2)) >= value
    assert value == 0 or Fraction(float_below(value)) >= value * (1 - Fraction(1, 2**51))


def test_intervals_are_paid_for():
    risk = Risk(0.01)
    several = risk.split(4)
    lower, upper = several.interval([3, 5, 9], 10)
    expected = clopper_pearson([3, 5, 9], 10, 0.0025)
    np.testing.assert_allclose([lower, upper], expected, rtol=1e-12)
    assert (several.left, risk.spent) == (1, Fraction(0.01) * 3 / 4)


def test_shares_that_are_taken_are_no_more_than_were_there_and_none_is_rounded_up():
    risk = Risk(Fraction(1, 10)).split(10)
    taken = risk.take(3)
    assert (taken.left, risk.left, taken.each) == (3, 7, Fraction(1, 100))
    taken.spend(3)
    with pytest.raises(Overspent):
        taken.spend()
    assert all(Fraction(Risk(1).split(n).spend()) <= Fraction(1, n) for n in range(3, 60))
    for confidence in (0.1, 0.3, 0.45, 1 - 2.0**-53):  # where the difference of doubles is not exact, and where it is
        assert Risk.of(confidence).total == 1 - Fraction(confidence)
