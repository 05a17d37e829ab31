"""From the average over some rows to the average over the population that they come from.

Rows X_1, .., X_n are drawn independently of one another and of the classifier, and rho_i = rho(X_i) lies in [0, 1].
For a mean of mu and a stake c in (0, 1] the capital

    K(mu) = mean over c of prod_i (1 - c + c rho_i / mu)

has expectation 1, so that it reaches 1 / miss with probability at most ``miss`` (Markov).  It falls in mu: every m
with K(m) >= 1 / miss lies below mu but for that probability.  It rises in every rho_i, so that lower bounds may stand
for them, and it asks for no order of the rows.  Where only a bound a on the rows' average is known (`Bounds.pooled`),
the logarithm of each factor, concave in rho_i, lies above its chord: K(m) is at least what n a ones and n (1 - a)
zeros give.

Waudby-Smith & Ramdas 2024 bet so, one row after the other; a mixture of constant stakes: Orabona & Jun 2024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from epsworth.arrays import Floats
from epsworth.bounds import Interval, Risk, check_spent
from epsworth.numerals import short
from epsworth.results import Result, how_sure
from epsworth.rounding import UNIT, down, float_below, round_down, round_up, up

HALVINGS = 20  # of [0, 1]: the bound is found to 1e-6, from below
LEAST = 1 / 8  # of the stake that rows of the largest spread ask for: smaller ones gain nothing
TOGETHER = 1 << 22  # factors at a time


@dataclass(frozen=True, repr=False, eq=False)
class Population(Result):
    """Bounds on the average over the population that the records come from.

    Claim: if the records are drawn independently of one another and of the classifier (they are none of those it was
    fitted on), all bounds hold together with probability at least ``confidence`` over the records and our own draws.

    Attributes
    ----------
    lower, upper : ndarray, shape ``(mechanisms, epsilons)``
    confidence : float
    records : int
        How many there are.
    spent : float
        Probability that was spent on misses, those of the records' own bounds among them, rounded down.

    Examples
    --------
    >>> import epsworth as ew
    >>> sample = [[i / 500] for i in range(500)]
    >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, sample, sensitive=0, mechanisms="krr:k=11", epsilons=[2.0])
    >>> people = curves.population(confidence=0.95)
    >>> people.records, people.confidence
    (500, 0.95)
    >>> bool(people.lower.item() < curves.average().lower.item() < people.upper.item())
    True
    """

    lower: Floats
    upper: Floats
    confidence: float
    records: int
    spent: float

    @property
    def words(self) -> str:
        """What is bounded, on what condition, and how surely."""
        return (
            f"average over the population, if these {self.records} records are independent draws of it, "
            f"{how_sure(self.confidence)}"
        )

    def rows(self) -> list[list[str]]:
        """Return the bounds as they are printed, by mechanism and epsilon, rounded outwards."""
        sides = zip(self.lower.tolist(), self.upper.tolist(), strict=True)
        return [
            [f"{round_down(low):.3f}-{round_up(high):.3f}" for low, high in zip(lower, upper, strict=True)]
            for lower, upper in sides
        ]

    def __str__(self) -> str:
        """Return what is bounded, and by what at most, rounded to the safe side."""
        low, high = round_down(float(self.lower.min())), round_up(float(self.upper.max()))
        return f"{self.words}: between {low:g} and {high:g}"


def default_confidence(confidence: float) -> float:
    """Leave as much for the draw of the records as the bounds on them may miss; .001 where those hold for certain.

    Examples
    --------
    >>> default_confidence(1.0), round(default_confidence(0.99), 12)
    (0.999, 0.98)
    """
    return 0.999 if confidence == 1 else confidence - min(1 - confidence, confidence / 2)


def population_bounds(rows: Interval, average: Interval, *, confidence: float, spent: float, among: int) -> Population:
    """Bound the average over the population.

    Parameters
    ----------
    rows : Interval of ndarray, shape ``(mechanisms, epsilons, records)``
        Bounds for every record.
    average : Interval of ndarray, shape ``(mechanisms, epsilons)``
        Bounds on the average over the records.
    confidence : float
        Of all bounds, those on the records among them.
    spent : float
        What the bounds on the records spent, rounded down.
    among : int
        How many averages share the confidence, those that are not asked for here among them.
    """
    risk, miss = _paid(confidence, spent, among)
    lower = mean_above(rows.lower, average.lower, miss)
    upper = up(1 - mean_above(np.maximum(down(1 - rows.upper), 0), np.maximum(down(1 - average.upper), 0), miss))
    return Population(lower, np.minimum(upper, 1.0), float(confidence), rows.lower.shape[2], float_below(risk.spent))


def population_of_counts(
    values: Floats,
    counts: tuple[NDArray[np.int64], NDArray[np.int64]],
    average: Interval,
    *,
    confidence: float,
    spent: float,
    among: int,
) -> Population:  # fmt: skip
    """Bound the average over the population where it is known how many records have at least which bounds.

    Parameters
    ----------
    values : ndarray, shape ``(steps,)``
        In [0, 1].
    counts : pair of ndarray of int, shape ``(mechanisms, epsilons, steps)``
        Records whose lower bound, and whose 1 less the upper bound, is at least so much, and counted nowhere else.
    average, confidence, spent, among
        As in `population_bounds`.
    """
    risk, miss = _paid(confidence, spent, among)
    at_least, less = counts
    n = int(at_least[0, 0].sum())
    steps = np.broadcast_to(values, at_least.shape)
    lower = mean_above(steps, average.lower, miss, at_least)
    upper = up(1 - mean_above(steps, np.maximum(down(1 - average.upper), 0), miss, less))
    return Population(lower, np.minimum(upper, 1.0), float(confidence), n, float_below(risk.spent))


def check_at(at: Sequence[int] | slice, count: int) -> Sequence[int] | slice:
    """Refuse numbers of epsilons that there are not."""
    if isinstance(at, slice):
        return at
    for one in at if isinstance(at, (Sequence, np.ndarray)) else [at]:
        if not isinstance(one, (int, np.integer)) or isinstance(one, bool) or not -count <= one < count:
            raise ValueError(f"at: there is no epsilon number {short(one)}; the curves hold 0 to {count - 1}")
    return at


def _paid(confidence: float, spent: float, among: int) -> tuple[Risk, float]:
    """Return a risk that has paid for the bounds on the records and on the population, and the miss of one of these."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {short(confidence)}")
    risk = Risk.of(confidence)
    used = Fraction(math.nextafter(spent, 1)) if spent else Fraction(0)
    if used >= risk.total:
        raise ValueError(
            f"confidence {confidence:g} leaves nothing for the draw of the records, as their bounds spent {spent:g} "
            "already; ask for less confidence here, or for more of the bounds"
        )
    own, rest = risk.divide([used / risk.total, 1 - used / risk.total])
    own.spend()
    miss = rest.split(2 * among).spend(2 * among)  # a side each
    check_spent(risk.spent, confidence)
    return risk, miss


