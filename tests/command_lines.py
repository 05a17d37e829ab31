"""Command lines that are changed: an option is given once."""

from __future__ import annotations

from collections.abc import Sequence

SHORT = {"-e": "--epsilon"}
REPEATED = {"-s", "-m", "--missing", "--set"}  # these add


def changed(asked: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return a command line with further words, which replace options of the same name and their values."""
    names = {_name(word) for word in words} - REPEATED
    kept = list(asked)
    for at in reversed(range(len(asked))):
        if asked[at].startswith("-") and _name(asked[at]) in names:
            del kept[at : at + 2]
    return [*kept, *words]


def _name(word: str) -> str:
    option = word.partition("=")[0]
    return SHORT.get(option, option)
