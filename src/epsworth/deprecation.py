"""Spellings of before, which work for one version more and say what to write instead."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Convert = Callable[[Any], Any]

METHODS = {
    "closed-form": "label",
    "exact-grid": "grid",
    "exact-cells": "cells",
    "branch-and-bound": "branch_and_bound",
    "bound-propagation": "propagation",
    "lattice-bracket": "lattice",
    "polygon": "polygons",
    "exit-scales": "rays",
    "sections": "slabs",
    "shared-samples": "strata",
    "monte-carlo": "sampled",
}  # what `Curves.method` showed in version 0.1


def warn(old: str, new: str, *, depth: int = 3) -> None:
    """Say what to write instead of a deprecated spelling; ``depth`` frames up is who wrote it."""
    warnings.warn(f"{old} is deprecated and goes with the next version; write {new}", FutureWarning, stacklevel=depth)


def renamed(
    *, positional: Sequence[str] = (), **old: str | tuple[str, Convert]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept deprecated names of keywords, with a warning.

    Parameters
    ----------
    positional : sequence of str
        Deprecated names of arguments that could once be given by position, behind those that still can.
    **old : str or (str, callable)
        Deprecated name = new name, or the new name and what turns the old value into the new one.

    Examples
    --------
    >>> @renamed(level=("confidence", lambda level: 1 - level))
    ... def certify(*, confidence=0.95):
    ...     return confidence
    >>> with warnings.catch_warnings(action="ignore"):
    ...     certify(level=0.25)
    0.75
    """
    import inspect  # here: `import epsworth` renames nothing, and need not wait for it

    def accept(function: Callable[P, R]) -> Callable[P, R]:
        name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
        fixed = sum(
            kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds
        )

        @wraps(function)
        def accepting(*args: P.args, **kwargs: P.kwargs) -> R:
            given: dict[str, Any] = dict(kwargs)
            beyond = args[fixed:] if len(args) <= fixed + len(positional) else ()  # too many: Python says so itself
            for word, value in zip(positional, beyond, strict=False):
                if word in given:
                    raise TypeError(f"{name}() got multiple values for argument {word!r}")
                given[word] = value
            for word in [word for word in given if word in old]:
                entry = old[word]
                new, convert = (entry, None) if isinstance(entry, str) else entry
                if new in given:
                    raise TypeError(f"{name}() got {word} and {new}, which mean the same; give {new} alone")
                warn(f"{word}= of {name}()", f"{new}=")
                value = given.pop(word)
                given[new] = value if convert is None else convert(value)
            return function(*args[: len(args) - len(beyond)], **given)  # type: ignore[arg-type]

        return accepting

    return accept


def alias(old: str, new: str, convert: Convert | None = None) -> property:
    """Return a property that reads attribute ``new`` under its deprecated name."""

    def read(self: Any) -> Any:
        warn(f"{type(self).__name__}.{old}", new)
        value = getattr(self, new)
        return value if convert is None else convert(value)

    return property(read, doc=f"Deprecated: `{new}`.")


def read_renamed(document: Mapping[str, Any], **old: str) -> dict[str, Any]:
    """Return a document with its deprecated keys under their new names."""
    return {old.get(key, key): value for key, value in document.items()}
