"""Tables from the shell: rounds, sessions, a ledger over all rounds, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from table_worlds import columns, rows

from epsworth.learner import TableConfig, TableLearner, simulate

CONFIG = (
    "learn config c.json -b age=0:100 -b dose=0:10 -b height=130:210 -c job=none,clerk,nurse -c sex=0,1 "
    "--classes no,yes --epsilon 4 --users 20000"
)
WORLDS = {  # rows and seed of a table of people
    "few": (20, 5), "first": (4000, 1), "second": (12_000, 2), "third": (4000, 3), "new": (2000, 4),
    "other_labels": (9000, 6), "other_shares": (9000, 7),
}  # fmt: skip


@pytest.fixture
def cli(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPSWORTH_STATE", str(tmp_path / "state"))
    for name, (n, seed) in WORLDS.items():
        X, y = rows(n, seed)
        table = {column.name: [row[j] for row in X] for j, column in enumerate(columns())} | {"sick": y.tolist()}
        pl.DataFrame(table, strict=False).write_csv(f"{name}.csv")

    def run(words):
        code, out, err = cli(*words.split())
        return code, out, err

    return run


@pytest.mark.slow
def test_a_table_is_learnt_from_the_shell(cli):
    assert cli(f"{CONFIG} --rounds weighted")[0] == 0
    session = "c.json"
    Path("d.toml").write_text("[features.age]\nlower = 0\nupper = 100\n[features.height]\nlower = 130\nupper = 210\n")
    for number, people in enumerate(("first", "second", "third")):
        code, out, _ = cli(f"learn open {session} r{number}.json")
        assert code == 0
        assert ("quantiles", "tables", "weights")[number] in out
        assert cli(f"learn report r{number}.json {people}.csv {number}.ldp --target sick")[0] == 0
        assert cli(f"learn aggregate r{number}.json {number}.ldp -o {number}.state")[0] == 0
        told = f"--plot s{number}.png --json t{number}.json --report t{number}.html"
        code, _, err = cli(f"learn close {session} {number}.state -o s{number}.json {told}")
        if number < 2:
            assert (code, Path(f"s{number}.json").exists()) == (2, False)
            assert "leave it out" in err
            assert cli(f"learn close {session} {number}.state -o s{number}.json")[0] == 0
        for name in (f"s{number}.png", f"t{number}.json", f"t{number}.html"):
            assert Path(name).exists() == (number == 2)
        session = f"s{number}.json"
    document = json.loads(Path("t2.json").read_text())
    assert [one["purpose"] for one in document["rounds"]] == ["quantiles", "tables", "weights"]
    assert {len(one["scores"]) for one in document["columns"] if one["values"] is None} == {8}
    assert "Which columns say most" in Path("t2.html").read_text()
    assert cli(f"learn predict {session} new.csv labels.csv")[0] == 0
    found = pl.read_csv("labels.csv")["label"].to_numpy()
    assert np.mean(found == pl.read_csv("new.csv")["sick"].to_numpy()) > 0.75
    code, out, _ = cli(f"utility {session} few.csv -s age,height --domain d.toml -m pm -e 2 --seed 1")
    assert code == 0, out
    code, _, err = cli(f"learn open {session} more.json")
    assert (code, Path("more.json").exists()) == (2, False)
    assert "it is a model" in err
    code, _, err = cli(f"learn open {session} {session}")
    assert code == 2
    judge(cli, session)
    code, _, err = cli(f"learn predict {session} new.csv sure.csv --confidence 0.9")
    assert (code, Path("sure.csv").exists()) == (2, False)
    assert "no certificate covers them" in err


def judge(cli, session):
    """Ask other users about the model, and tell certificates and shares by what they say."""
    for words, name in (("", "labels"), ("--probability", "shares")):
        assert cli(f"learn audit {session} {name}.json {words}")[0] == 0
        assert cli(f"learn report {name}.json few.csv {name}0.ldp --target sick")[0] == 0
        assert cli(f"learn report {name}.json other_{name}.csv {name}.ldp --target sick")[0] == 0
        assert cli(f"learn aggregate {name}.json {name}.ldp -o {name}.state")[0] == 0
        code, _, err = cli(f"learn report {name}.json first.csv twice.ldp --target sick")
        assert (code, Path("twice.ldp").exists()) == (2, False), "it answered in a round"
        Path(f"{name}0.ldp").unlink()
        Path("few.csv").write_text(Path("few.csv").read_text() + "1,1,150,none,0,no\n")
    assert cli(f"learn predict {session} new.csv p.csv --audit shares.state --probability --confidence 0.9")[0] == 0
    found = pl.read_csv("p.csv")
    assert found.columns == [
        "label",
        "probability_no",
        "probability_yes",
        "band_label",
        "p_value",
        "certified",
        "fakes",
    ]
    assert (found["probability_no"] + found["probability_yes"] - 1).abs().max() < 1e-9
    assert found["certified"].any()
    code, _, _ = cli(f"learn predict {session} new.csv q.csv --audit labels.state --confidence 0.9")
    assert (code, pl.read_csv("q.csv").columns) == (0, ["label", "band_label", "p_value", "certified", "fakes"])
    for words, told in (
        ("--audit labels.state --probability", "audit with about='probabilities'"),
        ("--probability", "--probability needs --audit"),
        ("--audit 0.state", "no sums of an audit"),
    ):
        code, _, err = cli(f"learn predict {session} new.csv none.csv {words}")
        assert (code, Path("none.csv").exists()) == (2, False)
        assert told in err


@pytest.mark.slow
def test_a_record_answers_in_one_round(cli):
    """The ledger is about the whole session: another round would cost another epsilon."""
    cli(CONFIG)
    cli("learn open c.json r.json")
    assert cli("learn report r.json first.csv a.ldp --target sick")[0] == 0
    cli("learn aggregate r.json a.ldp -o a.state")
    cli("learn close c.json a.state -o s.json")
    assert cli("learn open s.json r2.json")[0] == 0
    code, _, err = cli("learn report r2.json first.csv b.ldp --target sick")
    assert (code, Path("b.ldp").exists()) == (2, False)
    assert "were reported 1 time before" in err
    assert "a record answers one round of a table: use the reports you have, or report other people's" in err
    assert "--again" not in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("-b a=0:1 -c job=x,y --classes 0,1 --epsilon 1", "--users is missing"),
        ("-b a=0:1 -c job=x --users 10 --epsilon 1", "column 'job': values must be at least two"),
        ("-b a=0:1 -c job --users 10 --epsilon 1", "--category must be name=a,b,c"),
        ("-b a=0:1 -c a=x,y --users 10 --epsilon 1", "--category names 'a' twice"),
        ("-b a=0:1 -c job=x,y --users 10 --epsilon 1 --missing b", "--missing: there is no column 'b'"),
        ("-b a=0:1 -c job=x,y --users 10 --epsilon 1 --cells 4", "--cells and --mechanism are for numbers alone"),
        ("-b a=0:1 --users 10 --epsilon 1 --rounds some", "rounds must be auto or one of"),
        ("-b a=0:1 -c job=x,y --users 10 --epsilon 1 --outside refuse", "--outside is for cells"),
        ("-b a=0:1 -c job=x,,y --users 10 --epsilon 1", "--category job has an empty value"),
    ],
)
@pytest.mark.cases(1)
def test_what_is_no_table_is_refused_in_a_sentence(cli, words, told):
    code, _, err = cli(f"learn config c.json {words}")
    assert (code, Path("c.json").exists()) == (2, False)
    assert told in err
    assert err.count("\n") == 1


def test_five_numbers_are_a_table(cli):
    ranges = " ".join(f"-b x{number}=0:1" for number in range(5))
    assert cli(f"learn config c.json {ranges} --epsilon 1 --users 100000")[0] == 0
    assert json.loads(Path("c.json").read_text())["format"] == "epsworth-table-1"
    assert cli(f"learn config d.json {ranges} --epsilon 1 --cells 2 --mechanism cosine")[0] == 0
    assert json.loads(Path("d.json").read_text())["mechanism"] == "cosine"


def test_rounds_that_are_not_needed_are_told(cli):
    learner = TableLearner(TableConfig(columns()[:1], ("no", "yes"), 2, users=1000, rounds="weighted"))
    X, y = rows(400, 8)
    ages = [row[:1] for row in X]
    learner.close(simulate(learner.open(), ages, y, 0))
    learner.save("s0.json")
    simulate(learner.open(), ages, y, 1).save("1.state")
    code, out, _ = cli("learn close s0.json 1.state -o s1.json")
    assert code == 0
    assert "all rounds are closed; none for weights is needed, as fewer than two columns tell the labels apart." in out


def test_a_model_that_is_not_there_is_no_model_of_cells(cli):
    code, _, err = cli("learn predict none.json new.csv labels.csv --probability")
    assert (code, Path("labels.csv").exists()) == (2, False)
    assert "cannot read the model none.json: " in err
