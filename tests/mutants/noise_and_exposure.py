"""Noise with a preferred region, its accounting and its floors; and what rows of a regression are exposed to."""

from __future__ import annotations

import dataclasses

import numpy as np
from planting import mutant

from epsworth.noise import curves

ROUNDED = "tests/noise/test_noise_rounding.py"
PROFILES = "tests/noise/test_profiles.py"
ANSWERS = "tests/noise/test_answers.py"
OPTIMA = "tests/noise/test_optimum.py"
CURVES = "tests/noise/test_curves.py"
RELATIVE = "tests/noise/test_relative.py"
RELEASES = "tests/noise/test_release.py"
EXPOSED = "tests/exposure/test_exposure_rounding.py"
OTHER = "tests/exposure/test_other_mechanisms.py"
WINDOW = "tests/exposure/test_window.py"
NEIGHBOURS = "tests/exposure/test_neighbours.py"
MOVES = "tests/exposure/test_moves.py"


@mutant(
    "epsworth.noise.profiles.hockey_stick",
    claim="a noise's δ at any ε is exact, never rounded down",
    test=f"{PROFILES}::test_delta_is_the_integral_and_never_below_it",
)
def deltas_a_shade_smaller(original):
    return lambda kernel, scale, cut, epsilon: original(kernel, scale, cut, epsilon) * (1 - 1e-9)


@mutant(
    "epsworth.noise.profiles.ROUNDING",
    claim="a noise's δ at any ε is exact, never rounded down",
    test=f"{ROUNDED}::test_delta_is_never_below_the_truth",
)
def profiles_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.noise.regions.OnLattice.pairs",
    claim="all pairs of answers that neighbours can be rounded to are compared",
    test=f"{ANSWERS}::test_every_pair_that_rounding_can_reach_is_compared",
)
def pairs_a_little_nearer(original):
    return lambda self, sensitivity: original(self, 0.9 * sensitivity)


@mutant(
    "epsworth.noise.profiles.mass_outside",
    claim="misses of a region are never rounded down, confidences never up",
    test=f"{ROUNDED}::test_what_lies_outside_is_never_below_the_truth",
)
def misses_to_nearest(original):
    return lambda kernel, scale, boost, region: original(kernel, scale, boost, region) * (1 - 2.0**-43)


@mutant(
    "epsworth.noise.mechanism.NoiseMechanism.confidence",
    claim="misses of a region are never rounded down, confidences never up",
    test=f"{PROFILES}::test_confidence_is_never_rounded_up",
)
def confidences_to_nearest(original):
    return lambda self: 1 - self.outside


@mutant(
    "epsworth.noise.program.floor",
    claim="no noise of its kind has an ε below the stated floor",
    test="tests/noise/test_program.py::test_without_delta_the_optimum_is_the_staircase",
)
def floors_where_nothing_is_proven(original):
    return lambda cells, epsilon, *given, **options: 1.0001 * epsilon


@mutant(
    "epsworth.noise.relative._proved",
    claim="no mechanism under a relative error has an ε below the stated floor",
    test=f"{RELATIVE}::test_no_table_on_all_points_costs_less",
)
def floors_of_multipliers_that_prove_less(original):
    return lambda *given: 1.01 * original(*given)


@mutant(
    "epsworth.noise.AnswerTable.pure_epsilon",
    claim="a table of answers keeps ε, δ and its confidence in integers",
    test=f"{RELATIVE}::test_whole_weights_keep_what_is_said",
)
def losses_a_shade_smaller(original):
    return lambda self: original(self) * (1 - 1e-9)


@mutant(
    "epsworth.noise.levels.divergence_floor",
    claim="no noise of its kind has a Rényi divergence below the stated floor",
    test=f"{OPTIMA}::test_tangents_bound_random_laws",
)
def tangents_of_a_law_with_less_outside(original):
    return lambda cells, half, order, failing: original(cells, half, order, failing / 2)


