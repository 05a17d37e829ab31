"""Rows by hash from the shell: configured, reported with ids, shuffled and added up; what is missing is named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epsworth.learner import (
    Aggregator,
    Client,
    LatticeConfig,
    Number,
    ScoreAudit,
    TableConfig,
    TableLearner,
    aggregate_files,
    assigned_rounds,
    assigned_rows,
    learn_table,
    report_file,
    shuffle_files,
)

SEED = "published-afterwards"
CONFIG = "learn config c.json -b age=0:10 -b dose=0:10 --classes no,yes --epsilon 2 --rows hash"
REPORT = f"learn report c.json people.csv r.jsonl --target sick --id id --seed {SEED} --cap 2"
IDS = [f"device-{number:03}" for number in range(200)]


@pytest.fixture
def cli(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPSWORTH_STATE", str(tmp_path / "state"))
    write("people.csv", IDS)
    Path("ids.txt").write_text("\n".join(IDS))
    return lambda words: cli(*words.split())


def write(path, ids, columns=("age", "dose")):
    X = np.random.default_rng(len(ids)).random((len(ids), len(columns))) * 10
    sick = np.where(X[:, 0] > 5, "yes", "no")
    pl.DataFrame({"id": ids, **dict(zip(columns, X.T, strict=True)), "sick": sick}).write_csv(path)


def senders(config, path):
    """Return who sent the reports of a file, each of which a shuffler takes."""
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    found = shuffle_files(config, [path], Path(path).with_suffix(".ldp"), at_least=2, registered=IDS, seed=SEED)
    assert (found.reports, found.refused) == (len(lines), {})
    return [line["id"] for line in lines]


@pytest.mark.parametrize("words", ["--cells 2", "--users 100000"])
@pytest.mark.cases(1)
def test_cells_with_rows_by_hash_are_learnt_from_the_shell(cli, words):
    code, out, _ = cli(f"{CONFIG} {words} --json -")
    made, config = json.loads(out), LatticeConfig.load("c.json")
    assert (code, made["rows"], config.rows, config.mechanism) == (0, "hash", "hash", "hadamard")
    assert (made["fingerprint"], made["report_size"]) == (config.fingerprint(), config.report_size)
    code, out, err = cli(REPORT)
    assert (code, err) == (0, "")
    assert out.startswith("200 reports of ")
    assert "Nobody of these people (id) lost more than epsilon 2 in all." in out
    assert "Next: epsworth learn shuffle c.json r.jsonl --output batch.ldp" in out
    assert senders(config, "r.jsonl") == IDS
    if words == "--cells 2":  # four rows: a smallest one of two reports
        shuffle = f"learn shuffle c.json r.jsonl -o batch.ldp --at-least 2 --registered ids.txt --seed {SEED}"
        assert cli(shuffle)[1].startswith("200 reports forwarded")
        assert cli("learn aggregate c.json batch.ldp -o s.state --shuffled")[1].startswith("200 reports")
    code, _, err = cli("learn aggregate c.json r.jsonl -o s.state")
    assert code == 2
    assert "learn shuffle --registered" in err


def test_the_next_command_of_a_round_names_ids_and_seed(cli):
    names = [f"c{number}" for number in range(5)]
    write("people.csv", IDS, columns=names)
    bounds = " ".join(f"-b {name}=0:10" for name in names)
    assert cli(f"learn config t.json {bounds} --classes no,yes --epsilon 2 --users 3000 --rows hash")[0] == 0
    code, out, _ = cli("learn open t.json round.json")
    words = out.split("Next: epsworth ")[1].split("   (")[0].replace("these_people", "people").replace("label", "sick")
    assert (code, "--id id --seed SEED --again" in words) == (0, True)
    code, out, _ = cli(words)
    assert (code, "Nobody of these people (id) lost more than epsilon 2 in all." in out) == (0, True)


def test_a_run_is_told_as_json(cli):
    cli(f"{CONFIG} --cells 4")
    code, out, _ = cli(f"{REPORT} --json -")
    made = json.loads(out)
    assert (code, made["reports"], made["rows"], made["epsilon"], made["epsilon_so_far"]) == (0, 200, "hash", 2.0, 2.0)
    assert made["fingerprint"] == LatticeConfig.load("c.json").fingerprint()
    code, out, _ = cli(f"{CONFIG.replace(' --rows hash', '')} --cells 4 --json -")
    assert (code, "rows" in json.loads(out)) == (0, False)
    code, out, _ = cli("learn report c.json people.csv r.ldp --target sick --ledger other --json told.json")
    assert out.startswith("200 reports")
    assert json.loads(Path("told.json").read_text())["rows"] == "drawn"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            REPORT.replace(" --id id", "").replace(" --cap 2", ""),
            "with rows='hash' an id and the public seed say which row is reported; give --id and --seed",
        ),
        (REPORT.replace(f" --seed {SEED}", ""), "give --id and --seed"),
        (
            REPORT.replace("r.jsonl", "r.ldp"),
            "r.ldp holds no ids, which rows='hash' needs beside reports; name a .jsonl",
        ),
        (REPORT.replace("people", "twice"), "an id has several rows, but with rows='hash' one report"),
        (REPORT.replace("people", "empty"), "row 1"),
        (REPORT.replace("--id id", "--id name"), "the table has no column 'name'"),
        (f"learn report drawn.json people.csv r.ldp --target sick --seed {SEED}", "seed belongs to rows='hash'"),
        (f"{CONFIG.replace('hash', 'some')} --cells 4", "rows must be one of drawn, hash"),
        (f"{CONFIG} --cells 4 --mechanism krr", "--rows hash needs a mechanism whose reports name a row, got 'krr'"),
    ],
)
@pytest.mark.cases(1)
def test_what_is_missing_is_named_in_a_sentence_and_nothing_is_written(cli, words, told):
    write("twice.csv", [*IDS, IDS[3]])
    write("empty.csv", ["a", "", "b"])
    cli(f"{CONFIG} --cells 4")
    cli(f"{CONFIG.replace('c.json', 'drawn.json').replace(' --rows hash', '')} --cells 4")
    before = Path("c.json").read_bytes()
    code, _, err = cli(words)
    assert code == 2
    assert told in err
    assert err.count("\n") == 1
    assert Path("c.json").read_bytes() == before
    assert not [*Path().glob("r.*")]


def test_the_first_row_of_an_id_is_reported_and_the_cap_holds_whatever_the_seed(cli):
    write("people.csv", [*IDS, *IDS[:30]])
    cli(f"{CONFIG} --cells 4")
    code, out, _ = cli(f"{REPORT} --max-rows-per-person 1")
    assert (code, out.split()[0]) == (0, "200")
    assert senders(LatticeConfig.load("c.json"), "r.jsonl") == IDS
    again = f"{REPORT} --max-rows-per-person 1 --again".replace("r.jsonl", "s.jsonl").replace(SEED, "another")
    code, _, _ = cli(again)
    assert (code, Path("s.jsonl").exists()) == (2, False)


def test_of_a_round_those_report_who_answer_it_and_only_they_are_charged(cli):
    ranges = " ".join(f"-b {name}=0:10" for name in "abcde")
    code, out, _ = cli(f"learn config t.json {ranges} --classes no,yes --epsilon 2 --users 100000 --rows hash --json -")
    table = TableConfig.load("t.json")
    assert (code, table.rows, json.loads(out)["fingerprint"]) == (0, "hash", table.fingerprint())
    write("people.csv", IDS, columns="abcde")
    rounds = assigned_rounds(table, IDS, SEED)
    assert set(json.loads(out)["shares"]) == set(rounds)
    cli("learn open t.json round.json")
    learner, words = TableLearner(table), REPORT.replace("c.json", "round.json")
    own = [one for one, purpose in zip(IDS, rounds, strict=True) if purpose == learner.open().purpose]
    assert cli(words)[1].startswith(f"{len(own)} reports")
    sums = Aggregator(learner.open())
    rows = assigned_rows(learner.open(), own, SEED)
    senders_of_first = [json.loads(line)["id"] for line in Path("r.jsonl").read_text().splitlines()]
    assert (senders_of_first, len(rows)) == (own, len(own))
    X = np.random.default_rng(0).random((len(own), 5)) * 10
    sums.add(Client(learner.open()).reports(X, ["no"] * len(own), rows=rows), users=own, seed=SEED)
    learner.close(sums)
    learner.open().save("round.json")  # of the same table others answer, within their cap
    others = [one for one, purpose in zip(IDS, rounds, strict=True) if purpose == learner.open().purpose]
    code, out, err = cli(words.replace("r.jsonl", "s.jsonl") + " --again")
    assert (code, err) == (0, "")
    assert [json.loads(line)["id"] for line in Path("s.jsonl").read_text().splitlines()] == others
    write("nobody.csv", own[:5], columns="abcde")
    code, _, err = cli(words.replace("r.jsonl", "n.jsonl").replace("people", "nobody"))
    assert (code, Path("n.jsonl").exists()) == (2, False)
    assert "none of these people answers this round" in err


def test_an_audit_is_reported_with_ids(cli, tmp_path):
    X = np.random.default_rng(0).random((3000, 5)) * 10
    table = TableConfig([Number(name, 0, 10) for name in "abcde"], ("no", "yes"), epsilon=4, users=3000, rows="hash")
    audit = ScoreAudit.of(learn_table(table, X, np.where(X[:, 0] > 5, "yes", "no"), 0))
    write("people.csv", IDS, columns="abcde")
    given = {"person": "id", "cap": 4, "seed": SEED, "ledger": tmp_path / "l"}
    assert report_file(audit, Path("people.csv"), Path("r.jsonl"), "sick", **given) == 200
    assert senders(audit, "r.jsonl") == IDS


def test_reports_of_a_file_are_about_the_rows_of_ids(cli, tmp_path):
    config = LatticeConfig([(0, 10)] * 2, 4, classes=("no", "yes"), epsilon=2, names=["age", "dose"], rows="hash")
    given = {"person": "id", "cap": 9, "seed": SEED, "ledger": tmp_path / "l"}
    assert report_file(config, Path("people.csv"), Path("r.jsonl"), "sick", **given) == 200
    first = Path("r.jsonl").read_bytes()
    with pytest.raises(ValueError, match="were reported 1 time before"):  # another seed is another run
        report_file(config, Path("people.csv"), Path("r.jsonl"), "sick", **given | {"seed": "other"})
    assert Path("r.jsonl").read_bytes() == first
    batch = shuffle_files(config, [Path("r.jsonl")], Path("b.ldp"), at_least=2, registered=IDS, seed=SEED)
    with pytest.raises(ValueError, match="shuffle it first"):
        aggregate_files(config, [Path("r.jsonl")], shuffled=True)
    counts = config.kernel.row_counts(aggregate_files(config, [Path("b.ldp")], shuffled=True).tally)
    assert counts.tolist() == np.bincount(assigned_rows(config, IDS, SEED), minlength=len(counts)).tolist()
    assert batch.smallest_row == counts.min()


@pytest.mark.parametrize("call", [aggregate_files, lambda *given: shuffle_files(*given, "b.ldp", at_least=2)])
@pytest.mark.parametrize("sources", ["r.ldp", b"r.ldp", Path("r.ldp")])
def test_a_single_file_is_no_list_of_files(call, sources):
    with pytest.raises(ValueError, match=r"sources must be a list of files, got .*; put a single one in a list"):
        call(LatticeConfig(box=(0, 1), m=4, epsilon=1), sources)
