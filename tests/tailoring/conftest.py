"""A classifier on grids, with numbers and words, whose answers can be asked for at any places."""

from __future__ import annotations

import numpy as np
import pytest

from epsworth.grids import Input
from epsworth.tailored.problem import Public

INPUTS = (Input(1 << 16, True), Input(6, False), Input(1 << 12, True), Input(4, False))


def three(places):
    """Return regions that depend on all columns; words have no order in them."""
    number = places[:, 0] / (1 << 16) + places[:, 2] / (1 << 13)
    odd = np.isin(places[:, 1], [0, 3, 5])
    return np.where(number + 0.3 * odd > 0.9, 2, np.where((places[:, 3] == 2) ^ (number > 0.4), 1, 0))


def of(function, sensitive, n, seed, count=3, inputs=INPUTS):
    """Return public records, and what a function of places says of them."""
    rng = np.random.default_rng(seed)
    many = [one.places for one in inputs]
    places = np.column_stack([(size * rng.beta(2, 2, n)).astype(np.int64) for size in many])
    sensitive = np.array(sensitive)

    def asked(rows, moved):
        whole = places[rows].copy()
        whole[:, sensitive] = moved
        return function(whole).astype(np.int64)

    return Public(places, inputs, sensitive, function(places).astype(np.int64), asked, count)


@pytest.fixture
def public():
    """Make public records: ``public(function, sensitive, n, seed)``."""
    return of


@pytest.fixture
def classifier():
    """Return the classifier with three regions."""
    return three
