"""Array types that every module shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def generator(rng: object) -> np.random.Generator:
    """Return a simulation's generator: the one given, numpy's default one of a seed, or (None) a fresh one."""
    if rng is None:
        return np.random.default_rng()
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0:
        return np.random.default_rng(int(rng))
    raise TypeError(
        f"rng must be a numpy.random.Generator, a seed (whole, at least 0) or None, got {type(rng).__name__}; "
        "make one by np.random.default_rng(seed)"
    )


def as_floats(values: ArrayLike) -> Floats:
    """Return ``values`` as a float64 array (no copy when it already is one)."""
    return np.asarray(values, dtype=np.float64)
