"""The secret: which part of the pool was used.  How the sub-samples ("worlds") are drawn.

Units are what goes in or out together: identical rows, and the rows of one person where groups are given.
The list of worlds is public (its seed is stored); which of them is the true one is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.records import Indices


@dataclass(frozen=True, eq=False)
class Units:
    """Rows grouped into units, and units into strata (classes).

    Attributes
    ----------
    of_row : ndarray of int, shape ``(n,)``
        Unit of every row.
    stratum : ndarray of int, shape ``(units,)``
        Stratum of every unit: that of its first row.
    """

    of_row: Indices
    stratum: Indices

    def __len__(self) -> int:
        return len(self.stratum)


def units_of(X: NDArray[Any], strata: Indices, groups: NDArray[Any] | None = None) -> Units:
    """Group identical rows of one class, and rows of one group, into units (and whatever these chain together)."""
    keyed = np.column_stack([np.asarray(X, dtype=np.float64).reshape(len(X), -1), strata])
    _, unit = np.unique(keyed, axis=0, return_inverse=True)
    unit = unit.reshape(-1)
    if groups is not None:
        unit = _joined(unit, np.unique(groups, return_inverse=True)[1].reshape(-1))
    _, first, of_row = np.unique(unit, return_index=True, return_inverse=True)
    return Units(of_row.reshape(-1).astype(np.intp), strata[first].astype(np.intp))


def _joined(a: Indices, b: Indices) -> Indices:
    """Return the finest labels that are constant wherever ``a`` or ``b`` is."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = int(a.max()) + int(b.max()) + 2
    links = coo_array((np.ones(len(a)), (a, b + int(a.max()) + 1)), shape=(size, size))
    return np.asarray(connected_components(links, directed=False)[1][a], dtype=np.intp)


@dataclass(frozen=True)
class Sampler:
    """Draws stratified sub-samples of the units; world j depends on ``(seed, j)`` only.

    ``paired``: worlds 2i and 2i + 1 are complements of each other (rate 1/2 only), so that every unit is in
    exactly half of the worlds.
    """

    units: Units
    rate: float
    seed: int
    paired: bool

    def draw(self, worlds: range) -> Bools:
        """Return which rows each of these worlds holds, shape ``(len(worlds), n)``."""
        chosen = np.stack([self._units_in(j) for j in worlds])
        return np.asarray(chosen[:, self.units.of_row])

    def fresh(self) -> Bools:
        """Return a secret sub-sample from operating-system randomness, shape ``(n,)``; nothing can repeat it."""
        return np.asarray(self._choose(np.random.default_rng())[self.units.of_row])

    @property
    def certain(self) -> float:
        """Blind success at the most exposed unit's membership for someone who knows how many of its stratum are in."""
        sizes = np.bincount(self.units.stratum)
        exact = np.round(self.rate * sizes, 9)
        least, most = (np.clip(kept, 1, np.maximum(sizes - 1, 1)) for kept in (np.floor(exact), np.ceil(exact)))
        return float(np.maximum(most / sizes, 1 - least / sizes).max())

    @property
    def inclusion(self) -> Floats:
        """Chance that a unit is in a fresh sub-sample, shape ``(units,)``."""
        sizes = np.bincount(self.units.stratum)
        share = np.clip(self.rate * sizes, 1, np.maximum(sizes - 1, 1)) / np.maximum(sizes, 1)
        return np.asarray(share[self.units.stratum])

    def _units_in(self, world: int) -> Bools:
        draw, flip = divmod(world, 2) if self.paired else (world, 0)
        # SeedSequence keys: the same world for any number of workers
        chosen = self._choose(np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(draw,))))
        return ~chosen if flip else chosen

    def _choose(self, rng: np.random.Generator) -> Bools:
        """Shuffle within each stratum and keep the first ones: a random sub-sample of fixed size per stratum."""
        keys = rng.random(len(self.units))
        order = np.lexsort((keys, self.units.stratum))
        sizes = np.bincount(self.units.stratum)
        exact = self.rate * sizes
        # an odd stratum gives its odd unit to either side with equal chance
        keep = np.clip(np.floor(exact + rng.random(len(sizes))), 1, np.maximum(sizes - 1, 1)).astype(np.intp)
        rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        chosen = np.zeros(len(order), dtype=bool)
        chosen[order] = rank < np.repeat(keep, sizes)
        return chosen


@dataclass(frozen=True)
class Exchanges(Sampler):
    """Worlds 2i and 2i + 1 differ in one unit, exchanged for another one of its stratum: what a single record does.

    Pair i is about unit i modulo their number.  Either world of a pair is a uniform sub-sample.
    """

    def _units_in(self, world: int) -> Bools:
        pair, second = divmod(world, 2)
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(pair,)))
        chosen = self._choose(rng)
        if second:
            unit = pair % len(self.units)
            other = (chosen != chosen[unit]) & (self.units.stratum == self.units.stratum[unit])
            chosen[[unit, rng.choice(np.flatnonzero(other))]] ^= True
        return chosen


def multiplicity(members: Bools) -> int:
    """Return how often the most frequent sub-sample is listed: naming the world blindly succeeds with that / m."""
    packed = np.packbits(members, axis=1)
    return int(np.unique(packed, axis=0, return_counts=True)[1].max())


def priors(members: Bools) -> Floats:
    """Return every row's blind success, ``max(f, 1 - f)`` with f the share of *listed* worlds that hold it."""
    share = members.mean(axis=0)
    return np.asarray(np.maximum(share, 1 - share))
