"""Draws fit for release, from integers alone: coins and uniform numbers."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools
from epsworth.client.kernels import exp_below
from epsworth.mechanisms.rational import Exact, stated
from epsworth.mechanisms.words import WordSource

WORD = 1 << 64
FARTHEST = 60  # epsilon beyond 60 ln 2 is served with the stronger promise e^epsilon = 2^60: weights must fit a word
POWER = re.compile(r"[eE][+-]?\d{4}")  # writing such a number out in full would fill the memory
GRAIN = 10**6  # discrete Laplace noise takes epsilon in millionths, rounded down
Ints = NDArray[np.int64]


def checked_epsilon(epsilon: Exact, field: str = "epsilon") -> Fraction:
    """Return the epsilon that a text states; refuse one whose millionths are none."""
    huge = isinstance(epsilon, int) and not isinstance(epsilon, bool) and epsilon.bit_length() > 1024
    if huge or (isinstance(epsilon, (str, Decimal)) and POWER.search(str(epsilon))):
        raise ValueError(f"{field} must be positive and finite, of modest length, got a power of ten beyond all use")
    budget = stated(epsilon, field)
    if budget * GRAIN < 1:  # the double nearest to 1e-06 lies below it
        raise ValueError(
            f"{field} must exceed {1 / GRAIN:g}, got {epsilon!r}; reports of less would tell next to nothing"
        )
    return budget


def odds(epsilon: Fraction) -> Fraction:
    """Return a rational number not above e^epsilon: what no ratio of two probabilities of a report may exceed."""
    most = Fraction(1 << FARTHEST)
    return most if epsilon > FARTHEST else min(exp_below(epsilon), most)  # e^60 is far above 2^60


def flip_weight(epsilon: Fraction) -> int:
    """Return the least f with ``(2^64 - f) / f <= e^epsilon``: a bit flipped so often keeps epsilon."""
    return -int(-WORD // (1 + odds(epsilon)))


def coins(weight: int, count: int, source: WordSource) -> Bools:
    """Return bits that are true with probability exactly ``weight`` / 2^64, where ``weight`` < 2^64."""
    return np.asarray(source.words(count) < np.uint64(weight))


def uniform(size: int, count: int, source: WordSource) -> Ints:
    """Return numbers exactly uniform on 0..size-1; words above the last multiple of ``size`` are drawn again."""
    drawn = source.words(count)
    if size & (size - 1) == 0:
        return np.asarray(drawn & np.uint64(size - 1), dtype=np.int64)
    last = np.uint64(WORD - WORD % size - 1)
    drawn = drawn.copy()
    while (again := np.flatnonzero(drawn > last)).size:
        drawn[again] = source.words(again.size)
    return np.asarray(drawn % np.uint64(size), dtype=np.int64)
