"""Faults of doors and of sources of words: each column by itself, calls of few rows, forks, keyed words, raw values."""

from __future__ import annotations

import os
from decimal import Decimal

import numpy as np
import pytest

import epsworth as ew
from epsworth.bounds import Risk
from epsworth.mechanisms import words
from epsworth.mechanisms.words import KeyedWords, SystemWords
from epsworth.policy import Policy, Sampling, audit_policy
from epsworth.policy.audit import cases
from epsworth.policy.audit.cases import Columns, agreeing, audit_sources, index_of, raw, repeats
from epsworth.policy.columns import Column
from epsworth.policy.files.file_tables import PartWords
from epsworth.policy.rules import Rule

AGE = Rule(ew.Feature("age", -5, 100, missing=1.0), "pm", Decimal(1), bits=4)
JOB = Rule(
    ew.Feature("job", categories=("clerk", "nurse", "other"), missing="other"), "krr", Decimal(1), outside="other"
)
POLICY = Policy((AGE, JOB))
CALLS = 1024


def seeded(bits):
    """Return a source of words that has as many seeds."""

    def take(self, count):
        if not hasattr(self, "_generator"):
            seed = int.from_bytes(os.urandom(4), "little") % (1 << bits)
            self.__dict__["_generator"] = np.random.Generator(np.random.PCG64(seed))
        return self._generator.integers(0, 2**64, count, dtype=np.uint64)

    return take


def few(source):
    usual = SystemWords.take
    return lambda self, count: source(count) if count <= 16 else usual(self, count)


ONE = np.random.default_rng(1)


def shared(count):
    return ONE.integers(0, 2**64, count, dtype=np.uint64)


def of_two_bytes(count):
    return np.random.default_rng(int.from_bytes(os.urandom(2), "little")).integers(0, 2**64, count, dtype=np.uint64)


