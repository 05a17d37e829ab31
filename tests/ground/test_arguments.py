"""Arguments: one sentence for what is no whole number, no positive number, no probability, no randomness."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from epsworth.arrays import generator
from epsworth.numerals import positive, share, whole


@pytest.mark.parametrize("value", [0, -1, 2.0, 1.5, "1", None, True, np.True_, math.nan, [1]])
def test_what_is_no_count_is_refused_in_one_sentence(value):
    with pytest.raises(ValueError, match=r"^users must be a whole number of at least 1, got ") as refused:
        whole("users", value)
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize("value", [1, np.int32(5), np.uint64(10)])
def test_counts_of_every_kind_are_taken(value):
    assert whole("bits", value, most=10) == value
    assert type(whole("bits", value)) is int


def test_too_large_a_count_is_told_how_large_it_may_be():
    with pytest.raises(ValueError, match=r"^bits must be a whole number from 1 to 16, got a huge number$"):
        whole("bits", 10**5000, most=16)


@pytest.mark.parametrize("value", ["0.5", None, True, np.False_, math.nan, 0, -1.0, [0.5, 0.5], 1j])
def test_what_is_no_positive_number_or_probability_is_refused(value):
    for check, allowed in ((positive, "be positive and finite"), (share, "lie strictly between 0 and 1")):
        with pytest.raises(ValueError, match=f"^it must {allowed}, got "):
            check("it", value)


def test_ends_are_refused_and_numbers_of_every_kind_taken():
    for check, end in ((positive, math.inf), (positive, 10**400), (share, 1), (share, 1.0)):
        with pytest.raises(ValueError, match=r"^it must"):
            check("it", end)
    assert [check("it", value) for check in (positive, share) for value in (Fraction(1, 2), np.float32(0.5))] == [
        0.5
    ] * 4


def test_a_generator_is_given_seeded_or_fresh():
    own = np.random.default_rng(3)
    assert generator(own) is own
    assert generator(np.int64(3)).random() == own.random()
    assert generator(None).random() != generator(None).random()
    for odd in ("a", 1.5, True, np.True_, [1]):
        with pytest.raises(TypeError, match=r"^rng must be a numpy\.random\.Generator or a seed, .* got "):
            generator(odd)
    with pytest.raises(ValueError, match="a seed must not be negative, got -1"):
        generator(-1)
