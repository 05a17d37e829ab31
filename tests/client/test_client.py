"""The device's door in Python: the library's own kernels and values, to the bit; strict about what comes in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from made_clients import (
    DOMAIN,
    EVERY,
    HOSTILE_VALUES,
    POLICY,
    RECORD,
    SAMPLED,
    SCALED,
    WINDOWS,
    WORD,
    brought,
    policies,
    tampered,
)  # fmt: skip

import epsworth as ew
from epsworth.client import Client, NotPrivate
from epsworth.client.kernels import TwoLevel, exp_below, stated
from epsworth.mechanisms.words import WordSource
from epsworth.policy import Policy
from epsworth.policy.client_files import client_files
from epsworth.policy.columns import Column
from epsworth.policy.tables import Perturbation

IMPORT_MS = 40


class Given(WordSource):
    """Words that are told."""

    private = False

    def __init__(self, words):
        self.words, self.at = np.array(words, dtype=np.uint64), 0

    def take(self, count):
        self.at += count
        return self.words[self.at - count : self.at]


words = st.integers(0, WORD - 1) | st.sampled_from([0, WORD - 1])


@given(policies(), st.data())
@pytest.mark.slow
def test_the_client_releases_what_the_library_releases(policy, data):
    client = Client(policy.for_clients())
    record = {}
    for rule in policy.rules:
        feature = rule.feature
        if feature.categories is not None:
            record[feature.name] = data.draw(st.sampled_from(feature.categories))
        else:
            steps = rule.kernel.points - 1
            tie = (data.draw(st.integers(0, 2 * steps)) / 2 / steps) * (feature.upper - feature.lower) + feature.lower
            record[feature.name] = data.draw(st.just(tie) | st.floats(feature.lower - 9, feature.upper + 9))
    given_words = data.draw(st.lists(words, min_size=client.words, max_size=client.words))
    choosing = [] if policy.sampling is None else given_words[: len(policy.rules)]
    assume(len(set(choosing)) == len(choosing))  # the library sorts equal ones as NumPy does; ties have their own test
    found = client.replay(record, given_words)
    for rule, value in expected(policy, record, given_words):
        assert found[rule.feature.name] == value, rule
        assert type(found[rule.feature.name]) is type(value)


def expected(policy, record, given_words):
    """Yield what the library's columns release, by the words of the client's order."""
    perturbation = Perturbation(policy, Given(given_words))
    inputs = {}
    for name, column in perturbation.ruled.items():
        inputs[name] = column.encode(np.array([record[name]], dtype=object if column.feature.categories else float))
    for column, drawn, keep in perturbation.draw(inputs):
        (value,) = column.released(np.asarray(drawn), keep, policy).tolist()
        yield column.rule, None if value != value else value


@pytest.mark.parametrize("mechanism", [*WINDOWS, "krr:k=7", "pm:quantise=9"])
@pytest.mark.cases(20)
def test_every_mechanism_agrees_with_the_library_to_the_bit(mechanism):
    rng = np.random.default_rng(8)
    for bits, lower, upper in ((16, -0.1, 0.3), (5, 10.0, 60.0), (9, -(2.0**1000), 2.0**1000)):
        policy = Policy.of(mechanism, "0.9", ew.Domain.of({"x": (lower, upper)}), bits=bits)
        client, column = Client(policy.for_clients()), Column(policy.rules[0])
        given_words = rng.integers(0, WORD - 1, 500, dtype=np.uint64, endpoint=True)
        natural = lower + rng.random(500) * (upper - lower)
        drawn = column.rule.kernel.outcomes(column.encode(natural), Given(given_words))
        found = [client.replay({"x": x}, [w])["x"] for x, w in zip(natural.tolist(), given_words.tolist(), strict=True)]
        assert found == column.values[drawn].tolist()


def test_a_mechanism_that_the_client_does_not_know_is_run_by_its_window(monkeypatch):
    for policy in brought(monkeypatch):
        client, kernel = Client(policy.for_clients()), policy.rules[0].kernel
        given_words = np.random.default_rng(4).integers(0, WORD - 1, 500, dtype=np.uint64, endpoint=True)
        inputs = np.arange(500) % kernel.points
        drawn = kernel.outcomes(inputs, Given(given_words)).tolist()
        found = [client.replay({"x": i}, [w])["x"] for i, w in zip(inputs.tolist(), given_words.tolist(), strict=True)]
        assert found == drawn


@given(policies())
def test_the_clients_integers_are_the_librarys(policy):
    for rule in policy.rules:
        kernel = TwoLevel(rule.kernel.name, stated(f"{rule.epsilon:f}"), rule.kernel.points)
        assert (kernel.low, kernel.high, kernel.width) == (rule.kernel.low, rule.kernel.high, rule.kernel.width)


@pytest.mark.parametrize("mechanism", ["krr", "pm", "sw", "pm_affine", "sw_affine"])
def test_the_law_of_the_client_keeps_epsilon_exactly(mechanism):
    """Every output's words are counted: they are intervals, whose ends are found by bisection."""
    kernel = TwoLevel(mechanism, stated("0.7"), 16)
    bound = exp_below(Fraction(7, 10))
    rows = [Counter() for _ in range(16)]
    for i, row in enumerate(rows):
        at = 0
        while at < WORD:
            y, low, high = kernel.outcome(i, at), at, WORD - 1
            if at < kernel.level:
                high = kernel.level - 1
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if kernel.outcome(i, middle) == y else (low, middle - 1)
            row[y] += low + 1 - at
            at = low + 1
        assert sum(row.values()) == WORD
        assert set(row) == set(range(16))
    for y in range(16):
        shares = [row[y] for row in rows]
        assert max(shares) <= bound * min(shares)
        assert max(shares) > min(shares)


