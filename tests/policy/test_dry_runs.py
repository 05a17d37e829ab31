"""``perturb --dry-run``, work that is done already, refusals of caps that say what fits, and the ledger's place."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

import epsworth as ew
from epsworth.policy import Ledger, Pass, Policy
from epsworth.policy.folders import state_folder

ROWS = "id,name,age\n" + "".join(f"{person},p{person},{30 + person}\n" for person in (1, 1, 1, 2))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPSWORTH_STATE", str(tmp_path / "state"))
    policy = Policy.of("pm", 1, ew.Domain.of({"age": (0, 100)}), passing=["id"])
    replace(policy, passing=Pass(("id",), ("name",))).save(tmp_path / "policy.toml")
    (tmp_path / "in.csv").write_text(ROWS)
    return tmp_path


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


WORDS = ("perturb", "policy.toml", "in.csv", "out.csv", "--id", "id")


def test_a_dry_run_tells_all_and_leaves_nothing(cli, place):
    before = everything(place)
    code, out, _ = cli(*WORDS, "--dry-run")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "Dry run: nothing is written, drawn or charged."
    assert "rows 4, of 2 people (id), at most 3 of one" in lines
    assert {"perturbed age", "passing id", "left out name"} <= set(lines)
    assert "charge epsilon 3 to one person, at most" in lines
    assert f"ledger {place / 'state'}" in lines
    assert everything(place) == before


def test_a_dry_run_charges_nothing_and_knows_what_is_done(cli, place):
    assert cli(*WORDS)[0] == 0
    code, out, _ = cli(*WORDS, "--dry-run")
    assert (code, "this run is done already" in out) == (0, True)
    assert len(Ledger().runs()) == 1
    code, _, err = cli(*WORDS[:3], "other.csv", "--id", "id", "--dry-run")
    assert (code, "these records left 1 time" in err) == (2, True)
    (place / "out.csv").write_text("other\n")
    code, _, err = cli(*WORDS, "--dry-run")
    assert (code, "these records left 1 time" in err) == (2, True)
    assert len(Ledger().runs()) == 1


def test_a_dry_run_of_a_folder(cli, place):
    (place / "parts").mkdir()
    for name in ("a.csv", "b.csv"):
        (place / "parts" / name).write_text(ROWS)
    words = ("perturb", "policy.toml", "parts", "outs", "--id", "id")
    before = everything(place)
    code, out, _ = cli(*words, "--dry-run")
    assert (code, "of 2 people (id), at most 6 of one" in out) == (0, True)
    assert everything(place) == before
    assert cli(*words)[0] == 0
    code, out, _ = cli(*words, "--dry-run")
    assert (code, "this run is done already" in out) == (0, True)


def test_work_that_is_done_is_said_to_be_and_the_ledgers_place_is_printed(cli, place):
    code, first, _ = cli(*WORDS)
    assert code == 0
    assert "Already done" not in first
    assert f"Ledger: {place / 'state'}" in first
    released = (place / "out.csv").read_bytes()
    code, second, _ = cli(*WORDS)
    assert second.startswith("Already done: out.csv holds the output of this very run. Nothing was drawn or charged.")
    assert (code, (place / "out.csv").read_bytes()) == (0, released)


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_cap_that_refuses_says_who_has_how_many_rows_and_what_would_fit(cli, place, more):
    code, _, err = cli(*WORDS, "--cap", "2", *more)
    assert code == 2
    assert (
        "1 person would exceed the cap, with up to 3 rows each, of which 2 would fit; give --max-rows-per-person 2"
        in err
    )
    for whom in (WORDS, WORDS[:4]):
        code, _, err = cli(*whom, "--cap", "0.5", *more)
        assert code == 2
        assert "one row costs epsilon 1, more than the cap 0.5: raise it to at least 1, or take a policy" in err
    code, _, err = cli(*WORDS[:4], "--cap", "2", *more)
    assert code == 2
    assert "4 rows count as one person's, and 2 would fit; state --id or --max-rows-per-person, or take" in err


def test_what_left_before_takes_from_what_fits(cli, place):
    assert cli(*WORDS, "--cap", "4")[0] == 0
    (place / "in.csv").write_text(ROWS.replace("p1", "q1"))
    code, _, err = cli(*WORDS[:3], "again.csv", "--id", "id")
    assert code == 2
    assert "1 person would exceed the cap, with up to 3 rows each, of which 1 would fit" in err


def test_a_dry_run_has_no_receipt(cli, place):
    code, _, err = cli(*WORDS, "--dry-run", "--receipt", "receipt.json")
    assert (code, "drop --receipt" in err) == (2, True)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these keep such data elsewhere")
def test_the_state_folder_is_the_systems(monkeypatch, tmp_path):
    monkeypatch.delenv("EPSWORTH_STATE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_folder() == tmp_path / "xdg" / "epsworth"
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", unusable)
        assert state_folder() == tmp_path / ".local" / "state" / "epsworth"
    monkeypatch.setenv("EPSWORTH_STATE", str(tmp_path / "own"))
    assert state_folder() == tmp_path / "own"
