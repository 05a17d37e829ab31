"""Draws on a device, by the client in Python, and on a data holder's side, by the gateway."""

from __future__ import annotations

import contextlib

from planting import mutant

CLIENT = "tests/client/test_client.py"
TAILORED = "tests/client/test_tailored_clients.py"
REQUESTS = "tests/gateway/test_gateway_requests.py"
PEOPLE = "tests/gateway/test_gateway_people.py"
UPSTREAM = "tests/gateway/test_gateway_upstream.py"

TO_THE_BIT = "a device's client draws with the very integers and values of the library"


@mutant(
    "epsworth.client.kernels.TwoLevel.left",
    claim=TO_THE_BIT,
    test=f"{CLIENT}::test_every_mechanism_agrees_with_the_library_to_the_bit",
)
def sliding_windows_rounded_down(original):
    def left(self, i):
        return (2 * i * self.room) // (2 * (self.points - 1)) if self.affine else original(self, i)

    return left


@mutant(
    "epsworth.client.grids.natural",
    claim=TO_THE_BIT,
    test=f"{CLIENT}::test_every_mechanism_agrees_with_the_library_to_the_bit",
)
def values_counted_from_the_lower_end(original):
    return lambda y, steps, lower, upper: min(max(lower + y / steps * (upper - lower), lower), upper)


@mutant(
    "epsworth.client.grids.place",
    claim="a device's client places a value half way between two points at the even one",
    test=f"{CLIENT}::test_half_way_goes_to_the_even_place",
)
def half_way_goes_up(original):
    def place(value, lower, upper, points):
        clipped = float(min(max(value, lower), upper))
        return int((clipped - lower) / (upper - lower) * (points - 1) + 0.5)

    return place


@mutant(
    "epsworth.client.kernels.TwoLevel.prove",
    claim="a device's client keeps epsilon exactly, whatever a policy says",
    test=f"{CLIENT}::test_weights_beyond_epsilon_are_refused",
)
def weights_believed(original):
    return lambda self, bound: None


@mutant(
    "epsworth.client.reading._members",
    claim="a device's client refuses a policy that two readers could take differently",
    test=f"{CLIENT}::test_policies_that_were_tampered_with_are_refused",
)
def last_of_two_entries_counts(original):
    return dict


@mutant(
    "epsworth.client.door.Client._chosen",
    claim="a device's client takes its words in the policy's order, the smallest choosing what is released",
    test=f"{CLIENT}::test_equal_choosing_words_release_the_first",
)
def last_of_equals_is_released(original):
    def chosen(self, words):
        if not self._kept:
            return None
        ranks = [(next(words), -i) for i in range(len(self._features))]
        return set(sorted(range(len(ranks)), key=ranks.__getitem__)[: self._kept])

    return chosen


@mutant(
    "epsworth.client.door._Feature.index",
    claim="a device's client takes no text, truth or container for a number, and shows no value",
    test=f"{CLIENT}::test_values_of_another_kind_are_refused_and_not_shown",
)
def truths_are_numbers(original):
    return lambda self, value: original(self, int(value) if isinstance(value, bool) and not self.categories else value)


UNNAMED = "a device's client lets nothing out that the policy does not name"


@mutant(
    "epsworth.client.door.Client._plain", claim=UNNAMED, test=f"{CLIENT}::test_members_that_nobody_declared_are_refused"
)
def unknown_members_pass(original):
    def plain(self, record):
        values, looked_at = original(self, {name: record[name] for name in record if name in self._known})
        return values | {name: record[name] for name in record if name not in self._known}, looked_at

    return plain


@mutant(
    "epsworth.client.door._check_passing",
    claim=UNNAMED,
    test=f"{CLIENT}::test_members_that_nobody_declared_are_refused",
)
def containers_pass(original):
    return lambda name, value: None


@mutant(
    "epsworth.client.tailored.prove",
    claim="a device's client proves a tailored policy's weights in whole numbers",
    test=f"{TAILORED}::test_policies_that_were_tampered_with_are_refused",
)
def tailored_weights_believed(original):
    return lambda rows, bound: None


@mutant(
    "epsworth.client.tailored._Response.draw",
    claim="on a device sensitive values choose a row of the kernel, and nothing else",
    test=f"{TAILORED}::test_sensitive_values_choose_a_row_and_nothing_else",
)
def true_regions_are_always_within_reach(original):
    return lambda self, public, present, true, words: original(self, public, sorted({*present, true}), true, words)


@mutant(
    "epsworth.client.tailored.Tailored.seen",
    claim="on a device what is within reach sees of a column with a rule what that releases",
    test=f"{TAILORED}::test_what_is_within_reach_sees_what_rules_release",
)
def reach_of_true_values_on_a_device(original):
    return lambda self, true, released: list(true)


