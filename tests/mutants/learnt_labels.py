"""The learner: reports that keep epsilon, sums that add up, certificates that hold beside fakes."""

from __future__ import annotations

import numpy as np
from planting import mutant

REPORTS = "tests/learner/test_reports.py"
ASSIGNED = "tests/learner/test_assignment.py"
ROUNDED = "tests/learner/test_learner_rounding.py"
DOOR = "tests/learner/test_door.py"
FAKES = "tests/learner/test_fakes.py"
RESULTS = "tests/learner/test_learner_results.py"


@mutant(
    "epsworth.learner.mechanisms.Ternary.weights",
    claim="a report keeps ε, whatever a record holds or lacks",
    test=f"{REPORTS}::test_ternary_reports_keep_epsilon_by_enumeration",
)
def right_reports_one_weight_heavier(original):
    def weights(self):
        right, *others = found = original(self)
        return type(found)(right + 1, *others)

    return weights


@mutant(
    "epsworth.learner.coins.flip_weight",
    claim="a report keeps ε, whatever a record holds or lacks",
    test=f"{REPORTS}::test_a_flipped_bit_keeps_epsilon_in_integers",
)
def bits_flipped_a_weight_less(original):
    return lambda epsilon: original(epsilon) - 1


@mutant(
    "epsworth.learner.mechanism.Query.bit_weights",
    claim="a report keeps ε, whatever a record holds or lacks",
    test="tests/learner/test_learnt_tables.py::test_no_message_tells_more_than_epsilon",
)
def bits_of_tables_flipped_less(original):
    return lambda self, values: original(self, values) + np.where(values == 1, np.uint64(self.flip // 2), np.uint64(0))


@mutant(
    "epsworth.learner.wire.check",
    claim="damaged or foreign reports, and impossible sums, are refused",
    test=f"{REPORTS}::test_damaged_reports_are_refused_and_nothing_is_added",
)
def checks_are_zero(original):
    return lambda found: np.zeros(len(found), dtype=np.uint32)


@mutant(
    "epsworth.learner.mechanism.Tallied.possible",
    claim="damaged or foreign reports, and impossible sums, are refused",
    test=f"{DOOR}::test_sums_that_no_reports_add_up_to_are_refused",
)
def any_sums_are_possible(original):
    return lambda self, tally: True


@mutant(
    "epsworth.learner.encoding.spelt_number",
    claim="no value of a record makes a client fail or warn",
    test=f"{DOOR}::test_no_value_makes_a_client_fail_or_warn",
)
def odd_values_fail(original):
    def convert(entry):
        return entry.__float__() if hasattr(entry, "__float__") else original(entry)

    return convert


@mutant(
    "epsworth.learner.aggregation.SeenUsers.add",
    claim="no id reports twice",
    test=f"{ASSIGNED}::test_no_id_reports_twice",
)
def the_first_id_is_forgotten(original):
    return lambda self, seed, marks: original(self, seed, list(marks)[1:])


@mutant(
    "epsworth.learner.mechanism.Mechanism.against",
    claim="wrong labels are certified no more often than asked for, declared fakes included",
    test=f"{FAKES}::test_false_certificates_are_as_rare_as_promised_by_enumeration",
)
def fakes_are_forgotten(original):
    return lambda self, tally, best, fakes=0: original(self, tally, best, 0)


@mutant(
    "epsworth.learner.fakes.odd_row",
    claim="nothing is certified of reports that name a row too often for the declared fakes",
    test="tests/learner/test_row_counts.py::test_nothing_is_certified_of_reports_that_name_a_row_too_often",
)
def odd_rows_are_overlooked(original):
    return lambda *given, **options: None


@mutant(
    "epsworth.learner.certificates.times",
    claim="certificates spend no more than asked for",
    test=f"{RESULTS}::test_certificates_spend_what_was_asked_for_and_no_more",
)
def one_label_pays_for_all(original):
    return lambda count, p: np.asarray(p)


@mutant(
    "epsworth.learner.tails.units",
    claim="the learner's p-values are rounded up, its intervals outwards",
    test=f"{ROUNDED}::test_p_values_are_not_below_the_tail_they_bound",
)
def tails_to_nearest(original):
    return lambda *given: 0.0 * original(*given)


@mutant(
    "epsworth.learner.tails._outwards",
    claim="the learner's p-values are rounded up, its intervals outwards",
    test=f"{ROUNDED}::test_intervals_are_divided_outwards",
)
def intervals_divided_to_nearest(original):
    def outwards(low, high, signal):
        return type(original(low, high, signal))(np.asarray(low / signal), np.asarray(high / signal))

    return outwards


@mutant(
    "epsworth.learner.certificates._smooth",
    claim="a point is certified only beyond all that its cell can vary by",
    test=f"{ROUNDED}::test_a_point_is_certified_only_beyond_all_that_its_cell_can_vary_by",
)
def cells_vary_less(original):
    return lambda aggregate, risk, holder: original(aggregate, risk, type(holder)(0.99 * holder[0], *holder[1:]))


@mutant(
    "epsworth.learner.tails.sign_power",
    claim="a plan's power is never overstated, declared fakes included",
    test=f"{FAKES}::test_power_with_fakes_is_never_overstated",
)
def half_of_the_fakes_matter(original):
    return lambda users, ballot, margin, level, fakes=0: original(users, ballot, margin, level, fakes // 2)
