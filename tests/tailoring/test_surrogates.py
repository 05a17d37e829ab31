"""Copies that were learnt: whole numbers, in agreement with the classifier, even where no public record is."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from epsworth.grids import Input
from epsworth.tailored import learning as surrogates
from epsworth.tailored.document import read_copy
from epsworth.tailored.learning import Spread, grow, surrogate, training_mix, whole
from epsworth.tailored.problem import Public
from epsworth.tailored.surrogates import EXACT, IntegerReLU, Trees

SOME = (True, True, False, False)
NUMBER = Input(1 << 16, True)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Learn from few records: there are few columns here."""
    monkeypatch.setattr(surrogates, "MOST", 3000)
    monkeypatch.setattr(surrogates, "training_mix", partial(training_mix, n=4000))


def everywhere(public, classifier, n=4000):
    """Return records anywhere, and their regions."""
    rng = np.random.default_rng(9)
    places = np.column_stack([rng.integers(one.places, size=n) for one in public.inputs])
    return places, classifier(places)


@pytest.mark.parametrize(("kind", "least"), [("tree:32", 0.9), ("tree:256", 0.98), ("linear", 0.8), ("relu", 0.88)])
def test_copies_agree_and_are_whole(public, classifier, kind, least):
    data, chosen = public(classifier, SOME, 3000, 0), public(classifier, SOME, 1000, 1)
    copy, agreement = surrogate(data, chosen, kind, np.random.default_rng(0))
    assert agreement == np.mean(copy(chosen.places) == chosen.regions) >= least
    assert isinstance(copy, Trees if kind.startswith("tree") else IntegerReLU)
    again = read_copy(copy.to_dict(), data.inputs, 3)  # proves sums below 2^53, and whole numbers in all tables
    np.testing.assert_array_equal(again(chosen.places), copy(chosen.places))
    if isinstance(copy, Trees):
        assert np.count_nonzero(copy.left == -1) <= int(kind.removeprefix("tree:"))


def test_auto_is_the_best_of_all(public, classifier):
    data, chosen = public(classifier, SOME, 2000, 0), public(classifier, SOME, 1000, 1)
    _, best = surrogate(data, chosen, "auto", np.random.default_rng(0))
    assert best >= max(surrogate(data, chosen, kind, np.random.default_rng(0))[1] for kind in ("tree:1024", "linear"))


def test_a_line_is_found_by_sums_and_told_by_two_scores(public):
    def line(places):
        return (places[:, 0] + 20_000 * (places[:, 1] == 2) - 12 * places[:, 2] > 8_000).astype(int)

    data, chosen = public(line, SOME, 3000, 0, 2), public(line, SOME, 2000, 1, 2)
    copy, agreement = surrogate(data, chosen, "linear", np.random.default_rng(0))
    assert agreement > 0.985
    assert copy.regions == 2
    assert not copy.layers[-1].weights[0].any()


def test_what_is_learnt_holds_far_from_the_records(public, classifier, monkeypatch):
    monkeypatch.setattr(surrogates, "training_mix", training_mix)  # as many as by default
    data = public(classifier, (True,) * 4, 3000, 0)
    near = np.flatnonzero((data.places[:, 0] > 40_000) & (data.places[:, 2] > 2_000))
    copy, _ = surrogate(data.take(near), data, "tree:256", np.random.default_rng(0))
    places, regions = everywhere(data, classifier)
    alone = DecisionTreeClassifier(max_leaf_nodes=256, random_state=0).fit(data.places[near], data.regions[near])
    assert np.mean(copy(places) == regions) > 0.93
    assert np.mean(alone.predict(places) == regions) < 0.8


def test_the_mix_asks_about_moved_sensitive_columns_alone(public, classifier):
    data = public(classifier, SOME, 500, 0)
    places, regions = training_mix(data, np.random.default_rng(0), 900)
    assert len(places) == 1400
    np.testing.assert_array_equal(places[:500], data.places)
    np.testing.assert_array_equal(regions, classifier(places))
    kept = {tuple(row) for row in data.places[:, 2:].tolist()}
    assert {tuple(row) for row in places[:, 2:].tolist()} <= kept
    assert places[:, 0].max() > 64_000
    assert (places >= 0).all()
    assert (places < [one.places for one in data.inputs]).all()


