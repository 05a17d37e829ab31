"""Bounds on how often a label stays: masses, sums, scores and draws, moved outwards by what was counted."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from planting import mutant

OUTWARD = "tests/utility/test_outward.py"
LINEAR = "tests/utility/test_linear.py"
SUMS = "tests/utility/test_sums.py"
RECOMMENDED = "tests/utility/test_recommendation.py"
ENSEMBLES = "tests/classifiers/test_ensembles.py"
SHARED = "tests/utility/test_shared_miss.py"
POPULATION = "tests/utility/test_population.py"
PIECES = "tests/utility/test_pieces.py"

MASSES = "masses that are summed over cells are widened by what their number implies, and hold sixty-digit arithmetic"


@mutant(
    "epsworth.utility.engines.contraction.mass_error",
    claim=MASSES,
    test=f"{OUTWARD}::test_sums_over_cells_hold_the_truth",
)
def sums_over_cells_trusted_to_the_bit(original):
    return lambda cells: 0.0


@mutant(
    "epsworth.utility.engines.descent.Descent.error",
    claim=MASSES,
    test=f"{OUTWARD}::test_cells_of_boxes_hold_the_truth",
)
def tables_of_boxes_trusted_to_the_bit(original):
    return lambda self: 0.0


@mutant(
    "epsworth.utility.engines.branch_and_bound.Region.error",
    claim=MASSES,
    test=f"{OUTWARD}::test_decided_boxes_hold_the_truth",
)
def decided_boxes_trusted_to_the_bit(original):
    return lambda self: 0.0


@mutant(
    "epsworth.utility.engines.strata.weights_error",
    claim=MASSES,
    test=f"{OUTWARD}::test_weights_of_strata_are_right_to_their_error",
)
def weights_of_strata_trusted_to_the_bit(original):
    return lambda features: 0.0


@mutant(
    "epsworth.utility.engines.flips.sum_error",
    claim=MASSES,
    test="tests/utility/test_row_sweep.py::test_sums_over_flips_err_by_no_more_than_counted",
)
def sums_over_flips_trusted_to_the_bit(original):
    return lambda *given: 0.0


CERTAIN = "no probability is called certain that is not exactly 0 or 1"


@mutant(
    "epsworth.utility.engines.contraction.outward",
    claim=CERTAIN,
    test=f"{RECOMMENDED}::test_no_probability_below_one_is_called_certain",
)
def nearly_one_is_certain(original):
    def outward(value, error):
        lower, upper = original(value, error)
        return type(original(value, error))(np.where(value > 1 - 1e-6, 1.0, lower), np.where(value < 1e-12, 0.0, upper))

    return outward


@mutant(
    "epsworth.utility.engines.contraction._agreeing",
    claim=CERTAIN,
    test=f"{OUTWARD}::test_a_label_is_certain_only_where_every_cell_has_it",
)
def what_rounds_to_one_is_certain(original):
    from epsworth.utility.engines.contraction import contract

    return lambda agrees, masses: np.clip(contract(agrees, masses), 0, 1)


@mutant(
    "epsworth.utility.engines.linear.LinearModel.known",
    claim=CERTAIN,
    test=f"{RECOMMENDED}::test_noise_that_leaves_the_range_is_never_promised_to_keep_a_label",
)
def noise_never_leaves_the_range(original):
    return lambda self, record, label, within: original(self, record, label, True)


@mutant(
    "epsworth.utility.engines.linear.settled",
    claim="a label is certain only if it beats every rival by more than rounding",
    test=f"{RECOMMENDED}::test_a_rival_of_several_that_may_win_takes_certainty_away",
)
def the_last_rival_decides(original):
    return lambda comparisons, slack: original(comparisons[-1:], slack)


SCORES = "the score that a linear model computes is off its reading by no more than is counted"


@mutant(
    "epsworth.utility.engines.linear.LinearModel.rounding",
    claim=SCORES,
    test=f"{SUMS}::test_computed_scores_are_within_their_rounding",
)
def scores_trusted_to_the_bit(original):
    return lambda self, record: 0.0


@mutant(
    "epsworth.utility.engines.windows.uniform_sum",
    claim=SCORES,
    test="tests/utility/test_polygons.py::test_what_public_terms_round_is_on_both_sides_of_a_bracket",
)
def sums_of_windows_without_slack(original):
    return lambda parts, weights, threshold, slack: original(parts, weights, threshold, 0.0)


@mutant(
    "epsworth.utility.engines.sums.MARGIN",
    claim="a threshold that rounding moves across an atom is on both sides of a bracket",
    test=f"{LINEAR}::test_a_threshold_that_rounding_moved_across_an_atom_or_a_constant_is_on_both_sides",
)
def thresholds_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.utility.engines.sums._scaled",
    claim="bounds on weighted sums hold at any scale of the weights",
    test="tests/utility/test_hard_cases.py::test_squares_of_small_weights_do_not_vanish",
)
def weights_as_they_are(original):
    return lambda weights, threshold, slack: (weights, threshold, slack)


@mutant(
    "epsworth.utility.engines.sums.transform_error",
    claim="rounding of Fourier transforms is inside the bracket of a sum",
    test=f"{OUTWARD}::test_ingredients_of_the_error_of_transforms",
)
def transforms_without_their_masses(original):
    from epsworth.rounding import UNIT

    return lambda parts, length: UNIT * math.sqrt(length) * math.log2(2 * length)


@mutant(
    "epsworth.utility.engines.sums.gaussian_sum",
    claim="closed forms of sums of noise hold the truth, however much their terms cancel",
    test=f"{OUTWARD}::test_closed_forms_hold_the_truth[check_gaussian_sum]",
)
def closed_forms_moved_inwards(original):
    def gaussian_sum(laws, weights, threshold):
        middle = np.mean(original(laws, weights, threshold), axis=0)
        return type(original(laws, weights, threshold))(middle, middle)

    return gaussian_sum


@mutant(
    "epsworth.utility.engines.linear.by_pairs",
    claim="chances to lose to several rivals add up outwards",
    test=f"{LINEAR}::test_chances_to_lose_to_several_rivals_add_up_outwards",
)
def chances_to_lose_added_to_nearest(original):
    from epsworth.rounding import UNIT

    def by_pairs(laws, comparisons, slack, tolerance):
        lower, upper = original(laws, comparisons, slack, tolerance)
        off = 4 * (len(comparisons) + 1) * UNIT
        return type(original(laws, comparisons, slack, tolerance))(lower + off, upper - off)

    return by_pairs


@mutant(
    "epsworth.utility.engines.polygons.area_error",
    claim="areas of polygons hold the truth in fractions",
    test=f"{OUTWARD}::test_areas_under_two_levels_hold_the_truth",
)
def areas_trusted_to_the_bit(original):
    return lambda planes: 0.0


@mutant(
    "epsworth.utility.engines.slabs.Leads.decided",
    claim="quadratic leads within their rounding neither keep nor lose a label",
    test="tests/utility/test_slabs.py::test_values_within_rounding_of_a_boundary_neither_keep_nor_lose_the_label",
)
def leads_trusted_to_the_bit(original):
    return lambda self, low, high, span: original(dataclasses.replace(self, slack=0 * self.slack), low, high, span)


TREES = "near ties of trees are put to the classifier, however their sums are rounded"


@mutant(
    "epsworth.classifiers.flat.TreeModel.slack",
    claim=TREES,
    test="tests/utility/test_hard_cases.py::test_sums_that_cancel_are_asked_about",
)
def rounding_of_large_sums_forgotten(original):
    return lambda self: self.tie * len(self.roots)


@mutant(
    "epsworth.utility.engines.votes.Votes.of",
    claim=TREES,
    test="tests/utility/test_row_sweep.py::test_fixed_point_errs_by_no_more_than_said",
)
def votes_in_fixed_point_trusted_to_the_bit(original):
    def of(cls, model):
        found = original(cls, model)
        return dataclasses.replace(found, near=min(found.near, 0))

    return of


@mutant(
    "epsworth.classifiers.flat.in_doubles",
    claim="thresholds on singles become thresholds on doubles that send every double the same way",
    test=f"{ENSEMBLES}::test_thresholds_in_doubles_send_every_double_the_same_way",
)
def thresholds_of_singles_as_they_are(original):
    return lambda model: dataclasses.replace(original(model), threshold=model.threshold.astype(np.float64))


@mutant(
    "epsworth.classifiers.flat.TreeModel.turns",
    claim="a missing public value goes the way that each split has learned",
    test=f"{ENSEMBLES}::test_missing_public_values_go_the_way_that_was_learned",
)
def missing_values_go_right(original):
    return lambda self, seen, nodes=slice(None): self.turns_left(seen, self.threshold[nodes])


ENDS = "ends of an ensemble's combined answers hold their exact values, and an open vote counts for nobody and for everybody"


@mutant(
    "epsworth.classifiers.responses.ROUNDING",
    claim=ENDS,
    test=f"{ENSEMBLES}::test_the_ends_of_combined_answers_hold_their_exact_values",
)
def combined_answers_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.classifiers.responses.Votes.__call__",
    claim=ENDS,
    test=f"{ENSEMBLES}::test_an_open_vote_is_taken_for_nobody_and_counts_for_everybody",
)
def open_votes_are_counted(original):
    def call(self, sums, slack):
        places, _ = self.decision(sums, slack)
        own = (np.arange(self.classes) == places[:, np.newaxis]).astype(float)
        return type(original(self, sums, slack))(own, own)

    return call


NETWORK = "the score that a network computes, rounding included, lies between its propagated bounds"


@mutant(
    "epsworth.utility.engines.propagation.NetworkBoxes._through",
    claim=NETWORK,
    test="tests/utility/test_networks.py::test_rounding_of_single_precision_is_inside_the_bounds",
)
def layers_trusted_to_the_bit(original):
    def through(self, layer, under, over, sizes):
        return original(self, dataclasses.replace(layer, additions=0), under, over, sizes)

    return through


@mutant(
    "epsworth.utility.engines.propagation._least",
    claim=NETWORK,
    test="tests/utility/test_networks.py::test_decided_boxes_have_the_label_that_predict_gives[2-relu]",
)
def boxes_decided_by_their_middles(original):
    return lambda functions: np.asarray(functions[:, -1])


READ = "no engine relies on a reading of a model that the model's own labels contradict"


@mutant(
    "epsworth.classifiers.reading.answers_as_read",
    claim=READ,
    test="tests/classifiers/test_genuine.py::test_a_reading_is_checked_at_thresholds_and_beyond_the_ranges",
)
def readings_that_are_right_somewhere(original):
    return lambda labels, read, clear: bool((labels == read)[clear].any())


@mutant(
    "epsworth.classifiers.genuine._kind_of_class",
    claim="a model that answers by other code than its library's is a black box",
    test="tests/classifiers/test_genuine.py::test_a_subclass_that_predicts_by_itself_is_a_black_box[tree]",
)
def subclasses_answer_as_their_library(original):
    return lambda kind: next((found for parent in kind.__mro__ if (found := original(parent)) is not None), None)


@mutant(
    "epsworth.classifiers.steadiness.check_alone",
    claim="a classifier whose labels depend on the other rows of a batch, or on chance, is refused",
    test="tests/classifiers/test_steadiness.py::test_labels_that_depend_on_the_rest_of_the_batch_are_refused",
)
def rows_are_not_asked_alone(original):
    return lambda name, ask, labels, what, needs: 0


# ---- draws


TOGETHER = "all engines, bounds and looks of an answer spend the probability of a miss together"


@mutant(
    "epsworth.utility.engines.engine.kinds",
    claim=TOGETHER,
    test=f"{SHARED}::test_all_bounds_and_looks_of_an_answer_spend_the_miss_together[by_records-y1]",
)
def accuracy_has_no_share(original):
    return lambda question: 1


@mutant(
    "epsworth.utility.engines.cells.CellTables.hands_over",
    claim=TOGETHER,
    test=f"{SHARED}::test_an_engine_that_may_hand_over_to_sampling_leaves_it_a_share",
)
def tables_leave_nothing_to_sampling(original):
    return False


@mutant(
    "epsworth.utility.engines.tally.Tally.look",
    claim="whoever stops when it looks best is wrong no more often than was asked for",
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
    claim="bounds from shared draws hold at every epsilon at once",
    test="tests/utility/test_rays.py::test_promises_are_kept_at_all_epsilons_at_once",
)
def bands_of_half_the_width(original):
    def band(self):
        lower, upper = found = original(self)
        return type(found)(0.75 * lower + 0.25 * upper, 0.25 * lower + 0.75 * upper)

    return band


@mutant(
    "epsworth.utility.engines.rays.SHARES",
    claim="bounds from shared draws hold at every epsilon at once",
    test="tests/utility/test_rays.py::test_bands_hold_what_fractions_and_sixty_digits_give",
)
def shares_of_draws_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.utility.curves.Curves.__post_init__",
    claim="curves never carry a confidence that their bounds have not kept",
    test="tests/contract/test_engines.py::test_curves_that_spent_more_than_their_confidence_allows_are_refused",
)
def confidence_is_not_compared(original):
    return lambda self: None


AVERAGES = "averages over records, coins and pieces are rounded outwards; what is certain stays so"


@mutant(
    "epsworth.utility.quantities.Bounds.average",
    claim=AVERAGES,
    test="tests/utility/test_exact.py::test_averages_and_coins_are_rounded_outwards",
)
def averages_to_nearest(original):
    return lambda self: type(original(self))(self.lower.mean(axis=2), self.upper.mean(axis=2))


@mutant(
    "epsworth.utility.engines.totals.Totals._quotients",
    claim=AVERAGES,
    test=f"{PIECES}::test_averages_of_parts_hold_and_are_the_same_in_any_pieces",
)
def averages_of_parts_moved_inwards(original):
    return lambda self, side, n: np.nextafter(original(self, side, n), 0.5)


@mutant(
    "epsworth.utility.engines.totals.Histogram.add",
    claim=AVERAGES,
    test=f"{PIECES}::test_histograms_round_to_the_safe_side",
)
def steps_to_nearest(original):
    def add(self, lower, upper):
        return original(self, np.rint(lower * self.STEPS) / self.STEPS, np.rint(upper * self.STEPS) / self.STEPS)

    return add


@mutant(
    "epsworth.utility.engines.mixture.TIED",
    claim="subsets that clients choose a little unevenly, as two of their words may be equal, are allowed for",
    test="tests/utility/test_released.py::test_subsets_that_equal_words_choose_unevenly_are_allowed_for",
)
def words_are_never_equal(original):
    return 0.0


PEOPLE = "bounds on a population miss with at most their share, and rest on the records' own ends"


@mutant(
    "epsworth.utility.population.mean_above",
    claim=PEOPLE,
    test=f"{POPULATION}::test_bounds_of_yes_and_no_miss_as_rarely_as_promised_exactly",
)
def populations_missed_more_often(original):
    return lambda rows, average, miss, counts=None: original(rows, average, min(8 * miss, 0.9), counts)


@mutant(
    "epsworth.utility.population.population_bounds",
    claim=PEOPLE,
    test=f"{POPULATION}::test_each_side_rests_on_its_own_ends_of_the_rows",
)
def populations_of_the_upper_ends(original):
    def population_bounds(rows, average, **given):
        return original(type(rows)(rows.upper, rows.upper), type(average)(average.upper, average.upper), **given)

    return population_bounds


@mutant(
    "epsworth.utility.population._paid",
    claim=PEOPLE,
    test=f"{POPULATION}::test_what_the_records_bounds_spent_is_no_longer_there",
)
def populations_forget_what_records_spent(original):
    return lambda confidence, spent, among: original(confidence, 0.0, among)


@mutant(
    "epsworth.release.analysis.Released._law",
    claim="what is analysed of a policy is what its integers give",
    test="tests/utility/test_released.py::test_a_policy_is_analysed_as_its_integers_say",
)
def analysed_one_input_lower(original):
    return lambda self, x: original(self, np.maximum(np.asarray(x) - 1 / (self.rule.kernel.points - 1), 0))
