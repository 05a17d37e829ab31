"""``epsworth moves``: the certified distances of the library, at the shell."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import polars as pl
import pytest

from epsworth.exposure import encode, fit_base, lasso, moves


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moves")
    rng = np.random.default_rng(0)
    age, job = rng.uniform(18, 90, 300), rng.choice(["a", "b", "c"], 300)
    score = age + 20 * (job == "a") + rng.normal(scale=15, size=300)
    table = pl.DataFrame({
        "age": age, "weight": rng.normal(size=300), "job": job, "rich": np.where(score > 60, "yes", "no"),
        "level": np.digitize(score, [50, 70]), "rare": ["only", *["rest"] * 299],
    })  # fmt: skip
    table.write_csv(folder / "table.csv")
    table.head(40).drop("rare", "rich", "job").write_csv(folder / "few.csv")
    table.write_parquet(folder / "table.parquet")
    table.select(pl.lit(1).alias("same"), "rich").write_csv(folder / "bare.csv")
    return folder


@pytest.fixture
def cli(cli, place, monkeypatch):
    monkeypatch.chdir(place)
    return partial(cli, "moves")


@pytest.mark.parametrize(
    ("target", "words", "l2", "l1", "regulariser"),
    [
        ("rich", (), 1e-3, 0.0, "mean"),
        ("rich", ("--intercept", "--l2", "0.01", "--regulariser", "sum"), 0.01, 0.0, "sum"),
        ("level", ("--intercept",), 1e-3, 0.0, "mean"),
        ("rich", ("--intercept", "--l1", "0.01"), 1e-3, 0.01, "mean"),
    ],
)
@pytest.mark.parametrize("table", ["table.csv", "table.parquet"])
def test_intervals_are_those_of_the_library(cli, place, table, target, words, l2, l1, regulariser):
    code, _, err = cli(table, "--target", target, *words, "--json", "found.json", "--output", "rows.parquet")
    assert (code, err) == (0, "")
    free = "--intercept" in words
    data = encode(pl.read_parquet(place / "table.parquet"), target, constant=not free, multiclass=True)
    model = {"loss": "multinomial" if target == "level" else "logistic", "fit_intercept": free, "l1": l1}
    found = moves(data.X, data.y, fit_base(data.X, data.y, l2, **model), l2, regulariser=regulariser, **model)
    rows, document = pl.read_parquet(place / "rows.parquet"), json.loads((place / "found.json").read_text())
    np.testing.assert_allclose(rows["at_most"], found.upper, rtol=1e-6)
    assert (rows["at_least"].to_numpy() <= found.distances + 1e-12).all()
    assert (found.distances <= rows["at_most"].to_numpy() + 1e-12).all()
    assert document["certified"] == 300
    assert [row["row"] for row in document["furthest"]] == np.argsort(-found.upper, kind="stable")[:5].tolist()
    assert document["quantiles"]["at_most"][-1] == rows["at_most"].max() == document["furthest"][0]["at_most"]
    assert document["notice"] == "computed from raw data: not private"
    assert document["labels"] == (["no", "yes"] if target == "rich" else ["0", "1", "2"])


def test_the_answer_comes_first_and_says_that_it_is_not_private(cli):
    code, out, err = cli("table.csv", "--target", "rich", "--intercept", "--top", "2")
    assert (code, err) == (0, "")
    assert out.startswith("300 rows: without row ")
    assert "300 of 300 rows are certified." in out
    assert "Computed from raw data: not private." in out
    assert len(out.splitlines()) <= 12
    code, out, _ = cli("table.csv", "--target", "rich", "-q")
    assert code == 0
    assert len(out.splitlines()) == 2


def test_rows_without_which_there_is_no_model_are_told(cli, place):
    code, out, _ = cli("table.csv", "--target", "rare", "--intercept", "--output", "rows.csv")
    assert code == 0
    assert "without row 0 there is no model" in out
    assert "299 of 300 rows are certified; without 1 there is no model, each the last of its label." in out
    assert pl.read_csv(place / "rows.csv").row(0) == (0, np.inf, np.inf)


def test_what_is_not_certain_is_told(cli, monkeypatch):
    monkeypatch.setattr(lasso, "AFFORDABLE", 0)
    code, out, err = cli("table.csv", "--target", "rich", "--intercept", "--l2", "0", "--l1", "0.002")
    assert (code, err) == (0, "")
    assert "nothing is certain: a sign may change; give a larger --l2." in out
    words = ("few.csv", "--target", "level", "--intercept")
    assert "nothing is certain: the model may move too far for a proof; give a larger --l2." in " ".join(
        cli(*words)[1].split()
    )
    assert "40 of 40 rows are certified." in cli(*words, "--l2", "1")[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--target", "nope"], "no column 'nope'; it has age, weight, job, rich"),
        (["--target", "rich", "--l2", "0"], "l2 must be positive and finite, got 0"),
        (["--target", "rich", "--l1", "-1"], "l1 must be finite and at least 0, got -1"),
        (["--target", "level", "--l1", "0.1"], "--l1 needs a target of two labels, got 3; leave it out"),
        (["--target", "rich", "--top", "-1"], "--top must be a whole number of at least 0, got '-1'"),
        (["--target", "rich", "--regulariser", "median"], "regulariser must be mean or sum, got 'median'"),
        (["--target", "rich", "--output", "rows.xlsx"], "rows.xlsx has an unknown ending; tables are written as"),
        (["--target", "rich", "--output", "table.csv"], "the table itself"),
    ],
)
@pytest.mark.cases(1)
def test_bad_input_ends_in_one_sentence(cli, words, sentence):
    code, _, err = cli("table.csv", *words)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1


def test_a_table_without_columns_is_refused(cli):
    code, _, err = cli("bare.csv", "--target", "rich", "--intercept")
    assert code == 2
    assert "the table has no column that changes from row to row" in err
