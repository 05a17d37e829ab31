"""Columns of an array that pass, in a type of their own: the array's is that of the perturbed columns, too.

Whether somebody's age is a gap, a fraction or a text decides which type NumPy gives a whole table.  So the numbers that
pass leave as doubles, where doubles hold them, whatever they came as.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.values import NUMBERS, PLAIN, items

EXACT = 1 << 53  # doubles hold every whole number up to it
SPELT = {"True": 1.0, "False": 0.0}


def passing(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column that passes: doubles if they hold all its numbers and truths, else objects.

    NumPy makes an array of texts of numbers beside a text.  So a text that is a number as NumPy spells it is that
    number, whatever the array's type.

    Examples
    --------
    >>> passing(np.array([5, 2**53 + 1])).tolist(), passing(np.array([5, None, True], dtype=object)).tolist()
    ([5.0, 9007199254740993], [5.0, None, 1.0])
    >>> passing(np.array(["5", "7.5"])).tolist(), passing(np.array(["5", "07"])).tolist()
    ([5.0, 7.5], [5.0, '07'])
    """
    if column.dtype.kind in PLAIN and column.dtype.itemsize <= 8:
        with np.errstate(all="ignore"):  # of signalling NaNs
            found: NDArray[Any] = column.astype(np.float64)
        if column.dtype.kind == "f" or (np.abs(found) < EXACT).all():
            return found
    values = [_double(value) for value in items(column)]
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found.astype(np.float64) if all(type(value) is float for value in values) else found


def stacked(columns: Sequence[NDArray[Any]], rows: int) -> NDArray[Any]:
    """Return columns side by side: doubles if all of them are numbers, else objects."""
    plain = all(column.dtype in (np.float64, np.int64) for column in columns)
    table = np.empty((rows, len(columns)), dtype=np.float64 if plain else object)
    for at, column in enumerate(columns):
        table[:, at] = column
    return table


def _double(value: Any) -> Any:
    """Return a number or truth as a double, if that holds it; any other value as it is."""
    if type(value) in (bool, np.bool_):
        return float(value)
    if type(value) in (str, bytes, np.str_, np.bytes_):
        spelt = _spelt(value)
        return (value if type(value) in (str, bytes) else value.item()) if spelt is None else _double(spelt)
    try:
        if type(value) in NUMBERS and (value != value or float(value) == value):
            return float(value)
    except (ValueError, ArithmeticError):  # a signalling NaN, or what is too large
        pass
    return value


def _spelt(value: str | bytes) -> int | float | None:
    """Return the number that NumPy spells so; None for any other text."""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if text in SPELT:
        return SPELT[text]
    for kind in (int, float):
        try:
            if str(found := kind(text)) == text:
                return found
        except ValueError:
            pass
    return None
