"""Replacement of one function, method or constant wherever the package holds it."""

from __future__ import annotations

import contextlib
import functools
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

PACKAGE = "epsworth"
PLAIN = (bool, int, float, str, bytes, tuple, frozenset)  # constants that are alike wherever they are imported by name


def replace(monkeypatch: pytest.MonkeyPatch, dotted: str, make: Callable[[Any], Any]) -> None:
    """Replace what ``dotted`` names by ``make(original)`` until the test ends.

    Caches of functions are emptied before; call `clear_caches` after the test, too.
    """
    load_all()
    clear_caches()
    for owner, name, new in replacements(dotted, make):
        monkeypatch.setattr(owner, name, new)


def replacements(dotted: str, make: Callable[[Any], Any]) -> list[tuple[Any, str, Any]]:
    """Return what is to be set where, so that ``make(original)`` stands wherever ``dotted`` is held.

    A name in a module is replaced in every loaded module of the package that holds the same object, under whatever
    name; a plain constant where it has its own name; an attribute of a class on that class alone.  Of methods and
    properties ``make`` is given the function alone, whatever wraps it, and returns a function.
    """
    owner, name = resolved(dotted)
    original = vars(owner)[name]
    new = _in_kind(original, make)
    if new is original or (isinstance(original, PLAIN) and new == original):
        raise ValueError(f"{dotted} is left as it is")
    found = [(owner, name, new)]
    for module in _modules():
        for held, value in vars(module).items():
            if module is not owner and _alike(held, value, name, original):
                found.append((module, held, new))
    return found


@functools.cache
def load_all() -> None:
    """Load every module of the package, and every public name: one loaded later would keep what is replaced."""
    package = import_module(PACKAGE)
    for found in pkgutil.walk_packages(package.__path__, f"{PACKAGE}.", onerror=lambda name: None):
        if not found.name.endswith(".__main__"):
            with contextlib.suppress(ImportError):  # of extras that are not installed
                import_module(found.name)
    for module in list(_modules()):
        for name in getattr(module, "__all__", ()):
            with contextlib.suppress(ImportError):
                getattr(module, name)


def clear_caches() -> None:
    """Empty the caches of all functions and methods of the package's loaded modules."""
    for module in _modules():
        for value in list(vars(module).values()):
            members = vars(value).values() if isinstance(value, type) and value.__module__ == module.__name__ else ()
            for held in (value, *members):
                held = inspect.unwrap(held, stop=lambda f: hasattr(f, "cache_clear")) if callable(held) else held
                clear = getattr(held, "cache_clear", None)
                if callable(clear) and not isinstance(held, type | ModuleType):
                    clear()


def resolved(dotted: str) -> tuple[Any, str]:
    """Return what holds the thing of a dotted name, a module or a class, and its name there."""
    parts = dotted.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if not dotted.startswith(f"{error.name}."):
                raise
            continue
        for name in parts[length:-1]:
            owner = vars(owner)[name]
        if parts[-1] not in vars(owner):
            if not isinstance(owner, ModuleType) or not hasattr(owner, parts[-1]):  # loaded on first use
                raise LookupError(f"{dotted}: {owner.__name__} has no {parts[-1]} of its own")
            setattr(owner, parts[-1], getattr(owner, parts[-1]))
        return owner, parts[-1]
    raise LookupError(f"{dotted}: there is no such module")


def _modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and (name == PACKAGE or name.startswith(f"{PACKAGE}.")):
            yield module


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
