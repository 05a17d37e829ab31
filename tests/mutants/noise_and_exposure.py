"""Noise with a preferred region, its accounting and its floors; and what rows of a regression are exposed to."""

from __future__ import annotations

import dataclasses

import numpy as np
from planting import mutant

ROUNDED = "tests/noise/test_noise_rounding.py"
PROFILES = "tests/noise/test_profiles.py"
ANSWERS = "tests/noise/test_answers.py"
RELEASES = "tests/noise/test_release.py"
EXPOSED = "tests/coverage/test_coverage_rounding.py"
OTHER = "tests/coverage/test_other_mechanisms.py"
WINDOW = "tests/coverage/test_window.py"
NEIGHBOURS = "tests/coverage/test_neighbours.py"

DELTA = "the delta of a noise at any epsilon is exact, and never rounded down"


@mutant(
    "epsworth.noise.profiles.hockey_stick",
    claim=DELTA,
    test=f"{PROFILES}::test_delta_is_the_integral_and_never_below_it",
)
def deltas_a_shade_smaller(original):
    return lambda kernel, scale, cut, epsilon: original(kernel, scale, cut, epsilon) * (1 - 1e-9)


@mutant("epsworth.noise.profiles.ROUNDING", claim=DELTA, test=f"{ROUNDED}::test_delta_is_never_below_the_truth")
def profiles_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.noise.lattice.LOSS", claim=DELTA, test=f"{ROUNDED}::test_a_point_whose_loss_is_rounded_down_still_counts"
)
def logarithms_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.noise.lattice.LatticeNoise.profile",
    claim=DELTA,
    test=f"{PROFILES}::test_mass_beyond_a_table_counts_as_wholly_lost",
)
def nothing_is_lost_beyond_a_table(original):
    return lambda self, epsilon: original(dataclasses.replace(self, lost=0.0), epsilon)


@mutant(
    "epsworth.noise.profiles.pure_loss",
    claim="pure losses of a noise are never rounded down",
    test=f"{ROUNDED}::test_pure_losses_are_never_below_the_truth",
)
def pure_losses_to_nearest(original):
    return lambda kernel, scale, cut: original(kernel, scale, cut) * (1 - 2.0**-44)


@mutant(
    "epsworth.noise.regions.Absolute.pairs",
    claim="all pairs of answers that neighbours can be rounded to are compared, in both orders",
    test=f"{PROFILES}::test_the_full_sensitivity_is_the_worst_shift",
)
def half_of_the_sensitivity(original):
    return lambda self, sensitivity: original(self, sensitivity / 2)


@mutant(
    "epsworth.noise.regions.OnLattice.pairs",
    claim="all pairs of answers that neighbours can be rounded to are compared, in both orders",
    test="tests/noise/test_reference.py::test_all_pairs_of_regions_that_depend_on_the_answer",
)
def one_order_of_a_pair(original):
    def pairs(self, sensitivity):
        a, b = self.public.neighbours(sensitivity)
        return type(original(self, sensitivity))(a, b)

    return pairs


@mutant(
    "epsworth.noise.answers.PublicList.neighbours",
    claim="all pairs of answers that neighbours can be rounded to are compared, in both orders",
    test=f"{ANSWERS}::test_every_pair_that_rounding_can_reach_is_compared",
)
def pairs_a_little_nearer(original):
    return lambda self, sensitivity: original(self, 0.9 * sensitivity)


@mutant(
    "epsworth.noise.answers.in_steps",
    claim="answers are rounded to whole steps exactly before noise is added",
    test=f"{ANSWERS}::test_answers_are_rounded_to_whole_steps_exactly",
)
def steps_by_a_rounded_quotient(original):
    return lambda answers, step: np.floor(np.asarray(answers, dtype=float) / step + 0.5)


MISSES = "how often a noise misses its region is never rounded down, and confidences are never rounded up"


@mutant(
    "epsworth.noise.profiles.mass_outside",
    claim=MISSES,
    test=f"{ROUNDED}::test_what_lies_outside_is_never_below_the_truth",
)
def misses_to_nearest(original):
    return lambda kernel, scale, boost, region: original(kernel, scale, boost, region) * (1 - 2.0**-43)


@mutant(
    "epsworth.noise.mechanism.NoiseMechanism.confidence",
    claim=MISSES,
    test=f"{PROFILES}::test_confidence_is_never_rounded_up",
)
def confidences_to_nearest(original):
    return lambda self: 1 - self.outside


