"""TOML and JSON texts read safely: whatever they hold, the answer is a document of modest depth, or one sentence."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from decimal import Decimal, InvalidOperation
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from epsworth.numerals import fits, short
from epsworth.refusals import is_ours

DEPTH = 32
PLAIN = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
HELD = 1023  # bits of a whole number that a double can hold
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
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"holds no TOML ({error}); give a file of TOML, whole") from None
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
        raise ValueError(
            f"holds no JSON (from line {error.lineno}, column {error.colno} on); give a file of JSON, whole"
        ) from None
    _check(document, HELD)
    return document


def json_of(document: Mapping[str, Any]) -> bytes:
    r"""Return a mapping as JSON, numbers and arrays of libraries as its own, for `read_json` to check.

    Examples
    --------
    >>> json_of({"a": [1, 2.5]})
    b'{"a": [1, 2.5]}\n'
    """
    try:
        text = json.dumps(dict(document), default=_plain, check_circular=False)
    except RecursionError:  # what holds itself, too
        raise _too_deep() from None
    except TypeError:
        raise ValueError("names an entry by what is no text; pass what to_dict returns") from None
    except ValueError as error:
        raise ValueError(str(error) if is_ours(error) else "a whole number in it is too long; round it") from None
    return f"{text}\n".encode()


def _plain(value: Any) -> Any:
    if not (isinstance(value, Decimal) or type(value).__module__ == "numpy"):
        raise ValueError(f"holds {short(value)}, which JSON cannot; pass what to_dict returns")
    return value.tolist() if hasattr(value, "tolist") else float(value)


def in_words(error: Exception) -> str:
    """Return what is wrong with a document that fits no result, without the words of the interpreter.

    Examples
    --------
    >>> in_words(KeyError("lower")), in_words(TypeError("len() of unsized object"))
    ("'lower' is missing", 'an entry is of another kind than it should be')
    """
    if isinstance(error, KeyError):
        return f"{short(error.args[0])} is missing"
    if isinstance(error, ValueError) and is_ours(error):
        return str(error)
    return "an entry is of another kind than it should be"


def read_as(kind: Any, entry: Any, where: str = "", **ready: Any) -> Any:
    """Return an entry as what a type says: plain values, lists, arrays, and dataclasses with the fields that they name.

    Nothing is read between the lines: whether the numbers of a file agree with one another is not asked.

    Parameters
    ----------
    kind : type
        A dataclass that has ``from_dict`` is read by it, within others.
    where : str
        The entry's place in its document, for errors.
    ready : object
        Fields of a dataclass that need no reading.

    Examples
    --------
    >>> read_as(tuple[float, ...], [1, 2.5]), read_as(str | None, None)
    ((1.0, 2.5), None)
    >>> read_as(int, "one", "records")
    Traceback (most recent call last):
    ValueError: records must be a whole number, got a str
    """
    kinds, origin = get_args(kind), get_origin(kind)
    if (alias := getattr(origin, "__value__", None)) is not None:  # NumPy's arrays from 2.5 on
        return read_as(alias[kinds], entry, where)
    if kind is Any:
        return entry
    if origin in (Union, UnionType):
        if entry is None and type(None) in kinds:
            return None
        own = [one for one in kinds if one is not type(None)]
        plain = [one for one in own if one in PLAIN and _fits(one, entry)]
        return read_as((plain or own)[0], entry, where)
    if kind in PLAIN or origin is Literal:
        if entry not in kinds if origin is Literal else not _fits(kind, entry):
            wanted = f"one of {', '.join(map(str, kinds))}" if origin is Literal else PLAIN[kind]
            raise ValueError(f"{where} must be {wanted}, got a {type(entry).__name__}")
        return entry if origin is Literal else kind(entry)
    try:
        return _read_parts(kind, origin, kinds, entry, where, ready)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        if where:
            raise ValueError(f"{where}: {in_words(error)}") from None
        raise


def _read_parts(kind: Any, origin: Any, kinds: Any, entry: Any, where: str, ready: dict[str, Any]) -> Any:
    import numpy as np  # here: the command line reads TOML before it needs arrays

    if origin is tuple and isinstance(entry, list):
        return tuple(read_as(kinds[0], one, f"{where}[{i}]".lstrip("[")) for i, one in enumerate(entry))
    if origin is np.ndarray and isinstance(entry, list):
        found, (dtype,) = np.array(entry), get_args(kinds[1])
        return found if dtype is Any else found.astype(dtype, casting="same_kind" if found.size else "unsafe")
    if isinstance(entry, Mapping):
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {str(name): read_as(kinds[1], one, name) for name, one in entry.items()}
        if where and hasattr(kind, "from_dict"):
            return kind.from_dict(entry)
        hints = get_type_hints(kind)
        for field in fields(kind):
            if field.name not in ready and (field.name in entry or field.default is MISSING):
                ready[field.name] = read_as(hints[field.name], entry[field.name], field.name)
        return kind(**ready)
    raise TypeError("of another kind")


def _fits(kind: Any, entry: object) -> bool:
    """Tell whether JSON's value is one of a plain type; whole numbers are numbers, truth values are not."""
    if kind is float:
        return isinstance(entry, (int, float)) and not isinstance(entry, bool)
    return type(entry) is kind


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
    finite = number.is_finite() if isinstance(number, Decimal) else isinstance(number, int) or math.isfinite(number)
    kind, what = (" of modest length", "round it") if finite else ("", "give one, or leave it out")
    return ValueError(f"{where}: must be a finite number{kind}{shown}; {what}")


def as_table(where: str, entry: object) -> Mapping[str, Any]:
    """Return an entry of a document as a table, or refuse it by its path."""
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where}: must be a table, got {short(entry)}")
    return entry


def known_table(where: str, entry: object, keys: tuple[str, ...]) -> Mapping[str, Any]:
    """Return a table whose entries are all known."""
    table = as_table(where, entry)
    check_known(where, table, keys)
    return table


def check_known(where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    """Refuse entries of a table that are none of those known."""
    for key in table:
        if key not in keys:
            raise ValueError(f"{where and where + '.'}{key}: unknown entry; the entries are {', '.join(keys)}")


def with_floats(value: object) -> Any:
    """Return what is compared with a table's values as these values are: floats, where the text has decimals."""
    if isinstance(value, list):
        return [with_floats(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value
