"""The command line under Ctrl-C, with a deadline, and going on from a file."""

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

EPSWORTH = Path(sys.executable).with_name("epsworth")
QUESTION = ("model.pkl", "table.csv", "--trust", "-s", "a,b", "-m", "pm", "-e", "1:3:1", "--seed", "1")


class Slow(ClassifierMixin, BaseEstimator):
    """A model that takes its time, 20 microseconds a row, and leaves a mark when it is well under way."""

    calls = 0

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), 2
        return self

    def predict(self, X):
        time.sleep(2e-5 * len(X))
        Slow.calls += 1
        if Slow.calls == int(os.environ.get("UNDER_WAY", "60")):
            Path("asked").touch()
        return (np.asarray(X).sum(axis=1) > 1).astype(int)


@pytest.fixture
def place(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).random((20, 2))
    pl.DataFrame(rows, schema=["a", "b"]).write_csv(tmp_path / "table.csv")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Slow().fit(rows, rows[:, 0] > 0.5)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    return tmp_path


def started(*words):
    """Return a run that is well under way."""
    process = subprocess.Popen(
        [EPSWORTH, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not Path("asked").exists() and process.poll() is None:
        time.sleep(0.05)
    return process


@pytest.mark.filterwarnings("ignore:.*is a pickle")
@pytest.mark.slow
def test_a_deadline_ends_a_run_with_what_is_proven_and_a_file_lets_it_go_on(cli, place):
    words = (*QUESTION, "--tolerance", "0.02", "--resume", "run.npz", "--json", "-")
    code, out, err = cli("utility", *words, "--within-seconds", "1")
    assert code == 0
    early = json.loads(out)
    assert early["stopped"]
    assert "by its deadline" in early["notes"][-1]
    assert (place / "run.npz").exists()
    code, out, err = cli("utility", *words, "--within-seconds", "1")
    later = json.loads(out)
    assert later["queries"] > early["queries"]
    assert (np.array(later["stability"]["lower"]) >= np.array(early["stability"]["lower"])).all()
    code, out, err = cli("utility", *words, "--confidence", "0.9")
    assert (code, out) == (2, "")
    assert "belongs to another question: not the same confidence (0.999, not 0.9)" in err
    code, out, err = cli("recommend", *QUESTION, "--within-seconds", "0.5", "-v")
    assert code == 0
    assert "the run was stopped by its deadline" in " ".join(out.split())


@pytest.mark.parametrize("words", [("--within-seconds", "0"), ("--within-seconds", "nan"), ("--within-seconds=-1",)])
@pytest.mark.cases(1)
def test_deadlines_that_are_none_are_refused(cli, place, words):
    code, out, err = cli("utility", *QUESTION, *words)
    assert (code, out) == (2, "")
    assert "--within-seconds must be positive and finite" in err


@pytest.mark.slow
def test_the_file_of_a_run_is_no_other_file(cli, place):
    code, _, err = cli("utility", *QUESTION, "--resume", "table.csv")
    assert code == 2
    assert "the --resume is the table itself" in err
    code, _, err = cli("utility", *QUESTION, "--resume", "no/run.npz")
    assert code == 2
    assert "does not exist" in err


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_tells_what_is_proven(place, stop):
    kept = ("--json", "curves.json", "--resume", "run.npz")
    process = started("utility", *QUESTION, "--tolerance", "0.005", *kept)
    process.send_signal(stop)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "keeps at least" in out or "keeps most: at least" in out
    assert "pickle" in err.splitlines()[0]
    foretold, ending = err.splitlines()[1:3]  # the pace is told before the stop
    assert foretold.startswith("epsworth: this takes about ")
    assert ending.startswith("epsworth: ending with what is proven so far; Ctrl-C again ends at once")
    assert err.endswith("epsworth: interrupted; what is told holds, and could be narrower\n")
    curves = json.loads((place / "curves.json").read_text())
    assert curves["stopped"]
    assert "the run was stopped on request" in curves["notes"][-1]
    assert sorted(os.listdir(place)) == ["asked", "curves.json", "model.pkl", "run.npz", "table.csv"]


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_twice_ends_at_once_and_leaves_no_partial_output(place):
    process = started("utility", *QUESTION, "--tolerance", "0.005", "--json", "curves.json")
    process.send_signal(signal.SIGINT)
    time.sleep(0.02)  # two that come at once may be taken for one
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in err
    assert set(os.listdir(place)) <= {"asked", "curves.json", "model.pkl", "table.csv"}
    if (place / "curves.json").exists():  # the first one was answered before the second one came
        json.loads((place / "curves.json").read_text())
    else:
        assert out == ""


@pytest.mark.filterwarnings("ignore:.*is a pickle")
@pytest.mark.slow
def test_a_radius_ends_by_its_deadline_or_is_refused(cli, place):
    asked = ("radius", "model.pkl", "table.csv", "--trust", "--seed", "1")
    code, out, err = cli(*asked, "--within-seconds", "0")
    assert (code, out) == (2, "")
    assert "--within-seconds must be positive and finite" in err
    code, out, err = cli(*asked, "--within-seconds", "0.3", "--json", "-")
    assert code == 0
    found = json.loads(out)
    assert found["stopped"]
    assert "by its deadline" in found["notes"][0]
    assert found["witness"] is not None
    code, out, err = cli(*asked, "--within-seconds", "0.3")
    assert "more time can bring the bounds closer" in " ".join(out.split())


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_tells_what_is_known_of_a_radius(place, monkeypatch):
    monkeypatch.setenv("UNDER_WAY", "30")
    process = started("radius", "model.pkl", "table.csv", "--trust", "--seed", "1", "--json", "radius.json")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.endswith("epsworth: interrupted; what is told holds, and could be narrower\n")
    found = json.loads((place / "radius.json").read_text())
    assert found["stopped"]
    assert found["notes"][0].startswith("the run ended on request")
