"""Leaves of trees by masks: per column, one of the leaves that a place still allows (QuickScorer).

The leaf is the one bit that all columns' masks leave (Lucchese et al. 2015); the masks here rule out right subtrees,
too, so that no order of bits matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Indices

Words = NDArray[np.uint64]

LARGEST = 1 << 26  # bytes of masks; trees that need more are walked
CHUNK = 1 << 15  # words of masks at a time: they stay in a core's own cache
BITS = 64
HASH, TOP, SLOTS = np.uint64(0x20C287122C68F3F), np.uint64(57), 128
"""Times a power of two, its first 7 bits tell which, and are never all zero: what no bit at all gives."""
EVERY = np.uint64(2**BITS - 1)


@dataclass(frozen=True, eq=False)
class LeafMasks:
    """Masks of the leaves that are left, for every column that trees ask about.

    Attributes
    ----------
    columns : tuple of (column, row of each place, masks of each row)
        Masks have shape ``(rows, words)``; a tree has one word for each 64 of its leaves.
    leaf : ndarray of int, shape ``(words * 128,)``
        The node that is the leaf, by word and by what `HASH` makes of its bit; ``len(feature)`` for none.
    """

    columns: tuple[tuple[int, Indices, Words], ...]
    leaf: Indices

    def parts(self, values: Indices) -> Indices:
        """Return nodes' values, shape ``(nodes, scores)``, as `sums` takes them: shape ``(scores, words * 128)``."""
        none = np.zeros((1, values.shape[1]), dtype=np.int64)
        return np.ascontiguousarray(np.concatenate([values, none])[self.leaf].T)

    def sums(self, places: Indices, parts: Indices) -> Indices:
        """Return the sums of leaves' values, shape ``(n, scores)``."""
        words = self.columns[0][2].shape[1]
        sums = np.empty((len(places), len(parts)), dtype=np.int64)
        rows = [(row[places[:, column]], masks) for column, row, masks in self.columns]
        step = max(1, min(CHUNK // words, len(places)))
        first = np.arange(words, dtype=np.uint64) * np.uint64(SLOTS)
        both = np.empty((2, step, words), dtype=np.uint64)
        for start in range(0, len(places), step):
            chunk = slice(start, start + step)
            left, other = both[:, : len(places) - start]
            for number, (row, masks) in enumerate(rows):  # clipping changes nothing, but spares a copy
                np.take(masks, row[chunk], axis=0, out=other if number else left, mode="clip")
                if number:
                    left &= other
            left *= HASH
            left >>= TOP
            left += first
            at, found = left.view(np.int64), other.view(np.int64)
            for score, part in enumerate(parts):
                np.take(part, at, out=found, mode="clip")
                np.sum(found, axis=1, out=sums[chunk, score])
        return sums


class Turns(NamedTuple):
    """Nodes that ask, once for each word of masks that they rule leaves out of."""

    node: Indices
    word: Indices
    without_left: Words
    without_right: Words

    def of(self, nodes: Indices) -> Turns:
        """Return those at some nodes."""
        own = np.isin(self.node, nodes)
        return Turns(self.node[own], self.word[own], self.without_left[own], self.without_right[own])


def leaf_masks(
    feature: Indices, left: Indices, right: Indices, threshold: Indices, sets: Mapping[int, Sequence[int]],
    roots: Indices, places: Sequence[int],
) -> LeafMasks | None:  # fmt: skip
    """Return the masks of proven trees, or None where they would be larger than `LARGEST` or nothing is asked.

    Parameters
    ----------
    feature, left, right, threshold, sets, roots
        As of `epsworth.tailored.surrogates.Trees`.
    places : sequence of int
        How many each column has.
    """
    paths, often = _paths(feature, left, right)
    first = np.concatenate([[0], np.cumsum(-(-paths[roots] // BITS))])
    words = int(first[-1])
    by_set = np.isin(np.arange(len(feature)), list(sets))
    nodes = [np.flatnonzero(feature == column) for column in range(len(places))]
    cuts = [np.unique(threshold[own]) for own in nodes]
    rows = [most if by_set[own].any() else len(cut) + 1 for own, cut, most in zip(nodes, cuts, places, strict=True)]
    if not any(len(own) for own in nodes) or 8 * (words * (sum(rows) + SLOTS) + sum(places)) > LARGEST:
        return None
    if 8 * int(often[roots].sum()) > LARGEST:  # of a tree that is one long path most nodes ask in most words
        return None
    turns, leaf, alive = _turns(feature, left, right, paths, roots, first)
    columns = []
    for column, (own, cut, most) in enumerate(zip(nodes, cuts, places, strict=True)):
        asked = turns.of(own)
        if by_set[own].any():
            columns.append((column, np.arange(most), _masks_of_words(asked, sets, alive, most)))
        elif len(own):
            row, at = (np.searchsorted(cut, part) for part in (np.arange(most), threshold[asked.node]))
            columns.append((column, row, _masks_of_order(asked, at, alive, len(cut))))
    return LeafMasks(tuple(columns), leaf)


def _paths(feature: Indices, left: Indices, right: Indices) -> tuple[Indices, Indices]:
    """Return how many leaves lie below every node, counted once per way to them, up to what is too many.

    And in how many words, at most, the nodes from there on ask.
    """
    paths, kinds, lefts, rights = [1] * len(feature), feature.tolist(), left.tolist(), right.tolist()
    asked = [0] * len(paths)
    for at in range(len(paths) - 1, -1, -1):
        if kinds[at] >= 0:
            paths[at] = min(LARGEST * BITS, paths[lefts[at]] + paths[rights[at]])
            asked[at] = min(LARGEST, asked[lefts[at]] + asked[rights[at]] + paths[at] // BITS + 2)
    return np.array(paths, dtype=np.int64), np.array(asked, dtype=np.int64)


def _turns(
    feature: Indices, left: Indices, right: Indices, paths: Indices, roots: Indices, first: Indices
) -> tuple[Turns, Indices, Words]:
    """Return turns word by word, the leaves, and masks of all of them."""
    words = int(first[-1])
    leaf, alive = np.full(words * SLOTS, len(feature), dtype=np.int64), np.zeros(words, dtype=np.uint64)
    node, bit = roots, first[:-1] * BITS
    found = []
    while node.size:
        ends = feature[node] < 0
        own = np.uint64(1) << (bit[ends] % BITS).astype(np.uint64)
        np.bitwise_or.at(alive, bit[ends] // BITS, own)
        leaf[bit[ends] // BITS * SLOTS + (own * HASH >> TOP).astype(np.int64)] = node[ends]
        node, bit = node[~ends], bit[~ends]
        middle = bit + paths[left[node]]
        found.append((node, bit, middle, bit + paths[node]))
        node, bit = np.concatenate([left[node], right[node]]), np.concatenate([bit, middle])
    at, low, middle, high = (np.concatenate(parts) for parts in zip(*found, strict=True))
    spans = (high - 1) // BITS - low // BITS + 1
    turn = np.repeat(np.arange(len(at)), spans)
    word = np.arange(len(turn)) - np.repeat(np.cumsum(spans) - spans, spans) + (low // BITS)[turn]
    without = [EVERY ^ _ones(word, a[turn], b[turn]) for a, b in ((low, middle), (middle, high))]
    return Turns(at[turn], word, *without), leaf, alive


def _ones(word: Indices, low: Indices, high: Indices) -> Words:
    """Return words that hold the bits from ``low`` to before ``high``, counted over all words."""
    below = [np.clip(bit - word * BITS, 0, BITS) for bit in (low, high)]
    a, b = (np.where(n == BITS, EVERY, (np.uint64(1) << (n % BITS).astype(np.uint64)) - np.uint64(1)) for n in below)
    return np.asarray(a ^ b, dtype=np.uint64)


def _masks_of_order(turns: Turns, cut: Indices, alive: Words, cuts: int) -> Words:
    """Return masks between thresholds: up to its own a turn rules out the right side, beyond it the left one."""
    small, large = (np.tile(alive, (cuts + 1, 1)) for _ in range(2))
    np.bitwise_and.at(small, (cut, turns.word), turns.without_right)
    np.bitwise_and.at(large, (cut + 1, turns.word), turns.without_left)
    small = np.bitwise_and.accumulate(small[::-1], axis=0)[::-1]
    return np.ascontiguousarray(small & np.bitwise_and.accumulate(large, axis=0))


def _masks_of_words(turns: Turns, sets: Mapping[int, Sequence[int]], alive: Words, most: int) -> Words:
    """Return masks of every word: those of a turn's set go left."""
    masks = np.tile(alive, (most, 1))
    for node, word, without_left, without_right in zip(*turns, strict=True):
        members = np.zeros(most, dtype=bool)
        members[list(sets[int(node)])] = True
        masks[:, word] &= np.where(members, without_right, without_left)
    return masks
