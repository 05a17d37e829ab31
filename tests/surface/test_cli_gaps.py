"""Gaps and whole numbers on the command line: what is declared is analysed, and what is analysed is released."""

from __future__ import annotations

import io
import json
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from skops.io import dump

import epsworth as ew
from epsworth.cli import init

FIRST, COUNT, ROWS = 18, 7, 60
ASKED = ("-s", "age,bmi", "-m", "pm", "-e", "4,8,16", "--tolerance", "0.05", "--seed", "0")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a model that knows gaps, tables in which bmi has some, and ranges."""
    folder = tmp_path_factory.mktemp("gaps")
    rng = np.random.default_rng(0)
    age, bmi = rng.integers(18, 91, 300), rng.uniform(15, 45, 300)
    sick = (age / 90 + bmi / 45 > 1.3).astype(int)
    X = np.column_stack([age, bmi])
    X[::9, 1] = np.nan
    model = HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=6).fit(X, sick)
    dump(model, folder / "model.skops")
    at = pl.int_range(ROWS)
    gap = (at >= FIRST) & ((at - FIRST) % 6 == 0)
    table = pl.DataFrame({"age": age[:ROWS], "bmi": bmi[:ROWS]}).with_columns(
        bmi=pl.when(gap).then(None).otherwise("bmi")
    )
    assert table["bmi"].null_count() == COUNT
    table.write_csv(folder / "test.csv")
    table.write_ndjson(folder / "test.jsonl")
    table.write_parquet(folder / "test.parquet")
    table.with_columns(pl.col("bmi").fill_null(float("nan"))).write_parquet(folder / "nan.parquet")
    table.with_columns(bmi=37.5, age=pl.col("age").cast(pl.Float64)).write_csv(folder / "floats.csv")
    ew.Domain.of({"age": (0, 120), "bmi": (15, 60)}).save(folder / "ranges.toml")
    ew.Domain.of({"age": (0, 120), "bmi": {"lower": 15, "upper": 60, "missing": 27}}).save(folder / "gaps.toml")
    return folder


@pytest.fixture
def cli(cli, place, monkeypatch):
    monkeypatch.chdir(place)

    def run(*words, code=0):
        status, out, err = cli(*words)
        assert status == code, err
        return SimpleNamespace(stdout=out, stderr=err)

    return run


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ("test.csv", "data row 18, line 20 of test.csv"),
        ("test.jsonl", "data row 18 (counted from 0) of test.jsonl"),
        ("test.parquet", "data row 18 (counted from 0) of test.parquet"),
        ("nan.parquet", "data row 18 (counted from 0) of nan.parquet"),
    ],
)
@pytest.mark.parametrize("command", ["utility", "recommend", "split"])
@pytest.mark.cases(5)
def test_gaps_without_a_declaration_are_refused_by_their_place(cli, place, command, table, where):
    told = "--epsilon", "4"
    found = cli(command, "model.skops", table, "-s", "age,bmi", "--domain", "ranges.toml", *told, code=2)
    sentence = f"7 of 60 rows lack bmi (first: {where}). Add `missing = 37.5` under [features.bmi], or drop them."
    assert found.stderr == f"epsworth: {sentence}\n"
    assert found.stdout == ""
    if table == "test.csv":
        assert (place / table).read_text().splitlines()[20 - 1].endswith(",")


def test_the_option_and_the_file_are_one_declaration(cli, place):
    for name, words in (
        ("a.json", ("--domain", "gaps.toml")),
        ("b.json", ("--domain", "ranges.toml", "--missing", "bmi=27")),
    ):
        cli("utility", "model.skops", "test.csv", *ASKED, *words, "--json", name)
    one, other = (json.loads((place / name).read_text()) for name in ("a.json", "b.json"))
    assert one["stability"] == other["stability"]
    assert "gaps are read as bmi = 27" in " ".join(one["notes"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("gaps.toml", "--missing", "bmi=30"),
            "--missing bmi=30 contradicts missing = 27 under [features.bmi] of gaps.toml",
        ),
        (("ranges.toml", "--missing", "bmi=99"), "--missing bmi=99: bmi is a number from 15 to 60"),
        (("ranges.toml", "--missing", "bmi=27", "--missing", "bmi=28"), "bmi has a value already; keep one"),
    ],
)
@pytest.mark.cases("all")
def test_what_contradicts_is_refused(cli, words, message):
    found = cli("utility", "model.skops", "test.csv", *ASKED, "--domain", *words, code=2)
    assert message in found.stderr
    assert found.stderr.count("\n") == 1


def test_only_sensitive_columns_have_something_that_stands_for_gaps(cli):
    found = cli(
        "utility", "model.skops", "test.csv", "-s", "age", "--domain", "ranges.toml", "--missing", "bmi=27", code=2
    )
    assert "--missing bmi=27: bmi is not perturbed, so the model gets its gaps; leave it out" in found.stderr


def test_what_was_analysed_is_released(cli, place):
    found = cli(
        "recommend", "model.skops", "test.csv", *ASKED, "--domain", "ranges.toml", "--missing", "bmi=27",
        "--at-least", "0.4", "--policy", "p.toml", "--recheck", "--json", "r.json", "--study", "s.toml",
    )  # fmt: skip
    policy = tomllib.loads((place / "p.toml").read_text())["features"]
    assert policy["bmi"]["missing"] == 27
    assert policy["age"]["integer"] is True
    assert "integer" not in policy["bmi"]
    assert "released as whole numbers: age." in " ".join(found.stdout.split())
    document = json.loads((place / "r.json").read_text())
    analysed, released = (ew.Curves.from_dict(document[key]) for key in ("curves", "released"))
    at = analysed.epsilons.tolist().index(document["recommendation"]["choice"]["epsilon_per_record"])
    assert (released.lower[0, 0] <= analysed.upper[0, at] + 0.005).all()  # on the grid of 2^16
    assert (analysed.lower[0, at] <= released.upper[0, 0] + 0.005).all()
    assert ew.Study.load(place / "s.toml").domain["bmi"].missing == 27
    again = cli("utility", "model.skops", "test.csv", "--policy", "p.toml", "--seed", "0", "--json", "again.json")
    assert again.stderr == ""
    sent = cli("perturb", "p.toml", "test.csv", "sent.csv")
    assert sent.stderr == ""
    released = pl.read_csv(place / "sent.csv")
    assert released["bmi"].null_count() == 0
    assert (released["age"] % 1 == 0).all()


@pytest.mark.cases(1)
@pytest.mark.parametrize("table", ["test.csv", "test.parquet"])
def test_init_finds_whole_numbers(cli, place, table, tmp_path):
    cli("init", table, "-s", "age,bmi", "--draft", "--output", str(tmp_path / "drawn.toml"))
    drawn = tomllib.loads((tmp_path / "drawn.toml").read_text())["features"]
    assert drawn["age"]["integer"] is True
    assert "integer" not in drawn["bmi"]


@pytest.mark.cases(1)
@pytest.mark.parametrize(("typed", "missing"), [("\n", 35), ("99\n27\n", 27), ("many\n27\n", 27)])
def test_init_asks_what_a_gap_is_read_as(monkeypatch, capsys, place, tmp_path, typed, missing):
    """The middle of the range where nothing else is typed; what lies outside is asked for again."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"10\n60\n{typed}"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.chdir(place)
    init.init(Path("test.csv"), ["bmi"], tmp_path / "asked.toml", draft=False)
    told = capsys.readouterr().out
    assert f"Gaps in bmi are read as {missing}." in told
    assert ("it must be a number, as in 0.9, got 'many'; again:" in told) == ("many" in typed)
    assert ew.Domain.load(tmp_path / "asked.toml")["bmi"].missing == missing


