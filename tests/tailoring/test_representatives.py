"""What stands for regions: public places that copy and classifier agree about, and no public record's own."""

from __future__ import annotations

import numpy as np
import pytest

from epsworth.grids import Input
from epsworth.tailored.learning import Spread, grow, linear, training_mix
from epsworth.tailored.regions import boxes, candidates, cells_of, representatives
from epsworth.tailored.surrogates import LEAF, IntegerReLU, Joint, Layer, Trees

SOME = (True, True, False, False)
WORDS = (Input(5, False), Input(3, True), Input(1 << 16, True))


def learnt(data, kind="tree:256"):
    places, regions = training_mix(data, np.random.default_rng(0), 4000)
    if kind == "linear":
        return linear(Spread.of(places, data.inputs), places, regions, data.count)
    grown = grow(places, regions, data.inputs, data.count, 0, leaves=int(kind.removeprefix("tree:")))
    return grown.likeliest(data.inputs)


def as_sums(tree):
    """Return the same tree twice, as a sum of scores."""
    n, inner = len(tree.feature), tree.feature != LEAF
    twice = [np.concatenate([part, np.where(inner, part + n, part)]) for part in (tree.left, tree.right)]
    sets = tree.sets | {node + n: words for node, words in tree.sets.items()}
    values = np.eye(tree.count, dtype=np.int64)[np.where(inner, 0, tree.values[:, 0])]
    return Trees(
        tree.inputs, np.tile(tree.feature, 2), *twice, np.tile(tree.threshold, 2), sets, np.array([0, n]),
        np.tile(values, (2, 1)), tree.count,
    )  # fmt: skip


def enumerated(data, copy, rows, drawn, region, most):
    """Return the greedy choice by its definition, everything asked at once."""
    contexts = np.repeat(rows, len(drawn))
    tiled = np.tile(drawn, (len(rows), 1))
    g = copy(data.moved(contexts, tiled)).reshape(len(rows), -1) == region
    h = data.asked(contexts, tiled).reshape(len(rows), -1) == region
    left, found = np.ones(len(rows), dtype=bool), []
    while len(found) < most:
        score = (g & h)[left].sum(axis=0) - 3 * (g & ~h)[left].sum(axis=0)
        if score.max() <= 0:
            break
        found.append(int(np.argmax(score)))
        left &= ~g[:, found[-1]]
    return found


@pytest.mark.parametrize("sums", [False, True])
def test_they_are_the_greedy_cover_by_its_definition(public, classifier, sums):
    def harder(places):  # the sensitive columns reach a region in some contexts only
        return np.where(places[:, 0] + 14 * places[:, 2] > 80_000, 2, np.where(places[:, 3] == places[:, 1] % 4, 1, 0))

    data = public(harder, SOME, 300, 0)  # no more than 800: all of them are contexts
    copy = learnt(data, "tree:32")
    copy = as_sums(copy) if sums else copy
    drawn = candidates(data, copy, np.random.default_rng(5))
    chosen, _ = representatives(data, copy, np.random.default_rng(5), most=6)
    assert max(map(len, chosen)) > 1
    for region, rows in enumerate(chosen):
        expected = {tuple(drawn[k]) for k in enumerated(data, copy, np.arange(300), drawn, region, 6)}
        got = {tuple(row) for row in rows}
        assert len(got) == len(expected)
        assert got == expected


def test_on_records_never_seen_they_are_in_their_region(public, classifier):
    data, unseen = public(classifier, SOME, 2000, 0), public(classifier, SOME, 1000, 1)
    copy = learnt(data)
    chosen, default = representatives(data, copy, np.random.default_rng(0))
    rows, wrong, told = np.arange(1000), 0, 0
    for region, some in enumerate(chosen):
        assert 1 <= len(some) <= 24
        for row in some:
            moved = np.tile(row, (1000, 1))
            says = copy(unseen.moved(rows, moved)) == region
            wrong += int((unseen.asked(rows, moved)[says] != region).sum())
            told += int(says.sum())
    assert wrong < 0.02 * told
    kept = np.mean(unseen.asked(rows, np.tile(default, (1000, 1))) == unseen.regions)
    assert kept > 0.3  # the best constant of three regions


@pytest.mark.parametrize("kind", ["tree:32", "linear"])
@pytest.mark.parametrize("sensitive", [SOME, (True, True, True, True), (True, False, False, False)])
def test_none_is_a_public_record(public, classifier, kind, sensitive):
    data = public(classifier, sensitive, 1500, 0)
    chosen, default = representatives(data, learnt(data, kind), np.random.default_rng(0))
    own = {tuple(row) for row in data.places[:, data.sensitive].tolist()}
    found = [default, *(row for rows in chosen for row in rows)]
    assert not own & {tuple(row.tolist()) for row in found}
    many = [one.places for one, asked in zip(data.inputs, sensitive, strict=True) if asked]
    assert all(((row >= 0) & (row < many)).all() for row in found)


