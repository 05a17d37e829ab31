"""Numbers as their texts state them: exact, finite, and of a size that can be computed with.

Nothing here follows the ambient decimal context: a caller's precision, rounding or traps change no promise.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from fractions import Fraction

DIGITS = 400  # of a number; and the largest power of ten, either way: 1e99999999 alone would fill the memory
EXACT = Context(prec=4 * DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])  # sums of such numbers have fewer digits


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
        if not fits(value):
            raise ValueError(f"{where}: must have at most {DIGITS} digits, before and after the point; round it")
        found = Decimal(repr(float(value)) if isinstance(value, float) else value)
        if not found.is_finite():
            raise InvalidOperation
    except InvalidOperation:
        raise ValueError(f"{where}: must be a finite number, got {value!r}") from None
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
    whole = Decimal(share.numerator * 10**places // share.denominator)
    return EXACT.normalize(EXACT.scaleb(whole, -places))


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
