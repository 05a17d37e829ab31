"""Array types that every module shares, and the one way to a generator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]
Rng = np.random.Generator | int | None
"""Randomness of an analysis: a generator, the seed of one, or None for a fresh one (NumPy's SPEC 7)."""


def generator(rng: Rng) -> np.random.Generator:
    """Return a simulation's generator: the one given, or numpy's default one of a seed, or a fresh one.

    Examples
    --------
    >>> float(generator(1).random()) == float(np.random.default_rng(1).random())
    True
    """
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if not isinstance(rng, (int, np.integer)) or isinstance(rng, bool):
        raise TypeError(
            "rng must be a numpy.random.Generator or a seed, a whole number of at least 0, or None for a fresh one, "
            f"got {type(rng).__name__}; make one by np.random.default_rng(seed)"
        )
    if rng < 0:
        raise ValueError(f"rng: a seed must not be negative, got {rng}")
    return np.random.default_rng(int(rng))


def as_floats(values: ArrayLike) -> Floats:
    """Return ``values`` as a float64 array (no copy when it already is one)."""
    return np.asarray(values, dtype=np.float64)


def slices(count: int, size: int) -> Iterator[slice]:
    """Yield slices of at most ``size`` that cover ``range(count)``.

    Examples
    --------
    >>> list(slices(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    for first in range(0, count, size):
        yield slice(first, min(first + size, count))


def distinct_rows(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the place of the first of each kind of rows, in the rows' order, and the kind of every row.

    As ``np.unique(rows, axis=0)`` of whole numbers that are not negative, by sorting one number a row, not bytes.

    Examples
    --------
    >>> first, kind = distinct_rows(np.array([[2, 1], [0, 5], [2, 1]]))
    >>> first.tolist(), kind.tolist()
    ([1, 0], [1, 0, 1])
    """
    key, most = np.zeros(len(rows), dtype=np.int64), 1
    for column in rows.T:
        size = int(column.max(initial=0)) + 1
        if most * size >= 1 << 62:  # kinds so far have fewer numbers, in the same order
            key = np.unique(key, return_inverse=True)[1].reshape(-1).astype(np.int64)
            most = int(key.max(initial=0)) + 1
        key, most = key * size + column, most * size
    _, first, kind = np.unique(key, return_index=True, return_inverse=True)
    return first.astype(np.int64), kind.reshape(-1).astype(np.int64)
