"""The pool as given: labels, strata and units, checked once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Bools, Floats
from epsworth.pac.adapters.adapter import Labels
from epsworth.pac.worlds import Units, units_of
from epsworth.records import Indices

MISSING = ("nan", "NaT", "<NA>")  # as the values of different libraries call themselves


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
        raise ValueError(_too_few(int(counts.argmin()), int(counts.min()), strata, classes, units))
    return labels, units


def _too_few(rare: int, count: int, strata: Indices, classes: Labels | None, units: Units) -> str:
    what = "the pool" if classes is None else f"class {classes[rare]!s}"
    found = (
        f"{what} has {count} distinct unit(s) (rows or groups); a part must stay in and a part out of every "
        "world: give at least 2"
    )
    if classes is None:
        return found
    if (units.stratum[units.of_row] != strata).any():
        return (
            f"{found}; groups span classes, and a group counts for the class of its first row: merge the classes, or "
            "give each person one label"
        )
    found += ", or drop the class"
    if classes.dtype.kind in "iuf":
        found += (
            "; whole numbers are taken as classes: for a regression by a function, add a constant such as 0.5 to the "
            "targets and take it away in the function"
        )
    return found


def _labels(values: ArrayLike, count: int, name: str = "y") -> Labels:
    found = np.asarray(values)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found.reshape(-1)
    if found.ndim != 1 or len(found) != count:
        raise ValueError(f"{name} must hold one value per row of X ({count}), got shape {found.shape}")
    if found.dtype.kind == "f":
        _refuse_rows(~np.isfinite(found), name, "is missing or infinite")
    if found.dtype.kind == "O":
        _refuse_rows(
            np.array([value is None or (not isinstance(value, str) and str(value) in MISSING) for value in found]),
            name,
            "is missing",
        )
        try:
            np.unique(found)
        except TypeError:
            kinds = ", ".join(sorted({type(value).__name__ for value in found}))
            raise ValueError(f"{name} mixes values of the types {kinds}; make them all of one type") from None
    return found


def _refuse_rows(bad: Bools, name: str, why: str) -> None:
    if bad.any():
        raise ValueError(f"row {int(bad.argmax())}, {name}: the value {why}; fill it, or drop the row")


def _are_classes(labels: Labels, algorithm: Any) -> bool:
    from sklearn.base import BaseEstimator, is_regressor

    if isinstance(algorithm, BaseEstimator) and is_regressor(algorithm):
        return False
    return labels.dtype.kind != "f" or bool((labels == np.round(labels)).all())
