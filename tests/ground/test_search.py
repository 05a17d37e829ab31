"""Searches stop on the side that they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsworth.search import Scan, last_passing, last_passing_by_many, step_until

anything = st.sampled_from([0.0, -0.0, 1e-300, -1e-300, 0.1, 1.0]) | st.floats(-1e6, 1e6)


@given(st.lists(anything, min_size=1, max_size=20))
@pytest.mark.slow
def test_the_last_passing_double_is_found_exactly(thresholds):
    edge = np.array(thresholds)
    found = last_passing(lambda x: x <= edge, np.full(edge.shape, -1e7), np.full(edge.shape, 1e7))
    tiny = np.abs(edge) < 1e-30  # beside zero the doubles are too dense for 200 halvings; zero itself is exact
    assert (found[~tiny] == edge[~tiny]).all()
    assert (found <= edge).all()
    assert (found[edge == 0] == 0).all()
    for guess in (np.float32(edge).astype(float), edge[::-1].copy(), np.full(edge.shape, 5.0)):  # good and bad ones
        between = guess - 1e-6 * np.abs(guess), guess + 1e-6 * np.abs(guess)
        for ways in (1, 5, 63):
            ends = np.full(edge.shape, -1e7), np.full(edge.shape, 1e7)
            assert (last_passing_by_many(lambda x: x <= edge, *ends, between, ways) == found).all()


def test_a_root_is_moved_to_the_side_that_passes():
    root = np.array([2.0, 3.0])
    found = step_until(lambda x: x * x >= root, np.sqrt(root) * (1 - 1e-13), fallback=root)
    assert (found * found >= root).all()
    assert (found <= np.sqrt(root) * (1 + 1e-11)).all()
    assert (step_until(lambda x: x > 10, root, fallback=np.array([20.0, 30.0])) == [20, 30]).all()


def test_a_scan_assumes_nothing():
    scan = Scan(met=np.array([False, True, False, True]), refuted=np.array([True, False, True, False]))
    assert (scan.first_met, scan.holds_above) == (1, False)
    none = Scan(met=np.zeros(2, dtype=bool), refuted=np.ones(2, dtype=bool))
    assert (none.first_met, none.holds_above) == (None, False)
