"""Rows and sums per person, by keyed hash: how many rows a run has of each, and what each lost in all runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.policy.ledger.ids import Hashes

Sums = NDArray[np.uint64]  # a row per person: epsilon and delta
SHIFT = np.uint64(64 - 14)  # people whose hashes share their first 14 bits share a row of the database
AT_ONCE = 1024  # such rows


class RowCounts:
    """How many rows each person has, from parts of a column.

    Memory: some 40 bytes a row.

    Parameters
    ----------
    most : int, optional
        Count the first so many rows of a person alone; see `kept`.

    Examples
    --------
    >>> from epsworth.policy.ledger.ids import hashes
    >>> counts = RowCounts()
    >>> counts.add(hashes([7, 8, 7], bytes(32)))
    >>> sorted(counts.sorted()[1].tolist()), counts.rows
    ([1, 2], 3)
    >>> first = RowCounts(most=1)
    >>> first.add(hashes([7, 8, 7], bytes(32)))
    >>> first.kept().tolist(), first.rows
    ([True, True, False], 2)
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._parts: list[Hashes] = []
        self._counted: tuple[Hashes, NDArray[np.uint64]] | None = None

    def __repr__(self) -> str:
        return f"RowCounts(rows={self.rows})"

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(map(len, self._parts))

    def add(self, hashes: Hashes) -> None:
        """Count one more row for each of these people."""
        self._parts.append(np.array(hashes, dtype=np.uint64))
        self._counted = None

    def kept(self) -> NDArray[np.bool_] | None:
        """Tell which rows are among the first ``most`` of their person, and count these alone; None where all are.

        Parts must have been added in their order.
        """
        if self.most is None:
            return None
        rows = np.concatenate([np.empty(0, np.uint64), *self._parts])
        order = np.argsort(rows, kind="stable")
        starts = np.flatnonzero(np.diff(rows[order], prepend=~rows[order[:1]]))
        found = np.empty(len(rows), np.bool_)
        found[order] = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows))) < self.most
        self._parts, self._counted = [rows[found]], None
        return None if found.all() else found

    def sorted(self) -> tuple[Hashes, NDArray[np.uint64]]:
        """Return the people, ascending, and the rows of each; neither is to be written to."""
        if self._counted is None:
            people, rows = np.unique(np.concatenate([np.empty(0, np.uint64), *self._parts]), return_counts=True)
            self._counted = people, rows.astype(np.uint64)
        return self._counted


class Slice(NamedTuple):
    """Some ascending people of a run, and all who share rows of the database with them."""

    people: slice
    buckets: list[int]
    table: NDArray[np.uint64]  # hash, epsilon, delta
    places: NDArray[np.intp]
    known: NDArray[np.bool_]

    @property
    def lost(self) -> Sums:
        """What the people of the run lost before it."""
        found = np.zeros((len(self.places), 2), np.uint64)
        found[self.known] = self.table[self.places[self.known], 1:]
        return found


def slices(database: sqlite3.Connection, people: Hashes) -> Iterator[Slice]:
    """Yield ascending people some at a time, with what the database holds of them."""
    buckets = people >> SHIFT
    starts = np.flatnonzero(np.diff(buckets, prepend=~buckets[:1]))
    ends = [*starts.tolist(), len(people)]
    for first in range(0, len(starts), AT_ONCE):
        chosen = buckets[starts[first : first + AT_ONCE]].tolist()
        part = slice(ends[first], ends[first + len(chosen)])
        found = (database.execute("SELECT sums FROM people WHERE bucket = ?", (one,)).fetchone() for one in chosen)
        table = _table(b"".join(row[0] for row in found if row))
        places = np.searchsorted(table[:, 0].copy(), people[part])
        known = places < len(table)
        known[known] = table[places[known], 0] == people[part][known]
        yield Slice(part, chosen, table, places, known)


def keep(database: sqlite3.Connection, found: Slice, people: Hashes, sums: Sums) -> None:
    """Write what the people of a slice lost by now."""
    found.table[found.places[found.known], 1:] = sums[found.known]
    table, new = found.table, ~found.known
    if new.any():
        table = np.concatenate([table, np.column_stack([people[new], sums[new]])])
        table = table[np.argsort(table[:, 0], kind="stable")]
    cuts = [*np.searchsorted(table[:, 0] >> SHIFT, np.array(found.buckets, np.uint64)).tolist(), len(table)]
    rows = zip(found.buckets, cuts[:-1], cuts[1:], strict=True)
    database.executemany(
        "INSERT OR REPLACE INTO people VALUES (?, ?)",
        ((bucket, table[low:high].astype("<u8", copy=False).tobytes()) for bucket, low, high in rows),
    )


def everyone(database: sqlite3.Connection) -> Iterator[Sums]:
    """Yield what all people lost, some at a time."""
    rows = database.execute("SELECT sums FROM people ORDER BY bucket")
    while found := rows.fetchmany(AT_ONCE):
        yield _table(b"".join(row[0] for row in found))[:, 1:]


def _table(content: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(content, "<u8").astype(np.uint64).reshape(-1, 3)
