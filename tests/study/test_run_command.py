"""``epsworth run``, and ``recommend --study``, at the command line."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from worlds import changed, made

import epsworth as ew

EPSWORTH = Path(sys.executable).with_name("epsworth")
SMALL = changed(epsilons="[2, 4]", mechanisms='["pm"]')


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "questions").mkdir()
    made(tmp_path, SMALL)
    (tmp_path / "study.toml").rename(tmp_path / "questions" / "study.toml")
    text = SMALL.replace('"model.skops"', '"../model.skops"').replace('"people.csv"', '"../people.csv"')
    (tmp_path / "questions" / "study.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_study_is_run_and_everything_follows_from_its_result(cli, place):
    study = "questions/study.toml"
    outputs = ("-o", "r.json", "--report", "p.html", "--plot", "p.svg", "--policy", "policy.toml")
    code, out, err = cli("run", study, *outputs)
    assert (code, err) == (0, "")
    assert "Policy for clients: policy.toml" in out
    assert "Next: epsworth report r.json -o page.html" in out
    found = ew.StudyResult.load("r.json")
    assert ew.Policy.load("policy.toml").to_toml() == found.policy
    assert "<svg" in Path("p.svg").read_text()
    assert "epsworth run study.toml -o r.json" in Path("p.html").read_text()
    for file in ("model.skops", "people.csv"):
        (place / file).unlink()
    code, out, _ = cli("report", "r.json", "-o", "again.html")
    assert code == 0
    code, out, _ = cli("recommend", "r.json", "--at-least", "0.6", "--policy", "other.toml")
    assert code == 0
    assert ew.Policy.load("other.toml").rules[0].feature == found.domain["age"]  # declared by the study
    code, out, _ = cli("run", "r.json", "-q")
    assert (code, tuple(out.splitlines())) == (0, found.recommendation.verdict)
    code, out, _ = cli("run", study, "--check", "r.json")
    assert code == 1
    assert out.count("there is no such file; check the path") == 2


def test_a_result_that_no_command_would_read_is_refused_before_the_work(cli, place, monkeypatch):
    monkeypatch.setattr("epsworth.files.RESULT_BYTES", 1 << 10)
    monkeypatch.setattr("epsworth.utility.run.Run.curves", None)  # the work
    about = ("model.skops", "people.csv", "-s", "age", "--domain", "ranges.toml")
    for words in (
        ("utility", *about, "--json", "r.json"),
        ("recommend", *about, "--json", "r.json"),
        ("run", "questions/study.toml", "-o", "r.json"),
    ):
        code, out, err = cli(*words)
        assert (code, out) == (2, "")
        assert "MB, too much for one result; ask about fewer records at a time" in err
        assert not Path("r.json").exists()


def test_the_result_goes_to_standard_output_alone(cli, place):
    code, out, err = cli("run", "questions/study.toml", "-o", "-")
    assert (code, err) == (0, "")
    assert ew.StudyResult.from_dict(json.loads(out)).recommendation.feasible


@pytest.mark.slow
def test_nothing_is_asked_to_see_what_changed(cli, place):
    study = Path("questions/study.toml")
    cli("run", str(study), "-o", "r.json")
    code, out, err = cli("run", str(study), "--check", "r.json")
    assert (code, out, err) == (0, "r.json answers this very question, about these very files.\n", "")
    study.write_text(study.read_text().replace("at_least = 0.7", "at_least = 0.8"))
    assert cli("run", str(study), "--check", "r.json")[:2] == (1, "at_least was 0.7 and is 0.8\n")
    Path("r.json").write_text("{}")
    code, out, err = cli("run", str(study), "--check", "r.json")
    assert (code, out) == (2, "")
    assert "this is not an epsworth-study-1 document" in err


@pytest.mark.parametrize(
    "more",
    [
        ("-o", "x.json"), ("--report", "x.html"), ("--plot", "x.svg"), ("--policy", "x.toml"), ("--resume", "x.run"),
        ("--cache", "x.cache"), ("--within-seconds", "3"), ("--send",), ("--trust",),
    ],
)  # fmt: skip
@pytest.mark.cases(1)
def test_what_a_check_would_ignore_is_refused(cli, place, more):
    Path("r.json").write_text("{}")
    code, out, err = cli("run", "questions/study.toml", "--check", "r.json", *more)
    assert (code, out) == (2, "")
    assert f"--check asks nothing and writes nothing, so that {more[0]} is idle; drop one of them" in err
    assert not list(Path().glob("x.*"))


@pytest.mark.parametrize("option", ["-o", "--report", "--plot", "--policy", "--resume", "--cache"])
@pytest.mark.parametrize("file", ["model.skops", "people.csv", "ranges.toml", "questions/study.toml"])
@pytest.mark.cases(1)
def test_no_output_replaces_what_the_study_names(cli, place, option, file):
    text = Path("questions/study.toml").read_text().partition("\n\n[")[0] + '\ndomain = "../ranges.toml"\n'
    Path("questions/study.toml").write_text(text)
    before = Path(file).read_bytes()
    code, out, err = cli("run", "questions/study.toml", option, file)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert Path(file).read_bytes() == before
    assert "itself; give another path" in err or " end" in err  # in another way: a plot, page or policy has its own


@pytest.mark.slow
def test_recommend_writes_the_question_that_it_answers(cli, place):
    words = ("-s", "age,bmi", "--domain", "ranges.toml", "-m", "pm", "-e", "4:8:2", "--tolerance", "0.1", "--seed", "1",
             "--method", "sampled", "--at-least", "0.7", "--on", "worst", "--target", "ill",
             "--within-seconds", "inf", "--max-epsilon", "16")  # fmt: skip
    code, _, err = cli(
        "recommend", "model.skops", "people.csv", *words, "--json", "c.json", "--study", "questions/q.toml"
    )
    assert (code, err) == (0, "")
    study = ew.Study.load("questions/q.toml")
    assert (study.model, study.epsilons, study.on) == (os.path.join("..", "model.skops"), "4:8:2", "worst")
    cli("run", "questions/q.toml", "-o", "r.json")
    asked, found = json.loads(Path("c.json").read_text()), json.loads(Path("r.json").read_text())
    asked["curves"].pop("seconds")
    found["curves"].pop("seconds")
    assert found["curves"] == asked["curves"]
    assert found["recommendation"] == asked["recommendation"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("model.skops", "-", "-s", "age", "--study", "q.toml"), "standard input has no name; give a file"),
        (("model.skops", "people.csv", "-s", "age", "--domain-from-data", "--study", "q.toml"), "declare --domain"),
        (("model.skops", "people.csv", "-s", "age", "--study", "q.txt"), "let its name end in .toml"),
        (("c.json", "--study", "q.toml"), "a model and a table; give both, or leave it out"),
        (("model.skops", "people.csv", "-s", "age", "--study", "people.csv"), "itself; give another path"),
    ],
)
@pytest.mark.cases(1)
def test_questions_that_cannot_be_asked_again_are_not_written(cli, place, words, told):
    code, out, err = cli("recommend", *words)
    assert (code, out) == (2, "")
    assert told in err
    assert not Path("q.toml").exists()


def test_a_model_that_is_a_program_needs_the_users_word(cli, place):
    from sklearn.linear_model import LogisticRegression

    table = pl.read_csv("people.csv")
    model = LogisticRegression(max_iter=1000).fit(table.select("age", "bmi").to_numpy(), table["ill"].to_numpy())
    Path("model.pkl").write_bytes(pickle.dumps(model))
    table.drop("ill").write_csv("people.csv")
    study = Path("questions/study.toml")
    study.write_text(study.read_text().replace("model.skops", "model.pkl"))
    code, out, err = cli("run", str(study))
    assert (code, out) == (2, "")
    assert "pass --trust if you made it yourself" in err
    with pytest.warns(UserWarning, match="is a pickle"):
        assert ew.Study.load(study).run(trust=True).recommendation.feasible


class Slow(ClassifierMixin, BaseEstimator):
    """A model that takes its time, 20 microseconds a row, and leaves a mark when it is well under way."""

    calls = 0

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), 2
        return self

    def predict(self, X):
        time.sleep(2e-5 * len(X))
        Slow.calls += 1
        if Slow.calls == 60:
            Path("asked").touch()
        return (np.asarray(X).sum(axis=1) > 1).astype(int)


@pytest.fixture
def slow(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).random((20, 2))
    pl.DataFrame(rows, schema=["a", "b"]).write_csv(tmp_path / "table.csv")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Slow().fit(rows, rows[:, 0] > 0.5)))
    (tmp_path / "study.toml").write_text(
        'model = "model.pkl"\ntable = "table.csv"\nsensitive = ["a", "b"]\nmechanisms = ["pm"]\nepsilons = "1:3:1"\n'
        "seed = 1\nat_least = 0.3\ntolerance = 0.005\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    return tmp_path


@pytest.mark.slow
def test_ctrl_c_ends_a_study_with_what_is_proven(slow, interruptible):
    words = ("run", "study.toml", "--trust", "-o", "r.json", "--report", "p.html", "--resume", "kept.npz")
    process = subprocess.Popen(
        [EPSWORTH, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not Path("asked").exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 130, err
    assert "interrupted; what is told holds" in err
    found = ew.StudyResult.load("r.json")
    assert found.curves.stopped
    assert {path.name for path in slow.iterdir()} >= {"r.json", "p.html", "kept.npz"}
    assert not [path for path in slow.iterdir() if path.name.startswith(".")]


@pytest.mark.filterwarnings("ignore:.*is a pickle")
@pytest.mark.slow
def test_a_deadline_ends_a_study_and_a_file_lets_it_go_on(cli, slow):
    words = ("run", "study.toml", "--trust", "--within-seconds", "1", "--resume", "kept.npz", "-o", "r.json")
    assert cli(*words)[0] == 0
    first = ew.StudyResult.load("r.json").curves
    assert cli(*words)[0] == 0
    later = ew.StudyResult.load("r.json").curves
    assert first.stopped
    assert later.queries > first.queries
    assert cli("run", "study.toml", "--trust", "--within-seconds", "0")[0] == 2
