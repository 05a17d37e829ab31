"""Shuffled reports: bounds for all mechanisms and for some, their inverse, floors, rounds, what hides nobody."""

from __future__ import annotations

import math

import numpy as np
from planting import mutant
from scipy.special import bdtrc

from epsworth.guarantees import Central, Pure

BOUNDS = "tests/shuffling/test_shuffled_bounds.py"
CENTRAL = "tests/shuffling/test_central.py"
ALL = "behind a shuffler no mechanism of this local epsilon tells more than stated"
SMALL = f"{BOUNDS}::test_no_data_set_of_a_few_users_tells_more_than_is_said"
LARGE = f"{BOUNDS}::test_epsilons_for_all_are_the_reference_or_a_little_above"
DIGITS = f"{BOUNDS}::test_no_bound_for_all_is_below_forty_digits_nor_far_above"
LAW = "a mechanism's law gives no smaller epsilon than its worst data set needs"


@mutant("epsworth.shuffling.clones.delta_of_any", claim=ALL, test=SMALL)
def the_target_hides_among_one_more(original):
    return lambda users, *rest, **named: original(users + 1, *rest, **named)


@mutant("epsworth.shuffling.clones.clone_rate", claim=ALL, test=SMALL)
def every_report_is_a_clone(original):
    return lambda local: 1 - 1e-9


@mutant("epsworth.shuffling.clones.clone_rate", claim=ALL, test=LARGE)
def clones_of_the_first_blanket(original):
    return lambda local: math.exp(-local)


@mutant("epsworth.shuffling.clones.clone_rate", claim=ALL, test=LARGE)
def half_of_the_clones(original):
    return lambda local: original(local) / 2


@mutant("epsworth.shuffling.clones.with_clones", claim=ALL, test=LARGE)
def blocks_counted_at_their_greatest(original):
    def counted_higher(counted, *rest):
        if counted.size > 2:
            counted = np.concatenate([counted[:1], counted[2:] - 1, counted[-1:]])
        return original(counted, *rest)

    return counted_higher


@mutant("epsworth.shuffling.binomials.ETA", claim=ALL, test=DIGITS)
def grants_turned_round(original):
    return -original


@mutant(
    "epsworth.shuffling.binomials.betainc",
    claim="tails and excesses of coins err to the side asked for",
    test=f"{BOUNDS}::test_excesses_of_fair_coins_bracket_forty_digits",
)
def tails_of_another_routine(original):
    return lambda k, rest, p: bdtrc(k - 1, (k + rest - 1).astype(int), p)


@mutant("epsworth.shuffling.blankets.delta_of_pair", claim=LAW, test=SMALL)
def the_merged_form(original):
    """The published form for krr: the number of others' left-overs does not give a silent target away."""

    def merged(users, pair, local, epsilon, delta):
        alpha, large, order = pair.apart, math.exp(local), math.exp(epsilon)
        found = {}
        for clones in range(users):
            share = math.comb(users - 1, clones) * (2 * alpha) ** clones * (1 - 2 * alpha) ** (users - 1 - clones)
            for a in range(clones + 1):
                for x, y, gain in (
                    (1, 0, alpha * (large - order)),
                    (0, 1, alpha * (1 - order * large)),
                    (0, 0, (1 - alpha * (1 + large)) * (1 - order)),
                ):
                    key = (a + x, clones - a + y)
                    found[key] = found.get(key, 0.0) + share * math.comb(clones, a) / 2**clones * gain
        return sum(max(0.0, gain) for gain in found.values())

    return merged


@mutant(
    "epsworth.shuffling.blankets._on_lattice",
    claim=LAW,
    test=f"{BOUNDS}::test_laws_of_a_mechanism_are_never_below_all_their_outcomes_nor_far_above",
)
def values_rounded_down_on_the_lattice(original):
    def rounded(n, masses, values):
        _, _, step = original(n, masses, values)
        return np.floor((values - values[1]) / step + 1e-9), masses, step

    return rounded


@mutant(
    "epsworth.shuffling.blankets.local_epsilon_of",
    claim="what `local_epsilon` allows keeps the central epsilon asked for",
    test=f"{BOUNDS}::test_what_is_allowed_keeps_what_was_asked_for",
)
def a_little_more_is_allowed(original):
    return lambda *given: original(*given) * 1.0005


@mutant(
    "epsworth.shuffling.floors.delta_of_coins",
    claim="no analysis of all such mechanisms gets below the lower bound",
    test=f"{BOUNDS}::test_floors_are_below_what_a_data_set_tells",
)
def floors_of_a_hair_more(original):
    return lambda *given: original(*given) * 1.0001


