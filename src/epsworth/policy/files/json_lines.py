"""The members of one JSON object per line, found by a scanner of our own: where they stand, not what they mean.

It may take some broken lines for whole ones: nothing of a line is written but values that are JSON themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any

from epsworth.values import whole_number

WHITE = " \t\r\n"  # to JSON; str.strip alone takes away what other readers stumble over
BLANK = re.compile(r"[ \t\r\n]*")
LINE = re.compile(r"[^\n]*\n|[^\n]+")  # str.splitlines would split at line separators inside strings, too
STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')
ATOM = re.compile(r'[^\s,:{}\[\]"]+')
NESTING = re.compile(r'[^"{}\[\]]*+(?:("(?:[^"\\]|\\.)*+")|([{\[])|([}\]]))')
PLAIN = r'(?:"[^"\\]*+"|[^\s,:{}\[\]"]++)'  # a value without nesting or escapes
MEMBER = re.compile(rf'[ \t]*"([^"\\]*)"[ \t]*:[ \t]*({PLAIN})[ \t]*([,}}])')
WHOLE = re.compile(r"-?[0-9]+")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
SAME = re.compile(r'"[^"\\\x00-\x1f]*+"|(?!-0)-?(?:0|[1-9][0-9]*+)|true|false|null')  # already as they are rewritten

Member = tuple[str, int, int]  # name, and the span of the value


class NotJson(ValueError):
    """A line is not one JSON object."""


def members(line: str) -> list[Member]:
    """Return all members of the object that a line holds, in their order."""
    found = _flat_members(line)
    return list(_members(line)) if found is None else found


@lru_cache(maxsize=16)
def layout(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for objects with just these members, in this order, flat; its groups are their values.

    The lines of a file mostly agree in that, and one pattern per line is three times faster than one per member.
    """
    parts = (rf'[ \t]*"{re.escape(name)}"[ \t]*:[ \t]*({PLAIN})[ \t]*' for name in names)
    return re.compile(rf"[ \t]*\{{{','.join(parts)}\}}[ \t\r\n]*")


def _flat_members(line: str) -> list[Member] | None:
    """Return the members of an object without nesting or escapes; None for any other line.

    Most lines are such, and one pattern per member is three times faster than the full scan.
    """
    at, found = _after_blank(line, 0) + 1, []
    if line[at - 1 : at] != "{":
        return None
    match = MEMBER.match
    while True:
        member = match(line, at)
        if member is None:
            return None
        found.append((member[1], *member.span(2)))
        at = member.end()
        if member[3] == "}":
            return found if BLANK.fullmatch(line, at) else None


def _members(line: str) -> Iterator[Member]:
    at = _after_blank(line, _past(line, _after_blank(line, 0), "{"))
    while line[at : at + 1] != "}":
        end = _end_of_value(line, at)
        name = json.loads(line[at:end])  # escapes: "\u0061ge" names age
        if not isinstance(name, str):
            raise NotJson
        start = _after_blank(line, _past(line, _after_blank(line, end), ":"))
        end = _end_of_value(line, start)
        yield name, start, end
        at = _after_blank(line, end)
        if line[at : at + 1] != ",":
            break
        at = _after_blank(line, at + 1)
        if line[at : at + 1] == "}":
            raise NotJson
    if _after_blank(line, _past(line, at, "}")) != len(line):
        raise NotJson


def _end_of_value(line: str, start: int) -> int:
    """Return where a value ends; brackets are counted, so no depth is too deep."""
    if line[start : start + 1] not in ("{", "["):
        found = STRING.match(line, start) or ATOM.match(line, start)
        if found is None:
            raise NotJson
        return found.end()
    at, depth = start, 0
    while True:
        token = NESTING.match(line, at)
        if token is None:
            raise NotJson
        at, depth = token.end(), depth + (token[2] is not None) - (token[3] is not None)
        if depth == 0:
            return at


def _past(line: str, at: int, what: str) -> int:
    if line[at : at + 1] != what:
        raise NotJson
    return at + 1


def _after_blank(text: str, at: int) -> int:
    found = BLANK.match(text, at)
    assert found is not None  # it matches anywhere
    return found.end()


def no_constant(word: str) -> Any:
    """Refuse what Python writes for numbers that JSON does not have."""
    raise NotJson


_values = json.JSONDecoder(parse_int=whole_number, parse_constant=lambda word: [word])  # no number, nor a category NaN


def decode_values(texts: list[str]) -> list[Any]:
    """Return the values that texts of single values stand for; for one that is no JSON, a container, which is no value.

    Examples
    --------
    >>> decode_values(["1", '"a"', "null", "01", "NaN"])
    [1, 'a', None, ['01'], ['NaN']]
    """
    try:
        values: list[Any] = _values.decode(f"[{','.join(texts)}]")
        if len(values) == len(texts):
            return values
    except (ValueError, RecursionError):
        pass
    return [_decoded(text) for text in texts]


def _decoded(text: str) -> Any:
    try:
        return _values.decode(text)
    except (ValueError, RecursionError):
        return [text]


def rewritten(text: str) -> str:
    r"""Return the one text of a single value, however it was written.

    Whole numbers stay whole; all others are written as the shortest double, or where none is equal with all digits.

    Raises
    ------
    NotJson
        If the text is no number, text, truth or null of JSON: NaN and Infinity are none.

    Examples
    --------
    >>> [rewritten(text) for text in ("7.50", "1E2", '"\\u0041"', "true")]
    ['7.5', '100.0', '"A"', 'true']
    """
    if SAME.fullmatch(text):
        return text
    if NUMBER.fullmatch(text):
        return _number(text)
    try:
        value = json.loads(text, parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise NotJson from None
    if not isinstance(value, str):  # what nests could hold any other column
        raise NotJson
    return string(value)


def string(text: str) -> str:
    """Return a text as JSON has it; a half of a surrogate pair, which no UTF-8 holds, as its escape."""
    return json.dumps(text, ensure_ascii=any("\ud800" <= letter <= "\udfff" for letter in text))


def _number(text: str) -> str:
    """Return a number's one text: of whole ones as they are, else of the shortest double, or of all digits."""
    if WHOLE.fullmatch(text):
        return "0" if text == "-0" else text
    shortest = repr(float(text))
    try:
        exact = Decimal(text)
        if shortest == text or Decimal(shortest) == exact:
            return shortest
        sign, figures, exponent = exact.as_tuple()
    except ArithmeticError:  # an exponent beyond all bounds
        return text
    assert isinstance(exponent, int)  # it is finite
    digits = "".join(map(str, figures))
    bare = digits.rstrip("0")
    return f"{'-' * sign}{bare}e{exponent + len(digits) - len(bare)}"
