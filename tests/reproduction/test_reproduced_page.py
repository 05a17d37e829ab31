"""The committed page, docs/reproduction.md, against the catalogue and against what a brief run finds."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from reproduction import ITEMS, PAPERS, Setting, Verdict, outcome_of
from reproduction.pages import SHOWN, _data

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reproduction.md").read_text()
ROW = re.compile(r"- \*\*(\S+)\*\* (.+?)(?: \*Ours:\* (.+?))?(?: \*(?!Ours:)(.+)\*)?")
ROWS, VERDICTS = {}, {}
for section in re.split(r"^#{2,3} ", PAGE, flags=re.M)[1:]:
    verdict = section.partition("\n")[0].rpartition(": ")[2].lower()
    for line in section.splitlines():
        if row := ROW.fullmatch(line):
            ROWS[row[1]], VERDICTS[row[1]] = row.groups()[1:], Verdict(verdict)
MEASURED = {"ldp-utility/table-2"}  # a statement about times, on this machine
LONGEST = 180  # seconds of one processor, for all that is brief


def test_the_page_holds_the_whole_catalogue_in_its_order():
    assert sorted(ROWS) == sorted(ITEMS)
    for paper in PAPERS:
        for verdict in Verdict:
            own = [name for name in ROWS if ITEMS[name].paper == paper and VERDICTS[name] is verdict]
            assert own == [name for name in ITEMS if name in own]
    assert PAGE.count("\n- **") == len(ITEMS)  # none twice
    assert "computed in full" in PAGE


def test_a_row_says_what_the_item_says():
    for name, item in ITEMS.items():
        statement, ours, why = ROWS[name]
        assert VERDICTS[name] is not Verdict.NOT_RUN, name
        if VERDICTS[name] is Verdict.NOT_REPRODUCIBLE:
            assert (statement, ours, why) == (item.reason or statement, None, None), name  # why, and nothing else
            continue
        assert statement == item.statement
        if ours.startswith("see "):  # told with another item
            other = ours.removeprefix("see ")
            assert (VERDICTS[other], why) == (VERDICTS[name], None)
            _, ours, why = ROWS[other]
        assert item.compute is not None
        assert re.search(r"\d", ours), name
        assert (why is None) == (VERDICTS[name] is Verdict.HOLDS), name


def test_the_page_says_where_the_data_come_from():
    assert PAGE.endswith("\n".join(_data()) + "\n")


def test_the_page_counts_its_verdicts():
    counts = re.search(r"computed in full: (.*)\.$", PAGE, re.M).group(1)
    found = list(VERDICTS.values())
    assert counts == ", ".join(f"{found.count(v)} {v}" for v in Verdict if v in found)


def test_the_pictures_of_the_page_are_there_and_small():
    shown = re.findall(r"^!\[(\S+)\]\((\S+)\)$", PAGE, re.M)
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
            verdict = outcome_of(item, setting).verdict
            if verdict is not VERDICTS[name]:
                others[name] = (verdict, VERDICTS[name])
    assert others == {}
    assert time.process_time() - began < LONGEST
