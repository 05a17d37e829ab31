"""How far one can go from the origin through boxes that are proven free of flips."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.records import Indices
from epsworth.utility.engines.propagation import halves

BATCH = 256


def free_radius(
    free: Callable[[Floats, Floats], Bools],
    width: int,
    reach: float,
    budget: float,
    proven: Callable[[float], None] = lambda radius: None,
) -> float:
    """Return the largest radius up to ``reach``, in norm inf, that boxes prove to be free of flips.

    Claim: no point of norm below the answer flips, if ``free`` is right; the boxes that cannot be excluded
    are halved, nearest first, until none is left or the budget is spent.

    Parameters
    ----------
    free : callable
        Takes lower and upper corners, shape ``(n, width)``; true only where no point of the box flips.
    budget : float
        Most boxes to look at.
    proven : callable
        Is given every radius that is proven on the way; it may raise to end the search.
    """
    low, high = np.full((1, width), -reach), np.full((1, width), reach)
    distance, looked = np.zeros(1), 1
    if not reach > 0 or free(low, high).all():
        return max(reach, 0.0)
    while distance.size and looked < budget:
        proven(float(min(reach, distance.min())))
        now, later = nearest_first(distance, BATCH)
        a, b = _halved(low[now], high[now])
        looked += len(a)
        near = np.maximum(np.maximum(a, -b).max(axis=1), 0.0)
        kept = near < reach
        kept[kept] = ~free(a[kept], b[kept])
        low, high = np.concatenate([low[later], a[kept]]), np.concatenate([high[later], b[kept]])
        distance = np.concatenate([distance[later], near[kept]])
    return float(min(reach, distance.min())) if distance.size else reach


def nearest_first(distance: Floats, most: int) -> tuple[Indices, Indices]:
    """Return the places of the ``most`` nearest boxes, in any order, and of the others."""
    count = min(most, distance.size)
    order = np.argpartition(distance, count - 1)
    return order[:count], order[count:]


def _halved(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Cut every box across its longest side."""
    rows, axis = np.arange(len(low)), (high - low).argmax(axis=1)
    middle = 0.5 * (low[rows, axis] + high[rows, axis])
    return halves(low, high, axis, middle)
