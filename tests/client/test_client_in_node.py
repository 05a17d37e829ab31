"""The device's door in JavaScript: the same vectors to the bit, the same refusals as in Python."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest
from made_clients import EVERY, HOSTILE_VALUES, MODULE, POLICY, RECORD, SAMPLED, WINDOWS, brought, tampered

import epsworth as ew
from epsworth.client import Client
from epsworth.policy import Policy, Rule, Sampling
from epsworth.policy.client_files import client_files

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not on the PATH: it runs the client in JavaScript")
ANSWERS = Path(__file__).with_name("answers.mjs")
SEVERAL = 25  # policies of any kind
AGE = {name: re.sub("31", source, json.dumps(RECORD), count=1) for name, (_, source) in HOSTILE_VALUES.items()}
HOSTILE = AGE | {
    "lacking": "{}",
    "undefined": json.dumps(RECORD).replace("31", "undefined"),
    "a large integer": json.dumps(RECORD).replace("31", "31n"),
    "a number as an object": json.dumps(RECORD).replace("31", "new Number(31)"),
    "undeclared": json.dumps(RECORD | {"Age": 37}),
    "nested": json.dumps(RECORD | {"id": [37]}),
    "infinite": json.dumps(RECORD).replace("}", ', "id": Infinity}'),
    "inherited": f"Object.create({json.dumps(RECORD)})",
    "no record": "null",
    "a text": '"7"',
}


def answers(asked):
    """Return what node says; exact texts of doubles come back as the doubles."""
    asked = {"vectors": [], "hostile": [], "fresh": []} | asked
    done = subprocess.run([NODE, ANSWERS, MODULE], input=json.dumps(asked), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def several():
    """Return policies of every kind, always the same."""
    rng = random.Random(5)
    for number in range(SEVERAL):
        rules = []
        for position, words in enumerate(("pm", "sw", "pm_affine", "sw_affine", "krr:k=7", "pm:quantise=5")):
            lower = rng.choice([0.0, -0.1, rng.uniform(-1e6, 1e6), rng.uniform(-1, 1) * 1e-300, -(2.0**1000)])
            upper = lower + max(1.0, abs(lower)) * rng.choice([1, 3, rng.random()])
            epsilon = Decimal(str(round(10 ** rng.uniform(-2, 2), rng.randrange(3, 9))))
            rules.append(
                Rule(ew.Feature(f"{position}", lower, upper, missing=lower), words, epsilon, rng.randrange(2, 17))
            )
        kinds = tuple(range(rng.randrange(2, 40)))
        rules.append(Rule(ew.Feature("kind", categories=kinds), "krr", Decimal(1), outside=1))
        numbers = number % 3 == 2
        yield Policy(tuple(rules[:-1] if numbers else rules), Sampling(2, "scaled") if numbers else None)


@pytest.mark.slow
def test_vectors_hold_to_the_bit():
    given = list(EVERY.values())
    texts = [client_files(policy, 1000) for policy in given]
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


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.cases(1)
def test_hostile_records_are_refused_as_in_python(name):
    (found,) = answers({"policies": [POLICY.for_clients()], "hostile": [[0, HOSTILE[name]]]})["hostile"]
    assert set(found) == {"refused"}
    assert "31" not in found["refused"]
    assert "37" not in found["refused"]


def test_policies_that_were_tampered_with_are_refused_as_in_python():
    texts = tampered()
    found = answers({"policies": [*texts.values(), POLICY.for_clients()]})["policies"]
    read = [name for name, each in zip(texts, found, strict=False) if "refused" not in each]
    assert read == []
    assert found[-1] == {"read": POLICY.fingerprint}


def test_draws_are_fresh_and_lie_on_the_grid():
    record = {"7": 0.5, "1": 2, "b": 9}
    (found,) = answers({"policies": [SAMPLED.for_clients()], "fresh": [[0, record, 400]]})["fresh"]
    assert len({json.dumps(each) for each in found}) > 390  # repeated: a birthday among 2^16 x 3 values, below 1e-6
    counts = {name: sum(each[name] is not None for each in found) for name in record}
    assert sum(counts.values()) == 800
    assert all(200 < count < 330 for count in counts.values())  # 267 of 400 each; beyond by chance below 1e-9


def test_equal_choosing_words_release_the_first():
    words = [5, 5, 5, 0, 0, 0]
    record = {"7": 0.5, "1": 2, "b": 9}
    asked = {"policy": 0, "record": record, "words": [str(word) for word in words]}
    (found,) = answers({"policies": [SAMPLED.for_clients()], "vectors": [asked]})["vectors"]
    assert found["released"] == dict(Client(SAMPLED.for_clients()).replay(record, words))
    assert found["released"]["b"] is None


@pytest.mark.parametrize("mechanism", WINDOWS)
@pytest.mark.cases(20)
def test_every_mechanism_agrees_with_python_to_the_bit(mechanism):
    agree([client_files(Policy.of(mechanism, "0.9", ew.Domain.of({"x": (-0.1, 0.3)}), bits=b), 50) for b in (5, 16)])


def test_a_mechanism_that_the_client_does_not_know_is_run_by_its_window(monkeypatch):
    agree([client_files(policy, 50) for policy in brought(monkeypatch)])


@pytest.mark.slow
def test_policies_of_every_kind_agree_to_the_bit():
    agree([client_files(policy, 200) for policy in several()])


def agree(texts):
    """Compare what node releases with the vectors of several clients."""
    asked, wanted = [], []
    for number, each in enumerate(texts):
        for vector in json.loads(each["vectors.json"])["vectors"]:
            asked.append({"policy": number, "record": vector["record"], "words": vector["words"]})
            wanted.append(vector)
    found = answers({"policies": [each["policy.json"] for each in texts], "vectors": asked})
    for vector, answer in zip(wanted, found["vectors"], strict=True):
        if vector.get("refused"):
            assert "refused" in answer
        else:
            assert answer == {"released": vector["released"]}
