"""Policies for devices, records that they must refuse, and policies that were tampered with."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path

from hypothesis import strategies as st

import epsworth as ew
from epsworth.mechanisms import KERNELS, MECHANISMS, PM, kernel
from epsworth.mechanisms.table import _proven
from epsworth.mechanisms.two_level import TwoLevelKernel, two_level
from epsworth.policy import Pass, Policy, Rule, Sampling

MODULE = Path(ew.__file__).with_name("client") / "epsworth.mjs"
WORD = 1 << 64
DOMAIN = ew.Domain.of({"age": (0, 100), "bmi": (10, 60), "t": (-0.1, 0.3), "job": ["clerk", "nurse", "other"]})
POLICY = Policy(
    (
        Rule(DOMAIN["age"], "pm", Decimal(1)),
        Rule(replace(DOMAIN["bmi"], missing=20), "sw", Decimal("0.3"), 13),
        Rule(DOMAIN["t"], "pm_affine:quantise=9", Decimal("2.5"), 8),
        Rule(replace(DOMAIN["job"], missing="other"), "krr", Decimal("0.1"), outside="other"),
    ),
    passing=Pass(("id",), ("name",)),
)
SAMPLED = Policy.of("sw_affine", "0.7", ew.Domain.of({"7": (0, 1), "1": (-3, 5), "b": (0, 9)}), per="feature", sample=2)
SCALED = Policy(SAMPLED.rules, Sampling(1, "scaled"))
EVERY = {"plain": POLICY, "sampled": SAMPLED, "scaled": SCALED}
RECORD = {"age": 31, "bmi": 22.5, "t": 0.1, "job": "nurse"}

WINDOWS = [name for name in KERNELS if isinstance(kernel(name, 1, bits=4), TwoLevelKernel)]  # what devices run


def brought(monkeypatch):
    """Yield policies of mechanisms that the table does not hold: windows of half the grid, snapped and sliding."""
    for affine in (False, True):
        build = partial(two_level, "brought", share=Fraction(1, 2), affine=affine)
        monkeypatch.setitem(MECHANISMS, "brought", PM)
        monkeypatch.setitem(KERNELS, "brought", build)
        _proven.cache_clear()
        yield Policy.of("brought", "0.7", ew.Domain.of({"x": (0, 255)}), bits=8)


HOSTILE_VALUES = {  # of the number age, as JavaScript writes them
    "a text": ("31", '"31"'),
    "a truth": (True, "true"),
    "a list": ([31], "[31]"),
    "an object": ({"value": 31}, "({valueOf() { return 31; }})"),
    "a gap": (None, "null"),
    "not a number": (float("nan"), "NaN"),
}


OPENING = re.compile(r'\{"fingerprint": "[^"]*", ')


def sealed(text):
    """Return a policy's text with the fingerprint of what it holds now: as whoever writes another policy can."""
    if (opening := OPENING.match(text)) is None:
        return text
    content = "{" + text[opening.end() :]
    return f'{{"fingerprint": "{hashlib.sha256(content.encode()).hexdigest()}", {content[1:]}'


def tampered():
    """Return texts of policies, by what is wrong with them; their fingerprints are fine, but for those that say so."""
    found = {name: sealed(text) for name, text in tampered_and_sealed().items()}
    text = POLICY.for_clients()
    return found | {
        "a mark of bytes": "\ufeff" + text,
        "another order": text.replace('{"pass": ["id"], "drop": ["name"]}', '{"drop": ["name"], "pass": ["id"]}'),
        "a blank": text.replace('{"fingerprint"', '{ "fingerprint"'),
        "a line": text + "\n",
        "a short fingerprint": text.replace(POLICY.fingerprint, POLICY.fingerprint[:-1]),
        "a long fingerprint": text.replace(POLICY.fingerprint, POLICY.fingerprint + "0"),
        "a fingerprint in capitals": text.replace(POLICY.fingerprint, POLICY.fingerprint.upper()),
        "no fingerprint": "{" + text[OPENING.match(text).end() :],
        "the fingerprint at the end": json.dumps(dict(reversed(json.loads(text).items()))),
        "another policy's fingerprint": text.replace(POLICY.fingerprint, SAMPLED.fingerprint),
        "letters that are not ASCII": text.replace("clerk", "cl\u00e9rk"),
    }


