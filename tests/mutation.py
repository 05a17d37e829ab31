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


def replace(monkeypatch: pytest.MonkeyPatch, dotted: str, make: Callable[[Any], Any]) -> None:
    """Replace what ``dotted`` names by ``make(original)`` until the test ends.

    A name in a module is replaced in every loaded module of the package that holds the same object, under whatever
    name; an attribute of a class on that class alone. Class methods, static methods and properties keep their kind.
    Caches of functions are emptied before; call `clear_caches` after the test, too.
    """
    load_all()
    owner, name = _resolve(dotted)
    clear_caches()
    if isinstance(owner, ModuleType):
        original = getattr(owner, name)
        made = make(original)
        for module in _modules():
            for held in [key for key, value in vars(module).items() if value is original]:
                monkeypatch.setattr(module, held, made)
    else:
        monkeypatch.setattr(owner, name, _as(inspect.getattr_static(owner, name), make))


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


def _resolve(dotted: str) -> tuple[Any, str]:
    """Return the module or class that owns a dotted name, and its last word."""
    *words, name = dotted.split(".")
    for length in range(len(words), 0, -1):
        try:
            owner: Any = import_module(".".join(words[:length]))
        except ModuleNotFoundError:
            continue
        for word in words[length:]:
            owner = getattr(owner, word)
        return owner, name
    raise ModuleNotFoundError(dotted)


def _modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and (name == PACKAGE or name.startswith(f"{PACKAGE}.")):
            yield module


def _as(original: Any, make: Callable[[Any], Any]) -> Any:
    """Return the replacement for an attribute of a class, of the same kind."""
    if isinstance(original, classmethod | staticmethod):
        return type(original)(make(original.__func__))
    if isinstance(original, property):
        return property(make(original.fget))
    if isinstance(original, functools.cached_property):
        made = functools.cached_property(make(original.func))
        made.attrname = original.attrname
        return made
    return make(original)
