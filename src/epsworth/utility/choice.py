"""Which mechanism, at which epsilon: what curves say about a stability that is wanted, without a word of prose.

Nothing here assumes that curves rise with epsilon; they need not (a clipped or piecewise mechanism can
lose stability as epsilon grows), so the grid is scanned, never bisected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.guarantees import STRENGTH, Guarantee, ceiling, epsilon_needed
from epsworth.mechanisms.family import is_tailored
from epsworth.numerals import as_float, positive, short
from epsworth.results import Result
from epsworth.rounding import round_down
from epsworth.search import Scan
from epsworth.utility.attacker import certainty
from epsworth.utility.curve_parts import CurveParts
from epsworth.utility.curves import Curves, Quantity

MAX_EPSILON = 4.0  # of a record, unless more is accepted: a certainty of 98.3 % about either of two values


@dataclass(frozen=True)
class Choice(Result):
    """One mechanism at the smallest grid epsilon that is guaranteed to be enough.

    Attributes
    ----------
    epsilon : float
        Per record.
    guarantee : Guarantee
        Per record.
    lower, upper : float
        Bounds on what was asked for, at that epsilon.
    holds_above : bool
        Whether every larger epsilon of the grid is guaranteed to be enough, too.
    """

    mechanism: str
    epsilon: float
    guarantee: Guarantee
    lower: float
    upper: float
    holds_above: bool

    def __str__(self) -> str:
        """Return the choice as a sentence, rounded to the safe side."""
        return f"{self.words}: at least {round_down(self.lower):g}, {self.above}"

    @property
    def tailored(self) -> bool:
        """Whether it is made for one classifier, and randomises whole records."""
        return is_tailored(self.mechanism)

    @property
    def words(self) -> str:
        """The mechanism and its promise."""
        return f"{self.mechanism}: {self.guarantee}"

    @property
    def above(self) -> str:
        """What holds at larger epsilons."""
        return "and at every larger epsilon of the grid" if self.holds_above else "but not at every larger epsilon"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        promise = self.guarantee
        return {
            "mechanism": self.mechanism,
            "epsilon_per_record": promise.epsilon,
            "delta_per_record": promise.delta,
            "notion": promise.notion,
            "lower": self.lower,
            "upper": self.upper,
            "holds_above": self.holds_above,
        }


@dataclass(frozen=True)
class Limits:
    """What a promise per record may be at most to be accepted.

    Attributes
    ----------
    sure : float
        How sure of one of two values, held equally likely, a release may make whoever sees it.
    """

    delta: float = 1.0
    epsilon: float = math.inf
    sure: float = 1.0

    @classmethod
    def of_wish(cls, delta: float | None, max_epsilon: float | None, at_most_sure: float | None) -> Limits:
        """Check what is wished for; where neither epsilon nor certainty are limited, epsilon is by `MAX_EPSILON`."""
        if delta is not None and not 0 <= as_float(delta) < 1:
            raise ValueError(f"delta must lie in [0, 1), got {short(delta)}; without it any is accepted")
        most = 1.0 if delta is None else float(delta)
        if at_most_sure is None:
            return cls(most, positive("max_epsilon", MAX_EPSILON if max_epsilon is None else max_epsilon))
        if max_epsilon is not None:
            raise ValueError("max_epsilon and at_most_sure are two ways to say one thing; keep one")
        sure = as_float(at_most_sure)
        if not 0.5 < sure < 1:
            raise ValueError(f"at_most_sure must lie strictly between 0.5 and 1, got {short(at_most_sure)}")
        return cls(most, math.log(sure / (1 - sure)), sure)

    def accept(self, promise: Guarantee) -> bool:
        """Tell whether a promise protects enough."""
        return promise.delta <= self.delta and promise.epsilon <= self.epsilon and certainty(promise) <= self.sure


@dataclass(frozen=True, eq=False)
class Scanned:
    """Curves, scanned for points that keep ``of`` at or above ``at_least``.

    Attributes
    ----------
    limits : Limits
        What is accepted.
    lower, upper : ndarray, shape ``(mechanisms, epsilons)``
        Bounds on what was asked for.
    """

    curves: Curves | CurveParts
    at_least: float
    on: str | int
    of: Quantity
    limits: Limits
    lower: Floats
    upper: Floats

    @cached_property
    def deltas(self) -> Floats:
        """Deltas per record by mechanism and epsilon; infinite where a promise is not accepted."""
        promised = self.curves.guarantees
        return np.array([[one.delta if self.limits.accept(one) else np.inf for one in row] for row in promised])

    @cached_property
    def beyond(self) -> Scanned:
        """The same with any epsilon."""
        return replace(self, limits=Limits(self.limits.delta))

    @cached_property
    def scans(self) -> dict[int, Scan]:
        """What the grid says of each mechanism that is admitted anywhere."""
        admitted = np.isfinite(self.deltas)
        met, refuted = admitted & (self.lower >= self.at_least), ~admitted | (self.upper < self.at_least)
        return {int(m): Scan(met[m], refuted[m]) for m in np.flatnonzero(admitted.any(axis=1))}

    @cached_property
    def choices(self) -> dict[int, Choice]:
        """Every mechanism that is enough somewhere, at its smallest such epsilon."""
        return {m: self._choice(m, e) for m, scan in self.scans.items() if (e := scan.first_met) is not None}

    def _choice(self, m: int, e: int) -> Choice:
        curves, (lower, upper) = self.curves, (float(side[m, e]) for side in (self.lower, self.upper))
        return Choice(
            curves.mechanisms[m],
            float(curves.epsilons[e]),
            curves.guarantees[m][e],
            lower,
            upper,
            self.beyond.scans[m].holds_above,
        )

    @property
    def best(self) -> Choice | None:
        """Strongest privacy notion first, then the smallest total budget, then the highest guarantee."""
        return min(self.choices.values(), key=_order, default=None)

    @cached_property
    def closest(self) -> Choice | None:
        """What is guaranteed to keep most among what is accepted, of equals who may keep more."""
        admitted = np.isfinite(self.deltas)
        if not admitted.any():
            return None
        lower, upper = (np.where(admitted, side, -1.0) for side in (self.lower, self.upper))
        m, e = np.unravel_index(int(np.where(lower == lower.max(), upper, -1.0).argmax()), admitted.shape)
        return self._choice(int(m), int(e))

    def others(self, choice: Choice) -> tuple[str, ...]:
        """Who may keep more than a choice, at any epsilon that is accepted."""
        more = np.any(np.isfinite(self.deltas) & (self.upper > choice.lower), axis=1)
        names = [self.curves.mechanisms[m] for m in np.flatnonzero(more)]
        return tuple(name for name in names if name != choice.mechanism)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Who may be as good as the best, itself included."""
        best = self.best
        return () if best is None else tuple(self.curves.mechanisms[m] for m in self.scans if self._rivals(m, best))

    def _rivals(self, m: int, best: Choice) -> bool:
        """Tell whether a mechanism may be enough at a smaller total epsilon, or as high at the same one.

        Only promises of the choice's privacy notion and delta are compared, by the total epsilon of the record.
        """
        own = best.guarantee
        for e in np.flatnonzero(~self.scans[m].refuted):
            promise = self.curves.guarantees[m][e]
            equal = promise.epsilon == own.epsilon and self.upper[m, e] >= best.lower
            alike = (promise.notion, promise.delta) == (own.notion, own.delta)
            if alike and (promise.epsilon < own.epsilon or equal):
                return True
        return self.choices.get(m) is best

    @property
    def perhaps(self) -> tuple[float, tuple[str, ...]] | None:
        """The smallest epsilon of a record that may be enough, below the best one's, and who may be enough there."""
        if self.best is None:
            return None
        own, left = self.best.guarantee, dict[float, list[str]]()
        for m, scan in self.scans.items():
            for e in np.flatnonzero(~scan.refuted):
                promise = self.curves.guarantees[m][e]
                alike = (promise.notion, promise.delta) == (own.notion, own.delta)
                if alike and promise.epsilon < own.epsilon:
                    left.setdefault(promise.epsilon, []).append(self.curves.mechanisms[m])
        return (least := min(left), tuple(left[least])) if left else None

    @property
    def labels(self) -> int:
        """Labels seen while the sensitive features of one record varied."""
        possible = self.curves.labels_possible
        return int(possible.max() if isinstance(self.on, str) else possible[self.on])

    @property
    def limited(self) -> bool:
        """Whether a ceiling applies: it bounds how often labels of the classifier survive, not how often y is met."""
        return self.of == "stability"

    @property
    def ceiling(self) -> float | None:
        """Best worst case that any mechanism of the best choice's budget can reach."""
        if self.best is None or not self.limited:
            return None
        return ceiling(self.best.guarantee.epsilon, self.labels, self.best.guarantee.delta)

    @property
    def loosest(self) -> float:
        """The largest delta that is admitted."""
        return float(self.deltas[np.isfinite(self.deltas)].max(initial=0.0))

    @property
    def epsilon_needed(self) -> float:
        """Whole-record epsilon below which nobody can keep ``at_least`` for every input."""
        return epsilon_needed(self.at_least, self.labels, self.loosest) if self.limited else 0.0


def _order(choice: Choice) -> tuple[int, float, float, float]:
    promise = choice.guarantee
    return STRENGTH.index(promise.notion), promise.epsilon, promise.delta, -choice.lower
