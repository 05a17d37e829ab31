"""Conversions against independent arithmetic: no promise on the wrong side, none loose by more than two ulp."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from epsworth import pac

TINY = st.floats(1e-300, 1, exclude_max=True).map(float)
SHARES = st.one_of(
    TINY, st.floats(-299, -1e-17).map(lambda e: 10.0**e).filter(lambda x: 0 < x < 1), st.floats(0.01, 0.99)
)
NATS = st.one_of(st.floats(1e-300, 30), st.floats(-290, 1.4).map(lambda e: 10.0**e))
DIGITS = 900  # far more than the library carries


def entropy_from(q, p):
    """Return KL(Bern(q) || Bern(p)) in multiple precision."""
    q, p = mpmath.mpf(q), mpmath.mpf(p)
    return sum((a * mpmath.log(a / b) for a, b in ((q, p), (1 - q, 1 - p)) if a), mpmath.mpf(0))


def guess_from(tpr, r, fpr):
    """Return the information of a guess as a difference of entropies, another form than the library's."""
    entropy = lambda x: -sum((a * mpmath.log(a) for a in (x, 1 - x) if a), mpmath.mpf(0))  # noqa: E731
    tpr, r, fpr = map(mpmath.mpf, (tpr, r, fpr))
    return entropy(r * tpr + (1 - r) * fpr) - r * entropy(tpr) - (1 - r) * entropy(fpr)


def test_known_values_at_extreme_arguments():
    """Solved with 60 digits by another program; doubles alone gave 1.763e-20, and a budget 55 % too large."""
    assert pac.posterior(1e-20, 1e-20) == pytest.approx(2.718281828e-20, rel=1e-9)
    assert pac.posterior(0, 0.5) == 0.5
    assert pac.tpr_bound(0, 0.5, 0.001) == 0.001


@settings(max_examples=50, deadline=None)
@given(NATS, SHARES)
@example(1e-20, 1e-20)
@example(1e-16, 0.3)
@example(1e-10, 1e-8)
@example(1e-300, 0.3)
@example(1e-12, 1 - 2**-53)
@pytest.mark.slow
def test_a_posterior_is_the_next_double_above_the_truth(mi, prior):
    found = pac.posterior(mi, prior)
    assert prior < found <= 1
    with mpmath.workdps(DIGITS):
        if found < 1:
            assert entropy_from(found, prior) > mi
        assert entropy_from(math.nextafter(math.nextafter(found, 0), 0), prior) <= mi or found <= prior * (1 + 1e-15)


@settings(max_examples=50, deadline=None)
@given(SHARES, SHARES)
@example(1e-18, 1e-20)
@example(0.01 + 1e-9, 0.01)
@example(0.3000001, 0.3)
@example(1.0, 0.3)
@example(0.3, math.nextafter(0.3, 0))
@example(1 - 2**-53, 1 - 2**-52)
def test_a_budget_is_the_last_double_below_the_truth(one, other):
    prior, success = sorted((one, other))
    found = pac.budget(success, prior)
    with mpmath.workdps(DIGITS):
        true = entropy_from(success, prior)
        assert found <= true <= math.nextafter(math.nextafter(found, math.inf), math.inf)


@settings(max_examples=30, deadline=None)
@given(NATS, SHARES, st.one_of(SHARES, st.just(0.0)))
@example(1e-10, 0.5, 0.001)
@example(1e-30, 0.5, 0.0)
@example(1e-20, 1 - 2**-53, 0.3)
@pytest.mark.slow
def test_a_true_positive_rate_is_the_next_double_above_the_truth(mi, r, fpr):
    found = pac.tpr_bound(mi, r, fpr)
    assert fpr < found <= 1
    with mpmath.workdps(2 * DIGITS):
        if found < 1:
            assert guess_from(found, r, fpr) > mi
        before = max(math.nextafter(math.nextafter(found, 0), 0), fpr)
        assert guess_from(before, r, fpr) <= mi


@pytest.mark.parametrize("kind", [np.float64, np.float32, Fraction])
def test_any_kind_of_number_is_taken(kind):
    assert pac.posterior(kind(0.25), kind(0.5)) == pac.posterior(0.25, 0.5)
    assert pac.generalised_prior(np.int64(10), 5, 5, 3) == pac.generalised_prior(10, 5, 5, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pac.posterior("a", 0.5), "mi must be a number, such as 1 / 16 without quotes, got 'a'"),
        (lambda: pac.posterior(1, None), "prior must be a number, such as 1 / 16 without quotes, got None"),
        (lambda: pac.budget("1/2", 0.5), "posterior must be a number, such as 1 / 16 without quotes, got '1/2'"),
        (lambda: pac.tpr_bound(1, 0.5, "x"), "fpr must be a number, such as 1 / 16 without quotes, got 'x'"),
        (lambda: pac.dp_posterior("x"), "epsilon must be a number, such as 1 / 16 without quotes, got 'x'"),
        (lambda: pac.dp_epsilon(None), "posterior must be a number, such as 1 / 16 without quotes, got None"),
        (lambda: pac.generalised_prior(math.inf, 1, 1, 1), "n must be a whole number, not negative, got inf"),
        (lambda: pac.generalised_prior(4, 2, "b", 1), "g must be a whole number, not negative, got 'b'"),
    ],
)
def test_what_is_no_number_is_refused_in_one_sentence(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
