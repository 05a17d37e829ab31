"""The fields of a study, one check each: what a file may hold, whoever wrote it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from epsworth.csv_grammar import SEPARATORS
from epsworth.numerals import as_float, exact_decimal, positive, share, short, whole
from epsworth.space import Domain, Feature
from epsworth.studies.inputs import MOST_EPSILONS, epsilon_grid, families

VERSION = 1
LONGEST = 4096  # letters of a name or a path
MOST_NAMES = 1000
SEEDS = 2**63 - 1  # the largest whole number of TOML
SERVICE = {"budget": 10**12, "batch": 10**6}  # most of what counts records
WAYS = ("tensor", "columns")


def text(field: str, value: object) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value or "\0" in value or len(value) > LONGEST:
        raise ValueError(f"{field} must be a text of 1 to {LONGEST} letters, got {short(value)}; write it in quotes")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{field} holds half of a letter (a lone surrogate), which no file can; rename it")
    return value


def file(field: str, value: object) -> str:
    """Return the name of a file; a Path stands for its text."""
    value = str(value) if isinstance(value, Path) else value
    if text(field, value) == "-":
        raise ValueError(f"{field} is '-', standard input, which nobody can ask again; name a file")
    return str(value)


def texts(field: str, value: object) -> tuple[str, ...]:
    """Return texts of which no two are the same; one may stand alone."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Sequence) or not 1 <= len(listed) <= MOST_NAMES:
        raise ValueError(f'{field} must be a list of texts such as ["age", "bmi"], got {short(value)}')
    found = tuple(text(f"{field}[{i}]", one) for i, one in enumerate(listed))
    for one in found:
        if found.count(one) > 1:
            raise ValueError(f"{field} names {short(one)} twice; keep one")
    return found


def mechanisms(field: str, value: object) -> tuple[str, ...]:
    """Return mechanisms by their words, spelt out; whether there are such families is checked here."""
    from epsworth.mechanisms.family import family, is_tailored

    named = tuple(families(texts(field, value)))
    for word in named:
        if not is_tailored(word):
            try:
                family(word).build(1.0)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{field}: {error}") from None
    return texts(field, named)


def epsilons(field: str, value: object) -> str:
    """Return a grid as the text that states it: of numbers in a list their own texts, with every digit."""
    value = _listed(field, value)
    if isinstance(value, list):
        value = ",".join(_stated(f"{field}[{i}]", one) for i, one in enumerate(value))
    elif isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        value = _stated(field, value)
    if not isinstance(value, str) or len(value) > 64 * MOST_EPSILONS:
        raise ValueError(f'{field} must be a text such as "1:8:1", or a list of numbers, got {short(value)}')
    grid = epsilon_grid(value, field)
    if len(grid) > MOST_EPSILONS:
        raise ValueError(f"{field}: more than {MOST_EPSILONS} values; take fewer")
    if not grid[0] > 0 or any(not low < high for low, high in pairwise(grid)):
        raise ValueError(f"{field} must be positive and increase, got {short(value)}; sort them, each once")
    return value


def _listed(field: str, value: object) -> object:
    """Return a sequence of numbers, or an array, as a list of Python's own; one number, or a text, as it is."""
    value = _plain(value)
    if isinstance(value, (str, bytes, bytearray)) or not (isinstance(value, Sequence) or getattr(value, "shape", None)):
        return value
    if len(value) > MOST_EPSILONS:  # type: ignore[arg-type]  # what has a shape has a length
        raise ValueError(f"{field}: more than {MOST_EPSILONS} values; take fewer")
    if np.ma.is_masked(value):
        raise ValueError(f"{field} masks some of its entries; leave these out")
    return [_plain(one) for one in (value if isinstance(value, Sequence) else np.asarray(value))]


def _plain(value: object) -> object:
    """Return a number of numpy's as Python's own, whose text states it exactly."""
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 else value


def _stated(field: str, value: object) -> str:
    exact_decimal(field, value)
    return str(value)  # as it is stated


