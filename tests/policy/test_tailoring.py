"""Tailored policies keep epsilon in whole numbers, whatever records hold, g answers or representatives stand for."""

from __future__ import annotations

import tomllib
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from epsworth import Feature, Policy
from epsworth.bounds import Risk
from epsworth.client.kernels import exp_below
from epsworth.grids import Grid
from epsworth.mechanisms import kernel
from epsworth.mechanisms.regions import RegionKernel, folded
from epsworth.mechanisms.words import ReplayableWords
from epsworth.policy import Pass, Rule
from epsworth.policy.rules import Sampling
from epsworth.tailored.document import read_tailoring
from epsworth.tailored.mechanism import ReachableRegions, Tailoring, _uniform
from epsworth.tailored.randomisers import Average, ConditionalKernel, Gain, Worst
from epsworth.tailored.surrogates import Trees
from tailored import (
    ABSURD,
    AGE,
    GRIDS,
    INPUTS,
    JOB,
    LABELS,
    PRIOR,
    RULE,
    STANDING,
    Hostile,
    linear,
    loss_is_kept,
    policy,
    randomiser,
    steps,
    tailoring,
)  # fmt: skip

KINDS = ("worst", "average", "gain")
PUBLIC = [{"hours": 0, "id": 1}, {"hours": 1}, {"hours": 2}, {"hours": 6, "note": "x"}, {"hours": "six"}, {}]
REACHED = [0, 1, 2, 3, 3, 3]
"""How many regions are within reach of those: what is no number of hours is 3."""
RULES = {
    "three": RULE,
    "categories": Rule(Feature("job", categories=("a", "b", "c"), missing="a"), "krr", Decimal("0.5"), outside="c"),
}


def with_sensitive(public):
    """Return records of one set of public columns that hold whatever a record can."""
    usual = [{**public, "age": age, "job": job} for age, job in product((0, 20, 40, 70, 100), "abc")]
    absurd = [{**public, "age": value, "job": value} for value in ABSURD]
    return [*usual, *absurd, public, {**public, "job": "b"}, {**public, "age": 99}]


# ---- the claim, exactly