@mutant(
    "epsworth.noise.allowed.failure",
    claim=MISSES,
    test=f"{ROUNDED}::test_what_may_fail_is_one_minus_the_confidence_exactly_or_less",
)
def failures_to_nearest(original):
    return lambda confidence: float(1 - confidence)


@mutant(
    "epsworth.noise.program.COLUMN",
    claim="no noise of its kind has an epsilon below the floor that is stated",
    test=f"{ROUNDED}::test_a_dual_bound_is_never_below_its_exact_value",
)
def columns_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.noise.program._floor",
    claim="no noise of its kind has an epsilon below the floor that is stated",
    test="tests/noise/test_program.py::test_floors_on_a_lattice_allow_continuous_noise_no_more_than_it_has",
)
def floors_where_nothing_is_proven(original):
    def floor(shape, epsilon, needed, delta, *, unimodal):
        found = original(shape, epsilon, needed, delta, unimodal=unimodal)
        return epsilon + (epsilon - found)

    return floor


@mutant(
    "epsworth.noise.composition.sampled_profile",
    claim="epsilons of several releases together are upper bounds",
    test=f"{ROUNDED}::test_what_is_composed_is_never_below_the_profile",
)
def profiles_sampled_late(original):
    return lambda noise, step, points: np.append(original(noise, step, points)[1:], 0.0)


@mutant(
    "epsworth.noise.release.LatticeRelease.slack",
    claim="lattice noise that is drawn keeps its epsilon and delta for the integers, at every shift",
    test=f"{RELEASES}::test_the_promise_holds_for_every_shift_exactly",
)
def slack_of_half_the_weights(original):
    return lambda self, bound: original(self, bound) / 2


@mutant(
    "epsworth.noise.local.channel_loss",
    claim="a channel between regions keeps its epsilon exactly, and its estimators are unbiased",
    test=f"{ROUNDED}::test_channels_keep_their_epsilon_exactly",
)
def channels_lose_to_nearest(original):
    def channel_loss(matrix):
        least = matrix.min(axis=0)
        return float(np.log1p((matrix.max(axis=0) - least) / least).max())

    return channel_loss


@mutant(
    "epsworth.noise.local.Grouped.values",
    claim="a channel between regions keeps its epsilon exactly, and its estimators are unbiased",
    test="tests/noise/test_local.py::test_estimators_invert_the_channel_and_are_unbiased",
)
def estimates_shrunk(original):
    return lambda self, counts: 0.99 * original(self, counts)


# ---- exposure of rows


@mutant(
    "epsworth.coverage.left_out.ROUNDING",
    claim="the model without each row lies within its certificate, every rounding counted",
    test=f"{EXPOSED}::test_residuals_are_off_by_less_than_is_charged",
)
def residuals_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.coverage.neighbours._newton",
    claim="the model without each row lies within its certificate, every rounding counted",
    test=f"{NEIGHBOURS}::test_certificates_hold_for_every_row",
)
def remainders_forgotten(original):
    def newton(problem):
        deltas, errors = original(problem)
        return deltas, 0.01 * errors

    return newton


@mutant(
    "epsworth.coverage.left_out.Problem.solved",
    claim="the model without each row lies within its certificate, every rounding counted",
    test=f"{EXPOSED}::test_what_a_linear_solve_leaves_is_counted",
)
def solves_leave_nothing(original):
    def solved(self, hessian, inverse, rows, right):
        found, left = original(self, hessian, inverse, rows, right)
        return found, 0 * left

    return solved


SENSITIVITY = "no row moves a model further than the sensitivity, which is never below the exact one"


@mutant(
    "epsworth.coverage.calibration.sensitivity",
    claim=SENSITIVITY,
    test=f"{EXPOSED}::test_norms_and_sensitivities_are_never_below_the_truth",
)
def sensitivities_to_nearest(original):
    return lambda *given, **options: original(*given, **options) * (1 - 2.0**-50)


@mutant(
    "epsworth.coverage.calibration._row_pull",
    claim=SENSITIVITY,
    test=f"{NEIGHBOURS}::test_no_row_moves_further_than_the_sensitivity",
)
def rows_pull_half(original):
    return lambda weight, law: original(weight, law) / 2


@mutant(
    "epsworth.coverage.releasing.noise_rate",
    claim="the noise of a released model covers what a row moves, its lattice and what the fit leaves",
    test=f"{EXPOSED}::test_the_noise_of_a_release_covers_every_charge",
)
def noise_without_what_the_fit_leaves(original):
    def noise_rate(*given, **options):
        rate, step = original(*given, **options)
        return rate * (1 + 1e-12), step

    return noise_rate


