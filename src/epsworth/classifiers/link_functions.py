"""Link functions of ensembles: probabilities, scores and votes from sums of trees, with bounds on their rounding.

A response maps sums, each known up to a slack, to values between two ends.  Maps of single sums rise or fall, so that
the ends follow from those of the sums.  What follows from the ends is certain; elsewhere the model itself is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.reading import adjacent_floats

ROUNDING = 1e-12  # of probabilities in double precision, far above what few operations can be off by
SINGLE_ROUNDING = 1e-6  # in single precision: a few times the spacing below 1, 6e-8


class Ends(NamedTuple):
    """Values between two ends, shape ``(n, values)``."""

    low: Floats
    high: Floats

    def wider(self, room: float) -> Ends:
        """Return ends that lie farther apart."""
        return Ends(self.low - room, self.high + room)

    def both(self) -> Ends:
        """Return the probabilities of two classes from those of the second."""
        return Ends(np.column_stack([1 - self.high, self.low]), np.column_stack([1 - self.low, self.high]))


Response = Callable[[Floats, Floats], Ends]
"""From sums of trees, shape ``(n, sums)``, and the slack of each sum."""


Members = tuple[tuple[Response, slice], ...]
"""Responses, each to sums of its own."""


def _ends(members: Members, sums: Floats, slack: Floats) -> list[Ends]:
    return [member(sums[:, at], slack[at]) for member, at in members]


@dataclass(frozen=True)
class Sums:
    """The sums themselves, as scores."""

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends."""
        return Ends(sums - slack, sums + slack)


@dataclass(frozen=True, eq=False)
class Negated:
    """The scores of the first of two classes: those of the second with their sign changed."""

    inner: Response

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends."""
        low, high = self.inner(sums, slack)
        return Ends(-high, -low)


@dataclass(frozen=True)
class Shares:
    """Averages of class shares over so many trees; for two classes the sum is that of their differences."""

    trees: int

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends."""
        low, high = (sums - slack) / self.trees, (sums + slack) / self.trees
        ends = Ends((1 + low) / 2, (1 + high) / 2).both() if sums.shape[1] == 1 else Ends(low, high)
        return ends.wider(ROUNDING)


@dataclass(frozen=True)
class Logistic:
    """The logistic function of a single score, or the softmax of several: as boosting turns them into probabilities."""

    slope: float = 1.0
    room: float = ROUNDING

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends; in the largest norm a softmax moves by less than its scores do."""
        if sums.shape[1] == 1:
            low, high = expit(self.slope * (sums - slack)), expit(self.slope * (sums + slack))
            return Ends(low, high).both().wider(self.room)
        shares = softmax(self.slope * sums, axis=1)
        return Ends(shares, shares).wider(float(self.slope * np.max(slack)) + self.room)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Class by class a fitted calibrator of a response, by its own code, and all shares divided by their sum.

    A single isotonic calibrator that rises as it is computed is not rounded at all: a plateau at 1/2 is a tie.
    """

    inner: Response
    calibrators: tuple[Any, ...]

    @cached_property
    def rises(self) -> bool:
        """Whether the first calibrator, as it is computed, never falls.

        Between two thresholds y + slope (x - x_0) rises in doubles, too, as each of its operations does; where it is
        put together, the doubles on both sides are compared.
        """
        at = getattr(self.calibrators[0], "X_thresholds_", None)
        if not isinstance(at, np.ndarray) or at.dtype != np.float64:
            return False
        return bool((np.diff(self.calibrators[0].predict(np.sort(adjacent_floats(at)))) >= 0).all())

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends; calibrators rise or fall."""
        one = len(self.calibrators) == 1
        columns = [end.T[-1:] if one else end.T for end in self.inner(sums, slack)]
        sides = [
            np.column_stack([c.predict(column) for c, column in zip(self.calibrators, end, strict=True)])
            for end in columns
        ]
        room = 0.0 if one and self.rises else ROUNDING
        low, high = np.clip(np.minimum(*sides) - room, 0, 1), np.clip(np.maximum(*sides) + room, 0, 1)
        if one:
            return Ends(low, high).both()
        others_low, others_high = low.sum(axis=1, keepdims=True) - low, high.sum(axis=1, keepdims=True) - high
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = low / (low + others_high), high / (high + others_low)
        return Ends(np.nan_to_num(shares[0], nan=0.0), np.nan_to_num(shares[1], nan=1.0)).wider(ROUNDING)


@dataclass(frozen=True, eq=False)
class Votes:
    """One for the class that a decision takes, nothing for the others; where it is open, both for all."""

    decision: Callable[[Floats, Floats], tuple[NDArray[np.intp], Bools]]
    classes: int

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends."""
        places, clear = self.decision(sums, slack)
        own = np.arange(self.classes) == places[:, np.newaxis]
        open_ = ~clear[:, np.newaxis]
        return Ends((own & ~open_).astype(np.float64), (own | open_).astype(np.float64))


