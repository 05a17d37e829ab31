"""Are rows named as often as honest clients name them?  Each draws its row from public weights, whatever the record."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaincc

from epsworth.arrays import Floats, as_floats
from epsworth.learner.aggregation import Aggregator
from epsworth.learner.coins import Ints
from epsworth.learner.rows import Rowed
from epsworth.learner.tables.kernels import Question
from epsworth.learner.tails import units
from epsworth.rounding import up

FALSE_ALARM = 1e-6  # at most, over all rows of one set of reports, if all of them are honest


class Odd(NamedTuple):
    """A row that too many or too few reports name, and how many rows are like it.

    ``reports`` name it, where ``expected`` ones would; ``p_value`` bounds the probability of any row as far off.
    """

    row: int
    reports: int
    expected: float
    p_value: float
    rows: int


def odd_row(counts: Ints, weights: Ints | None = None, level: float = FALSE_ALARM) -> Odd | None:
    """Return the row whose count is farthest from the binomial law of honest reports, None where no row is far off.

    Claim: if every report draws its row with these weights, whatever it says of it, a row is returned with probability
    at most ``level``: every row pays for either side (Bonferroni).

    Parameters
    ----------
    counts : ndarray of int
        Reports that name each row ``(rows,)``.
    weights : ndarray of int, optional
        Public weights of the rows, zeros nowhere; by default all rows are as probable.
    level : float
        Probability of a false alarm.

    Returns
    -------
    Odd or None

    Examples
    --------
    >>> odd_row(np.array([100, 104, 95, 101])) is None
    True
    >>> odd_row(np.array([100, 104, 195, 101]))[:3]
    (2, 195, 125.0)
    """
    users, sides = int(counts.sum()), 2 * counts.size
    weights = np.ones(counts.size, dtype=np.int64) if weights is None else weights
    found, total = np.ones(counts.size), int(weights.sum())
    for weight in np.unique(weights).tolist():
        own = weights == weight
        kinds, index = np.unique(counts[own], return_inverse=True)  # far fewer than rows
        found[own] = _tails(kinds, users, weight / total)[index]
    found = np.minimum(1.0, up(found * sides))
    row = int(np.argmin(found))
    if users == 0 or found[row] > level:
        return None
    expected = users * (int(weights[row]) / total)
    return Odd(row, int(counts[row]), expected, float(found[row]), int((found <= level).sum()))


def _tails(counts: Ints, users: int, share: float) -> Floats:
    """Return Pr[Binomial(users, share) >= count], or <= where that is smaller, rounded up.

    Units beside those of the beta function: the share is off by one, which moves the logarithm of a tail by one per
    unit of its exponent.
    """
    k = as_floats(counts)
    above = np.where(k > 0, betainc(np.maximum(k, 1.0), users - k + 1, share), 1.0)
    below = np.where(k < users, betaincc(k + 1, np.maximum(users - k, 1.0), share), 1.0)
    return up(np.minimum(above, below), ulps=2 * units(users, np.abs(k - users * share)))


def warn_of_odd_rows(aggregate: Aggregator, stacklevel: int = 2) -> None:
    """Warn in a sentence if a row is named too often or too rarely for honest reports."""
    kernel = aggregate.config.kernel
    if not isinstance(kernel, (Rowed, Question)):
        return
    weights = kernel.weights if isinstance(kernel, Question) else None
    if (odd := odd_row(kernel.row_counts(aggregate.tally), weights)) is None:
        return
    name = kernel.row_name(odd.row)
    others = f", and {odd.rows - 1:,} other rows are as odd" if odd.rows > 1 else ""
    warnings.warn(
        f"{name} is named by {odd.reports:,} of {aggregate.users:,} reports, where honest ones give "
        f"about {odd.expected:,.0f}{others} (probability at most {max(odd.p_value, 1e-300):.0e} if all are honest): "
        "some are fakes or badly drawn; declare a bound on them in certificates, or learn from other reports",
        UserWarning,
        stacklevel=stacklevel + 1,
    )
