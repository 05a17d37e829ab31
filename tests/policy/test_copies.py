"""Classifiers in whole numbers: exact in doubles, total on all places, refused where a table could fail."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_copies import (
    INPUTS,
    random_cells,
    random_copies,
    random_joint,
    random_layers,
    random_places,
    random_trees,
    read,
)

from epsworth.grids import Input
from epsworth.tailored import quickscorer, surrogates
from epsworth.tailored.document import read_copy
from epsworth.tailored.surrogates import LEAF, Cells, IntegerReLU, Joint, Layer, Trees, cell_weights

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "tailored.json").read_text())["integer_layers"]
AGE, TOWN = Input(1 << 16, True), Input(3, False)
NODES = {  # age <= 40000 ? (town in {0, 2} ? 1 : 0) : 2, and a stump on age
    "feature": [0, 1, LEAF, LEAF, LEAF, 0, LEAF, LEAF],
    "left": [1, 2, LEAF, LEAF, LEAF, 6, LEAF, LEAF],
    "right": [4, 3, LEAF, LEAF, LEAF, 7, LEAF, LEAF],
    "threshold": [40_000, 0, 0, 0, 0, 100, 0, 0],
    "sets": {"1": [0, 2]},
}
TREE = {"kind": "tree", "roots": [0], "values": [[9], [9], [1], [0], [2], [9], [9], [9]]} | NODES
TREE |= {key: TREE[key][:5] for key in ("feature", "left", "right", "threshold", "values")}
SUMS = {"kind": "trees", "roots": [0, 5], "values": [[0, 0], [0, 0], [0, 3], [2, 0], [1, 1], [0, 0], [5, 0], [0, 0]]}
SUMS |= NODES
LINE = {"kind": "layers", "layers": [{"weights": [[1, 5, 0, -5], [0, 1, 2, 3]], "biases": [-7, 1], "shift": 0}]}


def layers():
    first = Layer(np.array(REFERENCE["w1"]), np.array(REFERENCE["b1"]), REFERENCE["shift"])
    return IntegerReLU((AGE,) * 4, (first, Layer(np.array(REFERENCE["w2"]), np.array(REFERENCE["b2"]), 0)))


def test_layers_are_those_of_the_reference_to_the_last_digit():
    copy, places = layers(), np.array(REFERENCE["index"])
    np.testing.assert_array_equal(copy.scores(places), REFERENCE["scores"])
    np.testing.assert_array_equal(copy(places), REFERENCE["region"])


def test_layers_equal_arithmetic_without_bounds():
    """Python's integers, at random places and at the ends."""
    copy, rng = layers(), np.random.default_rng(0)
    places = np.vstack([rng.integers(0, 1 << 16, (200, 4)), np.zeros((1, 4), int), np.full((1, 4), (1 << 16) - 1)])
    for row, found in zip(places.tolist(), copy.scores(places), strict=True):
        values = row
        for layer in copy.layers[:-1]:
            sums = [sum(w * v for w, v in zip(r, values, strict=True)) + b for r, b in zip(layer.weights.tolist(), layer.biases.tolist(), strict=True)]  # fmt: skip # noqa: E501
            values = [max(total, 0) >> layer.shift for total in sums]
        last = copy.layers[-1]
        exact = [sum(w * v for w, v in zip(r, values, strict=True)) + b for r, b in zip(last.weights.tolist(), last.biases.tolist(), strict=True)]  # fmt: skip # noqa: E501
        assert found.tolist() == exact


@pytest.mark.parametrize(("table", "regions"), [(TREE, 3), (SUMS, 2), (LINE, 2)])
def test_what_is_written_is_read_again(table, regions):
    copy = read_copy(table, (AGE, TOWN), regions)
    again = read_copy(json.loads(json.dumps(copy.to_dict())), (AGE, TOWN), regions)
    places = np.column_stack([np.random.default_rng(0).integers(0, 1 << 16, 500), np.arange(500) % 3])
    np.testing.assert_array_equal(copy(places), again(places))


def test_one_tree_names_regions():
    copy = read_copy(TREE, (AGE, TOWN), 3)
    assert copy(np.array([[0, 0], [40_000, 1], [40_000, 2], [40_001, 0]])).tolist() == [1, 0, 1, 2]


def test_trees_are_added_up_and_the_first_of_equals_wins():
    copy = read_copy(SUMS, (AGE, TOWN), 2)
    places = np.array([[0, 0], [101, 0], [101, 1], [50_000, 0]])
    assert isinstance(copy, Trees)
    assert copy.scores(places).tolist() == [[5, 3], [0, 3], [2, 0], [1, 1]]
    assert copy(places).tolist() == [0, 1, 0, 0]


def changed(table, /, **parts):
    return table | parts


