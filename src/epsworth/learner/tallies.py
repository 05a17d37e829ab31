"""Exact sums over reports: what is counted of them, and which sums no reports add up to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from epsworth.learner.coins import Ints
from epsworth.learner.wire import Format, Number

MOST_USERS = 1 << 53  # floats count so far


class Tally(NamedTuple):
    """Integer sums over reports: ``counts`` of the mechanism's own shape, ``users`` per group."""

    counts: Ints
    users: Ints

    def __add__(self, other: object) -> Tally:
        """Return the tally of both sets of reports."""
        assert isinstance(other, Tally)
        return Tally(self.counts + other.counts, self.users + other.users)


class Tallied(ABC):
    """Messages in a wire format, and the sums over them; by default how many there are of every number."""

    @property
    @abstractmethod
    def format(self) -> Format:
        """The wire format of its messages."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the counts."""
        assert isinstance(self.format, Number)
        return self.format.shape

    @property
    def groups(self) -> int:
        """Groups of users that are counted separately."""
        return 1

    def tally(self, messages: Ints) -> Tally:
        """Return the sums over messages: how many there are of each, and in each group."""
        assert isinstance(self.format, Number)
        counts = self.format.counts(messages)
        return Tally(counts, counts.reshape(self.groups, -1).sum(axis=1))

    def empty(self) -> Tally:
        """Return the tally of nobody."""
        return Tally(np.zeros(self.shape, dtype=np.int64), np.zeros(self.groups, dtype=np.int64))

    def possible(self, tally: Tally) -> bool:
        """Tell whether counts of the right shape can be sums over so many users' reports: each is counted once."""
        groups = zip(tally.counts.reshape(self.groups, -1), tally.users.tolist(), strict=True)
        return bool((tally.counts >= 0).all()) and all(exact_sum(own) == n for own, n in groups)

    def checked(self, tally: Tally) -> Tally:
        """Return a tally that reports add up to; refuse every other, and more users than are counted exactly."""
        counts, users = (np.asarray(part) for part in tally)
        whole = counts.dtype == users.dtype == np.int64
        if not whole or counts.shape != self.shape or users.shape != (self.groups,):
            raise ValueError(
                f"the sums must be 64-bit whole numbers: counts of shape {self.shape}, users of shape "
                f"({self.groups},); aggregate the reports again"
            )
        if (users < 0).any() or exact_sum(users) > MOST_USERS:
            raise ValueError(f"the sums must be over 0 to {MOST_USERS} users; aggregate fewer reports together")
        if not self.possible(Tally(counts, users)):
            raise ValueError(
                "counts and users contradict each other: no reports add up to these sums; aggregate the reports again"
            )
        return Tally(counts, users)


def exact_sum(counts: Ints) -> int:
    """Return a sum that cannot overflow: the halves of the words are added apart."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
