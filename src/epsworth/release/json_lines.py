"""The members of one JSON object per line, found by a scanner of our own: where they stand, not what they mean.

What it finds is read again by the standard library before anything is written, so it may take some broken lines for
whole ones, but no line that both take for whole has two meanings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

WHITE = " \t\r\n"  # to JSON; str.strip alone takes away what other readers stumble over
BLANK = re.compile(r"[ \t\r\n]*")
LINE = re.compile(r"[^\n]*\n|[^\n]+")  # str.splitlines would split at line separators inside strings, too
STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')
ATOM = re.compile(r'[^\s,:{}\[\]"]+')
NESTING = re.compile(r'[^"{}\[\]]*+(?:("(?:[^"\\]|\\.)*+")|([{\[])|([}\]]))')
PLAIN = r'(?:"[^"\\]*+"|[^\s,:{}\[\]"]++)'  # a value without nesting or escapes
MEMBER = re.compile(rf'[ \t]*"([^"\\]*)"[ \t]*:[ \t]*({PLAIN})[ \t]*([,}}])')
DIGITS = 300  # of a whole number: more are no category, and beyond 308 no double

Member = tuple[str, int, int]  # name, and the span of the value


class NotJson(ValueError):
    """A line is not one JSON object."""


def members(line: str) -> list[Member]:
    """Return all members of the object that a line holds, in their order."""
    found = _flat_members(line)
    return list(_members(line)) if found is None else found


@lru_cache(maxsize=16)
def layout(names: tuple[str, ...], wanted: frozenset[str]) -> re.Pattern[str]:
    """Return a pattern for objects with just these members, in this order, flat; its groups are the wanted values.

    The lines of a file mostly agree in that, and one pattern per line is three times faster than one per member.
    """
    parts = (rf'[ \t]*"{re.escape(n)}"[ \t]*:[ \t]*{f"({PLAIN})" if n in wanted else PLAIN}[ \t]*' for n in names)
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


def whole_number(digits: str) -> int | float:
    """Read a whole number, one of very many digits as a double."""
    return int(digits) if len(digits) <= DIGITS else float(digits)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, in any depth, no member of which may stand there twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJson
    return found


def no_constant(word: str) -> Any:
    """Refuse what Python writes for numbers that JSON does not have."""
    raise NotJson


# Python writes NaN and Infinity, which JSON lacks: without `others` they pass where nothing is perturbed, and are no
# value to perturb
_values = json.JSONDecoder(parse_int=whole_number, parse_constant=lambda word: [word])  # nor a category NaN
_flat = json.JSONDecoder(parse_int=whole_number)
_unique_names = json.JSONDecoder(parse_int=whole_number, object_pairs_hook=unique)
_strict_flat = json.JSONDecoder(parse_int=whole_number, parse_constant=no_constant)
_strict = json.JSONDecoder(parse_int=whole_number, parse_constant=no_constant, object_pairs_hook=unique)
decode: Callable[[str], Any] = _values.decode


def decode_values(texts: list[str]) -> list[Any]:
    """Return the values that texts of single values stand for.

    Examples
    --------
    >>> decode_values(["1", '"a"', "null"])
    [1, 'a', None]
    """
    values: list[Any] = decode(f"[{','.join(texts)}]")
    if len(values) != len(texts):
        raise NotJson
    return values


def decode_objects(lines: list[str], flat: int = 0, *, strict: bool = False) -> list[dict[str, Any]]:
    """Return what another reader finds in lines of one object each, no member of which may stand there twice.

    Parameters
    ----------
    flat : int
        If not 0, all objects have so many members without nesting: counting them is three times faster than a look at
        every name.
    strict : bool
        Refuse NaN and Infinity.
    """
    decoder = (_strict_flat if strict else _flat) if flat else _strict if strict else _unique_names
    found: list[dict[str, Any]] = decoder.decode(f"[{','.join(lines)}]")
    if len(found) != len(lines) or (flat and set(map(len, found)) != {flat}):
        raise NotJson
    return found


def is_json(text: str, *, strict: bool = False) -> bool:
    """Tell whether a text is one JSON value (``strict``: without NaN), and no object in it names a member twice."""
    try:
        (_strict if strict else _unique_names).decode(text)
    except (ValueError, RecursionError):
        return False
    return True
