"""Rounding for display that errs to the safe side: 0.4519 is promised as 0.451, never as 0.452."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


def round_down(value: float, digits: int = 3) -> float:
    """Round towards minus infinity: for everything promised as *at least*.

    Examples
    --------
    >>> round_down(0.45199)
    0.451
    """
    return _round(value, digits, ROUND_FLOOR)


def round_up(value: float, digits: int = 3) -> float:
    """Round towards plus infinity: for everything promised as *at most*, privacy losses above all.

    Examples
    --------
    >>> round_up(0.4501)
    0.451
    """
    return _round(value, digits, ROUND_CEILING)


def _round(value: float, digits: int, rounding: str) -> float:
    if not math.isfinite(value):
        return value
    return float(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), rounding=rounding))
