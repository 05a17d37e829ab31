"""The command line of the ledger tells what the library does."""

from __future__ import annotations

import json
import re
import shutil
from decimal import Decimal
from fractions import Fraction

import pytest

from epsworth.policy.ledger import ChargeRequest, Identity, Ledger, RowCounts, RunTerms
from epsworth.policy.ledger.store import Store


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger, counts = Ledger(tmp_path / "kept"), RowCounts()
    counts.add(ledger.hashes([7, "Ann", "Ann"]))
    terms = ChargeRequest("5f2e" * 16, Fraction(1, 3), Fraction(0), rows=3, terms=RunTerms("id", Decimal(2)))
    ledger.begin(terms, Identity("policy 1", bytes(32), "out.csv"), counts)
    return tmp_path


def test_spent_prints_sums_rounded_up(cli, folder):
    code, out, err = cli("ledger", "spent", "7", "Ann", "[b]", "--ledger", "kept")
    assert (code, err) == (0, "")
    *rows, told = out.splitlines()
    assert [line.split() for line in rows] == [
        ["id", "epsilon", "delta"], ["7", "0.333334", "0"], ["Ann", "0.666667", "0"], ["[b]", "0", "0"],
    ]  # fmt: skip
    assert told == "No release names [b] here; check the spelling, or name another --ledger."
    (folder / "ids.txt").write_bytes(b"Ann\r\n7\n\n")
    code, out, _ = cli("ledger", "spent", "--file", "ids.txt", "--ledger", "kept", "--json", "-")
    assert json.loads(out)["spent"] == [
        {"id": "Ann", "epsilon": "0.666666666668", "delta": "0"},
        {"id": "7", "epsilon": "0.333333333334", "delta": "0"},
    ]


def test_what_people_lost_is_one_reading_of_the_ledger(folder, monkeypatch):
    ledger, readings, reading = Ledger("kept"), [], Store.reading
    monkeypatch.setattr(Store, "reading", lambda self: readings.append(1) or reading(self))
    once = (Decimal("0.333333333334"), 0, True)
    assert ledger.lost([7, "[b]", 7]) == [once, (0, 0, False), once]
    assert len(readings) == 1


def test_runs_are_listed(cli, folder, monkeypatch):
    monkeypatch.setenv("EPSWORTH_STATE", "kept")
    code, out, _ = cli("ledger", "runs")
    assert code == 0
    assert "charged     3  0.333334      0  each id, for 2 rows at most" in out
    run = json.loads(cli("ledger", "runs", "--json", "-")[1])["runs"][0]
    assert (run["policy"], run["person"], run["most"], run["epsilon"]) == ("5f2e" * 16, "id", 2, "0.333333333334")


def begin(folder, number):
    ledger = Ledger(folder)
    terms = ChargeRequest("5f2e" * 16, Fraction(1, 3), Fraction(0), rows=1)
    ledger.begin(terms, Identity("policy 1", bytes([number]) * 32, "out.csv"))


def test_a_head_is_kept_elsewhere_and_verified_later(cli, folder):
    shutil.copytree("kept", "older")
    code, head, err = cli("ledger", "head", "--ledger", "kept")
    head = head.strip()
    assert (code, err) == (0, "")
    assert re.fullmatch("1-[0-9a-f]{64}", head)
    assert json.loads(cli("ledger", "head", "--ledger", "kept", "--json", "-")[1]) == {"head": head}
    begin("kept", 1)
    code, out, err = cli("ledger", "verify", head, "--ledger", "kept")
    assert (code, err) == (0, "")
    assert "holds all runs of this head" in out
    longer = cli("ledger", "head", "--ledger", "kept")[1].strip()
    assert longer.startswith("2-")
    for when in ("as it was", "with another run since"):
        code, out, err = cli("ledger", "verify", longer, "--ledger", "older")
        assert (code, out, err.count("\n")) == (2, "", 1), when
        assert "is not the one of this head" in err
        begin("older", 2)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("spent", "7", "--ledger", "other"), "there is no ledger in other"),
        (("runs", "--ledger", "other"), "there is no ledger in other"),
        (("head", "--ledger", "other"), "there is no ledger in other"),
        (("spent", "7", "--ledger", "text"), "text is no ledger of a gateway, or is damaged"),
        (("runs", "--ledger", "text"), "only `epsworth ledger spent` reads a gateway's"),
        (("verify", "0-" + 64 * "0", "--ledger", "other"), "there is no ledger in other"),
        (("verify", "0-0", "--ledger", "kept"), "the head must be a number of runs"),
        (("spent", "--ledger", "kept"), "one way of both"),
        (("spent", "7", "--file", "ids.txt", "--ledger", "kept"), "one way of both"),
        (("spent", " 7", "--ledger", "kept"), "padded"),
        (("spent", "--file", "padded.txt", "--ledger", "kept"), "padded.txt: line 3: the id is padded"),
        (("spent", "Ann\u2800", "--ledger", "kept"), "holds a character that nobody sees"),
    ],
)
@pytest.mark.cases(1)
def test_what_cannot_be_answered_is_told_in_a_sentence(cli, folder, words, told):
    (folder / "ids.txt").write_text("7\n")
    (folder / "padded.txt").write_text("7\n\n 8\n")
    (folder / "text").write_text("a text that is long enough to be looked at" * 20)
    code, out, err = cli("ledger", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert not (folder / "other").exists()
