"""Results of exposure share one shape."""

from __future__ import annotations

import numpy as np
import pytest
from exposure_worlds import world

from epsworth.exposure import (
    black_box,
    descend,
    expost_objective,
    fit_base,
    linear_gradients,
    loo,
    profile,
    release,
    typical_profile,
    window,
    worst_case,
)

X, Y = world(60, 3)
FOUND = loo(X, Y, fit_base(X, Y, 0.1), 0.1)


@pytest.mark.slow
def test_results_share_one_shape(tmp_path):
    """Text with numbers, the same in a notebook, a dictionary that JSON holds; what is not private says so."""
    found = window(X, Y, 0.1, rng=0)
    results = [
        found, found.usefulness, FOUND, profile(FOUND, FOUND.base + 0.1, 2.0), typical_profile(FOUND, 2.0, rng=0),
        black_box(np.arange(80.0)[:, None], np.arange(80.0)[:, None] + 9, [[0.0], [1e9]]),
        descend(linear_gradients(X, Y), np.zeros(3), steps=2, learning_rate=0.1, clip=1.0, noise=1.0, rng=0),
        expost_objective(X, Y, FOUND.base, reg=6.0, noise_scale=2.0),
    ]  # fmt: skip
    for result in [*results, worst_case(1.0, 3), release(X, Y, 0.1, 1.0, n=60)]:
        result.save(tmp_path / "result.json")
        assert any(letter.isdigit() for letter in str(result))
        assert result._repr_html_().startswith(("<pre", "<table"))
    for result in results:
        assert "not private" in str(result)
        assert result.to_dict()["notice"] == "computed from raw data: not private"
    assert {line.get_label() for line in found.plot(epsilon=1.0).lines} >= {"accuracy", "candidate, 1"}


def test_seeds_are_generators():
    first, again = (window(X, Y, 0.1, rng=rng).usefulness.accuracy for rng in (5, np.random.default_rng(5)))
    np.testing.assert_array_equal(first, again)
