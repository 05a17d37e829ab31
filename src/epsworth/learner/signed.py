"""Signed mechanisms on disjoint cells: everybody reports location and label jointly, v = (2y - 1) e_cell.

``hadamard``  one bit: a random row of the Hadamard matrix times v, flipped with probability 1 / (1 + e^epsilon)
``ternary``   every cell of v as -1, 0 or +1, independently
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import WORD, Ints, coins, odds, uniform
from epsworth.learner.mechanism import BLOCK, Symbols, Users, blocks, one_by_one
from epsworth.learner.rows import Rowed
from epsworth.learner.tallies import Tally
from epsworth.learner.wire import Number, Packed, column_sums
from epsworth.mechanisms.words import WordSource


@final
class Hadamard(Rowed, Symbols):
    """One bit per user; with more than two classes the bit tells of the pair (cell, class)."""

    name = "hadamard"
    reference = "Bassily & Smith 2015; Acharya, Sun & Zhang 2019"

    @property
    def columns(self) -> int:
        """Entries of the vector that a bit tells of."""
        return self.cells * self.outputs

    @cached_property
    def rows(self) -> int:
        """Rows of the transform: the power of two that holds all columns."""
        return 1 << (self.columns - 1).bit_length()

    @cached_property
    def format(self) -> Number:
        """2 row + bit: per row, reports of -1 and of +1."""
        return Number((self.rows, 2))

    @property
    def variance(self) -> float:
        """1 / tanh(epsilon / 2)^2, whatever the number of cells."""
        return 1 / self.contrast**2

    def messages(self, known: Ints, source: WordSource) -> Ints:
        """Draw a row that depends on nothing, and the flipped bit; who holds no symbol sends a fair one."""
        return self.told(known, uniform(self.rows, known.size, source), source)

    def draw_at(self, users: Users, row: Ints, source: WordSource) -> Ints:
        """Draw the flipped bit of the row given."""
        return self.told(self.known(users), row, source)

    def told(self, known: Ints, row: Ints, source: WordSource) -> Ints:
        """Return the messages about the rows given."""
        n = known.size
        bit = self.true_bits(known, row) ^ coins(self.flip, n, source)
        if (none := known < 0).any():
            bit = np.where(none, coins(WORD // 2, n, source), bit)
        return 2 * row + bit

    def true_bits(self, symbol: Ints, row: Ints) -> Ints:
        """Return 1 where v times the Hadamard entry is +1."""
        column, positive = (symbol >> 1, symbol & 1) if self.classes == 2 else (symbol, 1)
        return odd_overlap(row, column) ^ positive

    def simulate_counts(self, counts: Ints, rng: np.random.Generator) -> Tally:
        """Spread the users of every symbol over the rows, then flip."""
        held = np.flatnonzero(counts[:-1])
        if counts.sum() < held.size * self.rows:  # fewer users than entries of the table below
            return self._simulate_each(one_by_one(counts), rng)
        users, plus = np.zeros(self.rows, dtype=np.int64), np.zeros(self.rows, dtype=np.int64)
        row, even = np.arange(self.rows), np.full(self.rows, 1 / self.rows)
        for part in np.array_split(held, -(-held.size * self.rows // BLOCK) or 1):
            spread = rng.multinomial(counts[part], even) if part.size else np.zeros((0, self.rows), dtype=np.int64)
            users += spread.sum(axis=0)
            plus += (spread * self.true_bits(part[:, None], row)).sum(axis=0)
        flip, silent = self.flip / WORD, rng.multinomial(counts[-1], even)
        sent = rng.binomial(plus, 1 - flip) + rng.binomial(users - plus, flip) + rng.binomial(silent, 0.5)
        users += silent
        return Tally(np.column_stack([users - sent, sent]), np.array([users.sum()]))

    def _simulate_each(self, known: Ints, rng: np.random.Generator) -> Tally:
        """Draw a row and a bit per user."""
        found = self.empty()
        for run in blocks(known.size, 4):
            row = rng.integers(self.rows, size=known[run].size)
            sent = self.true_bits(known[run], row) ^ (rng.random(row.size) < self.flip / WORD)
            sent = np.where(known[run] < 0, rng.integers(2, size=row.size), sent)
            found = found + self.tally(2 * row + sent)
        return found

    def agreement(self, tally: Tally) -> Ints:
        """Return, per column, reports that agree with it less reports that do not."""
        return transform(tally.counts[:, 1] - tally.counts[:, 0])[: self.columns]

    def estimate(self, tally: Tally) -> Floats:
        """Return the inverse transform of the bits, undone the flips."""
        return as_floats(self.agreement(tally) / (self.contrast * tally.users[0])).reshape(self.cells, self.outputs)

    def duels(self, tally: Tally) -> Ints:
        """Return agreeing reports; for several classes only those of rows in which two columns differ."""
        sums = self.agreement(tally)
        if self.classes == 2:
            plus = (tally.users[0] + sums) // 2  # both of the parity of the number of users
            return two_sided(plus, tally.users[0] - plus)
        spectrum = transform(tally.counts.sum(axis=1))
        a = np.arange(self.columns).reshape(self.cells, self.classes)
        differ = (tally.users[0] - spectrum[a[:, :, None] ^ a[:, None, :]]) // 2
        lead = (sums[a][:, :, None] - sums[a][:, None, :]) // 2
        return np.asarray((differ + lead) // 2, dtype=np.int64)


class Weights(NamedTuple):
    """Integer weights, of 2^64, of one cell's report: right sign, wrong sign, and either sign of an empty cell."""

    right: int
    wrong: int
    noise: int


