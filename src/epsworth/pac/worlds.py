"""Random sub-samples ("worlds") of a pool, of which one is the secret.

Units are what goes in or out together: identical rows, and the rows of one person where groups are given.
Which of the listed worlds is the true one is always secret.  The list itself is secret, too, unless its seed is
given: with a public list some eleven known memberships name one of a thousand worlds.

Subsets of fixed size are drawn stratum by stratum in one pass: everyone tosses a coin, then a random surplus flips.
That is exactly uniform: exchanging two members of a stratum changes the law neither of the coins nor of the flips, and
among the laws on subsets of given sizes only the uniform one is the same under all such exchanges.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.mechanisms.words import SystemWords, random_order
from epsworth.records import Indices

Words = NDArray[np.uint64]
Source = Callable[[int], Words]  # gives so many fresh uniform 64-bit words
COINS = 1 << 16  # sides of a coin: what it misses of a chance, flips make up for
FEW = 32  # strata that are counted one by one


def subset(words: Source, sizes: Indices, keep: Indices, chance: float) -> Bools:
    """Return which of ``sum(sizes)`` things are in: ``keep[s]`` of the ``sizes[s]`` of stratum s, uniformly chosen.

    Strata lie one after the other.  ``chance`` decides how much is left to flip, not the law.
    """
    chosen = coins(words, int(sizes.sum()), chance)
    strata = np.flatnonzero(sizes)
    starts = (np.cumsum(sizes) - sizes)[strata]
    if len(strata) <= FEW:
        held = np.array([np.count_nonzero(part) for part in np.split(chosen, starts[1:])], dtype=np.intp)
    else:
        held = np.add.reduceat(chosen.view(np.uint8), starts, dtype=np.intp)
    while (off := held - keep[strata]).any():
        held = held + _flipped(chosen, words, starts, sizes[strata], held, off)
    return chosen


def coins(words: Source, count: int, chance: float) -> Bools:
    """Return independent coins: single bits where the chance is 1/2, else within 2**-17 of it."""
    if chance == 0.5:
        bits = words(-(-count // 64)).astype("<u8").view(np.uint8)
        return np.unpackbits(bits, count=count).view(np.bool_)
    return np.asarray(words(-(-count // 4)).astype("<u8").view("<u2")[:count] < round(chance * COINS))


def _flipped(chosen: Bools, words: Source, starts: Indices, sizes: Indices, held: Indices, off: Indices) -> Indices:
    """Flip up to ``|off|`` random members of every stratum that holds too many or too few; return the changes.

    Places are drawn uniformly, again where they lie beyond the stratum or on the side that is not asked for; the first
    different ones are flipped.
    """
    change = np.zeros(len(off), dtype=np.intp)
    at = np.flatnonzero(off)
    surplus, need, size = off[at] > 0, np.abs(off[at]), sizes[at]
    eligible = np.where(surplus, held[at], size - held[at])
    draws = 3 * need * -(-size // eligible) + 4
    width = np.array([max(1, int(most).bit_length()) for most in size - 1], dtype=np.uint64)
    of = np.repeat(np.arange(len(at)), draws)
    place = (words(len(of)) >> (np.uint64(64) - width)[of]).astype(np.intp)
    inside = place < size[of]
    place, of = (starts[at][of] + place)[inside], of[inside]
    fits = chosen[place] == surplus[of]
    place, of = place[fits], of[fits]
    first = np.sort(np.unique(place, return_index=True)[1])
    place, of = place[first], of[first]
    taken = np.arange(len(of)) - np.searchsorted(of, of) < need[of]
    chosen[place[taken]] ^= True
    change[at] = np.where(surplus, -1, 1) * np.bincount(of[taken], minlength=len(at))
    return change


Bytes = NDArray[np.uint8]
BLOCK = 1 << 22  # of listed worlds' bits that are unpacked together


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

    @cached_property
    def sizes(self) -> Indices:
        """How many units each stratum has."""
        return np.bincount(self.stratum)


def units_of(X: NDArray[Any], strata: Indices, *groupings: NDArray[Any] | None) -> Units:
    """Group identical rows of one class, and rows of one group, into units (and whatever these chain together).

    A grouping gives every row a value that the rows of a group share.
    """
    unit = _repeated(np.column_stack([np.asarray(X, dtype=np.float64).reshape(len(X), -1), strata]))
    for groups in groupings:
        if groups is not None:
            unit = _joined(unit, np.unique(groups, return_inverse=True)[1].reshape(-1))
    _, first, of_row = np.unique(unit, return_index=True, return_inverse=True)
    order = np.lexsort((first, strata[first]))  # strata one after the other, in the pool's order
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Units(place[of_row.reshape(-1)].astype(np.intp), strata[first][order].astype(np.intp))


def _repeated(rows: Floats) -> Indices:
    """Return labels that identical rows share: sorted by a hash, which is believed only where all rows bear it out."""
    bits = (rows + 0.0).view(np.uint64)  # 0.0 and -0.0 are one value
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for column in bits.T:
        mixed = (mixed ^ column ^ (column >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    _, first, label = np.unique(mixed, return_index=True, return_inverse=True)
    label = label.reshape(-1)
    if not np.array_equal(rows[first[label]], rows):
        label = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return np.asarray(label, dtype=np.intp)


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
        held = np.empty((len(worlds), len(self.units.of_row)), dtype=bool)
        for i, chosen in enumerate(self._drawn(worlds)):
            held[i] = chosen[self.units.of_row]
        return held

    def packed(self, worlds: range) -> Bytes:
        """Return which units each of these worlds holds, eight to a byte, shape ``(len(worlds), ceil(units / 8))``."""
        bits = np.empty((len(worlds), -(-len(self.units) // 8)), dtype=np.uint8)
        for i, chosen in enumerate(self._drawn(worlds)):
            bits[i] = np.packbits(chosen)
        return bits

    def fresh(self) -> Bools:
        """Return a secret sub-sample from operating-system randomness, shape ``(n,)``; nothing can repeat it."""
        return np.asarray(self._choose(SystemWords().words)[self.units.of_row])

    @property
    def certain(self) -> float:
        """Blind success at the most exposed unit's membership for someone who knows how many of its stratum are in."""
        sizes, (whole, chance) = self.units.sizes, self._kept
        least, most = (np.clip(kept, 1, np.maximum(sizes - 1, 1)) for kept in (whole, whole + (chance > 0)))
        return float((np.maximum(most, sizes - least) / sizes).max())

    @property
    def inclusion(self) -> Floats:
        """Chance that a unit is in a fresh sub-sample, shape ``(units,)``."""
        sizes = self.units.sizes
        share = np.clip(self.rate * sizes, 1, np.maximum(sizes - 1, 1)) / np.maximum(sizes, 1)
        return np.asarray(share[self.units.stratum])

    def _drawn(self, worlds: range) -> Iterator[Bools]:
        """Yield which units each of these worlds holds; of a pair, one draw gives both."""
        last, drawn = -1, np.zeros(0, dtype=bool)
        for world in worlds:
            draw, flip = divmod(world, 2) if self.paired else (world, 0)
            if draw != last:
                last, drawn = draw, self._units_in(draw)
            yield ~drawn if flip else drawn

    def _units_in(self, draw: int) -> Bools:
        return self._choose(source_of(self.seed, draw))

    def _choose(self, words: Source) -> Bools:
        """Return a random sub-sample of fixed size per stratum; an odd unit is in or out with equal chance."""
        sizes, (whole, chance) = self.units.sizes, self._kept
        keep = np.clip(whole + (words(len(sizes)) < chance), 1, np.maximum(sizes - 1, 1))
        found = subset(words, sizes, keep, self.rate)
        if self._order is None:
            return found
        chosen = np.empty_like(found)
        chosen[self._order] = found
        return chosen

    @cached_property
    def _order(self) -> Indices | None:
        """Return the units in the order of their strata; None where they are."""
        stratum = self.units.stratum
        return None if (np.diff(stratum) >= 0).all() else np.argsort(stratum, kind="stable")

    @cached_property
    def _kept(self) -> tuple[Indices, Words]:
        """Return how many units of each stratum are in for certain, and the chance, in 2**-64, of one more."""
        shares = [Fraction(repr(float(self.rate))) * int(size) for size in self.units.sizes]
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
            chosen[[unit, others[random_order(words, len(others))[0]]]] ^= True
        return chosen


