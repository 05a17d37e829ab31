"""The text of a policy: checked before it is parsed, so that reading it takes little, and packed when written."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import fill

from epsworth.sources import KINDS

LARGEST = 1 << 20  # bytes
LARGEST_TAILORED = 1 << 24  # of a policy that holds a copy of a classifier
DEPTH = 16  # of brackets
LONGEST = 40  # characters of a number
WIDTH = 118  # letters of a line of numbers

# texts that do not end run to the end, so that no letter is looked at twice
_TOKENS = re.compile(
    r"""
    \"{3} (?: [^\\"] | \\. | "{1,2}(?!") )*+ (?: "{3,5} | \Z )
  | '{3} (?: [^'] | '{1,2}(?!') )*+ (?: '{3,5} | \Z )
  | " (?: [^\\"\n] | \\. )*+ "?
  | ' [^'\n]*+ '?
  | \# [^\n]*+
  | (?P<open> [\[{] ) | (?P<close> [\]}] )
  | (?P<number> (?<![\w.-]) [+-]?[0-9][\w.+-]*+ (?! [ \t]* [=.] ) )
  | [\w.+-]++
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_TABLE = re.compile(r"^[ \t]*\[+([^\[\]\n]*)\]+", re.MULTILINE)
_TAILORED = re.compile(r"^\[tailored\b", re.MULTILINE)
_KEY = re.compile(r"^[ \t]*([\w.-]+|\"[^\"\n]*\")[ \t]*=", re.MULTILINE)


def check_no_table(path: str | Path) -> str | Path:
    """Return the path of a policy's file; refuse one that is a table's by its ending.

    Examples
    --------
    >>> check_no_table("table.csv")
    Traceback (most recent call last):
    ValueError: policy table.csv: this is a table, by its ending; a policy is a .toml file, and is named before tables
    """
    if str(path).lower().endswith(tuple(KINDS)):
        raise ValueError(
            f"policy {path}: this is a table, by its ending; a policy is a .toml file, and is named before tables"
        )
    return path


def check_text(text: str) -> None:
    """Refuse a policy's text that is too long, nested too deeply, or holds a number of too many characters.

    Examples
    --------
    >>> check_text("epsilon = " + 41 * "1")
    Traceback (most recent call last):
        ...
    ValueError: epsilon: a number has 41 characters, the most is 40; round it
    """
    most = LARGEST_TAILORED if _TAILORED.search(text) else LARGEST
    if len(text) > most or len(text.encode(errors="replace")) > most:
        raise ValueError(
            f"the policy is longer than {most >> 20} MiB; make one of fewer features, or of a smaller copy"
        )
    depth = 0
    for token in _TOKENS.finditer(text):
        if token["open"]:
            depth += 1
            if depth > DEPTH:
                raise ValueError(
                    f"{_entry(text, token.start())}: brackets are nested more than {DEPTH} deep; flatten it"
                )
        elif token["close"]:
            depth = max(0, depth - 1)
        elif token["number"] and len(token["number"]) > LONGEST:
            size = len(token["number"])
            told = f"a number has {size:,} characters, the most is {LONGEST}; round it"
            raise ValueError(f"{_entry(text, token.start())}: {told}")


def _entry(text: str, at: int) -> str:
    """Return the path of the entry that holds a place, as the text names it."""
    before = text[:at]
    tables, keys = list(_TABLE.finditer(before)), list(_KEY.finditer(before))
    table = tables[-1][1].strip() + "." if tables else ""
    if not keys or (tables and keys[-1].start() < tables[-1].start()):
        return f"line {before.count(chr(10)) + 1}"
    return f"{table}{keys[-1][1]}"[:200]


_COLUMN = re.compile(
    r"\[\n((?: *(?:-?\d+|\[[-\d, ]*\]),\n)+) *\]"
)  # of whole numbers, or of lists of them; no text has line ends


def packed(text: str) -> str:
    """Return TOML with as many whole numbers in a line as fit, not one: a forest's tables have thousands."""
    for _ in range(2):  # the lists in a list, then the list
        text = _COLUMN.sub(lambda found: f"[{fill(' '.join(found[1].split()), WIDTH).rstrip(',')}]", text)
    return text
