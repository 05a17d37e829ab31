"""Array types that every module shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def as_floats(values: ArrayLike) -> Floats:
    """Return ``values`` as a float64 array (no copy when it already is one)."""
    return np.asarray(values, dtype=np.float64)
