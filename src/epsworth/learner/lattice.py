"""Cells of the unit box, derived as integers: no comparison of distances, so never more than two cells per axis.

``m`` intervals per axis, ``h = 1 / m``.  The *partition* has the disjoint cells 0..m-1 per axis; the *lattice* of
Berrett & Butucea 2019 has the points 0..m per axis, and overlapping cells of side 2h around them.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from epsworth.arrays import Floats
from epsworth.learner.coins import Ints


def flat(index: Ints, side: int) -> Ints:
    """Return row-major numbers of index rows ``(n, d)``, each entry in 0..side-1."""
    return np.asarray(index @ _strides(side, index.shape[1]))


@cache
def _strides(side: int, d: int) -> Ints:
    return np.array([side**axis for axis in reversed(range(d))], dtype=np.int64)


def floors(unit: Floats, m: int) -> Ints:
    """Return floor(u / h) per axis, in 0..m; the upper end alone gives m."""
    return np.minimum(np.floor(unit * m), m).astype(np.int64)


def cells(unit: Floats, m: int) -> Ints:
    """Return the partition's cell of each point ``(n, d)``; cells are closed below, the last one also above.

    Examples
    --------
    >>> cells(np.array([[0.0, 0.99], [1.0, 1.0]]), 4).tolist()
    [3, 15]
    """
    return flat(np.minimum((unit * m).astype(np.int64), m - 1), m)


def codes(unit: Floats, m: int) -> Ints:
    """Return per axis 2k on the lattice point k and 2k + 1 strictly between k and k + 1: which cells are active."""
    scaled = unit * m
    k = floors(unit, m)
    return 2 * k + ((scaled > k) & (k < m))


def nearest(unit: Floats, m: int) -> Ints:
    """Return the nearest lattice point per axis ``(n, d)``; ties go to the lower one."""
    return np.clip(np.ceil(unit * m - 0.5), 0, m).astype(np.int64)


def parity_centres(k: Ints, parity: Ints) -> Ints:
    """Return, per axis, the lattice point of a parity whose half-open cell [j - 1, j + 1) h holds floor value k.

    It is m + 1, outside the lattice, for some points on the upper end: they have no cell of that parity.
    """
    return k + ((k + parity) & 1)


def parities(d: int) -> Ints:
    """Return the 2^d parity classes, one per row."""
    return np.array(list(product((0, 1), repeat=d)), dtype=np.int64)
