"""Mechanisms whose report is a row, drawn whatever the record, and one bit about the record's value in that row."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from epsworth.learner.coins import Ints
from epsworth.learner.mechanism import Mechanism, Users
from epsworth.learner.tallies import Tally
from epsworth.learner.wire import Number
from epsworth.mechanisms.words import WordSource


class Rowed(Mechanism):
    """A mechanism whose messages are 2 row + bit, with all rows equally probable.

    Where rows fall into classes, too, as those of "parity", they are numbered class by class.
    """

    @property
    def named(self) -> int:
        """How many rows there are."""
        assert isinstance(self.format, Number)
        return self.format.below // 2

    def rows_at(self, number: Ints) -> Ints:
        """Return the rows of numbers below `named`: all are equally probable."""
        return number

    @abstractmethod
    def draw_at(self, users: Users, row: Ints, source: WordSource) -> Ints:
        """Return one message per user about the row that is given, with all other draws as in `draw`.

        Given the row, which no record decides, the law of the bit is that of `draw`: so it keeps the same epsilon.
        """

    def row_counts(self, tally: Tally) -> Ints:
        """Return how many reports name each row ``(rows,)``."""
        return np.asarray(tally.counts.reshape(-1, 2).sum(axis=1))

    def row_name(self, row: int) -> str:
        """Say which row this is."""
        return f"row {row}"
