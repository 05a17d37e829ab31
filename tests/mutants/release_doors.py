"""What `perturb` lets out of tables and files, and what its messages show."""

from __future__ import annotations

import contextlib
import dataclasses
from decimal import Decimal

import numpy as np
from planting import mutant

OTHERS = "tests/release/test_others.py"
PERTURB = "tests/release/test_perturb.py"
POLICY = "tests/release/test_policy.py"
ODD = "tests/release/test_odd_values.py"
VERIFIED = "tests/release/test_verified.py"
UNUSED = "tests/release/test_unused_categories.py"
TAILORING = "tests/release/test_tailoring.py"
TAILORED_DOORS = "tests/release/test_tailored_doors.py"

STATED = "a policy's stated total and its promise cover any features that are released together"


@mutant(
    "epsworth.release.policy.Policy.total", claim=STATED, test=f"{POLICY}::test_the_promise_is_at_most_the_stated_total"
)
def total_of_the_cheapest_features(original):
    from epsworth.numerals import exact_sum

    return lambda self: exact_sum(sorted(rule.epsilon for rule in self.rules)[: self.released])


@mutant(
    "epsworth.release.policy.Policy.guarantee",
    claim=STATED,
    test=f"{POLICY}::test_the_promise_covers_any_features_that_are_released_together",
)
def promise_of_the_cheapest_features(original):
    from epsworth.guarantees import compose

    def guarantee(self):
        promises = sorted((rule.kernel.guarantee for rule in self.rules), key=lambda one: one.epsilon)
        return compose(promises[: self.released])

    return guarantee


@mutant(
    "epsworth.release.policy._plain",
    claim="two policies that differ have different fingerprints",
    test=f"{POLICY}::test_the_fingerprint_tells_every_policy_apart",
)
def texts_taken_for_numbers(original):
    def plain(value):
        with contextlib.suppress(ArithmeticError):
            value = Decimal(value) if isinstance(value, str) else value
        return original(value)

    return plain


UNDECLARED = "under a policy with `others` no column, index or nested value leaves that was not declared"


@mutant(
    "epsworth.release.others.Others.kept",
    claim=UNDECLARED,
    test=f"{OTHERS}::test_what_stays_is_what_is_perturbed_or_passed",
)
def undeclared_columns_pass(original):
    return lambda self, names, perturbed: [name for name in names if name not in self.dropped]


@mutant(
    "epsworth.release.beside.check_index",
    claim=UNDECLARED,
    test=f"{OTHERS}::test_no_table_keeps_more_than_was_declared",
)
def any_index_passes(original):
    return lambda passed, table: None


@mutant("epsworth.release.tables._check_single", claim=UNDECLARED, test=f"{OTHERS}::test_what_passes_is_single_values")
def nested_columns_pass(original):
    return lambda name, series: None


@mutant(
    "epsworth.release.beside._check_level",
    claim="no raw value, note or unused category travels beside the columns of a table",
    test=f"{PERTURB}::test_an_index_named_like_a_feature_is_refused",
)
def features_as_an_index_pass(original):
    return lambda features, name: None


@mutant(
    "epsworth.release.beside.without_notes",
    claim="no raw value, note or unused category travels beside the columns of a table",
    test=f"{PERTURB}::test_notes_of_columns_do_not_travel_with_a_table",
)
def notes_travel(original):
    return lambda table: table


@mutant(
    "epsworth.release.unused.without_unused",
    claim="no raw value, note or unused category travels beside the columns of a table",
    test=f"{UNUSED}::test_what_no_row_holds_does_not_leave",
)
def unused_categories_leave(original):
    return lambda names, frame: frame


@mutant(
    "epsworth.release.tables._check_kind",
    claim="one record gives at most one draw per rule",
    test=f"{PERTURB}::test_a_record_gives_one_value_per_rule_or_is_refused",
)
def lists_of_values_are_drawn_for(original):
    return lambda name, series: None


@mutant(
    "epsworth.release.verified.check_released",
    claim="nothing leaves a table door that is not in the policy's public table",
    test=f"{VERIFIED}::test_what_is_not_public_never_leaves",
)
def released_values_unchecked(original):
    return lambda column, drawn, keep, policy, released: None


@mutant(
    "epsworth.release.verified.check_whole",
    claim="no whole number that passes is rounded: two people stay two",
    test=f"{ODD}::test_whole_numbers_that_an_array_would_round_are_refused",
)
def large_ids_are_rounded(original):
    return lambda name, values: None


@mutant(
    "epsworth.release.tables.check_unmasked",
    claim="what is masked in a table is not perturbed or passed in the open",
    test=f"{PERTURB}::test_the_transformer_refuses_what_an_array_would_lose",
)
def masked_values_pass(original):
    return lambda table: None


@mutant(
    "epsworth.space.Feature.from_unit",
    claim="no released number lies outside its declared range",
    test="tests/ground/test_space.py::test_no_value_of_a_range_is_an_ulp_outside_it",
)
def values_beyond_the_upper_end(original):
    def from_unit(self, unit, *, points=None):
        found = original(self, unit, points=points)
        return np.where(found == self.upper, np.nextafter(self.upper, np.inf), found)

    return from_unit


SILENT = "no message about a table shows a value of it, whichever library meets it"


@mutant(
    "epsworth.space.Feature.to_unit",
    claim=SILENT,
    test="tests/ground/test_space.py::test_refusals_of_records_show_no_private_value",
)
def refusals_show_the_value(original):
    def to_unit(self, values):
        try:
            return original(self, values)
        except ValueError as error:
            raise ValueError(f"{error} (got {values})") from None

    return to_unit


