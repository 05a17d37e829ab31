"""Columns of truths, as Python writes them, from the draft of ranges to predictions."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from skops.io import dump

import epsworth as ew

SPELT = {"python.csv": ("True", "False"), "json.csv": ("true", "false")}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a model of a number and a truth, and its table in several spellings."""
    folder = tmp_path_factory.mktemp("truths")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"income": rng.uniform(0, 100, 60), "owner": rng.random(60) < 0.4})
    granted = table["income"] / 100 + 0.4 * table["owner"] > 0.7
    dump(LogisticRegression(max_iter=1000).fit(table, granted), folder / "model.skops")
    for name, (yes, no) in SPELT.items():
        table.assign(owner=np.where(table["owner"], yes, no)).to_csv(folder / name, index=False)
    pl.from_pandas(table).write_parquet(folder / "typed.parquet")
    ew.Domain.of({"income": (0, 100), "owner": [False, True]}).save(folder / "ranges.toml")
    ew.Policy.of("pm", 2, {"income": (0, 100)}, passing=["owner"]).save(folder / "policy.toml")
    ew.Policy.of("pm", 2, {"owner": [False, True]}, passing=["income"]).save(folder / "owner.toml")
    return folder


@pytest.fixture
def run(cli, place, monkeypatch):
    monkeypatch.chdir(place)

    def run(*words, code=0):
        status, out, err = cli(*words)
        assert status == code, err
        return out if code == 0 else err

    return run


@pytest.mark.parametrize("table", [*SPELT, "typed.parquet"])
@pytest.mark.cases(1)
def test_every_spelling_is_predicted_and_searched_alike(run, place, table, tmp_path):
    labels = tmp_path / "labels.csv"
    run("predict", "model.skops", table, str(labels))
    own = pl.read_parquet(place / "typed.parquet").to_pandas()
    assert pl.read_csv(labels)["label"].to_list() == ew.load_model(place / "model.skops").predict(own).tolist()
    boxed = json.loads(run("safe-box", "model.skops", table, "-s", "income", "--domain", "ranges.toml", "--json", "-"))
    assert boxed["features"] == ["income"]
    assert run("radius", "model.skops", table, "-f", "income", "--json", "-")


@pytest.mark.parametrize("policy", ["policy.toml", "owner.toml"])
@pytest.mark.cases(1)
def test_a_policy_is_analysed_alike_whatever_the_spelling(run, policy):
    found = [
        json.loads(run("utility", "model.skops", table, "--policy", policy, "--tolerance", "0.05", "--json", "-"))
        for table in SPELT
    ]
    assert found[0]["stability"] == found[1]["stability"]


@pytest.mark.filterwarnings("ignore:.* its ranges were taken from a table")  # a draft
@pytest.mark.parametrize("table", [*SPELT, "typed.parquet"])
@pytest.mark.cases(1)
def test_a_draft_declares_truths_that_the_next_command_takes(run, table, tmp_path):
    drafted = str(tmp_path / "drafted.toml")
    run("init", table, "-s", "income,owner", "--draft", "--output", drafted)
    assert ew.Domain.load(drafted)["owner"].categories == (False, True)
    asked = ("-s", "owner", "--domain", drafted, "-m", "krr", "-e", "1,2", "--at-least", "0.5")
    assert run("recommend", "model.skops", table, *asked).startswith("Yes: ")


def test_texts_in_place_of_truths_are_said_to_be(run, tmp_path):
    ranges = tmp_path / "texts.toml"
    ew.Domain.of({"owner": ["False", "True"]}).save(ranges)
    told = run("utility", "model.skops", "python.csv", "-s", "owner", "--domain", str(ranges), code=2)
    assert "features.owner: its categories are the texts 'False', 'True', and the model takes truths" in told
    assert told.count("\n") == 1
