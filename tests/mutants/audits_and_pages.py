"""Audits of releases, files of others, studies, and the pages that show results."""

from __future__ import annotations

import contextlib
import dataclasses
from fractions import Fraction

import numpy as np
from planting import mutant

AUDIT = "tests/release/test_audit.py"
AUDIT_DOORS = "tests/release/test_audit_doors.py"
AUDIT_WORDS = "tests/release/test_audit_words.py"
FOREIGN = "tests/reports/test_foreign_files.py"

READ = "if an audit passes, the weights that were read keep the stated epsilon exactly, and delta where stated"


@mutant("epsworth.release.audit_rows.log_above", claim=READ, test=f"{AUDIT}::test_two_ways_to_the_loss_agree")
def losses_read_too_small(original):
    return lambda numerator, denominator: original(numerator, denominator) * (1 - Fraction(1, 10**60))


@mutant(
    "epsworth.release.audit_rows.Rows.delta",
    claim=READ,
    test=f"{AUDIT}::test_the_delta_that_is_needed_is_rounded_up_beyond_120_digits",
)
def deltas_read_too_small(original):
    return lambda self, epsilon: original(self, epsilon) * (1 - Fraction(1, 10**90))


@mutant(
    "epsworth.release.audit._total",
    claim="an audit's total of a record covers whatever is released together",
    test=f"{AUDIT}::test_a_record_quoted_below_its_sum_is_caught",
)
def totals_believed(original):
    return lambda policy: dataclasses.replace(original(policy), passed=True)


REFUTES = "an audit of draws refutes a kept epsilon with at most the probability asked for"


@mutant(
    "epsworth.release.black_box._bound",
    claim=REFUTES,
    test=f"{AUDIT}::test_every_bound_is_that_of_sixty_digits_at_its_share_of_the_miss",
)
def deltas_of_samplers_forgotten(original):
    return lambda hits_a, hits_b, draws, delta, miss: original(hits_a, hits_b, draws, 0.0, miss)


@mutant(
    "epsworth.release.black_box.LOG_ULPS",
    claim=REFUTES,
    test=f"{AUDIT}::test_log_ratios_are_rounded_down_whatever_the_logarithms_error",
)
def logarithms_of_ratios_to_nearest(original):
    return 0


@mutant(
    "epsworth.release.drawn.words",
    claim="an audit tells apart outputs that differ in any bit",
    test=f"{AUDIT}::test_samplers_that_tell_their_input_in_some_bit_are_found",
)
def outputs_compared_as_numbers(original):
    return lambda outputs: np.asarray(outputs)


@mutant(
    "epsworth.release.audit_repeats.digest",
    claim="an audit finds words that come twice, from few seeds or after a fork",
    test=f"{AUDIT_DOORS}::test_few_seeds_of_every_column_are_found_though_the_whole_never_repeats",
)
def repeats_are_never_seen(original):
    import os

    return lambda drawn: os.urandom(16)


@mutant(
    "epsworth.release.audit_raw.values_of",
    claim="an audit finds a value that a door draws for in a way of its own",
    test=f"{AUDIT_DOORS}::test_a_value_that_a_door_draws_for_in_its_own_way_is_found",
)
def audits_of_usual_values(original):
    def values_of(rule, rows, pick):
        if rule.feature.categories is not None:
            return [rule.feature.categories[0]] * len(original(rule, rows, pick))
        return [rule.feature.lower] * len(original(rule, rows, pick))

    return values_of


@mutant(
    "epsworth.release.serial._limits",
    claim="draws that depend on one another are found, independent ones with at most the stated chance",
    test=f"{AUDIT_WORDS}::test_the_limit_is_paid_for_by_the_risk",
)
def limits_that_nothing_exceeds(original):
    return lambda series, exponent: original(series, exponent / 4)


# ---- models and files of others


@mutant(
    "epsworth.classifiers.harmless.doubtful",
    claim="nothing in a model file that is loaded without trust is called",
    test="tests/classifiers/test_harmless.py::test_listed_types_are_not_called",
)
def everything_is_harmless(original):
    return lambda *given, **options: type(original(*given, **options))()


@mutant(
    "epsworth.classifiers.walkable._check_nodes",
    claim="trees of a model file lead to nodes, features and records that there are",
    test="tests/classifiers/test_harmless.py::test_trees_that_lead_out_of_themselves_are_refused",
)
def trees_may_lead_anywhere(original):
    return lambda *given, **options: None


@mutant(
    "epsworth.classifiers.service.asking.Service._check_budget",
    claim="no more records are sent to a service than its budget",
    test="tests/classifiers/test_service.py::test_a_budget_is_never_exceeded",
)
def budgets_of_services_forgotten(original):
    return lambda self, n: None


