"""Mechanisms that report the pair (cell, class) itself: k-ary randomised response and optimised unary encoding."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import final

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import WORD, Ints, coins, odds, uniform
from epsworth.learner.mechanism import Symbols, blocks, one_by_one
from epsworth.learner.tallies import Tally
from epsworth.learner.wire import Number, Packed, column_sums
from epsworth.mechanisms.words import WordSource

MOST_PATTERNS = 8  # classes whose 2^classes patterns of bits are simulated as counts


def contrasts(masses: Floats, cells: int, classes: int) -> Floats:
    """Return masses of (cell, class) as estimates per cell: for two classes their difference."""
    table = masses.reshape(cells, classes)
    return table[:, 1:] - table[:, :1] if classes == 2 else table


@final
class Krr(Symbols):
    """Keep the pair with probability (e^epsilon - 1) / (e^epsilon + D - 1), else send one uniform among all D."""

    name = "krr"
    reference = "Kairouz, Oh & Viswanath 2014"

    @cached_property
    def keep(self) -> int:
        """Weight of keeping: the largest with 1 + D keep / (1 - keep) <= e^epsilon."""
        excess = odds(self.epsilon) - 1
        return int(WORD * excess / (excess + self.symbols))

    @cached_property
    def format(self) -> Number:
        """The pair's number."""
        return Number((self.symbols,))

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

    @property
    def signal(self) -> float:
        """Who keeps the pair votes for its label."""
        return self.keep / WORD

    def voters(self, mass: float) -> float:
        """Count reports of the cell's two pairs: kept ones, and the drawn ones of everybody."""
        keep = self.keep / WORD
        return keep * mass + 2 * (1 - keep) / self.symbols

    def messages(self, known: Ints, source: WordSource) -> Ints:
        """Toss the coin, draw another pair; who holds none always sends the drawn one."""
        kept = coins(self.keep, known.size, source) & (known >= 0)
        return np.where(kept, known, uniform(self.symbols, known.size, source))

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


