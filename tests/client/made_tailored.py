"""Tailored policies for devices: those made by hand, random ones of every kind, and some that were tampered with."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "policy"))

import random_copies
from made_clients import sealed

import epsworth as ew
import tailored
from epsworth.grids import Grid
from epsworth.mechanisms.regions import region_kernel
from epsworth.mechanisms.words import WordSource
from epsworth.policy import Pass, Policy, Rule
from epsworth.policy.tables import Perturbation
from epsworth.tailored.mechanism import Tailoring
from epsworth.tailored.randomisers import Average, Gain, Worst
from epsworth.tailored.surrogates import Trees

WORD = 1 << 64
KINDS = ("worst", "average", "gain")
MIXED = (1.5, 1, "1", False, "", "nurse", *(f"w{i}" for i in range(64)))
GRIDS = (
    Grid(ew.Feature("age", -0.1, 0.3), 16, missing=0.05),
    Grid(ew.Feature("7", categories=("a", "b", "c", "d", "e")), missing="b", outside="e"),
    Grid(ew.Feature("size", 10, 60, points=11), missing=60),
    Grid(ew.Feature("kind", categories=MIXED), missing="", outside="nurse"),
)
RULES = {
    "age": Rule(ew.Feature("age", 0, 1, missing=0.5), "pm", Decimal(1), 12),
    "size": Rule(ew.Feature("size", 10, 60, missing=20), "krr:k=6", Decimal("0.7")),
    "7": Rule(ew.Feature("7", categories=("a", "e", "x"), missing="a"), "krr", Decimal(2), outside="x"),
}
OTHER = Rule(ew.Feature("other", 0, 9, missing=1), "sw", Decimal("0.3"), 10)


class Given(WordSource):
    """Words that are told."""

    private = False

    def __init__(self, words):
        self.words, self.at = [*words], 0

    def take(self, count):
        taken = np.array(self.words[self.at : self.at + count], dtype=np.uint64)
        assert taken.size == count, "there are no more words"
        self.at += count
        return taken


def of_the_library(policy: Policy, record: dict[str, Any], words: list[int]) -> dict[str, Any]:
    """Return what the library's columns release for one record."""
    perturbation = Perturbation(policy, Given(words))
    inputs = {}
    for name, column in perturbation.ruled.items():
        given = np.empty(1, dtype=object)
        given[0] = record[name]
        inputs[name] = column.encode(given if column.feature.categories else given.astype(float))
    places = {name: column.places([record.get(name)]) for name, column in perturbation.seen.items()}
    return {
        column.feature.name: column.released(np.asarray(drawn), keep, policy).tolist()[0]
        for column, drawn, keep in perturbation.draw(inputs, places)
    }


def random_policy(seed: int) -> Policy:
    """Return a tailored policy with a random copy, randomiser, representatives and rules."""
    rng = np.random.default_rng(seed)
    copy = random_copies.random_copies(seed)[seed % 6]
    hidden = rng.random(4) < (1.0 if seed % 4 == 0 else 0.5)
    hidden[int(rng.integers(4))] = True
    count, columns = copy.regions, np.flatnonzero(hidden)
    places = random_copies.random_places(rng, 60)
    found = copy(places)
    standing = []
    for region in range(count):
        rows = np.concatenate([places[found == region], places[: rng.integers(3)]])[:, columns]
        standing.append(rng.permutation(rows)[: rng.integers(0 if rng.random() < 0.2 else 1, 7)])
    rules = [rule for name, rule in RULES.items() if rng.random() < 0.5 and not hidden[names().index(name)]]
    rules += [OTHER] if rng.random() < 0.5 else []
    epsilon = Decimal(str(round(10 ** rng.uniform(-1, 1), 3)))
    randomiser = _randomiser(KINDS[int(rng.integers(3))], epsilon, count, hidden, rng)
    default = tuple(int(rng.integers(GRIDS[j].input.places)) for j in columns)
    tailoring = Tailoring(
        tuple(range(count)), GRIDS, tuple(hidden.tolist()), copy, tuple(standing), default, randomiser,
        bool(rng.random() < 0.5),
    )  # fmt: skip
    public = [grid.name for grid, mine in zip(GRIDS, hidden, strict=True) if not mine and grid.name not in RULES]
    public += [
        name for name in RULES if not hidden[names().index(name)] and name not in [r.feature.name for r in rules]
    ]
    others = Pass(("id", *public[1:]), ("note", *public[:1])) if rng.random() < 0.5 else Pass(tuple(public))
    return Policy(tuple(rules), None, tailoring, others)


