"""Names of columns in messages: shown, unless they look like a record's values, for want of a header."""

from __future__ import annotations

import re
from collections.abc import Sequence

from epsworth.values import MISSING

LONGEST_NAME = 40  # letters of a column's name that a message may show
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_VALUE = re.compile(  # of a record: without letters, a number with its power or unit, a date, an answer, an address
    rf"[\W\d_]*|\W*\d[\d.,:/-]*(?:\W.*|e[+-]?\d+|T\d.*|[a-zµ]{{1,2}}|{_MONTH}\W*\d.*)|{_MONTH}\W*\d.*"
    r"|\W*(?:inf|infinity|nan|true|false|yes|no|none)|.*@.*",
    re.IGNORECASE,
)
_RENAMED = re.compile(r"_duplicated_\d+$")  # what polars adds to a name that stands twice
NO_COLUMN = "perhaps its first line is no header: name the columns there"
NO_HEADER = "its first line does not look like a header; give one"


def shown_names(names: Sequence[object], words: str = "it has") -> str:
    """Say which columns a table has, unless one of their names looks like a value: a record's, for want of a header.

    Examples
    --------
    >>> shown_names(["age", "bmi"]), shown_names(["63.7", "male"])
    ('it has age, bmi', 'its first line does not look like a header; give one')
    """
    return f"{words} {', '.join(map(str, names))}" if looks_like_header(names) else NO_HEADER


def shown_name(name: object, names: Sequence[object]) -> str:
    """Return one of a table's names for a message: its number where the names look like a record.

    Examples
    --------
    >>> shown_name("bmi", ["age", "bmi"]), shown_name("male", ["63.7", "male"])
    ("'bmi'", 'number 1 (counted from 0; its first line does not look like a header)')
    """
    if looks_like_header(names):
        return repr(name)
    return f"number {list(names).index(name)} (counted from 0; {NO_HEADER.partition(';')[0]})"


def looks_like_header(names: Sequence[object]) -> bool:
    """Tell whether none of a table's names looks like a value."""
    return not any(isinstance(name, str) and _is_value(name) for name in names)


def _is_value(name: str) -> bool:
    plain = _RENAMED.sub("", name).strip()
    return len(plain) > LONGEST_NAME or plain in MISSING or not name.isprintable() or bool(_VALUE.fullmatch(plain))