@mutant(
    "epsworth.studies.read_files.check_unchanged",
    claim="a study's result tells the hashes of what was read, or there is none",
    test="tests/studies/test_study_results.py::test_a_file_that_changes_while_it_is_read_is_refused",
)
def files_may_change_while_they_are_read(original):
    return lambda before, files: None


@mutant(
    "epsworth.studies.running.model_of_file",
    claim="a study runs no code of a model file and sends no record by itself",
    test="tests/studies/test_study_results.py::test_a_study_runs_no_code_and_sends_no_record_by_itself",
)
def studies_trust_their_models(original):
    return lambda path, trust: original(path, True)


# ---- pages

PAGE = "every number on a page is the result's, rounded to the safe side"


@mutant(
    "epsworth.reports.numbers.units",
    claim=PAGE,
    test="tests/reports/test_utility_page.py::test_every_number_is_the_results_rounded_to_the_safe_side[few]",
)
def numbers_of_pages_upwards(original):
    return lambda values, digits, *, upwards: original(values, digits, upwards=True)


@mutant(
    "epsworth.reports.noise_page.show_up",
    claim=PAGE,
    test="tests/reports/test_noise_page.py::test_every_number_is_the_rankings_on_the_safe_side",
)
def epsilons_of_noise_to_nearest(original):
    return lambda value, significant=6: f"{value:.3g}"


@mutant(
    "epsworth.reports.plain.share_up",
    claim=PAGE,
    test="tests/reports/test_policy_page.py::test_a_policys_promise_is_never_understated",
)
def shares_of_pages_down(original):
    from epsworth.reports.plain import share_down

    return lambda value, significant=4: share_down(value, significant)


@mutant(
    "epsworth.reports.sentences.observed",
    claim="what an observer may know, from any prior, is never understated on a page",
    test="tests/reports/test_utility_page.py::test_an_observer_is_never_said_to_know_less",
)
def observers_without_delta(original):
    return lambda total, delta, prior: original(total, 0.0, prior)


@mutant(
    "epsworth.reports.escaping.escaped",
    claim="what a file holds stays text on its page",
    test="tests/reports/test_page.py::test_hostile_names_labels_and_notes_are_shown_and_do_nothing",
)
def names_are_markup(original):
    import html

    return lambda *given: html.unescape(original(*given))


@mutant(
    "epsworth.reports.learnt_page._kinds",
    claim="a map of what was learnt fills those cells alone whose label is certified",
    test="tests/reports/test_learner_pages.py::test_what_is_not_certified_is_never_drawn_as_if_it_were",
)
def open_cells_are_filled(original):
    def kinds(held, labels):
        from epsworth.reports.learnt_page import FILLED, UNSURE

        return [FILLED if kind == UNSURE else kind for kind in original(held, labels)]

    return kinds


@mutant(
    "epsworth.reports.noise_page._check",
    claim="a page made of others' numbers refuses promises below what their numbers admit",
    test=f"{FOREIGN}::test_rows_answer_their_question",
)
def rows_of_noise_believed(original):
    return lambda held, rows: None


@mutant(
    "epsworth.reports.coverage_sums._least",
    claim="a page made of others' numbers refuses promises below what their numbers admit",
    test=f"{FOREIGN}::test_a_window_agrees_with_its_law",
)
def advantages_of_rows_believed(original):
    return lambda told, law, distances, name: None


@mutant(
    "epsworth.reports.pac_page._check",
    claim="a page made of others' numbers refuses promises below what their numbers admit",
    test=f"{FOREIGN}::test_promises_below_what_their_numbers_admit_are_refused",
)
def chances_of_others_believed(original):
    return lambda held, report: None


@mutant(
    "epsworth.reports.parts._without_folder",
    claim="a page's command names files without their folders",
    test="tests/reports/test_utility_page.py::test_files_stand_in_a_pages_command_without_their_folders",
)
def folders_are_shown(original):
    return lambda token: token


@mutant(
    "epsworth.reproduce.items.judged",
    claim="no statement of a paper is said to hold without a number of ours and a check that is true or false",
    test="tests/reproduce/test_catalogue.py::test_no_verdict_without_a_number_and_a_check",
)
def anything_true_is_a_check(original):
    return lambda check, **given: original(bool(check), **given)


@mutant(
    "epsworth.extras.needed",
    claim="where a package of an extra is missing, one sentence says how it is installed",
    test="tests/ground/test_extras.py::test_a_missing_package_is_one_sentence_with_the_command",
)
def missing_packages_raise_their_own_error(original):
    from importlib import import_module

    return lambda module, extra, why: import_module(module)


@mutant(
    "epsworth.files.replacing",
    claim="an output file is whole or absent",
    test="tests/ground/test_files.py::test_an_error_leaves_the_old_file_and_nothing_else",
)
def files_are_written_in_place(original):
    @contextlib.contextmanager
    def replacing(path, *given, **options):
        yield path

    return replacing
