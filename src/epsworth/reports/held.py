"""What a file holds, asked for by name: numbers are numbers, or the file is refused in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MOST = 1_000_000  # entries of a list


class Held:
    """A part of a result's document; what is missing or of another kind is refused with its place.

    Examples
    --------
    >>> Held({"a": [{"b": 1}]}, "result").parts("a")[0].number("b")
    1.0
    """

    def __init__(self, entries: Any, where: str) -> None:
        if not isinstance(entries, Mapping):
            raise ValueError(f"{where}: damaged or incomplete (no table)")
        self._entries, self._where = entries, where

    def __contains__(self, name: object) -> bool:
        return self._entries.get(name) is not None

    def __iter__(self) -> Any:
        return iter(self._entries)

    def raw(self, name: str) -> Any:
        """Return an entry as it is."""
        if name not in self._entries:
            raise self._damaged(name, "is missing")
        return self._entries[name]

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """Return a number within two ends; null stands for infinity."""
        return self._number(name, self.raw(name), low, high)

    def share(self, name: str) -> float:
        """Return a probability."""
        return self.number(name, 0.0, 1.0)

    def whole(self, name: str) -> int:
        """Return a whole number of at least 0."""
        found = self.raw(name)
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise self._damaged(name, "is no whole number")
        return found

    def flag(self, name: str) -> bool:
        """Return a truth value."""
        found = self.raw(name)
        if not isinstance(found, bool):
            raise self._damaged(name, "is neither true nor false")
        return found

    def text(self, name: str) -> str:
        """Return a text."""
        found = self.raw(name)
        if not isinstance(found, str):
            raise self._damaged(name, "is no text")
        return found

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        found = self._list(name)
        if not all(isinstance(one, str) for one in found):
            raise self._damaged(name, "holds what is no text")
        return found

    def numbers(self, name: str, low: float = -math.inf, high: float = math.inf) -> list[float]:
        """Return a list of numbers."""
        return [self._number(name, one, low, high) for one in self._list(name)]

    def part(self, name: str) -> Held:
        """Return a part."""
        return Held(self.raw(name), f"{self._where}, {name}")

    def parts(self, name: str) -> list[Held]:
        """Return a list of parts."""
        return [Held(one, f"{self._where}, {name}") for one in self._list(name)]

    def _list(self, name: str) -> list[Any]:
        found = self.raw(name)
        if not isinstance(found, list) or len(found) > MOST:
            raise self._damaged(name, "is no list")
        return found

    def _number(self, name: str, value: Any, low: float, high: float) -> float:
        if value is None and high == math.inf:
            return math.inf
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise self._damaged(name, f"is no number in [{low:g}, {high:g}]")
        return float(value)

    def _damaged(self, name: str, what: str) -> ValueError:
        return ValueError(f"{self._where}: damaged or incomplete ({name} {what})")
