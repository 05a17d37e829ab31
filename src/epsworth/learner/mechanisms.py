"""The mechanisms, MECHANISMS, and the choice by formula among those that are worth choosing.

On disjoint cells everybody reports location and label jointly:

``hadamard``  one bit: a random row of the Hadamard matrix times v = (2y - 1) e_cell, flipped
``ternary``   every cell of v as -1, 0 or +1, independently
``krr``       the pair (cell, class) by k-ary randomised response
``oue``       one bit per pair: optimised unary encoding

Instead of cells, ``cosine``: each user reports one random coefficient of a cosine basis as a randomised bit.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import NamedTuple, final

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import WORD, Ints, checked_epsilon, coins, odds, uniform
from epsworth.learner.encoding import odd_overlap, transform
from epsworth.learner.mechanism import (
    BLOCK,
    Mechanism,
    Query,
    Rowed,
    Symbols,
    Tally,
    Users,
    blocks,
    checked_users,
    one_by_one,
)
from epsworth.learner.wire import Number, Packed, column_sums
from epsworth.mechanisms.rational import Exact
from epsworth.mechanisms.words import WordSource

MOST_PATTERNS = 8  # classes whose 2^classes patterns of bits are simulated as counts
CANDIDATES = ("hadamard", "krr", "ternary", "oue")
WORTH = 1.25  # a longer report must save a fifth of the users
LONGEST = 4096  # bytes that a device may be asked to send
MOST_CELLS = 10**7
MOST_COUNTERS = 8 * MOST_CELLS
MOST_GRID_AXES = 6
LARGEST, SMALLEST = 64, 2  # cells per axis, by the rule
MOST_BY_RULE = 300_000  # cells in all
HIGHEST = {1: 12, 2: 8, 3: 6, 4: 5}  # degree of the cosine basis, by the rule; 2 for more features


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


def two_sided(plus: Ints, minus: Ints) -> Ints:
    """Return the votes of class 1 against 0 and back as ``(cells, 2, 2)``."""
    wins = np.zeros((plus.size, 2, 2), dtype=np.int64)
    wins[:, 1, 0], wins[:, 0, 1] = plus, minus
    return wins


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

    The server counts, per cell and classes a and b, reports with a's bit and not b's.  Users of a set bit a alone with
    probability (1 - q) / 2 and b alone with q / 2, users of b the other way round, all others either with q (1 - q): so
    *given* how many reports set one of the two alone, those of a are binomial, and above one half exactly where a has
    more users (McNemar 1947).  Reports with both bits or neither tell nothing.
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


@final
class Cosine(Query, Mechanism):
    """Products of cos(pi k u) of total degree at most m, times the signed label (or each class's indicator)."""

    name = "cosine"
    reference = "this project; randomised response of Duchi, Jordan & Wainwright 2013"

    @cached_property
    def degrees(self) -> Ints:
        """The exponents ``(coefficients, d)``."""
        return _degrees(self.m, self.d)

    @property
    def cells(self) -> int:
        """Coefficients per output."""
        return math.comb(self.m + self.d, self.d)

    @property
    def rows(self) -> int:
        """Coefficients in all."""
        return self.cells * self.outputs

    @cached_property
    def weights(self) -> Ints:
        """All coefficients alike."""
        return np.ones(self.rows, dtype=np.int64)

    @property
    def variance(self) -> float:
        """Of one coefficient."""
        return self.rows / self.contrast**2

    @property
    def norms(self) -> Floats:
        """Squared norms are 1 / these: 2 for every axis whose degree is not zero."""
        return as_floats(2.0 ** (self.degrees > 0).sum(axis=1))

    def basis(self, unit: Floats, degrees: Ints) -> Floats:
        """Return the basis at points ``(n, d)``, for degrees broadcast against them ``(.., d)``."""
        return as_floats(np.cos(np.pi * unit * degrees).prod(axis=-1))

    def values(self, users: Users, row: Ints) -> Floats:
        """Return the basis times the signed label; 0 for whoever states nothing."""
        value = self.basis(users.unit, self.degrees[row // self.outputs])
        told = 2 * users.label - 1 if self.classes == 2 else users.label == row % self.outputs
        return np.where(users.outside, 0.0, value * told)

    def means(self, users: Users) -> Floats:
        """Return every coefficient's mean over the users ``(rows,)``."""
        told = (2 * users.label - 1)[:, None] if self.classes == 2 else users.label[:, None] == np.arange(self.classes)
        told = np.where(users.outside[:, None], 0, told)
        sums = np.zeros((self.cells, self.outputs))
        for run in blocks(users.label.size, self.cells * self.d):
            sums += self.basis(users.unit[run, None, :], self.degrees).T @ told[run]
        return as_floats(sums.ravel() / users.label.size)

    def estimate(self, tally: Tally) -> Floats:
        """Return the unbiased coefficients ``(coefficients, outputs)``."""
        lead = tally.counts[:, 1] - tally.counts[:, 0]
        return as_floats(lead * self.rows / (self.contrast * tally.users[0])).reshape(self.cells, self.outputs)

    def shortened(self, coefficients: Floats, noise: float) -> Floats:
        """Return the coefficients up to the total degree of the least estimated risk, zeros above."""
        degree = self.degrees.sum(axis=1)
        gain = self.norms * (2 * noise * self.outputs - (coefficients**2).sum(axis=1))
        risk = np.cumsum(np.bincount(degree, weights=gain, minlength=self.m + 1))
        return np.where((degree <= np.argmin(risk))[:, None], coefficients, 0.0)

    def evaluate(self, coefficients: Floats, unit: Floats) -> Floats:
        """Return the series at points ``(n, d)``: scores ``(n, outputs)``."""
        weights = coefficients * self.norms[:, None]
        runs = blocks(len(unit), self.cells * self.d)
        return np.concatenate([self.basis(unit[run, None, :], self.degrees) @ weights for run in runs])


def _degrees(most: int, d: int) -> Ints:
    rows: list[tuple[int, ...]] = [()]
    for _ in range(d):
        rows = [(*row, k) for row, k in product(rows, range(most + 1)) if sum(row) + k <= most]
    return np.array(rows, dtype=np.int64)


MECHANISMS: dict[str, type[Mechanism]] = {kind.name: kind for kind in (Hadamard, Ternary, Krr, Oue, Cosine)}


def choose(epsilon: Fraction, m: int, d: int, classes: int, rows: str = "drawn") -> str:
    """Return the mechanism with the least variance; the one-bit report where no other saves a fifth of the users."""
    if d > MOST_GRID_AXES:
        return "cosine"
    one_bit = Hadamard(epsilon, m, d, classes)
    if rows == "hash":  # which takes reports that name a row
        return one_bit.name
    found: list[tuple[float, Mechanism]] = []
    for name in CANDIDATES:
        mechanism = MECHANISMS[name](epsilon, m, d, classes)
        held = math.prod(mechanism.shape)
        short = mechanism.format.size <= LONGEST
        if short and held <= MOST_COUNTERS and (classes == 2 or not mechanism.binary_only):
            found.append((mechanism.variance, mechanism))
    if not found:
        return one_bit.name
    least, best = min(found, key=lambda entry: entry[0])
    return best.name if one_bit.variance > WORTH * least else one_bit.name


def grid_size(name: str, epsilon: Fraction, d: int, classes: int, users: int) -> int:
    """Return the cells per axis that suit so many users; for the cosine basis a degree.

    On the partition the largest m with m^d outputs <= (users / variance)^(1/2), m rounded: a typical
    estimate at one standard deviation.  On the published lattice 1 / h, h = (n epsilon^2)^(-1 / (2 + 2d)), n half of
    the users.
    """
    kind = MECHANISMS[name]
    if kind.overlapping:
        return max(1, round(float((users / 2) ** (1 / (2 + 2 * d)) * float(epsilon) ** (1 / (1 + d)))))
    if kind is Cosine:
        kernels = [Cosine(epsilon, degree, d, classes) for degree in range(HIGHEST.get(d, 2), 1, -1)]
        fits = (k.m for k in kernels if k.rows * k.outputs <= users**0.5 * k.contrast)
        return next(fits, 1)
    for m in range(LARGEST, SMALLEST, -1):
        kernel = kind(epsilon, m, d, classes)
        most = ((users / kernel.mean_variance) ** 0.5 / kernel.outputs) ** (1 / d) + 0.5
        if kernel.cells * kernel.outputs <= MOST_BY_RULE and m <= most:
            return m
    return SMALLEST


def suited(name: str, epsilon: Exact, d: int, classes: int, users: int, rows: str = "drawn") -> tuple[str, int]:
    """Return mechanism and cells per axis for so many users; "auto" chooses with the cells of the one-bit report."""
    budget = checked_epsilon(epsilon)
    if d < 1 or classes < 2:
        raise ValueError(f"need at least one feature and two classes, got {d} and {classes}; declare them")
    users = checked_users(users, "it is how many reports to expect")
    if name == "auto":
        first = "cosine" if d > MOST_GRID_AXES else "hadamard"
        name = choose(budget, grid_size(first, budget, d, classes, users), d, classes, rows)
    if name not in MECHANISMS:
        raise ValueError(f"mechanism must be auto or one of {', '.join(MECHANISMS)}, got {name!r}")
    return name, grid_size(name, budget, d, classes, users)
