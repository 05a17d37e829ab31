"""Documents: relative links lead to files, their ``#anchors`` to headings; the site's pages are in its tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "changelog.d").glob("*.md")),
]


def prose(path: Path) -> str:
    """Return what is no code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S))


def slugs(path: Path) -> set[str]:
    """Return the anchors that GitHub and the site give to a page's headings."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = [
        re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#{1,4} (.+?)\s*$", text, re.M)
    ]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_anchors_lead_somewhere(path):
    home = ROOT if path.parent.name == "changelog.d" else path.parent  # notes are gathered into a page at the top
    for target in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", prose(path)):
        file, _, anchor = target.partition("#")
        there = (home / file).resolve() if file else path
        assert there.exists(), target
        if anchor:
            assert anchor in slugs(there), target


def test_every_page_of_the_site_is_in_its_tree():
    """What Sphinx checks again; here without it."""
    docs = ROOT / "docs"
    listed = {"index"}
    for page in docs.rglob("*.md"):
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.M | re.S):
            entries = [re.sub(r".*<(.*)>", r"\1", line.strip()) for line in block.splitlines() if line[:1] not in ":"]
            for entry in filter(None, entries):
                found = page.parent.glob(f"{entry}.md") if "*" in entry else [page.parent / f"{entry}.md"]
                listed |= {str(one.relative_to(docs).with_suffix("")) for one in found}
    assert {str(page.relative_to(docs).with_suffix("")) for page in docs.rglob("*.md")} - listed == set()
