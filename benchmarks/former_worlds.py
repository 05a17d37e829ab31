"""How worlds were drawn before: by sorting random keys within strata."""

from __future__ import annotations

import numpy as np

from epsworth.mechanisms.words import random_order
from epsworth.pac.worlds import Sampler, source_of


def former_draw(sampler: Sampler, world: int) -> np.ndarray:
    """Return the units of a world at rate 1/2: the first half of a shuffle of every stratum."""
    words, stratum = source_of(sampler.seed, world), sampler.units.stratum
    drawn = random_order(words, len(stratum))
    order = drawn[np.argsort(stratum[drawn], kind="stable")]
    sizes = np.bincount(stratum)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = np.zeros(len(order), dtype=bool)
    chosen[order] = rank < np.repeat(sizes // 2, sizes)
    return chosen
