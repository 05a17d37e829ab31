"""Wrong command lines and wrong files: exit status 2, one sentence of our own, nothing printed and nothing written."""

from __future__ import annotations

import re

import numpy as np
import pytest
from skops.io import dump

import epsworth as ew
from hospital import domain_text, hospital, logistic

ROWS = 40
DOMAIN = {"age": {"lower": 0, "upper": 120, "integer": True, "missing": 50}, "job": ["clerk", "nurse"]}
RAW = re.compile(
    r"Traceback|Error\b|NoneType|object has no|keyword|\.py\b|unhashable|subscriptable|positional|Errno|codec"
    r"|invalid literal|could not convert|BadZip|Input should|unable to parse|Usage:|parameter of"
)
ASKED = ("model.skops", "test.csv", "-s", "age,bmi", "--domain", "ranges.toml")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a model, tables, ranges, a policy and curves."""
    folder = tmp_path_factory.mktemp("wrong")
    data = hospital(rows=300, gaps=False)
    model = logistic(data)
    dump(model, folder / "model.skops")
    table = data.test[:ROWS]
    table.to_csv(folder / "test.csv", index=False)
    table.assign(age=table["age"].mask(np.arange(ROWS) % 9 == 3)).to_csv(folder / "gaps.csv", index=False)
    table[["age", "bmi"]].assign(label=data.y_test[:ROWS]).to_csv(folder / "labelled.csv", index=False)
    (folder / "ok.csv").write_text("age,job,zone\n30,clerk,a\n40,nurse,b\n")
    (folder / "ranges.toml").write_text(domain_text())
    ew.Policy.of("pm", 2, DOMAIN, passing=["zone"]).save(folder / "policy.toml")
    (folder / "folder").mkdir()
    return folder


@pytest.fixture
def refused(cli, place, monkeypatch):
    """Run a command that must be refused; return its sentence."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("EPSWORTH_STATE", str(place / "state"))

    def run(*words):
        before = _contents(place)
        code, out, err = cli(*words)
        assert (code, out) == (2, ""), (code, out, err)
        assert err.startswith("epsworth: ")
        assert (err.count("\n"), err[-1]) == (1, "\n"), err
        assert not RAW.search(err), err
        assert _contents(place) == before
        return err

    return run


def _contents(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


PARSED = [
    ("bogus", "there is no command 'bogus' of epsworth; epsworth --help lists them"),
    ("recomend model.skops test.csv", "there is no command 'recomend' of epsworth; did you mean recommend?"),
    ("policy bogus", "there is no command 'bogus' of epsworth policy"),
    ("recommend", "SOURCE is missing, and epsworth recommend needs it"),
    ("predict model.skops", "TABLE is missing, and epsworth predict needs it"),
    ("report u.json", "--output is missing, and epsworth report needs it"),
    ("tailor * -m pm", "there is no option '-m' of epsworth tailor"),
    ("tailor *", "--epsilon is missing, and epsworth tailor needs it"),
    ("utility * --tolerence 1", "there is no option '--tolerence' of epsworth utility; did you mean --tolerance?"),
    ("recommend * --at-least 90%", "--at-least must be a number, as in 0.9, got '90%'"),
    ("recommend * --max-epsilon x", "--max-epsilon must be a number, as in 0.9, got 'x'"),
    ("recommend * --jobs 1.5", "--jobs must be a whole number, got '1.5'"),
    ("recommend * --seed x", "--seed must be a whole number, got 'x'"),
    ("gateway policy.toml --upstream http://a --port 99999", "must be a whole number from 0 to 65535, got '99999'"),
    ("recommend * --seed", "--seed lacks a value"),
    ("recommend * --recheck=3", "--recheck takes no value"),
    ("mechanisms x", "epsworth mechanisms takes no argument, and then there is 'x'"),
    ("recommend * --trust x", "epsworth recommend takes SOURCE and TABLE, and then there is 'x'"),
    ("recommend * -e 1 -e 2", "--epsilon is given twice; give it once"),
    ("perturb policy.toml ok.csv o.csv --cap 1 --cap 2 --cap 3", "--cap is given 3 times; give it once"),
    ("ledger runs --ledger a --ledger b", "--ledger is given twice; give it once"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "says"), PARSED)
@pytest.mark.cases("all")
def test_a_command_line_that_the_parser_refuses(refused, line, says):
    assert says in refused(*_words(line))


def _words(line):
    return [word for part in line.split() for word in (ASKED if part == "*" else [part])]
