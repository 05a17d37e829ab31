"""The command: the list, one item, a page of several, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from epsworth.cli.reproduce import reproduce

from reproduction import ITEMS, catalogue


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EPSWORTH_DATA", raising=False)


@pytest.fixture
def few(monkeypatch):
    """Leave four items in the catalogue: a quick one, one of seconds, one without its data, a drawing."""
    names = ("ldp-utility/fig-1", "ldp-utility/fig-2", "ldp-utility/theorem-1", "privacy-profile/fig-1")
    found = {name: ITEMS[name] for name in names}
    monkeypatch.setattr(catalogue, "ITEMS", found)
    return found


def test_the_list_shows_every_id(cli):
    code, out, _ = cli("reproduce", "--list")
    assert code == 0
    assert all(name in out for name in ITEMS)
    assert "needs data" in out


def test_one_item_is_told_with_the_papers_statement_and_our_number(cli):
    code, out, _ = cli("reproduce", "ldp-utility/section-3.1")
    assert code == 0
    for words in (ITEMS["ldp-utility/section-3.1"].statement, "5.3648", "does not hold", "Section 3.1"):
        assert words in " ".join(out.split())


def test_all_writes_a_page_and_its_numbers(cli, few, tmp_path):
    code, out, err = cli("reproduce", "all", "-o", ".")
    assert code == 1
    told = "adult_train.csv.gz, adult_test.csv.gz not found; name its folder with --data"
    assert err == f"1 of 4 were not looked at (privacy-profile/fig-1: {told}).\n"
    assert "2 holds, 1 not reproducible, 1 not run yet" in out
    found = json.loads((tmp_path / "reproduce.json").read_text())
    assert [row["id"] for row in found["items"]] == list(few)
    assert {row["verdict"] for row in found["items"]} == {"holds", "not reproducible", "not run yet"}
    page = (tmp_path / "reproduce.md").read_text()
    for row in found["items"]:
        (line,) = (line for line in page.splitlines() if line.startswith(f"| {row['id']} |"))
        assert row["ours"] in line
        assert row["verdict"] in line
    shown = {path.name for path in (tmp_path / "reproduce").iterdir()}
    assert shown == {"ldp-utility/fig-2.svg"}  # of those that are computed, the one figure
    assert "(reproduce/ldp-utility/fig-2.svg)" in page
    assert [row.get("picture") for row in found["items"]] == [None, "reproduce/ldp-utility/fig-2.svg", None, None]


def test_quick_leaves_out_what_is_not_quick(cli, few):
    _, out, _ = cli("reproduce", "all", "--quick")
    assert "ldp-utility/fig-2" in out
    assert "ldp-utility/fig-1" not in out


def test_what_was_not_looked_at_is_no_success(cli, few, tmp_path):
    code, out, err = cli("reproduce", "ldp-utility/fig-1")
    assert (code, err) == (0, "")  # a drawing: there is nothing to look at
    code, out, err = cli("reproduce", "privacy-profile/fig-1", "--quick", "--data", ".")
    assert code == 1
    assert "not run yet" in out
    assert err.count("\n") == 1
    assert "not found; name its folder with --data" in err


def test_the_folder_is_made(cli, few, tmp_path):
    code, _, err = cli("reproduce", "ldp-utility/theorem-1", "-o", "new/folder")
    assert (code, err) == (0, "")
    assert (tmp_path / "new" / "folder" / "reproduce.json").is_file()


def test_nothing_is_left_where_an_item_fails(cli, few, tmp_path):
    def broken(setting):
        raise ValueError("no such number")

    few["ldp-utility/theorem-1"] = replace(few["ldp-utility/theorem-1"], compute=broken)
    with pytest.raises(ValueError, match="no such number"):
        reproduce("all", False, False, None, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ldp-utility/fig-99"], "unknown ID 'ldp-utility/fig-99'; the nearest are"),
        ([], "name an ID, or all"),
        (["all", "--list", "-o", "."], "--list computes nothing"),
        (["ldp-utility/fig-2", "-o", "/dev/null"], "--out /dev/null is no folder, for /dev/null is a file"),
        (["ldp-utility/fig-2", "-o", "/dev/null/new"], "is no folder, for /dev/null is a file"),
        (["ldp-utility/fig-2", "--data", "nowhere"], "--data nowhere is no folder"),
    ],
)
@pytest.mark.cases(1)
def test_one_sentence_and_exit_2_for_what_cannot_be_done(cli, words, told):
    code, out, err = cli("reproduce", *words)
    assert code == 2
    assert told in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""
