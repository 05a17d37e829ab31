"""Sums of released values in closed form: few mixtures of uniform laws, few atoms, unclipped noise.

One component of each law at a time: Pr[B1 U1 + B2 U2 + B3 U3 <= q] for B1 >= B2 >= B3 is the average over z in
[q - B1, q] of H(z) = Pr[B2 U2 + B3 U3 <= z], which is quadratic between 0, B3, B2 and B2 + B3: Simpson's rule is exact
between these.  H itself is the average of clip(., 0, 1) over [(z - B3) / B2, z / B2].

In units of 2^-53, absolutely: an average of clip moves by no more than its ends, 2 each, and is a quotient of sums of
positive terms, 8; Simpson's sum over five pieces adds 8, what their lengths and ends are off 2 each, and a kink that is
misplaced by 1 costs 2.  Shares of components are products of three factors that are off by 2 and add up to one in
any order, 24 terms deep: 64 units are more than the sum.

*Atoms.*  All sums of one half of the atoms against those of the other (Horowitz & Sahni 1974): with n values in each
half, n log n instead of n^2.  One continuous part is summed over all atoms of the others.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.mechanisms.law import MASS_ERROR
from epsworth.rounding import UNIT
from epsworth.utility.engines.contraction import widened
from epsworth.utility.engines.parts import Parts, Uniform

MOST_FEATURES, MOST_COMPONENTS = 3, 256
ROUNDING = 96 * UNIT


class Component(NamedTuple):
    """``mass`` spread evenly over [anchor + start, anchor + start + width]; of shape ``(epsilons,)`` or ``(1,)``."""

    mass: Floats
    anchor: Floats
    start: Floats
    width: Floats


def components(parts: Parts) -> list[Component]:
    """Return what a law of atoms and uniform parts is mixed from."""
    zero = np.zeros(1)
    found = [
        Component(mass, np.array([place]), zero, zero)
        for place, mass in zip(parts.places.tolist(), parts.masses.T, strict=True)
    ]
    for part in parts.smooth:
        assert isinstance(part, Uniform)
        found.append(Component(part.mass, part.anchor, part.start, part.width))
    return found


def closes(parts: list[Parts]) -> bool:
    """Tell whether `uniform_sum` can answer: few values, few components."""
    if len(parts) > MOST_FEATURES or not all(part.uniform for part in parts):
        return False
    return int(np.prod([part.places.size + len(part.smooth) for part in parts])) <= MOST_COMPONENTS


def uniform_sum(parts: list[Parts], weights: Floats, threshold: float, slack: float) -> Interval:
    """Bound Pr[sum_j w_j Y_j <= t] for every t within ``slack`` of the threshold; shape ``(epsilons,)``."""
    lower = upper = np.zeros(1)
    for chosen in product(*map(components, parts)):
        share = np.prod(np.broadcast_arrays(*(one.mass for one in chosen)), axis=0)
        rest = _without_anchors(threshold, weights, [one.anchor for one in chosen])
        starts = [w * one.start + np.minimum(w * one.width, 0) for w, one in zip(weights, chosen, strict=True)]
        widths = [abs(w) * one.width for w, one in zip(weights, chosen, strict=True)]
        q = rest - sum(starts)
        # the rest, an offset and a reflected width are off by 2 units, their sum by one for each
        eta = slack + 12 * UNIT * (np.abs(rest) + sum(map(np.abs, starts)) + sum(widths))
        wide = np.sort(np.stack(np.broadcast_arrays(q, *widths, *[0 * q] * (3 - len(widths)))[1:]), axis=0)[::-1]
        lower = lower + share * share_below(q - eta, *wide)
        upper = upper + share * share_below(q + eta, *wide)
    return widened(lower, upper, ROUNDING + 2 * len(parts) * MASS_ERROR * any(part.places.size for part in parts))


def _without_anchors(threshold: float, weights: Floats, anchors: list[Floats]) -> Floats:
    """Return the threshold less w . anchors, rounded once: anchors and threshold cancel where windows are narrow."""
    rows = np.stack(np.broadcast_arrays(*anchors), axis=-1)
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    exact = [Fraction(w) for w in weights.tolist()]
    rest = [
        float(Fraction(threshold) - sum((w * Fraction(x) for w, x in zip(exact, row, strict=True)), Fraction(0)))
        for row in distinct.tolist()
    ]
    return np.asarray(np.array(rest)[which.reshape(len(rows))])


def share_below(q: Floats, first: Floats, second: Floats, third: Floats) -> Floats:
    """Return Pr[B1 U1 + B2 U2 + B3 U3 <= q] for independent uniform U on [0, 1] and B1 >= B2 >= B3 >= 0."""
    q = np.minimum(np.maximum(q, 0 * q - 1e300), 1e300)
    low = q - first
    knots = [np.clip(knot, low, q) for knot in (0 * q, third, second, second + third)]
    ends = np.stack([low, *knots, q])
    ends = np.maximum.accumulate(ends, axis=0)
    left, right = ends[:-1], ends[1:]
    middle = 0.5 * (left + right)
    averages = (_two_below(left, second, third) + 4 * _two_below(middle, second, third)
                + _two_below(right, second, third)) / 6  # fmt: skip
    total = ends[-1] - ends[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(second > 0, ((right - left) / total * averages).sum(axis=0), np.maximum(q, 0) / total)
    return np.asarray(np.where(total > 0, np.minimum(found, 1.0), _two_below(q, second, third)))


def _two_below(z: Floats, second: Floats, third: Floats) -> Floats:
    """Return Pr[B2 U2 + B3 U3 <= z]: the average of clip(., 0, 1) between two ends; a step where both are constants."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        low, high = ((z - third) / second, z / second)
        low, high = (np.clip(np.nan_to_num(end, nan=0.0), -1e9, 1e9) for end in (low, high))
        inside = np.maximum(np.minimum(high, 1) - np.maximum(low, 0), 0.0)
        height = 0.5 * (np.clip(low, 0, 1) + np.clip(high, 0, 1))
        average = (inside * height + np.maximum(high - np.maximum(low, 1), 0.0)) / (high - low)
    found = np.where(high > low, average, np.clip(high, 0, 1))
    return np.where(second > 0, found, z >= 0)


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
    sizes = [part.places.size for part in parts]
    if sum(math.prod(sizes[:j] + sizes[j + 1 :]) for j in range(len(sizes))) <= MOST_PLACES:
        return 1
    return 0 if halves(parts) is not None else -1


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
