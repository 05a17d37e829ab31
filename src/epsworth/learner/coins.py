"""Draws fit for release, from integers alone: coins, uniform numbers, discrete Laplace noise."""

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


def discrete_laplace(sensitivity: int, epsilon: Fraction, count: int, source: WordSource) -> Ints:
    """Return whole numbers k with probability proportional to e^(-|k| epsilon / sensitivity), exactly.

    A sign and a geometric number; minus zero is drawn again (Canonne, Kamath & Steinke 2020, Algorithm 2).
    Epsilon is rounded down to millionths, which only adds noise.
    """
    step = min(int(epsilon * GRAIN), 1 << 62)  # a step that fits a word: less epsilon only adds noise
    scale = Fraction(sensitivity * GRAIN, step)
    drawn, left = np.empty(count, dtype=np.int64), np.arange(count)
    while left.size:
        size = _geometric(scale.numerator, scale.denominator, left.size, source)
        negative = coins(WORD // 2, left.size, source)
        drawn[left] = np.where(negative, -size, size)
        left = left[negative & (size == 0)]
    return drawn


def _geometric(s: int, t: int, count: int, source: WordSource) -> Ints:
    """Return k = 0, 1, .. with probability proportional to e^(-k t / s): U + s V, divided by t."""
    low, left = np.empty(count, dtype=np.int64), np.arange(count)
    while left.size:  # U on 0..s-1 with weight e^(-U / s)
        tried = uniform(s, left.size, source)
        low[left] = tried
        left = left[~_decays(tried, s, source)]
    high, left = np.zeros(count, dtype=np.int64), np.arange(count)
    while left.size:  # V: how often in a row a coin of e^-1 shows heads
        left = left[_decays(np.full(left.size, s), s, source)]
        high[left] += 1
    return (low + s * high) // t


def _decays(numerator: Ints, denominator: int, source: WordSource) -> Bools:
    """Return bits that are true with probability e^(-numerator / denominator), for ratios in [0, 1].

    von Neumann's series: toss coins of ratio / 1, ratio / 2, .. until one fails; true iff an odd toss failed.
    """
    odd, left, k = np.zeros(numerator.size, dtype=bool), np.arange(numerator.size), 1
    while left.size:
        heads = uniform(denominator * k, left.size, source) < numerator[left]
        odd[left[~heads]] = k % 2 == 1
        left, k = left[heads], k + 1
    return odd
