"""The committed page, docs/reproduce.md, against the catalogue and against what a brief run finds."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from reproduction import ITEMS, Setting, Verdict, outcome_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reproduce.md").read_text()
ROWS = {
    cells[0]: cells
    for line in PAGE.splitlines()
    if (cells := [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    and re.fullmatch(r"00\d-.*", cells[0])
}
MEASURED = {"ldp-utility/table-2"}  # a statement about times, on this machine
LONGEST = 180  # seconds of one processor, for all that is brief


def test_the_page_holds_the_whole_catalogue_in_its_order():
    assert list(ROWS) == list(ITEMS)
    assert sum(line.startswith("| 00") for line in PAGE.splitlines()) == len(ITEMS)  # none twice
    assert "computed in full" in PAGE


@pytest.mark.parametrize("name", ITEMS)
def test_a_row_says_what_the_item_says(name):
    item, (_, where, statement, ours, verdict, why, seconds) = ITEMS[name], ROWS[name]
    assert (where, statement) == (item.what, item.statement)
    assert Verdict(verdict) is not Verdict.NOT_RUN
    assert verdict == "holds" or why
    assert float(seconds) >= 0
    if item.compute is None:
        assert (verdict, ours, why) == ("not reproducible", "none", item.reason)
    else:
        assert re.search(r"\d", ours)


def test_the_page_counts_its_verdicts():
    counts = re.search(r"computed in full: (.*)\.$", PAGE, re.M).group(1)
    found = [row[4] for row in ROWS.values()]
    assert counts == ", ".join(f"{found.count(v.value)} {v.value}" for v in Verdict if v.value in found)


def test_every_computed_figure_is_shown():
    shown = re.findall(r"^!\[(00\S+): .*\]\((\S+)\)$", PAGE, re.M)
    assert {name for name, _ in shown} >= {name for name, item in ITEMS.items() if item.kind == "fig" and item.compute}
    for name, path in shown:
        assert path == f"reproduce/{name}.svg"
        assert (DOCS / path).read_text().rstrip().endswith("</svg>")
    assert {path.stem for path in (DOCS / "reproduce").iterdir()} == {name for name, _ in shown}


@pytest.mark.slow
def test_a_brief_run_finds_the_verdicts_of_the_page():
    """As ``epsworth reproduce all --quick`` computes them; without the papers' data, what needs none of it."""
    named = os.environ.get("EPSWORTH_DATA")
    setting, began, others = Setting(Path(named) if named else None, quick=True), time.process_time(), {}
    for name, item in ITEMS.items():
        if item.quick and not item.lacking(setting.folder) and name not in MEASURED:
            verdict = outcome_of(item, setting).verdict.value
            if verdict != ROWS[name][4]:
                others[name] = (verdict, ROWS[name][4])
    assert others == {}
    assert time.process_time() - began < LONGEST
