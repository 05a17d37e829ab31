"""Preferred regions: where an answer must land, and which pairs of true answers have to be compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats

Kind = Literal["absolute", "relative", "fixed"]
MOST_PAIRS = 200_000
TIE = 1e-9  # relative; answers a rounding error beyond the sensitivity still count as neighbours


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
    """A region that depends on the answer otherwise: answers lie on a public list, and all pairs are compared."""

    answers: Floats

    def pairs(self, sensitivity: float) -> Pairs:
        """Return all ordered pairs of different answers at most the sensitivity apart."""
        first, second = [], []
        reach = sensitivity * (1 + TIE)
        last = np.searchsorted(self.answers, self.answers + reach, side="right")
        count = int((last - np.arange(self.answers.size) - 1).sum())
        if count > MOST_PAIRS:
            raise ValueError(
                f"answers has {count} neighbouring pairs, more than {MOST_PAIRS}; give a coarser public lattice"
            )
        for i, stop in enumerate(last):
            second.append(self.answers[i + 1 : stop])
            first.append(np.full(second[-1].size, self.answers[i]))
        a, b = np.concatenate(first), np.concatenate(second)
        if a.size == 0:
            raise ValueError(f"answers has no two values within sensitivity {sensitivity:g}; give a finer lattice")
        return Pairs(np.concatenate([a, b]), np.concatenate([b, a]))


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
        return Absolute(positive(theta, "theta"))
    if kind == "relative":
        if offset is None or not offset > 0:
            raise ValueError(
                f"offset must be positive for region='relative', got {offset!r}: at the answer 0 the region is "
                "offset wide on either side"
            )
        if answers is None:
            raise ValueError("answers is missing; region='relative' needs the public list of possible true answers")
        listed = _listed(answers)
        if listed[0] < 0:
            raise ValueError(f"answers must not be negative for region='relative', got {listed[0]:g}")
        return Relative(listed, positive(theta, "theta", zero=True), positive(offset, "offset"))
    low, high = _ends(theta)
    listed = _listed(np.arange(np.ceil(low), np.floor(high) + 1) if answers is None else answers)
    outside = listed[(listed < low) | (listed > high)]
    if outside.size:
        raise ValueError(f"answers must lie in the region [{low:g}, {high:g}], got {outside[0]:g}; clip them first")
    return Fixed(listed, low, high)


def positive(value: object, field: str, *, zero: bool = False) -> float:
    """Check a number that must be positive (or zero) and finite."""
    number = float(value) if isinstance(value, (int, float, np.integer, np.floating)) else np.nan
    if isinstance(value, bool) or not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ValueError(f"{field} must be {'not negative' if zero else 'positive'} and finite, got {value!r}")
    return number


def share(value: object, field: str, *, zero: bool = False) -> float:
    """Check a probability in (0, 1), or in [0, 1)."""
    number = positive(value, field, zero=zero)
    if number >= 1:
        raise ValueError(f"{field} must be below 1, got {value!r}")
    return number


def _ends(theta: float | tuple[float, float]) -> tuple[float, float]:
    if np.ndim(theta) == 0:
        half = positive(theta, "theta")
        return -half, half
    ends = as_floats(theta)
    if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise ValueError(f"theta must be the two ends of the region, the lower first, got {theta!r}")
    return float(ends[0]), float(ends[1])


def _listed(answers: ArrayLike) -> Floats:
    listed = np.unique(as_floats(answers))
    if listed.size < 2 or not np.isfinite(listed).all():
        raise ValueError(f"answers must hold at least two finite numbers, got {listed.size}")
    return listed
