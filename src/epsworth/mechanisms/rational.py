"""Exact numbers: epsilon as its text says it, e^x from below, losses and deltas from above. No float decides anything.

Every promise is tested as ``ratio <= E`` between integers and fractions, with E a rational number *below* e^epsilon.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from epsworth.client.kernels import EPSILON_RANGE, exp_below
from epsworth.numerals import DIGITS, fits, short

Exact = str | int | float | Fraction | Decimal | np.integer[Any] | np.floating[Any]


def stated(value: Exact, field: str) -> Fraction:
    """Return the positive number that a text states.

    A float means the text that it prints as: 0.1 is one tenth, although the double exceeds it.  Where the
    nearest double is *smaller* than the text (0.3), the double is taken: a promise is safe whichever way
    it is read.

    Examples
    --------
    >>> stated("0.1", "epsilon"), stated(0.1, "epsilon")
    (Fraction(1, 10), Fraction(1, 10))
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Fraction, Decimal)):
        raise TypeError(f"{field} must be a number or its text, got {short(value)}; write it as in '0.5'")
    if not fits(value):
        raise ValueError(
            f"{field} must be positive and finite, of at most {DIGITS} digits before and after the point; round it"
        )
    try:
        number = Fraction(repr(float(value)) if isinstance(value, float) else value)
        nearest = float(number)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise ValueError(f"{field} must be positive and finite, got {short(value)}; write it as in '0.5'") from None
    if not (number > 0 and 0 < nearest < math.inf):
        raise ValueError(f"{field} must be positive and finite (as a double), got {short(value)}")
    return min(number, Fraction(nearest))


def stated_epsilon(value: Exact) -> Fraction:
    """Return the epsilon that a text states, in the analysis's range: beyond it, integers would grow without end."""
    epsilon, (low, high) = stated(value, "epsilon"), EPSILON_RANGE
    if not low <= float(epsilon) <= high:
        allowed = f"between {low:g} and {high:g} (per feature)"
        raise ValueError(f"epsilon must lie {allowed}, got {short(value)}; give another")
    return epsilon


def log_above(ratio: Fraction) -> float:
    """Return the smallest double q with ``exp_below(q) >= ratio``: the loss of a ratio, never understated."""
    if ratio <= 1:
        return 0.0
    excess = ratio - 1
    q = math.log1p(float(excess)) if excess < 1 else math.log(ratio.numerator) - math.log(ratio.denominator)
    while exp_below(Fraction(q)) < ratio:
        q = math.nextafter(q, math.inf)
    while (lower := math.nextafter(q, 0.0)) > 0 and exp_below(Fraction(lower)) >= ratio:
        q = lower
    return q
