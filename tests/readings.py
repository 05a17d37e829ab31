"""What a reading of a model finds, or the words in which it says why it finds nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from epsworth.classifiers.reading import Unsupported
from epsworth.classifiers.structure import read_trees
from epsworth.classifiers.trees import TreeModel


def said(reading: Callable[..., Any], *given: Any) -> Any:
    """Return what is found, or why there is nothing."""
    try:
        return reading(*given)
    except Unsupported as why:
        return str(why)


def tree_model(model: Any) -> TreeModel | None:
    """Return the trees of a model; None where they cannot be read."""
    try:
        return read_trees(model)
    except Unsupported:
        return None
