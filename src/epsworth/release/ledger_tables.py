"""The ledger's database: its tables, and what keeps their rows from being changed by anybody without the key."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from itertools import chain, compress, repeat
from operator import ne
from typing import Any, NamedTuple, NoReturn

from epsworth.release.unit_files import UnitFile

VERSION = 1
SCHEMA = {  # without indices, which could tell otherwise than the rows that are marked
    "about": """CREATE TABLE about (
        one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER, unit TEXT, cap INTEGER, delta_cap INTEGER, mark BLOB
    )""",
    "runs": """CREATE TABLE runs (
        serial INTEGER PRIMARY KEY, id BLOB, fingerprint TEXT, policy TEXT, digest BLOB, target TEXT, unit TEXT,
        epsilon INTEGER, delta INTEGER, rows INTEGER, most INTEGER, day TEXT, about BLOB, state TEXT, sha256 TEXT,
        mark BLOB
    )""",
    "keys": "CREATE TABLE keys (id BLOB, key BLOB, mark BLOB)",
    "files": """CREATE TABLE files (
        name TEXT, kind TEXT, size INTEGER, sha256 BLOB, epsilon INTEGER, delta INTEGER, most INTEGER,
        runs INTEGER, mark BLOB
    )""",
}
STATES = {"charged", "done"}
KEY_BYTES = 32  # of a run's key

Rows = list[tuple[Any, ...]]
Verified = dict[str, Rows]  # rows whose marks were right before


class Altered(Exception):
    """The ledger is not what was kept, and why."""


def altered() -> NoReturn:
    """Refuse rows that are not what was written, or not with this key."""
    raise Altered("its database was edited, or is of another key")


@dataclass(frozen=True)
class Settled:
    """What a ledger fixes once it is stated: the column of units, and the caps as amounts."""

    unit: str | None = None
    cap: int | None = None
    delta_cap: int | None = None


class Line(NamedTuple):
    """What a run is charged, for good.  ``most`` is what one unit is charged: the price of so many rows.

    Without ``unit`` everybody is charged, as for so many rows.  ``about`` is the mark of what was fixed when the run
    was charged, or later while it was the newest; ``mark`` is that of all the rest.
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
    about: bytes = b""
    state: str = "charged"
    sha256: str | None = None
    mark: bytes = b""


COLUMNS = ", ".join(Line._fields)
FILE_COLUMNS = ", ".join(field.name for field in fields(UnitFile))


