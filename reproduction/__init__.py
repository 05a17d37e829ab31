"""The five papers, reproduced: each figure, table, theorem and numbered statement beside our own number.

``items``      `Item`, `Outcome`, `Verdict`: what stands in a paper, and what we find
``catalogue``  `ITEMS`: all of them, by their IDs; `named`
``ldp_utility`` to ``privacy_profile``, and their parts: one module per subject of a paper
``variation_ratio``  a claim of another paper, which the library does not rest on
``studies``, ``pac_tasks``: the papers' tables, models and algorithms
``pages``      outcomes as Markdown and JSON
"""

from importlib import import_module
from typing import TYPE_CHECKING

from reproduction.items import PAPERS, Item, Outcome, Setting, Verdict, outcome_of

if TYPE_CHECKING:
    from reproduction.catalogue import ITEMS, named

__all__ = ["ITEMS", "PAPERS", "Item", "Outcome", "Setting", "Verdict", "named", "outcome_of"]


def __getattr__(name: str) -> object:
    """Load the catalogue, and all that it computes with, on first use."""
    if name in ("ITEMS", "named"):
        return getattr(import_module("reproduction.catalogue"), name)
    raise AttributeError(f"module 'reproduction' has no attribute {name!r}")
