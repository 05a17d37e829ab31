"""Mechanisms whose report is a row, drawn whatever the record, and one bit about the record's value in that row."""

from __future__ import annotations

import numpy as np

from epsworth.learner.coins import Ints
from epsworth.learner.mechanism import Mechanism, Tally


class Rowed(Mechanism):
    """A mechanism whose messages are 2 row + bit, with all rows equally probable.

    Where rows fall into classes, too, as those of "parity", they are numbered class by class.
    """

    def row_counts(self, tally: Tally) -> Ints:
        """Return how many reports name each row ``(rows,)``."""
        return np.asarray(tally.counts.reshape(-1, 2).sum(axis=1))

    def row_name(self, row: int) -> str:
        """Say which row this is."""
        return f"row {row}"