@pytest.mark.parametrize("draw", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.cases(1)
def test_all_that_can_be_sent_keeps_epsilon(kind, draw):
    given = policy(kind, draw=draw)
    assert given.tailoring is not None
    for public, reached in zip(PUBLIC, REACHED, strict=True):
        shares = loss_is_kept(given, with_sensitive(public), "1")
        rows = np.array([[0, 0, GRIDS[2].place(public.get("hours"))]])
        assert (ReachableRegions.of(given.tailoring, rows).standing >= 0).sum() == reached
        assert reached or len(shares) == 1
        if reached == 3 and kind == "worst":
            assert len(set(zip(*shares.values(), strict=True))) == 3  # each region has a row of its own


@pytest.mark.parametrize("kind", KINDS)
def test_all_columns_sensitive(kind):
    standing = tuple(np.column_stack([rows, np.full(len(rows), 6)]) for rows in STANDING)
    if kind == "average":
        with pytest.raises(ValueError, match="it asks about a sensitive column"):
            policy(kind, (True, True, True), standing=standing)
        return
    found = policy(kind, (True, True, True), standing=standing, draw=kind == "gain")
    records = [{"age": v, "job": w, "hours": h} for v, w, h in product((0, 40, "x"), "ac", (0, 1, 2, 6, None))]
    assert len(loss_is_kept(found, [*records, {}], "1")) >= 2


@pytest.mark.parametrize("epsilon", ["0.01", "3", "44"])
@pytest.mark.parametrize("kind", KINDS)
def test_small_and_large_epsilons(kind, epsilon):
    records = with_sensitive({"hours": 6})[:15]
    loss_is_kept(policy(kind, epsilon=epsilon), records, epsilon)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_with_a_rule_are_charged_twice_and_no_more(kind, rule):
    """The true hours, or job, vary as well: the record's whole promise holds, and is the sum."""
    hidden = (True, True, False) if rule == "three" else (True, False, False)
    standing = STANDING if rule == "three" else tuple(rows[:, :1] for rows in STANDING)
    found = policy(kind, hidden, standing=standing, rules=[RULES[rule]], draw=True)
    assert found.total == Decimal("1.5")
    assert 1.4999999 < found.guarantee.epsilon <= 1.5
    name, others = ("hours", (0, 1, 2, 7)) if rule == "three" else ("job", "abc")
    rest = {"hours": 6} if rule == "categories" else {"job": "b"}
    records = [{"age": age, **rest, name: value} for age, value in product((0, 50, 100, "?", Hostile()), others)]
    loss_is_kept(found, records, "1.5")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.cases(1)
def test_released_values_alone_decide_what_is_within_reach(kind):
    """With the same released hours, records of other hours can send the same, and their region costs its epsilon."""
    found = tailoring(kind, draw=True)
    bound = exp_below(Fraction(1))
    for released in range(8):
        told = []
        for hours, age in product(range(8), (0, 7, 12)):
            true, seen = np.array([age, 1, hours]), np.array([age, 1, released])
            told.append(dict(found.outcomes(true, seen)))
        assert all(shares.keys() == told[0].keys() for shares in told)
        for sent in told[0]:
            each = [shares[sent] for shares in told]
            assert max(each) <= bound * min(each)
        assert released < 3 or len({tuple(shares.values()) for shares in told}) > 1 or kind == "average"


def test_what_is_within_reach_does_not_look_at_sensitive_columns():
    for kind in KINDS:
        found = tailoring(kind)
        rows = np.array(list(product(range(0, 16, 3), range(3), range(8))))
        reach = ReachableRegions.of(found, rows)
        moved = ReachableRegions.of(found, np.column_stack([rows[::-1, :2], rows[:, 2]]))
        assert np.array_equal(reach.standing[reach.at], moved.standing[moved.at])
        for a, b in zip(reach.at.tolist(), moved.at.tolist(), strict=True):
            assert reach.case(a) is moved.case(b)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_randomised_response_is_built_anew_for_what_is_within_reach(count):
    """Of a part of a larger kernel, divided by its sum, no such thing holds: what is kept would depend on the row."""
    found = Worst(Decimal("1.3"), 5)
    for leaf_out in range(5):
        present = tuple(region for region in range(5) if region != leaf_out)[:count] if count < 5 else tuple(range(5))
        case = found.case(0, present)
        other = kernel("krr", "1.3", k=count)
        assert case.kernel is not None
        assert [case.kernel.weights(i) for i in range(count)] == [other.weights(i) for i in range(count)]
        assert case.regions == present


def test_folded_rows_keep_what_the_kernel_keeps():
    """Rows of which columns 1, 2 renormalised would lose 1.796 instead of 1."""
    word = 1 << 64
    rows = []
    for row in ((0.0544, 0.2, 0.7456), (0.02, 0.5437, 0.4363), (0.0544, 0.2, 0.7456)):
        weights = [int(part * word) for part in row]
        rows.append((*weights[:2], word - sum(weights[:2])))
    kernel = RegionKernel("region", Fraction("1.01"), 3, tuple(rows), np.zeros(3), np.inf, -np.inf)
    found = Gain(Decimal("1.01"), 3, kernel, ((0, 1, 2), (1, 0, 2), (2, 1, 0)))
    bound = exp_below(Fraction("1.01"))
    for present in ((0, 1), (0, 2), (1, 2), (2,), (0, 1, 2)):
        case = found.case(0, present)
        told = [dict(case.shares(region)) for region in range(3)]
        assert all(sum(shares.values()) == 1 and shares.keys() == told[0].keys() for shares in told)
        for region in told[0]:
            each = [shares[region] for shares in told]
            assert max(each) <= bound * min(each)
    assert folded(kernel, (0, 1), found.instead)[0] == (rows[0][0], rows[0][1] + rows[0][2])


# ---- draws


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draw", [False, True])
def test_draws_follow_the_outcomes(kind, draw):
    """Words are fixed, so that nothing is left to chance; of fresh ones, 1e-6 of the runs would fail."""
    found, size, risk = tailoring(kind, draw=draw), 20_000, Risk(Fraction(1, 10**6))
    cases = [[2, 0, 0], [7, 1, 1], [12, 1, 2], [0, 0, 7], [8, 0, 7], [15, 0, 7]]
    for number, (true, part) in enumerate(zip(cases, risk.split(len(cases)), strict=True)):
        row = np.array(true)
        shares = found.outcomes(row, row)
        sent = found.released(np.tile(row, (size, 1)), np.tile(row, (size, 1)), ReplayableWords(number))
        counts = [int((sent == values).all(axis=1).sum()) for values, _ in shares]
        assert sum(counts) == size
        lower, upper = part.split(len(counts)).interval(np.array(counts), size)
        assert all(a <= share <= b for a, (_, share), b in zip(lower, shares, upper, strict=True))


def test_draws_under_rules_follow_the_outcomes():
    """As above: fixed words, 1e-6.  Records that say the same of public columns share a block with others."""
    import pandas as pd

    from epsworth.policy.tables import Perturbation

    found, size = policy("worst", rules=[RULE]), 30_000
    record = {"age": 80, "job": "a", "hours": 6, "id": 7}
    import narwhals as nw

    frame = pd.DataFrame([record] * size)
    released = Perturbation(found, ReplayableWords(3)).frame(nw.from_native(frame)).to_native()
    counted = released.value_counts(["age", "job", "hours"])
    shares = {(s["age"], s["job"], s["hours"]): p for s, p in found.outcomes(record)}
    assert set(counted.index) <= shares.keys()
    counts = np.array([counted.get(key, 0) for key in shares])
    lower, upper = Risk(Fraction(1, 10**6)).split(len(counts)).interval(counts, size)
    assert all(a <= p <= b for a, p, b in zip(lower, shares.values(), upper, strict=True))


class Listed(ReplayableWords):
    """Words that stand in a list."""

    def __init__(self, words):
        self.words = list(words)

    def take(self, count):
        taken, self.words = self.words[:count], self.words[count:]
        return np.array(taken, dtype=np.uint64)


def test_uniform_draws_reject_what_would_favour_the_first():
    last = 2**64 - 1
    words = Listed([last, last - 1, 5, last, 7])  # of 3, the last multiple of a word ends at 2^64 - 1
    assert _uniform(3, 2, words).tolist() == [(last - 1) % 3, 5 % 3]
    assert _uniform(4, 1, Listed([last])).tolist() == [3]
    most = 2**64 - 2**64 % 3000
    assert _uniform(3000, 1, Listed([most, last, most - 1])).tolist() == [2999]


# ---- any g, any representatives


@st.composite
def trees(draw, count=3, inputs=INPUTS):
    """Return random trees that sum values."""
    nodes = draw(st.integers(0, 4))
    size = 2 * nodes + 1
    feature = np.array([draw(st.integers(0, 2)) for _ in range(nodes)] + [-1] * (nodes + 1))
    left, right = (np.array([2 * i + k if i < nodes else -1 for i in range(size)]) for k in (1, 2))
    threshold = np.array([draw(st.integers(-1, 16)) for _ in range(size)])
    sets = {i: tuple(draw(st.sets(st.integers(0, 2)))) for i in range(nodes) if not inputs[feature[i]].ordered}
    values = np.array(draw(st.lists(st.lists(st.integers(-3, 3), min_size=count, max_size=count),
                                    min_size=size, max_size=size)))  # fmt: skip
    return Trees(inputs, feature, left, right, threshold, sets, np.array([0]), values, count)


places = st.tuples(st.integers(0, 15), st.integers(0, 2))
anything = st.none() | st.text(max_size=3) | st.floats() | st.integers() | st.sampled_from("abc") | st.lists(st.none())


@given(data=st.data(), kind=st.sampled_from(KINDS), draw=st.booleans())
@settings(max_examples=30, deadline=None)
def test_any_copy_and_any_representatives_keep_epsilon(data, kind, draw):
    copy = data.draw(trees() | st.builds(linear, st.integers(0, 99), st.sampled_from([(), (4,)])))
    standing = tuple(np.array(data.draw(st.lists(places, max_size=4)), dtype=np.int64).reshape(-1, 2) for _ in range(3))
    found = policy(kind, copy=copy, standing=standing, draw=draw)
    public = {"hours": data.draw(anything), "id": 5}
    records = [
        {**public, "age": age, "job": job}
        for age, job in data.draw(st.lists(st.tuples(anything, anything), max_size=4))
    ]
    loss_is_kept(found, [public, *records, *({**public, "age": a, "job": j} for a, j in ((1, "a"), (99, "c")))], "1")


# ---- what is refused


def test_sampling_beside_a_tailored_policy_is_refused():
    with pytest.raises(ValueError, match="sample: a tailored policy"):
        Policy((RULE,), Sampling(1), tailoring())
    document = tomllib.loads(policy(rules=[RULE]).to_toml())
    del document["fingerprint"]
    document["sample"] = {"features": 1}
    with pytest.raises(ValueError, match="sample: a tailored policy"):
        Policy.from_toml(tomli_w.dumps(document))


def test_a_tailored_policy_has_something_to_replace():
    document = tomllib.loads(policy().to_toml())
    del document["fingerprint"]
    for part in document["tailored"]["inputs"].values():
        part["sensitive"] = False
    with pytest.raises(ValueError, match=r"tailored.inputs: none is sensitive"):
        Policy.from_toml(tomli_w.dumps(document))


def test_a_sensitive_column_has_no_rule_of_its_own():
    with pytest.raises(ValueError, match="two rules for 'age'"):
        policy(rules=[Rule(Feature("age", 0, 100), "pm", Decimal(1))])


def test_a_prior_that_asks_about_sensitive_columns_is_refused():
    asking = replace(PRIOR, feature=np.array([0, -1, -1]))
    with pytest.raises(ValueError, match=r"kernel.prior: it asks about a sensitive column"):
        replace(tailoring("average"), randomiser=replace(randomiser("average"), prior=asking))


# ---- reading


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copy", [steps(), linear(5, (4,))])
def test_policies_are_read_as_they_were_written(kind, copy):
    written = policy(kind, copy=copy, rules=[RULE], draw=True)
    read = Policy.from_toml(written.to_toml())
    assert read == written
    assert read.fingerprint == written.fingerprint
    assert read.outcomes({"hours": 6, "age": 3}) == written.outcomes({"hours": 6, "age": 3})


def test_a_changed_byte_is_refused_and_an_edit_without_the_fingerprint_is_not():
    text = policy("gain", copy=linear(5, (4,))).to_toml()
    document = tomllib.loads(text)
    document["tailored"]["copy"]["layers"][1]["biases"][0] += 1
    with pytest.raises(ValueError, match="fingerprint: states"):
        Policy.from_toml(tomli_w.dumps(document))
    del document["fingerprint"]
    assert Policy.from_toml(tomli_w.dumps(document)).fingerprint != policy("gain", copy=linear(5, (4,))).fingerprint


WORD = 1 << 64
EDITS = {
    "kernel.rows: weights": ("kernel.rows.0", ["-1", "0", str(WORD + 1)]),
    "kernel: .*add up": ("kernel.rows.0.0", "5"),
    "kernel: .*exceeds": ("kernel.rows.1", ["1", "1", str(WORD - 2)]),
    "kernel: .*empty": ("kernel.rows", [["0", str(WORD), "0"], ["1", str(WORD - 1), "0"], ["0", str(WORD), "0"]]),
    "kernel.rows: weights .*text": ("kernel.rows.0.0", 5),
    "kernel: there must be": ("kernel.rows", [[str(WORD)]]),
    "kernel.instead: each order": ("kernel.instead.0", [0, 0, 1]),
    "kernel.instead: must be a list of whole": ("kernel.instead.0", [0, True, 1]),
    "kernel.kind": ("kernel.kind", "best"),
    "kernel.weights: unknown": ("kernel.weights", 1),
    "copy.trees: left: children": ("copy.left.0", 0),
    "copy.trees: right: children": ("copy.right.0", 99),
    "copy.trees: a node asks": ("copy.feature.0", 3),
    "copy.feature: .*whole": ("copy.feature.0", 1.0),
    "copy.values: .*whole": ("copy.values.3.0", True),
    "copy.threshold: .*below": ("copy.threshold.0", 1 << 53),
    "copy.trees: a leaf names": ("copy.values.3.0", 3),
    "copy.trees: a set names": ("copy.sets.16", [3]),
    "copy.trees: sets must stand": ("copy.sets", {}),
    "copy.sets: nodes": ("copy.sets.x", [1]),
    "copy.sets: nodes must be named": ("copy.sets.١٦", [1]),
    "copy.trees: sets must stand at nodes that are there": ("copy.sets.999", [1]),
    "copy.kind": ("copy.kind", "forest"),
    "copy.trees: all tables": ("copy.left", [1]),
    "copy.trees: a root": ("copy.roots", [77]),
    "labels: there must be one|copy|kernel": ("labels", ["a", "b"]),
    "labels: must be": ("labels", []),
    "representatives: each": ("representatives.0.0", [16, 0]),
    r"representatives\[0\]: must hold": ("representatives.0.0", [1]),
    r"representatives\[0\]: must be": ("representatives.0.0", [1.5, 0]),
    "representatives: there must be": ("representatives", []),
    "default: must hold": ("default", []),
    "default|representatives: each": ("default", [-1, 0]),
    "draw: must be": ("draw", 1),
    "classifiers: must be": ("classifiers", [1]),
    "epsilon": ("epsilon", -1),
    "inputs: there is none": ("inputs", {}),
    "inputs.age.bits": ("inputs.age.bits", 17),
    "inputs.age.missing": ("inputs.age.missing", 400),
    "inputs.hours.points": ("inputs.hours.points", 1 << 40),
    "inputs.job.outside": ("inputs.job.outside", "z"),
    "inputs.age.sensitive": ("inputs.age.sensitive", 1),
    "extra: unknown entry": ("extra", 1),
}  # fmt: skip


def edited(document, path, value):
    """Return a policy's document with one entry of its table replaced."""
    document = deepcopy(document)
    del document["fingerprint"]
    *steps_, last = path.split(".")
    at = document["tailored"]
    for step in steps_:
        at = at[int(step) if isinstance(at, list) else step]
    at[int(last) if isinstance(at, list) else last] = value
    return document


@pytest.mark.parametrize("says", EDITS)
@pytest.mark.cases(1)
def test_loading_proves_everything_again(says):
    document = tomllib.loads(policy("gain").to_toml())
    with pytest.raises(ValueError, match=f"^tailored.({says})") as told:
        Policy.from_toml(tomli_w.dumps(edited(document, *EDITS[says])))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("says", "path", "value"),
    [
        ("copy.layers.0.*2.53", "copy.layers.0.weights.0.0", (1 << 53) - 1),
        ("copy.layers.0.: shift", "copy.layers.0.shift", 53),
        ("copy.layers.0..shift", "copy.layers.0.shift", True),
        ("copy.layers: the last", "copy.layers.1.shift", 1),
        ("copy.layers.1.: weights must fit", "copy.layers.1.weights", [[1], [2], [3]]),
        ("copy.layers.1.: there must be one bias", "copy.layers.1.biases", [1]),
        ("copy.layers.0..biases", "copy.layers.0.biases.0", 1.5),
        ("copy.layers.0..weights: rows", "copy.layers.0.weights.0", [1]),
        ("copy.layers: there must be", "copy.layers", []),
    ],
)
def test_loading_bounds_every_sum(says, path, value):
    document = tomllib.loads(policy("gain", copy=linear(5, (4,))).to_toml())
    with pytest.raises(ValueError, match=f"^tailored.{says}"):
        Policy.from_toml(tomli_w.dumps(edited(document, path, value)))


