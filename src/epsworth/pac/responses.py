"""The channel by which one secret model answers: now and then its own vote, else a label that tells nothing.

``W(l | v) = k [l = v] + (1 - k) F(l)``, in whole numbers of 2^-64: v is the secret model's vote, F a law that the
public knows.  What an answer tells of v, which has the public's chances p, is computed from these very numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.numerals import as_float, short

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
