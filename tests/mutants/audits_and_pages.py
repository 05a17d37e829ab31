"""Audits of releases, files of others, studies, and the pages that show results."""

from __future__ import annotations

import contextlib
import dataclasses
from fractions import Fraction

import numpy as np
from planting import mutant

AUDIT = "tests/policy/test_audit.py"
AUDIT_DOORS = "tests/policy/test_audit_doors.py"
FOREIGN = "tests/report/test_foreign_files.py"


@mutant(
    "epsworth.policy.audit.words.log_above",
    claim="if an audit passes, the weights read keep the stated ε, and its total covers what is released together",
    test=f"{AUDIT}::test_two_ways_to_the_loss_agree",
)
def losses_read_too_small(original):
    return lambda numerator, denominator: original(numerator, denominator) * (1 - Fraction(1, 10**60))


@mutant(
    "epsworth.policy.audit.policy_audit._total",
    claim="if an audit passes, the weights read keep the stated ε, and its total covers what is released together",
    test=f"{AUDIT}::test_a_record_quoted_below_its_sum_is_caught",
)
def totals_believed(original):
    return lambda policy: dataclasses.replace(original(policy), passed=True)


@mutant(
    "epsworth.policy.audit.black_box._bound",
    claim="an audit of draws refutes a kept ε at most as often as asked",
    test=f"{AUDIT}::test_every_bound_is_that_of_sixty_digits_at_its_share_of_the_miss",
)
def deltas_of_samplers_forgotten(original):
    return lambda hits_a, hits_b, draws, delta, miss: original(hits_a, hits_b, draws, 0.0, miss)


@mutant(
    "epsworth.policy.audit.black_box.words",
    claim="an audit tells apart outputs that differ in any bit",
    test=f"{AUDIT}::test_samplers_that_tell_their_input_in_some_bit_are_found",
)
def outputs_compared_as_numbers(original):
    return lambda outputs: np.asarray(outputs)


@mutant(
    "epsworth.policy.audit.cases.digest",
    claim="an audit finds draws of few seeds in any column",
    test=f"{AUDIT_DOORS}::test_few_seeds_of_every_column_are_found_though_the_whole_never_repeats",
)
def repeats_are_never_seen(original):
    import os

    return lambda drawn: os.urandom(16)


@mutant(
    "epsworth.policy.audit.cases.values_of",
    claim="an audit finds a value that an entry point treats specially",
    test=f"{AUDIT_DOORS}::test_a_value_that_a_door_draws_for_in_its_own_way_is_found",
)
def audits_of_usual_values(original):
    def values_of(rule, rows, pick):
        if rule.feature.categories is not None:
            return [rule.feature.categories[0]] * len(original(rule, rows, pick))
        return [rule.feature.lower] * len(original(rule, rows, pick))

    return values_of


# ---- models and files of others


@mutant(
    "epsworth.classifiers.model_files.doubtful",
    claim="nothing in a model file loaded without trust is called",
    test="tests/classifiers/test_file_safety.py::test_listed_types_are_not_called",
)
def everything_is_harmless(original):
    return lambda *given, **options: type(original(*given, **options))()


@mutant(
    "epsworth.inputs.model_of_file",
    claim="a study runs no code of a model file by itself",
    test="tests/study/test_study_results.py::test_a_study_runs_no_code_and_sends_no_record_by_itself",
)
def studies_trust_their_models(original):
    return lambda path, trust: original(path, True)


# ---- pages


@mutant(
    "epsworth.report.text.units",
    claim="every number on a page is the result's, rounded to the safe side",
    test="tests/report/test_utility_page.py::test_every_number_is_the_results_rounded_to_the_safe_side[few]",
)
def numbers_of_pages_upwards(original):
    return lambda values, digits, *, upwards: original(values, digits, upwards=True)


@mutant(
    "epsworth.report.text.share_up",
    claim="every number on a page is the result's, rounded to the safe side",
    test="tests/report/test_policy_page.py::test_a_policys_promise_is_never_understated",
)
def shares_of_pages_down(original):
    from epsworth.report.text import share_down

    return share_down


@mutant(
    "epsworth.report.blocks.decision",
    claim="a quantity has the same digits wherever it stands on a page",
    test="tests/report/test_one_number.py::test_a_quantity_has_the_same_digits_wherever_it_stands[privatize]",
)
def facts_with_more_digits(original):
    def decision(sentence, facts, *given, **more):
        told = [(value.replace("%", "").strip() + "01 %" * ("%" in value), *rest) for value, *rest in facts]
        return original(sentence, told, *given, **more)

    return decision


@mutant(
    "epsworth.report.text.observed",
    claim="a page never understates what an attacker may know",
    test="tests/report/test_utility_page.py::test_an_observer_is_never_said_to_know_less",
)
def observers_without_delta(original):
    return lambda total, delta, prior: original(total, 0.0, prior)


@mutant(
    "epsworth.report.text.escaped",
    claim="what a file holds stays text on its page",
    test="tests/report/test_page.py::test_hostile_names_labels_and_notes_are_shown_and_do_nothing",
)
def names_are_markup(original):
    import html

    from markupsafe import Markup

    return lambda *given: Markup(html.unescape(str(original(*given))))


@mutant(
    "epsworth.report.learned.kinds_of",
    claim="a map of what was learnt fills certified cells alone",
    test="tests/report/test_learner_pages.py::test_what_is_not_certified_is_never_drawn_as_if_it_were",
)
def open_cells_are_filled(original):
    from epsworth.report.charts import FILLED, UNSURE

    return lambda held: [FILLED if kind == UNSURE else kind for kind in original(held)]


@mutant(
    "epsworth.files.replacing",
    claim="an output file is whole and on the disk before it has its name, or absent",
    test="tests/ground/test_files.py::test_an_error_leaves_the_old_file_and_nothing_else",
)
def files_are_written_in_place(original):
    @contextlib.contextmanager
    def replacing(path, *given, **options):
        yield path

    return replacing
