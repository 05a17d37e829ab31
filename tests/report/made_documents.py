"""Documents as --json of noise, privatize, profile, learn plan and learn fit writes them, made once per run."""

from __future__ import annotations

import copy
import json
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from functools import cache

import numpy as np
from made_pages import HOSTILE

from epsworth.report.text import noise_name, observed
from reproduction.published_lattice import Parity

NAMES = r"(?<![\w(])(?:(?:pb|truncated|discrete|clamped)_)*(?:laplace|gaussian|staircase|optimal)(?![\w)])"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?")
CENTRAL = dict.fromkeys(("offset", "answers", "lattice", "scale"))


def a_unit(percent):
    """Return a unit of the last digit that a share in per cent is shown with: the third, or what tells it from 100."""
    exact = Decimal(repr(percent))
    unit = min(Decimal(1), Decimal(1).scaleb(exact.adjusted() - 2))
    while exact < 100 and exact + unit >= 100 and unit > Decimal("0.0001"):
        unit /= 10
    return max(unit, Decimal("0.0001"))


def advised(made):
    """Return a ranking's advice as a page says it: noises by title."""
    return re.sub(NAMES, lambda found: noise_name(found[0]), made["advice"])


def _plain(document):
    return json.loads(json.dumps(document, allow_nan=False))


@cache
def _noise():
    from epsworth.noise import cheapest
    from epsworth.noise.figures import shape_of

    ranked = cheapest(5, confidence=0.95, delta=1e-6, method="published")
    asked = {"within": "5", "confidence": 0.95, "sensitivity": 1.0, "region": "absolute", "delta": 1e-6, "releases": 1}
    shape = {"name": ranked.taken.name, **shape_of(ranked.taken)}
    return _plain({"question": asked | CENTRAL, **ranked.to_dict(), "shape": shape})


@cache
def privatizer():
    from epsworth.pac import PACPrivatizer, Posterior

    rows = np.random.default_rng(3).uniform(size=(40, 2))
    return PACPrivatizer(lambda X: X.mean(axis=0), Posterior(0.64), worlds=64, worlds_seed=5).fit(rows)


@cache
def _privatize():
    from epsworth.pac.release import noise_summary

    made = privatizer()
    release = made.release()
    report = release.report() | {"columns": ["age", "bmi"], "unit_scale": False}
    audit = made.audit(draws=500).to_dict()
    return _plain(
        {"release": release.to_dict()["release"], "report": report, "audit": audit, "noise": noise_summary(made)}
    )


@cache
def _profile():
    from epsworth.cli.profile import _document
    from epsworth.exposure import stand_in, window

    X, y = stand_in(200, 3, rng=1)
    found = window(X, y, 1e-2, held_out=(X, y), draws=60, rng=2)
    return _plain(_document(found, 4.0, 5, ("a", "b", "c")))


@cache
def _plan():
    from epsworth.learner import plan

    found = plan(epsilon=2, margin=0.1, fakes=0)
    return _plain({**found.to_dict(), "question": {"cells": None, "features": None, "mass": 1.0}})


@cache
def learnt(d=2, classes=("no", "yes"), mechanism="auto", users=40_000, m=5):
    from epsworth.learner import Classifier, LatticeConfig, simulate

    rng = np.random.default_rng(4)
    X = rng.uniform(size=(4000, d))
    y = np.array(classes)[np.minimum((X[:, 0] * len(classes)).astype(int), len(classes) - 1)]
    names = ["age", "bmi", "dose"][:d]
    config = LatticeConfig([(0, 100), (10, 60), (0, 1)][:d], m, d, classes, mechanism, 3, "clip", names)
    ends = np.array(config.box)
    return Classifier.from_aggregate(simulate(config, ends[:, 0] + X * np.ptp(ends, axis=1), y, rng, users=users))


@cache
def _learnt(**asked):
    from epsworth.learner.figures import told_of

    return _plain(told_of(learnt(**asked), fakes=0))


@cache
def learnt_table():
    from epsworth.learner import Category, Number, TableConfig, TableLearner
    from epsworth.learner.tables.learner import _learnt as learn

    rng = np.random.default_rng(6)
    columns = [
        Number("age", 0, 100),
        Category("job", ("none", "clerk", "nurse")),
        *(Number(f"x{i}", 0, 1) for i in range(3)),
    ]
    config = TableConfig(columns, ("no", "yes", "maybe"), epsilon=3, users=60_000)
    X = np.empty((3000, 5), dtype=object)
    X[:, 0], X[:, 1] = rng.uniform(0, 100, 3000), rng.choice(["none", "clerk", "nurse"], 3000)
    X[:, 2:] = rng.uniform(size=(3000, 3))
    y = np.where(X[:, 0] > 60, "yes", np.where(X[:, 1] == "nurse", "maybe", "no"))
    learner = TableLearner(config)
    learn(learner, config.checked(X, y), rng, 60_000)
    return learner


def _learnt_table():
    from epsworth.learner.figures import told_of_table

    return _plain(told_of_table(learnt_table()))


MAKERS = {
    "noise": _noise,
    "privatize": _privatize,
    "profile": _profile,
    "plan": _plan,
    "learnt": _learnt,
    "learnt one": lambda: _learnt(d=1, m=9),
    "learnt three": lambda: _learnt(d=3, m=3, classes=("a", "b", "c")),
    "learnt series": lambda: _learnt(mechanism="cosine"),
    "learnt table": _learnt_table,
    "learnt lattice": lambda: _learnt(mechanism=Parity.name),
}


def document(name):
    """Return a document of its own."""
    return copy.deepcopy(MAKERS[name]())


def tokens(text):
    """Return the numbers of a text."""
    return {abs(Decimal(found.replace(",", ""))).normalize() for found in NUMBER.findall(text)}


def hostile(entries):
    """Return a document whose texts all hold markup, but those that say what it is."""
    if isinstance(entries, dict):
        kept = ("objective", "rule", "region", "format", "mode", "mechanism", "guarantee", "soundness")
        named = ("release", "left_out")  # whose keys are names
        return {
            k: v if k in kept else {hostile(n): hostile(w) for n, w in v.items()} if k in named else hostile(v)
            for k, v in entries.items()
        }
    if isinstance(entries, list):
        return [hostile(one) for one in entries]
    return f"{entries[:20]}{HOSTILE.replace(chr(0xD800), '')}" if isinstance(entries, str) else entries


def numbers_in(entries):
    """Return all numbers of a document, those within its texts too."""
    if isinstance(entries, dict):
        return [one for value in entries.values() for one in numbers_in(value)]
    if isinstance(entries, list):
        return [one for value in entries for one in numbers_in(value)]
    if isinstance(entries, str):
        return list(tokens(entries))
    return [] if entries is None or isinstance(entries, bool) else [Decimal(repr(entries))]


def roundings(values):
    """Return what numbers may be shown as: to two to six digits either way, as they are or in per cent."""
    found = set()
    for value in values:
        for exact in (abs(value), abs(100 * value)):
            found.add(exact.normalize())
            if exact:
                for digits in range(2, 7):
                    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
                    for way in (ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN):
                        found.add(exact.quantize(unit, way).normalize())
                for way in (ROUND_CEILING, ROUND_FLOOR) if exact.adjusted() < 20 else ():
                    found.add(exact.quantize(Decimal("0.0001"), way).normalize())
    return found


def chances(total, delta=0.0):
    """Return what an observer may know, from every prior."""
    return [Decimal(repr(observed(total, delta, prior / 100))) for prior in range(1, 100)]