def domain(field: str, value: object) -> str | Domain:
    """Return the name of a file with public ranges, or the ranges themselves."""
    if isinstance(value, Domain):
        return value
    if isinstance(value, Mapping):
        if not value:
            raise ValueError(f"{field} is an empty table; write one section [{field}.NAME] per feature, or a file")
        if any(isinstance(one, (tuple, list, Feature)) for one in value.values()):
            return Domain.of(value)
        try:
            return Domain.from_dict({"features": value})
        except ValueError as error:
            raise ValueError(f"{field}.{str(error).removeprefix('features.')}") from None
    return file(field, value)


def one_of(*words: str) -> Callable[[str, object], str]:
    """Return the check of a word."""

    def check(field: str, value: object) -> str:
        if value not in words:
            raise ValueError(f"{field} must be {' or '.join(map(repr, words))}, got {short(value)}")
        return str(value)

    return check


def method(field: str, value: object) -> str:
    """Return who is to answer."""
    from epsworth.utility.engines.run import known, methods

    if not isinstance(value, str) or not known(value):
        raise ValueError(f"{field} must be one of {', '.join(map(repr, methods()))}, got {short(value)}")
    return value


def view(field: str, value: object) -> str | int:
    """Return what is looked at: the average, the worst case, or a record by its number."""
    if isinstance(value, str) and value not in ("average", "worst"):
        raise ValueError(f"{field} must be 'average', 'worst' or a record number from 0, got {short(value)}")
    return value if isinstance(value, str) else whole(field, value, least=0)


def number(allowed: str, fits: Callable[[float], bool]) -> Callable[[str, object], float]:
    """Return the check of a number."""

    def check(field: str, value: object) -> float:
        if not fits(found := as_float(value)):
            raise ValueError(f"{field} must {allowed}, got {short(value)}")
        return found

    return check


def service(field: str, value: object) -> dict[str, Any]:
    """Return how a service is asked: nothing of it names a file, or a secret."""
    allowed = (*SERVICE, "timeout", "inputs", "output")
    if not isinstance(value, Mapping):
        raise ValueError(f"{field} must be a table with {', '.join(allowed)}, got {short(value)}")
    found: dict[str, Any] = {}
    for name, given in value.items():
        where = f"{field}.{name}"
        if name in SERVICE:
            found[name] = whole(where, given, least=1, most=SERVICE[name])
        elif name == "timeout":
            found[name] = positive(where, given)
        elif name == "inputs":
            found[name] = one_of(*WAYS)(where, given)
        elif name == "output":
            found[name] = text(where, given)
        else:
            raise unknown(name, allowed, where)
    return found


def truth(field: str, value: object) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{field} must be true or false, got {short(value)}")
    return value


CHECKS: dict[str, Callable[[str, object], Any]] = {
    "model": file,
    "table": file,
    "sensitive": texts,
    "domain": domain,
    "mechanisms": mechanisms,
    "epsilons": epsilons,
    "per": one_of("record", "feature"),
    "target": text,
    "sep": one_of(*SEPARATORS),
    "at_least": number("lie in (0, 1]", lambda found: 0 < found <= 1),
    "on": view,
    "of": one_of("stability", "accuracy"),
    "delta": number("lie in [0, 1)", lambda found: 0 <= found < 1),
    "max_epsilon": number("be positive and finite", lambda found: 0 < found < math.inf),
    "at_most_sure": number("lie strictly between 0.5 and 1", lambda found: 0.5 < found < 1),
    "method": method,
    "over": one_of("auto", "records", "dataset"),
    "confidence": share,
    "tolerance": number("lie strictly between 0 and 0.5", lambda found: 0 < found < 0.5),
    "quantise": partial(whole, least=2, most=10**6),
    "seed": partial(whole, least=0, most=SEEDS),
    "service": service,
    "surroundings": truth,
}
ELSEWHERE = {  # what is never said in a study file, and where it is
    "trust": "a study file cannot trust the model that it names; pass --trust where you run it, if you made that model",
    "send": "a study file cannot have records sent; pass --send where you run it",
    "cache": "a study file names no file that is written; pass --cache where you run it",
}


def unknown(name: str, allowed: Sequence[str], where: str | None = None) -> ValueError:
    """Return the refusal of an entry: the nearest that there is, or all of them."""
    if name in ELSEWHERE:
        return ValueError(f"{where or name}: {ELSEWHERE[name]}")
    close = difflib.get_close_matches(name, allowed, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(allowed)}"
    return ValueError(f"unknown entry {short(where or name)}; {hint}")
