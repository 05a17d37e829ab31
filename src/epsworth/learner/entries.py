"""One entry of a record, read alone: what it says depends on no other record, nor on what a file or a frame made of it.

A column of whole numbers with one empty cell is a column of floats, and one odd word makes it one of texts: so 2, 2.0,
"2" and " 2.0 " are one number, and what is no value is none, whatever stands around it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats, as_floats
from epsworth.frames import refuse_lazy
from epsworth.learner.coins import Ints
from epsworth.values import NUMBERS, PLAIN, TRUTHS, is_missing, numbers, spelt_number

TEXTS = {str, np.str_}
WHOLES = {int, bool, np.bool_} | {kind for kind in NUMBERS if issubclass(kind, np.integer)}
WHOLE = re.compile("[+-]?[0-9]{1,400}")
FEW = 16  # entries that are read one by one sooner than sorted


def number_of(entry: Any) -> float:
    """Return an entry as a number, NaN where it is none.

    Examples
    --------
    >>> number_of(" 2.0 "), number_of(True), number_of([2]), number_of(None)
    (2.0, nan, nan, nan)
    """
    if isinstance(entry, np.ndarray):
        entry = entry.item() if entry.ndim == 0 and not np.ma.is_masked(entry) else None
    return spelt_number(entry)


class Values:
    """Declared values, or labels: which of them an entry is.

    A text is the declared text that it equals, letter by letter, or the declared number that it writes.  A number is
    the one that it equals, or that a declared text writes, unless two of them write the same one.

    Examples
    --------
    >>> floors = Values(("1", "2", "basement"))
    >>> [floors.position(entry) for entry in ("1", 1, 1.0, "1.0", "basement", None, 7)]
    [0, 0, 0, -1, 2, -1, -1]
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._texts = {value: number for number, value in enumerate(values) if isinstance(value, str)}
        found: dict[Hashable, list[int]] = {}
        for number, value in enumerate(values):
            if (key := _key(value)) is not None:
                found.setdefault(key, []).append(number)
        self._numbers = {key: own[0] for key, own in found.items() if len(own) == 1}
        self._written = {key: at for key, at in self._numbers.items() if not isinstance(values[at], str)}

    def position(self, entry: Any) -> int:
        """Return the position of the value that an entry is, -1 where it is none of them."""
        if isinstance(entry, np.ndarray):
            entry = entry.item() if entry.ndim == 0 and not np.ma.is_masked(entry) else None
        if type(entry) in TEXTS:
            return self._texts[entry] if entry in self._texts else self._written.get(_key(entry), -1)
        return self._numbers.get(_key(entry), -1)


def _key(entry: Any) -> int | float | None:
    """Return the number that an entry is or writes, whole ones exactly; None for anything else."""
    if type(entry) in TEXTS:
        if entry in TRUTHS:
            return TRUTHS[entry]
        if WHOLE.fullmatch(word := entry.strip(" \t")):
            return int(word)
    elif type(entry) in WHOLES:
        return int(entry)
    found = number_of(entry)
    return None if math.isnan(found) else found


def names_of(X: Any) -> list[Any] | None:
    """Return the names of a frame's columns, None for all that is no frame."""
    refuse_lazy(X)
    names = None if isinstance(X, np.ndarray) else getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else list(names)


def labels_of(y: Any) -> NDArray[Any]:
    """Return a column of labels ``(n,)``; what is none is refused."""
    try:
        found = column_of(y)
    except ValueError:
        found = np.empty(())
    if found.ndim != 1:
        raise ValueError("y must be one label per row")
    return found


def class_array(labels: Sequence[Any]) -> NDArray[Any]:
    """Return declared labels as an array that holds each of them as it is: of objects, where no other kind does."""
    found = np.array(labels)
    return found if found.tolist() == list(labels) else objects(labels)


def alike(one: Any, other: Any) -> bool:
    """Tell whether two labels are one, as `Values` tells it: texts letter by letter, else the numbers that they write.

    Examples
    --------
    >>> alike("1", 1.0), alike(True, "true"), alike("1", "1.0"), alike("no", 0)
    (True, True, False, False)
    """
    key = None if type(one) in TEXTS and type(other) in TEXTS else _key(one)
    if key is None:
        return not is_missing(one) and not is_missing(other) and bool(one == other)
    return key == _key(other)


def column_of(values: Any) -> NDArray[Any]:
    """Return the entries of one column ``(n,)``: an array of numbers where it is one, else of objects, None if hidden.

    Raises
    ------
    ValueError
        For what is no column.
    """
    if isinstance(values, np.ma.MaskedArray):
        return _filled(values)
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, (str, bytes, Mapping, Set)) or not hasattr(values, "__len__") or names_of(values) is not None:
        raise ValueError("a column must be a list, an array or a series")
    told = getattr(values, "to_list", getattr(values, "to_pylist", None))
    own = list(values) if told is None else told()
    found = _of_numbers(own)
    return objects(own) if found is None else found


