"""Intervals and looks: exact, outward, and never spending more than they were given."""

from __future__ import annotations

import copy
import decimal
import itertools
import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from epsworth.bounds import MEAN_ULPS, Overspent, Risk, clopper_pearson, draws_needed, looks, mean_interval
from epsworth.rounding import float_below, round_down, round_up, sum_above


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


@given(value=st.floats(-2, 2) | st.floats(-1e6, 1e6), digits=st.integers(0, 9))
def test_rounding_errs_to_the_safe_side(value, digits):
    assert round_down(value, digits) <= value <= round_up(value, digits)
    apart = 1.0000001 * 10**-digits + np.spacing(abs(value))  # of two doubles
    assert round_up(value, digits) - round_down(value, digits) <= apart


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


INVERTED_BADLY = [  # trials, hits, miss at which the inverted beta function is up to 3,300,000 units too large
    (14, 10, 2.6638303842922993e-08), (183, 70, 0.01214470411354515), (406, 255, 2.1948451651291227e-11),
    (571, 118, 1.152318e-07), (76, 64, 7.984928e-10), (378, 227, 1.31853e-09),
    (2_177_653, 224_844, 6.1606121285e-10), (208_489_783, 11_399_744, 0.020337315538), (10, 1, 0.3), (10, 10, 1e-12),
    (862_702_633, 138_136_268, 1.991597344908021e-11), (966_506_174, 118_948_489, 1.2716707600737205e-300),
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


MANY = [  # at which the units that are enough for a thousand million trials are not
    (305_170_076_381, 58_129_532_672, 5.011533432626657e-209),
    (282_847_786_647, 55_207_562_430, 5.676855259421652e-239),
]  # fmt: skip


@pytest.mark.parametrize(("trials", "hits", "miss"), MANY)
def test_intervals_for_more_trials_allow_for_more(trials, hits, miss):
    lower = float(clopper_pearson(hits, trials, miss).lower)
    assert sixty_digit_tail(trials, hits, lower) <= mpmath.mpf(miss) / 2
    assert sixty_digit_tail(trials, hits, lower * (1 + 1e-6)) > mpmath.mpf(miss) / 2


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


REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "tailored.json").read_text())["mean_interval"]


@pytest.mark.parametrize("case", REFERENCE["cases"])
def test_intervals_of_means_are_those_of_the_reference(case):
    found = mean_interval(case["mean"], case["n"], case["delta"], case["low"], case["high"])
    assert [*map(float, found)] == pytest.approx(case["interval"], abs=REFERENCE["tolerance"])


def divergence(p, q):
    """Return kl(p, q) in sixty digits; p and q are digits already."""
    return (p and p * mpmath.log(p / q)) + (1 - p and (1 - p) * mpmath.log((1 - p) / (1 - q)))


HARD_MEANS = [  # where the divergence cancels, vanishes or cannot be bisected
    (0.3, 10**12, 1e-9), (0.5, 10**15, 0.9), (1e-9, 10**6, 0.05), (1 - 1e-12, 10**6, 1e-3), (1e-300, 1, 0.5),
    (0.0, 1, 0.05), (1.0, 1, 1e-300), (0.5, 1, 1.0), (5e-324, 10**9, 0.1), (1 / 3, 3, 1e-12),
    (2.0**-110, 10**48, 0.1), (2.0**-113, 10**47, 0.1), (2.0**-114, 10**50, 0.1),  # fifty digits lose it
]  # fmt: skip


@settings(max_examples=50)
@given(share=st.floats(0, 1), n=st.integers(1, 10**7), miss=st.floats(1e-12, 1), low=st.sampled_from([0.0, -3.0, 0.31]))
def test_ends_for_means_lie_outside_the_true_ones_and_close(share, n, miss, low):
    """A mean is allowed its units on either side, which is what the ends must have room for."""
    check_ends(low + share * (1.0 - low), n, miss, low, 1.0)


@pytest.mark.parametrize(("mean", "n", "miss"), HARD_MEANS)
def test_hard_means_have_safe_ends(mean, n, miss):
    check_ends(mean, n, miss, 0.0, 1.0)


def test_ends_for_means_are_rounded_outwards():
    """A mean of 0 has next to no units of its own, which would hide the rounding of the ends."""
    for n in range(1, 200):
        check_ends(0.0, n, 0.05, -0.31, 1.0)