@mutant(
    "epsworth.noise.curves.Program.proved",
    claim="no noise of its kind has a μ, or a composed ε, below the stated floor",
    test=f"{CURVES}::test_no_law_beats_what_a_program_proves",
)
def solvers_trusted(original):
    return lambda self, delta: self.solve(delta).outside * self.failing * 1.05


@mutant(
    "epsworth.noise.curves._lost",
    claim="no noise of its kind has a μ, or a composed ε, below the stated floor",
    test=f"{CURVES}::test_what_releases_keep_together_bounds_each_of_them",
)
def events_of_one_release_more(original):
    return lambda p, q, epsilon, delta, releases: original(p, q, epsilon, delta, releases + 1)


@mutant(
    "epsworth.noise.curves._corners",
    claim="no noise of its kind has a μ, or a composed ε, below the stated floor",
    test=f"{CURVES}::test_between_the_grid_no_event_is_ruled_out_that_keeps_the_promise",
)
def points_of_the_grid(original):
    return lambda broken: curves.largest_events(broken)[::-1]


@mutant(
    "epsworth.noise.curves._caught",
    claim="no noise of its kind lets attackers be right less often than the stated floor",
    test=f"{CURVES}::test_the_power_of_counting_is_never_above_the_best_tests",
)
def tests_with_one_count_more(original):
    return lambda p, q, rate, releases: original(p, q, rate, releases + 1)


@mutant(
    "epsworth.noise.program._unreachable",
    claim="no noise of its kind lets attackers be right less often than the stated floor",
    test=f"{OPTIMA}::test_no_law_is_below_the_floor_of_true_positive_rates",
)
def rates_refuted_unasked(original):
    return lambda *given: True


@mutant(
    "epsworth.noise.lattice.TableNoise.renyi",
    claim="a noise's cost is never below the truth, whatever the objective",
    test=f"{OPTIMA}::test_renyi_divergences_of_tables_are_sums_and_never_below_them",
)
def divergences_to_nearest(original):
    return lambda self, order: original(self, order) * (1 - 1e-6)


@mutant(
    "epsworth.noise.objective._rho",
    claim="a noise's cost is never below the truth, whatever the objective",
    test=f"{OPTIMA}::test_rho_is_the_greatest_ratio_of_divergence_and_order",
)
def the_greatest_ratio_that_was_tried(original):
    return lambda noise, narrow: max(noise.renyi(order) / order for order in (2.0, 32.0, 512.0))


@mutant(
    "epsworth.noise.objective._caught",
    claim="a noise's cost is never below the truth, whatever the objective",
    test=f"{OPTIMA}::test_what_an_attacker_gains_is_that_of_the_best_test",
)
def attackers_who_do_not_choose(original):
    return lambda deltas, rate: deltas(0.0)


@mutant(
    "epsworth.composition.sampled",
    claim="epsilons of several releases are upper bounds",
    test=f"{ROUNDED}::test_what_is_composed_is_never_below_the_profile",
)
def profiles_sampled_late(original):
    return lambda profile, step, points: np.append(original(profile, step, points)[1:], 0.0)


@mutant(
    "epsworth.composition.Losses._lost",
    claim="δ of k releases is never below exact fractions",
    test="tests/test_privacy_losses.py::test_delta_of_several_tables_is_never_below_exact_fractions",
)
def lost_masses_forgotten(original):
    return lambda self, k: 0.0


@mutant(
    "epsworth.composition._power",
    claim="δ of k releases is never below exact fractions",
    test="tests/test_privacy_losses.py::test_delta_of_several_tables_is_never_below_exact_fractions",
)
def one_release_less(original):
    return lambda values, k: original(values, k - 1)


@mutant(
    "epsworth.noise.release.LatticeRelease.slack",
    claim="drawn lattice noise keeps ε and δ in integers, at every shift",
    test=f"{RELEASES}::test_the_promise_holds_for_every_shift_exactly",
)
def slack_of_half_the_weights(original):
    return lambda self, bound: original(self, bound) / 2


