"""What a reading of a model finds, or the words in which it says why it finds nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from epsworth.classifiers.reading import Unsupported


def said(reading: Callable[..., Any], *given: Any) -> Any:
    """Return what is found, or why there is nothing."""
    try:
        return reading(*given)
    except Unsupported as why:
        return str(why)
