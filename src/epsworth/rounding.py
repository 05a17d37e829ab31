"""Rounding that errs to the safe side: of what is computed, by counted units, and of what is shown.

A computed bound is moved outwards by `up` or `down`, by as many units in the last place as its derivation counts.
What is shown is rounded likewise: 0.4519 is promised as 0.451, never as 0.452.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, overload

from epsworth.numerals import EXACT

if TYPE_CHECKING:
    from epsworth.arrays import Floats

SMALL = 2.0**-900  # of numbers whose products with others may be denormal, and lose digits
SIGNIFICANT = 3  # digits of a chance
FINEST = Decimal("0.0001")  # step of a chance, in per cent
UNIT = 2.0**-53  # what one operation on doubles rounds by, relative to its result: half the gap above 1


@overload
def up(value: float, *, ulps: float = 1) -> float: ...
@overload
def up(value: Floats, *, ulps: float | Floats = 1) -> Floats: ...
def up(value: float | Floats, *, ulps: float | Floats = 1) -> float | Floats:
    """Return a number that lies at least ``ulps`` units in the last place of ``value`` above it.

    Claim: where the exact result exceeds ``value`` by at most that many units, it does not exceed what is returned.
    A unit is the distance from |value| to the next larger double; infinities stay.

    Examples
    --------
    >>> up(1.0) > 1.0, up(0.0, ulps=3) > 0, up(-1.0) > -1.0
    (True, True, True)
    """
    return _outwards(value, ulps, math.inf)


@overload
def down(value: float, *, ulps: float = 1) -> float: ...
@overload
def down(value: Floats, *, ulps: float | Floats = 1) -> Floats: ...
def down(value: float | Floats, *, ulps: float | Floats = 1) -> float | Floats:
    """Return a number that lies at least ``ulps`` units in the last place of ``value`` below it; see `up`.

    Examples
    --------
    >>> down(1.0) < 1.0, down(0.5, ulps=2) <= 0.5 - 2**-52
    (True, True)
    """
    return _outwards(value, ulps, -math.inf)


def _outwards(value: float | Floats, ulps: float | Floats, towards: float) -> float | Floats:
    import numpy as np  # the command line shows numbers without it

    found = np.asarray(value, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        far = found + ulps * np.copysign(np.spacing(np.abs(found)), towards)
    # the sum may be rounded back by less than a unit of its own; one step more undoes that
    moved = np.where(np.isfinite(found), np.nextafter(far, towards), found)
    return moved if isinstance(value, np.ndarray) else float(moved)


def float_above(value: Fraction) -> float:
    """Return the smallest double that is not below a fraction.

    Examples
    --------
    >>> float_above(Fraction(1, 2)), float_above(Fraction(1, 10)) >= Fraction(1, 10)
    (0.5, True)
    """
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def sum_above(numbers: Iterable[float]) -> float:
    """Return the smallest double that is not below the exact sum.

    Examples
    --------
    >>> sum_above([0.1] * 10), sum_above([0.1, 0.2])
    (1.0000000000000002, 0.30000000000000004)
    """
    values = list(numbers)
    nearest = math.fsum(values)  # rounded once: what it lost has an exact sign
    return nearest if math.fsum([*values, -nearest]) <= 0 else math.nextafter(nearest, math.inf)


def float_below(value: Fraction) -> float:
    """Return the largest double that is not above a fraction.

    Examples
    --------
    >>> float_below(Fraction(1, 2)), float_below(Fraction(1, 3)) <= Fraction(1, 3)
    (0.5, True)
    """
    return -float_above(-value) + 0.0  # of zero, too, without its sign


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


def percent_down(share: float, digits: int = 1) -> str:
    """Print a share in per cent, without the sign, with at most so many decimals, rounded down.

    Examples
    --------
    >>> percent_down(0.73999), percent_down(0.9)
    ('73.9', '90')
    """
    return _percent(share, digits, ROUND_FLOOR)


def percent_up(share: float, digits: int = 1) -> str:
    """Print a share in per cent, without the sign, with at most so many decimals, rounded up.

    Examples
    --------
    >>> percent_up(0.8801), percent_up(0.98201379, 2)
    ('88.1', '98.21')
    """
    return _percent(share, digits, ROUND_CEILING)


def chance_up(chance: float) -> str:
    """Print a chance in per cent, without the sign, to three significant digits, rounded up.

    Claim: what is less than 100 % never reads so, unless it is within a millionth.

    Examples
    --------
    >>> chance_up(0.98201379), chance_up(0.999964), chance_up(0.5999981), chance_up(0.0), chance_up(1e-99)
    ('98.3', '99.997', '60', '0', '0.0001')
    """
    return _chance(chance, ROUND_CEILING)


def chance_down(chance: float) -> str:
    """Print a chance as `chance_up` does, rounded down; near 100 % with the digits of what is lacking.

    Examples
    --------
    >>> chance_down(0.99999), chance_down(0.12346)
    ('99.999', '12.3')
    """
    return _chance(chance, ROUND_FLOOR)


def _chance(chance: float, rounding: str) -> str:
    exact = Decimal(repr(float(chance))) * 100
    if exact == 0:
        return "0"
    step = max(FINEST, min(Decimal(1), Decimal(1).scaleb(exact.adjusted() - SIGNIFICANT + 1)))
    rounded = exact.quantize(step, rounding)
    margin = 0 if rounding == ROUND_CEILING else 10  # steps from 100 %, where more digits are printed
    while rounded + margin * step >= 100 > exact and step > FINEST:
        step /= 10
        rounded = exact.quantize(step, rounding)
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _percent(share: float, digits: int, rounding: str) -> str:
    exact = Decimal(repr(float(share))).scaleb(2, EXACT)
    return format(EXACT.normalize(exact.quantize(EXACT.scaleb(Decimal(1), -digits), rounding, EXACT)), "f")


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


def underflows(*values: Floats) -> bool:
    """Tell whether some number is so small, and not zero, that relative bounds of rounding may not hold for products.

    Examples
    --------
    >>> import numpy as np
    >>> underflows(np.array([0.0, 1e-200])), underflows(np.array([1e-280]))
    (False, True)
    """
    import numpy as np  # the command line shows numbers without it

    return any(bool(((np.abs(value) < SMALL) & (np.asarray(value) != 0)).any()) for value in values)
