"""Runs that go on from a file: of another policy never, of shared draws from the beginning."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import epsworth as ew

IRIS, SPECIES = load_iris(return_X_y=True)


def policy(missing, outside):
    text = f"""
        version = 1
        [per_record]
        epsilon = 3.0
        delta = 0.0
        notion = "pure"
        [features.age]
        lower = 0.0
        upper = 100.0
        mechanism = "pm"
        epsilon = 2.0
        bits = 8
        missing = {missing}
        [features.job]
        categories = ["clerk", "nurse"]
        mechanism = "krr"
        epsilon = 1.0
        outside = "{outside}"
    """
    return ew.Policy.from_toml(text)


def older(records):
    """A gap is an age of 60 to this model."""
    return records["age"].fill_null(60.0).to_numpy() + 20 * (records["job"] == "nurse").to_numpy() > 50


@pytest.mark.parametrize("other", [(90, "clerk"), (10, "nurse")])
def test_a_file_of_another_policy_is_refused(tmp_path, other):
    """Policies that differ in what stands for gaps or for other categories only: the laws are the same."""
    table = pl.DataFrame(
        {"age": [None, 30.0], "job": ["nurse", "driver"]}, schema={"age": pl.Float64, "job": pl.String}
    )
    path = tmp_path / "run"
    first = ew.stability_of_policy(policy(10, "clerk"), older, table, checkpoint=path)
    with pytest.raises(ValueError, match="true values of the records"):
        ew.stability_of_policy(policy(*other), older, table, checkpoint=path)
    again = ew.stability_of_policy(policy(10, "clerk"), older, table, checkpoint=path)
    np.testing.assert_array_equal(again.lower, first.lower)


def test_a_run_of_shared_draws_that_was_stopped_goes_on(tmp_path):
    """It begins anew: its draws serve all records, and so does what they spend."""
    model = LogisticRegression(max_iter=500).fit(IRIS, SPECIES)
    settings = {
        "sensitive": [0, 2, 3], "mechanisms": "laplace", "epsilons": [1, 2, 4], "tolerance": 0.1,
        "domain": {0: (4, 8), 2: (1, 7), 3: (0, 3)}, "checkpoint": tmp_path / "run", "rng": 0,
    }  # fmt: skip
    seen = []
    stopped = ew.stability(
        model, IRIS[[0, 70, 120]], watch=lambda standing: len(seen) > 1 or seen.append(1), **settings
    )
    assert stopped.stopped
    assert (stopped.method == "rays").all()
    found = ew.stability(model, IRIS[[0, 70, 120]], **settings)
    assert not found.stopped
    assert 0 < found.spent <= 1 - 0.999
    assert (found.lower <= stopped.upper).all()
    assert (stopped.lower <= found.upper).all()