def layer(**parts):
    return {"kind": "layers", "layers": [LINE["layers"][0] | parts]}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "must be a table"),
        ({"kind": "pickle"}, "copy.kind"),
        (changed(TREE, left=[0, 2, LEAF, LEAF, LEAF]), "after their parents"),
        (changed(TREE, right=[5, 3, LEAF, LEAF, LEAF]), "after their parents"),
        (changed(TREE, feature=[2, 1, LEAF, LEAF, LEAF]), "not there"),
        (changed(TREE, feature=[-2, 1, LEAF, LEAF, LEAF]), "not there"),
        (changed(TREE, sets={}), "sets must stand"),
        (changed(TREE, sets={"0": [0], "1": [0]}), "sets must stand"),
        (changed(TREE, sets={"1": [3]}), "names a word"),
        (changed(TREE, sets={"one": [0]}), "named by their numbers"),
        (changed(TREE, values=[[9], [9], [1], [0], [3]]), "region that is not there"),
        (changed(TREE, values=[[9], [9], [1], [0], [-1]]), "region that is not there"),
        (changed(TREE, values=[[9], [9], [1], [0], [True]]), "whole numbers"),
        (changed(TREE, values=[[9], [9], [1], [0], [1, 2]]), "equally long"),
        (changed(TREE, threshold=[0.5, 0, 0, 0, 0]), "whole numbers"),
        (changed(TREE, threshold=[0]), "one row per node"),
        (changed(TREE, roots=[]), "at least one"),
        (changed(TREE, roots=[5]), "a root is not there"),
        (changed(TREE, roots=[0, 0]), "one tree alone"),
        (changed(SUMS, values=[[0, 2**52]] * 8), "2\\^53"),
        (changed(SUMS, values=[[0, 2**53]] * 8), "below 2\\^53"),
        (layer(shift=1), "no shift"),
        (layer(shift=-1), "shift"),
        (layer(shift=53), "shift"),
        (layer(shift="0"), "whole number"),
        (layer(biases=[1]), "one bias"),
        (layer(weights=[[1, 2, 3]]), "must fit"),
        (layer(weights=[[2**40, 0, 0, 0], [0, 1, 2, 3]]), "2\\^53"),
        (layer(weights=[[0, 2**52, 0, 0], [0, 1, 2, 3]], biases=[-(2**52), 0]), "2\\^53"),
        ({"kind": "layers", "layers": []}, "at least one"),
    ],
)
def test_tables_that_could_fail_or_round_are_refused(table, message):
    with pytest.raises(ValueError, match=message):
        read_copy(table, (AGE, TOWN), 3 if table is not None and table.get("kind") == "tree" else 2)


@given(
    seed=st.integers(0, 2**32 - 1),
    trees=st.integers(1, 5),
    leaves=st.sampled_from([1, 2, 3, 40, 63, 64, 65, 128, 129, 200]),
    regions=st.integers(1, 4),
    spread=st.sampled_from([1, 2, 1 << 40]),  # equal scores, and large ones
    grids=st.sampled_from([None, 4]),
)
@pytest.mark.slow
def test_masks_find_the_leaves_of_a_walk(seed, trees, leaves, regions, spread, grids):
    rng = np.random.default_rng(seed)
    copy = random_trees(rng, trees=trees, leaves=leaves, regions=regions, spread=spread, grids=grids)
    places = random_places(rng, 60)
    at = rng.permutation(60)[:30]
    places[at, 0] = np.clip(rng.choice(copy.threshold, 30) + rng.integers(-1, 2, 30), 0, INPUTS[0].places - 1)
    assert (copy._masks is None) == (leaves == 1)
    walked = copy.walk(places)
    np.testing.assert_array_equal(copy.scores(places), walked)
    np.testing.assert_array_equal(copy(places), np.argmax(walked, axis=1))
    table = copy.to_dict()
    assert [read(table, INPUTS, row) for row in places[:10].tolist()] == [
        (int(np.argmax(own)), own) for own in walked[:10].tolist()
    ]


def test_every_place_of_small_inputs():
    inputs = (Input(9, True), Input(4, False), Input(2, True))
    copy = random_trees(np.random.default_rng(5), trees=7, leaves=70, inputs=inputs)
    places = np.array(list(np.ndindex(9, 4, 2)))
    assert copy._masks is not None
    np.testing.assert_array_equal(
        copy.scores(places), [read(copy.to_dict(), inputs, row)[1] for row in places.tolist()]
    )


