"""Mutants: named functions, methods, properties and constants of the library that are replaced by unsafe ones.

A mutant says what it replaces by its dotted name, which claim of ``docs/claims.md`` it breaks, and which test must
notice.  It quotes no source, so that it survives a change of the code that keeps the promise.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PLAIN = (bool, int, float, str, bytes, tuple, frozenset)  # constants that are alike wherever they are imported by name


@dataclass(frozen=True)
class Mutant:
    """What is replaced, by what a maker gives for the original, and which test of which claim must fail then."""

    name: str
    of: str
    make: Callable[[Any], Any]
    claim: str
    test: str


MUTANTS: dict[str, Mutant] = {}


def mutant(of: str, *, claim: str, test: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Register a maker, which is given what stands at a dotted name and returns what is to stand there.

    Of methods and properties the maker is given the function alone, whatever wraps it, and returns a function.
    """

    def register(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        if make.__name__ in MUTANTS:
            raise ValueError(f"two mutants are called {make.__name__}")
        MUTANTS[make.__name__] = Mutant(make.__name__, of, make, claim, test)
        return make

    return register


def all_mutants() -> dict[str, Mutant]:
    """Return the mutants of all modules of this folder, by name."""
    for path in sorted(HERE.glob("*.py")):
        if not path.name.startswith(("test_", "__", "planting")):
            importlib.import_module(path.stem)
    return MUTANTS


def resolved(of: str) -> tuple[Any, str]:
    """Return what holds the thing of a dotted name, a module or a class, and its name there."""
    parts = of.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            owner = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if not of.startswith(f"{error.name}."):
                raise
            continue
        for name in parts[length:-1]:
            owner = vars(owner)[name]
        if parts[-1] not in vars(owner):
            raise LookupError(f"{of}: {owner.__name__} has no {parts[-1]} of its own")
        return owner, parts[-1]
    raise LookupError(f"{of}: there is no such module")


def plant(one: Mutant) -> None:
    """Put the mutant where the original is, in every module that has imported it by name, too."""
    owner, name = resolved(one.of)
    original = vars(owner)[name]
    new = _in_kind(original, one.make)
    if new is original or (isinstance(original, PLAIN) and new == original):
        raise ValueError(f"{one.name} leaves {one.of} as it is")
    setattr(owner, name, new)
    for module in [module for key, module in sys.modules.items() if key.partition(".")[0] == "epsworth"]:
        for held, value in list(vars(module).items()):
            if _alike(held, value, name, original):
                setattr(module, held, new)


def _alike(held: str, value: Any, name: str, original: Any) -> bool:
    if not isinstance(original, PLAIN):
        return value is original
    return held == name and type(value) is type(original) and value == original


def _in_kind(original: Any, make: Callable[[Any], Any]) -> Any:
    if isinstance(original, staticmethod | classmethod):
        return type(original)(make(original.__func__))
    if isinstance(original, property):
        return property(make(original.fget))
    if isinstance(original, functools.cached_property):
        new = functools.cached_property(make(original.func))
        new.__set_name__(None, original.attrname)  # type: ignore[arg-type]
        return new
    return make(original)
