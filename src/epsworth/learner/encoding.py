"""How a record is read and encoded: each entry alone, then cells of the unit box, derived as integers.

What an entry says depends on no other record, nor on what a file or a frame made of it: a column of whole numbers with
one empty cell is a column of floats, and one odd word makes it one of texts; so 2, 2.0, "2" and " 2.0 " are one number,
and what is no value is none, whatever stands around it.

``m`` intervals per axis, ``h = 1 / m``.  The *partition* has the disjoint cells 0..m-1 per axis; the *lattice* of
Berrett & Butucea 2019 has the points 0..m per axis, and overlapping cells of side 2h around them.  No distances are
compared, so that there are never more than two cells per axis.

A bit about a cell, a label, a value or a bin is a Walsh or Hadamard character of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence, Set
from functools import cache
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
    """Return an entry as a number, NaN where it is none."""
    if isinstance(entry, np.ndarray):
        entry = entry.item() if entry.ndim == 0 and not np.ma.is_masked(entry) else None
    return spelt_number(entry)


class Values:
    """Declared values, or labels: which of them an entry is.

    A text is the declared one that it equals, or the declared number that it writes; a number the one that it equals,
    or that a declared text writes, unless two of them write the same one.
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
    """Tell whether two labels are one, as for `Values`: texts letter by letter, else the numbers that they write."""
    key = None if type(one) in TEXTS and type(other) in TEXTS else _key(one)
    if key is None:
        return not is_missing(one) and not is_missing(other) and bool(one == other)
    return key == _key(other)


def column_of(values: Any) -> NDArray[Any]:
    """Return the entries of one column ``(n,)``: of numbers where all are, else of objects, None if hidden."""
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
    return np.asarray(values.astype(object).filled(None))


def objects(values: Any) -> NDArray[Any]:
    """Return an array of objects, each as it is given."""
    found = np.empty(len(values), dtype=object)
    for number, entry in enumerate(values):
        found[number] = entry
    return found


def label_positions(known: Values, y: Any, users: int | None = None) -> Ints:
    """Return the position of each label among the declared ones, -1 where it is none of them: one for every user."""
    found = positions_of(known, labels_of(y))
    if users is not None and len(found) != users:
        raise ValueError(f"X has {users} rows but y has {len(found)}; give one label per row")
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
    """Return the columns of a frame, of an array ``(n, d)``, or of rows."""
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


def flat(index: Ints, side: int) -> Ints:
    """Return row-major numbers of index rows ``(n, d)``, each entry in 0..side-1."""
    return np.asarray(index @ _strides(side, index.shape[1]))


@cache
def _strides(side: int, d: int) -> Ints:
    return np.array([side**axis for axis in reversed(range(d))], dtype=np.int64)


def cells(unit: Floats, m: int) -> Ints:
    """Return the partition's cell of each point ``(n, d)``; cells are closed below, the last one also above."""
    return flat(np.minimum((unit * m).astype(np.int64), m - 1), m)


def nearest(unit: Floats, m: int) -> Ints:
    """Return the nearest lattice point per axis ``(n, d)``; ties go to the lower one."""
    return np.clip(np.ceil(unit * m - 0.5), 0, m).astype(np.int64)


def odd_overlap(row: Ints, column: Ints) -> Ints:
    """Return popcount(row & column) mod 2."""
    both = row & column
    return np.asarray(ODD[(both ^ both >> 16) & 0xFFFF])  # at most 2^32 rows


def _odd_numbers() -> Ints:
    table = np.zeros(1, dtype=np.int64)
    while table.size < 1 << 16:
        table = np.concatenate([table, 1 - table])
    return table


ODD = _odd_numbers()


def transform(values: Ints) -> Ints:
    """Return the Walsh-Hadamard transform of a vector whose length is a power of two, in integers."""
    out, half = values.astype(np.int64), 1
    while half < out.size:
        pairs = out.reshape(-1, 2, half)
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        half *= 2
    return out


def signs(mask: Ints, character: Ints, own: Ints, label: Ints) -> Ints:
    """Return W_a(bin) (-1)^popcount(c & y), entry by entry; masks stand for orders."""
    return np.asarray(1 - 2 * (odd_overlap(mask, own) ^ odd_overlap(character, label)))


def sequency(order: int, bits: int) -> int:
    """Return the mask of the Walsh function with so many sign changes: bit-reversed Gray code."""
    return reverse(order ^ order >> 1, bits)


def reverse(number: int, bits: int) -> int:
    """Return a number with its bits in reverse."""
    return int(f"{number:0{bits}b}"[::-1], 2)


@cache
def walsh(side: int) -> Floats:
    """Return the Walsh matrix by sequency, orders by bins."""
    masks = np.array([sequency(order, side.bit_length() - 1) for order in range(side)])
    return as_floats(hadamard(side)[masks])


@cache
def hadamard(side: int) -> Floats:
    """Return the Hadamard matrix, (-1)^popcount(a & b)."""
    index = np.arange(side)
    return as_floats(1.0 - 2 * odd_overlap(index[:, None], index[None, :]))