@mutant(
    "epsworth.noise.local.channel_loss",
    claim="a channel between regions keeps its ε exactly",
    test=f"{ROUNDED}::test_channels_keep_their_epsilon_exactly",
)
def channels_lose_to_nearest(original):
    def channel_loss(matrix):
        least = matrix.min(axis=0)
        return float(np.log1p((matrix.max(axis=0) - least) / least).max())

    return channel_loss


# ---- exposure of rows


@mutant(
    "epsworth.exposure.neighbours._newton",
    claim="the model without each row lies within its certificate",
    test=f"{NEIGHBOURS}::test_certificates_hold_for_every_row",
)
def remainders_forgotten(original):
    def newton(problem):
        deltas, errors = original(problem)
        return deltas, 0.01 * errors

    return newton


@mutant(
    "epsworth.exposure.left_out.SelfConcordance.errors",
    claim="the model without each row lies within its certificate",
    test=f"{NEIGHBOURS}::test_self_concordant_certificates_hold_and_are_never_larger",
)
def remainders_a_quarter_as_large(original):
    return lambda self, *given: 0.25 * original(self, *given)


@mutant(
    "epsworth.exposure.left_out.least_eigenvalue",
    claim="no Hessian's eigenvalue is below the one that certificates divide by",
    test=f"{NEIGHBOURS}::test_least_eigenvalues_are_never_above_the_truth",
)
def eigenvalues_as_computed(original):
    return lambda hessian, guess, off, known: max(known, guess)


@mutant(
    "epsworth.exposure.left_out.Curvature.off_by",
    claim="a model with a free intercept moves as certified, without bound where one label is left",
    test=f"{MOVES}::test_moves_of_models_with_a_free_intercept_lie_within_their_errors",
)
def certificates_a_tenth_as_wide(original):
    return lambda self, *given: 0.1 * original(self, *given)


@mutant(
    "epsworth.exposure.glm.Softmax.reaches",
    claim="a model of several classes moves as certified, too",
    test=f"{MOVES}::test_moves_of_several_classes_lie_within_their_errors",
)
def ranges_of_scores_a_hundredth_as_wide(original):
    return lambda self, forms: 1e-4 * original(self, forms)


@mutant(
    "epsworth.exposure.lasso._Unused.stay",
    claim="a lasso or elastic net moves as certified; where a sign may change it is fitted again",
    test=f"{MOVES}::test_moves_of_lasso_and_elastic_net_lie_within_their_errors",
)
def zeros_that_stay_zero(original):
    return lambda self, problem, part, steps, off: np.ones(len(steps), dtype=np.bool_)


@mutant(
    "epsworth.exposure.steps._Steps._certified",
    claim="a sparse table's moves lie within their errors",
    test="tests/exposure/test_sparse.py::test_moves_are_off_by_less_than_is_said",
)
def a_tenth_of_what_moves_are_off_by(original):
    def certified(self, *given):
        distances, errors = original(self, *given)
        return distances, 0.1 * errors

    return certified


@mutant(
    "epsworth.exposure.steps._Steps._form_offs",
    claim="a sparse table's moves lie within their errors",
    test="tests/exposure/test_sparse.py::test_forms_are_off_by_less_than_is_charged",
)
def forms_as_computed(original):
    return lambda self, *given: tuple(0 * off for off in original(self, *given))


@mutant(
    "epsworth.exposure.retraining._Halves.__call__",
    claim="what a label tells of membership lies between the bounds of retraining, for all rows together",
    test="tests/exposure/test_retraining.py::test_bounds_hold_for_all_rows_together",
)
def halves_mixed_up(original):
    return lambda self, seed: original(self, seed)[::-1]


@mutant(
    "epsworth.exposure.calibration.sensitivity",
    claim="no sensitivity is below the exact one",
    test=f"{EXPOSED}::test_norms_and_sensitivities_are_never_below_the_truth",
)
def sensitivities_to_nearest(original):
    return lambda *given, **options: original(*given, **options) * (1 - 2.0**-50)