@final
class Oue(Symbols):
    """One bit per pair: the user's own is fair, every other one is set with probability q = 1 / (1 + e^epsilon).

    The server counts, per cell and two classes a and b, reports with a's bit set and b's not.  They are what tells a
    from b: users of a set bit a alone with probability (1 - q) / 2 and b alone with q / 2, users of b the other way
    round, all others either with q (1 - q).  So a alone is the more probable exactly where a has more users, by
    (1/2 - q) times the difference of the masses, and *given* how many reports set one of the two alone, those of a are
    binomial (McNemar 1947): an exact test.  Reports with both bits or neither are as probable whichever of the classes
    a user of the cell has, and tell nothing.  The bits of one report are dependent only through its user's own pair,
    and reports are independent: nothing is approximated.
    """

    name = "oue"
    reference = "Wang, Blocki, Li & Jha 2017"

    @property
    def shape(self) -> tuple[int, ...]:
        """Per cell and classes a, b: reports that set a and not b; on the diagonal, that set a."""
        return (self.cells, self.classes, self.classes)

    @cached_property
    def format(self) -> Packed:
        """A bit per pair."""
        return Packed(self.symbols, 1, "big")

    @property
    def variance(self) -> float:
        """4 e^epsilon / (e^epsilon - 1)^2 for a mass, twice that for a difference."""
        q = self.flip / WORD
        return (2 if self.classes == 2 else 1) * q * (1 - q) / (0.5 - q) ** 2

    @property
    def presence(self) -> float:
        """Whatever epsilon: the own bit is fair, and ((1 - q)^2 - q^2) / (1/2 - q) is 2."""
        return 2.0

    @property
    def signal(self) -> float:
        """1/2 - q: of users of a cell, half set their own bit and a share q the other."""
        return self.contrast / 2

    def voters(self, mass: float) -> float:
        """Count reports with one of the two bits alone: half of the own users', 2 q (1 - q) of others'."""
        q = self.flip / WORD
        return mass / 2 + 2 * q * (1 - q) * (1 - mass)

    def messages(self, known: Ints, source: WordSource) -> Ints:
        """Draw every bit; pack eight into a byte."""
        drawn = source.words(known.size * self.symbols).reshape(-1, self.symbols)
        bits = drawn < np.uint64(self.flip)
        holder = np.flatnonzero(known >= 0)
        bits[holder, known[holder]] = drawn[holder, known[holder]] < np.uint64(WORD // 2)
        return np.packbits(bits, axis=1).astype(np.int64)

    def tally(self, messages: Ints) -> Tally:
        """Count set bits, and pairs of them in a cell by laying the rows beside themselves, shifted."""
        bits = self.format.unpacked(messages)
        both = np.zeros((self.cells, self.classes, self.classes), dtype=np.int64)
        for shift in range(self.classes):
            joint = np.zeros(self.symbols, dtype=np.int64)
            joint[: self.symbols - shift] = column_sums(bits[:, : self.symbols - shift] & bits[:, shift:])
            a = np.arange(self.classes - shift)
            both[:, a, a + shift] = both[:, a + shift, a] = joint.reshape(self.cells, self.classes)[:, a]
        return self._alone(both, len(messages))

    def _alone(self, both: Ints, users: int) -> Tally:
        """Return the tally from how many reports set two bits of a cell, or one."""
        alone = both.diagonal(axis1=1, axis2=2)[:, :, None] - both
        own = np.arange(self.classes)
        alone[:, own, own] = both[:, own, own]
        return Tally(alone, np.array([users]))

    def simulate_counts(self, counts: Ints, rng: np.random.Generator) -> Tally:
        """Draw the patterns of each cell's bits from the users of each class and from all others."""
        if self.classes > MOST_PATTERNS:
            return self._simulate_each(one_by_one(counts), rng)
        held, q = counts[:-1].reshape(self.cells, self.classes), self.flip / WORD
        patterns = np.array(list(product((0, 1), repeat=self.classes)))
        sent = np.zeros((self.cells, len(patterns)), dtype=np.int64)
        for own in range(-1, self.classes):
            rates = np.where(np.arange(self.classes) == own, 0.5, q)
            users = held[:, own] if own >= 0 else counts.sum() - held.sum(axis=1)
            sent += rng.multinomial(users, np.where(patterns == 1, rates, 1 - rates).prod(axis=1))
        both = np.einsum("cp,pa,pb->cab", sent, patterns, patterns)
        return self._alone(both, int(counts.sum()))

    def _simulate_each(self, known: Ints, rng: np.random.Generator) -> Tally:
        """Draw every bit: the patterns of many classes are too many to count."""
        found = self.empty()
        for run in blocks(known.size, self.symbols):
            drawn = rng.random((known[run].size, self.symbols))
            bits, holder = drawn < self.flip / WORD, np.flatnonzero(known[run] >= 0)
            own = known[run][holder]
            bits[holder, own] = drawn[holder, own] < 0.5
            found = found + self.tally(np.packbits(bits, axis=1).astype(np.int64))
        return found

    def possible(self, tally: Tally) -> bool:
        """As many reports set both bits counted from either side; no class or pair has more reports than users."""
        alone, users = tally.counts, int(tally.users[0])
        if not ((alone >= 0) & (alone <= users)).all():
            return False
        single = alone.diagonal(axis1=1, axis2=2)
        both = single[:, :, None] - alone
        own = np.arange(self.classes)
        both[:, own, own] = 0
        either = single[:, None, :] + alone
        either[:, own, own] = 0
        return bool((both >= 0).all() and (both == both.swapaxes(1, 2)).all() and (either <= users).all())

    def estimate(self, tally: Tally) -> Floats:
        """Return the debiased shares of set bits."""
        q = self.flip / WORD
        masses = (tally.counts.diagonal(axis1=1, axis2=2) / tally.users[0] - q) / (0.5 - q)
        return contrasts(as_floats(masses), self.cells, self.classes)

    def duels(self, tally: Tally) -> Ints:
        """Return reports with a's bit and without b's."""
        wins, own = tally.counts.copy(), np.arange(self.classes)
        wins[:, own, own] = 0
        return wins
