"""What `perturb` lets out of tables and files, and what its messages show."""

from __future__ import annotations

import contextlib
import dataclasses

from planting import mutant

PASSED = "tests/policy/test_passed.py"
PERTURB = "tests/policy/test_perturb.py"
POLICY = "tests/policy/test_policy.py"
VERIFIED = "tests/policy/test_verified.py"
UNUSED = "tests/policy/test_unused_categories.py"
TAILORING = "tests/policy/test_tailoring.py"
TAILORED_DOORS = "tests/policy/test_tailored_doors.py"


@mutant(
    "epsworth.policy.policy._shares",
    claim="an epsilon is of a record unless said to be of every feature",
    test="tests/policy/test_policy.py::test_an_epsilon_is_of_a_record_unless_a_word_says_otherwise",
)
def every_feature_has_the_epsilon(original):
    return lambda epsilon, features, per, sample: original(epsilon, features, "feature", sample)


@mutant(
    "epsworth.policy.policy.Policy.total",
    claim="a policy's total covers any features released together",
    test=f"{POLICY}::test_the_promise_is_at_most_the_stated_total",
)
def total_of_the_cheapest_features(original):
    from epsworth.numerals import exact_sum

    return lambda self: exact_sum(sorted(rule.epsilon for rule in self.rules)[: self.released])


@mutant(
    "epsworth.policy.passed.Pass.kept",
    claim="no column leaves that the policy does not name",
    test=f"{PASSED}::test_what_stays_is_what_is_perturbed_or_passed",
)
def undeclared_columns_pass(original):
    return lambda self, names, perturbed: [name for name in names if name not in self.drop]


@mutant(
    "epsworth.policy.beside.without_notes",
    claim="no note of an input, no unused category travels with a table",
    test=f"{PERTURB}::test_notes_of_columns_do_not_travel_with_a_table",
)
def notes_travel(original):
    return lambda table: table


@mutant(
    "epsworth.policy.columns.without_unused",
    claim="no note of an input, no unused category travels with a table",
    test=f"{UNUSED}::test_what_no_row_holds_does_not_leave",
)
def unused_categories_leave(original):
    return lambda names, frame: frame


@mutant(
    "epsworth.values.spelt_number",
    claim="one record gives at most one draw per rule",
    test=f"{PERTURB}::test_a_record_gives_one_value_per_rule_or_is_refused",
)
def lists_of_values_are_drawn_for(original):
    return lambda value: 0.0 if isinstance(value, list) else original(value)


@mutant(
    "epsworth.policy.files.outputs.check_released",
    claim="no value leaves that is not in the policy's public table",
    test=f"{VERIFIED}::test_what_is_not_public_never_leaves",
)
def released_values_unchecked(original):
    return lambda column, drawn, keep, policy, released: None


@mutant(
    "epsworth.policy.tables.check_unmasked",
    claim="masked values are not perturbed or passed in the open",
    test=f"{PERTURB}::test_the_transformer_refuses_what_an_array_would_lose",
)
def masked_values_pass(original):
    return lambda table: None


@mutant(
    "epsworth.space.Feature.to_unit",
    claim="no message shows a table's value, or carries an error that could",
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
    "epsworth.policy.columns.values_withheld",
    claim="no message shows a table's value, or carries an error that could",
    test="tests/policy/test_withheld.py::test_an_accident_while_a_table_is_read_is_told_by_its_kind",
)
def accidents_are_told_in_full(original):
    return lambda what: contextlib.nullcontext()


@mutant(
    "epsworth.refusals.alone",
    claim="no message shows a table's value, or carries an error that could",
    test="tests/policy/test_nothing_behind_errors.py::test_errors_of_tables_carry_no_other",
)
def errors_carry_their_causes(original):
    @contextlib.contextmanager
    def alone():
        yield

    return alone


@mutant(
    "epsworth.policy.files.json_table._members",
    claim="a text with two readings is refused",
    test="tests/policy/test_json_lines.py::test_lines_with_two_readings_are_refused",
)
def last_of_two_members_counts(original):
    return lambda line, row: list({member[0]: member for member in original(line, row)}.values())


@mutant(
    "epsworth.policy.files.file_tables.keyed",
    claim="what is drawn from is what was checked and charged",
    test="tests/policy/test_file_tables.py::test_a_file_that_changes_between_its_readings_is_not_drawn",
)
def digests_of_nothing(original):
    return lambda key, content: original(key, b"")