@mutant(
    "epsworth.exposure.releasing.noise_rate",
    claim="a released model's noise covers what a row moves, its lattice and what the fit leaves",
    test=f"{EXPOSED}::test_the_noise_of_a_release_covers_every_charge",
)
def noise_without_what_the_fit_leaves(original):
    def noise_rate(*given, **options):
        rate, step = original(*given, **options)
        return rate * (1 + 1e-12), step

    return noise_rate


@mutant(
    "epsworth.exposure.fitting.into_ball",
    claim="a released model refuses no neighbour",
    test="tests/exposure/test_release_door.py::test_no_neighbour_is_refused_and_public_facts_stay_the_same",
)
def rows_stay_as_long_as_they_are(original):
    return lambda rows: rows


@mutant(
    "epsworth.exposure.distances.error",
    claim="inverses of the law of a row's loss err to the private side",
    test=f"{EXPOSED}::test_inverses_err_to_the_safe_side_of_the_truth[3-60]",
)
def kernels_trusted_to_the_bit(original):
    return lambda u: 0.0 * np.asarray(u)


@mutant(
    "epsworth.exposure.advice.Window._shares",
    claim="up to a window's lower end every row is safe; no row is said to pay more than ε",
    test=f"{WINDOW}::test_no_row_is_said_to_pay_more_than_epsilon",
)
def rows_pay_up_to_twice(original):
    return lambda self: self.kappa * (self.neighbours.distances + self.neighbours.errors)


@mutant(
    "epsworth.exposure.distances.Kernels.inverse_adv",
    claim="up to a window's lower end every row is safe; no row is said to pay more than ε",
    test=f"{WINDOW}::test_the_ends_keep_their_promises",
)
def windows_a_little_too_wide(original):
    return lambda self, a, *, upwards=False: original(self, a, upwards=upwards) * (0.97 if upwards else 1.03)


@mutant(
    "epsworth.exposure.reporting.worst_case",
    claim="the answer that reads no data covers every row of every data set",
    test=f"{OTHER}::test_the_worst_case_covers_every_row",
)
def worst_case_at_half_of_epsilon(original):
    return lambda epsilon, d: dataclasses.replace(original(epsilon / 2, d), epsilon=epsilon)


@mutant(
    "epsworth.exposure.usefulness.simulate",
    claim="accuracy is called kept only where whole rows within the tolerance say so",
    test=f"{WINDOW}::test_a_tolerance_allows_whole_rows_only",
)
def one_row_more_may_turn(original):
    def simulate(X, *given, tolerance, **options):
        return original(X, *given, tolerance=tolerance + 1 / len(X), **options)

    return simulate


@mutant(
    "epsworth.noise.profiles.ROUNDING",
    claim="a noise's δ at any ε is exact, never rounded down",
    test=f"{ROUNDED}::test_deltas_of_far_tails_are_not_below_the_truth",
)
def one_rounding_where_sixteen_are_counted(original):
    return original / 16


@mutant(
    "epsworth.noise.lattice.LEAST",
    claim="a noise's δ at any ε is exact, never rounded down",
    test=f"{ROUNDED}::test_mass_beyond_a_table_is_never_understated_where_tails_underflow",
)
def tails_that_underflow_are_none(original):
    return 0.0


@mutant(
    "epsworth.noise.local.EACH",
    claim="misses of a region are never rounded down, confidences never up",
    test=f"{ROUNDED}::test_confidences_of_groups_are_never_above_the_truth",
)
def probabilities_of_reports_trusted_to_the_bit(original):
    return 0


@mutant(
    "epsworth.noise.regions.OnLattice.pairs",
    claim="all pairs of answers that neighbours can be rounded to are compared",
    test=f"{ANSWERS}::test_every_pair_that_rounding_can_reach_is_compared",
)
def pairs_nearer_by_a_millionth(original):
    return lambda self, sensitivity: original(self, sensitivity * (1 - 1e-6))
