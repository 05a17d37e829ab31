"""Outward rounding: by at least the units that were counted, at powers of two, among subnormals and at the largest."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epsworth.rounding import down, up

doubles = st.floats(allow_nan=False, allow_infinity=False)
powers = st.integers(-1074, 1023).map(lambda power: math.ldexp(1.0, power))
beside = st.tuples(powers, st.integers(-3, 3)).map(lambda pair: pair[0] + pair[1] * math.ulp(pair[0]) / 2)
numbers = doubles | beside | beside.map(lambda value: -value)
units = st.integers(0, 2**30) | st.sampled_from([0, 1, 2, 3, 2**52, 2**53]) | st.floats(0, 1e9)


@given(value=numbers, ulps=units)
@example(value=-1.0, ulps=1)
@example(value=1.0, ulps=1)
@example(value=math.nextafter(1.0, 2), ulps=1)
@example(value=math.nextafter(1.0, 0), ulps=3)
@example(value=0.0, ulps=1)
@example(value=5e-324, ulps=1)
@example(value=-5e-324, ulps=1)
@example(value=sys.float_info.max, ulps=1)
@example(value=-sys.float_info.max, ulps=2**53)
@example(value=1.0, ulps=2**52)
@example(value=1.0, ulps=2**53 + 2)
def test_rounding_moves_by_at_least_the_units_that_were_counted(value, ulps):
    unit = Fraction(math.ulp(value)) * Fraction(ulps)
    for moved, sign in ((up(value, ulps=ulps), 1), (down(value, ulps=ulps), -1)):
        assert sign * moved > sign * value
        if math.isfinite(moved):
            assert sign * (Fraction(moved) - Fraction(value)) >= unit
            assert sign * (Fraction(moved) - Fraction(value)) <= unit + 3 * Fraction(math.ulp(moved)) + unit / 2**51
        elif unit < Fraction(10) ** 300:  # beyond the largest double, which has no next one, or up to its last unit
            room = Fraction(sys.float_info.max) - sign * Fraction(value)
            assert abs(value) == sys.float_info.max or room <= unit + Fraction(math.ulp(sys.float_info.max))


@given(values=st.lists(numbers, max_size=5), ulps=st.integers(0, 1000))
def test_arrays_are_rounded_like_numbers(values, ulps):
    array = np.array(values, dtype=np.float64)
    np.testing.assert_array_equal(up(array, ulps=ulps), [up(value, ulps=ulps) for value in values])
    np.testing.assert_array_equal(down(array, ulps=np.full(array.shape, float(ulps))), -up(-array, ulps=ulps))
    assert array.tolist() == values


def test_infinities_and_missing_values_stay():
    for moved in (up, down):
        np.testing.assert_array_equal(moved(np.array([np.inf, -np.inf, np.nan]), ulps=5), [np.inf, -np.inf, np.nan])
        assert moved(math.inf) == math.inf


def test_a_negative_count_moves_inwards_so_that_tests_of_a_slack_see_it():
    assert up(1.0, ulps=-5) < 1 < down(1.0, ulps=-5)


@pytest.mark.slow
def test_a_hundred_thousand_doubles_of_every_size():
    bits = np.random.default_rng(3).integers(0, 2**64, 100_000, dtype=np.uint64)
    values = bits.view(np.float64)
    values = values[np.isfinite(values)]
    for value, above in zip(values.tolist(), up(values, ulps=7).tolist(), strict=True):
        assert math.isinf(above) or Fraction(above) - Fraction(value) >= 7 * Fraction(math.ulp(value))
