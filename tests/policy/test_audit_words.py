"""Faults that hide in few inputs, few words or between rows are caught, and our kernels do what their runs say.

What is compared word by word cannot fail by chance; patterns and repeats state 1e-9 each.
"""

from __future__ import annotations

import os
from dataclasses import fields

import numpy as np
import pytest

from epsworth import Domain
from epsworth.bounds import Risk
from epsworth.mechanisms import KERNELS, Kernel, kernel
from epsworth.mechanisms.two_level import TwoLevelKernel
from epsworth.mechanisms.words import SystemWords
from epsworth.policy import Policy, audit_policy, audit_sampler
from epsworth.policy.audit.black_box import many_calls
from epsworth.policy.audit.serial import LENGTH, dependence
from epsworth.policy.audit.words import Given, Recorded, Rows, all_inputs, audit_words, excluded, followed

AGE = Domain.of({"x0": (0, 100)})
CATEGORIES = ("krr", "exponential", "exponential_tight", "pb_grr")


def ours(name: str, bits: int) -> Kernel:
    return kernel(name, "1.3", **({"k": 1 << bits} if name in CATEGORIES else {"bits": bits}))


def planted(kind: type[TwoLevelKernel], bits: int = 8, mechanism: str = "pm") -> Policy:
    policy = Policy.of(mechanism, "1", AGE, bits=bits)
    right = policy.rules[0].kernel
    policy.rules[0].__dict__["kernel"] = kind(*(getattr(right, f.name) for f in fields(right)))
    return policy


def faults(policy: Policy) -> set[str]:
    audit = audit_policy(policy)
    return {c.name for c in (*audit.features[0].checks, *audit.record) if not c.passed}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.cases(1)
def test_runs_of_words_add_up_to_the_weights_and_draws_follow_them(name):
    """Every input of 16 points; some of 2,048, where the largest loss comes without a list of weights."""
    for part in (part for _, part in ours(name, 4).parts()):
        for i in range(part.points):
            told, weights = part.pieces(i).weights(), part.weights(i)
            assert part.pieces(i).whole()
            assert [a * sum(weights) for a in told] == [b * sum(told) for b in weights]
    rows = Rows(ours(name, 11))
    found, loss = audit_words(rows)
    assert found.passed, found.says
    assert loss is not None
    if name == "hybrid":
        assert loss >= rows.loss  # of two parts the larger ratio: a bound
    else:
        assert loss == rows.loss  # the ends and the middle are the worst inputs


def test_words_are_followed_row_by_row_through_rejections():
    for name in ("bounded_laplace", "hybrid", "krr", "staircase"):
        drawn, words = ours(name, 6), Recorded()
        inputs = np.random.default_rng(0).integers(0, drawn.points, 40_000)
        found, again = np.asarray(drawn.draw(inputs, words=words)), words.again()
        assert np.array_equal(found, followed(drawn, inputs, again))
        assert not again.left.size


class OneInputLeaks(TwoLevelKernel):
    """Right but for one input in the middle of nowhere, which is released as it is in 5 % of its words."""

    def outcomes(self, inputs, source):
        words = source.take(inputs.size)
        drawn = super().outcomes(inputs, Given(words))
        drawn[(inputs == 1234 % self.points) & (words % np.uint64(20) == 0)] = 1234 % self.points
        return drawn


class TwoRowsShareAWord(TwoLevelKernel):
    def draw(self, inputs, *, words=None):
        taken = (words or SystemWords()).words(np.size(inputs)).copy()
        if taken.size > 8:
            taken[8] = taken[7]
        return self.outcomes(np.asarray(inputs), Given(taken))


class RowsOutOfOrder(TwoLevelKernel):
    """The records of a call come back in another order: every output is right, of somebody else."""

    def draw(self, inputs, *, words=None):
        at = np.arange(np.size(inputs))
        at[100:200] = at[100:200][::-1]
        return np.asarray(super().draw(np.asarray(inputs)[at], words=words))


class EndOfALevel(TwoLevelKernel):
    """One word of 2^64 leads to the neighbour: the last one of the first output's piece."""

    def outcomes(self, inputs, source):
        words = source.take(inputs.size)
        drawn = super().outcomes(inputs, Given(words))
        drawn[words == np.uint64(self.low - 1)] += 1
        return drawn


class SharedAtALag(TwoLevelKernel):
    """One word in twenty is used again 777 rows later, beyond the reach of a recorder."""

    def draw(self, inputs, *, words=None):
        if words is not None:
            return super().draw(inputs, words=words)
        taken = SystemWords().words(np.size(inputs)).copy()
        again = np.flatnonzero(taken[: max(0, taken.size - 777)] % np.uint64(20) == 0) + 777
        taken[again] = taken[again - 777]
        return self.outcomes(np.asarray(inputs), Given(taken))


