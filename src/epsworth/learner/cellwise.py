"""Mechanisms that report the pair (cell, class) itself: k-ary randomised response and optimised unary encoding."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.bounds import Interval
from epsworth.exact.entropy import WordSource
from epsworth.learner.coins import WORD, Ints, coins, odds, uniform
from epsworth.learner.mechanism import IndexMessages, PackedMessages, Tally, Users
from epsworth.learner.signed import Partition
from epsworth.learner.tails import count_test, difference_interval


def contrasts(masses: Floats, cells: int, classes: int) -> Floats:
    """Return masses of (cell, class) as estimates per cell: for two classes their difference."""
    table = masses.reshape(cells, classes)
    return table[:, 1:] - table[:, :1] if classes == 2 else table


class Krr(Partition, IndexMessages):
    """Keep the pair with probability (e^alpha - 1) / (e^alpha + D - 1), else send one uniform among all D."""

    name = "krr"
    reference = "Kairouz, Oh & Viswanath 2014"

    @cached_property
    def keep(self) -> int:
        """Weight of keeping: the largest with 1 + D keep / (1 - keep) <= e^alpha."""
        excess = odds(self.alpha) - 1
        return int(WORD * excess / (excess + self.symbols))

    @property
    def shape(self) -> tuple[int, ...]:
        """Reports per pair."""
        return (self.symbols,)

    @property
    def messages(self) -> int:
        """The pairs."""
        return self.symbols

    @property
    def variance(self) -> float:
        """Of a difference of two classes, or of one class's mass."""
        keep = self.keep / WORD
        share = (1 - keep) / self.symbols
        return 2 * share / keep**2 if self.classes == 2 else share * (1 - share) / keep**2

    @property
    def presence(self) -> float:
        """Who keeps the pair counts 1 / keep, squared; with several classes, others' share is taken off."""
        keep = self.keep / WORD
        return 1 / keep if self.classes == 2 else (1 - 2 * (1 - keep) / self.symbols) / keep

    def draw(self, users: Users, source: WordSource) -> Ints:
        """Toss the coin, draw another pair; who holds none always sends the drawn one."""
        known = self.known(users)
        kept = coins(self.keep, known.size, source) & (known >= 0)
        return np.where(kept, known, uniform(self.symbols, known.size, source))

    def tally(self, messages: Ints) -> Tally:
        """Count the pairs."""
        return Tally(np.bincount(messages, minlength=self.symbols).astype(np.int64), np.array([messages.size]))

    def simulate_counts(self, counts: Ints, rng: np.random.Generator) -> Tally:
        """Draw who keeps; spread the others evenly."""
        kept = rng.binomial(counts[:-1], self.keep / WORD)
        spread = rng.multinomial(counts.sum() - kept.sum(), np.full(self.symbols, 1 / self.symbols))
        return Tally(kept + spread, np.array([counts.sum()]))

    def estimate(self, tally: Tally) -> Floats:
        """Return counts less what the drawn ones add, over the share of keepers."""
        keep = self.keep / WORD
        masses = (tally.counts / tally.users[0] - (1 - keep) / self.symbols) / keep
        return contrasts(as_floats(masses), self.cells, self.classes)

    def duels(self, tally: Tally) -> Ints:
        """Return the counts of a: among reports of a or b in one cell, a's are binomial."""
        table = tally.counts.reshape(self.cells, self.classes)
        wins = np.repeat(table[:, :, None], self.classes, axis=2)
        wins[:, np.arange(self.classes), np.arange(self.classes)] = 0
        return wins

    def interval(self, tally: Tally, miss: float) -> Interval | None:
        """Return the interval from the two classes' counts."""
        return pair_interval(self, tally, miss, self.keep / WORD)


class Oue(Partition, PackedMessages):
    """One bit per pair: the user's own is fair, every other one is set with probability 1 / (1 + e^alpha)."""

    bits, order = 1, "big"
    name = "oue"
    reference = "Wang, Blocki, Li & Jha 2017"

    @property
    def shape(self) -> tuple[int, ...]:
        """Set bits per pair."""
        return (self.symbols,)

    @property
    def entries(self) -> int:
        """The pairs."""
        return self.symbols

    @property
    def variance(self) -> float:
        """4 e^alpha / (e^alpha - 1)^2 for a mass, twice that for a difference."""
        q = self.flip / WORD
        return (2 if self.classes == 2 else 1) * q * (1 - q) / (0.5 - q) ** 2

    @property
    def presence(self) -> float:
        """Whatever alpha: the own bit is fair, and ((1 - q)^2 - q^2) / (1/2 - q) is 2."""
        return 2.0

    def draw(self, users: Users, source: WordSource) -> Ints:
        """Draw every bit; pack eight into a byte."""
        known = self.known(users)
        parts = [self._bits(known[run], source) for run in self.blocks(known.size, self.symbols)]
        return np.concatenate(parts) if parts else np.zeros((0, self.size), dtype=np.int64)

    def _bits(self, known: Ints, source: WordSource) -> Ints:
        drawn = source.words(known.size * self.symbols).reshape(-1, self.symbols)
        bits = drawn < np.uint64(self.flip)
        holder = np.flatnonzero(known >= 0)
        bits[holder, known[holder]] = drawn[holder, known[holder]] < np.uint64(WORD // 2)
        return np.packbits(bits, axis=1).astype(np.int64)

    def tally(self, messages: Ints) -> Tally:
        """Count set bits."""
        return Tally(self.set_bits(messages)[:, 0], np.array([len(messages)]))

    def simulate_counts(self, counts: Ints, rng: np.random.Generator) -> Tally:
        """Draw each pair's set bits from its own users and from all others."""
        others = counts.sum() - counts[:-1]
        sent = rng.binomial(counts[:-1], 0.5) + rng.binomial(others, self.flip / WORD)
        return Tally(sent, np.array([counts.sum()]))

    def possible(self, tally: Tally) -> bool:
        """Every user sets a bit, or does not."""
        return bool(((tally.counts >= 0) & (tally.counts <= tally.users[0])).all())

    def estimate(self, tally: Tally) -> Floats:
        """Return the debiased shares of set bits."""
        q = self.flip / WORD
        masses = (tally.counts / tally.users[0] - q) / (0.5 - q)
        return contrasts(as_floats(masses), self.cells, self.classes)

    def p_values(self, tally: Tally, best: Ints) -> Floats:
        """Compare counts: one user's bits of a cell are dependent, so there is no binomial of votes."""
        table, cell = tally.counts.reshape(self.cells, self.classes), np.arange(self.cells)
        p = count_test(table[cell, best][:, None], table, int(tally.users[0]))
        p[cell, best] = 0.0
        return as_floats(np.minimum(1.0, (self.classes - 1) * p.max(axis=1)))

    def interval(self, tally: Tally, miss: float) -> Interval | None:
        """Return the interval from the two classes' counts."""
        return pair_interval(self, tally, miss, 0.5 - self.flip / WORD)


def pair_interval(mechanism: Partition, tally: Tally, miss: float, signal: float) -> Interval | None:
    """Return an interval for the difference of two classes' masses; None for more classes."""
    if mechanism.classes > 2:
        return None
    zero, one = tally.counts.reshape(-1, 2).T
    return difference_interval(one, zero, int(tally.users[0]), miss, signal)