@dataclass(frozen=True, eq=False)
class Average:
    """Weighted sums of the members' responses, each to sums of its own."""

    members: Members
    weights: Floats

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends; sums of small whole numbers are not rounded."""
        parts = _ends(self.members, sums, slack)
        low, high = (sum(w * ends[side] for w, ends in zip(self.weights, parts, strict=True)) for side in (0, 1))
        total = float(np.abs(self.weights).sum())
        whole = bool((self.weights == np.rint(self.weights)).all()) and total < 2**50
        exact = whole and all(isinstance(member, Votes) for member, _ in self.members)
        return Ends(np.asarray(low), np.asarray(high)).wider(0.0 if exact else ROUNDING * total)


@dataclass(frozen=True, eq=False)
class OneVsRest:
    """Several one-valued responses, each to sums of its own, side by side: the scores of one class against the rest."""

    members: Members

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends of the last value of each."""
        parts = _ends(self.members, sums, slack)
        return Ends(*(np.column_stack([ends[side][:, -1] for ends in parts]) for side in (0, 1)))


@dataclass(frozen=True, eq=False)
class OneVsOne:
    """One class against one: votes of all pairs of classes, and their summed confidences to part equal votes.

    Members are the confidence that the later class of a pair is meant, the pair's vote, and where its sums stand.
    """

    members: tuple[tuple[Response, Votes, slice], ...]
    classes: int

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends of votes + x / (3 (|x| + 1)), where x sums confidences for a class less those against it."""
        votes, trust, sizes = np.zeros((3, 2, len(sums), self.classes))
        for pair, (confidence, vote, at) in zip(combinations(range(self.classes), 2), self.members, strict=True):
            low, high = (end[:, -1] for end in confidence(sums[:, at], slack[at]))
            votes[..., pair] += np.stack(vote(sums[:, at], slack[at]))
            trust[..., pair[0]] -= high, low
            trust[..., pair[1]] += low, high
            sizes[..., pair] += np.maximum(np.abs(low), np.abs(high))[:, np.newaxis]
        trust += np.array([-ROUNDING, ROUNDING])[:, np.newaxis, np.newaxis] * sizes
        return Ends(*(votes + trust / (3 * (np.abs(trust) + 1)))).wider(ROUNDING)


@dataclass(frozen=True, eq=False)
class Stacked:
    """Linear scores of the members' responses side by side; of two classes, the last value of each.

    ``weights`` has shape ``(scores, values)``.
    """

    members: Members
    weights: Floats
    constants: Floats

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends of the scores."""
        parts = _ends(self.members, sums, slack)
        two = len(self.weights) == 1
        low, high = (np.hstack([ends[side][:, -1:] if two else ends[side] for ends in parts]) for side in (0, 1))
        sizes = np.maximum(np.abs(low), np.abs(high))
        size = np.abs(self.weights).T
        room = (high - low) / 2 @ size + ROUNDING * (sizes @ size + np.abs(self.constants))
        middle = (low + high) / 2 @ self.weights.T + self.constants
        return Ends(middle - room, middle + room)


@dataclass(frozen=True, eq=False)
class Largest:
    """The label of the largest value of a response, the first one of equals."""

    response: Response
    slack: Floats

    def __call__(self, sums: Floats) -> tuple[NDArray[np.intp], Bools]:
        """Return the places of labels, and where they are certain."""
        low, high = self.response(sums, self.slack)
        places = np.argmax(low + high, axis=1)
        at = np.arange(len(places)), places
        rivals = high.copy()
        rivals[at] = -np.inf
        return places, np.asarray((low == high).all(axis=1) | (low[at] > rivals.max(axis=1)))


@dataclass(frozen=True, eq=False)
class AtLeast:
    """One of two labels where a value of a response reaches a level, the other below it."""

    response: Response
    column: int
    level: float
    places: tuple[int, int]
    slack: Floats

    def __call__(self, sums: Floats) -> tuple[NDArray[np.intp], Bools]:
        """Return the places of labels, and where they are clear."""
        low, high = (end[:, self.column] for end in self.response(sums, self.slack))
        clear = (low > self.level) | (high < self.level)
        return np.where(low + high >= 2 * self.level, *self.places[::-1]), np.asarray(clear)


def slices(widths: Sequence[int]) -> list[slice]:
    """Return where the sums of models stand that are put beside each other."""
    ends = np.cumsum([0, *widths]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]
