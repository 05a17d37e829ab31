"""The audit of tailored policies: it passes ours, and catches what is planted."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from epsworth.mechanisms import kernel
from epsworth.mechanisms.regions import RegionKernel
from epsworth.policy import Policy, audit_policy
from epsworth.policy.audit import cases
from epsworth.tailored import randomisers
from epsworth.tailored.mechanism import ReachableRegions
from epsworth.tailored.randomisers import Average, ConditionalKernel, Gain, Worst
from tailored import RULE, policy, steps


@pytest.fixture(autouse=True)
def _fewer_draws(monkeypatch):
    from epsworth.policy.audit import policy_audit

    monkeypatch.setattr(policy_audit, "DRAWS", 1 << 13)
    monkeypatch.setattr(cases, "DRAWS", 1 << 13)


@pytest.mark.parametrize("rules", [(), (RULE,)])
@pytest.mark.parametrize("kind", ["worst", "average", "gain"])
@pytest.mark.slow
def test_tailored_policies_pass(kind, rules):
    """False alarm: 1e-6 each (`Audit.false_alarm`)."""
    given = policy(kind, rules=rules, draw=True)
    told = []
    audit = audit_policy(given, progress=told.append)
    assert audit.passed, str(audit)
    assert told[-1] == 1
    region = audit.features[-1]
    assert (region.feature, region.mechanism, region.inputs) == ("age, job", f"tailored ({kind})", 3)
    assert 0.99 < region.found <= region.quoted <= 1
    assert len(audit.features) == len(rules) + 1
    assert 0 < audit.false_alarm <= 1e-6
    (total,) = (check for check in audit.record if check.name == "record")
    assert f"epsilon {'1.5' if rules else '1'}" in total.says
    assert json.loads(json.dumps(audit.to_dict(), allow_nan=False))["passed"] is True


def named(audit, name):
    checks = [check for feature in audit.features for check in feature.checks] + list(audit.record)
    return [check.passed for check in checks if check.name == name]


@pytest.mark.slow
def test_a_kernel_of_more_regions_than_are_within_reach_is_caught(monkeypatch):
    monkeypatch.setattr(
        Worst, "_case", lambda self, leaf, present: ConditionalKernel(present, kernel("krr", "1", k=self.count))
    )
    assert False in named(audit_policy(policy()), "kernels")


@pytest.mark.slow
def test_a_part_of_a_matrix_that_was_divided_by_its_sum_is_caught(monkeypatch):
    """Rows (.0544, .2, .7456), (.02, .5437, .4363) keep 1, and 1.8 without their last column."""

    def divided(kernel, present, instead):
        rows = []
        for region in present:
            weights = [kernel.weights(region)[y] for y in present]
            rows.append([weight * 2**64 // sum(weights) for weight in weights])
            rows[-1][0] += 2**64 - sum(rows[-1])
        return rows

    monkeypatch.setattr(randomisers, "folded", divided)
    monkeypatch.setattr(RegionKernel, "prove", lambda self: None)
    assert False in named(audit_policy(policy("gain")), "kernels")


@pytest.mark.slow
def test_columns_that_are_not_moved_as_the_policy_says_are_caught(monkeypatch):
    def elsewhere(kernel, present, instead):
        return [tuple([2**64 - 1] + [0] * (len(present) - 2) + [1])] * len(present)

    monkeypatch.setattr(randomisers, "folded", elsewhere)
    assert False in named(audit_policy(policy("gain")), "kernels")


@pytest.mark.slow
def test_a_case_of_too_many_regions_is_caught(monkeypatch):
    monkeypatch.setattr(Average, "_case", lambda self, leaf, present: self._response(tuple(present)))
    assert False in named(audit_policy(policy("average")), "kernels")


@pytest.mark.slow
def test_a_region_that_decides_what_is_within_reach_is_caught(monkeypatch):
    usual = ReachableRegions.shares

    def shares(self, context, true):
        return usual(self, context, true)[: 1 + true] if true < 2 else usual(self, context, true)

    monkeypatch.setattr(ReachableRegions, "shares", shares)
    assert False in named(audit_policy(policy()), "reach")


@pytest.mark.slow
def test_draws_of_another_row_are_caught(monkeypatch):
    usual = ConditionalKernel.draw
    monkeypatch.setattr(ConditionalKernel, "draw", lambda self, true, words: usual(self, np.zeros_like(true), words))
    assert named(audit_policy(policy()), "draws") == [False]


@pytest.mark.slow
def test_a_kernel_of_another_epsilon_is_caught(monkeypatch):
    monkeypatch.setattr(randomisers, "krr", lambda stated, k: kernel("krr", "1.1", k=k))
    audit = audit_policy(policy())
    assert False in named(audit, "loss")
    assert not audit.passed


def test_draws_that_can_be_replayed_are_caught(monkeypatch):
    from epsworth.mechanisms.words import ReplayableWords

    usual = ConditionalKernel.draw
    monkeypatch.setattr(
        ConditionalKernel, "draw", lambda self, true, words: np.asarray(usual(self, true, ReplayableWords(1)))
    )
    assert False in named(audit_policy(policy()), "replay")


@pytest.mark.slow
def test_a_total_without_the_region_is_caught():
    given = policy(rules=[RULE])
    wrong = Policy.__new__(Policy)
    for name in ("rules", "sampling", "tailoring", "passing"):
        object.__setattr__(wrong, name, getattr(given, name))
    wrong.__dict__["guarantee"] = RULE.kernel.guarantee
    assert False in named(audit_policy(wrong), "record")


def test_a_record_with_one_region_alone_within_reach_is_no_fault():
    given = policy()
    alone = replace(given.tailoring, representatives=(np.array([[2, 0]]), *([np.empty((0, 2), dtype=np.int64)] * 2)))
    assert audit_policy(replace(given, tailoring=alone)).passed


def test_columns_of_a_record_count_as_one_draw():
    assert len(cases.mixed([np.arange(4), np.arange(4)])) == 4
    assert len(set(cases.mixed([np.repeat(np.arange(16), 3), np.tile(np.arange(3), 16)]).tolist())) == 48
    assert isinstance(policy("gain").tailoring.randomiser, Gain)
    assert steps().regions == 3
    assert policy().total == Decimal(1)
