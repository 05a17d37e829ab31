"""`Central`: what is promised, to whom, and what is refused."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

import epsworth as ew
from epsworth.guarantees import Approximate, Central, Probabilistic, Pure, compose, local_epsilon, shuffled

ASKED = {"users": 10_000, "delta": 1e-6}


def test_the_promise_says_against_whom_it_holds_and_what_holds_otherwise():
    assert str(shuffled(1.0, **ASKED)) == (
        "central, behind a trusted shuffler: epsilon 0.0432062, delta 0.000001, for whoever sees only a shuffled batch "
        "of 10,000 honest reports of epsilon 1 each; against the shuffler, or without one: epsilon 1."
    )
    told = str(shuffled(0.1, users=10_000, delta=1e-6, fakes=500).rounds(3))
    assert "only 3 shuffled batches of 9,500 honest reports of epsilon 0.1 each, one of everybody in each" in told
    assert told.endswith("or without one: epsilon 0.300001.")  # three times the double 0.1, rounded up


def test_a_central_promise_is_no_local_one():
    found = shuffled(Pure(1.0, "record"), **ASKED)
    assert not isinstance(found, Pure | Approximate | Probabilistic)
    with pytest.raises(TypeError, match=r"got a Central one; use its rounds\(k\)"):
        compose([Pure(1.0), found])
    with pytest.raises(AttributeError):
        found.epsilon = 0.1
    assert found.neighbours == "one record replaced"


def test_a_promise_is_saved_and_loaded(tmp_path):
    found = shuffled(1.0, **ASKED, mechanism="krr", symbols=64, fakes=3).rounds(2)
    found.save(tmp_path / "c.json")
    assert Central.load(tmp_path / "c.json") == found
    document = found.to_dict()
    assert document["adjacency"] == "one record replaced"
    assert document["lower_bound"] == found.lower_bound
    assert "against it only local_epsilon" in document["trust"]
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="damaged or incomplete"):
        Central.load(tmp_path / "other.json")
    for name, value in (("epsilon", 9), ("epsilon", "1"), ("delta", 2), ("users", 1.5), ("batches", 0), ("fakes", -1)):
        (tmp_path / "other.json").write_text(json.dumps(document | {name: value}))
        with pytest.raises(ValueError, match=f"{name} must"):
            Central.load(tmp_path / "other.json")


def test_a_law_is_told_apart_from_the_bound_for_all():
    assert shuffled(1.0, **ASKED).bound == "any"
    own = shuffled(1.0, **ASKED, mechanism="krr", symbols=64)
    assert own.bound == "law"
    assert own.epsilon < shuffled(1.0, **ASKED).epsilon
    assert shuffled(1.0, **ASKED, mechanism="krr", symbols=2).bound == "any"
    assert shuffled(1.0, **ASKED, mechanism="ternary").bound == "any"  # below ln 3
    assert shuffled(2.0, **ASKED, mechanism="hadamard").bound == "any"  # of two classes
    assert shuffled(2.0, **ASKED, mechanism="hadamard", symbols=3).bound == "law"
    assert shuffled(1.0, users=10_000, delta=1e-13, mechanism="oue").bound == "any"  # no transform is so exact


def test_what_no_analysis_gets_below_is_below():
    found = shuffled(1.0, **ASKED)
    assert found.tightness == "No analysis of all such mechanisms gets below 0.0379979."
    assert 0.0379979 <= found.lower_bound < found.epsilon
    assert shuffled(2.0, **ASKED, mechanism="ternary").tightness == ""
    assert shuffled(1e-5, **ASKED).tightness == ""  # nothing is told, as far as delta sees


def test_fakes_and_colluders_hide_nobody():
    assert shuffled(1.0, users=10_000, delta=1e-6, fakes=4000).epsilon == shuffled(1.0, users=6000, delta=1e-6).epsilon
    several = [shuffled(1.0, **ASKED, fakes=f).epsilon for f in (0, 1, 100, 9000, 9998)]
    assert several == sorted(several)
    assert local_epsilon(0.1, delta=1e-6, users=10_000, fakes=4000) == local_epsilon(0.1, delta=1e-6, users=6000)


def test_rounds_add_up_to_no_more_than_their_sum():
    one = shuffled(1.0, users=100_000, delta=1e-6)
    found = [one.rounds(k) for k in (1, 2, 4, 8)]
    assert [each.batches for each in found] == [1, 2, 4, 8]
    assert [round(each.epsilon, 4) for each in found] == [0.0124, 0.0181, 0.0264, 0.0383]
    assert all(each.delta == 1e-6 for each in found)
    assert shuffled(1.0, users=2, delta=1e-9).rounds(3).epsilon == pytest.approx(3, rel=1e-6)
    with pytest.raises(ValueError, match="rounds is of one batch, this promise is of 2; begin with one"):
        found[1].rounds(2)
    with pytest.raises(ValueError, match="k must be a whole number from 1 to 10000, got 0"):
        one.rounds(0)


def test_a_large_delta_is_warned_about():
    with pytest.warns(UserWarning, match="1 of 10 records may be published"):
        shuffled(1.0, users=10, delta=0.1)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("users must be at least 2, got 1: one report hides among none", {"users": 1}),
        ("users must be a whole number from 0 to 9007199254740992, got 2.5", {"users": 2.5}),
        ("users must be a whole number from 0 to 9007199254740992, got True", {"users": True}),
        ("fakes must be below 9,999, got 9,999 of 10,000 users", {"fakes": 9999}),
        ("fakes must be a whole number of at least 0, got -1", {"fakes": -1}),
        ("delta must lie strictly between 0 and 1, got 0: shuffling amplifies no pure guarantee", {"delta": 0}),
        ("delta must lie strictly between 0 and 1, got None: shuffling amplifies no pure", {"delta": None}),
        ("delta must lie strictly between 0 and 1, got 1; take one well below", {"delta": 1}),
        ("delta must lie strictly between 0 and 1, got nan", {"delta": math.nan}),
        ("delta must lie strictly between 0 and 1, got '1e-6'", {"delta": "1e-6"}),
        ("mechanism must be one of any, krr, oue, ternary, hadamard, got 'laplace'", {"mechanism": "laplace"}),
        ("symbols is missing: the bound of krr depends on", {"mechanism": "krr"}),
        ("symbols must be a whole number of at least 2, got 1", {"mechanism": "krr", "symbols": 1}),
        ("symbols is for krr, and for the classes of hadamard, not for oue", {"mechanism": "oue", "symbols": 9}),
    ],
)
@pytest.mark.cases("all")
def test_what_no_bound_is_known_for_is_refused_in_a_sentence(words, given):
    for ask in (lambda **kind: shuffled(1.0, **kind), lambda **kind: local_epsilon(0.1, **kind)):
        with pytest.raises(ValueError, match="^" + re.escape(words)):
            ask(**ASKED | given)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan, "1", True, np.array([1.0, 2.0])])
@pytest.mark.cases("all")
def test_epsilons_that_are_none_are_refused(epsilon):
    with pytest.raises(ValueError, match="local must be positive and finite"):
        shuffled(epsilon, **ASKED)
    with pytest.raises(ValueError, match="epsilon must be positive and finite"):
        local_epsilon(epsilon, **ASKED)


def test_promises_that_are_not_pure_are_refused():
    for promise in (Approximate(1.0, 1e-6), Probabilistic(1.0, 1e-6), shuffled(1.0, **ASKED)):
        with pytest.raises(TypeError, match="local must be a Pure promise or its epsilon, got"):
            shuffled(promise, **ASKED)
    with pytest.raises(ValueError, match="epsilon must be below 60, got 60"):
        local_epsilon(60, **ASKED)


def test_whole_numbers_of_any_kind_are_taken():
    assert ew.shuffled(1, users=np.int64(10_000), delta=np.float64(1e-6)) == shuffled(1.0, **ASKED)


def test_beyond_what_hides_anything_the_local_epsilon_stands():
    for local in (61.0, 710.0, 1e308):
        for law in ({}, {"mechanism": "krr", "symbols": 4}, {"mechanism": "oue"}):
            assert shuffled(local, users=100, delta=1e-6, **law).epsilon == local


def test_a_delta_that_publishes_records_is_told_how_many():
    with pytest.warns(UserWarning, match="1,000 of 1,000,000,000 records may be published"):
        shuffled(1.0, users=10**9, delta=1e-6)
