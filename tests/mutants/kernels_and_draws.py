"""Integer weights that releases are drawn from, and the draws."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
from planting import mutant

KERNELS = "tests/release/test_kernels.py"
DRAWS = "tests/release/test_draws.py"
REGIONS = "tests/release/test_regions.py"
KEEPS = "no ratio of probabilities of a released value exceeds e^epsilon, for the integers that are drawn from"


@mutant("epsworth.exact.two_level.two_level", claim=KEEPS, test=f"{KERNELS}::test_no_ratio_exceeds_the_promise[pm-1-8]")
def window_one_weight_heavier(original):
    def two_level(*given, **options):
        found = original(*given, **options)
        return dataclasses.replace(found, low=found.low - found.width, high=found.high + found.points - found.width)

    return two_level


@mutant(
    "epsworth.exact.distance.rho",
    claim=KEEPS,
    test=f"{KERNELS}::test_no_ratio_exceeds_the_promise[bounded_laplace-1-8]",
)
def steps_of_noise_rounded_up(original):
    return lambda epsilon, points: original(epsilon, points) + (1 << 215)


@mutant(
    "epsworth.exact.two_level.TwoLevel.ratio",
    claim="the loss that is quoted for a kernel covers the ratio of its weights",
    test=f"{KERNELS}::test_no_ratio_exceeds_the_promise[pm-1-8]",
)
def ratio_of_other_weights(original):
    return lambda self: Fraction(self.high - 1, self.low + 1)


@mutant(
    "epsworth.exact.rational.log_above",
    claim="the loss that is quoted for a kernel covers the ratio of its weights",
    test=f"{KERNELS}::test_losses_and_deltas_are_rounded_up_by_one_double_at_most",
)
def quoted_losses_to_nearest(original):
    return lambda ratio: math.log(ratio)


DELTA = "the delta of a kernel at any epsilon holds for every pair of inputs"


@mutant(
    "epsworth.exact.integer.Kernel.slack", claim=DELTA, test=f"{KERNELS}::test_delta_holds_for_every_pair_of_inputs"
)
def delta_of_a_larger_sum(original):
    def slack(self, bound):
        worst = self.ratio()
        return (worst - bound) / (worst + 2)

    return slack


@mutant(
    "epsworth.exact.two_level.TwoLevel.slack", claim=DELTA, test=f"{KERNELS}::test_delta_holds_for_every_pair_of_inputs"
)
def windows_that_overlap_by_one(original):
    return lambda self, bound: (self.width - 1) * (self.high - bound * self.low) / 2**64


@mutant(
    "epsworth.exact.alias._entries",
    claim="draws for release have exactly the probabilities of the integer weights",
    test=f"{DRAWS}::test_noise_tables_give_every_output_its_weight",
)
def own_outcome_one_word_too_often(original):
    return lambda left, bits: [entry + (1 << bits) if entry >> bits else entry for entry in original(left, bits)]


@mutant(
    "epsworth.release.columns.Column.released",
    claim="released values lie on the public grid, at the points that were drawn",
    test="tests/release/test_perturb.py::test_released_values_follow_the_kernel[pm]",
)
def released_one_point_lower(original):
    return lambda self, drawn, keep, policy: original(self, np.maximum(np.asarray(drawn) - 1, 0), keep, policy)


FRESH = "no seed, copy or fork makes a release repeat itself"


@mutant(
    "epsworth.exact.entropy.SystemWords._stream",
    claim=FRESH,
    test="tests/release/test_audit.py::test_forked_processes_do_not_share_draws",
)
def one_key_for_all(original):
    from epsworth.exact.entropy import KEY, NONCE, _key_stream

    return lambda self: _key_stream(bytes(KEY), bytes(NONCE))


@mutant(
    "epsworth.exact.integer.Kernel.draw",
    claim=FRESH,
    test="tests/release/test_audit.py::test_forked_processes_do_not_share_draws",
)
def one_source_for_all_calls(original):
    from epsworth.exact.entropy import SystemWords

    shared = SystemWords()
    return lambda self, inputs, *, words=None: original(self, inputs, words=shared if words is None else words)


@mutant(
    "epsworth.exact.two_level.TwoLevel.mass_of_range",
    claim="what is analysed of a release is the law that it is drawn from",
    test=f"{DRAWS}::test_the_law_is_the_weights",
)
def ranges_without_their_last_output(original):
    return lambda self, index, low, high: original(self, index, low, high) - float(Fraction(self.low, 2**64))


@mutant(
    "epsworth.exact.pieces.of_table",
    claim="runs of words add up to a kernel's weights for every input",
    test="tests/release/test_audit_words.py::test_runs_of_words_add_up_to_the_weights_and_draws_follow_them",
)
def runs_that_start_a_word_late(original):
    def of_table(table):
        first, size, outcome = original(table)
        return first, np.maximum(size - np.uint64(1), np.uint64(1)), outcome

    return of_table


@mutant(
    "epsworth.exact.regions._most",
    claim="kernels between regions keep epsilon in integers, whatever weights a program hands over",
    test=f"{REGIONS}::test_whatever_a_program_says_integers_keep_epsilon",
)
def largest_weights_rounded_up(original):
    return lambda weight, bound: -original(-weight, bound)


@mutant(
    "epsworth.exact.regions.dual_bound",
    claim="no kernel that keeps epsilon gains more than the bound that is proven",
    test=f"{REGIONS}::test_the_best_kernel_gains_no_more_than_any_multipliers_say",
)
def bound_on_gains_rounded_down(original):
    return lambda gain, epsilon, dual: original(gain, epsilon, dual) * (1 - 1e-12)


@mutant(
    "epsworth.exact.regions._places",
    claim="where some regions cannot be released, their weight moves to the first that stands for them",
    test=f"{REGIONS}::test_a_fold_moves_every_weight_to_the_first_that_stands_for_it",
)
def weights_moved_to_the_last(original):
    return lambda points, present, instead: original(points, present, [order[::-1] for order in instead])


@mutant(
    "epsworth.release.rules.Rule.proven",
    claim="a record is charged what its integers are proven to keep",
    test="tests/release/test_charges.py::test_what_is_charged_is_proven_for_the_integers_and_never_more_than_stated",
)
def charged_a_shade_less(original):
    def proven(self):
        epsilon, delta = original(self)
        return epsilon * (1 - Fraction(1, 10**9)), delta / 2

    return proven
