"""Searches that say on which side of the answer they stop, and scans where nothing is monotone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def smallest_passing(passes: Callable[[Floats], Bools], low: Floats, high: Floats) -> Floats:
    """Bisect elementwise for the threshold of an increasing predicate; stop on the *passing* side.

    Parameters
    ----------
    passes : callable
        Elementwise; false below the threshold and true above it.
    low, high : ndarray, positive
        ``passes(high)`` is true.  Bisection is in the logarithm.

    Returns
    -------
    ndarray
        Values at which ``passes`` has been seen to hold, within a few ulps of the threshold.
    """
    low, high = np.log(low), np.log(high)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if ((middle <= low) | (middle >= high)).all():
            break
        good = passes(np.exp(middle))
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return np.exp(high)


@dataclass(frozen=True)
class Scan:
    """What a grid says about a wish, without assuming that anything is monotone.

    Attributes
    ----------
    met : ndarray of bool
        Grid points at which the wish is guaranteed.
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
    def first_possible(self) -> int | None:
        """Index of the smallest grid point that is not refuted, or None."""
        return int(np.argmin(self.refuted)) if not self.refuted.all() else None

    @property
    def holds_above(self) -> bool:
        """Whether every grid point from `first_met` on is guaranteed too."""
        return self.first_met is not None and bool(self.met[self.first_met :].all())
