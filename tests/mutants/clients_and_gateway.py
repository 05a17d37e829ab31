"""Draws on a device, by the client in Python, and on a data holder's side, by the gateway."""

from __future__ import annotations

import contextlib
import json

from planting import mutant

CLIENT = "tests/client/test_client.py"
FINGERPRINTS = "tests/client/test_fingerprints.py"
RECORDS = "tests/client/test_client_records.py"
TAILORED = "tests/client/test_tailored_clients.py"
REQUESTS = "tests/gateway/test_gateway_requests.py"
PEOPLE = "tests/gateway/test_gateway_people.py"
UPSTREAM = "tests/gateway/test_gateway_upstream.py"


@mutant(
    "epsworth.client.kernels.TwoLevel.left",
    claim="a device draws with the library's integers and values",
    test=f"{CLIENT}::test_every_mechanism_agrees_with_the_library_to_the_bit",
)
def sliding_windows_rounded_down(original):
    def left(self, i):
        return (2 * i * self.room) // (2 * (self.points - 1)) if self.affine else original(self, i)

    return left


@mutant(
    "epsworth.client.kernels.TwoLevel.prove",
    claim="a device keeps ε exactly, whatever a policy says",
    test=f"{CLIENT}::test_weights_beyond_epsilon_are_refused",
)
def weights_believed(original):
    return lambda self, bound: None


@mutant(
    "epsworth.client.door._Feature.index",
    claim="a device takes no text, truth or container for a number, and shows no value",
    test=f"{CLIENT}::test_values_of_another_kind_are_refused_and_not_shown",
)
def truths_are_numbers(original):
    return lambda self, value: original(self, int(value) if isinstance(value, bool) and not self.categories else value)


@mutant(
    "epsworth.client.door.Client._read",
    claim="a device lets nothing out that the policy does not name",
    test=f"{CLIENT}::test_members_that_nobody_declared_are_refused",
)
def unknown_members_pass(original):
    def read(self, record):
        passing, *rest = original(self, {name: record[name] for name in record if name in self._known})
        return passing | {name: record[name] for name in record if name not in self._known}, *rest

    return read


@mutant(
    "epsworth.client.reading.fingerprint",
    claim="a device runs the policy whose fingerprint it shows, or none",
    test=f"{FINGERPRINTS}::test_a_policy_that_differs_from_its_fingerprint_in_any_member_is_refused",
)
def stated_fingerprints_are_believed(original):
    return lambda text: json.loads(text)["fingerprint"]


@mutant(
    "epsworth.policy.client_files.content",
    claim="a device runs the policy whose fingerprint it shows, or none",
    test=f"{FINGERPRINTS}::test_all_that_a_device_would_do_otherwise_has_another_fingerprint",
)
def fingerprints_without_order(original):
    def content(policy):
        document = json.loads(original(policy))
        return json.dumps(document | {"features": sorted(document["features"], key=lambda one: one["name"])})

    return content


@mutant(
    "epsworth.client.door._Feature.index",
    claim="where a policy declares substitutes, a device refuses no record",
    test=f"{RECORDS}::test_no_value_is_refused_where_the_policy_says_what_stands_for_it",
)
def what_is_no_number_is_refused(original):
    def index(self, value):
        missing = self._missing
        if self.categories is None and value is not None and type(value) not in (int, float):
            self._missing = None
        try:
            return original(self, value)
        finally:
            self._missing = missing

    return index


@mutant(
    "epsworth.client.door.Client._read",
    claim="what a device returns shows neither where features stood nor whether there was a sensitive value",
    test=f"{RECORDS}::test_what_passes_comes_first_and_features_in_the_policy_s_order",
)
def features_keep_their_place(original):
    def read(self, record):
        passing, given, looked_at = original(self, record)
        return {name: passing.get(name) for name in record if name in passing or name in given}, given, looked_at

    return read


@mutant(
    "epsworth.client.tailored.prove",
    claim="a device keeps ε exactly, whatever a policy says",
    test=f"{TAILORED}::test_policies_that_were_tampered_with_are_refused",
)
def tailored_weights_believed(original):
    return lambda rows, bound: None


@mutant(
    "epsworth.client.tailored._Response.draw",
    claim="on a device sensitive values choose a row of the kernel, and nothing else",
    test=f"{TAILORED}::test_sensitive_values_choose_a_row_and_nothing_else",
)
def rows_of_the_true_region(original):
    def draw(self, public, present, true, words):
        return original(self, public, present, true if true in present else present[-1], words)

    return draw


@mutant(
    "epsworth.client.door.Client._read",
    claim="what a device returns shows neither where features stood nor whether there was a sensitive value",
    test=f"{TAILORED}::test_no_sensitive_value_is_refused",
)
def sensitive_members_keep_their_place_on_a_device(original):
    def read(self, record):
        passing, given, looked_at = original(self, record)
        places = {name: None for name in record if name in passing or name in self._sensitive}
        return places | passing, given, looked_at

    return read


# ---- the gateway


@mutant(
    "epsworth.gateway.inference.check_covered",
    claim="a gateway forwards the policy's features, perturbed, and declared public ones alone",
    test=f"{REQUESTS}::test_what_the_policy_does_not_cover_is_refused",
)
def undeclared_inputs_pass(original):
    return lambda name, settings: None


@mutant(
    "epsworth.gateway.tensors._leaving",
    claim="no raw value, id or header reaches upstream, logs, errors or metrics",
    test=f"{REQUESTS}::test_nothing_raw_reaches_upstream_logs_errors_or_metrics",
)
def tensors_leave_as_they_came(original):
    def leaving(tensor, values, released, settings):
        return original(tensor, values, {name: values[name] for name in released}, settings)

    return leaving


@mutant(
    "epsworth.gateway.logs.accident",
    claim="no raw value, id or header reaches upstream, logs, errors or metrics",
    test=f"{UPSTREAM}::test_an_accident_tells_its_place_and_no_value",
)
def accidents_in_their_own_words(original):
    return lambda error: original(error) | {"kind": repr(error)}


@mutant(
    "epsworth.gateway.people.People._alone",
    claim="a gateway charges everybody of a request or nobody, on the disk before a draw leaves",
    test=f"{PEOPLE}::test_a_charge_is_on_the_disk_before_a_draw_leaves",
)
def charges_are_not_committed(original):
    @contextlib.contextmanager
    def alone(self):
        if not self._file.in_transaction:
            self._file.execute("BEGIN IMMEDIATE")
        yield

    return alone


@mutant(
    "epsworth.gateway.people.People._affords",
    claim="a person's draws at a gateway add up to at most the cap, over all policies",
    test=f"{PEOPLE}::test_charges_under_another_policy_count_exactly",
)
def one_draw_more_than_the_cap(original):
    return lambda self, person, times: original(self, person, times - 1)


@mutant(
    "epsworth.gateway.people.People._charged",
    claim="a gateway charges everybody of a request or nobody, on the disk before a draw leaves",
    test=f"{PEOPLE}::test_of_a_request_everybody_is_charged_or_nobody",
)
def one_who_can_afford_it_is_enough(original):
    def charged(self, counted):
        if self.cap is None or any(self._affords(*one) for one in counted.items()):
            cap, self.cap = self.cap, None
            try:
                return original(self, counted)
            finally:
                self.cap = cap
        return original(self, counted)

    return charged
