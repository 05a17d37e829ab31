"""What arguments may be: each check names the field, what was given and what is allowed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats

SHORTEST = 1e-100
LEAST_BETA = 2.0**-50
LARGEST = 1e15  # of a count


def positive(value: object, field: str, *, zero: bool = False) -> float:
    """Check a number that must be positive (or zero) and finite."""
    try:
        number = float(value) if isinstance(value, (int, float, np.integer, np.floating)) else np.nan
    except OverflowError:
        number = np.inf
    if isinstance(value, (bool, np.bool_)) or not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ValueError(f"{field} must be {'not negative' if zero else 'positive'} and finite, got {short(value)}")
    return number


def length(value: object, field: str, *, zero: bool = False) -> float:
    """Check a number in the unit of the answers; its scale is free, but squares and quotients must stay doubles."""
    number = positive(value, field, zero=zero)
    if number and not SHORTEST <= number <= 1 / SHORTEST:
        raise ValueError(f"{field} must lie from {SHORTEST:g} to {1 / SHORTEST:g}, got {number!r}; choose another unit")
    return number


def share(value: object, field: str, *, zero: bool = False) -> float:
    """Check a probability in (0, 1), or in [0, 1)."""
    number = positive(value, field, zero=zero)
    if number >= 1:
        raise ValueError(f"{field} must be below 1, got {value!r}")
    return number


def failure(beta: object) -> float:
    """Check beta; return what 1 - beta, as a double, allows to fail: noises are held to the stricter of both."""
    number = share(beta, "beta")
    if number < LEAST_BETA:
        raise ValueError(f"beta must be at least 1e-15, got {beta!r}: doubles hardly tell 1 - beta from 1")
    return min(number, 1.0 - (1.0 - number))


def whole(value: object, field: str, least: int, most: int) -> int:
    """Check a whole number."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{field} must be a whole number of at least {least}, got {short(value)}")
    if value > most:
        raise ValueError(f"{field} must be at most {most}, got {short(value)}")
    return int(value)


def short(value: object) -> str:
    """Return what was given, in one line."""
    try:
        text = repr(value)
    except ValueError:  # an integer with thousands of digits
        text = "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}..."


def numbers(values: ArrayLike, field: str, *, at_most: float = np.inf) -> Floats:
    """Check an array of finite numbers."""
    try:
        found = as_floats(values)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{field} must be finite numbers, got {short(values)}") from None
    if not (np.isfinite(found) & (np.abs(found) <= at_most)).all():
        limit = "" if np.isinf(at_most) else f" of at most {at_most:g}"
        raise ValueError(f"{field} must be finite numbers{limit}, got {short(values)}")
    return found


def kernel_budget(epsilon: object) -> float:
    """Check an epsilon whose exponential must be a double, and whose square too."""
    number = positive(epsilon, "epsilon")
    if not SHORTEST <= number <= 700:
        raise ValueError(f"epsilon must lie from {SHORTEST:g} to 700, got {short(epsilon)}")
    return number
