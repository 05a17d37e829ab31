"""PAC privacy: calibrated noise, budgets, ledgers, servers and their journals."""

from __future__ import annotations

import dataclasses

import numpy as np
from planting import mutant

NOISE = "tests/pac/test_noise.py"
CERTIFICATE = "tests/pac/test_certificate.py"
ROUNDED = "tests/pac/test_pac_rounding.py"
RESPONSES = "tests/pac/test_responses.py"
RESPONDER = "tests/pac/test_responder.py"
JOURNAL = "tests/pac/test_journal.py"
RECORDS = "tests/pac/test_records.py"
SECRETS = "tests/pac/test_secrets.py"
FIND = "tests/pac/test_find_budget.py"


@mutant(
    "epsworth.pac.calibration.enough",
    claim="a PAC release from a list of worlds keeps its mutual information within the budget",
    test="tests/pac/test_privatizer.py::test_truth_never_exceeds_the_promise",
)
def noise_for_half_the_variance(original):
    return lambda spread, steps, mi: original(0.5 * spread, steps, mi)


@mutant(
    "epsworth.pac.allocation.BOUND_ULPS",
    claim="computed bounds on mutual information are never below exact ones",
    test=f"{ROUNDED}::test_a_gaussian_bound_is_never_below_the_truth",
)
def bounds_on_information_to_nearest(original):
    return 0


@mutant(
    "epsworth.pac.conversion._first_above",
    claim="chances that follow from a budget are never below the truth",
    test="tests/pac/test_conversion.py::test_a_posterior_is_the_next_double_above_the_truth",
)
def chances_rounded_down(original):
    return lambda exceeds, low, high: float(np.nextafter(original(exceeds, low, high), 0))


@mutant(
    "epsworth.pac.allocation.NODES",
    claim="noise for release is an integer table of the rounded Gaussian",
    test=f"{NOISE}::test_the_table_is_the_rounded_gaussian",
)
def cells_of_half_the_width(original):
    return original / 2


@mutant(
    "epsworth.pac.certificate.betting_upper",
    claim="a certificate holds with the confidence asked for, over the simulation",
    test=f"{CERTIFICATE}::test_limits_of_means_hold_as_often_as_promised",
)
def means_taken_for_their_limits(original):
    return lambda values, width, miss: float(np.mean(values))


@mutant(
    "epsworth.pac.certificate.Tangent.mi",
    claim="a certificate holds with the confidence asked for, over the simulation",
    test=f"{CERTIFICATE}::test_the_certificate_holds_over_repetitions",
)
def information_of_half_the_moment(original):
    return lambda self, moment, factor=1.0: original(self, 0.5 * moment, factor)


@mutant(
    "epsworth.pac.exposure.TELLING",
    claim="worlds whose release all but tells a membership are warned of",
    test="tests/pac/test_standing_out.py::test_a_world_tells_a_record_from_a_likelihood_ratio_of_99_on",
)
def only_proofs_are_telling(original):
    return 1e9


@mutant(
    "epsworth.pac.records.second_moments",
    claim="no single record or listed group is found beyond the promise",
    test=f"{RECORDS}::test_screens_are_never_below_quadrature",
)
def second_moments_halved(original):
    return lambda *given: 0.5 * original(*given)


@mutant(
    "epsworth.pac.records.Check._gains",
    claim="no single record or listed group is found beyond the promise",
    test=f"{RECORDS}::test_an_untrue_claim_is_borne_out_as_rarely_as_promised",
)
def attacks_that_find_less(original):
    return lambda self, claims, guess, ratios: original(self, claims, guess, ratios) + 0.01


@mutant(
    "epsworth.pac.records.nearest_groups",
    claim="no single record or listed group is found beyond the promise",
    test=f"{RECORDS}::test_the_presence_of_a_near_duplicate_is_not_found_with_certainty",
)
def nobody_has_a_neighbour(original):
    return lambda X, units: ()


