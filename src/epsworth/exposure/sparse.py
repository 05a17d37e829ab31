"""Rows in which most columns are zero: a few entries each, and the sums that fits and certificates take over them.

A row holds one entry per *slot*: a column of numbers always fills the same place, a category fills one of several, and
either may have one value for all rows.  So a table of categories takes two bytes a cell, whatever its one-hot width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats, as_floats, slices
from epsworth.exposure.glm import ExposureError

MOST_COLUMNS = 15_000  # a matrix of so many by so many takes 1.8 gigabytes, and two are held at once
SUMMED = 8_192  # rows whose entries are added one after the other, in sums of vectors
CROSSED = 1 << 18  # .. and in sums of matrices
PANEL = 512  # rows of a matrix that are copied at once
FEW_CELLS = 1 << 22  # of a pair of slots: counted in an array of their own, which stays in the cache


@dataclass(frozen=True, eq=False)
class Slot:
    """One entry of every row: at ``first`` plus its place, among ``width`` columns.

    ``places`` is None where it is always the first, ``values`` a number where it is always the same.
    """

    first: int
    width: int
    places: NDArray[Any] | None
    values: Floats | float

    def at(self, part: Any) -> Slot:
        """Return the entries of some rows."""
        places = None if self.places is None else self.places[part]
        return Slot(
            self.first, self.width, places, self.values if isinstance(self.values, float) else self.values[part]
        )

    def take(self, right: Floats) -> Floats:
        """Return the entries' values times what ``right`` holds at their places, along its first side."""
        found = right[self.first] if self.places is None else right[self.first : self.first + self.width][self.places]
        values = self.values if isinstance(self.values, float) or right.ndim == 1 else self.values[:, None]
        return as_floats(values * found)


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A table of ``shape`` numbers, one entry per slot and row; no two slots of a row share a column.

    It does what fits ask of a matrix: ``X @ f``, ``X.T @ weights``, slices, `gram` and `forms`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from epsworth.exposure import SparseRows
    >>> rows = SparseRows.of(csr_array([[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]]))
    >>> rows.shape, rows[1:].dense()
    ((3, 2), array([[ 0. ,  0.6],
           [ 0.5, -0.5]]))
    """

    slots: tuple[Slot, ...]
    shape: tuple[int, int]

    ndim = 2
    __array_ufunc__ = None  # NumPy leaves ``weights @ X`` and the like to Python, which refuses them

    @classmethod
    def of(cls, matrix: Any) -> SparseRows:
        """Return a matrix or array of SciPy as sparse rows: as many slots as the fullest row has entries."""
        table = matrix.tocsr().astype(np.float64)
        table.sum_duplicates()
        (n, d), filled = table.shape, np.diff(table.indptr)
        rows = np.repeat(np.arange(n), filled)
        order = np.arange(len(rows)) - np.repeat(table.indptr[:-1], filled)
        slots = []
        for number in range(int(filled.max(initial=0))):
            some = order == number
            places, values = np.zeros(n, dtype=np.int32), np.zeros(n)
            places[rows[some]], values[rows[some]] = table.indices[some], table.data[some]
            slots.append(Slot(0, d, places, values))
        return cls(tuple(slots), (n, d))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> SparseRows:
        count = len(range(*rows.indices(len(self)))) if isinstance(rows, slice) else len(rows)
        return SparseRows(tuple(slot.at(rows) for slot in self.slots), (count, self.shape[1]))

    def __matmul__(self, right: Floats) -> Floats:
        found = np.zeros((len(self), *right.shape[1:]))
        for slot in self.slots:
            found += slot.take(right)
        return found

    @property
    def T(self) -> _Turned:
        """The table turned over, for products with one number, or a few, per row."""
        return _Turned(self)

    @property
    def additions(self) -> float:
        """How many additions a term of ``X.T @ weights`` goes through."""
        return SUMMED + len(self) / SUMMED

    @property
    def crossings(self) -> float:
        """How many additions a term of `gram` goes through."""
        return CROSSED + len(self) / CROSSED

    @property
    def squares(self) -> Floats:
        """Squared lengths of the rows."""
        return sum((np.broadcast_to(np.square(slot.values), len(self)) for slot in self.slots), np.zeros(len(self)))

    def scaled(self, factor: float | Floats) -> SparseRows:
        """Return the rows divided by a number, or by one each."""
        return self._with(lambda values: values / factor)

    def absolute(self) -> SparseRows:
        """Return the table of absolute values."""
        return self._with(abs)

    def _with(self, change: Callable[[Any], Any]) -> SparseRows:
        slots = (Slot(slot.first, slot.width, slot.places, change(slot.values)) for slot in self.slots)
        return SparseRows(tuple(slots), self.shape)

    def dense(self) -> Floats:
        """Return the table with its zeros."""
        found, rows = np.zeros(self.shape), np.arange(len(self))
        for slot in self.slots:
            found[rows, slot.first + (0 if slot.places is None else slot.places.astype(np.int64))] += slot.values
        return found

    def arrays(self) -> tuple[Any, ...]:
        """Return what tells two tables apart."""
        return (self.shape, *(part for slot in self.slots for part in vars(slot).values()))

    def gram(self, weights: Floats) -> Floats:
        """Return ``sum_i w_i x_i x_i^T``."""
        total = np.zeros((self.shape[1],) * 2)
        for one, other in self._pairs():
            cells = total[one.first : one.first + one.width, other.first : other.first + other.width]
            count = _counted if cells.size <= max(FEW_CELLS, 1) else _added
            once = 0.5 if one is other else 1.0
            for rows in slices(len(self), CROSSED):
                some, more = one.at(rows), other.at(rows)
                count(cells, some, more, once * weights[rows] * some.values * more.values)
        for first in range(0, len(total), PANEL):  # each pair of slots was taken in one order
            here, rest = slice(first, first + PANEL), slice(first, None)
            both = total[here, rest] + total[rest, here].T
            total[here, rest], total[rest, here] = both, both.T
        return total

    def forms(self, *matrices: Floats) -> list[Floats]:
        """Return ``x^T A x`` of every row, for symmetric matrices A."""
        found = [np.zeros(len(self)) for _ in matrices]
        for one, other in self._pairs():
            low, high = slice(one.first, one.first + one.width), slice(other.first, other.first + other.width)
            cells = [np.ascontiguousarray(matrix[low, high]).ravel() for matrix in matrices]
            twice = 1.0 if one is other else 2.0
            for rows in slices(len(self), CROSSED):
                some, more = one.at(rows), other.at(rows)
                at, weight = _cell(some, more), twice * some.values * more.values
                for total, values in zip(found, cells, strict=True):
                    total[rows] += weight * values[at]
        return found

    def _pairs(self) -> Iterator[tuple[Slot, Slot]]:
        for number, one in enumerate(self.slots):
            for other in self.slots[number:]:
                yield one, other


@dataclass(frozen=True, eq=False)
class _Turned:
    rows: SparseRows

    def __matmul__(self, weights: Floats) -> Floats:
        columns = weights.reshape(len(self.rows), -1)
        found = np.zeros((self.rows.shape[1], columns.shape[1]))
        for part in slices(len(self.rows), SUMMED):
            for slot in self.rows[part].slots:
                some = slice(slot.first, slot.first + slot.width)
                for total, column in zip(found.T, columns[part].T, strict=True):
                    if slot.places is None:
                        total[some] += np.sum(column * slot.values)
                    else:
                        total[some] += np.bincount(slot.places, column * slot.values, slot.width)
        return found.reshape(-1, *weights.shape[1:])


def is_sparse(X: Any) -> bool:
    """Tell a sparse table, ours or SciPy's."""
    return isinstance(X, SparseRows) or (hasattr(X, "tocsr") and hasattr(X, "nnz"))


