"""Confidence intervals, the risk that pays for them, and outward rounding."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
from planting import mutant

BOUNDS = "tests/ground/test_bounds.py"
ROUNDING = "tests/ground/test_rounding.py"


@mutant(
    "epsworth.bounds.clopper_pearson",
    claim="exact binomial intervals miss at most as often as asked, half on either side",
    test=f"{BOUNDS}::test_clopper_pearson_covers_exactly",
)
def interval_with_the_whole_miss_on_each_side(original):
    return lambda successes, trials, miss: original(successes, trials, np.minimum(2 * np.asarray(miss), 1.0))


@mutant(
    "epsworth.bounds.QUANTILE_ULPS",
    claim="exact binomial intervals miss at most as often as asked, half on either side",
    test=f"{BOUNDS}::test_intervals_allow_for_the_error_of_the_inverted_beta_function",
)
def inverted_beta_function_trusted(original):
    return 10**4


@mutant(
    "epsworth.bounds.Risk.split",
    claim="the parts of a risk spend no more than it, none twice, by threads neither",
    test=f"{BOUNDS}::test_whatever_is_split_divided_and_spent_never_exceeds_the_risk",
)
def shares_of_a_split_as_large_as_the_whole(original):
    return lambda self, n: self._part(self.each, self._emptied() * n)


@mutant(
    "epsworth.bounds.Risk.spend",
    claim="the parts of a risk spend no more than it, none twice, by threads neither",
    test=f"{BOUNDS}::test_all_of_a_risk_can_be_spent_and_no_share_twice",
)
def shares_given_back(original):
    def spend(self, bounds=1):
        left = self.left
        paid = original(self, bounds) if bounds >= 0 else 0.0
        self.left = max(self.left, left - 1)
        return paid

    return spend


@mutant(
    "epsworth.bounds.Risk.of",
    claim="the parts of a risk spend no more than it, none twice, by threads neither",
    test=f"{BOUNDS}::test_shares_that_are_taken_are_no_more_than_were_there_and_none_is_rounded_up",
)
def confidence_taken_off_in_doubles(original):
    return lambda cls, confidence: cls(Fraction(float(1 - confidence)))


@mutant(
    "epsworth.bounds.check_spent",
    claim="no answer claims more confidence than its bounds left",
    test="tests/utility/test_utility_results.py::test_what_was_spent_travels_with_the_answer",
)
def spending_compared_in_doubles_with_room(original):
    return lambda spent, confidence: original(min(spent, 1 - Fraction(confidence)), confidence)


@mutant(
    "epsworth.bounds.looks",
    claim="all looks together miss at most as often as asked, whenever one stops",
    test=f"{BOUNDS}::test_looks_spend_all_and_no_more[0.02]",
)
def each_look_spends_all(original):
    def looks(tolerance, risk, *, first=256):
        from epsworth.bounds import Look, Risk

        count, each = risk.left, risk.each
        found = original(tolerance, risk, first=first)
        return tuple(
            Look(one.draws, Risk(each).split(1) if count == 1 else Risk(each * count).split(count)) for one in found
        )

    return looks


@mutant(
    "epsworth.bounds._below",
    claim="intervals for means of bounded values miss at most as often as asked",
    test=f"{BOUNDS}::test_intervals_of_means_of_coins_miss_at_most_as_often_as_they_may_on_either_side",
)
def mean_with_the_whole_miss_on_each_side(original):
    return lambda p, n, miss: original(p, n, min(2 * miss, 1.0))


@mutant(
    "epsworth.bounds.float_above",
    claim="intervals for means of bounded values miss at most as often as asked",
    test=f"{BOUNDS}::test_ends_for_means_are_rounded_outwards",
)
def ends_of_means_to_nearest(original):
    return float


@mutant(
    "epsworth.rounding.up",
    claim="bounds move outwards by at least the counted units",
    test=f"{ROUNDING}::test_rounding_moves_by_at_least_the_units_that_were_counted",
)
def up_without_the_last_step(original):
    def up(value, *, ulps=1):
        with np.errstate(all="ignore"):
            moved = np.asarray(value) + ulps * np.spacing(np.abs(np.asarray(value, dtype=float)))
        return moved if isinstance(value, np.ndarray) else float(moved)

    return up


@mutant(
    "epsworth.rounding.sum_above",
    claim="sums of privacy losses are rounded up",
    test=f"{BOUNDS}::test_sums_are_rounded_up",
)
def sums_to_nearest(original):
    return lambda numbers: math.fsum(numbers)


@mutant(
    "epsworth.rounding.round_down",
    claim="printed guarantees are rounded down, printed losses up",
    test=f"{BOUNDS}::test_rounding_errs_to_the_safe_side",
)
def guarantees_to_nearest(original):
    return lambda value, digits=3: round(value, digits)


@mutant(
    "epsworth.rounding.round_up",
    claim="printed guarantees are rounded down, printed losses up",
    test=f"{BOUNDS}::test_rounding_errs_to_the_safe_side",
)
def losses_to_nearest(original):
    return lambda value, digits=3: round(value, digits)


@mutant(
    "epsworth.search.step_until",
    claim="a root is moved to the side where its predicate holds",
    test="tests/ground/test_search.py::test_a_root_is_moved_to_the_side_that_passes",
)
def root_as_the_formula_found_it(original):
    def step_until(passes, start, fallback):
        passed = passes(start * (1 + 1e-5))
        return np.where(passed, start, fallback)

    return step_until


@mutant(
    "epsworth.bounds.SLACK",
    claim="intervals for means of bounded values miss at most as often as asked",
    test=f"{BOUNDS}::test_hard_means_have_safe_ends",
)
def fifty_digits_trusted_to_the_last(original):
    return Decimal(0)


@mutant(
    "epsworth.bounds.QUANTILE_ULPS",
    claim="exact binomial intervals miss at most as often as asked, half on either side",
    test=f"{BOUNDS}::test_intervals_allow_for_the_error_of_the_inverted_beta_function",
)
def inverted_beta_function_trusted_for_many_trials(original):
    return 2**20


@mutant(
    "epsworth.bounds.MOST_DRAWS",
    claim="exact binomial intervals miss at most as often as asked, half on either side",
    test=f"{BOUNDS}::test_intervals_for_more_trials_allow_for_more",
)
def no_more_units_for_more_trials(original):
    return 10**15
