"""The committed page, docs/reproduction.md, against the catalogue and against what a brief run finds."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from reproduction import ITEMS, Setting, Verdict, outcome_of
from reproduction.pages import SHOWN, _data

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reproduction.md").read_text()
ROWS = {
    cells[0]: cells
    for line in PAGE.splitlines()
    if (cells := [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    and cells[0] in ITEMS
}
MEASURED = {"ldp-utility/table-2"}  # a statement about times, on this machine
LONGEST = 180  # seconds of one processor, for all that is brief


def test_the_page_holds_the_whole_catalogue_in_its_order():
    assert list(ROWS) == list(ITEMS)
    assert sum(line.partition(" | ")[0].removeprefix("| ") in ITEMS for line in PAGE.splitlines()) == len(
        ITEMS
    )  # none twice
    assert "computed in full" in PAGE


def test_a_row_says_what_the_item_says():
    for name, item in ITEMS.items():
        _, where, statement, ours, verdict, why, seconds = ROWS[name]
        assert (where, statement) == (item.what, item.statement)
        assert Verdict(verdict) is not Verdict.NOT_RUN, name
        assert verdict == "holds" or why, name
        assert float(seconds) >= 0
        if item.compute is None:
            assert (verdict, ours, why) == ("not reproducible", "none", item.reason)
        else:
            assert re.search(r"\d", ours), name


def test_the_page_says_where_the_data_come_from():
    assert PAGE.endswith("\n".join(_data()) + "\n")


def test_the_page_counts_its_verdicts():
    counts = re.search(r"computed in full: (.*)\.$", PAGE, re.M).group(1)
    found = [row[4] for row in ROWS.values()]
    assert counts == ", ".join(f"{found.count(v.value)} {v.value}" for v in Verdict if v.value in found)


def test_the_pictures_of_the_page_are_there_and_small():
    shown = re.findall(r"^!\[(\S+): .*\]\((\S+)\)$", PAGE, re.M)
    assert [name for name, _ in shown] == list(SHOWN)
    files = [DOCS / path for _, path in shown]
    assert all(file.read_text().rstrip().endswith("</svg>") for file in files)
    assert set((DOCS / "reproduction").iterdir()) == set(files)
    assert sum(file.stat().st_size for file in files) < 300_000


@pytest.mark.slow
def test_a_brief_run_finds_the_verdicts_of_the_page():
    """As ``python -m reproduction all --quick`` computes them; without the papers' data, what needs none of it."""
    named = os.environ.get("EPSWORTH_DATA")
    setting, began, others = Setting(Path(named) if named else None, quick=True), time.process_time(), {}
    for name, item in ITEMS.items():
        if item.quick and not item.lacking(setting.folder) and name not in MEASURED:
            verdict = outcome_of(item, setting).verdict.value
            if verdict != ROWS[name][4]:
                others[name] = (verdict, ROWS[name][4])
    assert others == {}
    assert time.process_time() - began < LONGEST