SOURCES = {
    "12 bits": lambda: seeded(12),
    "16 bits": lambda: seeded(16),
    "few words of one generator, which a fork inherits": lambda: few(shared),
    "few words of seeds of 16 bits": lambda: few(of_two_bytes),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.cases(1)
def test_words_that_come_twice_are_found(name, monkeypatch):
    """Seeds of 16 bits are missed with probability e^-128, and a faultless source fails with probability 5e-11."""
    monkeypatch.setattr(SystemWords, "take", SOURCES[name]())
    assert not audit_sources(Risk(1e-9)).passed


def test_faultless_words_pass():
    assert audit_sources(Risk(1e-9)).passed


KEYED = {
    "the key": lambda self, key, identity: (bytes(32), identity),
    "what is drawn": lambda self, key, identity: (key, ""),
}


@pytest.mark.parametrize("name", KEYED)
def test_parts_whose_words_ignore_something_are_found(name, monkeypatch):
    usual = PartWords.__init__
    monkeypatch.setattr(PartWords, "__init__", lambda *told: usual(told[0], *KEYED[name](*told)))
    assert not audit_sources(Risk(1e-9)).passed


@pytest.mark.parametrize("name", ["index", "digest", "keys of words", "drawn again"])
@pytest.mark.cases(1)
def test_parts_whose_words_ignore_where_they_stand_are_found(name, monkeypatch):
    usual, keyed = PartWords.__call__, KeyedWords.__init__
    made = {
        "index": (PartWords, "__call__", lambda self, index, digest: usual(self, 0, digest)),
        "digest": (PartWords, "__call__", lambda self, index, digest: usual(self, index, bytes(32))),
        "keys of words": (KeyedWords, "__init__", lambda self, key: keyed(self, bytes(32))),
        "drawn again": (KeyedWords, "__init__", lambda self, key: keyed(self, os.urandom(32))),
    }
    monkeypatch.setattr(*made[name])
    assert not audit_sources(Risk(1e-9)).passed


def columns(bits, count=3):
    """Return columns of 16 values, each of a source of its own with so many seeds."""

    def release(rows):
        found = []
        for _ in range(count):
            seed = int.from_bytes(os.urandom(4), "little") % (1 << bits)
            found.append(np.random.default_rng(seed).integers(0, 16, rows))
        return found

    agree = [agreeing(ew.Policy.of("krr", "0.001", ew.Domain.of({"n": list(range(16))})).rules[0].kernel, 0)] * count
    return Columns(release, ["a", "b", "c"][:count], agree)


def test_few_seeds_of_every_column_are_found_though_the_whole_never_repeats(monkeypatch):
    """12 bits: 1,024 calls collide 128 times in each of three columns, and the whole once in 10^5 tries."""
    monkeypatch.setattr("epsworth.policy.audit.black_box.CALLS", CALLS)
    found = list(repeats(columns(12), 4096, Risk(1e-9)))
    assert any(replay.fault and replay.attempt.startswith("1,024 calls") for replay in found)


def test_columns_of_system_words_pass(monkeypatch):
    monkeypatch.setattr("epsworth.policy.audit.black_box.CALLS", 256)
    found = list(repeats(columns(32, 2), 4096, Risk(1e-9)))
    assert not any(replay.fault for replay in found)


@pytest.mark.slow
def test_a_column_too_coarse_for_few_rows_is_told():
    audit = audit_policy(POLICY)
    assert audit.passed, str(audit)
    assert "of 16 rows each (too few for 'job')" in str(audit)


def test_the_chance_of_equal_draws_is_summed_from_the_weights():
    kernel = JOB.kernel
    shares = [weight / kernel.total(1) for weight in kernel.weights(1)]
    assert float(agreeing(kernel, 1)) == pytest.approx(sum(share**2 for share in shares), rel=1e-12)
    assert cases.CALLED_ROWS[-1] == 4096


# ---- raw values


def remembered(monkeypatch, told):
    """Let a column draw its first output for the values that ``told`` marks."""
    encode, draw = Column.encode, Column.draw
    resolve, numbers = Column.resolve, Column.encode_numbers

    def marked(usual):
        def call(self, given, first=0):
            self.__dict__["marked"] = told(self, np.asarray(given))
            return usual(self, given, first)

        return call

    def drawn(self, inputs, words=None):
        found, at = np.array(draw(self, inputs, words)), self.__dict__.get("marked")
        if at is not None and at.shape == found.shape:
            found[at] = len(self.values) - 1
        return found

    assert encode is Column.encode
    monkeypatch.setattr(Column, "resolve", marked(resolve))
    monkeypatch.setattr(Column, "encode_numbers", marked(numbers))
    monkeypatch.setattr(Column, "draw", drawn)


MARKS = {
    "minus zero": lambda column, given: (given == 0) & np.signbit(given) if given.dtype.kind == "f" else given > 9,
    "above": lambda column, given: given > column.feature.upper if given.dtype.kind == "f" else given > 9,
    "missing": lambda column, given: given != given,
    "undeclared": lambda column, given: given == -2,
}


@pytest.mark.parametrize("name", MARKS)
def test_a_value_that_a_door_draws_for_in_its_own_way_is_found(name, monkeypatch):
    """Marked rows keep their outcome by chance: at least 16 of them, all together with probability below 1e-3."""
    remembered(monkeypatch, MARKS[name])
    (check,) = raw(POLICY)
    assert not check.passed


def test_a_client_that_takes_another_place_is_found(monkeypatch):
    from epsworth.client import door

    usual = door._Feature.index
    monkeypatch.setattr(door._Feature, "index", lambda self, value: 15 if value == 0 else usual(self, value))
    (check,) = raw(POLICY)
    assert "records" in check.says
    assert not check.passed


@pytest.mark.parametrize(
    "policy",
    [
        POLICY,
        Policy((AGE, JOB), Sampling(1)),
        Policy((AGE,), Sampling(1, "scaled")),
        Policy((Rule(ew.Feature("age", 0, 1e-300), "gaussian_clipped:delta=0.001", Decimal(1), bits=4),)),
        Policy((Rule(ew.Feature("age", -1e300, 1e300), "pm:quantise=5", Decimal(1)),)),
        Policy((Rule(ew.Feature("n", categories=(1, 2.5)), "krr", Decimal(1), outside=1),)),
        Policy((Rule(ew.Feature("n", categories=(False, True)), "krr", Decimal(1)),)),
    ],
)
def test_faultless_doors_pass(policy):
    (check,) = raw(policy)
    assert check.passed, check.says
    assert "arrays" in check.says


def test_an_index_is_found_by_the_policys_text():
    assert [index_of(AGE, value) for value in (None, -7, -5, 100, 1e308)] == [1, 0, 0, 15, 15]
    assert [index_of(JOB, value) for value in (None, "pilot", "nurse")] == [2, 2, 1]
    assert words.FEW == 16
