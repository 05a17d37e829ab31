"""Every question of the library has a command, every table a way in, every answer a next step."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from skops.io import dump

import epsworth as ew
from epsworth.cli import show
from epsworth.mechanisms import MECHANISMS
from epsworth.space import LeakWarning
from epsworth.tables import read_table

EPSWORTH = Path(sys.executable).with_name("epsworth")
RANGES = {"age": (0, 100), "bmi": (10, 60)}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions")
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"age": rng.uniform(18, 90, 40), "bmi": rng.uniform(15, 45, 40)})
    model = LogisticRegression(max_iter=1000).fit(table, (table["age"] / 90 + table["bmi"] / 45 > 1.3).cast(int))
    dump(model, folder / "model.skops")
    table.write_csv(folder / "table.csv")
    table.write_ndjson(folder / "table.jsonl")
    table.write_parquet(folder / "table.parquet")
    table.with_columns(bmi=pl.when(pl.int_range(40) == 31).then(np.inf).otherwise("bmi")).write_csv(folder / "inf.csv")
    table.with_columns(job=pl.Series(["clerk", "nurse"] * 20)).write_csv(folder / "jobs.csv")
    ew.Domain.of(RANGES).save(folder / "ranges.toml")
    return folder


@pytest.fixture
def cli(cli, place, monkeypatch):
    """Run a command in the folder of the model; check its exit status."""
    monkeypatch.chdir(place)

    def run(*words, code=0):
        status, out, err = cli(*words)
        assert status == code, err
        return SimpleNamespace(stdout=out, stderr=err)

    return run


def loaded(place):
    return ew.load_model(place / "model.skops"), pl.read_csv(place / "table.csv")


BOX = ("-s", "age,bmi", "--domain", "ranges.toml")


@pytest.mark.slow
def test_radius_prints_what_the_library_says(cli, place):
    model, table = loaded(place)
    told = json.loads(cli("radius", "model.skops", "table.csv", "--record", "3", "--norm", "inf", "--json", "-").stdout)
    found = ew.radius(model, table[3:4], norm="inf")
    assert (told["lower"], told["upper"], told["method"]) == (found.lower, found.upper, "linear")
    text = cli("radius", "model.skops", "table.csv", "-r", "3", "-f", "age").stdout
    assert str(ew.radius(model, table[3:4], features="age")) in text
    assert "Next: epsworth safe-box model.skops table.csv --record 3 -s age --domain ranges.toml" in text


def test_safe_box_prints_what_the_library_says(cli, place):
    model, table = loaded(place)
    asked = ("safe-box", "model.skops", "table.csv", "-r", "5", *BOX)
    found = ew.safe_box(model, table[5:6], sensitive=["age", "bmi"], domain=RANGES)
    told = json.loads(cli(*asked, "--json", "-").stdout)
    assert (told["lower"], told["upper"]) == (list(found.lower), list(found.upper))
    assert str(found) in cli(*asked).stdout


@pytest.mark.slow
def test_split_writes_the_policy_that_it_prints(cli, place, tmp_path):
    policy = tmp_path / "policy.toml"
    text = cli("split", "model.skops", "table.csv", *BOX, "-e", "4", "--policy", str(policy)).stdout
    written = ew.Policy.load(policy)
    assert written.total <= 4
    shares = re.search(r"split as age ([\d.]+), bmi ([\d.]+)", text).groups()
    assert [str(rule.epsilon.normalize()) for rule in written.rules] == [
        str(float(s)).removesuffix(".0") for s in shares
    ]
    assert "at most 98.3 % sure" in text


@pytest.mark.parametrize("source", ["table.csv", "table.jsonl", "table.parquet"])
@pytest.mark.slow
def test_every_kind_of_table_gives_one_answer_by_name_and_by_standard_input(cli, place, source, monkeypatch):
    asked = ["utility", "model.skops", source, *BOX, "-m", "pm", "-e", "1,2", "--json", "-"]
    named = json.loads(cli(*asked).stdout)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=BytesIO((place / source).read_bytes())))
    piped = json.loads(cli(*asked[:2], "-", *asked[3:]).stdout)
    first = json.loads(cli(*asked[:2], "table.csv", *asked[3:]).stdout)
    for one in (named, piped, first):
        one.pop("seconds")
    assert named == piped
    assert np.allclose(named["stability"]["lower"], first["stability"]["lower"], atol=1e-12)


@pytest.mark.slow
def test_a_table_is_piped_into_a_command(place):
    asked = [EPSWORTH, "utility", "model.skops", "-", *BOX, "-m", "pm", "-e", "1", "--tolerance", "0.05"]
    with (place / "table.jsonl").open("rb") as table:
        found = subprocess.run(asked, cwd=place, stdin=table, capture_output=True, text=True, check=True)
    assert "Next: epsworth recommend model.skops TABLE -s age,bmi --domain ranges.toml" in found.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a": 2', "line 2: it is not a JSON object"),
        ('{"a": 1, "a": 2}\n', "line 1: a member stands twice"),
        ('{"a": [1]}\n', "line 1: a member is a list or an object"),
        ("[1]\n", "line 1: it is not a JSON object"),
        ('{"a": 1}\n{"a": "x"}\n', "holds values of several kinds"),
        ("\n\n", "is empty"),
        ('{"a": ' + "[" * 100_000 + "\n", "line 1: it is not a JSON object"),
    ],
)
def test_json_lines_that_are_no_table_are_refused_by_line(tmp_path, text, message):
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        read_table(path)
    assert "\n" not in str(refused.value)


def test_members_that_are_left_out_are_missing(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1, "b": "x"}\n\n{"b": "y"}\n{"a": null, "b": null}\n')
    assert read_table(path).to_dict(as_series=False) == {"a": [1, None, None], "b": ["x", "y", None]}


def test_nothing_on_standard_input_is_told(cli, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=BytesIO()))
    assert "the table on standard input is empty" in cli("utility", "model.skops", "-", *BOX, code=2).stderr


@pytest.mark.slow
def test_epsilon_per_record_comes_first_with_what_it_protects(cli):
    text = cli("utility", "model.skops", "table.csv", *BOX, "-m", "pm", "-e", "2,4", "-v").stdout
    assert text.startswith("At epsilon 4 per record pm keeps at least ")
    assert re.search(r"attacker +50 % -> at most 98\.3 %", text)
    assert re.search(r"kept on average +ε=2 +ε=4", text)
    flat = " ".join(text.split())
    assert "ε is per record, of age, bmi together." in flat
    assert "At ε=2 per record: whoever held two values of a record equally likely is at most 88.1 % sure" in flat
    assert "At ε=4 per record: whoever held two values of a record equally likely is at most 98.3 % sure" in flat
    same = cli("utility", "model.skops", "table.csv", *BOX, "-m", "pm", "-e", "1,2", "--per-feature", "-v").stdout
    assert text.split("queries")[0] == same.split("queries")[0]


def test_promises_that_differ_between_mechanisms_are_told(capsys):
    curves = ew.stability(
        lambda records: records[:, 0] > 0.5, [[0.2]], sensitive=0, epsilons=[2.0],
        mechanisms={"whole": MECHANISMS["pm"], "half": lambda epsilon: MECHANISMS["pm"](epsilon / 2)},
    )  # fmt: skip
    show.print_curves(curves, "worst")
    show.print_facts(curves)
    text = " ".join(capsys.readouterr().out.split())
    assert "whole at epsilon 2 per record: pure LDP, epsilon 2 per record" in text
    assert "half at epsilon 2 per record: pure LDP, epsilon 1 per record" in text
    assert "At ε=2 per record: whoever" in text  # the weaker promise of the two


def test_a_draft_of_ranges_says_that_it_leaks_and_loads(cli, place, tmp_path):
    drafted = tmp_path / "ranges.toml"
    found = cli("init", "jobs.csv", "-s", "age,job", "--draft", "-o", str(drafted))
    assert "extreme values" in found.stderr
    assert "DRAFT, TAKEN FROM THE TABLE: age, job" in drafted.read_text()
    table = pl.read_csv(place / "jobs.csv")
    with pytest.warns(LeakWarning, match="its ranges were taken from a table"):
        declared = ew.Domain.load(drafted)
    assert (declared["age"].lower, declared["age"].upper) == (table["age"].min(), table["age"].max())
    assert declared["job"].categories == ("clerk", "nurse")
    again = cli("init", "jobs.csv", "-s", "age", "--draft", "-o", str(drafted), code=2)
    assert "exists" in again.stderr


@pytest.mark.slow
def test_init_asks_and_shows_nothing_of_the_table(place, tmp_path):
    """A real terminal: the answers are typed, one of them wrong at first."""
    pty = pytest.importorskip("pty", reason="no pseudo-terminals here")
    import os
    import select

    drafted = tmp_path / "ranges.toml"
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(place)
        os.execv(EPSWORTH, [str(EPSWORTH), "init", "jobs.csv", "-o", str(drafted)])
    seen = b""
    answers = [
        (b"commas):", b"age,job\n"),
        (b"least value", b"100\n"),
        (b"largest value", b"0\n"),
        (b"least value", b"0\n"),
        (b"largest value", b"120\n"),
        (b"commas):", b"clerk,nurse,other\n"),
    ]
    at = 0
    for wanted, typed in answers:
        while wanted not in seen[at:]:
            assert select.select([terminal], [], [], 60)[0], seen
            seen += os.read(terminal, 4096)
        at = len(seen)
        os.write(terminal, typed)
    try:
        while select.select([terminal], [], [], 60)[0] and (more := os.read(terminal, 4096)):
            seen += more
    except OSError:  # the terminal is gone with its process
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    declared = ew.Domain.load(drafted)
    assert (declared["age"].lower, declared["age"].upper) == (0, 120)
    assert declared["job"].categories == ("clerk", "nurse", "other")
    shown = {f"{value:g}" for value in pl.read_csv(place / "jobs.csv")["age"]}
    assert not any(value in seen.decode() for value in shown)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("radius", "model.skops", "table.csv", "--norm", "1"), "--norm must be 2 or inf"),
        (("radius", "model.skops", "table.csv", "-r", "40"), "there is no record 40"),
        (("radius", "model.skops", "inf.csv", "--all", "--resume", "run"), "'bmi' is not finite in record 31"),
        (("radius", "model.skops", "inf.csv", "--all", "-f", "age", "--resume", "run"), "failed on record 31"),
        (("safe-box", "model.skops", "table.csv", "-s", "age", "-r", "-1"), "there is no record -1"),
        (("split", "model.skops", "table.csv", "-s", "age", "-e", "4", "--domain", "ranges.toml"), "at least two"),
        (("split", "model.skops", "table.csv", *BOX, "-e", "4", "--on", "best"), "--on must be average or worst"),
        (("init", "table.csv", "-s", "age", "-o", "new.toml"), "standard input is no terminal"),
        (("init", "table.csv", "--draft", "-o", "new.toml"), "--sensitive is missing"),
        (("utility", "model.skops", "table.csv", *BOX, "-e", "0,1"), "positive"),
    ],
)
@pytest.mark.cases(1)
def test_bad_questions_end_in_one_sentence_and_status_2(cli, words, message):
    found = cli(*words, code=2)
    assert message in " ".join(found.stderr.split())
    assert found.stdout == ""


@pytest.mark.parametrize("epsilon", ["inf", "nan", "1e400", "2,inf", "0", "5e-324"])
@pytest.mark.cases(1)
def test_epsilons_that_are_none_get_one_sentence(cli, epsilon):
    for words in (
        ("utility", "--epsilon", epsilon), ("recommend", "--epsilon", epsilon), ("split", "-e", epsilon.split(",")[-1]),
    ):  # fmt: skip
        told = cli(words[0], "model.skops", "table.csv", *BOX, *words[1:], code=2).stderr
        assert len(told.splitlines()) == 1, told
        assert "epsilon" in told or "total" in told


def test_run_shows_what_was_kept_and_asks_nothing(cli, tmp_path):
    asked = ("model.skops", "table.csv", *BOX, "-m", "pm", "-e", "1,4", "--seed", "1")
    study, result, curves = (str(tmp_path / name) for name in ("study.toml", "result.json", "curves.json"))
    said = cli("recommend", *asked, "--at-least", "0.6", "--study", study, "--json", curves).stdout
    first = cli("run", study, "--output", result).stdout
    again = cli("run", result, "--policy", str(tmp_path / "policy.toml")).stdout
    verdict = said.splitlines()[:2]
    assert first.splitlines()[:2] == again.splitlines()[:2] == verdict
    assert ew.Policy.load(tmp_path / "policy.toml").total > 0
    told = cli("run", curves).stdout
    assert told.startswith("At epsilon 4 per record pm keeps at least ")
    assert f"Next: epsworth recommend {curves} --at-least 0.9" in told
    refused = cli("run", curves, "--policy", str(tmp_path / "other.toml"), code=2)
    assert "holds curves, but no study, so that run has nothing to write; give it to epsworth recom" in refused.stderr
    assert not (tmp_path / "other.toml").exists()
    (tmp_path / "none.json").write_text("{}")
    refused = cli("run", str(tmp_path / "none.json"), "--policy", str(tmp_path / "other.toml"), code=2)
    assert "this is not an epsworth-curves-1 document" in refused.stderr


@pytest.mark.filterwarnings("ignore:.* its ranges were taken from a table")  # a draft
@pytest.mark.parametrize("spelt", ["lower", "upper", "title"])
@pytest.mark.cases(1)
def test_truths_are_read_however_they_are_spelt(cli, tmp_path, spelt):
    """Pandas writes True, JSON true, spreadsheets TRUE: the model was fitted on truths."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"age": rng.uniform(18, 90, 40), "owns": rng.random(40) < 0.5})
    model = LogisticRegression().fit(table, (table["age"] / 90 + table["owns"] > 1.0).cast(int))
    dump(model, tmp_path / "owns.skops")
    path = tmp_path / "owns.csv"
    table.with_columns(owns=pl.col("owns").cast(pl.String)).write_csv(path)
    path.write_text("".join(
        line if i == 0 else line.replace("true", getattr("true", spelt)()).replace("false", getattr("false", spelt)())
        for i, line in enumerate(path.read_text().splitlines(keepends=True))
    ))  # fmt: skip
    drafted, policy, model_file = (str(tmp_path / name) for name in ("ranges.toml", "policy.toml", "owns.skops"))
    cli("predict", model_file, str(path), str(tmp_path / "out.csv"))
    labels = pl.read_csv(tmp_path / "out.csv")[:, -1].to_list()
    assert labels == model.predict(table).tolist()
    cli("init", str(path), "-s", "age,owns", "--draft", "-o", drafted)
    assert ew.Domain.load(drafted)["owns"].categories == (False, True)
    cli("recommend", model_file, str(path), "-s", "age,owns", "--domain", drafted, "-m", "pm", "-e", "1,4",
        "--at-least", "0.5", "--policy", policy)  # fmt: skip
    assert "keeps" in cli("utility", model_file, str(path), "--policy", policy).stdout
