"""Rounding for display that errs to the safe side: 0.4519 is promised as 0.451, never as 0.452."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from epsworth.numerals import EXACT


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


def show_up(value: float, significant: int = 6) -> str:
    """Print with at most this many significant digits, rounded up: for privacy losses.

    Examples
    --------
    >>> show_up(12.34561), show_up(4.0), show_up(1.0000001e-5)
    ('12.3457', '4', '0.0000100001')
    """
    return _show(value, significant, ROUND_CEILING)


def show_down(value: float, significant: int = 6) -> str:
    """Print with at most this many significant digits, rounded down: for confidences.

    Examples
    --------
    >>> show_down(99.99999999)
    '99.9999'
    """
    return _show(value, significant, ROUND_FLOOR)


def _round(value: float, digits: int, rounding: str) -> float:
    if not math.isfinite(value):
        return value
    return float(Decimal(repr(float(value))).quantize(EXACT.scaleb(Decimal(1), -digits), rounding, EXACT))


def _show(value: float, significant: int, rounding: str) -> str:
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    exact = Decimal(repr(float(value)))
    last_digit = EXACT.scaleb(Decimal(1), exact.adjusted() - significant + 1)
    short = EXACT.normalize(exact.quantize(last_digit, rounding, EXACT))
    return format(short, "f") if Decimal("1e-12") <= short.copy_abs() < Decimal("1e16") else str(short)
