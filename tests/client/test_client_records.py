"""Whatever a record holds: what leaves depends on released and passing values alone, in both languages."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from decimal import Decimal
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_clients import POLICY, RECORD, WORD
from test_client_in_node import NODE, answers

import epsworth as ew
from epsworth.client import Client
from epsworth.policy import Pass, Policy, Rule

JOBS = ew.Feature("job", categories=("clerk", 1, 2.5, "other"))
TOTAL = Policy(
    (
        Rule(ew.Feature("age", 0, 100, missing=40), "pm", Decimal(1)),
        Rule(replace(JOBS, missing="clerk"), "krr", Decimal(1), outside="other"),
        Rule(ew.Feature("7", -1, 1, missing=0.25), "krr:k=5", Decimal(2)),
    ),
    passing=Pass(("id", "city"), ("note",)),
)
STRICT = Policy(
    tuple(Rule(replace(rule.feature, missing=None), rule.mechanism, rule.epsilon) for rule in TOTAL.rules),
    passing=TOTAL.passing,
)


class Hostile:
    """What raises whatever it is asked."""

    def __getattribute__(self, name):
        raise RuntimeError("31")

    __eq__ = __hash__ = __float__ = __bool__ = __repr__ = __getattribute__


class Number(float):
    """A number whose own code would run."""

    def __float__(self):
        raise RuntimeError("31")

    __lt__ = __gt__ = __eq__ = __hash__ = __float__


NO_NUMBERS = [
    None, "31", "", "nan", True, False, [31], [], {}, {"value": 31}, (), {31}, b"31", 31j, float("nan"), Decimal("NaN"),
    Decimal("sNaN"), Hostile(), Number(31), object(), int, pd.NaT, pd.NA, np.datetime64("NaT"), np.timedelta64(31),
    np.array([31]), np.float64("nan"), "\ud800", range(3),
]  # fmt: skip
CLAMPED = [
    (1e400, 1), (-1e400, 0), (10**400, 1), (-(10**5000), 0), (Decimal("1e400"), 1), (Decimal("-Infinity"), 0),
    (np.inf, 1), (np.float32(-np.inf), 0), (np.longdouble("1e4000"), 1), (2**53 + 1, 1), (-0.0, None),
]  # fmt: skip
DOOR = Client(TOTAL.for_clients())


def index(name, value, policy=TOTAL):
    """Return the kernel's input for a value, by the door of mappings and by the client's."""
    feature = next(one for one in policy.client._features if one.name == name)
    return feature.index(ew.policy.tables._plain(value))


@pytest.mark.parametrize("number", range(len(NO_NUMBERS)))
@pytest.mark.cases("all")
def test_no_value_is_refused_where_the_policy_says_what_stands_for_it(number):
    value = NO_NUMBERS[number]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for released in (DOOR.perturb({"age": value, "job": value, "7": value}), ew.perturb(TOTAL, {"age": value})):
            assert [*released] == ["age", "job", "7"]
        assert index("age", value) == index("age", 40)
        assert index("7", value) == index("7", 0.25)


@pytest.mark.parametrize("number", range(len(CLAMPED)))
@pytest.mark.cases("all")
def test_numbers_of_any_size_are_clamped(number):
    value, end = CLAMPED[number]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for policy in (TOTAL, STRICT):
            wanted = {1: (100, 1), 0: (0, -1), None: (0, 0)}[end]
            assert (index("age", value, policy), index("7", value, policy)) == (
                index("age", wanted[0], policy), index("7", wanted[1], policy),
            )  # fmt: skip
            policy.client.perturb({"age": ew.policy.tables._plain(value), "job": 1, "7": 0})


def test_categories_are_missing_undeclared_or_themselves():
    for value in (None, float("nan"), Decimal("NaN"), pd.NA, pd.NaT, np.float32("nan"), np.datetime64("NaT")):
        assert index("job", value) == 0
    for value in ("x", "", 7, [1], {}, (1,), {"clerk"}, False, 10**400, float("inf"), Hostile(), Number(1), b"clerk"):
        assert index("job", value) == 3
    for value, code in (("clerk", 0), (1, 1), (1.0, 1), (True, 1), (np.int8(1), 1), (2.5, 2), (np.str_("other"), 3)):
        assert index("job", value) == code


def test_what_the_policy_says_nothing_of_is_refused_and_not_shown():
    good = {"age": 1, "job": 1, "7": 0}
    for name in good:
        rest = {key: value for key, value in good.items() if key != name}
        with pytest.raises(ValueError, match=f"the record lacks '{name}', which the policy perturbs; send it"):
            ew.perturb(STRICT, rest)
        for value in NO_NUMBERS:
            if name == "job" and value is True:  # which equals 1
                continue
            with pytest.raises(ValueError, match=f"^{name}: the value is ") as caught:
                ew.perturb(STRICT, rest | {name: value})
            assert "31" not in str(caught.value)


def test_absent_members_are_missing_where_the_policy_says_what_stands_for_them():
    words = [WORD // 3, WORD // 5, WORD // 7]
    assert DOOR.replay({}, words) == DOOR.replay(dict.fromkeys(("age", "job", "7")), words)
    assert DOOR.replay({"job": 1}, words) == DOOR.replay({"age": 40, "job": 1, "7": 0.25}, words)
    one = Policy((*STRICT.rules[:1], *TOTAL.rules[1:]))
    with pytest.raises(ValueError, match="lacks 'age'"):
        ew.perturb(one, {})
    assert [*ew.perturb(one, {"age": 3})] == ["age", "job", "7"]


def test_what_passes_comes_first_and_features_in_the_policy_s_order():
    record = {"age": 1, "id": 5, "job": "x", "city": None, "note": 3}
    for names in permutations(record):
        passing = [name for name in names if name in ("id", "city")]
        given_in_order = {name: record[name] for name in names}
        for released in (DOOR.perturb(given_in_order), ew.perturb(TOTAL, given_in_order)):
            assert [*released] == [*passing, "age", "job", "7"]
            assert (released["id"], released["city"]) == (5, None)


values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2), st.binary(max_size=2), st.decimals(),
    st.sampled_from([10**400, -(10**400), "clerk", "other", 2.5]),
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["age", "job", "7", "note"]), values))
def test_no_record_is_refused_for_its_values(record):
    released = DOOR.perturb(record)
    assert [*released] == ["age", "job", "7"]
    assert 0 <= released["age"] <= 100
    assert released["job"] in JOBS.categories
    assert released["7"] in (-1, -0.5, 0, 0.5, 1)


@pytest.mark.skipif(NODE is None, reason="node is not on the PATH: it runs the client in JavaScript")
def test_both_languages_take_every_value_alike():
    """Of what JSON can say; whole numbers beyond doubles are infinite in JavaScript, and clamped in both."""
    told = [
        None, "31", "", True, False, [31], [], {}, {"value": 31}, 1e308, -1e308, 10**400, -(10**400), 0, 1, 2.5, -0.0,
        "clerk", "other", "__proto__", "\ud800",
    ]  # fmt: skip
    words = [[str(WORD - 1 - 7**k) for k in (n, n + 1, n + 2)] for n in (0, 19)] + [["0", "1", "2"]]
    records = [{name: value} for value in told for name in ("age", "job", "7")]
    records += [{}, {"id": 1, "age": [], "city": "x"}, {"note": [1], "age": 1, "id": 0}]
    texts = [policy.for_clients() for policy in (TOTAL, STRICT)]
    asked = [
        {"policy": policy, "record": record, "words": given}
        for record in records
        for given in words
        for policy in (0, 1)
    ]
    found = answers({"policies": texts, "vectors": asked})["vectors"]
    clients = [Client(text) for text in texts]
    for vector, answer in zip(asked, found, strict=True):
        client, given_words = clients[vector["policy"]], [*map(int, vector["words"])]
        if "refused" in answer:
            assert vector["policy"] == 1
            with pytest.raises(ValueError, match=r"^(\w+: the value is|the record lacks)") as caught:
                client.replay(vector["record"], given_words)
            assert str(caught.value) == answer["refused"]
        else:
            assert dict(client.replay(vector["record"], given_words)) == answer["released"]


@pytest.mark.skipif(NODE is None, reason="node is not on the PATH: it runs the client in JavaScript")
def test_javascript_refuses_no_value_that_json_cannot_say():
    hostile = [
        "undefined", "Symbol()", "31n", "() => 31", "NaN", "new Date(31)", "new Number(31)", "Object.create(null)",
        "new Proxy({}, {get() { throw 31; }, ownKeys() { throw 31; }})", "({valueOf() { throw 31; }})", "Infinity",
    ]  # fmt: skip
    records = [f"{{note: 1, '7': {one}, job: {one}, age: {one}, id: 4}}" for one in hostile]
    found = answers({"policies": [TOTAL.for_clients()], "hostile": [[0, record] for record in records]})["hostile"]
    for each in found:
        assert [*each["released"]] == ["7", "id", "age", "job"]  # JavaScript puts names of whole numbers first, always


@pytest.mark.skipif(NODE is None, reason="node is not on the PATH: it runs the client in JavaScript")
def test_in_javascript_what_passes_comes_first_too():
    records = [json.dumps(dict(one)) for one in permutations(({"id": 5, "name": "Ada"} | RECORD).items(), 6)]
    found = answers({"policies": [POLICY.for_clients()], "hostile": [[0, record] for record in records[::37]]})
    assert {(*each["released"],) for each in found["hostile"]} == {("id", "age", "bmi", "t", "job")}
