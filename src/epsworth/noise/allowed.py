"""What arguments may be: each check names the field, what was given and what is allowed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from epsworth import numerals
from epsworth.arrays import Floats, as_floats
from epsworth.bounds import Risk
from epsworth.numerals import as_float, fits, short

Confidence = float | Fraction
SHORTEST = 1e-100
LEAST_FAILURE = 2.0**-50
LARGEST = 1e15  # of a count
LARGEST_BUDGET = 700.0  # its exponential must be a double
LARGEST_ORDER = 1e6  # of a Renyi divergence


def positive(value: object, field: str, *, zero: bool = False) -> float:
    """Check a number that must be positive (or zero) and finite."""
    number = as_float(value)
    if not 0 <= number < np.inf or (number == 0 and not zero):
        raise ValueError(f"{field} must be {'not negative' if zero else 'positive'} and finite, got {short(value)}")
    return number


def within(value: object, field: str, least: float, most: float, hint: str = "") -> float:
    """Check a number of a closed interval of positive ones."""
    number = positive(value, field)
    if not least <= number <= most:
        raise ValueError(f"{field} must lie from {least:g} to {most:g}, got {short(value)}{hint}")
    return number


def length(value: object, field: str, *, zero: bool = False) -> float:
    """Check a number in the unit of the answers; its scale is free, but squares and quotients must stay doubles."""
    if zero and positive(value, field, zero=True) == 0:
        return 0.0
    return within(value, field, SHORTEST, 1 / SHORTEST, "; choose another unit")


def budget(epsilon: object) -> float:
    """Check an epsilon whose exponential must be a double, and whose square too."""
    return within(epsilon, "epsilon", SHORTEST, LARGEST_BUDGET)


def order(value: object) -> float:
    """Check the order of a Renyi divergence."""
    return within(value, "order", np.nextafter(1.0, 2.0), LARGEST_ORDER)


def share(value: object, field: str, *, zero: bool = False) -> float:
    """Check a probability in (0, 1), or in [0, 1)."""
    number = positive(value, field, zero=zero)
    if number >= 1:
        raise ValueError(f"{field} must be below 1, got {short(value)}")
    return number


def failure(confidence: Confidence) -> float:
    """Check a confidence; return the probability that it leaves to fail, exactly 1 - confidence but rounded down.

    A double is held to the stricter of what it is and what it prints as: 0.95 leaves no more than 1/20.  A fraction
    is exact: ``1 - Fraction("1e-12")`` leaves 1e-12, which no double does.
    """
    if isinstance(confidence, Fraction) and fits(confidence):
        exact = confidence
    else:
        number = positive(confidence, "confidence")
        exact = max(Fraction(number), in_decimals(number))
    if not LEAST_FAILURE <= 1 - exact <= 1 - LEAST_FAILURE:
        raise ValueError(
            f"confidence must lie from 2^-50 to 1 - 2^-50 (doubles tell no larger one from 1), got {short(confidence)}"
        )
    return Risk(1 - exact).spend()


def whole(value: object, field: str, least: int, most: int) -> int:
    """Check a whole number."""
    number = numerals.whole(field, value, least=least)
    if number > most:
        raise ValueError(f"{field} must be at most {most}, got {short(value)}")
    return number


def numbers(values: ArrayLike, field: str, *, at_most: float = np.inf, private: bool = False) -> Floats:
    """Check an array of finite numbers; no message shows private ones."""
    try:
        found = as_floats(values)
    except (TypeError, ValueError, OverflowError):
        found = np.array(np.nan)
    if not (np.isfinite(found) & (np.abs(found) <= at_most)).all():
        limit = "" if np.isinf(at_most) else f" of at most {at_most:g}"
        shown = "" if private else f", got {short(values)}"
        raise ValueError(f"{field} must be finite numbers{limit}{shown}")
    return found


def finite(answers: ArrayLike) -> Floats:
    """Return true answers as an array of finite numbers; they are private, so no message shows one."""
    return numbers(answers, "answers", private=True)


def in_decimals(value: float) -> Fraction:
    """Return the decimal that a number prints as: 0.3 is three times 0.1, although the doubles differ."""
    return Fraction(repr(float(value)))
