"""Public grids: a value to its place, a place to the value that leaves, in the very doubles of the library."""

from __future__ import annotations

import math

from epsworth.client.reading import number

TYPE_CHECKING = False  # typing alone would take longer to import than all the rest
if TYPE_CHECKING:
    from typing import Any

PLAIN = (str, int, float, bool)
WIDE = 2.0**900  # products of ends beyond it are taken of their 2^-32


def codes(where: str, kinds: Any) -> dict[Any, int]:
    """Return the position of each category; they are different ones, and a truth equals its number."""
    if type(kinds) is not list or not all(type(one) in PLAIN for one in kinds):
        raise ValueError(f"{where}.categories: must be a list of texts, numbers and truths; write the policy anew")
    found = {one: i for i, one in enumerate(kinds)}
    if len(found) < len(kinds):
        raise ValueError(f"{where}.categories: must be different ones; write the policy anew")
    return found


def ends(where: str, entry: dict[str, Any]) -> tuple[float, float]:
    """Return a range's ends."""
    lower, upper = number(f"{where}.lower", entry["lower"]), number(f"{where}.upper", entry["upper"])
    if not (lower < upper and math.isfinite(upper - lower)):
        raise ValueError(f"{where}: upper must lie above lower, and not too far; write the policy anew")
    return lower, upper


def place(value: float, lower: float, upper: float, points: int) -> int:
    """Return the nearest point, after clamping; half way the even one."""
    clipped = float(min(max(value, lower), upper))
    return round((clipped - lower) / (upper - lower) * (points - 1))


def is_whole(steps: int, lower: float, upper: float) -> bool:
    """Tell whether the points of a range are its whole numbers: they leave as such, without a decimal point.

    Examples
    --------
    >>> is_whole(110, 0.0, 110.0), is_whole(100, 0.0, 110.0), is_whole(1, 0.5, 1.5)
    (True, False, False)
    """
    return upper - lower == steps and lower.is_integer() and max(-lower, upper) < 1 << 53


def natural(y: int, steps: int, lower: float, upper: float) -> float:
    """Return the value at a point, of which the last is ``steps``; a whole number where all points are."""
    if is_whole(steps, lower, upper):
        return int(lower) + y
    scale = 2.0**-32 if max(abs(lower), abs(upper)) > WIDE else 1.0
    low, high = scale * lower, scale * upper
    if y in (0, steps):
        return (high if y else low) / scale
    return min(max((low * (steps - y) + high * y) / steps, low), high) / scale