def names() -> list[str]:
    return [grid.name for grid in GRIDS]


def _randomiser(kind, epsilon, count, hidden, rng):
    if kind == "worst":
        return Worst(epsilon, count)
    if kind == "average":
        leaves = 1 if hidden.all() else 2
        orders = tuple(tuple(rng.permutation(count).tolist()) for _ in range(leaves))
        return Average(epsilon, count, _prior(hidden, rng), orders, tuple(rng.integers(1, count + 1, leaves).tolist()))
    gain = rng.random((count, count)) * (rng.random((count, count)) < 0.5) + np.diag(rng.random(count))
    orders = tuple((i, *rng.permutation([j for j in range(count) if j != i]).tolist()) for i in range(count))
    return Gain(epsilon, count, region_kernel(gain, epsilon), orders)


def _prior(hidden, rng) -> Trees:
    """Return a tree that asks one question about a public column, or none where there is no such column."""
    inputs = tuple(grid.input for grid in GRIDS)
    if hidden.all():
        return Trees(
            inputs, *(np.array([value]) for value in (-1, -1, -1, 0)), {}, np.array([0]), np.array([[0]]), 1, True
        )
    column = int(rng.choice(np.flatnonzero(~hidden)))
    most = inputs[column].places
    sets = {} if inputs[column].ordered else {0: tuple(range(0, most, 2))}
    threshold = np.array([most // 2, 0, 0])
    return Trees(
        inputs, np.array([column, -1, -1]), np.array([1, -1, -1]), np.array([2, -1, -1]), threshold, sets,
        np.array([0]), np.array([[0], [0], [1]]), 2, True,
    )  # fmt: skip


BY_HAND = {
    f"{kind}{', drawn' if draw else ''}{', a rule' if rules else ''}": tailored.policy(kind, rules=rules, draw=draw)
    for kind in KINDS for draw in (False, True) for rules in ((), (tailored.RULE,))
}  # fmt: skip
"""Of `tailored.policy`: no, one, two and three regions are within reach at hours of 0, 1, 2 and more."""
RECORD = {"age": 31, "job": "a", "hours": 5}
AVERAGE, GAIN, WORST = (tailored.policy(kind) for kind in ("average", "gain", "worst"))


def tampered() -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the texts of policies, and these."""

    def edit(change, policy=WORST):
        document = json.loads(policy.for_clients())
        change(document["tailored"], document)
        return json.dumps(document)

    def entry(key, value, policy=WORST):
        return edit(lambda t, _: t.update({key: value}), policy)

    def kernel(key, change, policy=WORST):
        return edit(lambda t, _: t["kernel"].update({key: change(t["kernel"][key])}), policy)

    def given(number, policy=WORST, **entries):
        return edit(lambda t, _: t["inputs"][number].update(entries), policy)

    def copy(key, change):
        return edit(lambda t, _: t["copy"].update({key: change(t["copy"][key])}))

    def other(table):
        """Return a policy with another copy, which is wrong."""
        return edit(lambda t, _: t.update(copy=table))

    layer = {"weights": [[1, 0, 0, 0, 0]] * 3, "biases": [0, 0, 0], "shift": 0}
    tree = {"kind": "tree", "feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "sets": {}, "roots": [0]}
    tree |= {"values": [[0]]}
    cells = {"kind": "cells", "count": 1, "part": tree, "sensitive": [0], "labels": [0, 0, 0]}
    cells |= {"medians": [[1], [2], [3]], "weights": [1]}
    joint = {"kind": "joint", "counts": [1], "parts": [tree], "table": [0]}
    for name, fine in (("layers", {"kind": "layers", "layers": [layer]}), ("joint", joint), ("cells", cells)):
        yield f"fine: {name}", other(fine)
    yield "fine: tree", other(tree)
    yield "tailored of none", edit(lambda _, d: d.update(tailored=None))
    yield "tailored and sampled", edit(lambda _, d: d.update(sample={"features": 1, "unsampled": "missing"}))
    yield "features as none", edit(lambda _, d: d.update(features=None))
    for key in ("epsilon", "inputs", "kernel", "representatives", "default", "draw", "copy"):
        yield f"without {key}", edit(lambda t, _, key=key: t.pop(key))
        yield f"{key} of null", entry(key, None)
    yield "an unknown member", entry("seed", 7)
    yield "another epsilon", entry("epsilon", "2")
    yield "another epsilon of gain", entry("epsilon", "0.5", GAIN)
    yield "another epsilon of average", entry("epsilon", "0.5", AVERAGE)
    yield "a number as epsilon", entry("epsilon", 1)
    yield "draw as a number", entry("draw", 1)
    yield "no input", entry("inputs", [])
    yield "an input twice", edit(lambda t, _: t["inputs"][0].update(name="hours"))
    yield "an input that passes", edit(lambda _, d: d["others"]["pass"].append("age"))
    yield "a public input that nobody sends", edit(lambda _, d: d["others"].update({"pass": []}))
    yield (
        "a sensitive feature",
        edit(
            lambda _, d: d["features"].append(
                json.loads(Policy.of("pm", 1, ew.Domain.of({"age": (0, 9)})).for_clients())["features"][0]
            )
        ),
    )
    yield "none sensitive", edit(lambda t, _: [one.update(sensitive=False) for one in t["inputs"]])
    yield "another sensitive", given(2, sensitive=True)
    yield "sensitive as a number", given(0, sensitive=1)
    yield (
        "a prior that asks about the record",
        edit(lambda t, _: t["kernel"]["prior"]["feature"].__setitem__(0, 0), AVERAGE),
    )
    yield "missing out of range", given(0, missing=101)
    yield "missing as a text", given(0, missing="40")
    yield "missing word", given(1, missing="x")
    yield "no missing word", given(1, missing=None)
    yield "outside word", given(1, outside="x")
    yield "outside of numbers", given(0, outside="clamp")
    yield "upper below lower", given(0, upper=-1)
    yield "one point", given(0, points=1)
    yield "other points", given(0, points=5)
    yield "too many points", given(0, points=(1 << 20) + 1)
    yield "a category twice", given(1, categories=["a", "b", "b"])
    yield "a category less", given(1, categories=["a", "c"])
    for key in ("low", "high"):
        yield f"another {key}", kernel(key, lambda old: [old[0], str(int(old[1]) + 1)])
        yield f"{key} as numbers", kernel(key, lambda old: [3, 4])
        yield f"{key} less", kernel(key, lambda old: old[:1])
        yield f"{key} more", kernel(key, lambda old: [*old, old[0]])
        yield f"{key} as a text", kernel(key, lambda old: "3")
    yield "another kind", kernel("kind", lambda old: "best")
    yield "a name of all objects", kernel("kind", lambda old: "constructor")
    yield "worst with orders", edit(lambda t, _: t["kernel"].update(orders=[[0, 1, 2]]))
    yield "an order that lacks one", kernel("orders", lambda old: [[0, 0, 1], old[1]], AVERAGE)
    yield "most of none", kernel("most", lambda old: [0, 3], AVERAGE)
    yield "most of a leaf", kernel("most", lambda old: old[:1], AVERAGE)
    yield (
        "weights that do not add up",
        kernel("rows", lambda old: [[str(int(old[0][0]) - 1), *old[0][1:]], *old[1:]], GAIN),
    )
    yield "weights beyond epsilon", kernel("rows", lambda old: [[str(WORD - 2), "1", "1"], *old[1:]], GAIN)
    yield "weights of one row alone", kernel("rows", lambda old: [[str(WORD), "0", "0"], *old[1:]], GAIN)
    yield "weights as numbers", kernel("rows", lambda old: [[0, 0, 0], *old[1:]], GAIN)
    yield "weights below nothing", kernel("rows", lambda old: [[str(WORD + 1), "-1", "0"], *old[1:]], GAIN)
    yield "a row less", kernel("rows", lambda old: old[:2], GAIN)
    yield "instead less", kernel("instead", lambda old: old[:2], GAIN)
    yield "instead of another", kernel("instead", lambda old: [[0, 1, 3], *old[1:]], GAIN)
    yield "a representative out of range", edit(lambda t, _: t["representatives"][0].__setitem__(0, [16, 0]))
    yield "a representative too wide", edit(lambda t, _: t["representatives"][0].__setitem__(0, [1, 0, 0]))
    yield "representatives of fewer", edit(lambda t, _: t["representatives"].pop())
    yield "a default out of range", entry("default", [7, 3])
    yield "a default of halves", entry("default", [7, 0.5])
    yield "a walk that turns back", copy("left", lambda old: [0, *old[1:]])
    yield "a walk out of range", copy("right", lambda old: [len(old), *old[1:]])
    yield "a column that is not there", copy("feature", lambda old: [3, *old[1:]])
    yield "a region that is not there", copy("values", lambda old: [*old[:-1], [3]])
    yield "a root that is not there", copy("roots", lambda old: [len(WORST.tailoring.copy.feature)])
    yield "no root", copy("roots", lambda old: [])
    yield "two roots of one tree", copy("roots", lambda old: [0, 1])
    yield "a set that is not there", copy("sets", lambda old: {})
    yield "a set at a number", copy("sets", lambda old: old | {"0": [1]})
    yield "a set with another name", copy("sets", lambda old: {f"0{key}": words for key, words in old.items()})
    yield "a word that is not there", copy("sets", lambda old: {node: [3] for node in old})
    yield "a table less", copy("threshold", lambda old: old[1:])
    yield "another copy", copy("kind", lambda old: "forest")
    yield "layers too narrow", other({"kind": "layers", "layers": [layer | {"weights": [[1, 0]] * 3}]})
    yield "layers too few", other({"kind": "layers", "layers": []})
    yield (
        "layers of two regions",
        other({"kind": "layers", "layers": [layer | {"weights": [[1] * 5] * 2, "biases": [0, 0]}]}),
    )
    yield (
        "layers that round",
        other({"kind": "layers", "layers": [layer | {"biases": [0, 0, 2**53 - 1], "weights": [[1] * 5] * 3}]}),
    )
    yield "layers with a shift", other({"kind": "layers", "layers": [layer | {"shift": 1}]})
    yield "layers with a large shift", other({"kind": "layers", "layers": [layer | {"shift": 53}, layer]})
    yield "trees that round", other(tree | {"kind": "trees", "values": [[2**52, 0, -(2**52)]], "roots": [0, 0]})
    yield "joint of none", other(joint | {"counts": [], "parts": []})
    yield "joint of another count", other(joint | {"counts": [2]})
    yield "joint of joint", other(joint | {"parts": [joint]})
    yield "joint without a region", other(joint | {"table": [3]})
    yield "cells with a median too far", other(cells | {"medians": [[1], [2], [16]]})
    yield "cells without weight", other(cells | {"weights": [0]})
    yield "cells that round", other(cells | {"weights": [2**50]})
    yield "cells with an empty region", other(cells | {"count": 2, "part": tree})
    yield "cells of a column twice", other(cells | {"sensitive": [0, 0], "medians": [[1, 1]] * 3, "weights": [1, 1]})


TAMPERED = {name: sealed(text) for name, text in tampered()}
