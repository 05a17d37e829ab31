"""Functions of the caller, who is told how far a long computation is, or sees what it has found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from epsworth.numerals import short

Called = TypeVar("Called", bound=Callable[..., object])


def check_callback(field: str, function: Called | None) -> Called | None:
    """Return a function, or None, or refuse before any work what could not be called after it.

    Examples
    --------
    >>> check_callback("progress", 5)
    Traceback (most recent call last):
    TypeError: progress must be a function that is called meanwhile, or None, got 5
    """
    if function is None or callable(function):
        return function
    raise TypeError(f"{field} must be a function that is called meanwhile, or None, got {short(function)}")
