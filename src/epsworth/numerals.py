"""Numbers as arguments, checked; and as their texts state them: exact, finite, of a size that can be computed with.

Nothing here follows the ambient decimal context: a caller's precision, rounding or traps change no promise.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from fractions import Fraction

DIGITS = 400  # of a number; and the largest power of ten, either way: 1e99999999 alone would fill the memory
EXACT = Context(prec=4 * DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])  # sums of such numbers have fewer digits


def whole(field: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    """Return a whole number within bounds, or refuse what was given in one sentence.

    Examples
    --------
    >>> whole("users", 3)
    3
    >>> whole("users", 0)
    Traceback (most recent call last):
        ...
    ValueError: users must be a whole number of at least 1, got 0
    """
    try:
        found = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        found = least - 1
    if type(value).__name__ in ("bool", "bool_") or found < least or (most is not None and found > most):
        allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{field} must be a whole number {allowed}, got {short(value)}")
    return found


def positive(field: str, value: object, *, error: type[ValueError] = ValueError) -> float:
    """Return a positive, finite number as a double, or refuse what was given in one sentence.

    Examples
    --------
    >>> positive("theta", 2)
    2.0
    """
    if not 0 < (found := as_float(value)) < math.inf:
        raise error(f"{field} must be positive and finite, got {short(value)}")
    return found


def share(field: str, value: object, *, error: type[ValueError] = ValueError) -> float:
    """Return a probability that is neither 0 nor 1 as a double, or refuse what was given in one sentence.

    Examples
    --------
    >>> share("confidence", 1)
    Traceback (most recent call last):
        ...
    ValueError: confidence must lie strictly between 0 and 1, got 1
    """
    if not 0 < (found := as_float(value)) < 1:
        raise error(f"{field} must lie strictly between 0 and 1, got {short(value)}")
    return found


def truth(field: str, value: object) -> bool:
    """Return True or False, or refuse what is neither in one sentence.

    Examples
    --------
    >>> truth("again", "no")
    Traceback (most recent call last):
        ...
    ValueError: again must be True or False, got 'no'
    """
    if type(value).__name__ not in ("bool", "bool_"):
        raise ValueError(f"{field} must be True or False, got {short(value)}")
    return bool(value)


def as_float(value: object) -> float:
    """Return a number as a double; NaN, which fails every comparison, for what is none (texts and truths are none)."""
    if isinstance(value, (str, bytes, bytearray)) or type(value).__name__ in ("bool", "bool_"):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def short(value: object) -> str:
    """Return what was given, in one line; of tables and arrays the kind and shape alone, since they may be private.

    Examples
    --------
    >>> short(0.1), len(short("x" * 1000)), short(10**9999)
    ('0.1', 60, 'a huge number')
    """
    shape = getattr(value, "shape", ())
    if isinstance(shape, tuple) and shape:
        return f"{type(value).__name__} of shape {shape}"
    try:
        text = str(value) if isinstance(value, (Decimal, Fraction)) else repr(value)
    except ValueError:  # an integer with thousands of digits
        return "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}..."


def exact_decimal(where: str, value: object) -> Decimal:
    """Return the finite number that a value states; a float means the text that it prints as.

    Parameters
    ----------
    where : str
        What the number is, for the refusal.

    Examples
    --------
    >>> exact_decimal("epsilon", 0.1)
    Decimal('0.1')
    """
    import numpy as np  # here: the command line prints rounded numbers before it needs arrays

    value = value.item() if isinstance(value, np.generic) else value
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
            raise InvalidOperation
        if isinstance(value, str) and (
            "_" in value or not value.isascii()
        ):  # Decimal takes 1_0 and digits of any script
            raise InvalidOperation
        if not fits(value):
            raise ValueError(f"{where}: must have at most {DIGITS} digits, before and after the point; round it")
        found = Decimal(repr(float(value)) if isinstance(value, float) else value)
        if not found.is_finite():
            raise InvalidOperation
    except InvalidOperation:
        raise ValueError(f"{where}: must be a finite number, got {short(value)}") from None
    return found


def exact_sum(numbers: Iterable[Decimal]) -> Decimal:
    """Return the sum, to the last digit.

    Examples
    --------
    >>> exact_sum([Decimal("1e30"), Decimal("1e-30")])
    Decimal('1000000000000000000000000000000.000000000000000000000000000001')
    """
    total = Decimal(0)
    for number in numbers:
        total = EXACT.add(total, number)
    return total


def decimal_below(share: Fraction, places: int) -> Decimal:
    """Return the largest number of so many decimal places that does not exceed a fraction.

    Examples
    --------
    >>> decimal_below(Fraction(2, 3), 4), decimal_below(Fraction(1, 2), 4)
    (Decimal('0.6666'), Decimal('0.5'))
    """
    units = Decimal(share.numerator * 10**places // share.denominator)
    return EXACT.normalize(EXACT.scaleb(units, -places))


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row"), counted(1, "people"), counted(2, "people")
    ('1 row', '2,000 rows', '1 person', '2 people')
    """
    one = "person" if noun == "people" else noun
    return f"{count:,} {one if count == 1 else noun if noun == 'people' else f'{noun}s'}"


def plain(number: Decimal) -> str:
    """Return a number's digits without an exponent.

    Examples
    --------
    >>> plain(Decimal("1E+2"))
    '100'
    """
    return f"{number:f}"


def fits(value: int | float | str | Decimal | Fraction) -> bool:
    """Say whether an exact number is of a size that can be computed with; what is no number at all fits.

    Examples
    --------
    >>> fits("0.1"), fits("1e99999999"), fits(10**1000)
    (True, False, False)
    """
    if isinstance(value, str):
        parts = value.split("/")
        return len(value) <= 2 * DIGITS and all(_power_fits(part) for part in parts)
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        return not isinstance(exponent, int) or (len(digits) <= DIGITS and abs(exponent) <= DIGITS)
    if isinstance(value, float):
        return True
    bits = int(DIGITS * 3.33)
    return value.numerator.bit_length() <= bits and value.denominator.bit_length() <= bits


def _power_fits(text: str) -> bool:
    """Say whether the power of ten in a text is small enough; a text that is no number is refused by its reader."""
    try:
        power = text.lower().partition("e")[2]
        return not power or abs(int(power)) <= DIGITS
    except ValueError:
        return True