@mutant(
    "epsworth.client.door.Client._plain",
    claim="a device's client tells nothing of a sensitive value, nor whether there was one",
    test=f"{TAILORED}::test_no_sensitive_value_is_refused",
)
def sensitive_members_keep_their_place_on_a_device(original):
    def plain(self, record):
        values, looked_at = original(self, record)
        return {
            name: looked_at.get(name) for name in record if name in values or name in self._sensitive
        } | values, looked_at

    return plain


@mutant(
    "epsworth.client.tailored.Tailored._number",
    claim="on a device all representatives of a region are sent equally often",
    test=f"{TAILORED}::test_words_beyond_the_last_multiple_are_drawn_anew",
)
def words_beyond_the_last_multiple_favour_the_first(original):
    def number(self, public, region, first, words):
        fine = [n for n, row in enumerate(self._standing[region]) if self._stands(public, row, region)]
        return fine[next(words) % len(fine)] if self._draw else first

    return number


# ---- the gateway

COVERED = "a gateway forwards the policy's features, perturbed, and what is declared public; all else is refused"


@mutant(
    "epsworth.gateway.asked.check_covered",
    claim=COVERED,
    test=f"{REQUESTS}::test_what_the_policy_does_not_cover_is_refused",
)
def undeclared_inputs_pass(original):
    return lambda name, settings: None


@mutant(
    "epsworth.gateway.asked.check_complete",
    claim=COVERED,
    test=f"{REQUESTS}::test_what_the_policy_does_not_cover_is_refused",
)
def features_may_be_left_out(original):
    return lambda values, settings: None


@mutant(
    "epsworth.gateway.asked.check_public",
    claim="a gateway's bodies have one reading, and public inputs hold single values",
    test=f"{REQUESTS}::test_bodies_that_readers_could_read_differently_are_refused",
)
def nested_values_pass(original):
    return lambda name, values: values


RAW = "no raw value, id or header of a client reaches upstream, logs, errors or metrics"


@mutant(
    "epsworth.gateway.tensors._leaving",
    claim=RAW,
    test=f"{REQUESTS}::test_nothing_raw_reaches_upstream_logs_errors_or_metrics",
)
def tensors_leave_as_they_came(original):
    def leaving(tensor, values, released, settings):
        return original(tensor, values, {name: values[name] for name in released}, settings)

    return leaving


@mutant("epsworth.gateway.logs.accident", claim=RAW, test=f"{UPSTREAM}::test_an_accident_tells_its_place_and_no_value")
def accidents_in_their_own_words(original):
    return lambda error: original(error) | {"kind": repr(error)}


@mutant(
    "epsworth.gateway.people.People._alone",
    claim="a gateway's charge is committed before a draw leaves",
    test=f"{PEOPLE}::test_a_charge_is_on_the_disk_before_a_draw_leaves",
)
def charges_are_not_committed(original):
    @contextlib.contextmanager
    def alone(self):
        if not self._file.in_transaction:
            self._file.execute("BEGIN IMMEDIATE")
        yield

    return alone


BUDGET = "the draws of a person add up to at most the budget, exactly, over all policies of a gateway's ledger"


@mutant(
    "epsworth.gateway.people.People._affords",
    claim=BUDGET,
    test=f"{PEOPLE}::test_charges_under_another_policy_count_exactly",
)
def one_draw_more_than_the_budget(original):
    return lambda self, person, times: original(self, person, times - 1)


@mutant(
    "epsworth.gateway.people.People._charged",
    claim="of a request with a ledger everybody is charged, or nobody",
    test=f"{PEOPLE}::test_of_a_request_everybody_is_charged_or_nobody",
)
def one_who_can_afford_it_is_enough(original):
    def charged(self, counted):
        if self.budget is None or any(self._affords(*one) for one in counted.items()):
            budget, self.budget = self.budget, None
            try:
                return original(self, counted)
            finally:
                self.budget = budget
        return original(self, counted)

    return charged


@mutant(
    "epsworth.gateway.people.People._left",
    claim="a person's first draw leaves for every later request under the same policy, and under no other",
    test=f"{PEOPLE}::test_the_same_draw_leaves_for_a_person_whatever_the_record_holds",
)
def first_draws_are_forgotten(original):
    return lambda self, person: None


@mutant(
    "epsworth.gateway.people.People._hash",
    claim="a gateway's ledger that another key wrote is refused",
    test=f"{PEOPLE}::test_a_ledger_of_another_key_or_kind_is_refused",
)
def people_hashed_without_a_key(original):
    import hashlib

    return lambda self, person: hashlib.blake2b(person.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@mutant(
    "epsworth.gateway.draws.Draws._drawn",
    claim="requests that wait together are drawn as one table, each record by words of its own",
    test="tests/gateway/test_gateway_draws.py::test_requests_that_wait_together_are_drawn_like_one_table",
)
def requests_share_their_draws(original):
    def drawn(self, requests):
        found = original(self, requests)
        return [{name: found[0][name][: len(values)] or values for name, values in one.items()} for one in found]

    return drawn
