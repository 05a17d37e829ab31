"""The text of a policy, whoever wrote it, is read or refused in a moment."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
import pytest

from epsworth import Domain, Policy
from epsworth.policy.policy import check_text

TEXT = Policy.of("pm", "1", Domain.of({"age": (0, 100), "s": ["no", "yes"]}), per="feature", bits=8).to_toml()
PIECES = [
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    '"""',
    "'''",
    "\\",
    "#",
    "\n",
    "=",
    ".",
    ",",
    " ",
    "9",
    "e",
    "-",
    "nan",
    "age",
    "0x",
]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("bits = 8", "bits = " + "9" * 10**6, "features.age.bits: a number has 1,000,000 characters, the most is 40"),
        ("bits = 8", "bits = 0x" + "f" * 10**5, "features.age.bits: a number has 100,002 characters"),
        ("bits = 8", "bits = " + "9" * 30, "features.age.bits: must be a whole number from 1 to 16"),
        ("lower = 0.0", "lower = nan", "features.age.lower: must be a finite number"),
        ("lower = 0.0", "lower = 1e999999", "features.age.lower: must be a finite number"),
        ("lower = 0.0", "lower = 0." + "1" * 39, "features.age.lower: a number has 41 characters"),
        ("lower = 0.0", "lower = " + "[" * 17, "features.age.lower: brackets are nested more than 16 deep"),
        ("version = 1", "version = " + "{a=" * 10**5, "version: brackets are nested more than 16 deep"),
        ("version = 1", "version = 1 # " + "x" * (1 << 20), "longer than 1 MiB"),
        ("version = 1", ".".join("a" * 10**5) + " = 1", "more than 32 parts"),
    ],
)  # fmt: skip
def test_hostile_policies_are_refused_in_a_moment(old, new, told):
    assert old in TEXT
    started = time.process_time()
    with pytest.raises(ValueError, match=told) as refused:
        Policy.from_toml(TEXT.replace(old, new, 1))
    assert time.process_time() - started < 1
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "text", ['a = "' + "[" * 99 + '"', "a = '''\n[[[{{{''' # " + "[" * 99, 'a = "\\"' + "[" * 50 + '"']
)
def test_brackets_in_texts_and_comments_do_not_nest(text):
    check_text(text + "\n")


@pytest.mark.parametrize("text", ['"""\\', '"\\"', "'''", '"', "[],", "1 ", "#\n", '""""""'])
@pytest.mark.cases(1)
def test_no_letter_is_looked_at_more_than_a_few_times(text):
    started = time.process_time()
    with suppress(ValueError):
        check_text(text * ((1 << 20) // len(text)))
    assert time.process_time() - started < 3


def test_names_and_texts_may_be_longer_than_numbers():
    domain = Domain.of({"9" * 41: (0, 1), "s": ["1" * 41, "no"]})
    policy = Policy.of("pm", "1", domain, per="feature", bits=2)
    assert Policy.from_toml(policy.to_toml()).fingerprint == policy.fingerprint


def test_whatever_is_read_is_a_policy_or_refused_in_a_sentence():
    rng = np.random.default_rng(0)
    for _ in range(400):
        at, size = int(rng.integers(len(TEXT))), int(rng.integers(0, 30))
        middle = "".join(rng.choice(PIECES, int(rng.integers(1, 60))))
        text = TEXT[:at] + middle + TEXT[at + size :]
        with suppress(ValueError):  # any other error fails
            assert Policy.from_toml(text).guarantee.epsilon > 0