@mutant(
    "epsworth.coverage.fitting.into_ball",
    claim="no neighbour is refused by a released model, whatever an entry of a row holds",
    test="tests/coverage/test_release_door.py::test_no_neighbour_is_refused_and_public_facts_stay_the_same",
)
def rows_stay_as_long_as_they_are(original):
    return lambda rows: rows


@mutant(
    "epsworth.coverage.inputs._usable",
    claim="no neighbour is refused by a released model, whatever an entry of a row holds",
    test="tests/coverage/test_release_door.py::test_an_entry_that_is_no_number_makes_its_row_zeros_and_nothing_else",
)
def odd_entries_count_for_one(original):
    def usable(entry):
        found = original(entry)
        return 1.0 if np.isnan(found) else found

    return usable


KERNELS = "the law of a row's loss is exact at every distance, and its inverses err to the private side"


@mutant(
    "epsworth.coverage.exposure.error",
    claim=KERNELS,
    test=f"{EXPOSED}::test_inverses_err_to_the_safe_side_of_the_truth[3-60]",
)
def kernels_trusted_to_the_bit(original):
    return lambda u: 0.0 * np.asarray(u)


@mutant(
    "epsworth.coverage.loss_law.FALL",
    claim=KERNELS,
    test="tests/coverage/test_loss_law.py::test_kernels_are_accurate_at_extreme_distances",
)
def tails_of_losses_cut_short(original):
    return 5.0


@mutant(
    "epsworth.coverage.output.OutputPerturbation.losses",
    claim="ex-post losses of released models are density ratios",
    test="tests/coverage/test_output.py::test_reference_losses",
)
def losses_without_their_square(original):
    return lambda self, deltas, noise: original(self, -np.asarray(deltas), noise)


@mutant(
    "epsworth.coverage.objective._expost",
    claim="ex-post losses of released models are density ratios",
    test=f"{OTHER}::test_losses_are_ratios_of_transformed_densities",
)
def densities_without_their_determinant(original):
    def expost(*given):
        found = original(*given)
        part, jacobian = (getattr(found, one.name) for one in dataclasses.fields(found)[:2])
        return type(found)(part, -jacobian)

    return expost


ADVICE = "up to the lower end of a window every row is safe, and no row is said to pay more than epsilon"


@mutant(
    "epsworth.coverage.advice.Window._shares",
    claim=ADVICE,
    test=f"{WINDOW}::test_no_row_is_said_to_pay_more_than_epsilon",
)
def rows_pay_up_to_twice(original):
    return lambda self: self.kappa * (self.neighbours.distances + self.neighbours.errors)


@mutant(
    "epsworth.coverage.exposure.Kernels.inverse_adv", claim=ADVICE, test=f"{WINDOW}::test_the_ends_keep_their_promises"
)
def windows_a_little_too_wide(original):
    return lambda self, a, *, upwards=False: original(self, a, upwards=upwards) * (0.97 if upwards else 1.03)


@mutant(
    "epsworth.coverage.reporting.worst_case",
    claim="the answer that reads no data covers every row of every data set",
    test=f"{OTHER}::test_the_worst_case_covers_every_row",
)
def worst_case_at_half_of_epsilon(original):
    return lambda epsilon, d: dataclasses.replace(original(epsilon / 2, d), epsilon=epsilon)


@mutant(
    "epsworth.coverage.trainings._advantage",
    claim="the least advantage against a black box lies below the truth with its confidence",
    test=f"{OTHER}::test_the_least_advantage_is_that_of_exact_limits",
)
def advantages_by_means(original):
    def advantage(fit_in, fit_out, a, b, risk):
        original(fit_in, fit_out, a, b, risk)
        cuts = np.sort(np.r_[fit_in, fit_out])
        return max(0.0, max(float((a < cut).mean() - (b < cut).mean()) for cut in cuts))

    return advantage


@mutant(
    "epsworth.coverage.usefulness.simulate",
    claim="accuracy is said to be kept only where whole rows within the tolerance say so",
    test=f"{WINDOW}::test_a_tolerance_allows_whole_rows_only",
)
def one_row_more_may_turn(original):
    def simulate(X, *given, tolerance, **options):
        return original(X, *given, tolerance=tolerance + 1 / len(X), **options)

    return simulate
