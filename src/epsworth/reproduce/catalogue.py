"""The catalogue: every numbered thing of the five papers, each once."""

from __future__ import annotations

import difflib

from epsworth.reproduce import (
    paper_000,
    paper_000_images,
    paper_000_mechanisms,
    paper_000_models,
    paper_000_studies,
    paper_001,
    paper_001_figures,
    paper_001_tables,
    paper_002,
    paper_003,
    paper_003_figures,
    paper_004,
)
from epsworth.reproduce.items import Item

_PARTS = (
    paper_000,
    paper_000_images,
    paper_000_mechanisms,
    paper_000_models,
    paper_000_studies,
    paper_001,
    paper_001_figures,
    paper_001_tables,
    paper_002,
    paper_003,
    paper_003_figures,
    paper_004,
)
KINDS = (
    "fig", "table", "example", "definition", "proposition", "lemma", "theorem", "claim", "remark", "algorithm",
    "equation", "section", "slide",
)  # fmt: skip


def _place(item: Item) -> tuple[str, int, list[tuple[int, str]]]:
    """Order by paper, then by kind, then by number."""
    parts = item.id.split("-")[2].split(".")
    return item.paper, KINDS.index(item.kind), [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


ITEMS: dict[str, Item] = {item.id: item for item in sorted((i for part in _PARTS for i in part.ITEMS), key=_place)}


def named(words: str) -> list[Item]:
    """Return the item of this ID, or all of them for ``all``.

    Raises
    ------
    ValueError
        For an unknown ID, with the nearest ones.
    """
    if words == "all":
        return list(ITEMS.values())
    if words in ITEMS:
        return [ITEMS[words]]
    near = difflib.get_close_matches(words.lower(), ITEMS, n=3, cutoff=0.5)
    hint = f"the nearest are {', '.join(near)}" if near else "--list shows all"
    raise ValueError(f"unknown ID {words!r}; {hint}")
