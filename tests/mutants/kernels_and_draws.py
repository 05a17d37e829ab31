"""Integer weights that releases are drawn from, and the draws."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
from planting import mutant

KERNELS = "tests/policy/test_kernels.py"
DRAWS = "tests/policy/test_draws.py"
REGIONS = "tests/policy/test_regions.py"


@mutant(
    "epsworth.mechanisms.two_level.two_level",
    claim="no ratio of a released value's probabilities exceeds e^ε in the integers drawn from",
    test=f"{KERNELS}::test_no_ratio_exceeds_the_promise[pm-1-8]",
)
def window_one_weight_heavier(original):
    def two_level(*given, **options):
        found = original(*given, **options)
        return dataclasses.replace(found, low=found.low - found.width, high=found.high + found.points - found.width)

    return two_level


@mutant(
    "epsworth.mechanisms.exponential.rho",
    claim="no ratio of a released value's probabilities exceeds e^ε in the integers drawn from",
    test=f"{KERNELS}::test_no_ratio_exceeds_the_promise[bounded_laplace-1-8]",
)
def steps_of_noise_rounded_up(original):
    return lambda epsilon, points: original(epsilon, points) + (1 << 215)


@mutant(
    "epsworth.mechanisms.rational.log_above",
    claim="the loss quoted for a kernel covers the ratio of its weights",
    test=f"{KERNELS}::test_losses_and_deltas_are_rounded_up_by_one_double_at_most",
)
def quoted_losses_to_nearest(original):
    return lambda ratio: math.log(ratio)


@mutant(
    "epsworth.mechanisms.kernels.Kernel.slack",
    claim="a kernel's δ at any ε holds for every pair of inputs",
    test=f"{KERNELS}::test_delta_holds_for_every_pair_of_inputs",
)
def delta_of_a_larger_sum(original):
    def slack(self, bound):
        worst = self.ratio()
        return (worst - bound) / (worst + 2)

    return slack


@mutant(
    "epsworth.mechanisms.alias._entries",
    claim="draws for release have exactly the integer weights' probabilities",
    test=f"{DRAWS}::test_noise_tables_give_every_output_its_weight",
)
def own_outcome_one_word_too_often(original):
    return lambda left, bits: [entry + (1 << bits) if entry >> bits else entry for entry in original(left, bits)]


@mutant(
    "epsworth.policy.columns.Column.released",
    claim="released values are the public grid's points that were drawn",
    test="tests/policy/test_perturb.py::test_released_values_follow_the_kernel[pm]",
)
def released_one_point_lower(original):
    return lambda self, drawn, keep, policy: original(self, np.maximum(np.asarray(drawn) - 1, 0), keep, policy)


@mutant(
    "epsworth.mechanisms.words.SystemWords._stream",
    claim="no seed, copy or fork repeats a release",
    test="tests/policy/test_audit.py::test_forked_processes_do_not_share_draws",
)
def one_key_for_all(original):
    from epsworth.mechanisms.words import KEY, NONCE, _key_stream

    return lambda self: _key_stream(bytes(KEY), bytes(NONCE))


@mutant(
    "epsworth.mechanisms.two_level.TwoLevelKernel.mass_of_range",
    claim="an analysed release follows the law of its integers",
    test=f"{DRAWS}::test_the_law_is_the_weights",
)
def ranges_without_their_last_output(original):
    return lambda self, index, low, high: original(self, index, low, high) - float(Fraction(self.low, 2**64))


@mutant(
    "epsworth.mechanisms.regions._most",
    claim="kernels between regions keep ε in integers, whatever a program returns",
    test=f"{REGIONS}::test_whatever_a_program_says_integers_keep_epsilon",
)
def largest_weights_rounded_up(original):
    return lambda weight, bound: -original(-weight, bound)


@mutant(
    "epsworth.policy.rules.Rule.proven",
    claim="a record is charged what its integers are proven to keep",
    test="tests/policy/test_charges.py::test_what_is_charged_is_proven_for_the_integers_and_never_more_than_stated",
)
def charged_a_shade_less(original):
    def proven(self):
        epsilon, delta = original(self)
        return epsilon * (1 - Fraction(1, 10**9)), delta / 2

    return proven


@mutant(
    "epsworth.mechanisms.regions.LACKS",
    claim="no kernel between regions, or for several classifiers, gains more than stated",
    test=f"{REGIONS}::test_what_no_kernel_gains_more_than_is_rounded_up_where_a_double_is_missed_by_a_hair",
)
def exponentials_from_below_are_exact(original):
    return Fraction(0)


@mutant(
    "epsworth.mechanisms.two_level.TwoLevelKernel.left",
    claim="released values are the public grid's points that were drawn",
    test="tests/policy/test_perturb.py::test_released_values_follow_the_kernel[pm]",
)
def windows_one_place_higher(original):
    return lambda self, i: np.minimum(original(self, i) + 1, self.points - self.width)