@mutant(
    "epsworth.release.withheld.values_withheld",
    claim=SILENT,
    test="tests/release/test_withheld.py::test_no_message_quotes_a_value_of_a_table",
)
def accidents_are_told_in_full(original):
    return lambda what: contextlib.nullcontext()


@mutant(
    "epsworth.records.shown_names",
    claim="a list of a table's columns shows no record's values",
    test="tests/ground/test_headers.py::test_refusals_show_no_value_of_a_table_without_header",
)
def first_rows_shown_as_names(original):
    return lambda names: f"the table's columns are {', '.join(map(str, names))}"


@mutant(
    "epsworth.refusals.alone",
    claim="no error of a door carries another one, whose words could show a value",
    test="tests/release/test_nothing_behind_errors.py::test_errors_of_tables_carry_no_other",
)
def errors_carry_their_causes(original):
    @contextlib.contextmanager
    def alone():
        yield

    return alone


@mutant(
    "epsworth.release.json_lines._unique_names",
    claim="a text that two readers could take differently is refused",
    test="tests/release/test_json_lines.py::test_lines_with_two_readings_are_refused",
)
def last_of_two_members_counts(original):
    import json

    return json.JSONDecoder(parse_int=original.parse_int)


@mutant(
    "epsworth.release.gate._quoted",
    claim="a text that two readers could take differently is refused",
    test="tests/release/test_gate.py::test_what_breaks_the_grammar_is_refused_by_its_row_without_a_value",
)
def quotes_are_not_checked(original):
    return lambda block, width: True


@mutant(
    "epsworth.release.confirming.confirmed",
    claim="another reader must find the very words that were written",
    test="tests/release/test_file_tables.py::test_another_reader_must_find_what_was_written",
)
def nobody_reads_what_was_written(original):
    return lambda out, rows, written: True


@mutant(
    "epsworth.release.file_tables.keyed",
    claim="what is drawn from is what was checked and charged",
    test="tests/release/test_file_tables.py::test_a_file_that_changes_between_its_readings_is_not_drawn",
)
def digests_of_nothing(original):
    return lambda key, content: original(key, b"")


@mutant(
    "epsworth.files._same_file",
    claim="no output of a run takes the place of its input, policy, receipt or ledger",
    test="tests/release/test_doors.py::test_no_output_takes_the_place_of_another_file",
)
def files_compared_by_their_names(original):
    return lambda one, other: one == other


# ---- tailored policies


@mutant(
    "epsworth.exact.regions.RegionKernel.prove",
    claim="a tailored policy that is loaded is proven again",
    test=f"{TAILORING}::test_loading_proves_everything_again",
)
def stored_kernels_believed(original):
    return lambda self: None


@mutant(
    "epsworth.release.randomisers.folded",
    claim="whatever a record holds, a tailored policy can send the same, with probabilities within e^epsilon",
    test=f"{TAILORING}::test_all_that_can_be_sent_keeps_epsilon",
)
def weights_out_of_reach_spread_over_the_rest(original):
    def folded(kernel, present, instead):
        rows = []
        for region in present:
            row = [kernel.weights(region)[other] for other in present]
            rest = [weight * 2**64 // sum(row) for weight in row[1:]]
            rows.append((2**64 - sum(rest), *rest))
        return tuple(rows)

    return folded


@mutant(
    "epsworth.release.randomisers.Randomiser._response",
    claim="randomised response between regions is built anew for those within reach",
    test=f"{TAILORING}::test_randomised_response_is_built_anew_for_what_is_within_reach",
)
def response_between_two_regions(original):
    def response(self, regions):
        found = original(self, regions)
        return original(self, regions[:2]) if len(regions) > 2 else found

    return response


@mutant(
    "epsworth.release.tailoring.Tailoring.released",
    claim="what is within reach is worked out from released values, never from true ones",
    test=f"{TAILORING}::test_draws_under_rules_follow_the_outcomes",
)
def reach_of_the_true_values(original):
    return lambda self, true, seen, words=None: original(self, true, true, words)


@mutant(
    "epsworth.release.tailoring._uniform",
    claim="a record that stands for a drawn region is any of those within reach, all equally likely",
    test=f"{TAILORING}::test_uniform_draws_reject_what_would_favour_the_first",
)
def words_beyond_the_last_multiple_count(original):
    def uniform(count, size, words):
        from epsworth.exact.entropy import SystemWords

        source = SystemWords() if words is None else words
        return (source.take(size) % np.uint64(count)).astype(np.int64)

    return uniform


@mutant(
    "epsworth.release.policy.Policy.guarantee",
    claim="a tailored release is charged its whole epsilon, even where one region alone is within reach",
    test=f"{TAILORED_DOORS}::test_the_ledger_adds_the_region_s_epsilon_even_where_one_alone_is_within_reach",
)
def regions_cost_nothing(original):
    def guarantee(self):
        found = original(self)
        cost = 0.0 if self.tailoring is None else self.tailoring.randomiser.loss
        return dataclasses.replace(found, epsilon=max(0.0, found.epsilon - cost))

    return guarantee


@mutant(
    "epsworth.release.json_table.JsonRecords._anew",
    claim="objects and tables look the same whatever their sensitive columns held",
    test=f"{TAILORED_DOORS}::test_json_lines_look_the_same",
)
def sensitive_members_keep_their_place(original):
    def anew(self, found, new):
        sensitive, self.sensitive = self.sensitive, ()
        try:
            return original(self, found, new)
        finally:
            self.sensitive = sensitive

    return anew
