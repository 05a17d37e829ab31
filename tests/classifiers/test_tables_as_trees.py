"""CatBoost and interpret's explainable boosting: tables written as trees, equal to brute force at their thresholds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

import epsworth as ew
from epsworth.classifiers.reading import adjacent_floats
from epsworth.classifiers.structure import read_trees
from epsworth.utility.engines.cells import TreeCells, cells_for

IRIS, SPECIES = load_iris(return_X_y=True)
NOISY = np.where(np.random.default_rng(0).random(150) < 0.4, SPECIES[::-1], SPECIES)
LABELS = {2: np.array(["no", "yes"])[(NOISY > 0).astype(int)], 3: np.array(["a", "b", "c"])[NOISY]}
ROWS = IRIS[[0, 60, 90]]
RANGES = [(4, 8), (2, 5), (1, 7), (0, 3)]


def gappy(table):
    table = table.copy()
    table[np.random.default_rng(0).random(table.shape) < 0.1] = np.nan
    return table


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("gaps", [None, "Min", "Max"])
def test_catboost(classes, gaps):
    catboost = pytest.importorskip("catboost", reason="catboost is not installed")
    model = catboost.CatBoostClassifier(
        iterations=10, depth=3, nan_mode=gaps or "Min", verbose=0, allow_writing_files=False, thread_count=1
    )
    assert_read(model.fit(IRIS if gaps is None else gappy(IRIS), LABELS[classes]), gaps is not None)


@pytest.mark.parametrize("classes", [2, 3])
def test_explainable_boosting(classes):
    glassbox = pytest.importorskip("interpret.glassbox", reason="interpret is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = glassbox.ExplainableBoostingClassifier(
            max_rounds=30, interactions=2 * (classes == 2), outer_bags=2, n_jobs=1
        ).fit(gappy(IRIS), LABELS[classes])
        assert_read(model, True)


def assert_read(model, gaps):
    """Compare labels on and beside thresholds, and cells."""
    rng, read = np.random.default_rng(0), read_trees(model)
    assert not isinstance(read, str), read
    points = rng.choice(IRIS, (3_000, 4))[:, 0]
    for j in range(4):
        ordinary = np.abs(read.threshold) < 1e30  # others part missing values from all others
        own = np.unique(read.threshold[(read.feature == j) & ordinary]).astype(read.dtype)
        values = np.concatenate([adjacent_floats(own), IRIS[:, j], [np.nan] * gaps])
        points[:, j] = rng.choice(values, len(points))
    labels, clear = read.labels(points)
    np.testing.assert_array_equal(labels[clear], ew.as_classifier(model).labels(points)[clear])
    assert clear.mean() > 0.9
    names = ew.as_classifier(model).features or [f"x{j}" for j in range(4)]  # interpret gives names of its own
    settings = {"sensitive": [0, 2], "mechanisms": "pm", "epsilons": [2.0], "y": None}
    found = cells_for(ew.Problem.of(model, ROWS, domain=dict(zip(names, RANGES, strict=True)), **settings))
    assert isinstance(found, TreeCells), found
    for row, cells in zip(ROWS, found.of(range(3)), strict=True):
        rows = np.tile(row, (500, 1))
        rows[:, 0], rows[:, 2] = rng.uniform(0, 9, (2, 500))
        place = [np.searchsorted(cells.edges[j][1:-1], rows[:, 2 * j], side="left") for j in range(2)]
        labels = cells.table.kinds[cells.table.labels[tuple(place)]]
        np.testing.assert_array_equal(labels, ew.as_classifier(model).labels(rows))
