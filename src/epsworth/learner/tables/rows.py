"""What a bit may tell: rows, signs over the bins of one column times a character of the label; drawn by weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from epsworth.learner.tables.columns import FINE, Category, Column, Number
from epsworth.learner.tables.walsh import reverse, sequency

CLASS_ONLY = -1  # the column of rows that tell of the label alone
UNIT = 1024  # weight of a row of order 1


class Row(NamedTuple):
    """One row: a column, the order and the mask of its signs over bins, a character of the label, a whole weight."""

    column: int
    order: int
    mask: int
    character: int
    weight: int


class Rows:
    """Many rows as columns of integers; a user's row is drawn in proportion to its weight."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.column, self.order, self.mask, self.character, self.weight = (
            np.array(rows, dtype=np.int64).reshape(-1, 5).T
        )

    def __len__(self) -> int:
        """Return how many rows there are."""
        return int(self.column.size)


def quantile_rows(columns: Sequence[Column]) -> Rows:
    """Return the dyadic Walsh characters of 32 equal bins: level l = 1..5 has 2^(l-1) rows, which share a fifth."""
    bits = FINE.bit_length() - 1
    return Rows(
        [
            Row(j, r, reverse(r, bits), 0, FINE >> r.bit_length())
            for j, column in enumerate(columns)
            if isinstance(column, Number)
            for r in range(1, FINE)
        ]
    )


def table_rows(columns: Sequence[Column], characters: int, orders: int, *, steep: bool) -> Rows:
    """Return the rows of the tables: (-, 0, c), then per column orders times characters.

    Weights fall with the square root of the order, or, ``steep``, with its power 3/2.  With two classes all rows but
    those without a character count twice.  Columns with missing values have rows of order 0, too: who is present.
    """
    double = 2 if characters == 2 else 1
    found = [Row(CLASS_ONLY, 0, 0, c, double * UNIT) for c in range(1, characters)]
    for j, column in enumerate(columns):
        bits = column.side.bit_length() - 1
        last = column.side - 1 if isinstance(column, Category) else orders
        for order in range(0 if column.missing else 1, last + 1):
            mask = sequency(order, bits) if isinstance(column, Number) else order
            power = 1.5 if steep and isinstance(column, Number) else 0.5
            weight = int(UNIT / max(order, 1) ** power + 0.5)
            found += [Row(j, order, mask, c, (double if c else 1) * max(weight, 1)) for c in range(characters)]
    return Rows(found)
