"""Replayable draws, for tests only. Whatever is drawn with them says NOT PRIVATE and must never leave a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from epsworth.exact.entropy import Words, WordSource

__all__ = ["NotPrivate", "ReplayableWords"]


class NotPrivate(np.ndarray[Any, np.dtype[Any]]):
    """An array made from replayable words; arithmetic on it keeps the mark.

    Examples
    --------
    >>> from epsworth import exact
    >>> from epsworth.exact.testing import NotPrivate, ReplayableWords
    >>> drawn = exact.kernel("krr", 1, k=4).draw([0, 1, 2], words=ReplayableWords(7))
    >>> isinstance(drawn + 1, NotPrivate), str(drawn).startswith("NOT PRIVATE")
    (True, True)
    """

    def __repr__(self) -> str:
        """Return the values behind a warning."""
        return f"NOT PRIVATE, replayable: {np.asarray(self)!r}"

    __str__ = __repr__


class ReplayableWords(WordSource):
    """Words that anyone can produce again from a number.

    Examples
    --------
    >>> from epsworth import exact
    >>> from epsworth.exact.testing import ReplayableWords
    >>> exact.kernel("krr", 1, k=4).draw([0, 1, 2], words=ReplayableWords(7))
    NOT PRIVATE, replayable: array([2, 2, 2])
    """

    private = False

    def __init__(self, number: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(number))

    def take(self, count: int) -> Words:
        """Return the next words of a Philox generator."""
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64, endpoint=False)