def test_equal_choosing_words_release_the_first():
    for policy in (SAMPLED, SCALED):
        client = Client(policy.for_clients())
        released = client.replay({"7": 0.5, "1": 2, "b": 9}, [5, 5, 5, 0, 0, 0])
        if policy is SAMPLED:
            assert [released[name] is None for name in ("7", "1", "b")] == [False, False, True]
        else:
            assert [released["1"], released["b"]] == [1.0, 4.5]


def test_words_are_taken_in_the_order_of_the_policy():
    client = Client(SAMPLED.for_clients())
    first = client.replay({"7": 0.5, "1": 2, "b": 9}, [2, 0, 1, 0, WORD - 1, 0])
    again = client.replay({"b": 9, "1": 2, "7": 0.5}, [2, 0, 1, 0, WORD - 1, 0])
    assert first == again
    assert first["7"] is None
    second = client._features[1]
    assert first["1"] == second.value(second.kernel.outcome(second.index(2), WORD - 1))


def test_half_way_goes_to_the_even_place():
    client = Client(Policy.of("krr:k=5", "1", ew.Domain.of({"x": (0, 4)})).for_clients())
    places = [client._features[0].index(value) for value in (0.5, 1.5, 2.5, 3.5)]
    assert places == [0, 2, 2, 4]


@pytest.mark.parametrize("name", HOSTILE_VALUES)
def test_values_of_another_kind_are_refused_and_not_shown(name):
    value, _ = HOSTILE_VALUES[name]
    client = Client(POLICY.for_clients())
    with pytest.raises(ValueError, match="age: the value is") as caught:
        client.perturb(RECORD | {"age": value})
    assert "31" not in str(caught.value)


def test_subclasses_of_numbers_and_words_are_refused():
    class Number(float):
        def __float__(self):
            return 99.0

    class Word(str):
        __slots__ = ()

    client = Client(POLICY.for_clients())
    for name, value in (("age", Number(31)), ("age", np.float64(31)), ("id", Word("a"))):
        with pytest.raises(ValueError, match=name):
            client.perturb(RECORD | {name: value})
    word = Client(Policy((POLICY.rules[3],)).for_clients())
    assert word._features[0].index(Word("nurse")) == 2  # as undeclared


@pytest.mark.parametrize(
    "record", [{"Age": 37}, {"AGE ": 37}, {7: 37}, {"id": [37]}, {"id": {"a": 37}}, {"id": float("inf")}]
)
def test_members_that_nobody_declared_are_refused(record):
    with pytest.raises(ValueError, match=r"does not name|passes, but") as caught:
        Client(POLICY.for_clients()).perturb(RECORD | record)
    assert "37" not in str(caught.value)


