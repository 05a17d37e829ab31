"""No command writes over a file that it reads, nor one of its outputs over another."""

from __future__ import annotations

import inspect
import os
from itertools import combinations
from pathlib import Path

import pytest

from epsworth.cli import app

TABLE = "age,y\n1,0\n2,1\n3,0\n4,1\n"
RELEASE = ("privatize", "mean", "t.csv", "--mi", "1", "--worlds", "16")
MODEL = ("utility", "m.skops", "t.csv", "-s", "age")
WISH = ("recommend", "m.skops", "t.csv", "-s", "age")
CASES = [
    (*RELEASE, "--json", "t.csv"),
    (*RELEASE, "--json", "link.csv"),
    (*RELEASE, "--json", "hard.csv"),
    (*RELEASE, "--json", "./sub/../t.csv"),
    (*RELEASE, "--domain", "r.toml", "--json", "r.toml"),
    (*RELEASE, "--checkpoint", "new.npz", "--json", "new.npz"),
    (*RELEASE, "--checkpoint", "t.csv"),
    (*RELEASE, "--domain", "r.toml", "--checkpoint", "r.toml"),
    ("profile", "t.csv", "--target", "y", "--json", "t.csv"),
    ("profile", "t.csv", "--target", "y", "--plot", "t.csv"),
    ("profile", "t.csv", "--target", "y", "--json", "new.png", "--plot", "new.png"),
    ("noise", "--within", "1", "--json", "new.png", "--plot", "new.png"),
    (*MODEL, "--json", "m.skops"),
    (*MODEL, "--json", "link.csv"),
    (*MODEL, "--domain", "r.toml", "--json", "r.toml"),
    (*MODEL, "--json", "new.svg", "--plot", "new.svg"),
    (*WISH, "--json", "m.skops"),
    (*WISH, "--json", "t.csv"),
    (*WISH, "--domain", "r.toml", "--json", "r.toml"),
    (*WISH, "--domain", "r.toml", "--policy", "r.toml"),
    (*WISH, "--json", "new.toml", "--policy", "new.toml"),
    ("recommend", "c.json", "--json", "c.json"),
    ("audit", "r.toml", "--json", "r.toml"),
    ("audit", "--sampler", "module:draw", "--trust", "--json", "module.py"),
    ("perturb", "r.toml", "t.csv", "new.csv", "--receipt", "r.toml"),
    ("gateway", "r.toml", "--upstream", "http://m", "--person", "who", "--ledger", "r.toml"),
    ("learn", "aggregate", "c.json", "t.csv", "-o", "c.json"),
    ("learn", "fit", "c.json", "c.json"),
    ("learn", "predict", "m.skops", "t.csv", "t.csv"),
    ("learn", "report", "c.json", "t.csv", "t.csv", "--target", "y"),
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name in ("t.csv", "m.skops", "c.json", "r.toml", "module.py"):
        (tmp_path / name).write_text(TABLE)
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.csv").symlink_to("t.csv")
    os.link(tmp_path / "t.csv", tmp_path / "hard.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", CASES, ids=" ".join)
@pytest.mark.cases(1)
def test_no_output_replaces_an_input_or_another_output(cli, place, words):
    before = {path: path.read_bytes() for path in place.iterdir() if path.is_file()}
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert " itself; give another path" in err
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in place.iterdir() if path.is_file()} == before


@pytest.mark.slow
def test_files_of_other_names_are_other_files(cli, place):
    code, _, err = cli(*RELEASE, "--checkpoint", "c.npz", "--json", "r.json")
    assert (code, err) == (0, "")
    assert cli("noise", "--within", "1", "--json", "-")[0] == 0


def test_the_demo_writes_two_files(cli, place):
    (place / "epsworth-demo.png").symlink_to("epsworth-demo.json")
    code, _, err = cli("demo")
    assert code == 2
    assert "the picture is the document itself" in err or "change the ending" in err


def commands_of(group):
    yield from (one.callback for one in group.registered_commands)
    for inner in group.registered_groups:
        yield from commands_of(inner.typer_instance)


def files_of(command):
    """Return the parameters that name files: paths, and --json."""
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if "Path" in str(parameter.annotation) or name == "json":
            yield name, list if "list[" in str(parameter.annotation) else lambda paths: paths[0]


@pytest.mark.parametrize("command", list(commands_of(app)), ids=lambda command: command.__name__)
def test_a_new_command_cannot_forget(command, place):
    """Every two files of every command that there is, or will be."""
    for (one, as_one), (other, as_other) in combinations(files_of(command), 2):
        for name in ("t.csv", "new.json"):
            with pytest.raises(ValueError, match="itself; give another path"):
                command(**{one: as_one([Path(name)]), other: as_other([Path("sub/..") / name])})