@mutant(
    "epsworth.pac.ledger.Ledger._open",
    claim="releases of one ledger stay within its total, by threads too",
    test="tests/pac/test_ledger.py::test_threads_cannot_spend_more_than_the_total",
)
def one_release_beyond_the_total(original):
    def opened(self, members, mi):
        total, self._total = self._total, self._total + mi
        try:
            return original(self, members, mi)
        finally:
            self._total = total

    return opened


@mutant(
    "epsworth.pac.responses.Channel.cost",
    claim="what a server's answer tells of the secret vote is charged in full",
    test=f"{RESPONSES}::test_a_charge_is_never_below_the_exact_information",
)
def answers_charged_to_nearest(original):
    from epsworth.pac.responses import LEAST, SLACK

    return lambda self: self.mi * (1 - SLACK) - LEAST if self.k else 0.0


@mutant(
    "epsworth.pac.responses.Beliefs.update",
    claim="a server's transcripts together tell no more than was charged",
    test=f"{RESPONDER}::test_all_transcripts_together_keep_every_promise",
)
def beliefs_learn_half(original):
    def update(self, votes, label, by):
        return original(self, votes, label, dataclasses.replace(by, k=by.k // 2))

    return update


@mutant(
    "epsworth.pac.server.ResponseServer._planned",
    claim="a server's total is never exceeded; then all answers are free",
    test=f"{RESPONDER}::test_a_total_that_is_spent_leaves_free_answers_for_ever",
)
def one_answer_beyond_the_total(original):
    def planned(self, votes, keep):
        total, self._total = self._total, self._total + self._nats
        try:
            return original(self, votes, keep)
        finally:
            self._total = total

    return planned


@mutant(
    "epsworth.pac.responses.Records.allowed",
    claim="no answer of a server leaves a membership's chance outside the promised limits",
    test=f"{RESPONSES}::test_tiny_beliefs_count_where_an_answer_would_leave_only_them",
)
def answers_beyond_the_limits(original):
    return lambda self, beliefs, votes, chances, fallback, strong: strong


@mutant(
    "epsworth.pac.server.ResponseServer.probabilities",
    claim="a server shows no draw that is not on the disk",
    test=f"{JOURNAL}::test_nothing_is_shown_that_is_not_on_the_disk",
)
def beliefs_shown_before_they_are_written(original):
    return lambda self: self._beliefs.probabilities


@mutant(
    "epsworth.pac.journal.Journal.head",
    claim="an older journal or forked process cannot spend a server's total again",
    test=f"{JOURNAL}::test_an_old_copy_is_found_out_by_the_head_alone",
)
def any_head_is_the_known_one(original):
    return lambda self: self._expected or original(self)


@mutant(
    "epsworth.pac.ledger.ProcessLock.at_home",
    claim="an older journal or forked process cannot spend a server's total again",
    test=f"{RESPONDER}::test_a_forked_process_cannot_answer_nor_take_the_lock_away",
)
def every_process_is_home(original):
    return lambda self: True


@mutant(
    "epsworth.pac.modes.Settings.check_unchanged",
    claim="settings changed since a fit promise nothing",
    test="tests/pac/test_privatizer.py::test_settings_changed_after_the_fit_promise_nothing",
)
def settings_may_change(original):
    return lambda self, at_fit: None


@mutant(
    "epsworth.pac.worlds.Sampler.fresh",
    claim="a release's sub-sample is drawn by the system's randomness",
    test=f"{SECRETS}::test_a_fresh_sub_sample_is_drawn_by_the_operating_system",
)
def sub_samples_follow_the_seed(original):
    def fresh(self):
        from epsworth.pac.worlds import source_of

        return self._choose(source_of(self.seed, 0))

    return fresh


@mutant(
    "epsworth.pac.utility.lower_limit",
    claim="a score that a budget is said to reach is reached, with the stated confidence",
    test=f"{FIND}::test_what_is_said_to_be_reached_is_reached_with_the_confidence_stated",
)
def scores_reached_on_average(original):
    def lower_limit(scores, low, high, risk):
        original(scores, low, high, risk)
        return float(np.mean(scores))

    return lower_limit
