"""Tailored policies on a device: the library's own draws to the bit, whatever a record holds, from proven tables."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from made_tailored import (
    BY_HAND,
    GAIN,
    RECORD,
    TAMPERED,
    WORD,
    WORST,
    Given,
    of_the_library,
    random_policy,
    tailored,
)

import epsworth as ew
from epsworth.client import Client
from epsworth.client.kernels import exp_below
from epsworth.client.tailored import alias, prove
from epsworth.mechanisms.alias import Alias
from epsworth.mechanisms.two_level import TwoLevelKernel
from epsworth.policy import Pass, Policy, Rule
from epsworth.policy.client_files import client_files
from epsworth.policy.tables import Perturbation
from epsworth.tailored.mechanism import ReachableRegions

SEVERAL = 24  # random policies


def agree(policy, vectors):
    """Assert that the client releases what the library does; return how many were released, and what."""
    texts = client_files(policy, vectors)
    client, found = Client(texts["policy.json"]), []
    for vector in json.loads(texts["vectors.json"])["vectors"]:
        words = [int(word) for word in vector["words"]]
        if vector.get("refused"):
            with pytest.raises(ValueError, match="the value is"):
                client.replay(vector["record"], words)
            continue
        released = dict(client.replay(vector["record"], words))
        assert released == vector["released"]
        expected = of_the_library(policy, vector["record"], words)
        for name, value in expected.items():
            assert released[name] == value, name
            assert type(released[name]) is type(value), name
        rest = released.keys() - expected.keys()
        assert {name: released[name] for name in rest} == {name: vector["record"][name] for name in rest}
        assert list(released)[-len(policy.tailoring.names) :] == list(policy.tailoring.names)
        found.append(released)
    return found


@pytest.mark.parametrize("first", range(0, SEVERAL, 12))
@pytest.mark.slow
def test_random_policies_release_what_the_library_releases(first):
    varied = []
    for seed in range(first, first + 12):
        found = agree(random_policy(seed), 40)
        assert len(found) > 20, seed
        varied.append(len({json.dumps(each) for each in found}) > 1)
    assert sum(varied) > 5


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.slow
def test_policies_made_by_hand_release_what_the_library_releases(name):
    found = agree(BY_HAND[name], 300)
    assert len({json.dumps([each["age"], each["job"]]) for each in found}) >= 3


@pytest.mark.parametrize("weights", [[WORD], [1, WORD - 1], [WORD // 2] * 2, [3, 0, 5, 0, WORD - 8], None])
def test_outcomes_are_those_of_the_library_s_tables(weights):
    rng = np.random.default_rng(3)
    if weights is None:
        shares = rng.integers(0, WORD // 200, 90, dtype=np.uint64).tolist()
        weights = [*shares, WORD - sum(shares)]
    words = [*rng.integers(0, WORD - 1, 3000, dtype=np.uint64, endpoint=True).tolist(), 0, WORD - 1, WORD // 2]
    drawn = Alias(weights).draw(np.array(words, dtype=np.uint64)).tolist()
    assert [alias(weights, word) for word in words] == drawn


NONE_FOR_ONE = (*tailored.STANDING[:1], np.empty((0, 2), dtype=np.int64), *tailored.STANDING[2:])
"""Regions 0 and 2 have representatives: records of region 1 are out of reach themselves."""


@pytest.mark.parametrize("kind", ["worst", "average", "gain"])
@pytest.mark.parametrize("standing", [tailored.STANDING, NONE_FOR_ONE], ids=["all", "none for one"])
@pytest.mark.parametrize("hours", [0, 1, 2, 5])
@pytest.mark.cases(1)
def test_sensitive_values_choose_a_row_and_nothing_else(kind, standing, hours):
    """All words are counted: draws change where the library's tables do, and nowhere between."""
    policy = tailored.policy(kind, standing=standing)
    client, at = Client(policy.for_clients()), ends(policy, hours)
    found = []
    for age, job in ((0, "a"), (31, "b"), (60, "c"), (100, "a"), (None, None), ("x", [1])):
        record, weights = {"age": age, "job": job, "hours": hours}, Counter()
        for low, high in pairwise(at):
            first, last = (frozenset(client.replay(record, [word]).items()) for word in (low, high - 1))
            assert first == last
            weights[first] += high - low
        told = {frozenset(sent.items()): share for sent, share in policy.outcomes(record)}
        assert {sent: Fraction(weight, WORD) for sent, weight in weights.items()} == told
        found.append(weights)
    bound = exp_below(policy.tailoring.randomiser.stated)
    assert all(weights.keys() == found[0].keys() for weights in found)
    assert all(max(w[key] for w in found) <= bound * min(w[key] for w in found) for key in found[0])
    assert len(found[0]) == 1 or any(weights != found[0] for weights in found)


