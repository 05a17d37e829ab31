"""The command line as its users see it: tables, files, sentences, exit statuses."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from skops import io

from command_lines import changed
from epsworth.inputs import epsilon_grid

EPSWORTH = Path(sys.executable).with_name("epsworth")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a model, a table with its target, and a domain."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"age": rng.uniform(18, 90, 60), "bmi": rng.uniform(15, 45, 60)})
    sick = (table["age"] / 90 + table["bmi"] / 45 > 1.3).cast(int)
    model = LogisticRegression(max_iter=1000).fit(table, sick)
    io.dump(model, folder / "model.skops")
    (folder / "model.pkl").write_bytes(pickle.dumps(model))
    with_target = table.with_columns(sick.alias("sick"))[:20]
    with_target.write_csv(folder / "table.csv")
    with_target.write_parquet(folder / "table.parquet")
    with_target[:0].write_csv(folder / "empty.csv")
    with_target.with_columns(age=pl.when(pl.col("bmi") > 40).then(None).otherwise(pl.col("age"))).write_csv(
        folder / "gap.csv"
    )
    with_target.with_columns(age=pl.col("age") + 20).write_csv(folder / "old.csv")
    (folder / "list.json").write_text("[]")
    (folder / "domain.toml").write_text(
        "[features.age]\nlower = 0\nupper = 100\n[features.bmi]\nlower = 10\nupper = 60\n"
    )
    return folder


@pytest.fixture
def cli(cli, place, monkeypatch):
    monkeypatch.chdir(place)
    return cli


QUESTION = (
    "model.skops",
    "table.csv",
    "--target",
    "sick",
    "-s",
    "age,bmi",
    "--domain",
    "domain.toml",
    "--tolerance",
    "0.05",
)


@pytest.mark.slow
def test_utility_prints_tables_and_writes_json_and_a_plot(cli, place):
    code, out, err = cli(
        "utility", *QUESTION, "-e", "1:3:1", "--json", "u.json", "--plot", "u.png", "--record", "3", "-v"
    )
    assert (code, err) == (0, "")
    for words in (
        "keeps most: at least",
        "kept on average",
        "kept, worst record",
        "kept, record 3",
        "right on average",
        "ε=3",
        "attacker",
        "for certain",
    ):
        assert words in out
    document = json.loads((place / "u.json").read_text())
    assert np.shape(document["stability"]["lower"]) == (6, 3, 20)
    assert document["epsilons_per_record"][:2] == [1.0, 2.0]
    assert (place / "u.png").read_bytes().startswith(b"\x89PNG")
    for number in re.findall(r"(?<=pm  ).*", out.partition("kept on average")[2].partition("worst record")[0]):
        shown = [float(v) for v in re.findall(r"0\.\d{3}", number)]
        average = document["stability"]["average"]["lower"][0]
        assert all(any(0 <= value - s < 1e-3 for value in average) for s in shown)  # rounded down


def test_all_tables_name_one_kind_of_epsilon(cli, place):
    """What a record pays is at the head of every table, whichever way it was asked for."""
    _, out, _ = cli("utility", *QUESTION, "-m", "pm", "-e", "1:2:1", "--per-feature", "-v")
    heads = [found for line in out.splitlines() if len(found := re.findall(r"ε=(\d+)", line)) == 2]
    assert len(heads) > 3
    assert all(head == ["2", "4"] for head in heads)


@pytest.mark.slow
def test_parquet_and_csv_give_the_same_answer(cli, place):
    for table in ("table.csv", "table.parquet"):
        code, out, _ = cli(
            "utility", "model.skops", table, *QUESTION[2:], "-m", "pm", "-e", "2", "--seed", "1", "--json", "-"
        )
        assert code == 0
        found = json.loads(out)
        found.pop("seconds")
        assert found == globals().setdefault("_first", found)


@pytest.mark.slow
def test_a_policy_is_analysed_as_clients_release_it(cli, place):
    command = ("recommend", *QUESTION, "-m", "pm,sw", "-e", "2,12", "--at-least", "0.6", "--policy", "p.toml")
    code, out, _ = cli(*command, "-v")
    assert code == 0
    assert "epsworth utility --policy" in out
    (place / "p.toml").unlink()
    code, out, _ = cli(*command, "--recheck")
    assert code == 0
    assert re.search(r"What clients release under it: at least 0\.\d+\.", out)
    code, out, err = cli(
        "utility", *QUESTION[:4], "--policy", "p.toml", "--json", "u.json", "--tolerance", "0.05", "-v"
    )
    assert (code, err) == (0, "")
    for words in (
        "ε is per record, of age, bmi together",
        "average over the population",
        "age by pm at epsilon",
        "for certain",
    ):
        assert words in out


@pytest.mark.slow
def test_what_a_policy_says_is_not_asked_for_again(cli, place):
    (place / "q.toml").write_text(
        'version = 1\n[features.age]\nlower = 0\nupper = 100\nmechanism = "pm"\nepsilon = 1\n'
    )
    for option in (("-s", "age"), ("-m", "pm"), ("-e", "1"), ("--quantise", "5"), ("--domain", "domain.toml")):
        code, out, err = cli("utility", *QUESTION[:2], "--policy", "q.toml", *option)
        assert (code, out) == (2, "")
        assert "exclude each other: a policy says its own" in err
    for command in (("utility", *QUESTION[:2]), ("recommend", *QUESTION, "--recheck")):
        code, _, err = cli(*command)
        assert code == 2
        assert "--policy" in err


@pytest.mark.filterwarnings("always")
@pytest.mark.slow
def test_recommend_from_a_model_and_from_saved_curves(cli):
    code, out, _ = cli("recommend", *QUESTION, "--at-least", "0.7", "--json", "r.json", "-e", "1,4,16")
    assert code == 0
    assert out.startswith("Yes: ")
    assert "eiling" not in out
    code, out, _ = cli("recommend", "r.json", "--at-least", "0.7", "-v")
    assert code == 0
    assert "The ceiling" in out
    code, _, _ = cli("utility", *QUESTION, "--json", "c.json", "-e", "1,4,16")
    assert code == 0
    code, out, _ = cli("recommend", "c.json", "--at-least", "0.99999", "--on", "worst")
    assert code == 0  # no is an answer
    assert out.startswith("No: nothing here ")
    code, out, err = cli("recommend", "c.json", "--at-least", "0.5", "--on", "0", "--json", "-")
    assert "warning: a choice made for one record depends on that record" in err
    assert json.loads(out)["recommendation"]["on"] == 0


@pytest.mark.filterwarnings("always")
@pytest.mark.slow
def test_pickles_need_trust(cli):
    code, _, err = cli("utility", "model.pkl", *QUESTION[1:])
    assert code == 2
    assert "pass --trust if you made it yourself" in err
    code, _, err = cli("utility", "model.pkl", *QUESTION[1:], "--trust", "-m", "pm", "-e", "2")
    assert code == 0
    assert "warning: model.pkl is a pickle" in err


@pytest.mark.filterwarnings("always")
@pytest.mark.slow
def test_types_are_trusted_by_name(cli):
    metric = "sklearn.metrics._dist_metrics.MinkowskiDistance64"
    rows = np.random.default_rng(0).uniform(0, 1, (40, 2))
    io.dump(KNeighborsClassifier(p=3, algorithm="kd_tree").fit(rows, rows[:, 0] > 0.5), "near.skops")
    pl.DataFrame(rows[:3], schema=["age", "bmi"]).write_csv("near.csv")
    question = ("utility", "near.skops", "near.csv", "-s", "age", "--domain", "domain.toml", "-m", "krr", "-e", "2")
    code, _, err = cli(*question)
    assert code == 2
    assert f"pass --trust {metric} if you made it yourself" in err
    code, _, err = cli(*question, "--trust", metric)
    assert (code, "warning: near.skops" in err) == (0, False)
    code, _, err = cli(*question, "--trust")
    assert (code, "every type that it names (" in err, metric in err) == (0, True, True)


def test_mechanisms_lists_every_family(cli):
    from epsworth import MECHANISMS

    code, out, err = cli("mechanisms", "--json", "m.json", "-m", "all", "-m", "pm:indicator=0.1")
    assert (code, err) == (0, "")
    assert all(name in out for name in MECHANISMS)
    rows = json.loads(Path("m.json").read_text())["mechanisms"]
    assert [row["mechanism"] for row in rows] == [*MECHANISMS, "pm:indicator=0.1"]
    assert rows[-1]["tight_epsilon"] == [None] * 4


@pytest.mark.filterwarnings("always")
def test_domain_from_data_warns(cli):
    code, _, err = cli("utility", *QUESTION[:6], "--domain-from-data", "-m", "pm", "-e", "2", "--tolerance", "0.1")
    assert code == 0
    assert "warning: domain bounds taken from the data reveal its extreme values" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-m", "laplase"), "unknown mechanism 'laplase'"),
        (("-s", "weight"), "the table has no column 'weight'"),
        (("-e", "0"), "epsilon must be positive and finite, got 0"),
        (("--epsilon=-1",), "epsilon must be positive and finite, got -1"),
        (("-e", "1600"), "epsilon must lie between 1e-09 and 700"),
        (("-e", "8:1:1"), "need 0 < first <= last"),
        (("-e", "1:8"), "first:last:step"),
        (("-e", "nan:2:1"), "need 0 < first <= last"),
        (("-e", "1:2:inf"), "need 0 < first <= last"),
        (("-m", "pm:indicator=abc"), "indicator must be a probability, got 'abc'"),
        (("-m", "krr:k=3,k=5"), "gives an option twice"),
        (("--seed", "-1"), "a seed must not be negative"),
        (("--record", "999", "--json", "o.json"), "there is no record 999"),
        (("--json", "x" * 300), "File name too long"),
        (("--json", "/dev/stdout"), "it is a device"),
        (("-e", "1:8:1e-9"), "take a larger step"),
        (("--json", "none/u.json"), "the folder none does not exist"),
        (("--json", "."), "it is a folder"),
        (("--plot", "none/u.png"), "the folder none does not exist"),
        (("--plot", "u.txt"), "a plot ends in .png, .svg, .pdf"),
        (("--domain", "none.toml"), "cannot read the domain file none.toml"),
        (("--domain-from-data",), "exclude each other"),
        (("--target", "ill"), "--target: the table has no column 'ill'"),
        (("--confidence", "1"), "confidence must lie strictly between 0 and 1"),
        (("--tolerance", "0"), "tolerance must lie strictly between 0 and 0.5"),
        (("--over", "all"), "over must be 'auto', 'records' or 'dataset'"),
    ],
)
@pytest.mark.cases(1)
def test_bad_input_ends_in_one_sentence_and_status_2(cli, place, words, message):
    before = sorted(os.listdir(place))
    code, out, err = cli("utility", *changed(QUESTION, words))
    assert code == 2
    assert out == ""
    assert message in err
    assert err.startswith("epsworth: ")
    assert err.count("\n") == 1
    assert sorted(os.listdir(place)) == before


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("empty.csv", "has no rows; give a header and at least one row"),
        ("gap.csv", "of 20 rows lack age (first: data row "),
        ("old.csv", "the value lies outside, as in 2 more of 20 rows; the declared range is 0 to 100"),
        ("none.csv", "there is no such file"),
    ],
)
@pytest.mark.cases(1)
def test_bad_tables_end_in_one_sentence_and_status_2(cli, table, message):
    code, _, err = cli("utility", "model.skops", table, *QUESTION[2:])
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_model_that_fails_on_one_row(cli, place):
    table = pl.read_csv(place / "table.csv").with_columns(
        bmi=pl.when(pl.col("bmi") > 40).then(None).otherwise(pl.col("bmi"))
    )
    row = table["bmi"].is_null().arg_max()
    table.write_csv(place / "bmi.csv")
    code, _, err = cli("utility", "model.skops", "bmi.csv", "--target", "sick", "-s", "age", "--domain", "domain.toml")
    assert code == 2
    assert f"the classifier failed on record {row}: ValueError" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("recommend", "model.skops"), "needs a table"),
        (("recommend", "model.skops", "table.csv"), "--sensitive is missing"),
        (("recommend", "none.json"), "cannot read the curves file none.json"),
        (("recommend", *QUESTION, "--at-least", "2"), "--at-least must lie in (0, 1]"),
        (
            ("recommend", *QUESTION, "--on", "median", "-m", "pm", "-e", "2"),
            "--on must be average, worst or a record number",
        ),
        (("recommend", *QUESTION, "--on", "999"), "there is no record 999; the table holds records 0 to 19"),
        (("recommend", *QUESTION, "--of", "speed"), "--of must be stability or accuracy"),
        (("recommend", "model.skops", "table.csv", "-s", "age", "--of", "accuracy"), "name their column with --target"),
        (("recommend", *QUESTION, "--delta", "nan"), "--delta must lie in [0, 1)"),
        (("recommend", "c.json", "-m", "pm"), "--mechanism asks a new question, but saved curves were given"),
        (("recommend", "list.json"), "this is not an epsworth-curves-1 document"),
        (("mechanisms", "--at", "3"), "--at must lie in [0, 1]"),
        (("mechanisms", "--radius", "-1"), "--radius must lie in [0, 1]"),
        (("mechanisms", "--radius", "inf", "--json", "-"), "--radius must lie in [0, 1]"),
        (("demo", "--output", "none"), "the folder none does not exist"),
    ],
)
def test_bad_wishes_end_in_one_sentence_and_status_2(cli, words, message):
    code, _, err = cli(*words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_no_words_show_the_usage_and_status_2(cli):
    code, out, err = cli()
    assert code == 2
    assert "Usage: epsworth" in out + err


@pytest.mark.parametrize("command", ["", "demo", "utility", "recommend", "mechanisms"])
@pytest.mark.cases(1)
def test_help_and_version(cli, command):
    code, out, _ = cli(*command.split(), "--help")
    assert code == 0
    assert "Usage: epsworth" in out
    code, out, _ = cli("--version")
    assert code == 0
    assert re.fullmatch(r"epsworth \d+\.\d+\.\d+\n", out)


def test_ranges_hit_their_end():
    assert epsilon_grid("0.1:0.8:0.1") == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    assert epsilon_grid("1:8:0.5")[-1] == 8.0
    assert epsilon_grid("3") == [3.0]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_is_a_stop_whatever_a_library_makes_of_it(stop):
    """NumPy has raised a RuntimeError where Ctrl-C found it at work."""
    work = f"""