def check_ends(mean, n, miss, low, high):
    """Both ends are excluded by the divergence, and 1e-9 further inwards they would not be."""
    ends = [float(end) for end in mean_interval(mean, n, miss, low, high)]
    assert low <= ends[0] <= mean <= ends[1] <= high
    off = MEAN_ULPS * math.ulp(mean)
    with mpmath.workdps(60):
        needed, width = mpmath.log(2 / mpmath.mpf(miss)) / n, mpmath.mpf(high) - low
        for moved in (mpmath.mpf(mean) + by for by in (-off, 0, off)):  # of a mean that was rounded
            p = min(max((moved - low) / width, 0), 1)
            lower, upper = ((end - low) / width for end in map(mpmath.mpf, ends))
            for share, q in ((p, lower), (1 - p, 1 - upper)):
                assert q == 0 or (q < share and divergence(share, q) >= needed)
                inwards = q + mpmath.mpf(1e-9) / width
                assert inwards >= share or divergence(share, inwards) < needed


@pytest.mark.slow
def test_intervals_of_means_cover():
    """500 runs at 0.1 miss more than 70 times with probability below 0.0018; of both laws one does with 0.0036.

    Forty values of an uneven law near an end, Beta(0.3, 0.1) on [0.2, 1]; and coins, whose sums are the worst case.
    """
    rng = np.random.default_rng(7)
    for values, truth in (
        (0.2 + 0.8 * rng.beta(0.3, 0.1, (40, 500)), 0.8),
        (np.where(rng.random((40, 500)) < 0.9, 1.0, 0.2), 0.92),
    ):
        many = Risk.apart(0.9, 500).mean(values, 0.2, 1.0)
        assert ((many.lower > truth) | (many.upper < truth)).sum() <= 70
        assert ((many.upper - many.lower) < 0.5).all()  # and say something


@pytest.mark.parametrize("p", [0.02, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("n", [1, 4, 60])
def test_intervals_of_means_of_coins_miss_at_most_as_often_as_they_may_on_either_side(n, p):
    hits = np.arange(n + 1)
    for miss in (0.5, 0.1, 1e-3):
        lower, upper = mean_interval(hits / n, n, miss)
        chances = binom.pmf(hits, n, p)
        assert chances[lower > p].sum() <= miss / 2
        assert chances[upper < p].sum() <= miss / 2


def test_means_are_paid_for_and_summed_without_loss():
    values = np.array([[1e16, 0.25], [1.0, 0.5], [-1e16, 0.75]])  # a plain sum would lose the one
    several = Risk(0.01).split(3)
    found = several.mean(values, -1e16, 1e16)
    np.testing.assert_array_equal(found, mean_interval([1 / 3, 0.5], 3, several.each, -1e16, 1e16))
    assert (several.left, several.spent) == (1, 2 * several.each)
    one = Risk(0.1).mean([0.25, 0.5, 1.0])
    assert one.lower.shape == ()
    assert 0 < one.lower < 1.75 / 3 < one.upper < 1
    full = Risk(0.1).mean([0.1] * 10, 0.0, 0.1)  # whatever the rounding of the mean
    assert float(full.upper) == 0.1


def test_no_context_of_decimals_moves_an_end():
    expected = mean_interval(0.3, 50, 0.01)
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_UP, traps=[decimal.Inexact])):
        assert mean_interval(0.3, 50, 0.01) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.5, 0, 0.1), "n must be a whole number of at least 1"),
        ((0.5, 2.5, 0.1), "n must be a whole number of at least 1"),
        ((0.5, 3, 1.5), r"must lie in \[0, 1\]"),
        ((0.5, 3, math.nan), r"must lie in \[0, 1\]"),
        ((0.5, 3, 0.1, 0.5, 0.5), "low must be below high"),
        ((0.5, 3, 0.1, 1.0, 0.0), "low must be below high"),
        ((0.5, 3, 0.1, 0.0, math.inf), "low must be below high"),
        ((0.5, 3, 0.1, math.nan, 1.0), "low must be below high"),
        ((1.001, 3, 0.1), "must lie there, too"),
        (([0.5, math.nan], 3, 0.1), "must lie there, too"),
    ],
)
def test_what_has_no_interval_is_refused_in_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message) as told:
        mean_interval(*arguments)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("values", [[], 0.5, [0.5, 1.5], [-1e-300], [math.nan, 0.5]])
def test_values_that_leave_their_range_are_refused_before_anything_is_paid(values):
    risk = Risk(0.1)
    with pytest.raises(ValueError, match="widen low and high"):
        risk.mean(values)
    with pytest.raises(ValueError, match="low must be below high"):
        risk.mean([0.5], 0.5, 0.5)
    assert (risk.left, risk.spent) == (1, 0)


@given(st.lists(st.floats(0, 1e3), max_size=8))
@example([0.1] * 10)
@example([0.1, 0.2])
def test_sums_are_rounded_up(losses):
    exact, found = sum(map(Fraction, losses)), sum_above(losses)
    assert Fraction(found) >= exact > Fraction(math.nextafter(found, -math.inf))