def ends(policy, hours) -> list[int]:
    """Return the words from which on another region may be drawn where these are the hours, and 2^64."""
    places = np.array([[0, 0, hours]])
    case = ReachableRegions.of(policy.tailoring, places).case(0)
    if case is None or case.kernel is None:
        return [0, WORD]
    if isinstance(case.kernel, TwoLevelKernel):
        return sorted({case.kernel.low * i for i in range(case.kernel.points + 1)} | {0, WORD})
    found = {0, WORD}
    for table in case.kernel.tables:
        for column, entry in enumerate(table.entries.tolist()):
            first = column << (64 - table.bits)
            found |= {first, first + (entry >> table.bits)}
    return sorted(found)


@pytest.mark.parametrize("number", range(len(tailored.ABSURD)))
def test_no_sensitive_value_is_refused(number):
    """At an hour of 1 one region is within reach: what leaves is the same, whatever is true."""
    bad = tailored.ABSURD[number]
    client = Client(WORST.for_clients())
    usual = client.perturb({"age": 31, "job": "a", "hours": 1})
    for record in ({"age": bad, "job": bad, "hours": 1}, {"hours": 1, "job": bad}, {"age": bad, "hours": 1}):
        assert list(client.perturb(record).items()) == list(usual.items())
        assert list(ew.perturb(WORST, record).items()) == list(usual.items())
    if type(bad) in (type(None), str, bool, float, int):
        words = [WORD // 3] * client.words
        for hours in (2, 5):
            record = {"age": bad, "job": bad, "hours": hours}
            found = client.replay(record, words)
            assert found == record | of_the_library(WORST, record, words)


def test_absent_values_are_missing_and_do_not_show():
    client = Client(WORST.for_clients())
    for word in (0, WORD // 2, WORD - 1):
        absent = client.replay({"hours": 5}, [word])
        missing = client.replay({"job": None, "hours": 5, "age": None}, [word])
        assert list(absent.items()) == list(missing.items())


def test_public_columns_are_needed_and_pass_as_the_policy_says():
    client = Client(WORST.for_clients())
    with pytest.raises(ValueError, match="lacks 'hours', which the policy looks at"):
        client.perturb({"age": 31, "job": "a"})
    with pytest.raises(ValueError, match="does not name"):
        client.perturb(RECORD | {"Age": 31})
    for hours in ("six", None, 2**60, -7.5):
        assert client.perturb(RECORD | {"hours": hours})["hours"] == hours
    for hours in ([5], {"a": 5}, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="hours: passes, but"):
            client.perturb(RECORD | {"hours": hours})
    dropped = Policy((), None, WORST.tailoring, Pass((), ("hours",)))
    assert list(ew.perturb(dropped, RECORD | {"hours": [5]})) == ["age", "job"]
    silent = Policy((), None, WORST.tailoring, Pass(("id",)))
    with pytest.raises(ValueError, match="pass: lacks 'hours', at which the policy looks"):
        silent.for_clients()


def test_what_is_within_reach_sees_what_rules_release():
    """With a rule the true hours choose nothing: at the same released hours the same is within reach."""
    client = Client(tailored.policy("worst", rules=(tailored.RULE,)).for_clients())
    for word in (0, WORD // 2, WORD - 1):  # what the hours are released as
        sent = {hours: client.replay({"hours": hours, "age": 31, "job": "a"}, [word, WORD - 1]) for hours in (0, 7)}
        of_zero = [one["age"] for one in sent.values() if one["hours"] == 0]
        assert all(age == 7 / 15 * 100 for age in of_zero)  # the default
    released = client.replay({"hours": 7, "age": 31, "job": "a"}, [0, WORD - 1])
    assert released == {"hours": 0.0, "age": 7 / 15 * 100, "job": "b"}


def test_a_truth_among_numbers_is_released_as_the_library_does():
    rule = Rule(ew.Feature("hours", categories=(True, 2, 5)), "krr", Decimal(1), outside=2)
    assert len({each["hours"] for each in agree(tailored.policy("worst", rules=(rule,)), 100)}) == 3


def test_words_beyond_the_last_multiple_are_drawn_anew():
    policy = BY_HAND["worst, drawn"]
    client = Client(policy.for_clients())
    few = [WORD - 1, WORD - 1, 5]
    record = next(
        record for record in ({"age": age, "job": job, "hours": 5} for age in range(0, 100, 5) for job in "abc")
        if client.replay(record, few) == record | of_the_library(policy, record, few)
        and takes(policy, record, few) == 3
    )  # fmt: skip
    with pytest.raises(ValueError, match="drawn anew"):
        client.replay(record, few[:2])
    with pytest.raises(ValueError, match="words: must be 2"):
        client.replay(record, few[:1])


def test_fresh_words_do_not_end_where_one_is_drawn_anew(monkeypatch):
    client, record = Client(BY_HAND["worst, drawn"].for_clients()), RECORD | {"age": 50}
    drawn = iter([b"\xff", b"\xff", b"\x05"])
    monkeypatch.setattr("os.urandom", lambda size: next(drawn) * size)
    anew = client.perturb(record)
    assert list(drawn) == []
    five = int.from_bytes(b"\x05" * 8, "little")
    assert anew == client.replay(record, [WORD - 1] * 4 + [five])


def takes(policy, record, words) -> int:
    """Return how many words the library takes."""
    source = Given(words)
    perturbation = Perturbation(policy, source)
    places = {name: column.places([record[name]]) for name, column in perturbation.seen.items()}
    assert list(perturbation.draw({}, places))
    return source.at


@pytest.mark.parametrize("name", TAMPERED)
def test_policies_that_were_tampered_with_are_refused(name):
    if name.startswith("fine"):
        assert Client(TAMPERED[name]).perturb(RECORD)
        return
    with pytest.raises(ValueError, match=r"\w"):
        Client(TAMPERED[name])


def test_rows_beyond_epsilon_are_refused():
    rows, bound = GAIN.tailoring.randomiser.kernel.rows, exp_below(Fraction(1))
    prove(rows, bound)
    ratio = GAIN.tailoring.randomiser.kernel.ratio()
    prove(rows, ratio)
    with pytest.raises(ValueError, match=r"more than e\^epsilon"):
        prove(rows, ratio - Fraction(1, 10**30))
    with pytest.raises(ValueError, match="add up"):
        prove([[WORD - 1, 0], [WORD, 0]], bound)


def test_what_is_remembered_of_public_columns_is_bounded(monkeypatch):
    records = [RECORD | {"hours": hours} for hours in (0, 1, 2, 7)]
    expected = [Client(WORST.for_clients()).replay(record, [5]) for record in records]
    monkeypatch.setattr("epsworth.client.tailored.MOST_CONTEXTS", 2)
    client = Client(WORST.for_clients())
    for _ in range(3):
        assert [client.replay(record, [5]) for record in records] == expected
        assert len(client._tailored._reach) <= 2


def test_large_policies_are_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr("epsworth.policy.client_files.LONGEST", 1000)
    with pytest.raises(ValueError, match="the policy takes 0 MiB as JSON, and devices read 0; tailor with a smaller"):
        WORST.for_clients()


@pytest.mark.slow
def test_a_policy_made_for_a_classifier_runs_on_a_device():
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    table = rng.random((400, 4))
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(table, table.sum(axis=1) > 2)
    policy = ew.tailor(model, table, sensitive=[0, 1], epsilon=Decimal(3), rng=0, public=True).policy
    agree(policy, 60)
    kept = [
        model.predict([[sent[f"x{j}"] for j in range(4)]])[0] == label
        for row, label in zip(table[:200].tolist(), model.predict(table[:200]), strict=True)
        for sent in [ew.perturb(policy, {f"x{j}": value for j, value in enumerate(row)})]
    ]
    assert np.mean(kept) > 0.8  # .95 or more are kept on average: below .8 of 200 by chance less often than 1e-12
