"""Safe boxes and radii, and what is recommended, split and shown."""

from __future__ import annotations

import math

import numpy as np
from planting import mutant

BOXES = "tests/utility/test_boxes.py"
RADIUS = "tests/utility/test_radius.py"
IN_TIME = "tests/utility/test_radius_in_time.py"
RECOMMENDED = "tests/utility/test_recommendation.py"
BEYOND = "tests/utility/test_beyond.py"


@mutant(
    "epsworth.utility.boxes.held",
    claim="every end of a certain box, also as printed, keeps the label",
    test=f"{BOXES}::test_ends_and_printed_ends_of_a_certain_box_keep_the_label",
)
def ends_of_boxes_are_not_probed(original):
    return lambda question, ends, probes: ends


@mutant(
    "epsworth.utility.boxes.stays_at_least",
    claim="a sampled box guarantees at most its mass times what stays",
    test=f"{BOXES}::test_what_a_box_guarantees_is_rounded_down",
)
def guarantees_of_boxes_to_nearest(original):
    return lambda mass, flips, sides: mass * (1 - flips)


@mutant(
    "epsworth.bounds.Risk.upper",
    claim="of the ball of a tested radius at most the stated share flips",
    test=f"{RADIUS}::test_promises_of_tested_radii_are_kept",
)
def upper_limits_are_estimates(original):
    return lambda self, successes, trials: np.minimum(original(self, successes, trials), np.asarray(successes) / trials)


@mutant(
    "epsworth.utility.radius.quadratic._certain",
    claim="no point nearer than a radius's lower end has another label",
    test=f"{RADIUS}::test_outward_rounding_survives_many_probes",
)
def distances_to_hyperplanes_to_nearest(original):
    return lambda scores, inside, pair, lead, dual, distance: float(np.nextafter(lead / dual, np.inf))


@mutant(
    "epsworth.utility.radius.trees.Search.bounds",
    claim="no point nearer than a radius's lower end has another label",
    test=f"{IN_TIME}::test_the_search_agrees_with_the_table_of_all_cells_and_holds_whenever_it_ends[0]",
)
def bounds_of_boxes_beyond_their_flips(original):
    return lambda self, boxes, floor: 1.05 * original(self, boxes, floor)


# ---- recommendations


@mutant(
    "epsworth.utility.choice.Scanned.deltas",
    claim="no recommendation exceeds the accepted δ, ε of a record or certainty",
    test=f"{RECOMMENDED}::test_delta_is_honoured_at_every_epsilon",
)
def delta_of_the_first_epsilon(original):
    def deltas(self):
        found = np.array([[promise.delta for promise in row] for row in self.curves.guarantees])
        return np.where(found[:, :1] <= self.limits.delta, found, np.inf)

    return deltas


@mutant(
    "epsworth.utility.choice.Limits.accept",
    claim="no recommendation exceeds the accepted δ, ε of a record or certainty",
    test=f"{RECOMMENDED}::test_how_sure_an_attacker_may_get_is_another_way_to_say_it[0.98-2]",
)
def certainties_are_not_compared(original):
    return lambda self, promise: promise.delta <= self.delta and promise.epsilon <= self.epsilon + 1


@mutant(
    "epsworth.utility.choice.Limits.accept",
    claim="no recommendation exceeds the accepted δ, ε of a record or certainty",
    test=f"{RECOMMENDED}::test_a_yes_has_two_sides",
)
def any_epsilon_is_accepted(original):
    return lambda self, promise: promise.delta <= self.delta


@mutant(
    "epsworth.utility.wording._percent",
    claim="recommendations and printed curves show no more than guaranteed",
    test=f"{RECOMMENDED}::test_an_average_above_the_ceiling_reads_as_no_contradiction",
)
def recommended_shares_to_nearest(original):
    return lambda value, at_least=0.0: f"{round(100 * value, 1):g} %"


@mutant(
    "epsworth.utility.curves.round_down",
    claim="recommendations and printed curves show no more than guaranteed",
    test=f"{RECOMMENDED}::test_printed_curves_show_guaranteed_numbers_rounded_down",
)
def curves_printed_to_nearest(original):
    return lambda value, digits=3: round(value, digits)


@mutant(
    "epsworth.guarantees.ceiling",
    claim="what an attacker learns is never understated",
    test=f"{RECOMMENDED}::test_what_an_epsilon_protects_is_told_and_rounded_up",
)
def ceilings_to_nearest(original):
    def ceiling(epsilon_total, labels, delta=0.0):
        others = (labels - 1) * math.exp(-epsilon_total)
        return min(1.0, (1 + others * delta) / (1 + others))

    return ceiling


@mutant(
    "epsworth.utility.splitting._shared_out",
    claim="the features' shares sum to no more than a record's epsilon",
    test=f"{BEYOND}::test_shares_never_sum_to_more_than_the_total",
)
def shares_out_to_nearest(original):
    return lambda total, share: np.asarray(total * share)


@mutant(
    "epsworth.mechanisms.record.float_below",
    claim="the features' shares sum to no more than a record's epsilon",
    test="tests/utility/test_epsilons_of_records.py::test_shares_of_a_total_never_add_up_to_more",
)
def even_shares_to_nearest(original):
    return float


# ---- tailored policies


@mutant(
    "epsworth.tailored.distillation._blur",
    claim="where certified, the model's own label is the surrogate's",
    test="tests/tailoring/test_copying.py::test_certified_is_never_wrong_at_any_place_of_a_plane",
)
def numbers_within_a_quarter_step(original):
    return lambda grid: original(grid) - 0.3


@mutant(
    "epsworth.tailored.surrogates.IntegerReLU.prove",
    claim="surrogate sums stay below 2^53; tables that could fail are refused",
    test="tests/policy/test_copies.py::test_tables_that_could_fail_or_round_are_refused",
)
def sums_of_layers_unbounded(original):
    return lambda self: None


@mutant(
    "epsworth.utility.retention._told",
    claim="no record is certified whose codes are not what it holds",
    test="tests/utility/test_tailored_asked.py::test_records_beyond_their_ranges_are_not_certified",
)
def every_place_is_what_it_holds(original):
    return lambda records, grids: np.ones(len(records), dtype=bool)


@mutant(
    "epsworth.utility.radius.networks.SLACK",
    claim="no point nearer than a radius's lower end has another label",
    test=f"{RADIUS}::test_intervals_of_a_layer_hold_its_exact_ends",
)
def intervals_of_layers_trusted_to_the_bit(original):
    return 0.0
