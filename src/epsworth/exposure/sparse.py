"""Rows in which most columns are zero: a few entries each, and the sums that fits and certificates take over them.

A row holds one entry per *slot*: a column of numbers always fills the same place, a category fills one of several, and
either may have one value for all rows.  So a table of categories takes two bytes a cell, whatever its one-hot width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats, as_floats, slices
from epsworth.exposure.glm import ExposureError

MOST_COLUMNS = 15_000  # a matrix of so many by so many takes 1.8 gigabytes, and two are held at once
SUMMED = 8_192  # rows whose entries are added one after the other, in sums of vectors
CROSSED = 1 << 18  # .. and in sums of matrices
BLOCK = 1 << 16  # .. that are looked at at once
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

    @property
    def scale(self) -> float:
        """The one value of all rows; 1 where they have their own."""
        return self.values if isinstance(self.values, float) else 1.0

    def take(self, right: Floats) -> Floats:
        """Return the entries' values times what ``right`` holds at their places."""
        found = right[self.first : self.first + self.width] * self.scale
        found = found[0] if self.places is None else np.take(found, self.places)
        return as_floats(found if isinstance(self.values, float) else found * self.values)

    def count(self, weights: Floats) -> Floats:
        """Return the sums of weights times values, by place."""
        own = weights if isinstance(self.values, float) else weights * self.values
        return as_floats(self.scale * (own.sum() if self.places is None else np.bincount(self.places, own, self.width)))


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
        table = matrix.astype(np.float64).tocsr()  # in this order: entries given twice are summed, and bytes wrap
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
        for part in slices(len(self), BLOCK):  # which stays in the cache
            if right.ndim > 1:
                found[part] = self[part].csr() @ right
                continue
            for slot in self.slots:
                found[part] += slot.at(part).take(right)
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
        found = np.full(len(self), sum((slot.values**2 for slot in self.slots if isinstance(slot.values, float)), 0.0))
        for slot in self.slots:
            if not isinstance(slot.values, float):
                found += np.square(slot.values)
        return as_floats(found)

    def columns(self, chosen: Bools) -> SparseRows:
        """Return some of the columns."""
        before, slots = np.append(0, np.cumsum(chosen)), []
        for slot in self.slots:
            first, last = before[slot.first], before[slot.first + slot.width]
            inside = chosen[slot.first : slot.first + slot.width]
            if inside.all():
                slots.append(Slot(int(first), slot.width, slot.places, slot.values))
            elif inside.any() and slot.places is not None:
                moved = np.where(inside, before[slot.first :][: slot.width] - first, 0).astype(slot.places.dtype)
                values = as_floats(np.where(inside[slot.places], slot.values, 0.0))
                slots.append(Slot(int(first), int(last - first), moved[slot.places], values))
        return SparseRows(tuple(slots), (len(self), int(before[-1])))

    def squared(self) -> SparseRows:
        """Return the table of squares."""
        return self._with(np.square)

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

    def csr(self) -> Any:
        """Return the table as an array of SciPy."""
        from scipy.sparse import csr_array

        n, k = len(self), len(self.slots)
        places, values = np.empty((n, k), dtype=np.int32), np.empty((n, k))
        for column, slot in enumerate(self.slots):
            places[:, column] = 0 if slot.places is None else slot.places
            places[:, column] += slot.first
            values[:, column] = slot.values
        return csr_array((values.ravel(), places.ravel(), k * np.arange(n + 1)), shape=self.shape)

    def arrays(self) -> tuple[Any, ...]:
        """Return what tells two tables apart."""
        return (self.shape, *(part for slot in self.slots for part in vars(slot).values()))

    def gram(self, weights: Floats) -> Floats:
        """Return ``sum_i w_i x_i x_i^T``."""
        total = np.zeros((self.shape[1],) * 2)
        for number, one in enumerate(self.slots):
            low, every = slice(one.first, one.first + one.width), np.arange(one.first, one.first + one.width)
            for part in slices(len(self), CROSSED):
                some, cells = one.at(part), _Cells(one.at(part))
                weight = as_floats(weights[part] * some.values)
                total[every, every] += 0.5 * some.count(weight)
                for other in self.slots[number + 1 :]:
                    cells.add(total[low, other.first : other.first + other.width], other.at(part), weight)
        for first in range(0, len(total), PANEL):  # each pair of slots was taken in one order
            here, rest = slice(first, first + PANEL), slice(first, None)
            both = total[here, rest] + total[rest, here].T
            total[here, rest], total[rest, here] = both, both.T
        return total

    def forms(self, *matrices: Floats) -> list[Floats]:
        """Return ``x^T A x`` of every row, for symmetric matrices A."""
        found = np.zeros((len(self), len(matrices)))
        for number, one in enumerate(self.slots):
            low, others = slice(one.first, one.first + one.width), self.slots[number:]
            tables = []
            for other in others:
                high = slice(other.first, other.first + other.width)
                table = np.stack([matrix[low, high].ravel() for matrix in matrices], axis=1)
                tables.append(table * (one.scale * other.scale * (1.0 if one is other else 2.0)))
            for part in slices(len(self), BLOCK):
                some, cells = one.at(part), _Cells(one.at(part))
                for other, table in zip(others, tables, strict=True):
                    more = other.at(part)
                    entries = np.take(table, cells.at(more), axis=0)
                    for values in (some.values, more.values):
                        entries = entries if isinstance(values, float) else entries * values[:, np.newaxis]
                    found[part] += entries
        return list(found.T)


@dataclass(frozen=True, eq=False)
class _Turned:
    rows: SparseRows

    def __matmul__(self, weights: Floats) -> Floats:
        found = np.zeros((self.rows.shape[1], *weights.shape[1:]))
        for part in slices(len(self.rows), SUMMED):
            rows = self.rows[part]
            if weights.ndim > 1:
                found += rows.csr().T @ weights[part]
                continue
            for slot in rows.slots:
                found[slot.first : slot.first + slot.width] += slot.count(weights[part])
        return found


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


class _Cells:
    """Where the cells of one entry and others lie in matrices of as many rows as the one has places."""

    def __init__(self, one: Slot) -> None:
        self.places = None if one.places is None else one.places.astype(np.intp)
        self.low: dict[int, NDArray[np.intp]] = {}  # by the width of the other

    def at(self, other: Slot) -> NDArray[Any]:
        """Return the cells, one for all rows where both entries always fill the same place."""
        if self.places is None:
            return np.zeros(1, dtype=np.intp) if other.places is None else other.places
        if other.width not in self.low:
            self.low[other.width] = self.places * other.width
        low = self.low[other.width]
        return low if other.places is None else low + other.places

    def add(self, block: Floats, other: Slot, weight: Floats) -> None:
        """Add weights, times the other's values, to the cells of a matrix."""
        weight = as_floats(weight * other.values)
        if self.places is None and other.places is None:
            block += weight.sum()
        elif block.size <= max(FEW_CELLS, 1):
            block += np.bincount(self.at(other), weight, block.size).reshape(block.shape)
        else:  # one by one: fewer than there are cells
            places: tuple[Any, ...] = (self.places, other.places)
            np.add.at(block, tuple(0 if some is None else some for some in places), weight)
