"""Searches that say on which side of the answer they stop, and scans where nothing is monotone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats


def step_until(passes: Callable[[Floats], Bools], start: Floats, fallback: Floats) -> Floats:
    """Move a root found in floating point to the side on which a predicate is *seen* to hold.

    Parameters
    ----------
    passes : callable
        Elementwise; false below the root and true above it.
    start : ndarray, positive
        The root, up to rounding.
    fallback : ndarray
        Values that certainly pass, for the elements where no step of up to 1e-5 does.
    """
    found, todo = fallback.copy(), np.ones(fallback.shape, dtype=bool)
    for step in (0.0, 1e-14, 1e-13, 1e-12, 1e-11, 1e-9, 1e-7, 1e-5):
        candidate = start * (1 + step)
        good = todo & passes(candidate)
        found[good] = candidate[good]
        todo &= ~good
        if not todo.any():
            break
    return found


def last_passing(passes: Callable[[Floats], Bools], low: Floats, high: Floats) -> Floats:
    """Return, elementwise, the last double at which a falling predicate still holds.

    Parameters
    ----------
    passes : callable
        Elementwise; true up to the answer and false beyond it.
    low, high : ndarray
        ``passes(low)`` is true and ``passes(high)`` false.

    Notes
    -----
    Doubles are halved by their number, not their size: 64 steps reach the last bit of any answer, however near to zero.
    """
    first, last = _numbered(low), _numbered(high)
    while (first < last - 1).any():
        middle = (first >> 1) + (last >> 1) + (first & last & 1)
        good = passes(_double(middle))
        first, last = np.where(good, middle, first), np.where(good, last, middle)
    return _double(first)


def last_passing_by_many(
    passes: Callable[[Floats], Bools], low: Floats, high: Floats, between: tuple[Floats, Floats], ways: int
) -> Floats:
    """Return what `last_passing` does, asking about ``ways`` values at once: fewer steps, where a step is dear.

    Parameters
    ----------
    passes : callable
        Elementwise along the last axis, for values of shape ``(any, n)``.
    low, high : ndarray, shape ``(n,)``
        As for `last_passing`.
    between : pair of ndarray
        Where the answer should lie: a good guess saves most of the work, a bad one costs a step.
    ways : int
        Values between the ends that a step asks about.
    """
    good = passes(np.stack([np.clip(near, low, high) for near in between]))
    for near, passed in zip(between, good, strict=True):
        near = np.clip(near, low, high)
        low, high = np.where(passed & (near > low), near, low), np.where(~passed & (near < high), near, high)
    first, last = _numbered(low), _numbered(high)
    parts = np.arange(1, ways + 1, dtype=np.uint64)[:, np.newaxis]
    while (first < last - 1).any():
        apart = last.view(np.uint64) - first.view(np.uint64)  # may be too large for a signed number
        step = np.maximum(apart // np.uint64(ways + 1), np.uint64(1))
        inner = np.minimum((first.view(np.uint64) + parts * step).view(np.int64), np.maximum(last - 1, first))
        good = np.logical_and.accumulate(passes(_double(inner)), axis=0).sum(axis=0)
        ends = np.concatenate([first[np.newaxis], inner, last[np.newaxis]])
        first, last = np.take_along_axis(ends, np.stack([good, good + 1]), axis=0)
    return _double(first)


def _numbered(values: Floats) -> NDArray[np.int64]:
    """Return the numbers of doubles in their order; both zeros have number 0."""
    bits = np.asarray(values, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, -(bits & np.int64(2**63 - 1)), bits)


def _double(numbers: NDArray[np.int64]) -> Floats:
    """Return the doubles of these numbers."""
    found = np.abs(numbers).view(np.float64)
    return np.where(numbers < 0, -found, found)


@dataclass(frozen=True)
class Scan:
    """Where on a grid a demand is met, without assuming that anything is monotone.

    Attributes
    ----------
    met : ndarray of bool
        Grid points at which the demand is guaranteed.
    refuted : ndarray of bool
        Grid points at which it certainly fails.
    """

    met: Bools
    refuted: Bools

    @property
    def first_met(self) -> int | None:
        """Index of the smallest grid point that is guaranteed, or None."""
        return int(np.argmax(self.met)) if self.met.any() else None

    @property
    def holds_above(self) -> bool:
        """Whether every grid point from `first_met` on is guaranteed too."""
        return self.first_met is not None and bool(self.met[self.first_met :].all())
