"""The papers' data sets: where they come from, and the inputs that are built of them."""

from __future__ import annotations


def sources() -> str:
    """Return where each data set comes from, its licence, and what builds the inputs of it."""
    return ""
