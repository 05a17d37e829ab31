"""The secret: which part of the pool was used.  How the sub-samples ("worlds") are drawn.

Units are what goes in or out together: identical rows, and the rows of one person where groups are given.
Which of the listed worlds is the true one is always secret.  The list itself is secret, too, unless its seed is
given: with a public list some eleven known memberships name one of a thousand worlds.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.exact.entropy import SystemWords
from epsworth.records import Indices

Words = NDArray[np.uint64]
Source = Callable[[int], Words]  # gives so many fresh uniform 64-bit words


@dataclass(frozen=True)
class SecretSeed:
    """Seed of a list of worlds that nobody knows: 256 bits of the operating system's randomness.

    As private as the pool: it is never shown, but whoever holds it can list the worlds.

    Examples
    --------
    >>> SecretSeed()
    SecretSeed(hidden)
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def __repr__(self) -> str:
        """Show nothing."""
        return "SecretSeed(hidden)"

    def source(self, world: int) -> Source:
        """Return the words of one world: SHAKE-256 of key, world and call."""
        calls = 0

        def words(count: int) -> Words:
            nonlocal calls
            calls += 1
            of = self.key + world.to_bytes(8, "big") + calls.to_bytes(8, "big")
            return np.frombuffer(hashlib.shake_256(of).digest(8 * count), dtype="<u8").astype(np.uint64)

        return words


Seed = int | SecretSeed
# one for all fits of a process: those of one pool speak of one list, as releases that share a ledger must
OF_THIS_PROCESS = SecretSeed()


def source_of(seed: Seed, world: int) -> Source:
    """Return the words that draw one world: the same for any number of workers."""
    if isinstance(seed, SecretSeed):
        return seed.source(world)
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(world,))).random_raw


def analysis_rng(seed: Seed) -> np.random.Generator:
    """Return the generator of a fit's own simulations, apart from all worlds: a fit is repeatable from its seed."""
    entropy = int.from_bytes(seed.key, "big") if isinstance(seed, SecretSeed) else seed
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(0, 1)))


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


def units_of(X: NDArray[Any], strata: Indices, *groupings: NDArray[Any] | None) -> Units:
    """Group identical rows of one class, and rows of one group, into units (and whatever these chain together).

    A grouping gives every row a value that the rows of a group share.
    """
    keyed = np.column_stack([np.asarray(X, dtype=np.float64).reshape(len(X), -1), strata])
    _, unit = np.unique(keyed, axis=0, return_inverse=True)
    unit = unit.reshape(-1)
    for groups in groupings:
        if groups is not None:
            unit = _joined(unit, np.unique(groups, return_inverse=True)[1].reshape(-1))
    _, first, of_row = np.unique(unit, return_index=True, return_inverse=True)
    return Units(of_row.reshape(-1).astype(np.intp), strata[first].astype(np.intp))


def _joined(a: Indices, b: Indices) -> Indices:
    """Return the finest labels that are constant wherever ``a`` or ``b`` is."""
    first = int(a.max()) + 1
    return _chained(a, b + first, first + int(b.max()) + 1)[a]


def near_groups(X: Floats, near: float) -> Indices:
    """Return labels that rows share whose columns all differ by at most ``near``, and what these chain together.

    Decimals such as 0.1, 0.2 and 0.3 are a few units in the last place off: rather together than apart.
    """
    from scipy.spatial import cKDTree

    _, place, row = np.unique(X, axis=0, return_index=True, return_inverse=True)  # repeated rows: one point
    wide = near + 4 * np.finfo(float).eps * (near + np.abs(X).max(axis=0))  # of every column
    pairs = cKDTree(X[place] / wide).query_pairs(1 + 4 * np.finfo(float).eps, p=np.inf, output_type="ndarray")
    return _chained(pairs[:, 0], pairs[:, 1], len(place))[row.reshape(-1)]


