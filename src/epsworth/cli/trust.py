"""``--trust``: alone, whatever a model's file contains is run; with names, only these types are let through."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ALL = "all"
TYPES = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def spelt_out(words: list[str]) -> list[str]:
    """Give a plain ``--trust`` its value, which the parser asks for; names of types that follow stay what they are.

    Examples
    --------
    >>> spelt_out(["utility", "m.pkl", "t.csv", "--trust", "-s", "age"])
    ['utility', 'm.pkl', 't.csv', '--trust=all', '-s', 'age']
    >>> spelt_out(["utility", "m.skops", "t.csv", "--trust", "mine.Scaler,mine.Model"])
    ['utility', 'm.skops', 't.csv', '--trust', 'mine.Scaler,mine.Model']
    """
    if words[:1] == ["audit"]:  # whose own --trust takes no value
        return words
    following = [*words[1:], ""] if words else []
    return [
        f"--trust={ALL}" if word == "--trust" and not _names_types(after) else word
        for word, after in zip(words, following, strict=True)
    ]


def _names_types(word: str) -> bool:
    return all(TYPES.fullmatch(name) for name in word.split(",")) and not Path(word).exists()


def trusted(given: Any) -> bool | tuple[str, ...]:
    """Return what `load_model` takes: True for all, False for nothing, or names of types."""
    if isinstance(given, (bool, tuple)):
        return given
    return True if given == ALL else tuple(filter(None, str(given).split(",")))
