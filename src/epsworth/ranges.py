"""Checks of declared ranges and categories."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from epsworth.numerals import short

MOST_WHOLE = 1 << 16  # values of a feature of whole numbers: as many as a policy's grid has


def checked_categories(where: str, categories: object) -> tuple[Any, ...]:
    """Return categories, at least two and no two equal."""
    if isinstance(categories, str) or not all(isinstance(c, Hashable) for c in categories):  # type: ignore[attr-defined]  # what cannot be iterated raises as such
        raise ValueError(f"{where}: categories must be a list of plain values, got {short(categories)}")
    found: tuple[Any, ...] = tuple(categories)  # type: ignore[arg-type]  # iterated above
    if len(found) < 2 or len(set(found)) < len(found):
        twins = any(type(a) is not type(b) for a in found for b in found if a == b)
        why = " (True equals 1, and 1.0 equals 1: write one of them, or texts)" if twins else ""
        raise ValueError(f"{where}: categories must be at least two different values, got {list(found)}{why}")
    return found


def check_category_for_gaps(where: str, missing: object, categories: Sequence[Any]) -> None:
    """Refuse what stands for a gap and is no category."""
    if missing is not None and missing not in categories:
        raise ValueError(
            f"{where}: missing is {short(missing)}, which is not one of the categories; declare it, or choose another"
        )


def checked_range(where: str, lower: object, upper: object) -> tuple[float, float]:
    """Return the ends of a range, finite and in order."""
    for key, value in {"lower": lower, "upper": upper}.items():
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not number or not -sys.float_info.max <= value <= sys.float_info.max:  # type: ignore[operator]  # a number
            raise ValueError(
                f"{where}: {key} must be a finite number, got {short(value)}; give the public range, or categories"
            )
    low, high = float(lower), float(upper)  # type: ignore[arg-type]  # numbers
    if not math.isfinite(high - low):
        raise ValueError(f"{where}: the range {low:g} to {high:g} is too wide for numbers; narrow it")
    if not high > low:
        raise ValueError(f"{where}: upper ({high:g}) is not above lower ({low:g}); give the public range")
    return low, high


def whole_points(where: str, lower: float, upper: float, points: int | None) -> int:
    """Return the number of whole numbers in a range, or say why they cannot be what is released."""
    if not (lower.is_integer() and upper.is_integer()):
        raise ValueError(
            f"{where}: integer needs whole ends, got {lower:g} to {upper:g}; write the least and the largest whole "
            "number"
        )
    found = int(upper) - int(lower) + 1
    if found > MOST_WHOLE:
        raise ValueError(
            f"{where}: integer takes at most {MOST_WHOLE:,} whole numbers, got {found:,}; narrow the range, or leave "
            "integer out"
        )
    if points not in (None, found):
        raise ValueError(f"{where}: integer makes {found:,} points, got {short(points)}; leave points out")
    return found


def number_for_gaps(where: str, missing: object, lower: float, upper: float) -> float | None:
    """Return the number that stands for a gap, within the range; None where none does."""
    if missing is None:
        return None
    if isinstance(missing, bool) or not isinstance(missing, (int, float, Decimal, np.number)):
        raise ValueError(f"{where}: missing must be a number of the range that stands for it, got {short(missing)}")
    if not lower <= missing <= upper:
        raise ValueError(
            f"{where}: missing is {missing}, outside the range {lower:g} to {upper:g}; give a number within it"
        )
    return float(missing)
