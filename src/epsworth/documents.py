"""TOML and JSON texts read safely: whatever they hold, the answer is a document of modest depth, or one sentence."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from epsworth.numerals import fits, short

DEPTH = 32
HELD = 1023  # bits of a whole number that a double can hold
FOREIGN = (  # how sentences of the interpreter and of NumPy begin
    "invalid literal", "could not convert", "setting an array", "cannot ", "could not broadcast", "operands ",
    "not enough values", "too many values", "zip()", "all the input", "all input", "math domain", "axis",
)  # fmt: skip
LONGEST = 4000  # characters of a whole number that Python turns into one
# names joined by dots open one table each; the reader of the standard library takes a time quadratic in their number
_PART = r"""(?:(?<![\w-])[\w-]++|"[^"\n]*"|'[^'\n]*')[ \t]*+"""
_DOTTED = re.compile(rf"(?:{_PART}\.[ \t]*+){{{DEPTH}}}{_PART}")


def read_toml(text: str, number: Callable[[str], Any] = float) -> dict[str, Any]:
    """Return the document of a TOML text; what cannot be used is refused, naming its path in the document.

    Parameters
    ----------
    number : callable
        From the text of a number that is not whole to what stands for it: `float`, or `Decimal` to keep every digit.

    Examples
    --------
    >>> read_toml("a.b = [1, 2.5]")
    {'a': {'b': [1, 2.5]}}
    """
    if _DOTTED.search(text):
        raise ValueError(f"a name has more than {DEPTH} parts; write nested tables of modest depth")
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"), parse_float=lambda word: _number(word, number))
    except RecursionError:
        raise _too_deep() from None
    _check(document)
    return document


def read_json(text: str | bytes) -> Any:
    """Return the document of a JSON text; what cannot be used is refused, naming its path in the document.

    Examples
    --------
    >>> read_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    if isinstance(text, str):
        text = text.removeprefix("\ufeff")
    try:
        document = json.loads(text, object_pairs_hook=_members, parse_int=_whole)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError:
        raise ValueError("holds no JSON but binary, or text that is not UTF-8; give a file of JSON") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"holds no JSON ({error}); give a file of JSON, whole") from None
    _check(document, HELD)
    return document


def in_words(error: Exception) -> str:
    """Return what is wrong with a document that fits no result, without the words of the interpreter.

    Examples
    --------
    >>> in_words(KeyError("lower")), in_words(TypeError("len() of unsized object"))
    ("'lower' is missing", 'an entry is of another kind than it should be')
    """
    if isinstance(error, KeyError):
        return f"{short(error.args[0])} is missing"
    ours = type(error) is ValueError and not str(error).startswith(FOREIGN)
    return str(error) if ours else "an entry is of another kind than it should be"


def truth(entry: object) -> bool:
    """Return a truth value; whatever else would count as one is refused."""
    if not isinstance(entry, bool):
        raise TypeError("neither true nor false")
    return entry


def texts(entry: object) -> list[str]:
    """Return a list of texts."""
    if not isinstance(entry, list) or not all(isinstance(one, str) for one in entry):
        raise TypeError("no list of texts")
    return entry


def _whole(word: str) -> int:
    if len(word) > LONGEST:
        raise ValueError(f"a whole number in it has {len(word)} digits; round it")
    return int(word)


def _number(word: str, number: Callable[[str], Any]) -> Any:
    try:
        return number(word)
    except InvalidOperation:  # a power of ten beyond what the decimal module itself can hold
        raise ValueError(f"{word[:40]!r} is no number that can be computed with; round it") from None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the entry {name[:40]!r} stands twice in one object; keep one")
        found[name] = value
    return found


def _too_deep() -> ValueError:
    return ValueError(f"the document is nested more than {DEPTH} deep; flatten it")


def _check(document: object, bits: int | None = None) -> None:
    """Refuse depth, and numbers that are not finite or too long (whole ones: for so many bits); no recursion."""
    left: list[tuple[tuple[str | int, ...], object]] = [((), document)]
    while left:
        path, value = left.pop()
        if len(path) > DEPTH:
            raise _too_deep()
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            if isinstance(item, (dict, list)):
                left.append(((*path, key), item))
            elif isinstance(item, (int, float, Decimal)) and not _usable(item, bits):
                raise _unusable(item, (*path, key))


def _usable(number: int | float | Decimal, bits: int | None) -> bool:
    if isinstance(number, float):
        return math.isfinite(number)
    if isinstance(number, int):
        return fits(number) if bits is None else number.bit_length() <= bits
    return fits(number) and number.is_finite()


def _unusable(number: int | float | Decimal, path: tuple[str | int, ...]) -> ValueError:
    where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")
    shown = f", got {number}" if not isinstance(number, int) and len(str(number)) <= 40 else ""
    return ValueError(f"{where}: must be a finite number of modest length{shown}; round it")
