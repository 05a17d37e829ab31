"""The command: the list, one item, a page of several, and what it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from reproduction import ITEMS, catalogue
from reproduction.__main__ import main


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


def test_the_list_shows_every_name(capsys):
    assert main(["--list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ITEMS)
    assert "needs data" in printed


def test_one_item_is_told_with_the_papers_statement_and_our_number(capsys):
    assert main(["ldp-utility/section-3.1"]) == 0
    printed = capsys.readouterr().out
    for words in (ITEMS["ldp-utility/section-3.1"].statement, "5.3648", "does not hold", "Section 3.1"):
        assert words in printed


def test_all_writes_a_page_and_its_numbers(few, tmp_path, capsys):
    assert main(["all", "-o", "."]) == 1
    printed = capsys.readouterr()
    assert "1 of 4 were not looked at (privacy-profile/fig-1: adult_train.csv.gz" in printed.err
    assert "2 holds, 1 not reproducible, 1 not run yet" in printed.out
    found = json.loads((tmp_path / "reproduction.json").read_text())
    assert [row["id"] for row in found["items"]] == list(few)
    assert {row["verdict"] for row in found["items"]} == {"holds", "not reproducible", "not run yet"}
    page = (tmp_path / "reproduction.md").read_text()
    for row in found["items"]:
        (line,) = (line for line in page.splitlines() if line.startswith(f"- **{row['id']}** "))
        assert (row["ours"] if row["ours"] != "none" else row["why"]) in line
        heading = re.findall(r"^#+ (.+)$", page[: page.index(line)], re.M)[-1]
        assert heading in (f"{row['paper']}: {row['verdict']}", row["verdict"].capitalize())
    shown = {path.name for path in (tmp_path / "reproduction").iterdir()}
    assert shown == {"ldp-utility-fig-2.svg"}  # of those that are computed, the one figure
    assert "(reproduction/ldp-utility-fig-2.svg)" in page


def test_quick_leaves_out_what_is_not_quick(few, capsys):
    main(["all", "--quick"])
    printed = capsys.readouterr().out
    assert "ldp-utility/fig-2" in printed
    assert "ldp-utility/fig-1" not in printed


def test_what_was_not_looked_at_is_no_success(few, capsys):
    assert main(["ldp-utility/fig-1"]) == 0  # a drawing: there is nothing to look at
    assert main(["privacy-profile/fig-1", "--quick", "--data", "."]) == 1
    assert "not found; name its folder with --data" in capsys.readouterr().err


def test_nothing_is_left_where_an_item_fails(few, tmp_path):
    def broken(setting):
        raise ValueError("no such number")

    few["ldp-utility/theorem-1"] = replace(few["ldp-utility/theorem-1"], compute=broken)
    with pytest.raises(ValueError, match="no such number"):
        main(["all", "-o", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cases("all")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ldp-utility/fig-99"], "unknown item 'ldp-utility/fig-99'; the nearest are"),
        ([], "name an item, or all"),
        (["pac", "-o", "/dev/null"], "--output /dev/null is no folder"),
        (["pac", "--data", "nowhere"], "--data nowhere is no folder"),
    ],
)
def test_a_sentence_and_exit_2_for_what_cannot_be_done(words, told, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
