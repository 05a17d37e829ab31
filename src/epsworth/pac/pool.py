"""The pool as given: arrays or data frames, labels, strata and units, checked once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Bools, Floats
from epsworth.extras import needed
from epsworth.frames import refuse_lazy
from epsworth.headers import looks_like_header, shown_name
from epsworth.pac.mechanism import Labels, check_masked
from epsworth.pac.worlds import Units, near_groups, units_of
from epsworth.records import Indices, as_records
from epsworth.values import label_array, number, numbers

FEW_ROWS = 8  # that near may make one unit of, whatever the size of the pool
MISSING = ("nan", "NaT", "<NA>")  # as the values of different libraries call themselves


def checked_columns(X: Any) -> Any:
    """Return a table whose columns are numbers, whatever held them; refuse one that is not by its name.

    A table's own reader would show what it holds.  Arrow's become those of polars: scikit-learn reads no names there.
    """
    refuse_lazy(X)
    if not hasattr(X, "__len__") or isinstance(X, (str, bytes, dict, set)):
        raise ValueError(f"X must be a table of shape (records, columns), got {type(X).__name__}")
    check_masked(X, "X")
    framed = hasattr(X, "columns")
    if not framed:
        try:
            table = np.asarray(X)
        except ValueError:
            raise ValueError("X must be a table of shape (records, columns), whose rows are of one length") from None
        if table.ndim == 1:  # a library's refusal would show what X holds
            raise ValueError(f"X must be a table of shape (records, columns), got shape {table.shape}; reshape it")
        if table.ndim != 2 or table.dtype.kind not in "cOSU":
            return X
    records = as_records(X)
    header = looks_like_header(list(records.names))
    for place, name in enumerate(records.names):
        shown = str(place) if not framed else repr(name) if header else shown_name(name, records.names)
        values = records.column(place)
        if values.dtype.kind == "c" or any(isinstance(value, complex) for value in values):
            raise ValueError(f"Complex data not supported: the column {shown} of X must hold real numbers")
        wrong = values.dtype.kind in "Mm"
        try:
            records = records.computed([name])
        except ValueError:
            wrong = True
            if not any(isinstance(value, (str, bytes, bool, np.bool_)) for value in values):
                return X  # things that a table's reader refuses by their type alone
        if wrong:
            raise ValueError(f"X: the column {shown} is not of numbers; drop it, or recode it by public constants")
    found = records.take(np.arange(len(records)))
    return needed("polars", "files", "an Arrow table").from_arrow(found) if hasattr(found, "column_names") else found


def check_finite(X: Floats, names: Sequence[str] | None) -> None:
    """Refuse missing and infinite values by their place."""
    bad = ~np.isfinite(X)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        where = column if names is None else shown_name(names[column], names)
        raise ValueError(f"row {row}, column {where}: the value is missing (NaN) or infinite; fill it, or drop the row")


def check_pool(
    X: Floats, y: ArrayLike | None, groups: ArrayLike | None, algorithm: Any, near: float | None = None
) -> tuple[Labels | None, Units]:
    """Return a copy of the labels as an array, and what goes in or out of a world together.

    Parameters
    ----------
    near : float, optional
        Rows whose columns all differ by at most this much are together, whatever their labels.

    Raises
    ------
    ValueError
        For labels that do not fit, for a class that cannot be in every world and out of every world, and for a ``near``
        by which rows chain together to more than a hundredth of the pool.
    """
    labels = None if y is None else checked_labels(y, len(X)).copy()
    strata = np.zeros(len(X), dtype=np.intp)
    classes: Labels | None = None
    rows = X
    if labels is not None:
        values, code = np.unique(labels, return_inverse=True)
        code = code.reshape(-1)
        rows = np.column_stack([X, code])
        if _are_classes(labels, algorithm):
            strata, classes = code.astype(np.intp), values
    persons = None if groups is None else checked_labels(groups, len(X), "groups")
    chained = None if near is None else near_groups(X, near)
    if chained is not None and (most := int(np.bincount(chained).max())) > max(FEW_ROWS, len(X) // 100):
        raise ValueError(
            f"near chains {most} of {len(X)} rows to one unit, that goes in or out as a whole; take a smaller one, so "
            f"that no unit holds more than {max(FEW_ROWS, len(X) // 100)} rows"
        )
    units = units_of(rows, strata, persons, chained)
    counts = np.bincount(units.stratum, minlength=1 if classes is None else len(classes))
    if counts.min() < 2:
        raise ValueError(_too_few(int(counts.argmin()), int(counts.min()), strata, classes, units))
    return labels, units


def _too_few(rare: int, count: int, strata: Indices, classes: Labels | None, units: Units) -> str:
    # by its place: a name of which the pool holds a single record may be that record's own
    what = "the pool" if classes is None else f"class {rare}"
    order = "" if classes is None else ", classes in sorted order being counted from 0"
    found = (
        f"{what} has {count} distinct unit(s) (rows or groups){order}; a part must stay in and a part out of every "
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


def checked_labels(values: ArrayLike, count: int, name: str = "y") -> Labels:
    """Return labels as an array, the same whatever holds them; refuse missing ones by row, and those of two kinds."""
    check_masked(values, name)
    found = label_array(values, name)
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
        kinds = {type(value) for value in found}
        try:
            np.unique(found)
            mixed = not kinds.isdisjoint((bool, np.bool_)) and not kinds <= {bool, np.bool_}  # True equals 1
        except TypeError:
            mixed = True
        if mixed:
            told = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(f"{name} mixes values of the types {told}; make them all of one type")
    return found


def _refuse_rows(bad: Bools, name: str, why: str) -> None:
    if bad.any():
        raise ValueError(f"row {int(bad.argmax())}, {name}: the value {why}; fill it, or drop the row")


def _are_classes(labels: Labels, algorithm: Any) -> bool:
    from sklearn.base import BaseEstimator, is_regressor

    if isinstance(algorithm, BaseEstimator) and is_regressor(algorithm):
        if labels.dtype.kind in "OSU":
            raise ValueError(f"y: {type(algorithm).__name__} learns from numbers; recode the labels")
        return False
    return labels.dtype.kind != "f" or bool((labels == np.round(labels)).all())


PLAIN = (str, bytes, Number, date, time, timedelta, Decimal)  # what cannot change under its name


def kind_of(X: Any) -> str | None:
    """Return "pandas" or "polars" for one of their data frames, else None; neither is imported."""
    for name in ("pandas", "polars"):
        module = sys.modules.get(name)
        if module is not None and isinstance(X, module.DataFrame):
            return name
    return None


def rows_of(frame: Any, rows: Bools) -> Any:
    """Return a data frame of its own with these rows: same columns, types and categories, in the pool's order."""
    return frame.loc[rows].copy() if kind_of(frame) == "pandas" else frame[np.flatnonzero(rows)]


