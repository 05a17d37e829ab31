"""Whole numbers leave as whole numbers, by every door; the type tells the policy, never the table."""

from __future__ import annotations

import json
from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import epsworth as ew
from epsworth.client import Client
from epsworth.client.grids import is_whole
from epsworth.policy import Policy, Rule, Sampling, perturb_file

AGE, BMI = ew.Feature("age", 0, 110, missing=50, integer=True), ew.Feature("bmi", 15, 60, missing=27)
POLICY = Policy.of("pm", 2, ew.Domain((AGE, BMI)))
ROWS = {"age": [31.0, None, 200.0] * 20, "bmi": [22.5, 30.0, None] * 20}


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_hold_whole_numbers_whatever_their_own_column_was(made):
    for rows in (ROWS, {"age": [31] * 60, "bmi": [22] * 60}, {"age": ["31"] * 60, "bmi": ["22"] * 60}):
        released = nw.from_native(ew.perturb(POLICY, made(rows)), eager_only=True)
        assert released.schema == {"age": nw.Int64(), "bmi": nw.Float64()}
        assert released["age"].min() >= 0
        assert len(set(released["age"].to_list())) > 5


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_files_hold_whole_numbers(tmp_path, ending):
    source, out = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    frame = pl.DataFrame(ROWS)
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[ending](source)
    perturb_file(POLICY, source, out)
    if ending == "csv":
        assert all(line.split(",")[0].isdecimal() for line in out.read_text().splitlines()[1:])
    elif ending == "jsonl":
        assert all(type(json.loads(line)["age"]) is int for line in out.read_text().splitlines())
    else:
        assert pl.read_parquet(out).schema == {"age": pl.Int64, "bmi": pl.Float64}


def test_devices_and_arrays_send_the_same_numbers():
    client = Client(POLICY.for_clients())
    for _ in range(20):
        sent = client.perturb({"age": 31.7, "bmi": 22.5})
        assert (type(sent["age"]), type(sent["bmi"])) == (int, float)
        assert type(ew.perturb(POLICY, {"age": None, "bmi": None})["age"]) is int
    array = Policy.of("pm", 2, ew.Domain((ew.Feature("x0", 0, 110, integer=True), ew.Feature("x1", 15, 60))))
    released = ew.perturb(array, np.array([[31.0, 22.5]] * 30))
    assert released.dtype == np.float64
    np.testing.assert_array_equal(released[:, 0], np.rint(released[:, 0]))


def test_a_sampled_record_has_gaps_and_so_doubles(tmp_path):
    policy = Policy((Rule(AGE, "pm", Decimal(1)), Rule(BMI, "pm", Decimal(1))), Sampling(1, "missing"))
    released = ew.perturb(policy, pl.DataFrame(ROWS))
    assert released.schema == {"age": pl.Float64, "bmi": pl.Float64}
    pl.DataFrame(ROWS).write_csv(tmp_path / "in.csv")
    perturb_file(policy, tmp_path / "in.csv", tmp_path / "out.csv")
    fields = [line.split(",")[0] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert {"." in field or not field for field in fields} == {True}


@pytest.mark.parametrize(
    ("steps", "lower", "upper", "whole"),
    [(110, 0.0, 110.0, True), (110, 0.5, 110.5, False), (109, 0.0, 110.0, False), (1, -1.0, 0.0, True),
     (1, 2.0**60, 2.0**60 + 256, False), (2, 2.0**53, 2.0**53 + 2, False), (65535, 0.0, 65535.0, True)],
)  # fmt: skip
def test_which_grids_hold_whole_numbers_alone(steps, lower, upper, whole):
    assert is_whole(steps, lower, upper) is whole


def test_a_tailored_policy_sends_whole_numbers():
    X = pl.DataFrame({"age": np.arange(200) % 100, "bmi": np.linspace(15, 60, 200)})
    made = ew.tailor(
        lambda rows: (rows["age"] > 50) ^ (rows["bmi"] > 30), X, sensitive=["age"], epsilon=2, rng=0, public=True,
        domain=ew.Domain((AGE,)), surrogate="tree:32", outside=None,
    )  # fmt: skip
    assert ew.perturb(made.policy, X).schema["age"] == pl.Int64
    again = Policy.from_toml(made.policy.to_toml())
    assert type(Client(again.for_clients()).perturb({"age": 31, "bmi": 20.0})["age"]) is int
