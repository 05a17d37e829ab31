"""The mass of a label from the cells at which it begins and ends, row by row.

Let a *flip* be a cell (r, c) whose label differs from that of the cell before it in its column; before the first row
all have the first label.  With G(r) = Pr[row >= r] and m(c) the mass of a column, telescoping down every column gives

    rho = [label is the first] + sum over flips of +-G(r) m(c),

+ where the label begins and - where it ends.  Only the laws at edges with flips are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from epsworth.arrays import Bools, Floats
from epsworth.records import Indices
from epsworth.rounding import UNIT
from epsworth.utility.engines.contraction import SMALLEST, LawsOverEpsilon, Table, mass_error, merged
from epsworth.utility.engines.row_sweep import Changes

IN_A_ROW = 64  # terms that are added one after the other
POINTS = 64  # at a time: their masses stay in a cache


@dataclass(frozen=True, eq=False)
class Flips:
    """The labels of one record's cells over rows and columns (a single row, if one feature is sensitive).

    Attributes
    ----------
    edges : tuple of ndarray
        Of the cells, per sensitive feature, in natural units, from -inf to inf.
    at : Changes
        Of places among ``classes``, by rows.
    """

    edges: tuple[Floats, ...]
    at: Changes
    classes: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        sides = [len(edges) - 1 for edges in self.edges]
        return (1, sides[0]) if len(sides) == 1 else (sides[0], sides[1])

    def table(self) -> tuple[tuple[Floats, ...], Table]:
        """Return all labels, and the edges across which some label changes."""
        places = np.zeros(self.shape, dtype=np.intp)
        places[self.at.row, self.at.column] = self.at.after.astype(np.intp) - self.at.before
        np.cumsum(places, axis=0, out=places)
        edges, labels = merged(self.edges, places.reshape([len(edges) - 1 for edges in self.edges]))
        return edges, Table(labels, self.classes)

    def counts(self, rows: Bools, columns: Bools) -> Indices:
        """Return in how many cells of some rows and columns each class is the label."""
        below = np.cumsum(rows[::-1])[::-1]
        weight = below[self.at.row] * columns[self.at.column]
        found = np.zeros(len(self.classes), dtype=np.int64)
        np.add.at(found, self.at.after, weight)
        np.subtract.at(found, self.at.before, weight)
        found[0] += rows.sum() * columns.sum()
        return found

    def possible(self, inside: Sequence[Bools]) -> NDArray[Any]:
        """Return the labels of the cells that lie ``inside``, per feature."""
        rows, columns = (np.ones(1, dtype=bool), *inside) if len(inside) == 1 else inside
        return np.asarray(self.classes[self.counts(rows, columns) > 0])


@dataclass(frozen=True, eq=False)
class Masses:
    """Laws at the edges with flips of one record, for all points.

    Attributes
    ----------
    beyond : ndarray, shape ``(points, rows)``
        Pr[row >= r], for every row with flips.
    columns : ndarray, shape ``(points, columns)``
        The masses of the columns with flips.
    row, column : ndarray of int, shape ``(flips,)``
        Places of the flips among these.
    """

    flips: Flips
    beyond: Floats
    columns: Floats
    row: Indices
    column: Indices
    listed: tuple[int, ...]

    @classmethod
    def of(cls, flips: Flips, laws: LawsOverEpsilon, mechanisms: int, unit: Floats, listed: Sequence[int]) -> Masses:
        """Evaluate the laws of a record.

        Parameters
        ----------
        unit : ndarray, shape ``(sensitive,)``
            The true values.
        listed : sequence of int
            How many categories each feature has, whose masses are added one by one; 0 for a number.
        """

        def below(j: int, values: Floats) -> Floats:
            return np.concatenate([laws.below(m, j, unit[j], values) for m in range(mechanisms)])

        rows, row = _ranks(flips.at.row, flips.shape[0])
        columns, column = _ranks(flips.at.column, flips.shape[1])
        last, single = len(flips.edges) - 1, len(flips.edges) == 1
        sides, at = _ranks(np.concatenate([columns, columns + 1]), flips.shape[1] + 1)
        cumulated, at = below(last, flips.edges[last][sides]), at[: columns.size]
        masses = np.maximum(cumulated[:, at + 1] - cumulated[:, at], 0.0)
        beyond = np.ones((len(masses), rows.size)) if single else 1 - below(0, flips.edges[0][rows])
        return cls(flips, beyond, masses, row, column, (0, *listed) if single else tuple(listed))

    def share(self, label: Any) -> tuple[Floats, float]:
        """Return the probability of a label, shape ``(points,)``, and how far it may be off.

        0 and 1 are said only where no cell has it, or every one does (see `outward`).

        What it may be off: `sum_error` of the flips, and what laws are off.  `mass_error` of the columns, as the
        label's share of every column lies between 0 and 1; and of the rows, likewise, or the error of one cumulated
        mass as often as the label flips in a column, whichever is less.
        """
        place = np.flatnonzero(self.flips.classes == label)
        if not place.size:
            return np.zeros(len(self.columns)), 0.0
        shape, at = self.flips.shape, self.flips.at
        cells = self.flips.counts(*(np.ones(side, dtype=bool) for side in shape))[place[0]]
        if cells in (0, math.prod(shape)):
            return np.full(len(self.columns), float(cells > 0)), 0.0
        sign = (at.after == place[0]).astype(np.float64) - (at.before == place[0])
        own = np.flatnonzero(sign)
        row, column = self.row[own], self.column[own]
        first = np.diff(row, prepend=-1) > 0
        first[::IN_A_ROW] = True
        starts = np.flatnonzero(first)
        signed = csr_array(
            (sign[own], column, np.append(starts, own.size)), shape=(len(starts), self.columns.shape[1])
        )  # fmt: skip
        found = [
            _added(signed, self.beyond[part, row[starts]], self.columns[part])
            for part in (slice(p, p + POINTS) for p in range(0, len(self.columns), POINTS))
        ]
        value = np.concatenate(found) + float(place[0] == 0)
        most = int(np.bincount(column).max())
        return np.clip(value, SMALLEST, np.nextafter(1, 0)), sum_error(most, own.size) + self._laws_error(most)

    def _laws_error(self, most: int) -> float:
        sides = zip((self.beyond, self.columns), self.listed, strict=True)
        rows, columns = ((side.shape[1] + k) * (1 + k // 48) for side, k in sides)
        return mass_error(columns) + mass_error(min(rows, most * max(1, self.listed[0])))


def sum_error(most: int, flips: int) -> float:
    """Bound the rounding of a sum over so many flips, of which a column holds so many at ``most`` (K).

    Claim: in units u = 2^-53.  As columns have a mass of 1 together, the terms' absolute values sum to K.  At most 64
    of them are added one after the other; these sums, of which there are at most F, in pairs (blocks of 128 by 8 sums:
    log2 F + 24).  With both products and the first 1, (64 + 27 + log2 F) K u (Higham 2002, section 4.2).
    """
    return (IN_A_ROW + 27 + math.log2(flips)) * most * UNIT


def _ranks(of: NDArray[np.integer], side: int) -> tuple[Indices, Indices]:
    """Return the distinct rows, or columns, in order, and the place of each one among them."""
    used = np.zeros(side, dtype=bool)
    used[of] = True
    return np.flatnonzero(used), (np.cumsum(used) - 1)[of]


def _added(signed: csr_array[np.float64], beyond: Floats, columns: Floats) -> Floats:
    """Return the sums of signs times both masses, per point."""
    terms = beyond * (signed @ np.ascontiguousarray(columns.T)).T
    return np.asarray(np.ascontiguousarray(terms).sum(axis=1))
