"""Documents: a row that stands outside a table is printed as text."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_row_of_a_document_stands_in_a_table():
    seen = 0
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        lines = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).split("\n")
        for number, line in enumerate(lines):
            if line.lstrip().startswith("|") and not lines[number - 1].lstrip().startswith("|"):
                rule = lines[number + 1].strip()
                assert re.fullmatch(r"\|[\s:|-]+\|", rule), f"{page.name}: {line[:60]}"
                seen += 1
    assert seen > 10