class FewSeeds(TwoLevelKernel):
    bits = 16

    def draw(self, inputs, *, words=None):
        if words is not None:
            return super().draw(inputs, words=words)
        seed = int.from_bytes(os.urandom(4), "little") % (1 << self.bits)
        taken = np.random.Generator(np.random.PCG64(seed)).integers(0, 2**64, np.size(inputs), dtype=np.uint64)
        return self.outcomes(np.asarray(inputs), Given(taken))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (OneInputLeaks, {"words"}), (EndOfALevel, {"words"}), (TwoRowsShareAWord, {"rows"}), (RowsOutOfOrder, {"rows"}),
        (SharedAtALag, {"serial"}), (FewSeeds, {"replay"}),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_fault_that_hides_is_caught(fault, told):
    """Missed with probability below 1e-9: at 256 inputs 4,096 words each are tried."""
    assert told <= faults(planted(fault))


@pytest.mark.slow
def test_one_input_of_65536_that_leaks_in_a_twentieth_of_its_words_is_caught():
    """256 words each: missed with probability 2e-6."""
    assert "words" in faults(planted(OneInputLeaks, bits=16))


@pytest.mark.slow
def test_what_is_excluded_is_told():
    assert excluded(1 << 16) == pytest.approx(0.1243, abs=1e-4)
    audit = audit_policy(Policy.of("krr", "1", Domain.of({"s": ["no", "yes"]})))
    assert audit.features[0].excluded == excluded(2) < 0.006
    assert "faults in over 0.5" in str(audit)
    assert audit.to_dict()["features"][0]["excluded"] == excluded(2)


def test_all_inputs_are_compared_not_the_ends_alone():
    """A window that is heavier for one input in the middle: its runs overlap, and no list of weights holds it."""

    class Heavier(TwoLevelKernel):
        def pieces(self, i):
            found = super().pieces(i)
            found.step[1, np.atleast_1d(i) == 700] += np.uint64(self.low)
            return found

    right = kernel("pm", "1", bits=11)
    wrong = Heavier(*(getattr(right, f.name) for f in fields(right)))
    assert all_inputs(Rows(wrong)) > all_inputs(Rows(right))
    assert not audit_words(Rows(wrong))[0].passed


# ---- between rows


@pytest.mark.parametrize(("name", "epsilon"), [("pm", "1"), ("krr", "10"), ("duchi", "8"), ("staircase", "1")])
def test_independent_draws_show_no_pattern(name, epsilon):
    """False alarm 1e-9 each; of answers that are nearly always the same, rare ones decide nothing."""
    drawn = kernel(name, epsilon, **({"k": 2} if name == "krr" else {"bits": 16}))
    found = dependence([drawn.draw(np.full(LENGTH, drawn.points // 2)) for _ in range(2)])
    assert not found.fault, str(found)


@pytest.mark.parametrize(("lag", "share"), [(1, 0.1), (777, 0.05), (40_000, 0.1)])
def test_words_shared_at_a_lag_are_seen(lag, share):
    """Seeded: 13 standard deviations are expected of the least one, 8.4 are the limit."""
    rng, drawn = np.random.default_rng(1), kernel("pm", "1", bits=16)
    words = rng.integers(0, 2**64, LENGTH, dtype=np.uint64)
    at = np.flatnonzero(rng.random(LENGTH - lag) < share)
    words[at + lag] = words[at]
    found = dependence([drawn.outcomes(np.full(LENGTH, 1 << 15), Given(words))])
    assert found.fault
    assert found.lag == lag


def test_columns_that_share_their_words_are_seen():
    rng, drawn = np.random.default_rng(2), kernel("pm", "1", bits=16)
    words = rng.integers(0, 2**64, LENGTH, dtype=np.uint64)
    columns = [drawn.outcomes(np.full(LENGTH, 1 << 15), Given(words)) for _ in range(2)]
    found = dependence(columns)
    assert found.fault
    assert found.lag == LENGTH


def test_the_limit_is_paid_for_by_the_risk():
    """Four functions, two signs, all lags: each may miss with its share alone, of Freedman's bound."""
    found = dependence([np.random.default_rng(3).integers(0, 2, 1000)], Risk(1e-6))
    assert found.chance == pytest.approx(1e-6)
    exponent = np.log(8 * 999 / 1e-6)
    assert found.limit >= np.sqrt(2 * exponent)


@pytest.mark.parametrize("bits", [16, 18, 20])
def test_few_seeds_collide(bits):
    """4,096 calls: 125, 30 and 8 collisions are expected, of fixed seeds."""
    pick = np.random.default_rng(4)

    def sampler(values):
        return np.random.Generator(np.random.PCG64(int(pick.integers(1 << bits)))).random(values.shape)

    found = many_calls(sampler, np.zeros(1000), Risk(1e-9))
    assert found.fault
    assert found.chance < 1e-9


def test_answers_that_agree_by_chance_are_no_seed():
    found = many_calls(lambda x: (np.random.default_rng().random(x.shape) < 1e-4) * 1.0, np.zeros(1000), Risk(1e-9))
    assert found.same is None
    assert not found.fault
    assert "could tell nothing" in str(found)


def test_a_sampler_whose_rows_depend_is_told_as_a_black_box():
    rng = np.random.default_rng(5)

    def walk(values):
        return np.cumsum(rng.normal(size=values.shape))

    audit = audit_sampler(walk, [0.0, 1.0], draws=4000)
    assert audit.serial.fault
    assert not audit.passed
    assert any("they depend on each other" in finding for finding in audit.findings)