def sparse_rows(X: Any) -> SparseRows:
    """Return a sparse table's rows, or say what is wrong with it."""
    if isinstance(X, SparseRows):
        return X
    if X.ndim != 2 or X.shape[1] == 0 or X.dtype.kind not in "biuf":
        raise ExposureError(f"X must be a table of numbers of shape (rows, features), got {X.dtype} of {X.shape}")
    if X.shape[1] > MOST_COLUMNS:
        raise ExposureError(
            f"X has {X.shape[1]:,} columns, more than {MOST_COLUMNS:,}; keep those that matter, or group them"
        )
    return SparseRows.of(X)


def _cell(one: Slot, other: Slot) -> Any:
    """Return where the cells of two entries lie in a matrix of ``one.width`` rows and ``other.width`` columns."""
    low = 0 if one.places is None else one.places.astype(np.int64) * other.width
    return low + (0 if other.places is None else other.places)


def _counted(total: Floats, one: Slot, other: Slot, weights: Floats) -> None:
    """Add weights to the cells of two entries, block by block of rows."""
    if one.places is None and other.places is None:
        total += weights.sum()
    else:
        total += np.bincount(_cell(one, other), weights, total.size).reshape(total.shape)


def _added(total: Floats, one: Slot, other: Slot, weights: Floats) -> None:
    """Add weights to the cells of two entries one by one: fewer than there are cells."""
    places: tuple[Any, ...] = tuple(0 if slot.places is None else slot.places for slot in (one, other))
    np.add.at(total, places, weights)
