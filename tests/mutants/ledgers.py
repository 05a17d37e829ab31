"""The ledger: charged before anything leaves, exactly once, and never beyond a cap."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from fractions import Fraction

import numpy as np
from planting import mutant

STORE = "tests/policy/test_ledger_store.py"
CHARGES = "tests/policy/test_charges.py"
MANY = "tests/policy/test_many_files.py"


@mutant(
    "epsworth.policy.files.outputs.on_disk",
    claim="an output file is whole and on the disk before it has its name, or absent",
    test=f"{CHARGES}::test_nothing_moves_before_it_is_on_the_disk",
)
def outputs_not_written_through(original):
    return lambda path: None


@mutant(
    "epsworth.policy.files.csv_table.CsvRecords._inputs",
    claim="nothing is charged or leaves for a table that is refused",
    test=f"{CHARGES}::test_nothing_is_charged_for_a_table_that_is_refused",
)
def records_unchecked_before_the_charge(original):
    def inputs(self, table, first):
        return dict.fromkeys(self.perturbation.ruled, np.zeros(len(table.frame), dtype=np.int64)), {}

    return inputs


@mutant(
    "epsworth.policy.ledger.Ledger.begin",
    claim="the same records leave once under one policy, unless told",
    test="tests/policy/test_streams.py::test_the_same_records_are_refused_unless_told",
)
def always_told_again(original):
    def begin(self, request, identity, counts=None):
        terms = dataclasses.replace(request.terms, again=True)
        return original(self, dataclasses.replace(request, terms=terms), identity, counts)

    return begin


@mutant(
    "epsworth.policy.ledger.Ledger._known",
    claim="a killed run goes on under its key and is charged once",
    test=f"{STORE}::test_a_run_goes_on_under_its_key_until_it_is_done",
)
def every_start_is_charged_anew(original):
    return lambda self, entry, cost, again: "new"


@mutant(
    "epsworth.policy.files.outputs.is_there",
    claim="a run asked again is done only if its output is what it wrote",
    test=f"{CHARGES}::test_the_same_run_asked_again_is_done",
)
def any_file_is_the_output(original):
    return lambda path, sha256: path is not None and path.is_file()


@mutant(
    "epsworth.policy.ledger.costs.amount_above",
    claim="ledger amounts are rounded up, caps down",
    test=f"{STORE}::test_amounts_round_up_and_caps_down",
)
def amounts_rounded_down(original):
    from epsworth.policy.ledger.costs import ONE

    return lambda name, value: math.floor(Fraction(value) * ONE)


@mutant(
    "epsworth.policy.ledger.costs.amount_below",
    claim="ledger amounts are rounded up, caps down",
    test=f"{STORE}::test_amounts_round_up_and_caps_down",
)
def caps_rounded_up(original):
    from epsworth.policy.ledger.costs import ONE

    return lambda name, value: math.ceil(Fraction(str(value)) * ONE)


@mutant(
    "epsworth.policy.ledger.costs.CapCheck.add",
    claim="no run takes a person, or everybody, beyond a cap",
    test=f"{STORE}::test_units_that_would_exceed_are_counted_and_not_named",
)
def runs_of_before_forgotten(original):
    return lambda self, sums, rows=None: original(
        self, sums if rows is None else rows[:, None] * np.array(self.cost.price, np.uint64), rows
    )


@mutant(
    "epsworth.policy.ledger.costs.RunCost.of_everybody",
    claim="no run takes a person, or everybody, beyond a cap",
    test=f"{CHARGES}::test_without_a_unit_everybody_is_charged_for_every_row",
)
def everybody_has_one_row(original):
    return lambda self: original(dataclasses.replace(self, most=1))


@mutant(
    "epsworth.policy.ledger.costs.LedgerConfig.agreed",
    claim="a ledger's caps stay as first stated",
    test=f"{STORE}::test_column_and_caps_are_fixed_once_stated",
)
def caps_can_be_raised(original):
    return lambda self, request: original(type(self)(), request)


@mutant(
    "epsworth.policy.ledger.people.RowCounts.sorted",
    claim="a person is charged for each row, in any order, file and format",
    test=f"{CHARGES}::test_a_person_pays_for_each_of_its_rows_in_any_file_order_and_format",
)
def rows_of_a_person_count_once(original):
    return lambda self: (original(self)[0], original(self)[1] ** 0)


@mutant(
    "epsworth.policy.ledger.ids.refusal",
    claim="a person has no second spelling in digits, signs, forms or invisible characters",
    test="tests/policy/test_units.py::test_one_unit_has_no_second_spelling",
)
def other_spellings_are_other_people(original):
    return lambda text: None


@mutant(
    "epsworth.policy.ledger.ids.BLANK",
    claim="a person has no second spelling in digits, signs, forms or invisible characters",
    test="tests/policy/test_units.py::test_no_character_of_the_kind_that_shows_nothing_names_anybody",
)
def printable_characters_are_seen(original):
    return re.compile("[\u200b-\u200f\ufeff]")


@mutant(
    "epsworth.gateway.inference.people_of",
    claim="a person has no second spelling in digits, signs, forms or invisible characters",
    test="tests/gateway/test_gateway_people.py::test_a_person_has_no_second_spelling",
)
def any_text_is_a_person(original):
    return lambda values, settings: None if settings.person is None else list(map(str, values[settings.person]))


@mutant(
    "epsworth.policy.ledger.store._check_of",
    claim="a ledger's database and key that do not belong together are refused",
    test=f"{STORE}::test_files_that_do_not_belong_together_are_refused",
)
def any_key_opens(original):
    return lambda key: bytes(32)


@mutant(
    "epsworth.policy.ledger.store.Store._check_whole",
    claim="a ledger's database and key that do not belong together are refused",
    test=f"{STORE}::test_what_was_lost_or_altered_is_refused[ledger.sqlite3 cut]",
)
def databases_without_their_end(original):
    return lambda self, database: None


@mutant(
    "epsworth.policy.ledger.store.LedgerEntry.linked",
    claim="a head tells whether a ledger begins with exactly its runs",
    test=f"{STORE}::test_a_head_notices_what_the_owner_edits",
)
def heads_of_names_alone(original):
    return lambda self, before: hashlib.sha256(before + self.id).digest()


@mutant(
    "epsworth.policy.ledger.store.LedgerEntry.linked",
    claim="a head tells whether a ledger begins with exactly its runs",
    test=f"{STORE}::test_a_head_notices_an_older_copy_and_another_past",
)
def heads_that_forget_the_name_of_a_run(original):
    return lambda self, before: original(self._replace(id=b""), before)


@mutant(
    "epsworth.policy.ledger.people.everyone",
    claim="a head tells whether a ledger begins with exactly its runs",
    test=f"{STORE}::test_sums_that_were_overwritten_are_noticed_by_the_check_of_a_head",
)
def sums_taken_as_they_are(original):
    return lambda database: iter([np.array([[10**12, 0]], np.uint64)])  # what the runs of the test add up to


@mutant(
    "epsworth.policy.ledger.store.Tables.newest",
    claim="a run reads no earlier runs but those of the same records",
    test=f"{STORE}::test_one_more_run_reads_none_of_those_before_it",
)
def the_newest_of_all_that_are_read(original):
    return lambda self: (self.entries(), original(self))[1]


@mutant(
    "epsworth.policy.ledger.store.Store.check_apart",
    claim="no output replaces an input, policy, receipt or ledger file",
    test=f"{STORE}::test_no_output_has_a_name_of_the_ledgers_in_its_folder",
)
def outputs_may_be_the_ledger(original):
    return lambda self, what, path: None


@mutant(
    "epsworth.policy.files.workers.Secret.__repr__",
    claim="workers' tasks show no key, their failures no value",
    test=f"{MANY}::test_tasks_and_results_show_no_key_and_no_value",
)
def keys_are_shown(original):
    return lambda self: f"Secret({self.bytes!r})"


@mutant(
    "epsworth.policy.files.workers._told",
    claim="workers' tasks show no key, their failures no value",
    test=f"{MANY}::test_tasks_and_results_show_no_key_and_no_value",
)
def failures_in_their_own_words(original):
    return lambda error: f"{original(error)}: {error}"