import os, sys, time
import epsworth.cli as shell
def command(words, **given):
    try:
        os.kill(os.getpid(), {int(stop)})
        time.sleep(30)
    except KeyboardInterrupt as interrupted:
        raise RuntimeError("inside a library") from interrupted
shell.app = command
shell.main()
"""
    done = subprocess.run([sys.executable, "-c", work], capture_output=True, text=True, timeout=25, check=False)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "epsworth: interrupted; no output was left half-written\n"


@pytest.mark.usefixtures("interruptible")
@pytest.mark.slow
def test_ctrl_c_leaves_nothing_behind(tmp_path):
    process = subprocess.Popen(
        [EPSWORTH, "demo", "--output", tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.readline()  # it has begun
    time.sleep(2)  # and is asking a classifier
    err = ""
    while process.returncode is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, err = process.communicate(timeout=5)  # Python drops what arrives in a finaliser; people press again
    assert process.returncode == 130, err
    assert err.endswith("epsworth: interrupted; no output was left half-written\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_are_refused_and_links_are_followed(cli, place):
    os.mkfifo(place / "pipe")
    code, _, err = cli("mechanisms", "--json", "pipe")
    assert code == 2
    assert "it is a device or a pipe" in err
    (place / "real.json").write_text("old")
    (place / "link.json").symlink_to(place / "real.json")
    code, _, _ = cli("mechanisms", "--json", "link.json")
    assert code == 0
    assert (place / "link.json").is_symlink()
    assert json.loads((place / "real.json").read_text())["radius"] == 0.1


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_ends_it_quietly():
    done = subprocess.run(f"{EPSWORTH} mechanisms | head -1", shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("share of outputs")


def test_narrow_terminals_get_fewer_columns_not_cut_numbers(cli, monkeypatch):
    from rich.console import Console

    monkeypatch.setattr("epsworth.cli.show.console", lambda width=0: Console(highlight=False, width=44))
    code, out, _ = cli("utility", *QUESTION, "-m", "pm,krr", "-e", "1:4:1")
    assert code == 0
    assert "…" not in out
    assert re.search(r"pm +0\.\d{3}", out)


def test_grid_points_on_the_edge_of_the_shown_box_count(cli):
    """0.7 + 0.1 is below 0.8 in floating point; the box is formed in decimals."""
    masses = []
    for at in ("0.5", "0.7"):
        _, out, _ = cli("mechanisms", "-m", "krr:k=11", "--at", at, "--json", "-")
        masses.append(json.loads(out)["mechanisms"][0]["mass"])
    assert masses[0] == masses[1]


@pytest.mark.slow
def test_engines_can_be_chosen_and_the_heuristic_is_labelled(cli):
    short = ("-m", "pm", "-e", "2")
    model, table, *options = QUESTION
    for method in ("lattice", "sampled"):
        code, out, _ = cli("utility", model, table, *options, *short, "--method", method, "-v")
        assert code == 0
        assert f"engine {method}" in out
    code, out, _ = cli("utility", model, table, *options, *short, "--quantise", "9", "-v")
    assert "engine grid" in out
    code, _, err = cli("utility", model, table, *options, *short, "--method", "cells")
    assert code == 2
    assert "not a supported tree model" in err


@pytest.mark.slow
def test_the_label_can_be_randomised_instead(cli):
    code, out, _ = cli("utility", *QUESTION, "-m", "pm,label_rr", "-e", "1,2")
    assert code == 0
    assert re.search(r"label_rr +0\.731 +0\.880", out)  # e/(e+1), e^2/(e^2+1), rounded down
    code, _, err = cli("mechanisms", "-m", "label_rr")
    assert code == 2
    assert "releases the label, not a feature" in err


def test_what_a_table_may_not_hold_is_refused_before_any_work(cli, place):
    """A header that names a column twice, and truth values in a column of numbers."""
    table = pl.read_csv(place / "table.csv")
    (place / "twice.csv").write_text("age,age,bmi\n50,60,20\n")
    table.with_columns(age=pl.lit(value=True)).write_csv(place / "true.csv")
    for name, words in (
        ("twice.csv", "names the column 'age' twice"),
        ("true.csv", "data row 0, line 2 of true.csv, age: the value is not a number"),
    ):
        code, out, err = cli("utility", "model.skops", name, "-s", "age", "--domain", "domain.toml", "-e", "1")
        assert (code, out) == (2, "")
        assert words in err


def test_a_tolerance_that_is_not_met_is_printed_and_written(cli, place):
    pl.read_csv(place / "table.csv")[:1].drop("sick").write_csv(place / "one.csv")
    code, out, _ = cli(
        "utility", "model.skops", "one.csv", "-s", "age,bmi", "--domain", "domain.toml", "-m", "laplace_clipped",
        "-e", "8", "--tolerance", "1e-15", "--json", "wide.json", "-v",
    )  # fmt: skip
    assert code == 0
    assert "the tolerance of 1E-15 is not met" in " ".join(out.split())
    assert any("is not met" in note for note in json.loads((place / "wide.json").read_text())["notes"])


@pytest.mark.parametrize("confidence", ["0", "1", "nan"])
def test_a_confidence_that_is_none_is_refused(cli, confidence):
    code, _, err = cli("learn", "plan", "-e", "2", "--users", "10000", "--confidence", confidence)
    assert (code, err.count("\n")) == (2, 1)
    assert "--confidence" in err


@pytest.mark.slow
def test_the_demo_keeps_what_its_page_shows(cli, tmp_path):
    code, out, _ = cli("demo", "--output", str(tmp_path))
    assert (code, out.count("\n") <= 45) == (0, True)
    kept, page = tmp_path / "epsworth-demo.json", (tmp_path / "epsworth-demo.html").read_text()
    assert hashlib.sha256(kept.read_bytes()).hexdigest() in page
    assert "The random forest of epsworth demo" in page
    assert "epsworth tailor MODEL TABLE -s … -e … --policy policy.toml" in page
    code, out, _ = cli("recommend", str(kept))
    assert (code, out.splitlines()[0]) == (0, "Yes: tailored at epsilon 3 keeps at least 95.2 % of the labels.")
    assert "Next: epsworth tailor MODEL TABLE -s 'mean radius,mean texture' -e 3 --policy" in out
    assert cli("report", str(kept), "-o", str(tmp_path / "page.html"))[0] == 0
    assert cli("run", str(kept))[0] == 0
