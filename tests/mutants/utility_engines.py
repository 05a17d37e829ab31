"""Bounds on how often a label stays: masses, sums, scores and draws, moved outwards by what was counted."""

from __future__ import annotations

import dataclasses

import numpy as np
from planting import mutant

OUTWARD = "tests/utility/test_outward.py"
SUMS = "tests/utility/test_sums.py"
RECOMMENDED = "tests/utility/test_recommendation.py"
ENSEMBLES = "tests/classifiers/test_ensembles.py"
SHARED = "tests/utility/test_shared_miss.py"
POPULATION = "tests/utility/test_population.py"
GAPS = "tests/utility/test_gaps_in_questions.py"


@mutant(
    "epsworth.utility.engines.sampled.AverageFirst.bound",
    claim="the average that comes first is paid for out of the same risk",
    test=f"{SHARED}::test_the_average_that_comes_first_is_paid_for_out_of_the_same_miss",
)
def the_first_average_has_a_risk_beside(original):
    from epsworth.bounds import Risk

    def bound(self, question, settings):
        return original(self, question, dataclasses.replace(settings, risk=Risk(2 * settings.risk.total)))

    return bound


@mutant(
    "epsworth.utility.engines.contraction.mass_error",
    claim="bounds allow for rounded thresholds and sums of masses over cells",
    test=f"{OUTWARD}::test_sums_over_cells_hold_the_truth",
)
def sums_over_cells_trusted_to_the_bit(original):
    return lambda cells: 0.0


@mutant(
    "epsworth.utility.engines.contraction.misplaced",
    claim="bounds allow for rounded thresholds and sums of masses over cells",
    test=f"{OUTWARD}::test_edges_on_the_unit_scale_are_allowed_to_be_rounded",
)
def thresholds_trusted_to_lie_where_they_are_computed(original):
    return lambda feature: 0.0


@mutant(
    "epsworth.utility.engines.contraction.outward",
    claim="no label is called certain that some output could lose",
    test=f"{RECOMMENDED}::test_no_probability_below_one_is_called_certain",
)
def nearly_one_is_certain(original):
    def outward(value, error):
        lower, upper = original(value, error)
        return type(original(value, error))(np.where(value > 1 - 1e-6, 1.0, lower), np.where(value < 1e-12, 0.0, upper))

    return outward


@mutant(
    "epsworth.utility.engines.linear.LinearModel.known",
    claim="no label is called certain that some output could lose",
    test=f"{RECOMMENDED}::test_noise_that_leaves_the_range_is_never_promised_to_keep_a_label",
)
def noise_never_leaves_the_range(original):
    return lambda self, record, label, within: original(self, record, label, True)


@mutant(
    "epsworth.utility.engines.linear.settled",
    claim="no label is called certain that some output could lose",
    test=f"{RECOMMENDED}::test_a_rival_of_several_that_may_win_takes_certainty_away",
)
def the_last_rival_decides(original):
    return lambda comparisons, slack: original(comparisons[-1:], slack)


@mutant(
    "epsworth.utility.engines.linear.LinearModel.rounding",
    claim="a linear score is off its reading by no more than counted",
    test=f"{SUMS}::test_computed_scores_are_within_their_rounding",
)
def scores_trusted_to_the_bit(original):
    return lambda self, record: 0.0


@mutant(
    "epsworth.utility.engines.sums.gaussian_sum",
    claim="closed forms of sums of noise hold the truth",
    test=f"{OUTWARD}::test_closed_forms_hold_the_truth[check_gaussian_sum]",
)
def closed_forms_moved_inwards(original):
    def gaussian_sum(laws, weights, threshold):
        middle = np.mean(original(laws, weights, threshold), axis=0)
        return type(original(laws, weights, threshold))(middle, middle)

    return gaussian_sum


@mutant(
    "epsworth.utility.engines.quadratic.Leads.decided",
    claim="quadratic leads within their rounding neither keep nor lose a label",
    test="tests/utility/test_slabs.py::test_values_within_rounding_of_a_boundary_neither_keep_nor_lose_the_label",
)
def leads_trusted_to_the_bit(original):
    return lambda self, low, high, span: original(dataclasses.replace(self, slack=0 * self.slack), low, high, span)


