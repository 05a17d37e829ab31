"""Iris, the cells on which trees give its flowers one label, and whether ``predict`` agrees with these."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_iris

import epsworth as ew
from epsworth.utility.engines.cells import TreeCells, cells_for
from epsworth.utility.problem import Problem

IRIS, SPECIES = load_iris(return_X_y=True)
ROWS = IRIS[[0, 60, 90]]
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}


def cells_of(model, X=ROWS, **more):
    asked = {"sensitive": [0, 2], "mechanisms": "pm", "epsilons": 2, "domain": RANGES, "y": None}
    found = cells_for(Problem.of(model, X, **(asked | more)))
    assert isinstance(found, TreeCells), found
    return found


def assert_agrees(model, cells, row, at):
    """Compare the cells of one record with predict, at values of features 0 and 2."""
    rows = np.tile(row, (len(at[0]), 1))
    rows[:, 0], rows[:, 2] = at
    place = [np.searchsorted(e[1:-1], v, side="left") for e, v in zip(cells.edges, at, strict=True)]
    found = cells.table.kinds[cells.table.labels[tuple(place)]]
    np.testing.assert_array_equal(found, ew.as_classifier(model).labels(rows))