def _of_numbers(own: list[Any]) -> NDArray[Any] | None:
    """Return plain numbers alone as an array; None where one is no such number, or floats would round it."""
    kinds = {type(entry) for entry in own}
    if not kinds <= NUMBERS:
        return None
    try:
        found = np.array(own)
    except Exception:  # a whole number beyond all arrays
        return None
    if found.dtype.kind == "f" and kinds & WHOLES and (np.abs(found[np.isfinite(found)]) >= 2.0**53).any():
        return None
    return found if found.dtype.kind in PLAIN else None


def _filled(values: Any) -> NDArray[Any]:
    """Return a masked array's entries, None where they are hidden."""
    return np.asarray(values.astype(object).filled(None))


def objects(values: Any) -> NDArray[Any]:
    """Return an array of objects, each as it is given."""
    found = np.empty(len(values), dtype=object)
    for number, entry in enumerate(values):
        found[number] = entry
    return found


def positions_of(known: Values, values: NDArray[Any]) -> Ints:
    """Return the position of every entry's value, -1 where it is none that is known."""
    if values.dtype.kind in "biuf" and len(values) > FEW:
        kinds, index = np.unique(values, return_inverse=True)
        return np.array([known.position(one) for one in kinds.tolist()], dtype=np.int64)[index]
    if values.dtype.kind in "mM":
        return np.full(len(values), -1, dtype=np.int64)
    told: dict[str, int] = {}
    found = np.empty(len(values), dtype=np.int64)
    for at, entry in enumerate(values.tolist()):
        if type(entry) is str:
            if entry not in told:
                told[entry] = known.position(entry)
            found[at] = told[entry]
        else:
            found[at] = known.position(entry)
    return found


def array_of(X: Any) -> NDArray[Any]:
    """Return a table as one array of its entries as they are given, of which NumPy may make numbers, or texts, all."""
    X = X if hasattr(X, "__len__") else np.asarray(X)
    if isinstance(X, np.ndarray):
        return _filled(X) if isinstance(X, np.ma.MaskedArray) else X
    names = names_of(X)
    d = len(names) if names is not None else next((len(row) for row in X if hasattr(row, "__len__")), 0)
    columns = table_of(X, d, "those of the first row")
    if not all(one.dtype.kind in PLAIN for one in columns):
        columns = [one.astype(object) for one in columns]
    return np.column_stack(columns)


def points_of(X: Any, d: int, names: str) -> Floats:
    """Return the numbers of a table ``(n, d)``, NaN where an entry is none; see `table_of`."""
    plain = _plain(X, d)
    if plain is not None:
        with np.errstate(all="ignore"):
            return as_floats(plain)
    return np.column_stack([numbers(column, number_of) for column in table_of(X, d, names)])


def _plain(X: Any, d: int) -> NDArray[Any] | None:
    """Return arrays of numbers as one, without a look at every entry: a table, or a list of rows."""
    if type(X) is list and all(type(row) is np.ndarray and row.shape == (d,) and row.dtype.kind in PLAIN for row in X):
        return X[0][None] if len(X) == 1 else np.array(X, dtype=np.float64) if X else None
    return X if type(X) is np.ndarray and X.ndim == 2 and X.shape[1] == d and X.dtype.kind in PLAIN else None


def table_of(X: Any, d: int, names: str) -> list[NDArray[Any]]:
    """Return the columns of a frame, of an array ``(n, d)``, or of rows.

    Raises
    ------
    ValueError
        For another shape; no entry is shown.
    """
    columns = names_of(X)
    if columns is not None:
        found = [column_of(X[name]) for name in columns]
        if len(found) == d and all(one.ndim == 1 for one in found):
            return found
        raise ValueError(f"X must have {d} columns: {names}")
    if isinstance(X, np.ma.MaskedArray):
        X = _filled(X)
    if isinstance(X, np.ndarray) and X.ndim == 2:
        if X.shape[1] != d:
            raise ValueError(f"X must have shape (n, {d}); columns: {names}")
        return [X[:, j] for j in range(d)]
    if isinstance(X, (str, bytes, Mapping, Set)) or not hasattr(X, "__len__") or getattr(X, "ndim", 1) == 0:
        raise ValueError(f"X must have shape (n, {d}); columns: {names}")
    rows = list(X)
    if not all(_is_row(row, d) for row in rows):
        raise ValueError(f"X must have {d} values in every row; columns: {names}")
    return [column_of(list(column)) for column in zip(*rows, strict=True)] if rows else [np.empty(0)] * d


def _is_row(row: Any, d: int) -> bool:
    if isinstance(row, (str, bytes, Mapping, Set)) or not hasattr(row, "__getitem__"):
        return False
    return hasattr(row, "__len__") and hasattr(row, "__iter__") and len(row) == d