def test_small_grids_are_taken_whole_whoever_is_in_them(public):
    data = public(lambda p: (p[:, 0] == 2) * 1 + (p[:, 2] > 30_000), (True, True, False), 200, 0, 3, WORDS)
    drawn = candidates(data, learnt(data), np.random.default_rng(0))
    assert {tuple(row) for row in drawn.tolist()} == {(i, j) for i in range(5) for j in range(3)}
    chosen, _ = representatives(data, learnt(data), np.random.default_rng(0))
    assert [len(rows) for rows in chosen] == [1, 2, 1]  # 1 is reached by the word, or by the others


def test_a_grid_full_of_records_gives_places_drawn_without_them(public):
    one = (Input(400, True), Input(9, True))
    data = public(lambda p: (p[:, 0] > 150).astype(int), (True, False), 30_000, 0, 2, one)
    assert len(np.unique(data.places[:, 0])) > 390
    assert len(candidates(data, learnt(data), np.random.default_rng(0))) == 64


def test_without_public_columns_the_steadiest_stands_for_a_region(public, classifier):
    data = public(classifier, (True,) * 4, 1500, 0)
    for kind in ("tree:256", "linear"):
        copy = learnt(data, kind)
        chosen, default = representatives(data, copy, np.random.default_rng(0))
        assert [len(rows) for rows in chosen] == [1, 1, 1]
        for region, (row,) in enumerate(chosen):
            near = np.tile(row, (400, 1))
            noise = np.random.default_rng(1).normal(0, 0.01, (400, 2)) * [1 << 16, 1 << 12]
            near[:, [0, 2]] += np.rint(noise).astype(int)
            assert (classifier(near) == region).mean() > 0.97
            assert copy(row[np.newaxis])[0] == region
        assert data.asked(np.zeros(1, dtype=int), default[np.newaxis])[0] == np.argmax(np.bincount(data.regions))


def test_a_region_that_nobody_reaches_has_none(public, classifier):
    data = public(classifier, SOME, 500, 0, count=4)
    chosen, _ = representatives(data, learnt(data), np.random.default_rng(0))
    assert [bool(rows) for rows in chosen] == [True, True, True, False]
    alone = public(classifier, (True,) * 4, 500, 0, count=4)
    assert not representatives(alone, learnt(alone), np.random.default_rng(0))[0][3]


def test_where_the_copy_is_wrong_nothing_stands(public, classifier):
    copy = learnt(public(classifier, SOME, 300, 0))
    data = public(lambda places: (copy(places) + 1) % 3, SOME, 300, 0)
    chosen, default = representatives(data, copy, np.random.default_rng(0))
    assert not any(chosen)
    assert default.shape == (2,)


def test_boxes_are_where_leaves_are(public, classifier):
    tree = learnt(public(classifier, SOME, 2000, 0), "tree:256")
    low, high, words = boxes(tree)
    rng = np.random.default_rng(3)
    for leaf in np.flatnonzero(tree.feature == LEAF):
        inside = rng.integers(low[leaf], high[leaf] + 1, size=(20, 4))
        for column, allowed in words.items():
            inside[:, column] = rng.choice(np.flatnonzero(allowed[leaf]), 20)
        assert (tree(inside) == tree.values[leaf, 0]).all()


def test_the_margin_of_sums_decides_where_neighbours_do_not(public):
    data = public(lambda p: (p[:, 0] > 32_767).astype(int), (True,), 400, 0, 2, (Input(1 << 16, True),))
    line = IntegerReLU(data.inputs, (Layer(np.array([[0], [2]]), np.array([0, -65_535]), 0),))
    chosen, _ = representatives(data, line, np.random.default_rng(0))
    assert chosen[0][0][0] < 20_000
    assert chosen[1][0][0] > 45_000


def test_without_public_columns_several_classifiers_and_cells_have_steady_ones(public, classifier):
    """Parts have margins in units of their own: what stands must be steady for all of them."""
    data = public(classifier, (True,) * 4, 1500, 0)
    linear, tree = learnt(data, "linear"), learnt(data, "tree:256")
    joint = Joint(data.inputs, (linear, tree), np.arange(9) // 3, 3)
    cells = cells_of(data, tree, 9, 1.0, np.random.default_rng(0))
    medians = np.concatenate([rows[:1] for rows in cells.standing])
    np.testing.assert_array_equal(cells.copy(medians), np.arange(cells.copy.regions))
    np.testing.assert_array_equal(classifier(medians), cells.regions)
    for copy, regions in ((joint, np.arange(3)), (cells.copy.part, np.arange(3))):
        chosen, _ = representatives(data, copy, np.random.default_rng(0))
        assert [len(rows) for rows in chosen] == [1, 1, 1]
        standing = np.concatenate(chosen)
        np.testing.assert_array_equal(copy(standing), regions)
        near = np.repeat(standing, 200, axis=0)
        noise = np.random.default_rng(1).normal(0, 0.01, (len(near), 2)) * [1 << 16, 1 << 12]
        near[:, [0, 2]] = np.clip(near[:, [0, 2]] + np.rint(noise).astype(int), 0, [(1 << 16) - 1, (1 << 12) - 1])
        assert (copy(near) == np.repeat(regions, 200)).mean() > 0.97