def test_tailor_takes_the_same_words(cli, place):
    words = ("-s", "age,bmi", "-e", "2", "--domain", "gaps.toml", "--public", "--seed", "0", "--policy", "t.toml")
    cli("tailor", "model.skops", "test.csv", *words)
    assert tomllib.loads((place / "t.toml").read_text())["tailored"]["inputs"]["bmi"]["missing"] == 27
    found = cli("tailor", "model.skops", "test.csv", *words, "--missing", "bmi=30", code=2)
    assert "contradicts missing = 27" in found.stderr


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("typed", "categories"), [("\n", ("no", "yes")), ("no\n", ("no", "yes")), ("unknown\n", ("no", "yes", "unknown"))]
)
def test_init_takes_a_new_word_for_a_gap_as_a_category(monkeypatch, capsys, tmp_path, typed, categories):
    (tmp_path / "smokers.csv").write_text('smoker\nyes\n""\nno\n')
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"no,yes\n{typed}"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    init.init(tmp_path / "smokers.csv", ["smoker"], tmp_path / "asked.toml", draft=False)
    assert "what a gap is read as (a new word becomes a category of its own)" in capsys.readouterr().out
    made = ew.Domain.load(tmp_path / "asked.toml")["smoker"]
    assert (made.categories, made.missing) == (categories, typed.strip() or "yes")


def test_a_box_of_whole_numbers_is_weighed_before_rounding(cli, tmp_path):
    words = ("safe-box", "model.skops", "test.csv", "-s", "age", "-r", "0", "--domain")
    ew.Domain.of({"age": {"lower": 0, "upper": 120, "integer": True}}).save(tmp_path / "whole.toml")
    whole, plain = (cli(*words, str(path)).stdout for path in (tmp_path / "whole.toml", "ranges.toml"))
    assert "at least, before it is rounded to whole numbers." in whole
    lines = whole.replace(", before it is rounded to whole numbers", "").splitlines()[:-1]
    assert lines == plain.splitlines()[:-1]
