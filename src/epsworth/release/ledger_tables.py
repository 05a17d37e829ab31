"""The ledger's database: its tables, and what keeps their rows from being changed by anybody without the key."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from typing import Any, TypeVar

from epsworth.release.unit_files import UnitFile

VERSION = 1
SCHEMA = (
    """CREATE TABLE IF NOT EXISTS about (
        one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER, unit TEXT, cap INTEGER, delta_cap INTEGER, mark BLOB
    )""",
    """CREATE TABLE IF NOT EXISTS runs (
        serial INTEGER PRIMARY KEY, id BLOB UNIQUE, fingerprint TEXT, policy TEXT, digest BLOB, target TEXT, unit TEXT,
        epsilon INTEGER, delta INTEGER, rows INTEGER, most INTEGER, day TEXT, mark BLOB, state TEXT, sha256 TEXT
    )""",
    "CREATE INDEX IF NOT EXISTS again ON runs (digest)",
    "CREATE TABLE IF NOT EXISTS keys (id BLOB PRIMARY KEY, key BLOB)",
    """CREATE TABLE IF NOT EXISTS files (
        name TEXT PRIMARY KEY, kind TEXT, size INTEGER, sha256 BLOB, epsilon INTEGER, delta INTEGER, most INTEGER,
        runs INTEGER, mark BLOB
    )""",
)

T = TypeVar("T")


class Altered(Exception):
    """A row is not what was written, or not with this key."""


@dataclass(frozen=True)
class Settled:
    """What a ledger fixes once it is stated: the column of units, and the caps as amounts."""

    unit: str | None = None
    cap: int | None = None
    delta_cap: int | None = None


@dataclass(frozen=True)
class Line:
    """What a run is charged, for good.  ``most`` is what one unit is charged: the price of so many rows.

    Without ``unit`` everybody is charged, as for so many rows.
    """

    serial: int
    id: bytes
    fingerprint: str
    policy: str
    digest: bytes | None
    target: str
    unit: str | None
    epsilon: int
    delta: int
    rows: int | None
    most: int
    day: str


COLUMNS = ", ".join(field.name for field in fields(Line))
FILE_COLUMNS = ", ".join(field.name for field in fields(UnitFile))


class Tables:
    """Rows as values, marked when they are written and checked when they are read, within one transaction.

    Parameters
    ----------
    connection : Connection
    key : bytes
        Of the marks.
    """

    def __init__(self, connection: sqlite3.Connection, key: bytes) -> None:
        self._file, self._key = connection, key

    def prepare(self) -> bool:
        """Make the tables where there are none; tell whether the ledger is new."""
        for statement in SCHEMA:
            self._file.execute(statement)
        return self._file.execute("SELECT 1 FROM about").fetchone() is None

    def settled(self) -> Settled:
        """Return what is fixed."""
        found = self._file.execute("SELECT version, unit, cap, delta_cap, mark FROM about").fetchone()
        if found is None:
            raise Altered
        version, *settled = self._checked("about", found)
        if version != VERSION:
            raise Altered
        return Settled(*settled)

    def settle(self, settled: Settled) -> None:
        """Fix it."""
        row = VERSION, *astuple(settled)
        self._file.execute("INSERT OR REPLACE INTO about VALUES (1, ?, ?, ?, ?, ?)", (*row, self._mark("about", row)))

    def lines(self) -> list[Line]:
        """Return all runs, in order; one that is missing or altered is noticed."""
        rows = self._file.execute(f"SELECT {COLUMNS}, mark FROM runs ORDER BY serial")
        found = [Line(*self._checked("run", row)) for row in rows]
        if [line.serial for line in found] != list(range(1, len(found) + 1)):
            raise Altered
        return found

    def charge(self, line: Line, state: str, key: bytes | None) -> None:
        """Enter a run."""
        row = astuple(line)
        self._file.execute(
            f"INSERT INTO runs VALUES ({', '.join('?' * (len(row) + 3))})", (*row, self._mark("run", row), state, None)
        )
        if key is not None:
            self._file.execute("INSERT INTO keys VALUES (?, ?)", (line.id, key))

    def state(self, run: bytes) -> tuple[str, str | None, bytes | None]:
        """Return what became of a run: its state, its output's hash, its key."""
        found: tuple[str, str | None, bytes | None] | None = self._file.execute(
            "SELECT state, sha256, key FROM runs LEFT JOIN keys USING (id) WHERE id = ?", (run,)
        ).fetchone()
        if found is None or (found[0] == "charged" and (found[2] is None or len(found[2]) != 32)):
            raise Altered
        return found

    def states(self) -> Iterator[str]:
        """Yield the states of all runs, in order."""
        return (state for (state,) in self._file.execute("SELECT state FROM runs ORDER BY serial"))

    def seal(self, run: bytes, sha256: str) -> None:
        """Keep the hash of a run's output."""
        self._file.execute("UPDATE runs SET sha256 = ? WHERE id = ?", (sha256, run))

    def erase(self, run: bytes) -> None:
        """End a run; zeros take the place of its key before the row goes."""
        self._file.execute("UPDATE keys SET key = zeroblob(32) WHERE id = ?", (run,))
        self._file.execute("DELETE FROM keys WHERE id = ?", (run,))
        self._file.execute("UPDATE runs SET state = 'done' WHERE id = ?", (run,))

    def files(self) -> list[UnitFile]:
        """Return what is known about the files of units; they must cover all runs that have units."""
        rows = self._file.execute(f"SELECT {FILE_COLUMNS}, mark FROM files ORDER BY name")
        found = [UnitFile(*self._checked("file", row)) for row in rows]
        if sum(file.runs for file in found) != self._file.execute("SELECT COUNT(unit) FROM runs").fetchone()[0]:
            raise Altered
        return found

    def add(self, file: UnitFile) -> None:
        """Enter a file."""
        row = astuple(file)
        self._file.execute(
            f"INSERT INTO files VALUES ({', '.join('?' * (len(row) + 1))})", (*row, self._mark("file", row))
        )

    def drop(self, files: list[UnitFile]) -> None:
        """Forget files that were put together."""
        self._file.executemany("DELETE FROM files WHERE name = ?", [(file.name,) for file in files])

    def _checked(self, kind: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
        if row[-1] != self._mark(kind, row[:-1]):
            raise Altered
        return row[:-1]

    def _mark(self, kind: str, row: tuple[Any, ...]) -> bytes:
        return hashlib.blake2b(repr((kind, *row)).encode(), key=self._key, digest_size=16).digest()