def test_what_is_no_record_is_refused():
    client = Client(SAMPLED.for_clients())
    for record in ([0.5], "7", None, [("7", 1), ("1", 1), ("b", 1)]):
        with pytest.raises(ValueError, match="mapping"):
            client.perturb(record)
    with pytest.raises(ValueError, match="lacks 'b'"):
        client.perturb({"7": 0.5, "1": 1})


def test_what_passes_stays_what_is_dropped_leaves():
    released = ew.perturb(POLICY, RECORD | {"id": 7, "name": "Ada"})
    assert list(released) == ["id", "age", "bmi", "t", "job"]
    assert released["id"] == 7
    assert -0.1 <= released["t"] <= 0.3


def test_a_record_is_a_mapping_of_plain_or_numpy_values():
    policy = Policy.of("pm", 1, ew.Domain.of({"age": (0, 100)}))
    for age in (31, 31.5, np.float64(31), np.int32(31), 10**400, float("inf")):
        assert 0 <= ew.perturb(policy, {"age": age})["age"] <= 100
    with pytest.raises(ValueError, match="does not name"):
        ew.perturb(policy, {"age": 31, "Age": 37})
    assert len({ew.perturb(policy, {"age": 31})["age"] for _ in range(20)}) > 1  # all equal: once in 10^40


def test_replays_say_that_they_are_not_private():
    client = Client(POLICY.for_clients())
    found = client.replay(RECORD, [1, 2, 3, 4])
    assert isinstance(found, NotPrivate)
    assert repr(found).startswith("NOT PRIVATE")
    assert not isinstance(client.perturb(RECORD), NotPrivate)
    for given_words in ([1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, WORD], [1, 2, 3, -1], [1, 2, 3, True], [1, 2, 3, 4.0]):
        with pytest.raises(ValueError, match="words: must be 4"):
            client.replay(RECORD, given_words)


@pytest.mark.parametrize("name", tampered())
@pytest.mark.cases(1)
def test_policies_that_were_tampered_with_are_refused(name):
    with pytest.raises(ValueError, match=r"\w"):
        Client(tampered()[name])


def test_weights_beyond_epsilon_are_refused():
    """The proof stands apart from the construction: where this errs, nothing is drawn."""
    kernel = TwoLevel("pm", Fraction(1), 256)
    kernel.prove(exp_below(Fraction(1)))
    for change in ({"high": kernel.high + 1}, {"low": kernel.low - 1}, {"width": 256}, {"low": 0}):
        worse = object.__new__(TwoLevel)
        for key in ("points", "width", "low", "high"):
            setattr(worse, key, change.get(key, getattr(kernel, key)))
        with pytest.raises(ValueError, match="no weights"):
            worse.prove(exp_below(Fraction(1)))
    with pytest.raises(ValueError, match="no weights"):
        kernel.prove(Fraction(kernel.high, kernel.low) - Fraction(1, 10**30))


def test_mechanisms_of_several_words_are_for_tables():
    policy = Policy.of("laplace_clipped", 1, DOMAIN, per="feature")
    with pytest.raises(ValueError, match=r"features\.age\.mechanism: devices draw from"):
        policy.for_clients()


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.cases(1)
def test_vectors_hold(name):
    texts = client_files(EVERY[name], 300)
    client, found = Client(texts["policy.json"]), json.loads(texts["vectors.json"])
    assert found["fingerprint"] == client.fingerprint == EVERY[name].fingerprint
    refused = 0
    for vector in found["vectors"]:
        given_words = [int(word) for word in vector["words"]]
        if vector.get("refused"):
            refused += 1
            with pytest.raises(ValueError, match="the value is"):
                client.replay(vector["record"], given_words)
        else:
            assert client.replay(vector["record"], given_words) == vector["released"]
    assert 0 < refused < 60


def test_the_client_needs_the_standard_library_alone(tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path)  # compiled once, as installed packages are
    code = (
        "import sys, time; start = time.process_time(); from epsworth.client import Client;"
        "took = time.process_time() - start; print(1000 * took, *sys.modules)"
    )
    took = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        first, *modules = done.stdout.split()
        took.append(float(first))
        assert not {name.partition(".")[0] for name in modules} & {"numpy", "polars", "scipy", "cryptography"}
        own = {f"epsworth.client{part}" for part in ("", ".door", ".grids", ".kernels", ".reading")}
        assert {name for name in modules if name.startswith("epsworth")} <= {"epsworth", "epsworth.version", *own}
    assert min(took) < IMPORT_MS
