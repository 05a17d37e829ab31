"""Mutants: named functions, methods, properties and constants of the library that are replaced by unsafe ones.

A mutant says what it replaces by its dotted name, which claim of ``docs/claims.md`` it breaks, and which test must
notice.  It quotes no source, so that it survives a change of the code that keeps the promise.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation import replacements

HERE = Path(__file__).parent


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


def plant(one: Mutant) -> None:
    """Put the mutant where the original is, in every module that has imported it by name, too."""
    for owner, name, new in replacements(one.of, one.make):
        setattr(owner, name, new)