LINE = {"kind": "layers", "layers": [{"weights": [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1]], "biases": [0, 0]}]}


@pytest.mark.parametrize(
    ("says", "path", "value"),
    [
        ("kernel.prior: it asks", "kernel.prior.feature.0", 0),
        ("kernel.prior.trees", "kernel.prior.left.0", 0),
        ("kernel.prior: must be one tree", "kernel.prior", LINE),
        ("kernel.orders", "kernel.orders.0", [0, 1]),
        ("kernel.most", "kernel.most.0", 4),
        ("kernel.most", "kernel.most", 4),
        ("kernel", "kernel.most", [1]),
    ],
)
def test_loading_proves_the_prior(says, path, value):
    document = tomllib.loads(policy("average").to_toml())
    with pytest.raises(ValueError, match=f"^tailored.{says}"):
        Policy.from_toml(tomli_w.dumps(edited(document, path, value)))


def test_randomised_response_is_never_read():
    document = tomllib.loads(policy("worst").to_toml())
    with pytest.raises(ValueError, match=r"tailored.kernel.rows: unknown entry"):
        Policy.from_toml(tomli_w.dumps(edited(document, "kernel.rows", [["1"]])))


def test_another_epsilon_needs_another_kernel():
    document = tomllib.loads(policy("gain").to_toml())
    for epsilon in ("0.9", "1.1"):
        changed = edited(document, "epsilon", Decimal(epsilon))
        del changed["per_record"]
        with pytest.raises(ValueError, match=r"tailored.kernel: .*exceeds") if epsilon == "0.9" else _nothing():
            Policy.from_toml(tomli_w.dumps(changed))


