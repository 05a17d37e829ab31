"""The fingerprint of a policy: all that a device would do, computed anew on it, in Python and in JavaScript."""

from __future__ import annotations

import copy
import hashlib
import json
import subprocess
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from made_clients import DOMAIN, EVERY, MODULE, POLICY, SAMPLED, SCALED, policies
from made_tailored import BY_HAND, GRIDS, random_policy, tailored
from test_client_in_node import NODE, answers

import epsworth as ew
from epsworth.client import Client
from epsworth.policy import Pass, Policy, Rule, Sampling
from strategies import sparing

LENGTHS = (0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000)
FIPS = {
    "": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": (
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    "a" * 10**6: "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
}
KINDS = EVERY | {name: BY_HAND[name] for name in ("worst, a rule", "average", "gain, drawn")}
KINDS |= {f"random {seed}": random_policy(seed) for seed in (0, 2, 3, 5)}
FULLY = 120  # entries of a document, each of which is changed; of longer ones some


def changed(document):
    """Yield a document with any one entry changed, left out, or at another place."""
    ways = [*paths(document)][1:]
    for path in ways[:: 1 + len(ways) // FULLY]:
        for change in (other, None, turned):
            new = copy.deepcopy(document)
            at = new
            for step in path[:-1]:
                at = at[step]
            if change is None:
                del at[path[-1]]
            else:
                at[path[-1]] = change(at[path[-1]])
            if json.dumps(new) != json.dumps(document):
                yield json.dumps(new)


def paths(entry, path=()):
    """Yield the ways to all entries; of long lists to the first and last ones alone."""
    yield path
    if isinstance(entry, dict):
        for key in entry:
            yield from paths(entry[key], (*path, key))
    elif isinstance(entry, list):
        for i in {0, len(entry) - 1} if entry else ():
            yield from paths(entry[i], (*path, i))


def other(entry):
    if isinstance(entry, bool):
        return not entry
    if isinstance(entry, (int, float)):
        return entry + 1
    return f"{entry[:-1]}{'1' if entry[-1:] != '1' else '2'}" if isinstance(entry, str) else [entry]


def turned(entry):
    if isinstance(entry, dict):
        return dict(reversed(entry.items()))
    return entry[::-1] if isinstance(entry, (str, list)) else entry


def changes(name):
    text = KINDS[name].for_clients()
    document = json.loads(text)
    return [text.replace(": ", ":"), text.replace(", ", ","), *changed(document)]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.cases(2)
def test_a_policy_that_differs_from_its_fingerprint_in_any_member_is_refused(name):
    assert Client(KINDS[name].for_clients()).fingerprint == KINDS[name].fingerprint
    texts = changes(name)
    assert len(texts) > 40
    for text in texts:
        with pytest.raises(ValueError, match=r"^fingerprint: (is not that|must be what)"):
            Client(text)


@pytest.mark.skipif(NODE is None, reason="node is not on the PATH: it runs the client in JavaScript")
@pytest.mark.parametrize("every", sparing([9, 1], keep=[0]))
def test_in_javascript_too(every):
    texts = [text for name in KINDS for text in changes(name)][::every]
    found = answers({"policies": [*texts, *(policy.for_clients() for policy in KINDS.values())]})["policies"]
    refused = found[: len(texts)]
    assert all(each.get("refused", "").startswith(("fingerprint: is not", "fingerprint: must")) for each in refused)
    assert found[len(texts) :] == [{"read": policy.fingerprint} for policy in KINDS.values()]


@pytest.mark.skipif(NODE is None, reason="node is not on the PATH: it runs the client in JavaScript")
def test_the_digest_in_javascript_is_sha_256():
    texts = [*FIPS, *("\x7f\0aZ"[n % 4] * n for n in LENGTHS), json.dumps([*range(5000)])]
    code = (
        f"import {{ sha256 }} from {json.dumps(MODULE.as_uri())}; import fs from 'node:fs';"
        "console.log(JSON.stringify(JSON.parse(fs.readFileSync(0, 'utf8')).map(sha256)));"
    )
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", code], input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    assert json.loads(done.stdout)[: len(FIPS)] == [*FIPS.values()]


def rule(**changes):
    return replace(POLICY.rules[1], **changes)


WORDS = ew.Feature("job", categories=("clerk", "nurse", "other"))
TAILORED = tailored.policy("worst")


def differing():
    """Yield policies that a device would run in different ways, or that say something else."""
    yield from EVERY.values()
    yield from BY_HAND.values()
    yield Policy(POLICY.rules)
    for part in (
        rule(), rule(epsilon=Decimal("0.31")), rule(epsilon=Decimal(50)), rule(mechanism="pm"), rule(bits=12),
        rule(mechanism="sw_affine"), rule(mechanism="sw:quantise=9"), rule(mechanism="sw:quantise=8"),
        rule(feature=replace(POLICY.rules[1].feature, missing=None)),
        rule(feature=replace(POLICY.rules[1].feature, missing=21)),
        rule(feature=replace(POLICY.rules[1].feature, integer=True)), rule(feature=ew.Feature("bmi", 10, 61)),
        rule(feature=ew.Feature("bmi", 9.5, 60)), rule(feature=ew.Feature("BMI", 10, 60)), rule(mechanism="krr:k=7"),
        rule(mechanism="krr:k=8"), rule(mechanism="laplace_clipped"), rule(mechanism="gaussian_clipped:delta=1e-5"),
    ):  # fmt: skip
        yield Policy((part,))
    yield Policy((rule(), POLICY.rules[0]))
    yield Policy((POLICY.rules[0], rule()))
    for missing, outside in ((None, None), ("other", None), ("nurse", None), (None, "other"), (None, "clerk")):
        yield Policy((Rule(replace(WORDS, missing=missing), "krr", Decimal(1), outside=outside),))
    for kinds in (("clerk", "other", "nurse"), ("clerk", "nurse"), (1, 2), ("1", "2"), (True, 2), (1, 2.5)):
        yield Policy((Rule(ew.Feature("job", categories=kinds), "krr", Decimal(1)),))
    for others in (
        Pass(("id",)),
        Pass((), ("id",)),
        Pass(("id", "n")),
        Pass(("id", "n"), (), ("n",)),
    ):
        yield Policy((rule(),), passing=others)
    yield Policy(SAMPLED.rules, Sampling(1))
    yield Policy(SAMPLED.rules, Sampling(2, "scaled"))
    yield Policy(SAMPLED.rules)
    tables = TAILORED.tailoring
    for change in (
        {"labels": ("x", "y", "z")}, {"classifiers": ("0" * 64,)}, {"default": (0, 0)},
        {"representatives": tables.representatives[::-1]},
    ):  # fmt: skip
        yield Policy((), None, replace(tables, **change))
    yield Policy((), None, tables, Pass(("hours",)))
    yield Policy((), None, tables, Pass((), ("hours",)))


def test_all_that_a_device_would_do_otherwise_has_another_fingerprint():
    found = [*differing()]
    assert len({policy.fingerprint for policy in found}) == len(found)
    assert POLICY.fingerprint != SCALED.fingerprint
    assert all(Policy.from_toml(policy.to_toml()).fingerprint == policy.fingerprint for policy in found)


def test_another_order_of_features_or_inputs_is_another_policy():
    """Words are drawn, and members sent, in their order."""
    assert Policy(POLICY.rules[::-1]).fingerprint != Policy(POLICY.rules).fingerprint
    grids = random_policy(3).for_clients()
    assert grids.index(f'"name": "{GRIDS[0].name}"') < grids.index(f'"name": "{GRIDS[1].name}"')


def test_a_weaker_policy_does_not_run_under_an_audited_fingerprint():
    audited, weaker = (Policy.of("pm", epsilon, DOMAIN, per="feature") for epsilon in ("0.5", "50"))
    text = weaker.for_clients()
    assert Client(text).fingerprint == weaker.fingerprint
    with pytest.raises(ValueError, match=r"^fingerprint: is not that of the content"):
        Client(text.replace(weaker.fingerprint, audited.fingerprint))


@pytest.mark.parametrize(
    "spellings",
    [
        ("epsilon = 1.0", "epsilon = 1", "epsilon = 1.00", "epsilon = 0.1e1"),
        ("lower = 0.0", "lower = 0", "lower = 0.00", "lower = 0e0"),
        ("bits = 16\noutside", "outside", "bits   =  16\noutside"),
        ('mechanism = "krr"\nepsilon = 1.0', 'epsilon = 1.0\nmechanism = "krr"', 'epsilon = 1\nmechanism = "krr"'),
    ],
)
def test_spellings_of_one_policy_have_one_fingerprint(spellings):
    policy = Policy.of("pm", 1, ew.Domain.of({"age": (0, 100), "job": ["clerk", "nurse"]}), per="feature")
    text = policy.to_toml()
    stated = next(line for line in text.splitlines(keepends=True) if line.startswith("fingerprint"))
    for spelling in spellings:
        assert spellings[0] in text
        read = Policy.from_toml(text.replace(stated, "").replace(spellings[0], spelling))
        assert read.fingerprint == policy.fingerprint
        assert read.for_clients() == policy.for_clients()


@given(policies())
@settings(max_examples=30)
def test_what_devices_read_begins_with_the_fingerprint_of_the_rest(policy):
    text = policy.for_clients()
    opening = f'{{"fingerprint": "{policy.fingerprint}", '
    assert text.startswith(opening)
    assert text.isascii()
    assert "\n" not in text
    assert hashlib.sha256(("{" + text[len(opening) :]).encode()).hexdigest() == policy.fingerprint
    assert Policy.from_toml(policy.to_toml()).for_clients() == text
