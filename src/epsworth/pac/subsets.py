"""Random subsets of fixed size, stratum by stratum, in one pass: everyone tosses a coin, then a random surplus flips.

Exactly uniform: exchanging two members of a stratum changes the law neither of the coins nor of the flips, and among
the laws on subsets of given sizes only the uniform one is the same under all such exchanges.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools
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
