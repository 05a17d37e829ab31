"""What strangers give to `tailor`: understood, or refused in one sentence; and what is certified of their records."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import epsworth as ew
from epsworth.classifiers import ClassifierError
from epsworth.grids import Grid
from epsworth.space import Feature
from epsworth.tailored.learning import Spread, whole


@pytest.fixture(scope="module")
def plane():
    """Return records of a plane and a model whose threshold lies beyond a range that will be declared."""
    X = np.random.default_rng(0).random((600, 2)) * 2
    return X, LogisticRegression(C=100).fit(X, X[:, 0] > 1.5)


def made(plane, **given):
    X, model = plane
    ranges = {0: (0, 2), 1: (0, 2)}
    return ew.tailor(
        model, X, **{"sensitive": [0, 1], "epsilon": 2, "domain": ranges, "rng": 0, "public": True} | given
    )


def test_records_beyond_their_ranges_are_not_certified(plane):
    X, model = plane
    found = made(plane, domain={0: (0, 0.9), 1: (0, 2)})
    held = X[found.rows]
    assert found.agreement < 0.8  # a place at the end of a range stands for all beyond it
    assert 0.2 < found.certified <= np.mean((held[:, 0] <= 0.9) & ~model.predict(held))


def test_grids_hold_numbers_of_the_range_and_declared_words():
    grid = Grid(Feature("job", categories=("a", "b")), missing="a", outside="b")
    assert grid.holds(np.array(["a", "z", None, 1], dtype=object)).tolist() == [True, False, False, False]
    age = Grid(Feature("age", 0, 10), missing=np.float32(0.5))
    assert age.holds(np.array([-0.1, 0, 10, np.inf])).tolist() == [False, True, True, False]
    assert age.holds([True, "3", 3, np.float32(4)]).tolist() == [False, False, True, True]


def test_a_unit_that_is_almost_constant_takes_no_bits_from_others():
    inputs = (Grid(Feature("x", 0, 1), missing=0.5).input,)
    places = np.arange(0, 1 << 16, 257)[:, np.newaxis]
    layers = [(np.array([[1.0], [1e-14]]), np.array([-30_000.0, 3.0])), (np.array([[1.0, 1.0]]), np.array([-1003.0]))]
    copy = whole(Spread.of(places, inputs), layers, np.array([0, 1]), 2)
    right = places[:, 0] > 31_000
    clear = np.abs(places[:, 0] - 31_000) > 8
    assert (copy(places) == right)[clear].all()


@pytest.mark.parametrize(
    "given",
    [
        {"cells": np.int64(4), "fidelity": np.float32(1)},
        {"draw": np.True_},
        {"holdout": np.float32(0.25), "confidence": np.float32(0.9)},
        {"missing": np.int64(1)},
        {"surrogate": "tree"},
        {"surrogate": "ReLU"},
    ],
)
@pytest.mark.slow
def test_numbers_of_numpy_and_other_spellings_are_understood(plane, given):
    found = made(plane, **given)
    assert found.agreement > 0.9
    assert found.held_out[0] <= found.kept <= found.held_out[1]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"gain": [[1, 0], [0]]}, "gain must be a square matrix"),
        ({"gain": "abc"}, "gain must be a square matrix"),
        ({"classifiers": 3}, "classifiers must be a list"),
        ({"wish": "accuracy", "y": np.full(600, np.nan)}, "y holds gaps"),
        ({"cells": 2.5}, "cells must be a whole number"),
    ],
)
def test_what_is_no_such_thing_is_refused_in_one_sentence(plane, given, told):
    with pytest.raises((ValueError, TypeError), match=told):
        made(plane, **given)


def test_an_ensemble_is_no_list_of_classifiers(plane):
    X, _ = plane
    forest = RandomForestClassifier(3, random_state=0).fit(X, X[:, 0] > 1)
    with pytest.raises(TypeError, match="classifiers must be a list"):
        made(plane, classifiers=forest)
    with pytest.raises(ValueError, match="weights must be positive"):
        made(plane, classifiers={"forest": forest})


def test_labels_may_be_of_different_kinds(plane):
    X, _ = plane

    def answer(values):
        return np.array([1 if value > 1 else "few" for value in np.asarray(values)[:, 0]], dtype=object)

    assert made((X, answer), surrogate="linear").agreement > 0.9


def test_epsilons_of_records_are_said_to_be_of_records(plane):
    X, _ = plane
    with pytest.raises(ValueError, match="per record"):
        made(plane).stability([1e9], X[:3])


def test_what_a_model_says_of_a_record_is_not_shown():

    def strict(rows):
        raise ValueError("Found unknown categories ['SECRET77'] in column 'job' during transform")

    X = pl.DataFrame({"age": [0.1, 0.9] * 20, "job": ["a", "SECRET77"] * 20})
    with pytest.raises(ClassifierError, match=r"could not answer the public records: Found unknown") as told:
        ew.tailor(strict, X, sensitive="age", epsilon=1, public=True)
    assert "SECRET77" not in str(told.value)
