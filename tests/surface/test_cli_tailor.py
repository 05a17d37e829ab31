"""`epsworth tailor`: from a model and a public table to a policy that clients run, and its refusals."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from skops.io import dump

import epsworth as ew
from command_lines import changed

EPSWORTH = Path(sys.executable).with_name("epsworth")
BOX = ("-s", "age,bmi", "--domain", "ranges.toml")
ASKED = ("tailor", "model.skops", "table.csv", "--target", "sick", *BOX, "--epsilon", "2", "--seed", "1")
BESIDE = ("model.skops", "table.csv", "--target", "sick", *BOX, "-m", "pm,tailored", "-e", "1,2,3")
JOB = ("-s", "job", "--domain", "jobs.toml")
JOBS = ("tailor", "jobs.skops", "jobs.csv", "-s", "age,job", "--domain", "jobs.toml", "-e", "2", "--seed", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tailor")
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"age": rng.uniform(18, 90, 200), "bmi": rng.uniform(15, 45, 200)})
    sick = (table["age"] / 90 + table["bmi"] / 45 > 1.3).cast(int)
    dump(LogisticRegression(max_iter=1000).fit(table, sick), folder / "model.skops")
    dump(LogisticRegression(max_iter=1000).fit(table, table["bmi"] > 30), folder / "heavy.skops")
    table.with_columns(sick.alias("sick")).write_csv(folder / "table.csv")
    jobs = table.with_columns(job=pl.Series(rng.choice(["clerk", "nurse", "pilot"], 200)))
    encoded = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["job"]), remainder="passthrough")
    model = make_pipeline(encoded, RandomForestClassifier(5, max_depth=4, random_state=0))
    dump(model.fit(jobs.to_pandas(), (jobs["job"] == "nurse") | (jobs["age"] > 60)), folder / "jobs.skops")
    jobs.write_csv(folder / "jobs.csv")
    ew.Domain.of({"age": (0, 100), "bmi": (10, 60)}).save(folder / "ranges.toml")
    ew.Domain.of({"age": (0, 100), "job": ["clerk", "nurse", "pilot", "other"]}).save(folder / "jobs.toml")
    return folder


@pytest.fixture
def cli(cli, place, monkeypatch, tmp_path):
    """Run a command in a folder with what there is; check its exit status."""
    for path in place.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*words, code=0):
        status, out, err = cli(*words)
        assert status == code, err
        return SimpleNamespace(out=out, err=err, text=" ".join(out.split()))

    return run


@pytest.mark.slow
def test_a_policy_is_written_that_clients_run_and_anybody_audits(cli, tmp_path):
    told = cli(*ASKED, "--public", "--policy", "p.toml")
    assert told.err == ""
    policy = ew.Policy.load("p.toml")
    assert policy.total == 2
    verdict, attacker, best, copy, whom = told.out.splitlines()[:5]
    assert verdict == "Tailored at epsilon 2 for age, bmi: keeps 88 % of the labels."
    assert attacker == "  attacker             50 % -> at most 88.1 %"
    assert best == "  ceiling              no mechanism keeps every input above 88.1 %"
    assert copy.startswith("  copy of the model    exact, ")
    assert whom.startswith("On 50 held-out records; people like them: ")
    assert len(told.out.splitlines()) <= 9
    assert [line for line in told.out.splitlines() if line.startswith("Next: ")] == [
        "Next: epsworth policy pass p.toml --drop sick   "
        "(perturb leaves them out then; without --drop it sends them as they are)"
    ]
    assert cli(*ASKED, "--public", "--quiet").out.splitlines() == [verdict, attacker, best, copy]
    assert "holds the classifier itself" in cli(*ASKED, "--public", "-v").text
    assert max(map(len, told.out.splitlines())) <= 120
    shares = [share for _, share in policy.outcomes({"age": None, "bmi": "?"})]
    assert sum(shares) == 1
    assert max(shares) / min(shares) <= Fraction(np.exp(2))

    told = cli("policy", "pass", "p.toml", "--drop", "sick")
    assert "Next: epsworth perturb p.toml people.csv released.csv" in told.out
    cli("perturb", "p.toml", "table.csv", "released.csv")
    released = pl.read_csv("released.csv")
    assert released.columns == ["age", "bmi"]
    assert released.select("age", "bmi").n_unique() <= 2  # one record stands for each label
    model, table = ew.load_model("model.skops"), pl.read_csv("table.csv")
    own, sent = (model.predict(one.select("age", "bmi")) for one in (table, released))
    assert 0.75 < np.mean(own == sent) < 0.97  # 0.88, and 4.7 of its deviations
    assert "passed" in cli("audit", "p.toml").out


@pytest.mark.slow
def test_the_json_holds_what_the_library_says(cli, place):
    told = json.loads(cli(*ASKED, "--public", "--json", "-").out)
    table = pl.read_csv("table.csv").drop("sick")
    made = ew.tailor(
        ew.load_model("model.skops"), table, sensitive=["age", "bmi"], epsilon=2, rng=1, public=True,
        domain={"age": (0, 100), "bmi": (10, 60)},
    )  # fmt: skip
    assert told == {"tailored": made.to_dict(), "policy": made.policy.to_toml()}
    assert (told["tailored"]["epsilon_per_record"], told["tailored"]["sensitive"]) == (2, ["age", "bmi"])
    assert told["tailored"]["held_out"]["lower"] < told["tailored"]["kept"] < told["tailored"]["held_out"]["upper"]
    assert (len(made.rows), len(set(made.rows.tolist()))) == (50, 50)


@pytest.mark.slow
def test_a_plot_shows_held_out_records_at_other_epsilons(cli):
    told = cli(*ASKED, "--public", "--plot", "p.png", "--json", "t.json")
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")
    curves = json.loads(Path("t.json").read_text())["curves"]
    assert curves["epsilons_per_record"] == [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4]
    assert np.shape(curves["stability"]["lower"]) == (1, 8, 50)
    assert curves["stability"]["average"]["lower"][0][3] == pytest.approx(0.8808, abs=1e-3)
    assert "tailored 0.622 0.731 0.817 0.880" in told.text
    assert "--policy policy.toml (write what clients must run)" in told.text


@pytest.mark.filterwarnings("always")
@pytest.mark.slow
def test_what_the_epsilon_does_not_cover_is_said_once_unless_it_is_declared(cli):
    told = cli(*ASKED)
    assert told.err.count("\n") == 1
    assert told.err.startswith("epsworth: warning: the policy tells about the model and about the table")
    assert told.err.endswith("say --public\n")


@pytest.mark.slow
def test_substitutes_reach_the_policy(cli):
    cli(*JOBS, "--public", "--missing", "age=40", "--missing", "other", "--outside", "job=pilot", "--policy", "p.toml")
    grids = {grid.name: grid for grid in ew.Policy.load("p.toml").tailoring.grids}
    assert (grids["age"].missing, grids["job"].missing, grids["job"].outside) == (40, "other", "pilot")
    cli(*JOBS, "--public", "--outside", "other", "--policy", "q.toml")
    assert ew.Policy.load("q.toml").tailoring.grids[list(grids).index("job")].outside == "other"


@pytest.mark.slow
def test_one_release_serves_several_models(cli):
    told = json.loads(
        cli(*ASKED, "--public", "--also", "heavy.skops", "--weights", "0.5", "--policy", "p.toml", "--json", "-").out
    )
    assert told["tailored"]["copied"] == "exact + exact"
    labels = ew.Policy.load("p.toml").tailoring.labels
    assert len(labels) == 4


@pytest.mark.parametrize(
    ("words", "shows"),
    [
        (("--wish", "average", "-v"), "the public columns decide"),
        (("--wish", "accuracy"), " % of the labels."),
        (("--cells", "8", "--fidelity", "0.1"), " % of the labels."),
        (("--draw",), " % of the labels."),
        (("--surrogate", "tree:32"), "a tree of"),
        (("--holdout", "0"), "No record was held out"),
        (("--confidence", "0.9"), "(90 % sure)"),
    ],
)
@pytest.mark.cases(1)
def test_every_wish_makes_a_policy(cli, words, shows):
    told = cli(*ASKED, "--public", *words, "--policy", "p.toml")
    assert shows in told.text
    assert ew.Policy.load("p.toml").total == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--epsilon", "0"), "--epsilon must lie between 1e-09 and 700 (per record), got 0"),
        (("--epsilon=-1",), "--epsilon must lie between"),
        (("--epsilon", "nan"), "--epsilon"),
        (("--epsilon", "inf"), "--epsilon"),
        (("--epsilon", "1e400"), "--epsilon"),
        (("--epsilon", "1e-30"), "--epsilon must lie between"),
        (("--epsilon", "1:8:1"), "--epsilon"),
        (("-s", "weight"), "--sensitive: the table has no column 'weight'"),
        (("--target", "ill"), "--target: the table has no column 'ill'"),
        (("--domain", "none.toml"), "cannot read the domain file none.toml"),
        (("--domain", "jobs.toml"), "does not declare 'bmi'"),
        (("--wish", "best"), "wish must be one of"),
        (("--cells", "0"), "cells must be a whole number from 1 to 256"),
        (("--fidelity", "1"), "fidelity needs cells"),
        (("--surrogate", "forest"), "surrogate must be one of"),
        (("--holdout", "1"), "holdout must lie in [0, 1)"),
        (("--holdout", "0", "--plot", "p.png"), "--holdout 0 holds out none"),
        (("--confidence", "1"), "confidence must lie strictly between 0 and 1"),
        (("--seed", "-1"), "a seed must not be negative"),
        (("--missing", "age=500"), "--missing age=500: age is a number from 0 to 100"),
        (("--missing", "age=old"), "--missing age=old: age is a number from 0 to 100"),
        (("--missing", "weight=3"), "--missing weight=3: weight is not perturbed; NAME is one of age, bmi"),
        (("--missing", "age=3", "--missing", "age=4"), "age has a value already"),
        (("--missing", "30", "--missing", "40"), "30 and 40 name no feature"),
        (("--outside", "age=3"), "numbers outside the range of age count as its ends"),
        (("--outside", "other"), "--outside other: there is no feature for it"),
        (("--weights", "2"), "--weights must name one number for each --also (0)"),
        (("--also", "heavy.skops", "--weights", "two"), "--weights must be numbers separated by commas"),
        (("--also", "heavy.skops", "--weights", "0"), "weights must be positive and finite"),
        (("--also", "none.skops"), "none.skops"),
        (("--also", "heavy.skops", "--cells", "8"), "choose one"),
        (("--cache", "c"), "--cache is for a service, and model.skops is a file"),
        (("--policy", "p.json"), "a policy is a TOML file"),
        (("--policy", "none/p.toml"), "the folder none does not exist"),
        (("--policy", "ranges.toml"), "itself; give another path"),
        (("--json", "table.csv"), "itself; give another path"),
        (("--also", "heavy.skops", "--json", "heavy.skops"), "itself; give another path"),
        (("--policy", "n.toml", "--json", "n.toml"), "itself; give another path"),
        (("--plot", "p.txt"), "a plot ends in .png, .svg, .pdf"),
    ],
)
@pytest.mark.cases(1)
def test_bad_wishes_end_in_one_sentence_and_write_nothing(cli, tmp_path, words, message):
    (tmp_path / "n.toml").write_text("mine")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    written = () if {"--json", "--policy"} & set(words) else ("--policy", "o.toml", "--json", "o.json")
    told = cli(*changed(ASKED, [*written, *words]), code=2)
    assert message in told.err
    assert told.err.startswith("epsworth: ")
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_without_further_words_the_whole_record_is_kept_within_the_public_ranges(cli):
    """The shortest command: columns are those of the model, ranges and categories those of the public table."""
    told = cli("tailor", "jobs.skops", "jobs.csv", "--epsilon", "2", "--policy", "p.toml", "--public")
    assert "Ranges and categories are those in the table" in told.out
    tailoring, table = ew.Policy.load("p.toml").tailoring, pl.read_csv("jobs.csv")
    assert tailoring.names == ("age", "bmi", "job")
    ranges = {grid.name: grid.feature for grid in tailoring.grids}
    assert ranges["job"].categories == ("clerk", "nurse", "pilot")
    assert table["age"].min() <= ranges["age"].lower < ranges["age"].upper <= table["age"].max()
    cli("tailor", "model.skops", "table.csv", "--epsilon", "2", "--policy", "q.toml", "--public")
    assert ew.Policy.load("q.toml").names == ("age", "bmi")  # the table holds labels, too


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("jobs.skops", "jobs.csv", *JOB, "--outside", "cook"), "job has the categories clerk"),
        (("model.skops", "none.csv", *BOX), "there is no such file"),
        (("none.skops", "table.csv", *BOX), "none.skops"),
        (("model.skops", "table.csv", *BOX, "--wish", "accuracy"), "name their column with --target"),
    ],
)  # fmt: skip
@pytest.mark.cases(1)
def test_bad_tables_end_in_one_sentence(cli, words, message):
    told = cli("tailor", *words, "-e", "2", code=2)
    assert message in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)


@pytest.mark.filterwarnings("always")
@pytest.mark.slow
def test_recommend_writes_the_tailored_policy_that_it_chose(cli):
    told = cli(
        "recommend", *BESIDE, "--at-least", "0.9", "--on", "worst", "--policy", "p.toml", "--recheck", "--seed", "1"
    )
    assert told.text.startswith("Yes: tailored at epsilon 3 keeps the label of the worst record")
    assert "Policy for clients: p.toml; all other columns are refused. Tailored at epsilon 3" in told.text
    assert "What clients release under it: at least 0.95" in told.text
    assert "Next: epsworth policy pass p.toml --drop sick" in told.out
    assert told.err.count("public") >= 1
    policy = ew.Policy.load("p.toml")
    assert (policy.total, policy.tailoring.names) == (3, ("age", "bmi"))
    assert "passed" in cli("audit", "p.toml").out

    told = cli("utility", "model.skops", "table.csv", "--target", "sick", "--policy", "p.toml", "--json", "-")
    curves = json.loads(told.out)
    assert curves["epsilons_per_record"] == [3]
    assert curves["stability"]["worst"]["lower"][0][0] == pytest.approx(0.952, abs=2e-3)


@pytest.mark.filterwarnings("always")
@pytest.mark.slow
def test_saved_curves_make_no_tailored_policy_and_say_what_does(cli):
    cli("utility", *BESIDE, "--json", "c.json")
    told = cli("recommend", "c.json", "--at-least", "0.9", "--on", "worst", "--policy", "p.toml", code=2)
    assert "a tailored policy of age, bmi at epsilon 3 is made with its classifier: ew.tailor, or epsw" in told.err
    assert not Path("p.toml").exists()


def test_the_list_of_mechanisms_says_what_tailored_is(cli):
    assert "tailored: randomises in which region of one model a whole record lies" in cli("mechanisms").text
    assert "epsworth tailor" in cli("mechanisms", "-m", "tailored", code=2).err


def test_epsilon_is_needed_and_help_shows_what_to_type(cli):
    assert "--epsilon" in cli(*ASKED[:-4], code=2).err
    told = " ".join(cli("tailor", "--help").out.split())
    assert "epsworth tailor model.skops public.csv -s age,bmi --domain ranges.toml --epsilon 2" in told
    assert "Make a policy for one model" in cli("--help").out


@pytest.mark.usefixtures("interruptible")
@pytest.mark.slow
def test_ctrl_c_leaves_nothing_behind(tmp_path):
    """A model that takes long, so that Ctrl-C finds it at work."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame(rng.uniform(0, 1, (3000, 6)), schema=[f"v{i}" for i in range(6)])
    slow = RandomForestClassifier(300, random_state=0).fit(table.to_pandas(), rng.integers(0, 4, 3000))
    dump(slow, tmp_path / "slow.skops")
    table.write_csv(tmp_path / "table.csv")
    before = sorted(os.listdir(tmp_path))
    words = ("tailor", "slow.skops", "table.csv", "-s", "v0,v1", "-e", "2", "--policy", "p.toml", "--json", "t.json")
    process = subprocess.Popen([EPSWORTH, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    time.sleep(4)
    assert process.poll() is None  # it is at work
    err = ""
    while process.returncode is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, err = process.communicate(timeout=5)  # Python drops what arrives in a finaliser; people press again
    assert process.returncode == 130, err
    assert err.endswith("epsworth: interrupted; no output was left half-written\n")
    assert sorted(os.listdir(tmp_path)) == before