def test_labels_that_are_no_region_are_not_learnt(public, classifier):
    def odd(places):
        return np.where(classifier(places) == 1, -1, classifier(places))

    data = public(odd, SOME, 1000, 0)
    _, regions = training_mix(data, np.random.default_rng(0), 900)
    assert set(regions) == {0, 2}
    for kind in ("tree:32", "linear", "relu"):
        copy, agreement = surrogate(data, data, kind, np.random.default_rng(0))
        assert set(copy(everywhere(data, odd)[0])) == {0, 2}  # the score of the one in between never wins
        assert copy.regions == 3
        assert agreement <= np.mean(data.regions >= 0)  # a label that is no region is no agreement
    none = public(lambda places: np.full(len(places), -1), SOME, 50, 0)
    with pytest.raises(ValueError, match="none of the public records"):
        surrogate(none, none, "linear", np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["auto", "linear", "relu", "tree:32"])
def test_a_constant_is_copied(public, kind):
    data = public(lambda places: np.full(len(places), 1), SOME, 60, 0)
    copy, agreement = surrogate(data, data, kind, np.random.default_rng(0))
    assert agreement == 1
    assert set(copy(everywhere(data, lambda p: p)[0])) == {1}


@pytest.mark.parametrize("kind", ["tree:64", "forest", "", None])
def test_unknown_kinds_are_named(public, classifier, kind):
    data = public(classifier, SOME, 60, 0)
    with pytest.raises(
        ValueError, match=r"^surrogate: must be 'auto' or one of linear, relu, tree, tree:1024, tree:256, "
    ):
        surrogate(data, data, kind, np.random.default_rng(0))


def test_words_are_sets_and_their_numbering_makes_no_difference(public):
    def by_word(places):
        return np.isin(places[:, 1], [0, 3, 5]).astype(int)

    data = public(by_word, SOME, 800, 0, 2)
    copy, agreement = surrogate(data, data, "tree:32", np.random.default_rng(0))
    assert agreement == 1
    assert len(copy.feature) == 3  # one question about the words
    assert set(copy.sets[0]) in ({0, 3, 5}, {1, 2, 4})


def test_smaller_trees_are_the_beginning_of_larger_ones(public, classifier):
    numbers = (NUMBER,) * 4
    data = public(lambda places: (places[:, 0] // 9_000 + places[:, 1] // 20_000) % 3, SOME, 2000, 0, 3, numbers)
    grown = grow(data.places, data.regions, data.inputs, 3, 0, leaves=200)
    for leaves in (2, 16, 75, 300):
        small = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)
        small.fit(data.places.astype(np.float32), data.regions)
        mine = grown.first(leaves).likeliest(data.inputs)(data.places)
        if leaves <= 200:
            np.testing.assert_array_equal(mine, small.predict(data.places))


def test_rounded_rectifiers_answer_as_unrounded_ones(public, classifier):
    data = public(classifier, SOME, 2000, 0)
    spread, rng = Spread.of(data.places, data.inputs), np.random.default_rng(0)
    first, last = (rng.normal(size=(16, 12)), rng.normal(size=16)), (rng.normal(size=(3, 16)), rng.normal(size=3))
    hidden = np.maximum(spread.scaled(data.places) @ first[0].T + first[1], 0)
    copy = whole(spread, [spread.folded(first), last], np.arange(3), 3)
    agreement = np.mean(copy(data.places) == np.argmax(hidden @ last[0].T + last[1], axis=1))
    assert agreement > 0.999
    assert max(int(np.abs(layer.weights).max()) for layer in copy.layers) < EXACT


def test_labels_of_the_mix_belong_to_their_records():
    places = np.arange(40)[:, np.newaxis] * np.ones((1, 2), dtype=np.int64)
    asked = lambda rows, moved: places[rows, 1] % 2  # noqa: E731
    data = Public(places, (NUMBER, NUMBER), np.array([True, False]), places[:, 1] % 2, asked, 2)
    mixed, regions = training_mix(data, np.random.default_rng(0), 300)
    np.testing.assert_array_equal(mixed[:, 1] % 2, regions)