@dataclass(frozen=True, eq=False)
class Listed:
    """Which units each listed world holds, eight to a byte: a thousand worlds of a million records are 128 MB.

    Attributes
    ----------
    bits : ndarray of uint8, shape ``(m, ceil(units / 8))``
    units : int
    """

    bits: Bytes
    units: int

    @classmethod
    def of(cls, members: Bools) -> Listed:
        """Pack."""
        return cls(np.packbits(members, axis=1), members.shape[1])

    def __len__(self) -> int:
        return len(self.bits)

    def blocks(self) -> Iterator[Bools]:
        """Yield members unit by unit, some units of all worlds at a time."""
        step = max(1, BLOCK // (8 * len(self)))
        for start in range(0, self.bits.shape[1], step):
            count = min(8 * step, self.units - 8 * start)
            yield np.unpackbits(self.bits[:, start : start + step], axis=1, count=count).view(np.bool_)

    @cached_property
    def shares(self) -> Floats:
        """The share of listed worlds that hold a unit, shape ``(units,)``."""
        return np.concatenate([block.mean(axis=0) for block in self.blocks()])

    @property
    def prior(self) -> float:
        """Blind success at the most exposed unit's membership."""
        return float(np.maximum(self.shares, 1 - self.shares).max())

    @property
    def multiplicity(self) -> int:
        """How often the most frequent sub-sample is listed: the world is named blindly with that / m."""
        return max(Counter(hashlib.sha256(row.tobytes()).digest() for row in self.bits).values())