def copied(frame: Any) -> Any:
    """Return a copy that shares no values with the frame."""
    return rows_of(frame, np.ones(len(frame), dtype=bool))


def numbers_of(frame: Any, apart: float) -> Floats:
    """Return columns as numbers, shape ``(n, d)``: others than numbers by codes that lie ``apart`` from each other.

    Missing values are NaN.

    Raises
    ------
    ValueError
        For complex numbers, and for things that may change without the frame (lists, objects), by the column's name.
    """
    polars, names = kind_of(frame) == "polars", list(frame.columns)
    header = looks_like_header(names)
    found = np.empty((len(frame), len(names)))
    for i, name in enumerate(names):
        column = frame[name] if polars else frame.iloc[:, i]
        missing = np.asarray(column.is_null() if polars else column.isna(), dtype=bool)
        values = column.to_list() if polars else column.tolist()
        shown = repr(name) if header else shown_name(name, names)
        found[:, i] = _numbers(values, missing, apart, shown)
    return found


def _numbers(values: list[Any], missing: Bools, apart: float, name: str) -> Floats:
    held = [value for value, gap in zip(values, missing, strict=True) if not gap]
    if any(isinstance(value, complex) for value in held):
        raise ValueError(f"Complex data not supported: the column {name} of X must hold real numbers")
    if not all(isinstance(value, PLAIN) for value in held):
        raise ValueError(
            f"X: the column {name} holds things that are not numbers, text, dates or categories; drop it, or recode it "
            "by public constants"
        )
    found = np.full(len(values), np.nan)
    if all(isinstance(value, (int, float, np.number)) for value in held):
        found[~missing] = numbers(held, lambda value: number(+value))  # a truth is 1 or 0
    else:
        codes: dict[Any, int] = {}
        found[~missing] = [apart * codes.setdefault(value, len(codes)) for value in held]
    return found


def frame_text(frame: Any) -> str:
    """Return what a frame holds, as text that is the same in every process."""
    polars = kind_of(frame) == "polars"
    columns = [frame[name] if polars else frame.iloc[:, i] for i, name in enumerate(frame.columns)]
    index = None if polars else frame.index.tolist()
    return repr((kind_of(frame), index, [(str(c.name), str(c.dtype), c.to_list()) for c in columns]))
