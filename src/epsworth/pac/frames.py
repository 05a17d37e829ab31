"""Data frames of pandas and polars: copied, cut by rows in their own kind, read as numbers to find repeated rows."""

from __future__ import annotations

import sys
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.headers import looks_like_header, shown_name
from epsworth.values import number, numbers

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


def told_of(frame: Any) -> str:
    """Return what a frame holds, as text that is the same in every process."""
    polars = kind_of(frame) == "polars"
    columns = [frame[name] if polars else frame.iloc[:, i] for i, name in enumerate(frame.columns)]
    index = None if polars else frame.index.tolist()
    return repr((kind_of(frame), index, [(str(c.name), str(c.dtype), c.to_list()) for c in columns]))
