"""How a user answers: a row that ignores the record, then one bit; and the law of the sums of a whole population."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import WORD, Ints, flip_weight, uniform
from epsworth.learner.mechanism import blocks
from epsworth.learner.tables.columns import Category, Column, Knots, Records, binned, fine_bins
from epsworth.learner.tables.rows import Rows
from epsworth.learner.tables.scores import Alive, Binary
from epsworth.learner.tables.walsh import signs
from epsworth.learner.tallies import Tallied, Tally
from epsworth.learner.wire import Number as Wire
from epsworth.mechanisms.words import WordSource

HALF = 32  # a value between -1 and 1 enters its bit's weight with this many bits
SILENT = 0.0  # what a record that lacks what a row asks for is worth: its bit is a fair coin


@dataclass(frozen=True, eq=False)
class Question(Tallied):
    """Rows with whole weights, and a value in [-1, 1] that a record has for a row.

    Claim: given the row, which ignores the record, the bit has a weight of 2^64 within [f, 2^64 - f], where f is the
    least with (2^64 - f) / f <= e^epsilon: the message keeps pure epsilon-LDP.
    """

    epsilon: Fraction

    @property
    @abstractmethod
    def weights(self) -> Ints:
        """The rows' whole weights."""

    @abstractmethod
    def values(self, records: Records, row: Ints) -> Floats:
        """Return the value of one row per user ``(n,)``; 0 where the record lacks what it asks for."""

    @abstractmethod
    def means(self, records: Records) -> Floats:
        """Return every row's mean value over the users ``(rows,)``."""

    def row_counts(self, tally: Tally) -> Ints:
        """Return how many reports are about each row ``(rows,)``."""
        return np.asarray(tally.counts.sum(axis=1))

    def row_name(self, row: int) -> str:
        """Say which row this is."""
        return f"row {row}"

    @cached_property
    def flip(self) -> int:
        """Weight, of 2^64, with which a sign is flipped."""
        return flip_weight(self.epsilon)

    @cached_property
    def contrast(self) -> float:
        """Mean of a randomised bit whose true value is +1: tanh(epsilon / 2), of the integer weights."""
        return float(1 - Fraction(2 * self.flip, WORD))

    @cached_property
    def format(self) -> Wire:
        """2 row + bit: per row, reports of -1 and of +1."""
        return Wire((len(self.weights), 2))

    @cached_property
    def _ends(self) -> Ints:
        return np.cumsum(self.weights)

    def rows_at(self, number: Ints) -> Ints:
        """Return the rows that numbers below `named` fall to."""
        return np.asarray(np.searchsorted(self._ends, number, side="right"))

    @property
    def named(self) -> int:
        """All weights together: so many numbers name a row."""
        return int(self._ends[-1])

    @property
    def shares(self) -> Floats:
        """Each row's probability."""
        return as_floats(self.weights / self.named)

    def draw(self, records: Records, source: WordSource) -> Ints:
        """Return one message per user, fit for release where the source is."""
        runs = blocks(records.label.size, 4)
        return np.concatenate([self._messages(records.part(run), source) for run in runs])

    def _messages(self, records: Records, source: WordSource) -> Ints:
        row = self.rows_at(uniform(self.named, records.label.size, source))
        return self.draw_at(records, row, source)

    def draw_at(self, records: Records, row: Ints, source: WordSource) -> Ints:
        """Return the messages of users whose rows are given, whatever the record: the bit's law is that of `draw`."""
        weight = self.bit_weights(self.values(records, row))
        return np.asarray(2 * row + (source.words(row.size) < weight), dtype=np.int64)

    def bit_weights(self, values: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
        """Return the weight, of 2^64, of the bit +1: within [f, 2^64 - f] whatever the rounding.

        f or 2^64 - f exactly for signs, one half for 0.
        """
        flip, span = self.flip, WORD - 2 * self.flip
        share = np.floor((1 + values) * 2.0 ** (HALF - 1)).clip(0, 2.0**HALF).astype(np.uint64)
        between = np.uint64(flip) + share * np.uint64(span >> HALF)
        found = np.where(values == 1, np.uint64(WORD - flip), np.where(values == -1, np.uint64(flip), between))
        return np.where(values == 0, np.uint64(WORD // 2), found)

    def simulate(self, records: Records, rng: np.random.Generator, total: int | None = None) -> Tally:
        """Return the tally of one report per user, or of ``total`` users drawn from these with replacement.

        Then the number of users per row is multinomial, and the bits of a row have one mean.
        """
        if total is not None:
            users = rng.multinomial(total, self.shares)
            plus = rng.binomial(users, (1 + self.contrast * self.means(records).clip(-1, 1)) / 2)
            return Tally(np.column_stack([users - plus, plus]).astype(np.int64), np.array([total]))
        found = self.empty()
        for run in blocks(records.label.size, 8):
            part = records.part(run)
            row = self.rows_at(rng.integers(self.named, size=part.label.size))
            chance = (1 + self.contrast * self.values(part, row)) / 2
            found = found + self.tally(np.asarray(2 * row + (rng.random(row.size) < chance), dtype=np.int64))
        return found


@dataclass(frozen=True, eq=False)
class Signs(Question):
    """Signs over the bins of a column times a character of the label."""

    rows: Rows
    columns: tuple[Column, ...]
    knots: tuple[Knots | None, ...] | None  # None: the 32 equal bins of the range
    classes: int

    @property
    def weights(self) -> Ints:
        """The rows' whole weights."""
        return self.rows.weight

    def bins(self, records: Records) -> Ints:
        """Return every user's bins ``(n, d)``."""
        if self.knots is not None:
            return binned(self.columns, records.place, self.knots)
        numbers = [not isinstance(column, Category) for column in self.columns]
        return np.where(numbers, fine_bins(records.place), records.place)

    def values(self, records: Records, row: Ints) -> Floats:
        """Return signs; 0 where the value or the label that a row asks about is missing."""
        rows, user = self.rows, np.arange(row.size)
        column, character = rows.column[row], rows.character[row]
        own = np.maximum(column, 0)
        told = (records.known[user, own] | (column < 0)) & ((records.label >= 0) | (character == 0))
        found = signs(rows.mask[row], character, self.bins(records)[user, own], np.maximum(records.label, 0))
        return as_floats(np.where(told, found, SILENT))

    def row_name(self, row: int) -> str:
        """Say what it is about."""
        j, order, character = (int(part[row]) for part in (self.rows.column, self.rows.order, self.rows.character))
        about = "the label alone" if j < 0 else f"{self.columns[j].name}, order {order}"
        return f"row {row} ({about}, character {character} of the label)"

    def means(self, records: Records) -> Floats:
        """Return every row's mean, from one table of bins and labels per column; nobody's label is one more."""
        bins, found, labels = self.bins(records), np.zeros(len(self.rows)), self.classes + 1
        label = np.where(records.label < 0, self.classes, records.label)
        for j in np.unique(self.rows.column):
            at = np.flatnonzero(self.rows.column == j)
            known, own = (records.known[:, j], bins[:, j]) if j >= 0 else (label >= 0, 0 * label)
            counts = np.bincount((own * labels + label)[known])
            some = np.flatnonzero(counts)
            mask, character = self.rows.mask[at, None], self.rows.character[at, None]
            sent = signs(mask, character, some // labels, some % labels)
            silent = (character > 0) & (some % labels == self.classes)
            found[at] = np.where(silent, SILENT, sent) @ counts[some] / label.size
        return found


@dataclass(frozen=True, eq=False)
class Products(Question):
    """Products of two columns' published scores, each over its largest size: what weights are learnt from."""

    scores: Alive
    signs: Signs  # which bins

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """The two columns of every row."""
        first, second = np.triu_indices(len(self.scores.columns), 1)
        return first.astype(np.int64), second.astype(np.int64)

    @cached_property
    def weights(self) -> Ints:
        """All pairs alike."""
        return np.ones(self.pairs[0].size, dtype=np.int64)

    def shares_of(self, records: Records) -> Floats:
        """Return every user's scores over their largest sizes ``(n, live)``, 0 where the value is missing."""
        bins = self.signs.bins(records)
        found = np.zeros((records.label.size, len(self.scores.columns)))
        for i, (j, score) in enumerate(zip(self.scores.columns, self.scores.shares, strict=True)):
            found[:, i] = np.where(records.known[:, j], score[np.minimum(bins[:, j], len(score) - 1)], SILENT)
        return found

    def values(self, records: Records, row: Ints) -> Floats:
        """Return the products: of two doubles, never of integers, which would overflow."""
        (first, second), own, at = self.pairs, self.shares_of(records), np.arange(row.size)
        return as_floats(own[at, first[row]] * own[at, second[row]])

    def means(self, records: Records) -> Floats:
        """Return every pair's mean product."""
        own = self.shares_of(records)
        return as_floats((own.T @ own / len(own))[self.pairs])


@dataclass(frozen=True, eq=False)
class Votes(Question):
    """Whether one of the published candidates, drawn at random, is right about the user's own label."""

    candidates: tuple[Binary, ...]
    signs: Signs

    @property
    def weights(self) -> Ints:
        """All candidates alike."""
        return np.ones(len(self.candidates), dtype=np.int64)

    def right(self, records: Records) -> Floats:
        """Return +1 where a candidate is right, else -1 ``(n, candidates)``; an undeclared label is never right."""
        bins = self.signs.bins(records)
        found = [one.numbers(bins, records.known) == records.label for one in self.candidates]
        return as_floats(2.0 * np.column_stack(found) - 1)

    def values(self, records: Records, row: Ints) -> Floats:
        """Return the signs of the candidates that were drawn."""
        return as_floats(self.right(records)[np.arange(row.size), row])

    def means(self, records: Records) -> Floats:
        """Return every candidate's mean."""
        return as_floats(self.right(records).mean(axis=0))