class Tables:
    """Rows as values, marked when they are written and checked when they are read, within one transaction.

    Parameters
    ----------
    connection : Connection
    key : bytes
        Of the marks.
    verified : dict
        Rows that were found right before, by table; they are not looked at again while they stay.
    """

    def __init__(self, connection: sqlite3.Connection, key: bytes, verified: Verified) -> None:
        self._file, self._key, self._verified = connection, key, verified
        self._about = b""
        self._read: list[Line] | None = None

    def prepare(self) -> bool:
        """Make the tables where there are none; tell whether the ledger is new.

        A view or trigger could let the rows say one thing and do another.
        """
        found = self._rows("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        if set(found) == {("table", name, sql) for name, sql in SCHEMA.items()}:
            return False
        if found:
            altered()
        for statement in SCHEMA.values():
            self._file.execute(statement)
        return True

    def settled(self) -> Settled:
        """Return what is fixed, which the newest run was charged under."""
        found = self._checked("about", self._rows("SELECT version, unit, cap, delta_cap, mark FROM about"))
        if len(found) != 1 or found[0][0] != VERSION:
            altered()
        self._about = found[0][-1]
        return Settled(*found[0][1:-1])

    def settle(self, settled: Settled) -> None:
        """Fix it."""
        lines, row = self.lines(), (VERSION, *astuple(settled))
        self._about = self._mark("about", row)
        self._file.execute("INSERT OR REPLACE INTO about VALUES (1, ?, ?, ?, ?, ?)", (*row, self._about))
        if lines:
            lines[-1] = self._put(lines[-1]._replace(about=self._about))

    def lines(self) -> list[Line]:
        """Return all runs, in order; one that is missing or altered is noticed."""
        if self._read is None:
            rows = self._checked("run", self._rows(f"SELECT {COLUMNS} FROM runs ORDER BY serial"))
            found = list(map(Line._make, rows))
            if [line.serial for line in found] != list(range(1, len(found) + 1)):
                altered()
            if not {line.state for line in found} <= STATES or (found and found[-1].about != self._about):
                altered()
            if {line.id for line in found if line.state == "charged"} != self._keys().keys():
                altered()
            self._read = found
        return self._read

    def past(self) -> bytes:
        """Return what names the present state of the ledger: its runs, and what is fixed."""
        lines = self.lines()
        return self._mark("past", (len(lines), lines[-1].id if lines else None, self._about))

    def charge(self, line: Line, key: bytes | None) -> None:
        """Enter a run under what is fixed."""
        lines = self.lines()
        if key is not None:
            self._file.execute("INSERT INTO keys VALUES (?, ?, ?)", (line.id, key, self._mark("key", (line.id, key))))
        lines.append(self._put(line._replace(about=self._about)))

    def line(self, run: bytes) -> Line:
        """Return what became of a run."""
        for line in reversed(self.lines()):
            if line.id == run:
                return line
        altered()

    def key(self, run: bytes) -> bytes:
        """Return the key of a run that is not done."""
        return self._keys()[run]

    def seal(self, line: Line, sha256: str) -> None:
        """Keep the hash of a run's output."""
        self._change(line._replace(sha256=sha256))

    def erase(self, line: Line) -> None:
        """End a run; zeros take the place of its key before the row goes."""
        self._file.execute("UPDATE keys SET key = zeroblob(32) WHERE id = ?", (line.id,))
        self._file.execute("DELETE FROM keys WHERE id = ?", (line.id,))
        self._change(line._replace(state="done"))

    def files(self) -> list[UnitFile]:
        """Return what is known about the files of units: each covers some runs up to the one that it is named by.

        Together they must cover every run that has units, once.
        """
        rows = self._checked("file", self._rows(f"SELECT {FILE_COLUMNS}, mark FROM files"))
        named = [line.id.hex() for line in self.lines() if line.unit is not None]
        places = {name: place for place, name in enumerate(named, start=1)}
        found = sorted((UnitFile(*row[:-1]) for row in rows), key=lambda file: places.get(file.run, 0))
        ends = [places.get(file.run, 0) for file in found]
        if [0, *ends] != [*(end - file.runs for end, file in zip(ends, found, strict=True)), len(places)]:
            altered()
        return found

    def add(self, file: UnitFile) -> None:
        """Enter a file."""
        row = astuple(file)
        marked = (*row, self._mark("file", row))
        self._file.execute(f"INSERT INTO files VALUES ({', '.join('?' * len(marked))})", marked)

    def drop(self, files: list[UnitFile]) -> None:
        """Forget files that were put together."""
        self._file.executemany("DELETE FROM files WHERE name = ?", [(file.name,) for file in files])

    def _keys(self) -> dict[bytes, bytes]:
        rows = self._checked("key", self._rows("SELECT id, key, mark FROM keys"), keep=False)
        if any(len(key) != KEY_BYTES for _, key, _ in rows):
            altered()
        return {run: key for run, key, _ in rows}

    def _change(self, line: Line) -> None:
        self._put(line)
        self._read = None

    def _put(self, line: Line) -> Line:
        """Write a run, marked anew."""
        line = line._replace(mark=self._mark("run", line[:-1]))
        self._file.execute(f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * len(line))})", line)
        return line

    def _rows(self, query: str) -> Rows:
        return self._file.execute(query).fetchall()

    def _checked(self, kind: str, rows: Rows, *, keep: bool = True) -> Rows:
        """Return rows whose marks are right; those that stood there before are known."""
        before: Iterable[Any] = chain(self._verified.get(kind, []), repeat(None))
        for row in compress(rows, map(ne, rows, before)):
            if row[-1] != self._mark(kind, row[:-1]):
                altered()
        if keep:
            self._verified[kind] = rows
        return rows

    def _mark(self, kind: str, row: tuple[Any, ...]) -> bytes:
        """Return a keyed hash of a row; its letters are those of ASCII, alike in every version of Python."""
        person = kind.encode()
        return hashlib.blake2b(ascii(tuple(row)).encode(), key=self._key, digest_size=16, person=person).digest()
