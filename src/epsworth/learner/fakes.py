"""Fakes: reports that no honest client made.  A declared bound on their number is allowed for; more are not.

Let so many votes be for a label and so many against it.  Had the F fakes reported honestly, or not at all, at least
``votes - F`` would have been for it and at most ``against + F`` against it.  The sign test's p-value falls in the
votes for and grows in those against, so that of ``(votes - F, against + F)`` is never below that of the honest votes,
whatever the fakes sent and whatever they knew: fakes that see all reports, those of others too, gain nothing.
"""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from fractions import Fraction

from epsworth.numerals import as_float, short

HONEST = "All reports are taken to be honest: a share of 1 % fakes can turn every label, certified."


def checked_fakes(fakes: object, users: int) -> int:
    """Return a number of fakes below half of the users' reports; refuse every other.

    Examples
    --------
    >>> checked_fakes(3, 100)
    3
    """
    most = max(0, (users - 1) // 2)
    try:
        found = operator.index(fakes)  # type: ignore[arg-type]
    except TypeError:
        found = -1
    if type(fakes).__name__ in ("bool", "bool_") or not 0 <= found <= most:
        raise ValueError(
            f"fakes must be a whole number from 0 to {most}, fewer than half of the {users} reports, got "
            f"{short(fakes)}; give a bound on how many of these reports are fakes, not a share of them"
        )
    return found


def declared(fakes: object) -> int | Fraction:
    """Return what a plan allows for: a number of fakes, or a share of the users, as the text states it.

    Examples
    --------
    >>> declared(100), declared(0.01)
    (100, Fraction(1, 100))
    """
    value = fakes.item() if type(fakes).__module__ == "numpy" and hasattr(fakes, "item") else fakes
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, (float, Fraction, Decimal)) and 0 <= as_float(value) < 0.5:
        return Fraction(repr(value) if isinstance(value, float) else value) or 0
    raise ValueError(
        f"fakes must be a whole number of users, or a share of them below one half, got {short(fakes)}; give 0 if all "
        "are honest"
    )


def count_of(fakes: int | Fraction, users: int) -> int:
    """Return the number of fakes among so many users: a share is rounded up.

    Examples
    --------
    >>> count_of(Fraction(1, 100), 1001), count_of(7, 1001)
    (11, 7)
    """
    return fakes if isinstance(fakes, int) else math.ceil(fakes * users)


def taken_for_honest(fakes: int, users: int | None = None) -> str:
    """Say which reports are taken to be honest."""
    if fakes == 0:
        return HONEST
    reports = "the reports" if users is None else f"the {users:,} reports"
    return (
        f"At most {fakes:,} of {reports} are taken to be fakes, whatever these say: should there be more, every label "
        "can be turned, certified."
    )
