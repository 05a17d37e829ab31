"""Preferred regions: where an answer must land, and which pairs of true answers have to be compared.

On a public list answers are rounded to the nearest value, half-way ones upwards: cells are [cut, next cut).  A list and
a sensitivity are read as the decimals they print as, and every comparison is exact.  Answers are doubles, though: how
far two of them are apart, as decimals, as doubles or by a rounded sum, are three things that differ by ``slack``.  So
the sensitivity is widened by it, and cuts lie lower than half-way, each by twice that more than the one above it: cells
that whole steps keep apart stay apart, even where the list itself is rounded.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, Indices, as_floats
from epsworth.noise.allowed import SHORTEST, finite, in_decimals, length, numbers, positive
from epsworth.numerals import short

MOST_PAIRS = 200_000
MOST_ANSWERS = 100_000
LARGEST, NEAREST = 1e150, 1e-100  # of answers, and of two on a list: squares and quotients must stay finite
TIE = 1e-9  # relative; values a rounding error beyond the sensitivity still count as within it
# Of the largest number M of a list.  Two answers print as decimals off by 2^-53 M each, their sum or difference with a
# sensitivity of at most 2 M is rounded by 2^-53 2 M, and so is the sensitivity: 2^-51 M is more than all, this is four
# times that.  A larger sensitivity than 2 M compares all pairs anyway.
SLACK_BITS = 49
DRIFT_BITS = 10  # all cuts together are lowered by no more than this part of the smallest gap
Kind = Literal["absolute", "relative", "fixed"]


@dataclass(frozen=True, eq=False)
class Region(ABC):
    """A set of preferred outputs for every true answer; closed intervals."""

    @abstractmethod
    def ends(self, answer: ArrayLike) -> tuple[Floats, Floats]:
        """Return the interval of preferred outputs for each true answer."""

    @property
    @abstractmethod
    def hardest(self) -> Floats:
        """True answers among which the kernel lands outside most often."""

    @property
    def half(self) -> float:
        """Half-width of the interval at the answer where it is narrowest."""
        low, high = self.ends(self.hardest)
        return float((high - low).min() / 2)

    @abstractmethod
    def pairs(self, sensitivity: float) -> tuple[Floats, Floats]:
        """Return the first and second answers of ordered pairs whose worst is the worst of all neighbours."""

    def admitted(self, answer: ArrayLike) -> Floats:
        """Return true answers as an array; those that the promise does not cover are refused."""
        return finite(answer)

    def rounded(self, answer: ArrayLike) -> Floats:
        """Return the answers that noise is added to."""
        return self.admitted(answer)


@dataclass(frozen=True, eq=False)
class Absolute(Region):
    """Within ``theta`` of the true answer: the noise does not depend on the answer."""

    theta: float

    def ends(self, answer: ArrayLike) -> tuple[Floats, Floats]:
        """Return answer -+ theta."""
        return as_floats(answer) - self.theta, as_floats(answer) + self.theta

    @property
    def hardest(self) -> Floats:
        """Any answer is as hard as any other."""
        return np.zeros(1)

    def pairs(self, sensitivity: float) -> tuple[Floats, Floats]:
        """Return one pair at the full sensitivity.

        The density is symmetric and unimodal with mode 0.  For a shift d > 0 the set S = {m(z) > e^eps m(z - d)}
        lies in z < d, where m(z - d) falls with d: delta rises with d, and both orders are alike.
        """
        return np.zeros(1), np.array([sensitivity])


@dataclass(frozen=True, eq=False)
class OnLattice(Region):
    """A region that depends on the answer otherwise: answers are rounded to a public list, all pairs are compared.

    The region is the one around the *rounded* answer.  Seen from the true answer, it is shifted by what rounding
    moved, at most half a gap of the list (and a thousandth); answers on the list are not moved.

    Attributes
    ----------
    answers : ndarray
        The list, ascending; declared before any data are seen to span every answer there can be.
    """

    answers: Floats

    @cached_property
    def _cuts(self) -> tuple[list[int], int, int]:
        """Return the cuts and the slack as whole numbers of 1/denominator, and the denominator."""
        exact = [in_decimals(value) for value in self.answers]
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

    def admitted(self, answer: ArrayLike) -> Floats:
        """Return true answers as an array; those beyond the ends of the list are refused, and no message shows one."""
        found, low, high = finite(answer), self.answers[0], self.answers[-1]
        if not ((found >= low) & (found <= high)).all():
            raise ValueError(
                f"answers must lie between the ends of the public list, {low:g} and {high:g}; declare a list that "
                "spans every possible answer, or clip answers to these ends first (it costs no privacy)"
            )
        return found

    def rounded(self, answer: ArrayLike) -> Floats:
        """Return the nearest values of the public list."""
        return as_floats(self.answers[np.searchsorted(self._cut_floats, self.admitted(answer), side="right")])

    def pairs(self, sensitivity: float) -> tuple[Floats, Floats]:
        """Return all ordered pairs of values to which answers at most the sensitivity apart can be rounded.

        Answers in the cells of i < j can come nearer to each other than any number above (lower cut of j) - (upper cut
        of i), and never that near: so the cells are compared where this is below the sensitivity and the slack.
        """
        if np.diff(self.answers).min() > sensitivity * (1 + TIE):
            raise ValueError(f"answers has no two values within sensitivity {sensitivity:g}; give a finer lattice")
        cuts, slack, whole = self._cuts
        reach = math.ceil(whole * in_decimals(sensitivity)) + slack
        last = np.array([bisect_left(cuts, cut + reach, lo=i) for i, cut in enumerate(cuts)])
        counts = last - np.arange(last.size)
        if counts.sum() > MOST_PAIRS:
            raise ValueError(
                f"answers has {counts.sum()} neighbouring pairs, more than {MOST_PAIRS}; give a coarser public lattice"
            )
        low = np.repeat(np.arange(last.size), counts)
        high = low + 1 + np.arange(low.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.answers[np.concatenate([low, high])], self.answers[np.concatenate([high, low])]

    def row_pairs(self, row: Indices, sensitivity: float) -> tuple[Indices, Indices]:
        """Return the ordered pairs of different rows that neighbours can have, where each answer has a row."""
        met = np.unique([row[np.searchsorted(self.answers, part)] for part in self.pairs(sensitivity)], axis=1)
        first, second = met[:, met[0] != met[1]]
        return first, second


@dataclass(frozen=True, eq=False)
class Relative(OnLattice):
    """Within ``offset + theta * answer`` of a true answer that is not negative."""

    theta: float
    offset: float

    def ends(self, answer: ArrayLike) -> tuple[Floats, Floats]:
        """Return answer -+ (offset + theta answer)."""
        answer = as_floats(answer)
        half = self.offset + self.theta * answer
        return answer - half, answer + half

    @cached_property
    def exact_ends(self) -> tuple[NDArray[np.object_], NDArray[np.object_], int]:
        """Both ends for each answer in units of one over the last number; numbers are the decimals they print as."""
        theta, offset = in_decimals(self.theta), in_decimals(self.offset)
        exact = [in_decimals(answer) for answer in self.answers.tolist()]
        unit = math.lcm(*(answer.denominator for answer in exact)) * theta.denominator * offset.denominator
        halves = np.array([int((offset + theta * answer) * unit) for answer in exact], dtype=object)
        whole = np.array([int(answer * unit) for answer in exact], dtype=object)
        return whole - halves, whole + halves, unit

    @property
    def hardest(self) -> Floats:
        """The smallest answer has the narrowest interval."""
        return self.answers[:1]


@dataclass(frozen=True, eq=False)
class Fixed(OnLattice):
    """Between two public ends, whatever the true answer, which lies between them too."""

    low: float
    high: float

    def ends(self, answer: ArrayLike) -> tuple[Floats, Floats]:
        """Return the two ends."""
        answer = as_floats(answer)
        return np.full(answer.shape, self.low), np.full(answer.shape, self.high)

    @property
    def hardest(self) -> Floats:
        """Every answer: the worst is at one of the ends."""
        return self.answers[[0, -1]]


def region(
    kind: Kind,
    theta: float | tuple[float, float],
    *,
    offset: float | None = None,
    answers: ArrayLike | None = None,
) -> Region:
    """Build a region from the words of the public functions, checked.

    Parameters
    ----------
    kind : {"absolute", "relative", "fixed"}
        Which constraint.
    theta : float or pair
        ``absolute``: half-width.  ``relative``: fraction of the true answer.  ``fixed``: the two ends, or the
        half-width of an interval around zero.
    offset : float, optional
        ``relative``: half-width at the answer zero.
    answers : array_like, optional
        ``relative`` and ``fixed``: the public list of possible true answers, on which answers are rounded before
        noise is added.  ``fixed``: the whole numbers in the region by default.
    """
    if kind not in ("absolute", "relative", "fixed"):
        raise ValueError(f"region must be 'absolute', 'relative' or 'fixed', got {short(kind)}")
    if kind != "relative" and offset is not None:
        raise ValueError(f"offset belongs to region='relative', got {short(offset)} for {kind!r}; drop it")
    if kind == "absolute":
        if answers is not None:
            raise ValueError("answers belongs to region='relative' and 'fixed'; absolute errors do not need it")
        return Absolute(length(theta, "theta"))
    if kind == "relative":
        if offset is None or not positive(offset, "offset", zero=True):
            raise ValueError(
                f"offset must be positive for region='relative', got {short(offset)}: at the answer 0 the region is "
                "offset wide on either side"
            )
        if answers is None:
            raise ValueError("answers is missing; region='relative' needs the public list of possible true answers")
        public = _listed(answers)
        if public[0] < 0:
            raise ValueError(f"answers must not be negative for region='relative', got {public[0]:g}")
        return Relative(public, length(theta, "theta", zero=True), length(offset, "offset"))
    low, high = _ends(theta)
    public = _whole_numbers(low, high) if answers is None else _listed(answers)
    outside = public[(public < low) | (public > high)]
    if outside.size:
        raise ValueError(f"answers must lie in the region [{low:g}, {high:g}], got {outside[0]:g}; clip them first")
    return Fixed(public, low, high)


def _ends(theta: float | tuple[float, float]) -> tuple[float, float]:
    if np.ndim(theta) == 0:
        half = length(theta, "theta")
        return -half, half
    try:
        ends = as_floats(theta)
    except (TypeError, ValueError, OverflowError):
        ends = np.array([])
    if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise ValueError(f"theta must be the two ends of the region, the lower first, got {short(theta)}")
    if np.abs(ends).max() > 1 / SHORTEST:
        raise ValueError(f"theta must lie within -+{1 / SHORTEST:g}, got {short(theta)}; choose another unit")
    length(float(ends[1] - ends[0]), "theta's width")
    return float(ends[0]), float(ends[1])


def _listed(answers: ArrayLike) -> Floats:
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
    return as_floats(values + 0.0)  # no negative zero


def _whole_numbers(low: float, high: float) -> Floats:
    first, last = math.ceil(low), math.floor(high)
    if last - first >= MOST_ANSWERS:
        raise ValueError(
            f"theta: the region [{low:g}, {high:g}] holds more than {MOST_ANSWERS} whole numbers; give answers, a "
            "coarser public list"
        )
    return _listed([float(value) for value in range(first, last + 1)])


def _first_from(cut: Fraction) -> float:
    """Return the smallest double that prints as at least this number."""
    found = float(cut)
    while in_decimals(found) < cut:
        found = math.nextafter(found, math.inf)
    while in_decimals(before := math.nextafter(found, -math.inf)) >= cut:
        found = before
    return found
