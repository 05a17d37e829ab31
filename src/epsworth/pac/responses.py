"""The channel by which one secret model answers, and what the public believes.

Now and then the secret model's own vote, else a label that tells nothing: ``W(l | v) = k [l = v] + (1 - k) F(l)``, in
whole numbers of 2^-64; v is the secret model's vote, F a law that the public knows.  What an answer tells of v, which
has the public's chances p, is computed from these very numbers.  After it the public's belief about the secret model,
and so about every record's membership, follows by Bayes' rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.numerals import as_float, short
from epsworth.rounding import UNIT, show_down, show_up

ONE = 1 << 64
Fallback = Literal["uniform", "votes", "plurality"]
FALLBACKS: tuple[Fallback, ...] = ("uniform", "votes", "plurality")
SLACK, LEAST = 2.0**-20, 2.0**-60  # what a charge adds, relative and absolute
SMALL = 1e-4  # where (1 + x) ln(1 + x) - x loses its digits
POINTS, ROUNDS = 64, 6  # 64**6 parts of the 45 nats between 2^-64 and 1


@dataclass(frozen=True)
class Channel:
    """How a secret vote becomes an answer.

    Attributes
    ----------
    k : int
        Chance that the vote itself is taken, in 2^-64; 0 to 2^64.
    others : tuple of int
        Chance of each label where the vote is not taken, in 2^-64; their sum is 2^64 - k.
    mi : float
        Nats that the answer tells of the vote, before anything is added for rounding.

    Examples
    --------
    >>> found = channel([0.5, 0.5], "uniform", 0.1)
    >>> round(found.kappa, 4), found.k + sum(found.others) == 2**64
    (0.4396, True)
    """

    k: int
    others: tuple[int, ...]
    mi: float

    @property
    def kappa(self) -> float:
        """The chance that the vote itself is taken."""
        return self.k / ONE

    @property
    def cost(self) -> float:
        """What is charged for an answer: no fewer nats than it tells under the exact belief; none where k is 0.

        Claim: with f(x) = (1 + x) ln(1 + x) - x, Q(l) the answer's chance, and x = W(l|v) / Q(l) - 1, the sum of
        p(v) Q(l) f(x) over v and l is a sum of Bregman divergences from Q; these are least at the exact Q, so that
        chances p that are off by a share d give at least 1 - d of the exact information.  Here d < 2^-21, see
        `Beliefs`; the terms below, where nothing cancels, are off by 1e-10 of themselves.
        """
        return self.mi * (1 + SLACK) + LEAST if self.k else 0.0

    def row(self, vote: int) -> list[int]:
        """Return the chance of every answer to this vote, in 2^-64."""
        return [chance + self.k * (label == vote) for label, chance in enumerate(self.others)]

    def answer(self, vote: int, word: int) -> int:
        """Return the label that a uniform word below 2^64 draws."""
        return next(label for label, end in enumerate(accumulate(self.row(vote))) if word < end)


def channel(beliefs: ArrayLike, fallback: Fallback, nats: float) -> Channel:
    """Return the channel that takes the secret vote as often as so many nats per answer allow.

    Parameters
    ----------
    beliefs : array_like, shape ``(labels,)``
        The public's chances of the secret vote, or anything proportional to them.
    fallback : {"uniform", "votes", "plurality"}
        What answers where the vote is not taken: any label, a label by ``beliefs``, or the likeliest one.
    nats : float
        At most so much mutual information between vote and answer.

    Returns
    -------
    Channel
        Its ``kappa`` is the largest whose information is at most ``nats``, within 1e-9 of itself.

    Raises
    ------
    ValueError
        For beliefs that are no chances, for a fallback of another name, and for negative nats.

    Examples
    --------
    >>> f"{channel([0.7, 0.2, 0.1], 'votes', 2**-32).kappa:.4g}"
    '1.526e-05'
    """
    masses = as_floats(beliefs)
    if masses.ndim != 1 or len(masses) < 2 or not (np.isfinite(masses).all() and (masses >= 0).all() and masses.any()):
        raise ValueError(f"beliefs must be at least two chances, none negative, not all 0, got {short(beliefs)}")
    return channel_of(Chances.of(masses), checked_fallback(fallback), checked_nats("nats", nats))


def checked_fallback(fallback: Any) -> Fallback:
    """Return the name of a fallback; there is no default."""
    for name in FALLBACKS:
        if isinstance(fallback, str) and fallback == name:
            return name
    raise ValueError(f"fallback must be one of {', '.join(FALLBACKS)}, got {short(fallback)}")


def checked_nats(name: str, value: Any) -> float:
    """Return nats, 0 or more; a budget in nats is taken, too."""
    found = as_float(getattr(value, "mi", value))
    if not 0 <= found < math.inf:
        raise ValueError(f"{name} must be nats, 0 or more and finite, such as 2**-32, got {short(value)}")
    return found


@dataclass(frozen=True, eq=False)
class Chances:
    """Chances of the secret vote and of all other votes: both are sums, so that neither loses digits near 1."""

    vote: Floats
    rest: Floats

    @classmethod
    def of(cls, masses: Floats) -> Chances:
        """Divide by the sum."""
        before, after = np.cumsum(masses), np.cumsum(masses[::-1])[::-1]
        rest = np.append(0.0, before[:-1]) + np.append(after[1:], 0.0)
        return cls(masses / before[-1], rest / before[-1])


def channel_of(chances: Chances, fallback: Fallback, nats: float) -> Channel:
    """Return the `channel` of checked arguments."""
    law = _law(chances.vote, fallback)
    if not nats:
        return _with(chances, law, 0)
    shares = np.array([chance / ONE for chance in law])
    low, high = -64 * math.log(2), 0.0
    k = ONE if _information(chances, np.ones(1), np.zeros((1, len(law))))[0] <= nats else 0
    if not k:
        for _ in range(ROUNDS):
            logs = np.linspace(low, high, POINTS + 1)
            kept = np.exp(logs)
            within = _information(chances, kept, shares * (1 - kept)[:, np.newaxis]) <= nats
            if not within[0]:
                break
            at = int(np.flatnonzero(within)[-1])
            low, high = logs[at], logs[min(at + 1, POINTS)]
        k = min(ONE, int(math.ldexp(math.exp(low), 64)))
    found = _with(chances, law, k)
    while found.k and found.mi > nats:  # by the rounding to whole numbers
        found = _with(chances, law, found.k - max(1, found.k >> 32))
    return found


def weaker(chances: Chances, fallback: Fallback, strong: Channel, halvings: int) -> Channel:
    """Return a channel with the same fallback whose k was halved so many times."""
    return _with(chances, _law(chances.vote, fallback), strong.k >> halvings)


def _law(vote: Floats, fallback: Fallback) -> list[int]:
    """Return the fallback's chances in 2^-64; what rounding leaves goes to the heaviest label."""
    heaviest = int(vote.argmax())
    if fallback == "plurality":
        return [ONE * (label == heaviest) for label in range(len(vote))]
    if fallback == "uniform":
        law = [ONE // len(vote)] * len(vote)
    else:
        law = [int(math.ldexp(chance, 64)) for chance in vote.tolist()]
    law[heaviest] += ONE - sum(law)
    return law


def _with(chances: Chances, law: list[int], k: int) -> Channel:
    others, heaviest = [chance * (ONE - k) >> 64 for chance in law], max(range(len(law)), key=law.__getitem__)
    others[heaviest] += ONE - k - sum(others)
    table = np.array([[chance / ONE for chance in others]])
    return Channel(k, tuple(others), float(_information(chances, np.array([k / ONE]), table)[0]) if k else 0.0)


def _information(chances: Chances, k: Floats, others: Floats) -> Floats:
    """Return the mutual information of vote and answer for several channels, shapes ``(c,)`` and ``(c, labels)``.

    All votes but l give the answer l with one chance, so that two terms per label are enough.  Deviations from the
    answer's chance q are k (1 - p) and k p: no difference of nearly equal numbers is taken.
    """
    kept = k[:, np.newaxis]
    q = others + kept * chances.vote
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        own = chances.vote * _excess(kept * chances.rest / q, (others + kept) / q)
        rest = chances.rest * _excess(-kept * chances.vote / q, others / q)
        terms = np.where(q > 0, q * (own + rest), 0.0)
    return np.asarray(terms.sum(axis=1))


def _excess(x: Floats, one_more: Floats) -> Floats:
    """Return (1 + x) ln(1 + x) - x, given 1 + x as well, which near 0 has digits that x lacks."""
    series = x * x * (1 / 2 - x * (1 / 6 - x * (1 / 12 - x / 20)))
    logs = np.where(x > -0.5, np.log1p(x), np.log(one_more))
    return np.where(np.abs(x) < SMALL, series, np.where(one_more > 0, one_more * logs, 0.0) - x)


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