def mean_above(rows: Floats, average: Floats, miss: float, counts: NDArray[np.int64] | None = None) -> Floats:
    """Return what a mean exceeds but for a probability, given lower bounds on n draws, and on their average.

    Parameters
    ----------
    rows : ndarray, shape ``(.., n)``
        In [0, 1].
    average : ndarray, shape ``(..)``
    counts : ndarray of int, shape ``(.., n)``, optional
        How many draws each of the rows stands for; by default one.

    Examples
    --------
    >>> bool(0.9 < mean_above(np.ones((1, 100)), np.ones(1), 0.001)[0] < 0.94)  # 0.001 ** (1 / 100) at best
    True
    """
    size = rows.shape[-1]
    flat, low, high = rows.reshape(-1, size), np.zeros(average.size), np.ones(average.size)
    times = np.ones((1, size), dtype=np.int64) if counts is None else counts.reshape(-1, size)
    n = int(times[0].sum())
    stakes = _stakes(n, miss)
    step = max(1, TOGETHER // size)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        grown = np.concatenate(
            [
                _passes(
                    flat[at : at + step],
                    average.ravel()[at : at + step],
                    middle[at : at + step],
                    stakes,
                    miss,
                    times if counts is None else times[at : at + step],
                )
                for at in range(0, len(flat), step)
            ]
        )
        low, high = np.where(grown, middle, low), np.where(grown, high, middle)
    return low.reshape(average.shape)


def _stakes(n: int, miss: float) -> list[float]:
    """Return powers of 1/2, down to what rows of the largest spread ask for: sqrt(2 ln(1 / miss) / n)."""
    least = LEAST * math.sqrt(-2 * math.log(miss) / n)
    return [0.5**j for j in range(max(1, 2 + math.floor(-math.log2(least))))]


def _passes(
    rows: Floats, average: Floats, mean: Floats, stakes: list[float], miss: float, times: NDArray[np.int64]
) -> Floats:
    """Tell where the capital reaches 1 / miss for certain.

    A factor is off by 2 units of itself, its logarithm by 2 units and 4 of itself; to take it several times adds one
    of the size, and sums of n add n of the sizes'.
    """
    n, grown = int(times[0].sum()), []
    with np.errstate(divide="ignore", invalid="ignore"):
        for c in stakes:
            terms = times * np.log((1 - c) + c * (rows / mean[:, np.newaxis]))
            terms[np.isnan(terms)] = 0.0  # none of a factor of 0
            size = np.abs(terms).sum(axis=-1)
            each = terms.sum(axis=-1) - UNIT * (2 * n + (n + 9) * size)
            ends = (1 - average) * math.log1p(-c) if c < 1 else np.where(average == 1, 0.0, -np.inf)
            chord = average * np.log((1 - c) + c / mean)
            both = n * (ends + chord) - UNIT * 16 * n * (1 + np.abs(ends) + np.abs(chord))
            grown.append(np.fmax(np.nan_to_num(each, nan=-np.inf), np.nan_to_num(both, nan=-np.inf)))
    wanted = -math.log(miss) + math.log(len(stakes))
    capital = logsumexp(np.array(grown), axis=0)
    return np.asarray(capital >= wanted + 64 * UNIT * (wanted + np.abs(capital) + 1))
