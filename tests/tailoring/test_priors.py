"""The prior of regions given public columns: a whole-number tree, its leaves' shares, how many regions to keep."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from epsworth.grids import Input
from epsworth.tailored.building import likeliest, prior_tree
from epsworth.tailored.document import read_copy
from epsworth.tailored.problem import Public
from epsworth.tailored.surrogates import LEAF

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "tailored.json").read_text())["average_optimum"]
NUMBER, WORD = Input(1 << 16, True), Input(5, False)


def public(n=3000, sensitive=(True, False, False), seed=0, count=3):
    """Two public columns, a number and a word, of which the region is nearly told."""
    rng = np.random.default_rng(seed)
    places = np.column_stack([rng.integers(1 << 16, size=n), rng.integers(1 << 16, size=n), rng.integers(5, size=n)])
    told = np.where(np.isin(places[:, 2], [0, 3]), 2, places[:, 1] > 20_000)
    regions = np.where(rng.random(n) < 0.1, rng.integers(count, size=n), told)
    return Public(places, (NUMBER, NUMBER, WORD), np.array(sensitive), regions, lambda rows, _: regions[rows], count)


@pytest.mark.parametrize("case", REFERENCE["cases"])
def test_the_regions_told_apart_are_those_of_the_reference(case):
    order, m, optimum = likeliest(case["prior"], case["epsilon"])
    assert m == case["m"]
    assert abs(optimum - case["optimum"]) <= REFERENCE["tolerance"]
    assert (np.diff(np.array(case["prior"])[order]) <= 0).all()


def test_ties_go_to_the_smaller_index_and_the_smallest_number():
    order, m, optimum = likeliest([0.25, 0.5, 0.25, 0.0], math.inf)
    assert (order.tolist(), m, optimum) == ([1, 0, 2, 3], 3, 1.0)
    assert likeliest([0.5, 0.5], 1e-300)[1] == 1
    assert likeliest([0.0, 1.0], 800.0)[1:] == (1, 1.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_an_epsilon_that_is_none_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon must be positive"):
        likeliest([0.5, 0.5], epsilon)


def test_leaves_are_shares_of_public_records_and_ask_about_public_columns_alone():
    data = public()
    prior = prior_tree(data, np.random.default_rng(0))
    leaf = prior.leaves(data.places)
    assert prior.leaves.inputs == data.inputs
    assert set(prior.leaves.feature.tolist()) == {LEAF, 1, 2}
    assert 2 < prior.leaves.count <= 64
    for number in range(prior.leaves.count):
        inside = data.regions[leaf == number]
        assert len(inside) >= 50
        np.testing.assert_allclose(prior.shares[number], np.bincount(inside, minlength=3) / len(inside), atol=1e-12)
    assert np.max(prior.shares, axis=1)[leaf].mean() > 0.9
    moved = data.places.copy()
    moved[:, 0] = 0
    np.testing.assert_array_equal(prior.leaves(moved), leaf)
    again = read_copy(prior.leaves.to_dict(), data.inputs, prior.leaves.count)
    np.testing.assert_array_equal(again(data.places), leaf)


def test_conditional_priors_keep_more_than_the_marginal_one():
    prior = prior_tree(data := public(), np.random.default_rng(0))
    weight = np.bincount(prior.leaves(data.places), minlength=prior.leaves.count) / len(data.places)
    kept = weight @ [likeliest(shares, 0.5)[2] for shares in prior.shares]
    assert kept > likeliest(np.bincount(data.regions) / len(data.regions), 0.5)[2] + 0.1


def test_without_public_columns_there_is_one_leaf():
    data = public(sensitive=(True, True, True))
    prior = prior_tree(data, np.random.default_rng(0))
    assert prior.leaves.count == len(prior.leaves.feature) == 1
    np.testing.assert_allclose(prior.shares, [np.bincount(data.regions) / len(data.regions)])


def test_labels_that_are_no_region_count_for_none():
    data = public()  # and nobody is in the fourth region
    some = Public(
        data.places, data.inputs, data.sensitive, np.where(data.regions == 1, -1, data.regions), data.asked, 4
    )
    prior = prior_tree(some, np.random.default_rng(0))
    np.testing.assert_allclose(prior.shares.sum(axis=1), 1)
    assert not prior.shares[:, [1, 3]].any()
    none = Public(data.places, data.inputs, data.sensitive, np.full(len(data.places), -1), data.asked, 4)
    with pytest.raises(ValueError, match="none of the public records"):
        prior_tree(none, np.random.default_rng(0))


def test_a_handful_of_records_is_one_leaf():
    prior = prior_tree(public().take(np.arange(60)), np.random.default_rng(0))
    assert prior.leaves.count == 1


def test_taking_a_part_asks_about_the_part():
    data = public()
    part = data.take([7, 3, 5]).take([1, 2])
    np.testing.assert_array_equal(part.asked(np.array([1, 0]), np.zeros((2, 1))), data.regions[[5, 3]])
    np.testing.assert_array_equal(part.places, data.places[[3, 5]])