def _chained(one: Indices, other: Indices, size: int) -> Indices:
    """Return a label for each of ``size`` things, shared by what the pairs (one, other) link."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(one)), (one, other)), shape=(size, size))
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.intp)


@dataclass(frozen=True)
class Sampler:
    """Draws stratified sub-samples of the units, by whole numbers; world j depends on ``(seed, j)`` only.

    ``paired``: worlds 2i and 2i + 1 are complements of each other (rate 1/2 only), so that every unit is in
    exactly half of the worlds.
    """

    units: Units
    rate: float
    seed: Seed
    paired: bool

    def draw(self, worlds: range) -> Bools:
        """Return which rows each of these worlds holds, shape ``(len(worlds), n)``."""
        chosen = np.stack([self._units_in(j) for j in worlds])
        return np.asarray(chosen[:, self.units.of_row])

    def fresh(self) -> Bools:
        """Return a secret sub-sample from operating-system randomness, shape ``(n,)``; nothing can repeat it."""
        return np.asarray(self._choose(SystemWords().words)[self.units.of_row])

    @property
    def certain(self) -> float:
        """Blind success at the most exposed unit's membership for someone who knows how many of its stratum are in."""
        sizes, (whole, chance) = np.bincount(self.units.stratum), self._kept
        least, most = (np.clip(kept, 1, np.maximum(sizes - 1, 1)) for kept in (whole, whole + (chance > 0)))
        return float((np.maximum(most, sizes - least) / sizes).max())

    @property
    def inclusion(self) -> Floats:
        """Chance that a unit is in a fresh sub-sample, shape ``(units,)``."""
        sizes = np.bincount(self.units.stratum)
        share = np.clip(self.rate * sizes, 1, np.maximum(sizes - 1, 1)) / np.maximum(sizes, 1)
        return np.asarray(share[self.units.stratum])

    def _units_in(self, world: int) -> Bools:
        draw, flip = divmod(world, 2) if self.paired else (world, 0)
        chosen = self._choose(source_of(self.seed, draw))
        return ~chosen if flip else chosen

    def _choose(self, words: Source) -> Bools:
        """Shuffle within each stratum and keep the first ones: a random sub-sample of fixed size per stratum."""
        keys = distinct(words, len(self.units))
        order = np.lexsort((keys, self.units.stratum))
        sizes = np.bincount(self.units.stratum)
        # an odd stratum gives its odd unit to either side with equal chance
        whole, chance = self._kept
        keep = np.clip(whole + (words(len(sizes)) < chance), 1, np.maximum(sizes - 1, 1))
        rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        chosen = np.zeros(len(order), dtype=bool)
        chosen[order] = rank < np.repeat(keep, sizes)
        return chosen

    @cached_property
    def _kept(self) -> tuple[Indices, Words]:
        """Return how many units of each stratum are in for certain, and the chance, in 2**-64, of one more."""
        shares = [Fraction(repr(float(self.rate))) * int(size) for size in np.bincount(self.units.stratum)]
        whole = np.array([int(share) for share in shares], dtype=np.intp)
        return whole, np.array([int((share % 1) * 2**64) for share in shares], dtype=np.uint64)


@dataclass(frozen=True)
class Exchanges(Sampler):
    """Worlds 2i and 2i + 1 differ in one unit, exchanged for another one of its stratum: what a single record does.

    Pair i is about unit i modulo their number.  Either world of a pair is a uniform sub-sample.
    """

    def _units_in(self, world: int) -> Bools:
        pair, second = divmod(world, 2)
        words = source_of(self.seed, pair)
        chosen = self._choose(words)
        if second:
            unit = pair % len(self.units)
            others = np.flatnonzero((chosen != chosen[unit]) & (self.units.stratum == self.units.stratum[unit]))
            chosen[[unit, others[distinct(words, len(others)).argmin()]]] ^= True
        return chosen


def distinct(words: Source, count: int) -> Words:
    """Return words without a repetition, whose order is therefore a uniform permutation."""
    while True:
        keys = words(count)
        if len(np.unique(keys)) == count:
            return keys


def multiplicity(members: Bools) -> int:
    """Return how often the most frequent sub-sample is listed: naming the world blindly succeeds with that / m."""
    packed = np.packbits(members, axis=1)
    return int(np.unique(packed, axis=0, return_counts=True)[1].max())


def priors(members: Bools) -> Floats:
    """Return every row's blind success, ``max(f, 1 - f)`` with f the share of *listed* worlds that hold it."""
    share = members.mean(axis=0)
    return np.asarray(np.maximum(share, 1 - share))