@mutant(
    "epsworth.classifiers.trees.TreeModel.slack",
    claim="near ties of trees are put to the classifier",
    test="tests/utility/test_hard_cases.py::test_sums_that_cancel_are_asked_about",
)
def rounding_of_large_sums_forgotten(original):
    return lambda self: self.tie * len(self.roots)


@mutant(
    "epsworth.classifiers.thresholds.ROUNDING",
    claim="ends of an ensemble's combined answers hold their exact values",
    test=f"{ENSEMBLES}::test_the_ends_of_combined_answers_hold_their_exact_values",
)
def combined_answers_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.utility.engines.propagation.NetworkBoxes._through",
    claim="a network's computed score, rounding included, lies between its bounds",
    test="tests/utility/test_networks.py::test_rounding_of_single_precision_is_inside_the_bounds",
)
def layers_trusted_to_the_bit(original):
    def through(self, layer, under, over, sizes):
        return original(self, dataclasses.replace(layer, additions=0), under, over, sizes)

    return through


@mutant(
    "epsworth.classifiers.reading.answers_as_read",
    claim="no engine uses a reading that labels contradict, or that too few could test",
    test="tests/classifiers/test_library_classes.py::test_a_reading_is_checked_at_thresholds_and_beyond_the_ranges",
)
def readings_that_are_right_somewhere(original):
    return lambda labels, read, clear: bool((labels == read)[clear].any())


@mutant(
    "epsworth.classifiers.reading.LEAST_CLEAR",
    claim="no engine uses a reading that labels contradict, or that too few could test",
    test="tests/utility/test_gaps.py::test_a_check_that_compared_nothing_has_not_passed",
)
def checks_that_compared_nothing_pass(original):
    return 0


@mutant(
    "epsworth.classifiers.networks.Network.holds",
    claim="nothing is read where single precision could overflow or underflow",
    test="tests/utility/test_gaps.py::test_numbers_that_single_precision_does_not_hold_are_not_read",
)
def single_precision_holds_all_numbers(original):
    return lambda self, sizes: True


@mutant(
    "epsworth.classifiers.reading._library_class",
    claim="a model that answers by other code than its library's is a black box",
    test="tests/classifiers/test_library_classes.py::test_a_subclass_that_predicts_by_itself_is_a_black_box[tree]",
)
def subclasses_answer_as_their_library(original):
    return lambda kind: next((found for parent in kind.__mro__ if (found := original(parent)) is not None), None)


@mutant(
    "epsworth.classifiers.reading.check_batch_invariance",
    claim="a classifier whose labels depend on the batch is refused",
    test="tests/classifiers/test_determinism.py::test_labels_that_depend_on_the_rest_of_the_batch_are_refused",
)
def rows_are_not_asked_alone(original):
    return lambda name, ask, labels, what, needs: 0


# ---- draws


@mutant(
    "epsworth.utility.engines.cells.CellTables.can_fall_back",
    claim="an engine that may hand over to sampling leaves it a share of the miss",
    test=f"{SHARED}::test_an_engine_that_may_hand_over_to_sampling_leaves_it_a_share",
)
def tables_leave_nothing_to_sampling(original):
    return False


@mutant(
    "epsworth.utility.engines.sampled.Tally.look",
    claim="all looks together miss at most as often as asked, whenever one stops",
    test="tests/utility/test_anytime.py::test_whoever_stops_when_it_looks_best_is_not_more_often_wrong",
)
def each_look_may_miss_a_fifth(original):
    def look(self, at, with_accuracy):
        risk = type(at.risk)(0.2 * at.risk.left).split(at.risk.left)
        risk.each = type(risk.each)(1, 5)
        return original(self, dataclasses.replace(at, risk=risk), with_accuracy)

    return look


@mutant(
    "epsworth.utility.engines.rays.Cumulated.band",
    claim="bounds from shared draws hold at every ε at once",
    test="tests/utility/test_rays.py::test_promises_are_kept_at_all_epsilons_at_once",
)
def bands_of_half_the_width(original):
    def band(self):
        lower, upper = found = original(self)
        return type(found)(0.75 * lower + 0.25 * upper, 0.25 * lower + 0.75 * upper)

    return band