@final
class Ternary(Symbols):
    """Every cell reports -1, 0 or +1.

    Up to ln 3 signs only; above, zeros: P(+, 0, - | 0) = (q, 1 - 2q, q) with q = 1 / (e^epsilon - 1), and
    P(+ | +) = q e^epsilon / 2, P(- | +) = q / 2.
    """

    name = "ternary"
    reference = "this project; the signed form of Wang, Blocki, Li & Jha 2017"
    binary_only = True

    @cached_property
    def weights(self) -> Weights:
        """Largest weights that keep ``right / wrong <= e^epsilon``, ``noise / wrong <= 2``, and zeros at 2."""
        bound = odds(self.epsilon)
        if bound <= 3:
            return Weights(WORD - self.flip, self.flip, WORD // 2)
        wrong = int(WORD / (2 * (bound - 1)))
        return Weights(min(int(bound * wrong), WORD // 2 + wrong), wrong, 2 * wrong)

    def ratio(self) -> Fraction:
        """Return the largest ratio of two probabilities of one report, exactly.

        Two users differ in one cell (opposite signs) or in two (one gains a sign, the other loses it).
        """
        right, wrong, noise = self.weights
        own = [right, WORD - right - wrong, wrong]
        none = [noise, WORD - 2 * noise, noise]
        pairs = [(Fraction(a, b), Fraction(b, a)) for a, b in zip(own, none, strict=True) if a and b]
        return max(max(up for up, _ in pairs) * max(down for _, down in pairs), Fraction(right, wrong))

    @cached_property
    def format(self) -> Packed:
        """0, 1, 2 for -1, 0, +1."""
        return Packed(self.cells, 2, "little")

    @property
    def shape(self) -> tuple[int, ...]:
        """Per cell: reports of -1, reports of +1."""
        return (self.cells, 2)

    @property
    def variance(self) -> float:
        """2 q / (a' - b')^2: of an empty cell."""
        return 2 * self.weights.noise / WORD / self.signal**2

    @property
    def presence(self) -> float:
        """More votes from the own cell than from an empty one, at (a' - b')^-2 each."""
        right, wrong, noise = self.weights
        return (right + wrong - 2 * noise) / WORD / self.signal**2

    @cached_property
    def signal(self) -> float:
        """P(right) - P(wrong)."""
        return float(Fraction(self.weights.right - self.weights.wrong, WORD))

    def voters(self, mass: float) -> float:
        """Signs vote, zeros do not: the cell's own users more often than others."""
        right, wrong, noise = (weight / WORD for weight in self.weights)
        return 1.0 if self.signs_alone else 2 * noise * (1 - mass) + (right + wrong) * mass

    @property
    def signs_alone(self) -> bool:
        """Whether no cell reports zero."""
        return 2 * self.weights.noise == WORD

    def messages(self, known: Ints, source: WordSource) -> Ints:
        """Draw all cells as empty ones, the user's own with its own weights; pack four into a byte."""
        right, wrong, noise = self.weights
        drawn = source.words(known.size * self.cells).reshape(-1, self.cells)
        trits = (drawn < np.uint64(noise)).astype(np.int64) - (drawn >= np.uint64(WORD - noise))
        holder = np.flatnonzero(known >= 0)
        cell, positive = known[holder] // 2, known[holder] % 2 == 1
        word = drawn[holder, cell]
        sign = (word < np.uint64(right)).astype(np.int64) - (word >= np.uint64(WORD - wrong))
        trits[holder, cell] = np.where(positive, sign, -sign)
        padded = np.zeros((known.size, 4 * self.format.size), dtype=np.int64)
        padded[:, : self.cells] = trits + 1
        return np.asarray(padded.reshape(known.size, self.format.size, 4) @ np.array([1, 4, 16, 64]))

    def tally(self, messages: Ints) -> Tally:
        """Count minus and plus per cell."""
        zero, plus = column_sums(self.format.unpacked(messages)).reshape(self.cells, 2).T
        return Tally(np.column_stack([len(messages) - zero - plus, plus]), np.array([len(messages)]))

    def simulate_counts(self, counts: Ints, rng: np.random.Generator) -> Tally:
        """Draw the signs of every cell from its own users and from all others."""
        held = counts[:-1].reshape(self.cells, 2)
        right, wrong, noise = (weight / WORD for weight in self.weights)
        own = [wrong, max(0.0, 1 - right - wrong), right]
        none = [noise, max(0.0, 1 - 2 * noise), noise]
        sent = rng.multinomial(held[:, 1], own) + rng.multinomial(held[:, 0], own[::-1])
        sent += rng.multinomial(counts.sum() - held.sum(axis=1), none)
        return Tally(np.ascontiguousarray(sent[:, [0, 2]]), np.array([counts.sum()]))

    def possible(self, tally: Tally) -> bool:
        """Every user sends a sign to every cell, or a zero where there are zeros."""
        signs, users = tally.counts.sum(axis=1), tally.users[0]
        if not ((tally.counts >= 0) & (tally.counts <= users)).all():
            return False
        return bool(((signs == users) if self.signs_alone else (signs <= users)).all())

    def duels(self, tally: Tally) -> Ints:
        """Return the signs; zeros do not vote."""
        return two_sided(tally.counts[:, 1], tally.counts[:, 0])


def odd_overlap(row: Ints, column: Ints) -> Ints:
    """Return popcount(row & column) mod 2."""
    both = row & column
    return np.asarray(ODD[(both ^ both >> 16) & 0xFFFF])  # at most 2^32 rows


def _odd_numbers() -> Ints:
    """Return popcount mod 2 of all 16-bit numbers, by doubling."""
    table = np.zeros(1, dtype=np.int64)
    while table.size < 1 << 16:
        table = np.concatenate([table, 1 - table])
    return table


ODD = _odd_numbers()


def transform(values: Ints) -> Ints:
    """Return the Walsh-Hadamard transform of a vector whose length is a power of two, in integers.

    Examples
    --------
    >>> transform(np.array([1, 0, 0, 2])).tolist()
    [3, -1, -1, 3]
    """
    out, half = values.astype(np.int64), 1
    while half < out.size:
        pairs = out.reshape(-1, 2, half)
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        half *= 2
    return out


def two_sided(plus: Ints, minus: Ints) -> Ints:
    """Return the votes of class 1 against 0 and back as ``(cells, 2, 2)``."""
    wins = np.zeros((plus.size, 2, 2), dtype=np.int64)
    wins[:, 1, 0], wins[:, 0, 1] = plus, minus
    return wins