def _nothing():
    from contextlib import nullcontext

    return nullcontext()


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3)
    | st.sampled_from(["0", "1", str(WORD), "9" * 5000, 10**400, [[]], [[1], [1, 2]], "\u0661"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def _paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _paths(inner, (*path, key))


TABLES = [
    tailoring("gain", draw=True).to_dict(), tailoring("average").to_dict(),
    tailoring("worst", copy=linear(5, (4,))).to_dict(),
]  # fmt: skip
PATHS = [[path for path in _paths(table) if path] for table in TABLES]


@given(data=st.data(), number=st.integers(0, 2))
@settings(max_examples=150, deadline=None)
@pytest.mark.slow
def test_any_change_is_refused_in_a_sentence_or_keeps_epsilon(data, number):
    table = deepcopy(TABLES[number])
    for _ in range(data.draw(st.integers(1, 2))):
        *above, last = data.draw(st.sampled_from(PATHS[number]))
        at = table
        try:
            for key in above:
                at = at[key]
            old = at[last]
        except (KeyError, IndexError, TypeError):
            continue
        whole = type(old) is int
        nearby = st.integers(old - 2, old + 2) if whole else junk
        change = data.draw(st.sampled_from(["put", "near", "drop"]))
        if change == "drop":
            del at[last]
        else:
            at[last] = data.draw(nearby if change == "near" else junk)
    try:
        read = read_tailoring(table)
    except ValueError as error:
        says = str(error)
    else:
        says = ""
    if says:
        assert says.startswith("tailored.")
        assert "\n" not in says
        return
    found = Policy((), None, read, Pass(tuple(name for name in ("age", "job", "hours") if name not in read.names)))
    records = [{}, {"age": 0, "job": "a"}, {"age": 50, "job": "c"}, {"age": 99, "job": "b"}, {"age": "?", "job": 5}]
    for hours in (0, 2, 6):
        fixed = [{**record, "hours": hours} for record in records]
        if "hours" in read.names:
            fixed += [{**record, "hours": 5 - hours} for record in records]
        if any(
            not hidden and grid.name in ("age", "job") for grid, hidden in zip(read.grids, read.sensitive, strict=True)
        ):
            fixed = fixed[:1]
        loss_is_kept(found, fixed, str(read.epsilon))


def test_giant_tables_are_refused_in_time():
    table = tailoring().to_dict()
    for path, value in {
        "representatives": [[[0, 0]] * 5000, [], []],
        "labels": ["a"] * 300,
    }.items():
        with pytest.raises(ValueError, match=f"^tailored.{path}"):
            read_tailoring({**table, path: value})


# ---- grids are total


@pytest.mark.parametrize("grid", GRIDS)
def test_every_value_has_a_place_of_its_own_alone(grid):
    """Whatever stands beside it: what equals it has another place where it is another thing."""
    values = [*ABSURD, 1, 0, 3, "a", "b", 1.0]
    alone = [grid.place(value) for value in values]
    assert all(0 <= place < grid.input.places for place in alone)
    assert grid.places(values).tolist() == alone
    assert grid.places(values[::-1]).tolist() == alone[::-1]
    if grid is AGE:
        assert alone[values.index("40")] == alone[0] == grid.place(40)
    if grid is JOB:
        assert alone[0] == 0
        assert grid.place("q") == grid.place(object()) == 2


def test_policies_hold_what_they_were_given():
    found = tailoring("gain")
    assert found.names == ("age", "job")
    assert found.epsilon == 1
    assert (found.labels, found.classifiers) == (LABELS, ("abc",))
    assert isinstance(found, Tailoring)
    assert isinstance(ConditionalKernel((1,), None).shares(5), list)
    assert isinstance(randomiser("average"), Average)
    assert isinstance(AGE, Grid)


def test_places_of_one_value_are_one_outcome():
    """Of a range as narrow as a few doubles."""
    grids = (Grid(Feature("age", 1e16, 1e16 + 4), 4, missing=1e16), *GRIDS[1:])
    copy = Trees(
        INPUTS, np.array([0, -1, 0, -1, -1]), np.array([1, -1, 3, -1, -1]), np.array([2, -1, 4, -1, -1]),
        np.array([0, 0, 1, 0, 0]), {}, np.array([0]), np.array([[0], [0], [0], [1], [2]]), 3, True,
    )  # fmt: skip
    standing = tuple(np.array([[place, 1]]) for place in (0, 1, 15))
    made = replace(tailoring(), grids=grids, representatives=standing, copy=copy)
    given = Policy((), None, made, Pass(("hours",)))
    found = given.outcomes({"age": 1e16, "hours": 3})
    assert [sent["age"] for sent, _ in found] == [1e16, 1e16 + 4]
    assert sum(share for _, share in found) == 1


@pytest.mark.parametrize("order", [None, ((2, 0, 1), (1, 2, 0))])
def test_a_region_out_of_reach_takes_the_first_one_s_row(order):
    """The first in the policy's order, or in the prior's."""
    given = Worst(Decimal(1), 3) if order is None else randomiser("average")
    case = given.case(0, (0, 2))
    first, last = (0, 2) if order is None else (2, 0)
    assert case.shares(1) == case.shares(first) != case.shares(last)