@mutant(
    "epsworth.utility.curves.Curves.__post_init__",
    claim="no answer claims more confidence than its bounds left",
    test="tests/contract/test_engines.py::test_curves_that_spent_more_than_their_confidence_allows_are_refused",
)
def confidence_is_not_compared(original):
    return lambda self: None


@mutant(
    "epsworth.utility.quantities.Bounds.average",
    claim="averages over records are rounded outwards; certainty stays",
    test="tests/utility/test_exact.py::test_averages_and_coins_are_rounded_outwards",
)
def averages_to_nearest(original):
    return lambda self: type(original(self))(self.lower.mean(axis=2), self.upper.mean(axis=2))


@mutant(
    "epsworth.utility.population.mean_above",
    claim="bounds on a population miss with at most their share",
    test=f"{POPULATION}::test_bounds_of_yes_and_no_miss_as_rarely_as_promised_exactly",
)
def populations_missed_more_often(original):
    return lambda rows, average, miss, counts=None: original(rows, average, min(8 * miss, 0.9), counts)


@mutant(
    "epsworth.policy.analysis.Released._law",
    claim="an analysed release follows the law of its integers",
    test="tests/utility/test_released.py::test_a_policy_is_analysed_as_its_integers_say",
)
def analysed_one_input_lower(original):
    return lambda self, x: original(self, np.maximum(np.asarray(x) - 1 / (self.rule.kernel.points - 1), 0))


@mutant(
    "epsworth.utility.engines.sums.ROUNDING",
    claim="closed forms of sums of noise hold the truth",
    test=f"{OUTWARD}::test_sums_of_shares_allow_for_their_own_rounding",
)
def sums_of_shares_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.utility.engines.rays.WIDTH",
    claim="bounds from shared draws hold at every ε at once",
    test="tests/utility/test_rays.py::test_the_width_of_a_band_leaves_to_the_shares_what_they_may_err_by",
)
def widths_of_bands_trusted_to_the_bit(original):
    return 0


@mutant(
    "epsworth.utility.engines.sums.ABOVE",
    claim="a Fourier series leaves out no more than allowed for",
    test=f"{SUMS}::test_what_a_series_leaves_out_is_no_more_than_its_bound",
)
def tails_of_series_a_tenth_smaller(original):
    return 0.9 * original


@mutant(
    "epsworth.utility.retention.CERTIFIED",
    claim="no kernel between regions, or for several classifiers, gains more than stated",
    test="tests/utility/test_tailored.py::test_ceilings_of_several_classifiers_allow_for_the_rounding_of_their_weights",
)
def shares_of_a_gain_are_exact(original):
    return 1.0


@mutant(
    "epsworth.space.Feature.to_unit",
    claim="an analysis of gaps is of what clients send",
    test=f"{GAPS}::test_a_gap_is_perturbed_as_the_declared_value_and_keeps_the_label_of_the_gap",
)
def gaps_are_the_lower_end(original):
    return lambda self, values: np.where(self.gaps(values), 0.0, original(self, values))


@mutant(
    "epsworth.policy.rules.Rule.points",
    claim="declared whole numbers are analysed and released as such",
    test=f"{GAPS}::test_whole_numbers_are_analysed_and_released_as_such",
)
def whole_numbers_leave_unrounded(original):
    return lambda self: None


@mutant(
    "epsworth.rounding.underflows",
    claim="nothing is read where single precision could overflow or underflow",
    test="tests/utility/test_linear.py::test_products_that_lose_digits_are_not_read",
)
def tiny_products_trusted(original):
    return lambda *values: False


@mutant(
    "epsworth.utility.engines.checkpoint.digest_of_model",
    claim="a resumed run is that of the very same model",
    test="tests/utility/test_checkpoint.py::test_the_folder_of_a_model_that_is_almost_the_same_is_refused",
)
def every_model_is_the_same(original):
    return lambda model: ""
