"""`epsworth noise`: a thin shell over `cheapest`."""

from __future__ import annotations

import json

import pytest

from epsworth import noise

ASK = ["noise", "--within", "1", "--confidence", "0.95", "--sensitivity", "1", "--delta", "1e-6"]


@pytest.mark.slow
def test_json_on_standard_output_is_one_object_with_rows(cli):
    code, out, _ = cli(*ASK, "--json", "-")
    assert code == 0
    document = json.loads(out)
    ranked = noise.cheapest(1, confidence=0.95)
    assert [row["name"] for row in document["rows"]] == [choice.name for choice in ranked]
    for row, choice in zip(document["rows"], ranked, strict=True):
        assert {"name", "epsilon", "delta", "rmse", "sound"} <= set(row)
        assert row["epsilon"] == choice.epsilon
        assert row["sound"] is True
    assert document["advice"] == ranked.advice
    assert document["advised"] == ranked.taken.name


@pytest.mark.slow
def test_the_table_ends_with_advice_and_a_plot_is_written(cli, tmp_path):
    code, out, _ = cli(*ASK, "--lattice", "1", "--published", "--plot", str(tmp_path / "noise.svg"))
    assert code == 0
    assert "Take " in out
    assert "not a bound" in out
    (marked,) = [line for line in out.splitlines() if "<- advised" in line]
    assert f"Take {marked.split()[0]}: " in out
    rule = "Advised: the smallest error among the noises whose proven cost is within 1 % of the least."
    assert f"{rule} Next: epsworth noise " in " ".join(out.split())
    assert (tmp_path / "noise.svg").stat().st_size > 1000


@pytest.mark.slow
def test_no_row_of_the_table_costs_less_than_the_optimum(cli):
    code, out, _ = cli("noise", "--within", "1", "--confidence", "0.999999", "--lattice", "1", "--json", "-")
    assert code == 0
    choices = {choice["name"]: choice["epsilon"] for choice in json.loads(out)["rows"]}
    assert choices["optimal"] <= min(choices.values()) * (1 + 1e-6)


@pytest.mark.slow
def test_other_regions(cli, tmp_path):
    words = ["noise", "--within", "0.2", "--region", "relative", "--offset", "2", "--answers", "0:20:1", "--json", "-"]
    code, out, _ = cli(*words)
    assert code == 0
    assert json.loads(out)["rows"][0]["pairs"] >= 1
    words = ["noise", "--within=-5,5", "--region", "fixed", "--scale", "2", "--plot", str(tmp_path / "f.png")]
    code, out, _ = cli(*words)
    assert code == 0
    assert "clamped" in out


@pytest.mark.parametrize(("words", "message"), [
    (["--within", "wide"], "--within must be a number"), (["--within", "5", "--confidence", "1"], "--confidence"),
    (["--within", "5", "--answers", "a"], "--answers must be"), (["--within", "-1"], "--within must be positive"),
    (["--within", "5", "--answers", "5:1:1"], "--answers 5:1:1"),
    (["--within", "5", "--region", "x"], "region must be"),
    (["--within", "nan"], "--within must be positive"), (["--within", "1e400"], "--within must be positive"),
    (["--within", "1e-320"], "theta must lie"), (["--within", "5", "--sensitivity", "inf"], "sensitivity must be"),
    (["--within", "5", "--delta", "nan"], "delta must be"), (["--within", "5", "--confidence", "nan"], "--confidence"),
    (["--within", "5", "--confidence", "1e-320"], "confidence must lie"),
    (["--within", "5", "--lattice", "inf"], "lattice"),
    (["--within", "5", "--releases", "1000000000"], "releases must be at most"),
    (["--within", "5", "--answers", "0:1:1e-400"], "--answers 0:1:1e-400"),
    (["--within=0,1e9", "--region", "fixed"], "more than 100000 whole numbers"),
    (["--within=0,inf", "--region", "fixed"], "theta must be the two ends"),
])  # fmt: skip
@pytest.mark.cases(1)
def test_bad_input_ends_in_a_sentence(cli, words, message):
    code, _, err = cli("noise", *words)
    assert code == 2
    assert message in err
