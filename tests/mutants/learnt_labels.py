"""The learner: reports that keep epsilon, sums that add up, certificates that hold beside fakes."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
from planting import mutant

REPORTS = "tests/learner/test_reports.py"
ASSIGNED = "tests/learner/test_assignment.py"
CERTIFICATES = "tests/learner/test_certificates.py"
ROUNDED = "tests/learner/test_learner_rounding.py"
DOOR = "tests/learner/test_door.py"
FAKES = "tests/learner/test_fakes.py"
RESULTS = "tests/learner/test_learner_results.py"
KEEPS = "one report keeps epsilon for the pair of point and label, by enumeration of its integers"


@mutant(
    "epsworth.learner.signed.Ternary.weights",
    claim=KEEPS,
    test=f"{REPORTS}::test_ternary_reports_keep_epsilon_by_enumeration",
)
def right_reports_one_weight_heavier(original):
    def weights(self):
        right, *others = found = original(self)
        return type(found)(right + 1, *others)

    return weights


@mutant(
    "epsworth.learner.coins.flip_weight", claim=KEEPS, test=f"{REPORTS}::test_a_flipped_bit_keeps_epsilon_in_integers"
)
def bits_flipped_a_weight_less(original):
    return lambda epsilon: original(epsilon) - 1


@mutant(
    "epsworth.learner.cellwise.Krr.keep", claim=KEEPS, test=f"{REPORTS}::test_other_reports_keep_epsilon_by_enumeration"
)
def pairs_kept_a_weight_more(original):
    return lambda self: original(self) + 1


@mutant(
    "epsworth.learner.tables.kernels.Question.bit_weights",
    claim="a report about a table keeps epsilon, whatever a record holds or lacks",
    test="tests/learner/test_learnt_tables.py::test_no_message_tells_more_than_epsilon",
)
def bits_of_tables_flipped_less(original):
    return lambda self, values: original(self, values) + np.where(values == 1, np.uint64(self.flip // 2), np.uint64(0))


@mutant(
    "epsworth.learner.signed.Hadamard.told",
    claim="estimates from reports are unbiased",
    test=f"{REPORTS}::test_reports_are_unbiased_with_the_stated_variance",
)
def who_holds_nothing_votes_for(original):
    def told(self, known, row, source):
        return np.where(known < 0, 2 * row, original(self, known, row, source))

    return told


@mutant(
    "epsworth.learner.aggregation.Aggregator.merge",
    claim="sums of reports are the same to the bit in every order of merging",
    test=f"{REPORTS}::test_merging_is_associative_to_the_bit",
)
def merged_with_itself(original):
    return lambda self, other: original(self, self if other.users else other)


@mutant(
    "epsworth.learner.client.check",
    claim="a damaged or foreign report is refused, and nothing of its call is counted",
    test=f"{REPORTS}::test_damaged_reports_are_refused_and_nothing_is_added",
)
def checks_are_zero(original):
    return lambda found: np.zeros(len(found), dtype=np.uint32)


@mutant(
    "epsworth.learner.config.LatticeConfig._fingerprint",
    claim="configurations and reports of version 0.1 mean the same to the bit",
    test="tests/learner/test_before.py::test_files_and_reports_of_before_mean_the_same_to_the_bit",
)
def fingerprints_of_another_version(original):
    return lambda self, *given: original(self, *given)[::-1]


@mutant(
    "epsworth.learner.tallies.Tallied.possible",
    claim="sums that no reports add up to are refused",
    test=f"{DOOR}::test_sums_that_no_reports_add_up_to_are_refused",
)
def any_sums_are_possible(original):
    return lambda self, tally: True


@mutant(
    "epsworth.learner.entries._float",
    claim="no value of a record makes a client fail or warn, and unusable ones are reported by a law of their own",
    test=f"{DOOR}::test_no_value_makes_a_client_fail_or_warn",
)
def odd_values_fail(original):
    def convert(entry):
        return entry.__float__() if hasattr(entry, "__float__") else original(entry)

    return convert


@mutant(
    "epsworth.learner.door._stated",
    claim="no value of a record makes a client fail or warn, and unusable ones are reported by a law of their own",
    test=f"{DOOR}::test_an_unusable_record_is_reported_with_a_law_that_does_not_depend_on_it",
)
def unusable_records_count_for_the_first_cell(original):
    def stated(config, X, y):
        found = original(config, X, y)
        return dataclasses.replace(found, **{dataclasses.fields(found)[-1].name: np.zeros(len(found.label), bool)})

    return stated


IDS = "no id reports twice, and a report about another row than its user's is refused"


@mutant("epsworth.learner.assignment.Roll.add", claim=IDS, test=f"{ASSIGNED}::test_no_id_reports_twice")
def the_first_id_is_forgotten(original):
    return lambda self, seed, marks: original(self, seed, list(marks)[1:])


@mutant(
    "epsworth.learner.assignment.refuse_other_rows",
    claim=IDS,
    test=f"{ASSIGNED}::test_reports_are_about_the_assigned_rows_and_others_are_refused",
)
def other_rows_pass(original):
    return lambda rows, assigned: None


@mutant(
    "epsworth.learner.assignment.numbers_by_hash",
    claim="assigned rows are uniform, as the hash is",
    test=f"{ASSIGNED}::test_words_beyond_the_last_multiple_are_rejected",
)
def rows_by_any_word(original):
    def numbers_by_hash(size, ids, seed, fingerprint, purpose):
        from epsworth.learner.assignment import digests

        blocks = digests(list(ids), seed, fingerprint, purpose, 0)
        words = np.frombuffer(b"".join(blocks), dtype=">u8").astype(np.uint64).reshape(-1, 4)
        return (words[:, 0] % np.uint64(size)).astype(np.int64)

    return numbers_by_hash


@mutant(
    "epsworth.learner.row_counts.odd_row",
    claim="honest reports are rarely warned of, and one per cent of fakes on one row are",
    test="tests/learner/test_row_counts.py::test_p_values_are_those_of_the_binomial_law",
)
def rows_tested_as_if_alone(original):
    def odd_row(counts, weights=None, **given):
        found = original(counts, weights, **given)
        if found is None:
            return None
        name = next(
            one.name
            for one in dataclasses.fields(found)
            if isinstance(getattr(found, one.name), float) and getattr(found, one.name) <= 1
        )
        return dataclasses.replace(found, **{name: getattr(found, name) / (2 * counts.size)})

    return odd_row


RARE = "a wrong label is certified no more often than was asked for, also beside as many fakes as were declared"


@mutant(
    "epsworth.learner.mechanism.Mechanism.against",
    claim=RARE,
    test=f"{FAKES}::test_false_certificates_are_as_rare_as_promised_by_enumeration",
)
def fakes_are_forgotten(original):
    return lambda self, tally, best, fakes=0: original(self, tally, best, 0)


@mutant(
    "epsworth.learner.tails.sign_test",
    claim=RARE,
    test=f"{CERTIFICATES}::test_unary_certificates_keep_their_level_by_enumeration",
)
def one_vote_more(original):
    return lambda votes, against: original(np.asarray(votes) + 1, np.maximum(np.asarray(against) - 1, 0))


@mutant(
    "epsworth.learner.certificates.times",
    claim="certificates spend no more than was asked for: every cell and every wrong label pays",
    test=f"{RESULTS}::test_certificates_spend_what_was_asked_for_and_no_more",
)
def one_label_pays_for_all(original):
    return lambda count, p: np.asarray(p)


@mutant(
    "epsworth.learner.tails.units",
    claim="p-values and tail bounds are rounded up",
    test=f"{ROUNDED}::test_p_values_are_not_below_the_tail_they_bound",
)
def tails_to_nearest(original):
    return lambda *given: 0.0 * original(*given)


@mutant(
    "epsworth.learner.tails.chernoff",
    claim="p-values and tail bounds are rounded up",
    test=f"{CERTIFICATES}::test_chernoff_exceeds_the_simulated_tail",
)
def tail_bound_without_its_noise(original):
    return lambda t, n, scale: original(2 * np.asarray(t), n, scale)


INTERVALS = "intervals of a cell's mean are divided outwards, and without votes are everything"


@mutant("epsworth.learner.tails._outwards", claim=INTERVALS, test=f"{ROUNDED}::test_intervals_are_divided_outwards")
def intervals_divided_to_nearest(original):
    def outwards(low, high, signal):
        return type(original(low, high, signal))(np.asarray(low / signal), np.asarray(high / signal))

    return outwards


@mutant(
    "epsworth.learner.tails.vote_interval",
    claim=INTERVALS,
    test=f"{ROUNDED}::test_an_interval_without_votes_is_everything",
)
def nobody_decides(original):
    def vote_interval(plus, minus, votes, risk, signal):
        lower, upper = found = original(plus, minus, votes, risk, signal)
        return type(found)(lower, np.where(np.asarray(votes) == 0, 0.0, upper))

    return vote_interval


@mutant(
    "epsworth.learner.certificates._smooth",
    claim="a point is certified only beyond all that its cell can vary by",
    test=f"{ROUNDED}::test_a_point_is_certified_only_beyond_all_that_its_cell_can_vary_by",
)
def cells_vary_less(original):
    return lambda aggregate, risk, holder: original(aggregate, risk, type(holder)(0.99 * holder[0], *holder[1:]))


POWER = "the power of a plan is never overstated, also with as many fakes as were declared"


@mutant(
    "epsworth.learner.power.tail_error",
    claim=POWER,
    test=f"{ROUNDED}::test_tails_are_off_by_less_than_their_stated_error",
)
def tails_of_plans_trusted_to_the_bit(original):
    return lambda trials: 0.0


@mutant("epsworth.learner.power.sign_power", claim=POWER, test=f"{FAKES}::test_power_with_fakes_is_never_overstated")
def half_of_the_fakes_matter(original):
    return lambda users, ballot, margin, level, fakes=0: original(users, ballot, margin, level, fakes // 2)


@mutant(
    "epsworth.learner.validation.vote_interval",
    claim="bounds of private validation hold for all candidates together",
    test=f"{CERTIFICATES}::test_private_validation_bounds_hold",
)
def candidates_share_no_risk(original):
    def vote_interval(plus, minus, votes, risk, signal):
        risk.spend(risk.left)
        return original(
            plus, minus, votes, type(risk)(Fraction(1, 2) * len(votes) / (len(votes) + 1)).split(len(votes)), signal
        )

    return vote_interval
