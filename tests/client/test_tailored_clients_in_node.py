"""Tailored policies on a device that runs JavaScript: the same to the bit, and the same refusals, as in Python."""

from __future__ import annotations

import json
import math

import pytest
from made_tailored import BY_HAND, RECORD, TAMPERED, WORST, random_policy
from test_client_in_node import NODE, answers

from epsworth.policy.client_files import client_files

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not on the PATH: it runs the client in JavaScript")
SEVERAL = 24  # random policies
ABSURD = {  # what a sensitive member can be in JavaScript
    "a text": '"31"', "an empty text": '""', "a truth": "true", "a list": "[31]", "an object": "({value: 31})",
    "what raises": '({valueOf() { throw "31"; }, toString() { throw "31"; }, toJSON() { throw "31"; }})',
    "a symbol": 'Symbol("31")', "a large integer": "31n", "a function": "() => 31", "not a number": "NaN",
    "infinite": "-Infinity", "a date": "new Date(31)", "half a pair": '"\\ud800"',
    "undefined": "undefined", "null": "null",
    "a proxy": 'new Proxy({}, {get() { throw "31"; }, ownKeys() { throw "31"; }})',
    "no prototype": "Object.create(null)",
    "a number as an object": "new Number(31)", "a name of all objects": '"__proto__"', "huge": "1e308",
}  # fmt: skip


@pytest.mark.slow
def test_vectors_hold_to_the_bit():
    given = [*BY_HAND.values(), *map(random_policy, range(SEVERAL))]
    texts = [client_files(policy, 100) for policy in given]
    asked, wanted = [], []
    for number, each in enumerate(texts):
        for vector in json.loads(each["vectors.json"])["vectors"]:
            asked.append({"policy": number, "record": vector["record"], "words": vector["words"]})
            wanted.append(vector)
    found = answers({"policies": [each["policy.json"] for each in texts], "vectors": asked})
    assert [each["read"] for each in found["policies"]] == [policy.fingerprint for policy in given]
    for vector, answer in zip(wanted, found["vectors"], strict=True):
        if vector.get("refused"):
            assert "the value is" in answer["refused"]
        else:
            assert answer == {"released": vector["released"]}


def test_policies_that_were_tampered_with_are_refused_as_in_python():
    found = answers({"policies": list(TAMPERED.values())})["policies"]
    read = [name for name, each in zip(TAMPERED, found, strict=True) if "refused" not in each]
    assert read == [name for name in TAMPERED if name.startswith("fine")]


@pytest.mark.parametrize("name", ABSURD)
@pytest.mark.cases(1)
def test_no_sensitive_value_is_refused(name):
    """At an hour of 1 one region is within reach: what leaves is the same, whatever is true."""
    (usual,) = answers({"policies": [WORST.for_clients()], "fresh": [[0, RECORD | {"hours": 1}, 1]]})["fresh"]
    records = [f'{{"age": {ABSURD[name]}, "hours": {hours}, "job": {ABSURD[name]}}}' for hours in (0, 1, 5)]
    found = answers({"policies": [WORST.for_clients()], "hostile": [[0, record] for record in records]})["hostile"]
    assert found[1] == {"released": usual[0]}
    assert [list(each["released"]) for each in found] == [["hours", "age", "job"]] * 3


def test_other_members_are_refused_as_in_python():
    hostile = ['{"age": 31, "job": "a"}', '{"hours": 5, "Age": 31}', '{"hours": [5]}', '{"hours": NaN}', "[31]", "null"]
    found = answers({"policies": [WORST.for_clients()], "hostile": [[0, record] for record in hostile]})["hostile"]
    for each in found:
        assert set(each) == {"refused"}
        assert "31" not in each["refused"]


def test_draws_are_fresh_and_keep_their_shares():
    records, draws = [RECORD, RECORD | {"age": 100, "job": "c"}], 2000
    found = answers({"policies": [WORST.for_clients()], "fresh": [[0, record, draws] for record in records]})["fresh"]
    for record, released in zip(records, found, strict=True):
        told = [(sent, float(share)) for sent, share in WORST.outcomes(record)]
        assert sum(each == sent for each in released for sent, _ in told) == draws
        for sent, share in told:  # Hoeffding: beyond it by chance below 1e-11, all six together
            near = math.sqrt(math.log(2 / 1e-12) / (2 * draws))
            assert abs(sum(each == sent for each in released) / draws - share) < near
