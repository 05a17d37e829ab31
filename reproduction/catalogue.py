"""The catalogue: every numbered thing of the five papers, each once."""

from __future__ import annotations

import difflib

from reproduction import (
    ldp_classification,
    ldp_utility,
    ldp_utility_images,
    ldp_utility_mechanisms,
    ldp_utility_models,
    ldp_utility_studies,
    pac,
    pac_figures,
    pac_tables,
    privacy_boosting,
    privacy_boosting_figures,
    privacy_profile,
    variation_ratio,
)
from reproduction.items import PAPERS, Item

_PARTS = (
    ldp_utility,
    ldp_utility_images,
    ldp_utility_mechanisms,
    ldp_utility_models,
    ldp_utility_studies,
    pac,
    pac_figures,
    pac_tables,
    ldp_classification,
    privacy_boosting,
    privacy_boosting_figures,
    privacy_profile,
    variation_ratio,
)
KINDS = (
    "fig", "table", "example", "definition", "proposition", "lemma", "theorem", "claim", "remark", "algorithm",
    "equation", "section", "slide",
)  # fmt: skip


def _place(item: Item) -> tuple[int, int, list[tuple[int, str]]]:
    """Order by paper, then by kind, then by number."""
    number = item.id.partition("/")[2].partition("-")[2].split(".")
    parts = [(int(part), "") if part.isdecimal() else (0, part) for part in number]
    return list(PAPERS).index(item.paper), KINDS.index(item.kind), parts


ITEMS: dict[str, Item] = {item.id: item for item in sorted((i for part in _PARTS for i in part.ITEMS), key=_place)}


def named(words: str) -> list[Item]:
    """Return the item of this name, those of a paper, or all of them for ``all``.

    Raises
    ------
    ValueError
        For an unknown name, with the nearest ones.
    """
    if words == "all":
        return list(ITEMS.values())
    if words in PAPERS:
        return [item for item in ITEMS.values() if item.paper == words]
    if words in ITEMS:
        return [ITEMS[words]]
    near = difflib.get_close_matches(words.lower(), ITEMS, n=3, cutoff=0.5)
    hint = f"the nearest are {', '.join(near)}" if near else "--list shows all"
    raise ValueError(f"unknown item {words!r}; {hint}")
