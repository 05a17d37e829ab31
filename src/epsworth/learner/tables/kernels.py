"""How a user answers: a row that ignores the record, then one bit; and the law of the sums of a whole population."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import Ints
from epsworth.learner.encoding import signs
from epsworth.learner.mechanism import Question
from epsworth.learner.tables.columns import Category, Column, Knots, Records, Rows, binned, fine_bins
from epsworth.learner.tables.scores import Alive, Binary

SILENT = 0.0  # what a record that lacks what a row asks for is worth: its bit is a fair coin


@dataclass(frozen=True, eq=False)
class Signs(Question):
    """Signs over the bins of a column times a character of the label."""

    epsilon: Fraction
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

    epsilon: Fraction
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

    epsilon: Fraction
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
