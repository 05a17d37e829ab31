"""Preferred regions: where an answer must land, and which pairs of true answers have to be compared."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, Indices, as_floats
from epsworth.noise.allowed import SHORTEST, in_decimals, length, positive
from epsworth.noise.answers import PublicList, finite, listed, whole_numbers
from epsworth.numerals import short

Kind = Literal["absolute", "relative", "fixed"]


class Pairs(NamedTuple):
    """Ordered pairs of true answers, arrays of one length."""

    first: Floats
    second: Floats


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

    @abstractmethod
    def pairs(self, sensitivity: float) -> Pairs:
        """Return ordered pairs whose worst is the worst of all neighbours."""

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

    def pairs(self, sensitivity: float) -> Pairs:
        """Return one pair at the full sensitivity.

        The density is symmetric and unimodal with mode 0.  For a shift d > 0 the set S = {m(z) > e^eps m(z - d)}
        lies in z < d, where m(z - d) falls with d: delta rises with d, and both orders are alike.
        """
        return Pairs(np.zeros(1), np.array([sensitivity]))


@dataclass(frozen=True, eq=False)
class OnLattice(Region):
    """A region that depends on the answer otherwise: answers are rounded to a public list, all pairs are compared.

    The region is the one around the *rounded* answer.  Seen from the true answer, it is shifted by what rounding
    moved, at most half a gap of the list (and a thousandth); answers on the list are not moved.
    """

    public: PublicList

    @property
    def answers(self) -> Floats:
        """The public list."""
        return self.public.values

    def admitted(self, answer: ArrayLike) -> Floats:
        """Return true answers as an array; those beyond the ends of the public list are refused."""
        return self.public.admitted(answer)

    def rounded(self, answer: ArrayLike) -> Floats:
        """Return the nearest values of the public list."""
        return self.public.rounded(answer)

    def pairs(self, sensitivity: float) -> Pairs:
        """Return all ordered pairs of values to which answers at most the sensitivity apart can be rounded."""
        a, b = self.public.neighbours(sensitivity)
        return Pairs(np.concatenate([a, b]), np.concatenate([b, a]))

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
        raise ValueError(f"region must be 'absolute', 'relative' or 'fixed', got {kind!r}")
    if kind != "relative" and offset is not None:
        raise ValueError(f"offset belongs to region='relative', got {offset!r} for {kind!r}; drop it")
    if kind == "absolute":
        if answers is not None:
            raise ValueError("answers belongs to region='relative' and 'fixed'; absolute errors do not need it")
        return Absolute(length(theta, "theta"))
    if kind == "relative":
        if offset is None or not positive(offset, "offset", zero=True):
            raise ValueError(
                f"offset must be positive for region='relative', got {offset!r}: at the answer 0 the region is "
                "offset wide on either side"
            )
        if answers is None:
            raise ValueError("answers is missing; region='relative' needs the public list of possible true answers")
        public = listed(answers)
        if public.values[0] < 0:
            raise ValueError(f"answers must not be negative for region='relative', got {public.values[0]:g}")
        return Relative(public, length(theta, "theta", zero=True), length(offset, "offset"))
    low, high = _ends(theta)
    public = whole_numbers(low, high) if answers is None else listed(answers)
    outside = public.values[(public.values < low) | (public.values > high)]
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
