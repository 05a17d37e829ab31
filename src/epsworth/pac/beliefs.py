"""What the public believes about the secret model after the answers so far, and about every record's membership."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.pac.responses import Chances, Channel, Fallback, weaker
from epsworth.rounding import UNIT, show_down, show_up

Votes = NDArray[np.unsignedinteger[Any]]
MOST = 1 << 29  # answers that count: until then beliefs are off by less than 2^-22 of themselves
HALVINGS = 65  # after which nothing is left of 2^64


class Beliefs:
    """The public's belief about the secret model: even at first, then by Bayes' rule with the very chances drawn from.

    Claim: after T answers every model's belief is off by at most (2 T + 4) units of 2^-53 of itself, before and after
    they are made to sum to one: an answer's chance is rounded once, the product once, and powers of two are counted
    apart, so that nothing is ever too small to be kept.

    Attributes
    ----------
    answers : int
        How many were counted.
    """

    def __init__(self, models: int) -> None:
        self._part: Floats = np.full(models, 0.5)
        self._power = np.zeros(models, dtype=np.int64)
        self.answers = 0

    @property
    def weights(self) -> Floats:
        """The beliefs, the largest between one half and one; those below 2^-1022 of it lose digits."""
        return _floats(self._part, self._power)

    @property
    def probabilities(self) -> Floats:
        """The beliefs, with sum one."""
        weights = self.weights
        return np.asarray(weights / weights.sum())

    @property
    def possible(self) -> Bools:
        """Which models the answers do not rule out."""
        return np.asarray(self._part > 0)

    @property
    def error(self) -> float:
        """Bound on what a sum of beliefs is off by, relative to itself."""
        return (2 * self.answers + len(self._part) + 8) * UNIT

    def chances(self, votes: Votes, labels: int) -> Chances:
        """Return the public's chances of the secret model's vote."""
        masses: Floats = np.bincount(votes, weights=self.weights, minlength=labels).astype(np.float64)
        return Chances.of(masses)

    def update(self, votes: Votes, label: int, by: Channel) -> None:
        """Multiply by the chance of the answer under each model."""
        given = np.where(votes == label, float(by.others[label] + by.k), float(by.others[label]))
        self._part, powers = np.frexp(self._part * given)
        self._power = np.where(self.possible, self._power + powers, 0)
        self._power -= self._power[self.possible].max()
        self.answers += 1

    def among(self, chosen: Bools) -> tuple[Floats, int]:
        """Return the beliefs of some models, those of others 0, and the power of two by which to multiply them.

        The largest lies between one half and one: where all are tiny, they keep their digits.
        """
        part = np.where(chosen, self._part, 0.0)
        power = int(self._power[part > 0].max(initial=-(1 << 62)))
        return _floats(part, self._power - power), power


def _floats(part: Floats, power: NDArray[np.int64]) -> Floats:
    return np.ldexp(part, np.clip(power, -2000, 0).astype(np.intc))


class Records:
    """The promise for single records: no answer leaves one's membership with chance outside [1 - q, q].

    Parameters
    ----------
    members : ndarray of bool, shape ``(models, records)``
    q : float
        Success at any record's membership, on every path of answers.

    Raises
    ------
    ValueError
        Where a record's chance is outside before the first answer: no fallback could bring it back.
    """

    def __init__(self, members: Bools, q: float) -> None:
        held, limit = members.sum(axis=0), Fraction(q)
        outside = [count for count in np.unique(held) if not 1 - limit <= Fraction(int(count), len(members)) <= limit]
        if outside:
            worst = max(max(count, len(members) - count) for count in outside) / len(members)
            raise ValueError(
                f"record_posterior: {int(np.isin(held, outside).sum())} of {members.shape[1]} records are in more, or "
                f"out of more, than {show_down(q)} of the models (the worst: {show_up(worst)}) before anything is "
                "answered; give every record to half of the models"
            )
        kinds = np.unique(np.packbits(members, axis=0), axis=1, return_index=True)[1]  # identical ones are one
        self._rows = members[:, kinds].astype(np.float64)
        self._q = q

    def allowed(
        self, beliefs: Beliefs, votes: Votes, chances: Chances, fallback: Fallback, strong: Channel
    ) -> Channel:  # fmt: skip
        """Halve k until whatever label is drawn leaves every record's chance within limits.

        The chance of "in" after a label moves one way as k grows, so that the least number of halvings is bisected.
        Without k nothing changes: what was within limits stays there.
        """
        voters = [self._voters(beliefs, votes == label) for label in range(len(strong.others))]
        weights = beliefs.weights
        total, held = weights.sum(), weights @ self._rows
        margin = 6 * beliefs.error

        def within(halvings: int) -> Channel | None:
            tried = weaker(chances, fallback, strong, halvings)
            if not tried.k:
                return tried
            for other, (mass, inside, power) in zip(tried.others, voters, strict=True):
                if not mass:  # nobody's vote: the answer, if it can be drawn, tells nothing
                    continue
                drawn, kept = float(other), np.ldexp(float(tried.k), power if other else 0)
                chance = (drawn * held + kept * inside) / (drawn * total + kept * mass)
                if chance.max() > self._q - margin or chance.min() < 1 - self._q + margin:
                    return None
            return tried

        low, high = 0, HALVINGS  # `high` halvings leave k = 0
        found = within(0)
        while found is None and high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if within(middle) is not None else (middle, high)
        return found if found is not None else weaker(chances, fallback, strong, high)

    def _voters(self, beliefs: Beliefs, chosen: Bools) -> tuple[float, Floats, int]:
        """Return the mass of these models, how much of it holds each record, and a power of two for both."""
        weights, power = beliefs.among(chosen)
        return float(weights.sum()), weights @ self._rows, max(power, -2000)