@mutant(
    "epsworth.files._same_file",
    claim="no output replaces an input, policy, receipt or ledger file",
    test="tests/policy/test_doors.py::test_no_output_takes_the_place_of_another_file",
)
def files_compared_by_their_names(original):
    return lambda one, other: one == other


# ---- tailored policies


@mutant(
    "epsworth.mechanisms.regions.RegionKernel.prove",
    claim="a tailored policy is proven again when loaded",
    test=f"{TAILORING}::test_loading_proves_everything_again",
)
def stored_kernels_believed(original):
    return lambda self: None


@mutant(
    "epsworth.tailored.randomisers.folded",
    claim="whatever a record holds, a tailored policy can send the same, with probabilities within e^ε",
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
    "epsworth.tailored.mechanism.Tailoring.released",
    claim="reach is computed from released values, never true ones",
    test=f"{TAILORING}::test_draws_under_rules_follow_the_outcomes",
)
def reach_of_the_true_values(original):
    return lambda self, true, seen, words=None: original(self, true, true, words)


@mutant(
    "epsworth.policy.policy.Policy.guarantee",
    claim="a tailored release is charged its whole ε, even with one region in reach",
    test=f"{TAILORED_DOORS}::test_the_ledger_adds_the_region_s_epsilon_even_where_one_alone_is_within_reach",
)
def regions_cost_nothing(original):
    def guarantee(self):
        found = original(self)
        cost = 0.0 if self.tailoring is None else self.tailoring.randomiser.loss
        return dataclasses.replace(found, epsilon=max(0.0, found.epsilon - cost))

    return guarantee


@mutant(
    "epsworth.policy.files.json_table.JsonRecords._passing",
    claim="objects look the same whatever their sensitive members held",
    test=f"{TAILORED_DOORS}::test_json_lines_look_the_same",
)
def sensitive_members_keep_their_place(original):
    return lambda self, names, row: [*original(self, names, row), *(n for n in names if n in self.perturbation.columns)]


SENSITIVE = "tests/policy/test_sensitive_values.py"


@mutant(
    "epsworth.policy.files.json_lines.rewritten",
    claim="files tell nothing but released and passing values",
    test=f"{SENSITIVE}::test_json_lines_tell_nothing_more",
)
def passing_texts_keep_their_form(original):
    return lambda text: text


@mutant(
    "epsworth.policy.tables.Perturbation._series",
    claim="types of what leaves are the policy's, or those of passing columns",
    test=f"{SENSITIVE}::test_frames_of_any_type_tell_nothing_more",
)
def whole_numbers_keep_the_table_s_width(original):
    def series(self, column, drawn, keep, frame):
        found, before = original(self, column, drawn, keep, frame), frame.get_column(column.feature.name)
        return found.cast(before.dtype) if found.dtype.is_integer() and before.dtype.is_integer() else found

    return series


@mutant(
    "epsworth.policy.columns.passing",
    claim="types of what leaves are the policy's, or those of passing columns",
    test=f"{SENSITIVE}::test_arrays_tell_nothing_more",
)
def arrays_keep_their_type(original):
    return lambda column: column


@mutant(
    "epsworth.values.is_missing",
    claim="where the policy declares a substitute, no value is refused or warned of",
    test=f"{SENSITIVE}::test_frames_of_objects_tell_nothing_more",
)
def values_are_asked_what_they_are(original):
    return lambda value: value is None or bool(value != value)


@mutant(
    "epsworth.values.number",
    claim="where the policy declares a substitute, no value is refused or warned of",
    test="tests/gateway/test_gateway_requests.py::test_no_value_is_refused_that_has_a_substitute",
)
def only_numbers_are_read(original):
    return float


@mutant(
    "epsworth.values.Categories.read",
    claim="a declared category is that category everywhere, however spelt",
    test="tests/ground/test_tables.py::test_a_declared_category_is_one_however_it_is_spelt",
)
def gaps_come_before_categories(original):
    return lambda self, text: None if text in ("NA", "null", "") else original(self, text)


@mutant(
    "epsworth.values.spelt_number",
    claim="no entry point takes for a number what is none, or shows a value",
    test="tests/ground/test_tables.py::test_what_is_no_number_is_none_at_any_door",
)
def texts_are_what_python_makes_of_them(original):
    def spelt_number(value):
        try:
            return float(value)
        except (TypeError, ValueError):
            return original(value)

    return spelt_number
