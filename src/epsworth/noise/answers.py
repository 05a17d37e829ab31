"""True answers on a public list or lattice: how they are rounded, and which values neighbours can be rounded to.

Rounding is to the nearest value, half-way ones upwards: cells are [cut, next cut).  A list and a sensitivity are read
as the decimals they print as, and every comparison is exact.  Answers are doubles, though: how far two of them are
apart, as decimals, as doubles or by a rounded sum, are three things that differ by ``slack``.  So the sensitivity is
widened by it, and cuts lie lower than half-way, each by twice that more than the one above it: cells that whole steps
keep apart stay apart, even where the list itself is rounded.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.noise.allowed import in_decimals, numbers

MOST_PAIRS = 200_000
MOST_ANSWERS = 100_000
LARGEST, NEAREST = 1e150, 1e-100  # of answers, and of two on a list: squares and quotients must stay finite
TIE = 1e-9  # relative; values a rounding error beyond the sensitivity still count as within it
# Of the largest number M of a list.  Two answers print as decimals off by 2^-53 M each, their sum or difference with a
# sensitivity of at most 2 M is rounded by 2^-53 2 M, and so is the sensitivity: 2^-51 M is more than all, this is four
# times that.  A larger sensitivity than 2 M compares all pairs anyway.
SLACK_BITS = 49
DRIFT_BITS = 10  # all cuts together are lowered by no more than this part of the smallest gap
SPLIT = 2.0**27 + 1  # Dekker 1971: halves of a double whose products are exact


@dataclass(frozen=True, eq=False)
class PublicList:
    """Possible true answers, ascending; declared before any data are seen to span every answer there can be."""

    values: Floats

    @cached_property
    def _cuts(self) -> tuple[list[int], int, int]:
        """Return the cuts and the slack as whole numbers of 1/denominator, and the denominator."""
        exact = [in_decimals(value) for value in self.values]
        whole = math.lcm(*(number.denominator for number in exact))
        scaled = [int(number * whole) for number in exact]
        gap, count = min(b - a for a, b in pairwise(scaled)), len(scaled)
        slack = max(abs(scaled[0]), abs(scaled[-1]))  # of 1 / (whole 2^SLACK_BITS)
        drift = min(2 * slack, (gap << SLACK_BITS - DRIFT_BITS) // count)
        halves = [(a + b) << SLACK_BITS - 1 for a, b in pairwise(scaled)]
        return [cut - (count - 2 - i) * drift for i, cut in enumerate(halves)], slack, whole << SLACK_BITS

    @cached_property
    def _cut_floats(self) -> Floats:
        """Return the smallest double of every upper cell."""
        cuts, _, whole = self._cuts
        return np.array([_first_from(Fraction(cut, whole)) for cut in cuts])

    def admitted(self, answers: ArrayLike) -> Floats:
        """Return the answers, all of which lie within the ends of the list; no message shows one."""
        found, low, high = finite(answers), self.values[0], self.values[-1]
        if not ((found >= low) & (found <= high)).all():
            raise ValueError(
                f"answers must lie between the ends of the public list, {low:g} and {high:g}; declare a list that "
                "spans every possible answer, or clip answers to these ends first (it costs no privacy)"
            )
        return found

    def rounded(self, answers: ArrayLike) -> Floats:
        """Return the nearest value of the list to every admitted answer."""
        return as_floats(self.values[np.searchsorted(self._cut_floats, self.admitted(answers), side="right")])

    def neighbours(self, sensitivity: float) -> tuple[Floats, Floats]:
        """Return all pairs of values, the smaller first, to which answers this far apart or less can be rounded.

        Answers in the cells of i < j can come nearer to each other than any number above (lower cut of j) - (upper cut
        of i), and never that near: so the cells are compared where this is below the sensitivity and the slack.
        """
        if np.diff(self.values).min() > sensitivity * (1 + TIE):
            raise ValueError(f"answers has no two values within sensitivity {sensitivity:g}; give a finer lattice")
        cuts, slack, whole = self._cuts
        reach = math.ceil(whole * in_decimals(sensitivity)) + slack
        last = np.array([bisect_left(cuts, cut + reach, lo=i) for i, cut in enumerate(cuts)])
        counts = last - np.arange(last.size)
        if counts.sum() > MOST_PAIRS:
            raise ValueError(
                f"answers has {counts.sum()} neighbouring pairs, more than {MOST_PAIRS}; give a coarser public lattice"
            )
        first = np.repeat(np.arange(last.size), counts)
        second = first + 1 + np.arange(first.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.values[first], self.values[second]


def listed(answers: ArrayLike) -> PublicList:
    """Check a public list: at least two different finite numbers."""
    if isinstance(answers, Iterator):
        raise ValueError("answers must be a list of numbers that can be read more than once; wrap it in list(..)")
    if isinstance(answers, Sized) and len(answers) > MOST_ANSWERS:
        raise ValueError(f"answers has {len(answers)} values, more than {MOST_ANSWERS}; give a coarser public lattice")
    values = np.unique(numbers(answers, "answers", at_most=LARGEST))
    if values.size < 2:
        raise ValueError(f"answers must hold at least two different numbers, got {values.size}")
    if np.diff(values).min() < NEAREST:
        raise ValueError(f"answers has values less than {NEAREST:g} apart; give a coarser public lattice")
    return PublicList(values + 0.0)  # no negative zero


def whole_numbers(low: float, high: float) -> PublicList:
    """Return the whole numbers of an interval."""
    first, last = math.ceil(low), math.floor(high)
    if last - first >= MOST_ANSWERS:
        raise ValueError(
            f"theta: the region [{low:g}, {high:g}] holds more than {MOST_ANSWERS} whole numbers; give answers, a "
            "coarser public list"
        )
    return listed([float(value) for value in range(first, last + 1)])


def finite(answers: ArrayLike) -> Floats:
    """Return true answers as an array of finite numbers; they are private, so no message shows one."""
    return numbers(answers, "answers", private=True)


def in_steps(answers: ArrayLike, step: float) -> Floats:
    """Round answers to whole numbers of steps, half-way ones upwards: floor(answer / step + 1/2), without rounding.

    A quotient of doubles can be off by an ulp, which next to a half-way point is a whole step: 0.15 and 0.25 must
    not be two steps of 0.1 apart.
    """
    found = finite(answers)
    exponent = math.frexp(step)[1]
    with np.errstate(over="ignore"):
        found, unit = np.ldexp(found, -exponent), math.ldexp(step, -exponent)  # exact: the step is in [1/2, 1)
        steps = np.floor(found / unit + 0.5)
        near = np.where(np.abs(steps) < 2.0**52, steps, 0.0)
    lower, upper = _below(found, near - 0.5, unit), _below(found, near + 0.5, unit)
    return np.asarray(np.where(near == steps, steps - lower + ~upper, steps))


def _below(answers: Floats, half_steps: Floats, step: float) -> Bools:
    """Return whether answer < half_steps * step, exactly: the product's rounding error is a double (Dekker 1971)."""
    product = half_steps * step
    (a, b), (c, d) = _halves(half_steps), _halves(as_floats(step))
    error = ((a * c - product) + a * d + b * c) + b * d
    return np.asarray(answers - product < error)  # the difference is exact wherever the error matters


def _halves(values: Floats) -> tuple[Floats, Floats]:
    shifted = SPLIT * values
    high = shifted - (shifted - values)
    return as_floats(high), as_floats(values - high)


def _first_from(cut: Fraction) -> float:
    """Return the smallest double that prints as at least this number."""
    found = float(cut)
    while in_decimals(found) < cut:
        found = math.nextafter(found, math.inf)
    while in_decimals(before := math.nextafter(found, -math.inf)) >= cut:
        found = before
    return found