def tampered_and_sealed():
    text = POLICY.for_clients()
    low = json.loads(text)["features"][0]["low"]
    deep = "[" * 40 + "]" * 40

    def edit(change, policy=POLICY):
        document = json.loads(policy.for_clients())
        change(document)
        return json.dumps(document)

    def feature(number, **entries):
        return edit(lambda d: d["features"][number].update(entries))

    return {
        "no JSON": text[:-5],
        "a member twice": text.replace('"name": "age"', '"name": "age", "name": "bmi"'),
        "a member twice, written otherwise": text.replace('"name": "age"', '"name": "age", "n\\u0061me": "age"'),
        "not a number": text.replace('"lower": 0.0', '"lower": NaN'),
        "an infinite number": text.replace('"upper": 100.0', '"upper": 1e999'),
        "a long number": text.replace('"lower": 0.0', '"lower": 0.' + "0" * 60),
        "a large whole number": text.replace('"upper": 100.0', '"upper": 9007199254740993'),
        "deep": text.replace('"pass": [', f'"pass": [{deep}, '),
        "a list": "[]",
        "another format": text.replace("epsworth-client-1", "epsworth-client-2"),
        "a fingerprint twice": edit(lambda d: d.update(others=d["others"])).replace(
            '"format"', '"fingerprint": "", "format"'
        ),
        "no digest of the file": edit(lambda d: d.pop("file")),
        "a number as the file": edit(lambda d: d.update(file=7)),
        "a short file": edit(lambda d: d.update(file="abc")),
        "an unknown member": edit(lambda d: d.update(seed=7)),
        "an unknown member of a feature": feature(0, seed=7),
        "no feature": edit(lambda d: d.update(features=[])),
        "features by name": edit(lambda d: d.update(features={"age": d["features"][0]})),
        "a feature twice": edit(lambda d: d["features"].append(d["features"][0])),
        "a feature that passes": edit(lambda d: d["others"]["pass"].append("age")),
        "others as a text": edit(lambda d: d["others"].update({"pass": "id"})),
        "a larger epsilon": feature(0, epsilon="2"),
        "a number as epsilon": feature(0, epsilon=1),
        "epsilon in hexadecimal": feature(0, epsilon="0x1"),
        "epsilon with blanks": feature(0, epsilon=" 1"),
        "epsilon with a line feed": feature(0, epsilon="1\n"),
        "a huge epsilon": feature(0, epsilon="701"),
        "no epsilon": feature(0, epsilon="0"),
        "another low": feature(0, low=str(int(low) + 1)),
        "low as a number": feature(1, low=3),
        "another width": feature(0, width="3"),
        "other bits": feature(0, bits=8),
        "one point": feature(3, points=1),
        "points that are none": feature(0, points=65536.5),
        "another mechanism": feature(0, mechanism="laplace"),
        "a name of all objects": feature(0, mechanism="constructor"),
        "pm of words": feature(3, mechanism="pm"),
        "a window of pm": feature(0, window="snapped"),
        "a window of words": feature(3, window="snapped"),
        "an unknown mechanism's width in no digits": feature(0, mechanism="other", window="snapped", width="0x3"),
        "an unknown mechanism's even width": feature(0, mechanism="other", window="snapped", width="4"),
        "an unknown mechanism's window of all points": feature(0, mechanism="other", window="snapped", width="65536"),
        "an unknown window": feature(0, mechanism="other", window="open"),
        "upper below lower": feature(0, upper=-1),
        "a text as lower": feature(0, lower="0"),
        "a truth as upper": feature(0, upper=True),
        "missing out of range": feature(1, missing=5),
        "missing as a text": feature(1, missing="20"),
        "missing word": feature(3, missing="x"),
        "outside of numbers": feature(0, outside="x"),
        "a category twice": feature(3, categories=["a", "a", "b"]),
        "a truth and its number": feature(3, categories=[1, True, 2]),
        "a category less": feature(3, categories=["clerk", "nurse"]),
        "a list as a category": feature(3, categories=["clerk", "nurse", []]),
        "sample of more": edit(lambda d: d["sample"].update(features=4), SAMPLED),
        "sample of none": edit(lambda d: d["sample"].update(features=0), SAMPLED),
        "sample of a truth": edit(lambda d: d["sample"].update(features=True), SAMPLED),
        "sample otherwise": edit(lambda d: d["sample"].update(unsampled="all"), SAMPLED),
        "scaled words": edit(lambda d: d.update(sample={"features": 1, "unsampled": "scaled"})),
    }


@st.composite
def policies(draw):
    """Return policies that devices can run."""
    rules = []
    epsilons = st.decimals("0.001", "30", places=3)
    for name in draw(st.lists(st.text("ab7é_", min_size=1, max_size=3), min_size=1, max_size=4, unique=True)):
        if draw(st.booleans()):
            kinds = draw(st.lists(st.integers(-5, 5) | st.text("pq'\"\n", max_size=2), min_size=2, unique_by=str))
            instead = st.none() | st.sampled_from(kinds)
            feature = ew.Feature(name, categories=tuple(kinds))
            rules.append(Rule(replace(feature, missing=draw(instead)), "krr", draw(epsilons), outside=draw(instead)))
        else:
            low = draw(st.floats(-1e6, 1e6))
            feature = ew.Feature(name, low, low + draw(st.floats(0.5, 1e3)))
            words = draw(st.sampled_from(["pm", "sw", "pm_affine", "sw_affine", "opm", "krr:k=7", "pm:quantise=5"]))
            missing = draw(st.none() | st.just(feature.upper))
            rules.append(Rule(replace(feature, missing=missing), words, draw(epsilons), draw(st.integers(1, 16))))
    sampling = draw(st.none() | st.integers(1, len(rules)).map(Sampling))
    if sampling is not None and all(rule.feature.categories is None for rule in rules) and draw(st.booleans()):
        sampling = Sampling(sampling.features, "scaled")
    return Policy(tuple(rules), sampling)
