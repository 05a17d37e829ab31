"""Immutable files of units in ascending order, beside the ledger's database, which knows length and hash of each.

A file is a table of 64-bit little-endian words: the units of a run, or each with its rows, or, of runs that were put
together, each with the amounts of epsilon and delta that it lost.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epsworth.release.folders import to_disk
from epsworth.release.locks import NO_LINKS
from epsworth.release.units import Hashes, summed

Words = NDArray[np.uint64]
Kind = Literal["ones", "counts", "sums"]
WIDTHS = {"ones": 1, "counts": 2, "sums": 3}
ENDING, NEW = ".u64", ".u64.new"  # until the database knows it, a file has the latter
UNITS = re.compile("([0-9a-f]{32})(\\.u64(?:\\.new)?)")  # the names that the ledger gives: of the last run in a file
WORD = 8  # bytes
PIECE = 1 << 19  # entries that are put together at once
SMALL = 1 << 16  # bytes of a file that is read as a whole, whatever is looked up
FEW = 16  # a file is read as a whole where one in so many entries is looked up


@dataclass(frozen=True)
class UnitFile:
    """What the database knows about a file.

    Attributes
    ----------
    name, kind, size, sha256
        ``name`` is that of the last run which it is about; ``size`` in bytes.
    epsilon, delta : int
        What one row costs; of sums, the largest.
    most : int
        The most rows that a unit has; 1 for sums.
    runs : int
        How many it is about.
    level : int
        How often they were put together.
    """

    name: str
    kind: Kind
    size: int
    sha256: bytes
    epsilon: int
    delta: int
    most: int
    runs: int
    level: int

    def check(self, folder: Path) -> Path:
        """Return where the file lies; one that is missing, or of another length, is refused."""
        path = folder / self.name
        if not path.is_file() or path.is_symlink() or path.stat().st_size != self.size:
            raise ValueError(
                f"the ledger's file {path} is missing or cut, so nobody knows what left; restore its backup"
            )
        return path

    def read(self, folder: Path, few: int | None = None) -> Charges:
        """Return what stands in the file; anything but what was written is refused.

        ``few``: so many units are to be looked up.  Where that is little of a large file, the rest stays unread, and
        its hash unknown.
        """
        path, width = self.check(folder), WIDTHS[self.kind]
        table: Words = np.empty((0, width), np.uint64)
        if self.size:
            table = np.asarray(np.memmap(path, "<u8", "r")).reshape(-1, width)
        units: Hashes = table[:, 0]
        if few is None or self.size <= SMALL or few * FEW >= len(table):
            if hashlib.sha256(table.data).digest() != self.sha256:
                raise ValueError(
                    f"the ledger's file {path} is not what was written, so nobody knows what left; restore its backup"
                )
            units = np.ascontiguousarray(units)
        if self.kind == "sums":
            return Charges(units, table[:, 1], table[:, 2])
        return Charges.of(units, table[:, 1] if self.kind == "counts" else None, self.epsilon, self.delta)


@dataclass(frozen=True, repr=False)
class Charges:
    """Units, ascending, and the amounts that each lost: per entry, or rows times a price."""

    units: Hashes
    epsilon: Words
    delta: Words
    rows: Words | None = None

    @classmethod
    def of(cls, units: Hashes, rows: Words | None, epsilon: int, delta: int) -> Charges:
        """Return what a run costs its units; nothing is multiplied before it is looked at."""
        price = np.broadcast_to(np.uint64(epsilon), units.shape), np.broadcast_to(np.uint64(delta), units.shape)
        return cls(units, *price, rows)

    def part(self, low: Any, high: Any) -> tuple[Hashes, Words, Words]:
        """Return units and amounts of some entries."""
        units, epsilon, delta = self.units[low:high], self.epsilon[low:high], self.delta[low:high]
        if self.rows is None:
            return units, epsilon, delta
        rows = self.rows[low:high]
        return units, epsilon * rows, delta * rows

    def lost(self, asked: Hashes) -> tuple[Words, Words]:
        """Return what each of these units lost, which is nothing where it is not among these."""
        places = first_at_least(self.units, asked)
        inside = np.flatnonzero(places < len(self.units))
        inside = inside[self.units[places[inside]] == asked[inside]]
        places, found = places[inside], np.zeros((2, len(asked)), np.uint64)
        rows = np.uint64(1) if self.rows is None else self.rows[places]
        found[:, inside] = self.epsilon[places] * rows, self.delta[places] * rows
        return found[0], found[1]


def first_at_least(units: Hashes, asked: Hashes) -> NDArray[np.intp]:
    """Return where the first unit stands, of ascending ones, that is no less than each asked for."""
    if units.flags.c_contiguous:
        return np.searchsorted(units, asked)  # which would copy a column of a table
    low, high = np.zeros(len(asked), np.intp), np.full(len(asked), len(units), np.intp)
    while np.any(low < high):
        middle = (low + high) // 2
        less = (low < high) & (units[np.minimum(middle, len(units) - 1)] < asked)
        low, high = np.where(less, middle + 1, low), np.where(less, high, middle)
    return low


def after(own: Charges, before: Sequence[Charges]) -> Iterator[tuple[Words, Words]]:
    """Yield what the units of a run will have lost with it, some at a time."""
    for first in range(0, len(own.units), PIECE):
        units, epsilon, delta = own.part(first, first + PIECE)
        for one in before:
            more = one.lost(units)
            epsilon, delta = epsilon + more[0], delta + more[1]
        yield epsilon, delta


def together(charges: Sequence[Charges]) -> Iterator[tuple[Hashes, Words, Words]]:
    """Yield all units, ascending, with the sums of what they lost, piece by piece: hashes spread evenly.

    No sum exceeds 2^62 where the largest amounts of all together do not, which the ledger checks beforehand.
    """
    pieces = max(1, -(-sum(len(one.units) for one in charges) // PIECE))
    edges = np.array([number * 2**64 // pieces for number in range(1, pieces)], np.uint64)
    cuts = [[0, *np.searchsorted(one.units, edges).tolist(), len(one.units)] for one in charges]
    for piece in range(pieces):
        parts = [one.part(cut[piece], cut[piece + 1]) for one, cut in zip(charges, cuts, strict=True)]
        units, epsilon, delta = summed(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        yield units, epsilon, delta


def write(folder: Path, name: str, tables: Iterable[Words]) -> tuple[int, bytes]:
    """Write a new file; return its size and hash once content and name are on the disk."""
    digest, size, path = hashlib.sha256(), 0, folder / name
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o600)
    try:
        with open(handle, "wb") as file:
            for table in tables:
                words = np.ascontiguousarray(table, "<u8")
                file.write(words.data)
                digest.update(words.data)
                size += words.nbytes
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink()
        raise
    to_disk(folder)
    return size, digest.digest()


def in_pieces(*columns: Words) -> Iterator[Words]:
    """Yield the rows of a table of these columns, some at a time."""
    for first in range(0, len(columns[0]), PIECE):
        yield np.column_stack([column[first : first + PIECE] for column in columns])
