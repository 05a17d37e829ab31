"""Fakes: reports that no honest client made.  A declared bound on their number is allowed for, and tested.

Let so many votes be for a label and so many against it.  Had the F fakes reported honestly, or not at all, at least
``votes - F`` would have been for it and at most ``against + F`` against it.  The sign test's p-value falls in the
votes for and grows in those against, so that of ``(votes - F, against + F)`` is never below that of the honest votes,
whatever the fakes sent and whatever they knew: fakes that see all reports, those of others too, gain nothing.

Honest clients draw their row from public weights, whatever the record.  Had the F fakes reported honestly, a row that n
reports name would have been named by n - F to n + F: where even these are far off, there are more fakes than declared.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaincc

from epsworth.arrays import Floats, as_floats
from epsworth.learner.aggregation import Aggregator
from epsworth.learner.coins import Ints
from epsworth.learner.mechanism import Rowed
from epsworth.learner.tails import units
from epsworth.numerals import as_float, short
from epsworth.rounding import up

FALSE_ALARM = 1e-6  # at most, over all rows of one set of reports, if no more are fakes than declared
HONEST = "All reports are taken to be honest: if 1 % of them are fakes, every label may be wrong, certified."


def declared(fakes: object) -> int | Fraction:
    """Return a number of fakes, or a share of the reports, as the text states it."""
    value = fakes.item() if type(fakes).__module__ == "numpy" and hasattr(fakes, "item") else fakes
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, (float, Fraction, Decimal)) and 0 <= as_float(value) < 0.5:
        return Fraction(repr(value) if isinstance(value, float) else value) or 0
    raise ValueError(
        f"fakes must be a whole number of reports, or a share of them below one half, got {short(fakes)}; give 0 if "
        "nobody forges any"
    )


def count_of(fakes: int | Fraction, reports: int) -> int:
    """Return the number of fakes among so many reports: a share is rounded up."""
    return fakes if isinstance(fakes, int) else math.ceil(fakes * reports)


def fakes_among(fakes: object, reports: int) -> int:
    """Return the number of fakes among so many reports; refuse half of them or more."""
    count = count_of(declared(fakes), reports)
    if count and 2 * count >= reports:
        raise ValueError(
            f"fakes must be fewer than half of the {reports:,} reports, got {short(fakes)}; nothing can be certified "
            "beside so many"
        )
    return count


def assumption(fakes: int) -> str:
    """Say beside a number that is certified what it takes for granted."""
    return (
        f"even if {'one report is' if fakes == 1 else f'up to {fakes:,} reports are'} forged"
        if fakes
        else "assuming nobody forges reports"
    )


def taken_for_honest(fakes: int) -> str:
    """Say which reports are taken to be honest, and what the others can do."""
    if fakes == 0:
        return HONEST
    return (
        f"At most {fakes:,} of the reports are taken to be fakes, whatever these say: with more of them wrong labels "
        "may be certified."
    )


class Odd(NamedTuple):
    """A row that so many ``reports`` name, where ``expected`` ones would, and how many ``rows`` are as odd."""

    row: int
    reports: int
    expected: float
    p_value: float
    rows: int


def odd_row(counts: Ints, weights: Ints | None = None, level: float = FALSE_ALARM, fakes: int = 0) -> Odd | None:
    """Return the row whose count is farthest from the binomial law of honest reports, None where no row is far off.

    Claim: if every report but so many ``fakes`` draws its row with these weights (by default all alike), whatever it
    says of it, a row is returned with probability at most ``level``: every row pays for either side (Bonferroni).
    """
    users, sides = int(counts.sum()), 2 * counts.size
    weights = np.ones(counts.size, dtype=np.int64) if weights is None else weights
    found, total = np.ones(counts.size), int(weights.sum())
    for weight in np.unique(weights).tolist():
        own = weights == weight
        kinds, index = np.unique(counts[own], return_inverse=True)  # far fewer than rows
        found[own] = _tails(kinds, users, weight / total, fakes)[index]
    found = np.minimum(1.0, up(found * sides))
    row = int(np.argmin(found))
    if users == 0 or found[row] > level:
        return None
    expected = users * (int(weights[row]) / total)
    return Odd(row, int(counts[row]), expected, float(found[row]), int((found <= level).sum()))


def _tails(counts: Ints, users: int, share: float, fakes: int = 0) -> Floats:
    """Return Pr[Binomial(users, share) >= count - fakes], or <= count + fakes where that is smaller, rounded up.

    Units beside those of the beta function: the share is off by one, which moves the logarithm of a tail by one per
    unit of its exponent.
    """
    most, least = as_floats(counts) - fakes, as_floats(counts) + fakes
    above = np.where(most > 0, betainc(np.maximum(most, 1.0), users - most + 1, share), 1.0)
    below = np.where(least < users, betaincc(least + 1, np.maximum(users - least, 1.0), share), 1.0)
    exponent = np.maximum(np.abs(most - users * share), np.abs(least - users * share))
    return up(np.minimum(above, below), ulps=2 * units(users, exponent))


def why_odd(aggregate: Aggregator, fakes: int = 0) -> str | None:
    """Say which row is named too often or too rarely for honest reports and so many fakes; None if none is."""
    kernel = aggregate.config.kernel
    if not isinstance(kernel, Rowed):
        return None
    if (odd := odd_row(kernel.row_counts(aggregate.tally), kernel.weights, fakes=fakes)) is None:
        return None
    others = f", and {odd.rows - 1:,} other rows are as odd" if odd.rows > 1 else ""
    those, least = ("all", "some") if fakes == 0 else (f"all but {fakes:,}", f"more than {fakes:,}")
    chance = f"{max(odd.p_value, 1e-300):.0e} if {those} are honest"
    return (
        f"{kernel.row_name(odd.row)} is named by {odd.reports:,} of {aggregate.users:,} reports, where honest ones "
        f"give about {odd.expected:,.0f}{others} (probability at most {chance}): {least} are fakes or badly drawn"
    )