@mutant(
    "epsworth.shuffling.rounds._losses_of_one",
    claim="several shuffled batches, everybody in each, tell no more than stated",
    test=f"{BOUNDS}::test_two_rounds_are_never_below_their_product",
)
def losses_a_little_smaller(original):
    def smaller(*given):
        loss, mass, lost = original(*given)
        return loss * 0.99, mass, lost

    return smaller


@mutant(
    "epsworth.guarantees._honest",
    claim="fakes and colluding users hide nobody",
    test=f"{CENTRAL}::test_fakes_and_colluders_hide_nobody",
)
def fakes_hide_others(original):
    return lambda users, delta, mechanism, symbols, fakes: original(users, delta, mechanism, symbols, 0)


@mutant(
    "epsworth.guarantees.compose",
    claim="central promises are never added to local ones",
    test=f"{CENTRAL}::test_a_central_promise_is_no_local_one",
)
def central_taken_for_local(original):
    def added(parts):
        return original([Pure(part.epsilon) if isinstance(part, Central) else part for part in parts])

    return added


@mutant(
    "epsworth.learner.config.hiding",
    claim="where ids determine rows, only the smallest row's reports hide each other",
    test="tests/shuffling/test_shuffled_learner.py::test_rows_that_clients_draw_hide_among_all_and_rows_of_ids_among_their_own",
)
def rows_of_ids_taken_for_drawn(original):
    return lambda rows, users, smallest_row: users


@mutant(
    "epsworth.learner.planning.planned_epsilon",
    claim="what `local_epsilon` allows keeps the central epsilon asked for",
    test="tests/shuffling/test_shuffled_learner.py::test_a_plan_behind_a_shuffler_keeps_what_was_asked_for_as_printed",
)
def planned_with_what_is_printed_rounded_up(original):
    from epsworth.guarantees import local_epsilon, shuffled
    from epsworth.rounding import show_up

    def rounded(central_epsilon, *, users, delta, law, fakes):
        given = {"users": users, "delta": delta, "mechanism": law.mechanism, "symbols": law.symbols, "fakes": fakes}
        return shuffled(float(show_up(local_epsilon(central_epsilon, **given), 6)), **given)

    return rounded


SHUFFLER = "tests/shuffling/test_shuffler.py"
BATCH = "a forwarded batch is a uniformly random order of checked reports, never below the planned size"


@mutant("epsworth.mechanisms.words.random_order", claim=BATCH, test=f"{SHUFFLER}::test_every_order_is_as_likely")
def the_last_report_stays_last(original):
    return lambda words, count: np.append(original(words, count - 1), count - 1)


@mutant(
    "epsworth.mechanisms.words.random_order",
    claim=BATCH,
    test=f"{SHUFFLER}::test_a_batch_holds_the_reports_in_another_order_and_nothing_else",
)
def forwarded_as_they_arrived(original):
    return lambda words, count: np.arange(count)


COLLECTOR = "tests/shuffling/test_collector.py"
ROLL = "a batch of registered ids has one report of each, about its own row, and nothing of an id"


class Forgetful(set):
    def __contains__(self, one):
        return False


@mutant(
    "epsworth.learner.shuffler._Collector.__init__",
    claim=ROLL,
    test=f"{COLLECTOR}::test_what_is_hostile_is_dropped_and_counted_and_stops_nobody",
)
def second_reports_forwarded(original):
    def forgetful(self, *given):
        original(self, *given)
        self.sent = Forgetful()

    return forgetful


@mutant(
    "epsworth.learner.shuffler._Collector._take",
    claim=ROLL,
    test=f"{COLLECTOR}::test_what_is_hostile_is_dropped_and_counted_and_stops_nobody",
)
def reports_about_other_rows_forwarded(original):
    def whatever_row(self, user, report, message):
        own = self.roll.get(user)
        original(self, user, report, message if own is None or message is None else 2 * own + message % 2)

    return whatever_row


@mutant(
    "epsworth.learner.shuffler._Collector._take",
    claim=ROLL,
    test=f"{COLLECTOR}::test_a_batch_holds_the_reports_and_nothing_of_ids",
)
def ids_forwarded_behind_reports(original):
    def beside(self, user, report, message):
        original(self, user, report, message)
        if self.reports and self.reports[-1] == report:
            self.reports[-1] = report[:-4] + user.encode()[-4:]

    return beside


@mutant(
    "epsworth.learner.shuffler._Collector.batch",
    claim="where ids tell rows, a batch is forwarded only if its smallest row is full",
    test=f"{COLLECTOR}::test_the_smallest_row_decides_whether_a_batch_is_full",
)
def all_rows_counted_together(original):
    def together(self, least):
        found = original(self, least)
        return found._replace(forwarded=found.reports >= least)

    return together


@mutant("epsworth.learner.shuffler.shuffle_files", claim=BATCH, test=f"{SHUFFLER}::test_a_small_batch_is_held_back")
def small_batches_forwarded(original):
    return lambda *given, at_least: original(*given, at_least=2)
