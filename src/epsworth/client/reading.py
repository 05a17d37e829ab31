"""A policy's JSON, read strictly: what two readers could take differently, and what is no such policy, is refused."""

from __future__ import annotations

import hashlib
import json
import math
import re

TYPE_CHECKING = False  # typing alone would take longer to import than all the rest
if TYPE_CHECKING:
    from typing import Any

FORMAT = "epsworth-client-1"
LONGEST = 1 << 26  # letters of a policy
DEPTH = 16
DIGITS = 40  # letters of a number
WHOLE = 1 << 53  # whole numbers below it are the same in every language
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)
EPSILON = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.[0-9]{1,420})?")
DIGEST = re.compile(r"[0-9a-f]{64}")
FINGERPRINT = re.compile(r'\{"fingerprint": "([0-9a-f]{64})", ')


def fingerprint(text: str) -> str:
    """Return the fingerprint that a policy's text begins with, if it is that of all the rest.

    It is the SHA-256 of the text without that member: of the very letters, so that no two languages can differ in how
    they write a number.
    """
    if not isinstance(text, str):
        raise TypeError("the policy must be a text of JSON; read the file first")
    if len(text) > LONGEST:
        raise ValueError("the policy is longer than 64 MiB; write it anew")
    stated = FINGERPRINT.match(text)
    if stated is None or not text.isascii():
        raise ValueError("fingerprint: must be what the policy begins with; give the file that epsworth client writes")
    if hashlib.sha256(b"{" + text[stated.end() :].encode()).hexdigest() != stated[1]:
        raise ValueError(
            "fingerprint: is not that of the content, which was edited after it was written; write it anew"
        )
    return stated[1]


def read(text: str) -> Any:
    """Return the document of a text without repeated members, NaN, or numbers that a language would round."""
    depth = 0
    for token in TOKEN.finditer(text):
        depth += 1 if token[0] in "[{" else -1 if token[0] in "]}" else 0
        if depth > DEPTH:
            raise ValueError(f"the policy is nested more than {DEPTH} deep; write it anew")
    try:
        return json.loads(
            text, object_pairs_hook=_members, parse_constant=_refused, parse_int=_whole, parse_float=_double
        )
    except json.JSONDecodeError:
        raise ValueError("the policy is no JSON; give the file that epsworth client writes, whole") from None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("the policy names a member twice; write it anew")
    return found


def _refused(word: str) -> Any:
    raise ValueError(f"the policy holds {word}, which is no number of JSON; write it anew")


def _whole(word: str) -> int | float:
    if len(word) > DIGITS or abs(int(word)) >= WHOLE:
        raise ValueError("the policy holds a whole number of 2^53 or more; write it as a text")
    return -0.0 if word == "-0" else int(word)


def _double(word: str) -> float:
    if len(word) > DIGITS or not math.isfinite(float(word)):
        raise ValueError("the policy holds a number that is not finite, or too long; write it anew")
    return float(word)


def table(where: str, given: Any, needed: tuple[str, ...], more: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return an object that has all needed members and no unknown one."""
    if type(given) is not dict:
        raise ValueError(f"{where}: must be an object; write the policy anew")
    for key in needed:
        if key not in given:
            raise ValueError(f"{where}: lacks {key}; write the policy anew")
    if any(key not in (*needed, *more) for key in given):
        raise ValueError(f"{where}: has a member that this client does not know; use a newer one")
    return given


def texts(where: str, given: Any) -> list[str]:
    """Return a list of different texts."""
    if type(given) is not list or not all(type(one) is str for one in given) or len(set(given)) < len(given):
        raise ValueError(f"{where}: must be a list of different texts; write the policy anew")
    return given


def whole(where: str, given: Any, least: int, most: int) -> int:
    """Return a whole number within bounds; 3.0 is one, as in languages that know one kind of number."""
    if type(given) not in (int, float) or given != int(given) or not least <= given <= most:
        raise ValueError(f"{where}: must be a whole number from {least} to {most}; write the policy anew")
    return int(given)


def number(where: str, given: Any) -> float:
    """Return a double."""
    if type(given) not in (int, float):
        raise ValueError(f"{where}: must be a number; write the policy anew")
    return float(given)
