"""The pool as given: labels, strata and units, checked once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.pac.adapters.adapter import Labels
from epsworth.pac.worlds import Units, units_of


def check_pool(X: Floats, y: ArrayLike | None, groups: ArrayLike | None, algorithm: Any) -> tuple[Labels | None, Units]:
    """Return the labels as an array, and what goes in or out of a world together.

    Raises
    ------
    ValueError
        For labels that do not fit, and for a class that cannot be in every world and out of every world.
    """
    labels = None if y is None else _labels(y, len(X))
    strata = np.zeros(len(X), dtype=np.intp)
    classes: Labels | None = None
    rows = X
    if labels is not None:
        values, code = np.unique(labels, return_inverse=True)
        code = code.reshape(-1)
        rows = np.column_stack([X, code])
        if _are_classes(labels, algorithm):
            strata, classes = code.astype(np.intp), values
    units = units_of(rows, strata, None if groups is None else _labels(groups, len(X), "groups"))
    counts = np.bincount(units.stratum, minlength=1 if classes is None else len(classes))
    if counts.min() < 2:
        what = "the pool" if classes is None else f"class {classes[counts.argmin()]!s}"
        raise ValueError(
            f"{what} has {counts.min()} distinct unit(s) (rows or groups); a part must stay in and a part out of every "
            "world: give at least 2, or drop the class"
        )
    return labels, units


def _labels(values: ArrayLike, count: int, name: str = "y") -> Labels:
    found = np.asarray(values)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found.reshape(-1)
    if found.ndim != 1 or len(found) != count:
        raise ValueError(f"{name} must hold one value per row of X ({count}), got shape {found.shape}")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ValueError(f"{name} holds values that are missing or infinite; drop those rows")
    return found


def _are_classes(labels: Labels, algorithm: Any) -> bool:
    from sklearn.base import BaseEstimator, is_regressor

    if isinstance(algorithm, BaseEstimator) and is_regressor(algorithm):
        return False
    return labels.dtype.kind != "f" or bool((labels == np.round(labels)).all())
