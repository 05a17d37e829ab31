"""Safe boxes and radii, and what is recommended, split and shown."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from planting import mutant

BOXES = "tests/utility/test_boxes.py"
RADIUS = "tests/utility/test_radius.py"
IN_TIME = "tests/utility/test_radius_in_time.py"
OUTWARD = "tests/utility/test_outward.py"
RECOMMENDED = "tests/utility/test_recommendation.py"
BEYOND = "tests/utility/test_beyond.py"

HOLDS = "every end of a certain box, as a number and as printed, keeps the label"


@mutant(
    "epsworth.utility.sides.held",
    claim=HOLDS,
    test=f"{BOXES}::test_ends_and_printed_ends_of_a_certain_box_keep_the_label",
)
def ends_of_boxes_are_not_probed(original):
    return lambda question, ends, probes: ends


@mutant(
    "epsworth.utility.boxes._run_around",
    claim="a safe box of a tree model holds everywhere and is the best one",
    test=f"{BOXES}::test_boxes_of_a_forest_hold_and_are_the_best",
)
def boxes_of_one_cell_more(original):
    def run_around(agrees, at):
        first, last = original(agrees, at)
        return max(first - 1, 0), last

    return run_around


@mutant(
    "epsworth.utility.sides._unit_side",
    claim="sides of a box on the unit scale lie within the exact ones",
    test=f"{OUTWARD}::test_sides_lie_within_the_exact_ones",
)
def sides_converted_to_nearest(original):
    def unit_side(feature, low, high):
        width = feature.upper - feature.lower
        return max(0.0, (low - feature.lower) / width), min(1.0, (high - feature.lower) / width)

    return unit_side


@mutant(
    "epsworth.utility.boxes.stays_at_least",
    claim="what a sampled box guarantees is at most its mass times what stays, and all attempts share its risk",
    test=f"{BOXES}::test_what_a_box_guarantees_is_rounded_down",
)
def guarantees_of_boxes_to_nearest(original):
    return lambda mass, flips, sides: mass * (1 - flips)


@mutant(
    "epsworth.bounds.Risk._one_sided",
    claim="what a sampled box guarantees is at most its mass times what stays, and all attempts share its risk",
    test=f"{BOXES}::test_all_attempts_at_a_box_together_miss_as_often_as_was_asked_for",
)
def one_sided_limits_miss_twice(original):
    def one_sided(self, successes, trials):
        from epsworth.bounds import clopper_pearson

        return clopper_pearson(successes, trials, min(1.0, 4 * self._pay_for(successes, trials)))

    return one_sided


TESTED = "of the ball of a tested radius at most the stated share flips, and all tested radii share one risk"


@mutant("epsworth.bounds.Risk.upper", claim=TESTED, test=f"{RADIUS}::test_promises_of_tested_radii_are_kept")
def upper_limits_are_estimates(original):
    return lambda self, successes, trials: np.minimum(original(self, successes, trials), np.asarray(successes) / trials)


@mutant(
    "epsworth.utility.radius.sampled.tested_radius",
    claim=TESTED,
    test=f"{RADIUS}::test_all_tested_radii_together_miss_as_often_as_was_asked_for",
)
def each_tested_radius_spends_all(original):
    def tested_radius(asked, flip, rng, *, failing, risk):
        from epsworth.utility.radius.sampled import TESTS

        more = type(risk)(min(1, risk.each * TESTS))
        return original(asked, flip, rng, failing=failing, risk=more)

    return tested_radius


NEAREST = "no point nearer than the lower end of a radius has another label"


@mutant(
    "epsworth.utility.radius.linear._certain",
    claim=NEAREST,
    test=f"{RADIUS}::test_outward_rounding_survives_many_probes",
)
def distances_to_hyperplanes_to_nearest(original):
    return lambda scores, inside, pair, lead, dual, distance: float(np.nextafter(lead / dual, np.inf))


@mutant(
    "epsworth.utility.radius.search.Search.bounds",
    claim=NEAREST,
    test=f"{IN_TIME}::test_the_search_agrees_with_the_table_of_all_cells_and_holds_whenever_it_ends[0]",
)
def bounds_of_boxes_beyond_their_flips(original):
    return lambda self, boxes, floor: 1.05 * original(self, boxes, floor)


@mutant(
    "epsworth.utility.radius.networks.PRUNED",
    claim="a solver's bound is lowered by the tolerances that it documents",
    test=f"{OUTWARD}::test_the_solver_is_trusted_no_further_than_it_says",
)
def solvers_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.utility.margins.priced_bound",
    claim="no division of a margin is worth more than the bound that a price gives",
    test="tests/utility/test_margins.py::test_any_price_bounds_every_division[0.3]",
)
def margins_at_a_discount(original):
    return lambda sides, margin, price: original(sides, margin, price) - 0.1 * price * margin


@mutant(
    "epsworth.utility.radii._check_values",
    claim="a kept piece of radii is read only where a run of the question can have found it",
    test="tests/utility/test_radii.py::test_no_field_of_a_kept_piece_can_be_changed_to_what_no_run_finds",
)
def kept_radii_believed(original):
    return lambda arrays, told, records, first, piece: None


# ---- recommendations


@mutant(
    "epsworth.utility.choice.Scanned.deltas",
    claim="no recommendation exceeds the largest delta that is accepted, at any epsilon",
    test=f"{RECOMMENDED}::test_delta_is_honoured_at_every_epsilon",
)
def delta_of_the_first_epsilon(original):
    def deltas(self):
        found = np.array([[promise.delta for promise in row] for row in self.curves.guarantees])
        return np.where(found[:, :1] <= self.delta, found, np.inf)

    return deltas


@mutant(
    "epsworth.utility.wording._shown",
    claim="a recommendation and printed curves show no more than is guaranteed",
    test=f"{RECOMMENDED}::test_an_average_above_the_ceiling_reads_as_no_contradiction",
)
def recommended_shares_to_nearest(original):
    return lambda lower, at_least: f"{round(lower, 3):g}"


@mutant(
    "epsworth.utility.curves.round_down",
    claim="a recommendation and printed curves show no more than is guaranteed",
    test=f"{RECOMMENDED}::test_printed_curves_show_guaranteed_numbers_rounded_down",
)
def curves_printed_to_nearest(original):
    return lambda value, digits=3: round(value, digits)


@mutant(
    "epsworth.guarantees.ceiling",
    claim="what an observer learns is never understated",
    test=f"{RECOMMENDED}::test_what_an_epsilon_protects_is_told_and_rounded_up",
)
def ceilings_to_nearest(original):
    def ceiling(epsilon_total, labels, delta=0.0):
        others = (labels - 1) * math.exp(-epsilon_total)
        return min(1.0, (1 + others * delta) / (1 + others))

    return ceiling


@mutant(
    "epsworth.utility.splitting._shared_out",
    claim="the shares of a split sum to no more than its total",
    test=f"{BEYOND}::test_shares_never_sum_to_more_than_the_total",
)
def shares_out_to_nearest(original):
    return lambda total, share: np.asarray(total * share)


@mutant(
    "epsworth.utility.views.promises",
    claim="every promise is told of the mechanisms that keep it, and of no other",
    test=f"{RECOMMENDED}::test_every_promise_is_told_of_the_mechanisms_that_keep_it",
)
def promises_of_the_first_epsilon(original):
    return lambda *given: list(original(*given))[:1]


@mutant(
    "epsworth.utility.believable._check_promises",
    claim="a file of curves whose promises are not what its mechanisms keep is refused",
    test="tests/utility/test_believable.py::test_a_promise_other_than_what_the_mechanism_keeps_is_refused",
)
def promises_in_files_believed(original):
    return lambda curves: None


@mutant(
    "epsworth.utility.surroundings.served",
    claim="what a group keeps on average is never overstated",
    test="tests/utility/test_surroundings.py::test_an_unrounded_mean_of_a_group_is_no_more_than_the_mean",
)
def groups_keep_a_rounded_mean(original):
    def served(values, numbers, lower):
        found = original(values, numbers, lower)
        return [dataclasses.replace(one, average=float(np.nextafter(one.average, 1)) + 1e-15) for one in found]

    return served


# ---- tailored policies


@mutant(
    "epsworth.tailoring.copying._blur",
    claim="where a certificate says so, the model's own label is the copy's",
    test="tests/tailoring/test_copying.py::test_certified_is_never_wrong_at_any_place_of_a_plane",
)
def numbers_within_a_quarter_step(original):
    return lambda grid: original(grid) - 0.3


@mutant(
    "epsworth.tailoring.copying.TreesCertificate._ends",
    claim="trees are certified on either side of a threshold",
    test="tests/tailoring/test_copying.py::test_a_threshold_beside_a_place_is_open_to_numbers_between_alone",
)
def thresholds_open_nowhere(original):
    return lambda self, places, apart: original(self, places, np.zeros_like(apart))


@mutant(
    "epsworth.release.copies.Layers.prove",
    claim="sums of a copy stay below 2^53 for all places, and tables that could fail are refused",
    test="tests/release/test_copies.py::test_tables_that_could_fail_or_round_are_refused",
)
def sums_of_layers_unbounded(original):
    return lambda self: None


@mutant(
    "epsworth.utility.certified._told",
    claim="a tailored policy certifies no record of which a place is not what it holds",
    test="tests/utility/test_tailored_asked.py::test_records_beyond_their_ranges_are_not_certified",
)
def every_place_is_what_it_holds(original):
    return lambda records, grids: np.ones(len(records), dtype=bool)
