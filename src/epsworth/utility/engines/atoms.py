"""Sums of values that are all atoms but for at most one, to rounding.

All sums of one half of the atoms against those of the other (Horowitz & Sahni 1974): with n values in each half,
n log n instead of n^2.  One continuous part is summed over all atoms of the others.
"""

from __future__ import annotations

import math

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.laws.law import MASS_ERROR
from epsworth.rounding import UNIT
from epsworth.utility.engines.contraction import widened
from epsworth.utility.engines.parts import Parts

MOST_SUMS = 2**16  # of a half: 30 coins take 2^15
MOST_PLACES = 2**17  # of one continuous part: 14 features with two atoms each


def halves(parts: list[Parts]) -> tuple[list[int], list[int]] | None:
    """Split features into two halves of at most `MOST_SUMS` sums each; None where that is not found."""
    sides: tuple[list[int], list[int]] = ([], [])
    counts = [1, 1]
    for j in sorted(range(len(parts)), key=lambda j: -parts[j].places.size):
        at = int(counts[1] < counts[0])
        sides[at].append(j)
        counts[at] *= parts[j].places.size
    return sides if max(counts) <= MOST_SUMS else None


def few_atoms(parts: list[Parts], weights: Floats, threshold: float, slack: float, tolerance: float) -> Interval:
    """Bound the sum of values that are all atoms: exactly where there are few, whatever the tolerance; else not."""
    sides, count = halves(parts), len(parts[0].masses)
    if sides is None:
        return Interval(np.zeros(count), np.ones(count))
    return atoms_at_most(parts, weights, threshold, slack, sides)


def atoms_at_most(
    parts: list[Parts], weights: Floats, threshold: float, slack: float, sides: tuple[list[int], list[int]]
) -> Interval:
    """Bound Pr[weights . Y <= t] for every t within ``slack`` of the threshold; shape ``(epsilons,)``.

    A sum is off by s + 2 units of all terms.  That it is at most t is a half line in each value, so that what
    cumulated masses are off counts once per value; products add 2 units for each, and n cumulated masses of the one
    half and n products with the other n each.
    """
    eta = slack + 2 * (len(parts) + 4) * UNIT * (abs(threshold) + float(np.abs(weights).sum()))
    (first, shares), (second, masses) = (_sums(parts, weights, side) for side in sides)
    order = np.argsort(second, kind="stable")
    second, masses = second[order], masses[:, order]
    cumulated = np.concatenate([np.zeros((len(masses), 1)), np.cumsum(masses, axis=1)], axis=1)
    lower, upper = (
        np.einsum("en,en->e", shares, cumulated[:, np.searchsorted(second, (threshold + by) - first, side="right")])
        for by in (-eta, eta)
    )
    off = len(parts) * (2 * MASS_ERROR + 4 * UNIT) + UNIT * (first.size + second.size + 8)
    return widened(lower, upper, off)


def countable(parts: list[Parts]) -> int:
    """Return how many continuous factors the terms may have that `few_continuous` adds up; -1: none of them."""
    if sum(_combinations(parts, j) for j in range(len(parts))) <= MOST_PLACES:
        return 1
    return 0 if halves(parts) is not None else -1


def _combinations(parts: list[Parts], without: int) -> int:
    return math.prod(part.places.size for j, part in enumerate(parts) if j != without)


def few_continuous(parts: list[Parts], weights: Floats, threshold: float, slack: float, most: int) -> Interval:
    """Bound the part of Pr[weights . Y <= t] in which at most ``most`` (0 or 1) values are from continuous parts.

    Of the atoms of all but one value, n sums and masses; what a continuous part has below each is off by `MASS_ERROR`
    and 3 units; n products add n + 8 units.  Parts of other values sum to less than 1.
    """
    sides = halves(parts)
    assert sides is not None
    found = atoms_at_most(parts, weights, threshold, slack, sides)
    if not most:
        return found
    eta = slack + 2 * (len(parts) + 4) * UNIT * (abs(threshold) + float(np.abs(weights).sum()))
    lower, upper, off = found.lower, found.upper, 0.0
    for j, part in enumerate(parts):
        sums, masses = _sums(parts, weights, [i for i in range(len(parts)) if i != j])
        for one in part.smooth:
            ends = (((threshold + by - sums) / weights[j])[np.newaxis] for by in (-eta, eta))
            low, high = (one.below(end) if weights[j] > 0 else one.mass[:, np.newaxis] - one.below(end) for end in ends)
            lower, upper = lower + (masses * low).sum(axis=1), upper + (masses * high).sum(axis=1)
        off += 2 * MASS_ERROR + UNIT * (sums.size + 16)
    return widened(lower, upper, off)


def _sums(parts: list[Parts], weights: Floats, side: list[int]) -> tuple[Floats, Floats]:
    sums, masses = np.zeros(1), np.ones((1, 1))
    for j in side:
        sums = (sums[:, np.newaxis] + weights[j] * parts[j].places).ravel()
        masses = (masses[:, :, np.newaxis] * parts[j].masses[:, np.newaxis]).reshape(len(parts[j].masses), -1)
    return sums, masses