def test_parts_of_a_table_are_put_together(monkeypatch):
    """Chunks of masks, walkers, distances and layers end within the table; nothing of it is lost or swapped."""
    made = random_copies(6)
    places = random_places(np.random.default_rng(7), 101)
    whole = [copy(places) for copy in made]
    monkeypatch.setattr(quickscorer, "CHUNK", 150)
    monkeypatch.setattr(surrogates, "WALKERS", 20)
    monkeypatch.setattr(surrogates, "NUMBERS", 300)
    monkeypatch.setattr(surrogates, "DISTANCES", 40)
    for copy, regions in zip(made, whole, strict=True):
        np.testing.assert_array_equal(copy(places), regions)
        np.testing.assert_array_equal(copy(places[:1]), regions[:1])
        assert copy(places[:0]).shape == (0,)
    trees = made[1]
    scores = trees.scores(places)
    np.testing.assert_array_equal(trees.walk(places), scores)
    assert trees.walk(places[:0]).shape == (0, 3)


def test_trees_too_large_for_masks_are_walked(monkeypatch):
    places = random_places(np.random.default_rng(8), 50)
    small = random_trees(np.random.default_rng(9)).scores(places)
    monkeypatch.setattr(quickscorer, "LARGEST", 1000)
    copy = random_trees(np.random.default_rng(9))
    assert copy._masks is None
    np.testing.assert_array_equal(copy.scores(places), small)


@pytest.mark.parametrize(("depth", "masked"), [(8, True), (300, False)])
def test_nodes_with_many_parents_cost_no_time(depth, masked):
    """A table may lead to one node by 2^300 ways: it is proven, and must not take for ever."""
    after = np.append(np.arange(1, depth + 1), LEAF)
    feature, threshold = np.append(np.zeros(depth, dtype=np.int64), LEAF), np.arange(depth + 1)
    copy = Trees((AGE,), feature, after, after, threshold, {}, np.array([0, depth - 1]), np.full((depth + 1, 1), 3), 1)
    assert (copy._masks is not None) == masked
    assert copy.scores(np.array([[0], [5], [60_000]])).tolist() == [[6]] * 3


def test_joint_regions_are_those_of_the_table():
    copy = random_joint(np.random.default_rng(10))
    places = random_places(np.random.default_rng(11), 300)
    first, second, third = (part(places) for part in copy.parts)
    np.testing.assert_array_equal(copy(places), copy.table.reshape(3, 4, 2)[first, second, third])


def test_cells_are_the_nearest_of_their_region_and_the_first_of_equals():
    copy = random_cells(np.random.default_rng(12))
    places = random_places(np.random.default_rng(13), 500)
    found = copy(places)
    np.testing.assert_array_equal(copy.labels[found], copy.part(places))
    assert found[:100].tolist() == [read(copy.to_dict(), INPUTS, row)[0] for row in places[:100].tolist()]
    assert len(np.unique(found)) > 6
    assert len(copy.labels) - 1 not in found  # the twin of the first cell


def test_inputs_are_equally_long_to_cells():
    inputs = (Input(1 << 16, True), Input(2, True), Input(1 << 20, True), Input(7, False), Input(1, True))
    assert cell_weights(inputs, [0, 1, 3]).tolist() == [1, 65_536, 65_536]
    assert cell_weights(inputs, [2, 1, 3]).tolist() == [1, (1 << 20) - 1, (1 << 20) - 1]  # the finest sets the scale
    assert cell_weights(inputs, [4]).tolist() == [65_536]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.cases(1)
def test_every_kind_is_written_and_read_again(seed):
    for copy in random_copies(seed):
        again = read_copy(json.loads(json.dumps(copy.to_dict())), INPUTS, copy.regions)
        places = random_places(np.random.default_rng(seed), 200)
        assert again.to_dict() == copy.to_dict()
        np.testing.assert_array_equal(again(places), copy(places))


