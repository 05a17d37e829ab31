"""Constant-time draws from integer weights that add up to 2^64: Walker's alias method, without a float.

2^c columns of equal capacity 2^(64 - c).  A word's top c bits choose a column; its other bits, compared with the
column's threshold, choose between the column's own outcome and its alias.  An entry packs the threshold (64 - c
bits) and the alias (c bits) into one word, so that a draw reads memory once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epsworth.arrays import Indices
from epsworth.client.kernels import WORD
from epsworth.mechanisms.words import Words


class Alias:
    """Outcome j with probability exactly ``weights[j]`` / 2^64.

    References
    ----------
    Walker 1977; Vose 1991, with integers.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        if sum(weights) != WORD or min(weights) < 0:
            raise ValueError("weights must be nonnegative integers that add up to 2^64")
        self.bits = max(1, (len(weights) - 1).bit_length())
        self._shift, self._low = np.uint64(64 - self.bits), np.uint64((1 << self.bits) - 1)
        self.entries = np.array(_entries(list(weights), self.bits), dtype=np.uint64)

    def draw(self, words: Words) -> Indices:
        """Return one outcome per word."""
        column = words >> self._shift
        entry = self.entries.take(column.view(np.int64), mode="clip")  # in range always; the mode skips a check
        # the word's low bits moved up, the space below filled with ones: smaller than the entry iff below its threshold
        rest = words << np.uint64(self.bits)
        rest |= self._low
        own = rest < entry
        entry &= self._low
        np.copyto(entry, column, where=own)
        return entry.view(np.int64)

    def weights(self) -> list[int]:
        """Return the weights that the table in fact draws with, read back from its entries."""
        capacity, low = 1 << (64 - self.bits), (1 << self.bits) - 1
        weights = [0] * (1 << self.bits)
        for column, entry in enumerate(self.entries.tolist()):
            weights[column] += entry >> self.bits
            weights[entry & low] += capacity - (entry >> self.bits)
        return weights

    def runs(self) -> tuple[Words, Words, Indices]:
        """Return the first words, the numbers of words and the outcomes of all runs, in the order of the words."""
        capacity, low = np.uint64(1 << (64 - self.bits)), self._low
        own = self.entries >> np.uint64(self.bits)
        start = np.arange(own.size, dtype=np.uint64) << self._shift
        first = np.stack([start, start + own], axis=1).ravel()
        size = np.stack([own, capacity - own], axis=1).ravel()
        column: Words = np.arange(own.size, dtype=np.uint64)
        outcome = np.stack([column, self.entries & low], axis=1).ravel()
        used = size > 0
        return first[used], size[used], outcome[used].astype(np.int64)


def draw_by_row(tables: Sequence[Alias], rows: Indices, words: Words) -> Indices:
    """Return one outcome per word, each from the table of its row."""
    drawn = np.empty(rows.size, dtype=np.int64)
    for row in np.unique(rows).tolist():
        at = rows == row
        drawn[at] = tables[row].draw(words[at])
    return drawn


def _entries(left: list[int], bits: int) -> list[int]:
    """Fill every column: pair an outcome that is short of a column with one that has more than a column."""
    capacity = 1 << (64 - bits)
    left += [0] * ((1 << bits) - len(left))
    entries = list(range(1 << bits))  # a full column: threshold 0, and its alias is itself
    short = [j for j, weight in enumerate(left) if weight < capacity]
    long = [j for j, weight in enumerate(left) if weight > capacity]
    while short:
        column, donor = short.pop(), long[-1]
        entries[column] = left[column] << bits | donor
        left[donor] -= capacity - left[column]
        if left[donor] <= capacity:
            long.pop()
            if left[donor] < capacity:
                short.append(donor)
    return entries
