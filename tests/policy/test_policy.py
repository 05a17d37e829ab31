"""Policies: exact numbers, round trips, totals, and a path in every refusal."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from datetime import date
from decimal import Decimal, FloatOperation, Inexact, localcontext
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import epsworth as ew
from epsworth.guarantees import compose
from epsworth.policy import Policy, Rule, Sampling

PEOPLE = ew.Domain.of({"age": (0, 100), "job": ["a", "b", "c"]})
TEXT = Policy.of("pm", "2", PEOPLE).to_toml()

decimals = st.decimals("0.01", "20", places=3)
numbers = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


@st.composite
def policies(draw):
    rules = []
    for name in draw(st.lists(st.text("abxyz .é", min_size=1, max_size=5), min_size=1, max_size=4, unique=True)):
        if draw(st.booleans()):
            kinds = draw(st.lists(st.integers(-5, 5) | st.text("pqr'\"\n", max_size=3), min_size=2, unique_by=str))
            instead = st.none() | st.sampled_from(kinds)
            feature = ew.Feature(name, categories=tuple(kinds))
            rules.append(Rule(replace(feature, missing=draw(instead)), "krr", draw(decimals), outside=draw(instead)))
        else:
            low = draw(numbers)
            feature = ew.Feature(name, low, low + draw(st.floats(0.5, 1e3)))
            words = draw(st.sampled_from(["pm", "sw", "krr:k=7", "pm:quantise=5"]))
            feature = replace(feature, missing=draw(st.none() | st.just(feature.lower)))
            if draw(st.booleans()):
                feature = replace(feature, lower=-3, upper=draw(st.integers(-2, 9)), missing=None, integer=True)
            rules.append(Rule(feature, words, draw(decimals)))
    sample = draw(st.none() | st.integers(1, len(rules)).map(Sampling))
    return Policy(tuple(rules), sample)


@given(policies())
def test_a_policy_survives_its_file(policy):
    again = Policy.from_toml(policy.to_toml())
    assert again == policy
    assert again.fingerprint == policy.fingerprint
    assert again.guarantee == policy.guarantee


@example(Policy([Rule(ew.Feature(name, 0, 1), "pm", epsilon) for name, epsilon in ("a1", "b2")], Sampling(1)))
@given(policies())
def test_the_promise_is_at_most_the_stated_total(policy):
    epsilons = sorted((Fraction(rule.epsilon) for rule in policy.rules), reverse=True)
    assert Fraction(policy.total) == sum(epsilons[: policy.released])
    assert policy.guarantee.epsilon <= float(policy.total) * (1 + 1e-15)
    assert policy.guarantee.unit == "record"


def test_the_promise_covers_any_features_that_are_released_together():
    domain = ew.Domain.of(dict.fromkeys("abcd", (0, 1)))
    words = ["pm", "gaussian_clipped:delta=0.1", "gaussian_clipped:delta=0.02", "gaussian_clipped:delta=0.001"]
    for k in (1, 2, 3):
        policy = Policy(
            [Rule(domain[name], word, epsilon, 4) for name, word, epsilon in zip("abcd", words, "3121", strict=True)],
            Sampling(k),
        )
        for together in combinations([rule.kernel.guarantee for rule in policy.rules], k):
            assert compose(together).epsilon <= policy.guarantee.epsilon
            assert compose(together).delta <= policy.guarantee.delta


def test_numbers_are_the_texts_they_were_written_as():
    policy = Policy.from_toml(TEXT.replace("epsilon = 1.0", "epsilon = 0.1").replace(fingerprint_line(TEXT), ""))
    assert [rule.kernel.epsilon for rule in policy.rules] == [Fraction(1, 10)] * 2  # the float 0.1 is larger
    written = {
        Policy.of("pm", epsilon, PEOPLE, per="feature").fingerprint for epsilon in ("1", 1, 1.0, "1.00", Decimal("1.0"))
    }
    assert len(written) == 1


def test_a_policy_does_not_follow_the_ambient_decimal_context():
    given = {"age": "1.23456", "job": "0.300000000000000000000000000007"}
    usual = Policy.of("pm", given, PEOPLE)
    split = Policy.of("pm", "1", ew.Domain.of(dict.fromkeys("abc", (0, 1))))
    assert usual.total == Decimal("1.534560000000000000000000000007")  # more digits than any default keeps
    with localcontext(prec=3, rounding="ROUND_DOWN", capitals=0, traps=[Inexact, FloatOperation]):
        here = Policy.of("pm", given, PEOPLE)
        assert Policy.of("pm", "1", ew.Domain.of(dict.fromkeys("abc", (0, 1)))) == split
        assert (str(here.total), here.fingerprint, str(here)) == (str(usual.total), usual.fingerprint, str(usual))
        assert Policy.from_toml(usual.to_toml()) == usual
        assert here.guarantee == usual.guarantee


def test_the_fingerprint_tells_every_policy_apart():
    kinds = [[1, 2], ["1", "2"], ["1", 2], ['"1', "2"], ['""1', "2"], [0.5, 2], ["1/2", 2], [True, 2], ["true", 2]]
    found = [Policy.of("krr", 1, ew.Domain.of({"job": {"categories": categories}})) for categories in kinds]
    assert len({policy.fingerprint for policy in found}) == len(kinds)
    assert all(Policy.from_toml(policy.to_toml()) == policy for policy in found)
    edited = found[0].to_toml().replace("1,", '"1",').replace("2,", '"2",')
    with pytest.raises(ValueError, match="fingerprint: states"):
        Policy.from_toml(edited)


def test_decimals_of_a_file_meet_the_decimals_of_a_table():
    policy = Policy((Rule(ew.Feature("dose", categories=(0.1, 0.2), missing=0.2), "krr", Decimal(200)),))
    read = Policy.from_toml(policy.to_toml())
    table = pl.DataFrame({"dose": [0.1, 0.2, None]})
    assert ew.perturb(read, table)["dose"].to_list() == [0.1, 0.2, 0.2]  # but for e^-200


@pytest.mark.parametrize("delta", ["1e-5", "0.013", "0.1"])
def test_an_approximate_policy_survives_its_file(delta):
    policy = Policy.of(f"gaussian_clipped:delta={delta}", "1", ew.Domain.of({"age": (0, 100)}), bits=6)
    assert policy.guarantee.delta > 0
    assert Policy.from_toml(policy.to_toml()).guarantee == policy.guarantee


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Policy.of("pm", 1, PEOPLE, sample=0), "sample.features: must be a whole number from 1 to 2, got 0"),
        (lambda: Policy(Policy.of("pm", 1, PEOPLE, per="feature").rules * 2), "two rules for 'age'"),
        (lambda: Policy.of("krr", 1, ew.Domain.of({"day": [date(2020, 1, 1), date(2020, 1, 2)]})), "as a text"),
    ],
)
def test_policies_that_say_two_things_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def fingerprint_line(text):
    return next(line for line in text.splitlines(keepends=True) if line.startswith("fingerprint"))


def test_a_split_never_exceeds_its_total():
    domain = ew.Domain.of(dict.fromkeys("abc", (0, 1)))
    for total in ("1", "0.1", "2.5", "7"):
        policy = Policy.of("pm", total, domain)
        assert Fraction(policy.total) <= Fraction(total)
        assert Fraction(policy.total) > Fraction(total) * (1 - Fraction(1, 10**9))


def test_an_epsilon_is_of_a_record_unless_a_word_says_otherwise(tmp_path):
    ranges = {"a": (0, 1), "b": (0, 2), "c": ["x", "y"]}
    ew.Domain.of(ranges).save(tmp_path / "ranges.toml")
    for domain in (ranges, ew.Domain.of(ranges), tmp_path / "ranges.toml", str(tmp_path / "ranges.toml")):
        assert Policy.of("pm", 3, domain).total == 3
        assert [rule.epsilon for rule in Policy.of("pm", 3, domain).rules] == [1, 1, 1]
        assert [rule.epsilon for rule in Policy.of("pm", 3, domain, per="feature").rules] == [3, 3, 3]
        assert Policy.of("pm", 3, domain, sample=2).total == 3  # two of three are sent, at 1.5 each
        assert Policy.of("pm", 3, domain, per="feature", sample=2).total == 6
        assert Policy.of("pm", {"a": 1, "b": 2, "c": "0.5"}, domain).total == Decimal("3.5")
    exact = "0.1234567890123456789"
    assert str(Policy.of("pm", exact, {"a": (0, 1)}).total) == exact  # one feature has it as it is written
    with pytest.raises(ValueError, match="per must be 'record' or 'feature', got 'row'"):
        Policy.of("pm", 3, ranges, per="row")


def test_released_subsets_cost_their_largest_members():
    rules = [Rule(ew.Feature(name, 0, 1), "pm", Decimal(e)) for name, e in zip("abc", "132", strict=True)]
    policy = Policy(tuple(rules), Sampling(2))
    assert policy.total == 5
    assert policy.guarantee.epsilon == pytest.approx(5, abs=1e-9)
    assert Policy(tuple(rules)).guarantee.epsilon == pytest.approx(6, abs=1e-9)


def test_deltas_are_those_of_the_worst_subset():
    rules = [
        Rule(ew.Feature("a", 0, 1), "gaussian_clipped:delta=0.01", Decimal(1), bits=8),
        Rule(ew.Feature("b", 0, 1), "pm", Decimal(3)),
    ]
    assert Policy(tuple(rules), Sampling(1)).guarantee.delta == pytest.approx(rules[0].kernel.guarantee.delta)
    assert Policy(tuple(rules), Sampling(1)).guarantee.epsilon == pytest.approx(3, abs=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version = 1", "version = 3", "version: this library reads version 1, got 3"),
        ("version = 1", "", "version: it is missing, and must be 1"),
        ("lower = 0.0", "lower = 100.0", r"features.age: upper \(100\) is not above lower"),
        ("lower = 0.0", "low = 0.0", "features.age.low: unknown entry; the entries are lower, upper"),
        (
            'mechanism = "pm"',
            'mechanism = "pn"',
            "age.mechanism: pn cannot be released: no integer kernel for 'pn'",
        ),
        ('mechanism = "pm"', 'mechanism = "laplace"', "features.age.mechanism: laplace cannot be released"),
        ('mechanism = "pm"', 'mechanism = "pm:indicator=0.1"', "the privacy indicator sends raw records"),
        ('mechanism = "pm"', "mechanism = 3", "features.age.mechanism: must be a name such as 'pm', got 3"),
        ('mechanism = "pm"\n', "", "features.age.mechanism: is missing"),
        ('mechanism = "krr"', 'mechanism = "pm"', "features.job.mechanism: pm cannot be released: pm does not keep"),
        ("epsilon = 1.0\nbits", "epsilon = 0\nbits", "features.age.epsilon: must be positive, got 0"),
        ("epsilon = 1.0\nbits", "epsilon = 701\nbits", r"age.epsilon must lie between 1e-09 and 700 .* got 701;"),
        ("epsilon = 1.0\nbits", "epsilon = 1e400\nbits", "age.epsilon must be positive and finite, got 1E.400;"),
        (
            "epsilon = 1.0\nbits",
            "epsilon = 1e-400\nbits",
            "age.epsilon must be .* .as a double., got 1E-400",
        ),
        ("epsilon = 1.0\nbits", "epsilon = inf\nbits", "features.age.epsilon: must be a finite number"),
        ("epsilon = 1.0\nbits", "epsilon = true\nbits", "features.age.epsilon: must be a finite number, got True"),
        ("epsilon = 1.0\nbits", "bits", "features.age.epsilon: is missing"),
        ("bits = 16", "bits = 40", "features.age.bits: must be a whole number from 1 to 16, got 40"),
        ("bits = 16", 'bits = 16\nmissing = "x"', "features.age: missing must be a number of the range"),
        ("bits = 16", "bits = 16\nmissing = 101", "features.age: missing is 101, outside the range 0 to 100"),
        ('outside = "clamp"', 'outside = "drop"', "features.age.outside: numbers outside the range are clamped"),
        ('"a",', '"a", "a",', "features.job: categories must be at least two different values"),
        (
            'mechanism = "krr"',
            'mechanism = "krr"\nmissing = "q"',
            "features.job: missing is 'q', which is not one of the",
        ),
        ("epsilon = 2.0", "epsilon = 1.5", "per_record.epsilon: states 1.5, but the features add up to 2"),
        ("epsilon = 2.0", 'epsilon = "2"', "per_record.epsilon: states '2'"),
        ('notion = "pure"', 'notion = "zero"', "per_record.notion: states 'zero', but it is 'pure'"),
        ("epsilon = 1.0\nbits", "epsilon = 0.5\nbits", "fingerprint: states .* delete the fingerprint line"),
        ("[per_record]", "[sample]\nfeatures = 3\n[per_record]", "sample.features: must be a whole number from 1 to 2"),
        ("[per_record]", "[sample]\nmany = 3\n[per_record]", "sample.many: unknown entry"),
        ("[per_record]", "[sample]\n[per_record]", "sample.features: is missing"),
        ("[per_record]", '[sample]\nfeatures = 1\nunsampled = "scaled"\n[per_record]', "categories cannot be scaled"),
        ("version = 1", "version = 1\nversion = 1", "Cannot overwrite a value"),
        ("epsilon = 2.0", "epsilon = nan", "per_record.epsilon: must be a finite number"),
        ("delta = 0.0", "delta = nan", "per_record.delta: must be a finite number"),
        ("version = 1", "version = nan", "version: must be a finite number"),
        (
            "epsilon = 1.0\nbits",
            "epsilon = 1e99999999\nbits",
            "features.age.epsilon: must be a finite number of modest",
        ),
        ("epsilon = 1.0\nbits", "epsilon = 1e-99999999\nbits", "features.age.epsilon: must be a finite number of mod"),
        ("epsilon = 1.0\nbits", 'epsilon = "1e99999999"\nbits', "features.age.epsilon: must have at most 400 digits"),
        ("lower = 0.0", "lower = -1e999999999999999999999", "no number that can be computed with"),
        ("version = 1", "version = " + "[" * 100_000, "version: brackets are nested more than 16 deep"),
        (
            "version = 1",
            "version = " + "{a = " * 100 + "1" + "}" * 100,
            "version: brackets are nested more than 16 deep",
        ),
    ],
)
def test_every_refusal_names_the_entry(old, new, message, tmp_path):
    assert old in TEXT
    path = tmp_path / "policy.toml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(ValueError, match=message) as refused:
        Policy.load(path)
    assert str(refused.value).startswith(f"policy {path}: ")
    assert "\n" not in str(refused.value)


def test_an_empty_or_absent_policy(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read the policy .*check the path"):
        Policy.load(tmp_path / "none.toml")
    with pytest.raises(ValueError, match="features: there is none"):
        Policy.from_toml("version = 1\n[features]")


def test_a_recommendation_becomes_a_policy():
    curves = ew.stability(
        lambda X: X[:, 0] <= 50, [[20.0]], sensitive=0, mechanisms=["pm", "laplace"], epsilons=[1, 2.5, 4],
        domain={0: (0, 100)}, rng=1,
    )  # fmt: skip
    found = ew.recommend(curves, at_least=0.85, on="worst")
    policy = found.policy(ew.Domain.of({0: (0, 100), 1: (0, 1)}))
    assert policy == found.policy({0: (0, 100)})  # ranges as `stability` takes them
    assert policy.names == ("x0",)
    assert (policy.rules[0].mechanism, float(policy.rules[0].epsilon)) == (
        found.choice.mechanism,
        found.choice.epsilon,
    )
    with pytest.raises(ValueError, match="no mechanism is enough"):
        ew.recommend(curves, at_least=1.0, on="worst").policy()


@pytest.mark.slow
def test_policies_are_written_as_toml_alone(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2]], sensitive=0, mechanisms="pm", epsilons=[4], rng=1)
    curves.save("curves.json")
    for name in ("policy.json", "policy.yaml"):
        status, out, err = cli("recommend", "curves.json", "--at-least", "0.5", "--policy", name)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "a policy is a TOML file; let its name end in .toml" in err
        with pytest.raises(ValueError, match="a policy is a TOML file"):
            Policy.of("pm", 1, PEOPLE, per="feature").save(name)
    assert [path.name for path in tmp_path.iterdir()] == ["curves.json"]
    assert cli("recommend", "curves.json", "--at-least", "0.5", "--policy", "policy.toml")[0] == 0
    assert Policy.load("policy.toml").names == ("x0",)


def test_the_release_part_is_reached_from_the_package():
    assert ew.__getattr__("policy") is sys.modules["epsworth.policy"]
    assert "policy" in dir(ew)


@pytest.mark.parametrize("page", ["release", "audit", "draws"])
def test_the_pages_need_no_more_than_the_core_install(page):
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    packages = {name for block in blocks for name in re.findall(r"^(?:import|from) (\w+)", block, flags=re.MULTILINE)}
    assert "epsworth" in packages
    assert packages <= {"epsworth", "numpy", "polars"}


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links on this system")
def test_a_circle_of_links_is_no_policy(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink("loop.toml", "loop.toml")
    for words in (["audit", "loop.toml"], ["perturb", "loop.toml", "in.csv", "out.csv"]):
        status, out, err = cli(*words)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "cannot read the policy loop.toml" in err


@pytest.mark.parametrize(
    "spellings",
    [
        ("krr:k=33", "krr:k=033", "krr: k = 33", "krr:k=3_3"),
        ("gaussian_clipped:delta=1e-5", "gaussian_clipped:delta=0.00001", "discrete_gaussian:delta=1E-05"),
        ("gaussian_clipped:calibration=pure,delta=0.1", "gaussian_clipped:delta=.1,calibration=pure"),
    ],
)
def test_spellings_of_one_mechanism_have_one_fingerprint(spellings):
    policies = [Policy.of(words, 1, ew.Domain.of({"age": (0, 100)}), bits=4) for words in spellings]
    assert {policy.fingerprint for policy in policies} == {policies[0].fingerprint}
    assert Policy.from_toml(policies[1].to_toml()) == policies[1]
    others = [Policy.of(words, 1, ew.Domain.of({"age": (0, 100)}), bits=4) for words in ("krr:k=34", "pm")]
    assert len({policy.fingerprint for policy in [policies[0], *others]}) == 3