JOINT = {"kind": "joint", "counts": [3, 2], "parts": [TREE, LINE], "table": [0, 1, 2, 3, 0, 1]}
CELLS = {
    "kind": "cells", "count": 3, "part": TREE, "sensitive": [0, 1], "labels": [0, 2, 1, 0],
    "medians": [[5, 0], [65_535, 2], [9, 1], [5, 0]], "weights": [1, 65_536],
}  # fmt: skip


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed(JOINT, parts=None), "joint.parts: must be a list"),
        (changed(JOINT, parts=[]), "one for each part"),
        (changed(JOINT, parts=[], counts=[]), "at least one part"),
        (changed(JOINT, parts=[TREE, {"kind": "pickle"}]), r"joint.parts\[1\].kind"),
        (changed(JOINT, parts=[TREE, None]), r"joint.parts\[1\]: must be a table"),
        (changed(JOINT, parts=[TREE, changed(LINE, kind="joint")]), r"joint.parts\[1\].kind"),
        (changed(JOINT, parts=[changed(TREE, roots=[5]), LINE]), r"joint.parts\[0\]: trees: a root"),
        (changed(JOINT, counts=[2, 2]), r"joint.parts\[0\]: .*region that is not there"),
        (changed(JOINT, counts=[3, 3]), r"joint.parts\[1\]: copy: it tells 2 regions"),
        (changed(JOINT, counts=[0, 2]), r"joint.parts\[0\]: must tell 1 to 65536"),
        (changed(JOINT, counts=[40_000, 2], table=[0] * 80_000), "at most 65536 combinations"),
        (changed(JOINT, table=[0, 1, 2, 3, 0]), "one entry for each of 6"),
        (changed(JOINT, table=[0, 1, 2, 3, 0, 4]), "joint.table: names a region"),
        (changed(JOINT, table=[0, 1, 2, 3, 0, -1]), "joint.table: names a region"),
        (changed(JOINT, table=[0, 1, 2, 3, 0, 1.0]), "joint.table: must be whole"),
        (changed(CELLS, count=True), "cells.count"),
        (changed(CELLS, count=4), "every region must own"),
        (changed(CELLS, part=CELLS), "cells.part.kind"),
        (changed(CELLS, part=JOINT), "cells.part.kind"),
        (changed(CELLS, part=None), "cells.part: must be a table"),
        (changed(CELLS, labels=[0, 1, 1, 0]), "every region must own"),
        (changed(CELLS, labels=[0, 2, 1, 3]), "cells.labels: names a region"),
        (changed(CELLS, labels=[0, 2, 1]), "cells.medians: must have"),
        (changed(CELLS, labels=[]), "cells.labels"),
        (changed(CELLS, medians=[]), "cells.medians: must have"),
        (changed(CELLS, medians=[[5], [5], [5], [5]]), "cells.medians: must have"),
        (changed(CELLS, medians=[[5, 3], [5, 0], [5, 0], [5, 0]]), "cells.medians: names a place"),
        (changed(CELLS, medians=[[-1, 0], [5, 0], [5, 0], [5, 0]]), "cells.medians: names a place"),
        (changed(CELLS, sensitive=[]), "cells.sensitive"),
        (changed(CELLS, sensitive=[0, 2]), "cells.sensitive"),
        (changed(CELLS, sensitive=[0, -1]), "cells.sensitive"),
        (changed(CELLS, sensitive=[0, 0]), "each input once"),
        (changed(CELLS, weights=[1]), "cells.weights"),
        (changed(CELLS, weights=[1, 0]), "must be positive"),
        (changed(CELLS, weights=[1 << 37, 1 << 37]), "2\\^53"),
    ],
)
def test_joined_tables_that_could_fail_or_round_are_refused(table, message):
    with pytest.raises(ValueError, match=message):
        read_copy(table, (AGE, TOWN), 4)


def test_parts_are_plain_copies_of_the_same_inputs():
    cells = random_cells(np.random.default_rng(14))
    with pytest.raises(ValueError, match="plain"):
        Joint(INPUTS, (cells,), np.zeros(cells.regions, dtype=np.int64), 1)
    other = random_layers(np.random.default_rng(14), inputs=(AGE, TOWN))
    with pytest.raises(ValueError, match="same inputs"):
        Cells(INPUTS, other, cells.sensitive, cells.labels, cells.medians, cells.weights)
    assert read_copy(JOINT, (AGE, TOWN), 4).regions == read_copy(CELLS, (AGE, TOWN), 4).regions == 4


@pytest.mark.slow
def test_a_tree_that_is_one_long_path_is_walked():
    """Most of its nodes ask in most words of its masks: these alone would fit, what they are made of would not."""
    many = 40_000
    at = np.arange(many)
    inner, leaf = np.zeros(many, dtype=np.int64), np.array([0])
    copy = Trees(
        (Input(16, True),), np.append(inner, -1), np.append(inner + many, leaf), np.append(at + 1, leaf),
        np.append(inner - 1, leaf), {}, np.array([0]), np.append(inner, 1)[:, np.newaxis], 2, True,
    )  # fmt: skip
    assert copy._masks is None
    assert copy(np.array([[3], [0]])).tolist() == [1, 1]


@pytest.mark.parametrize("count", [2, 3])
def test_the_first_of_equal_scores_wins(count):
    """Of two, too, which are told apart by a comparison of their own."""
    layers = IntegerReLU(
        (Input(16, True),), (Layer(np.ones((count, 1), dtype=np.int64), np.zeros(count, dtype=np.int64), 0),)
    )
    leaf, values = np.array([-1]), np.full((1, count), 7)
    trees = Trees((Input(16, True),), leaf, leaf, leaf, leaf, {}, np.array([0]), values, count)
    for copy in (layers, trees):
        assert copy(np.array([[3], [0]])).tolist() == [0, 0]
