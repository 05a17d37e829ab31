"""The ledger's database: every run holds the sums up to it, and a link to the run before, so none is read again."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from typing import Any, NamedTuple, NoReturn

from epsworth.release.ledger_terms import Identity
from epsworth.release.unit_files import UnitFile

VERSION = 2
SCHEMA = (
    """CREATE TABLE about (
        one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER, key_check BLOB, unit TEXT, cap INTEGER,
        delta_cap INTEGER
    )""",
    """CREATE TABLE runs (
        serial INTEGER PRIMARY KEY, id BLOB UNIQUE, fingerprint TEXT, policy TEXT, digest BLOB, target TEXT, unit TEXT,
        epsilon INTEGER, delta INTEGER, rows INTEGER, most INTEGER, day TEXT, units BLOB, repeats INTEGER,
        records_epsilon TEXT, records_delta TEXT, everybody_epsilon TEXT, everybody_delta TEXT, head BLOB,
        state TEXT, sha256 TEXT
    )""",
    "CREATE INDEX records ON runs (digest)",
    "CREATE INDEX repeats ON runs (digest, fingerprint)",
    "CREATE INDEX identities ON runs (digest, target)",
    "CREATE TABLE keys (id BLOB PRIMARY KEY, key BLOB)",
    """CREATE TABLE files (
        name TEXT PRIMARY KEY, kind TEXT, size INTEGER, sha256 BLOB, epsilon INTEGER, delta INTEGER, most INTEGER,
        runs INTEGER, level INTEGER
    )""",
)
EMPTY = bytes(32)  # the head of no runs
Amounts = tuple[int, int]  # of epsilon and delta


class Altered(Exception):
    """The ledger's files do not belong together, and why."""


def altered(why: str) -> NoReturn:
    """Refuse files that do not belong together."""
    raise Altered(why)


@dataclass(frozen=True)
class Settled:
    """What a ledger fixes once it is stated: the column of units, and the caps as amounts."""

    unit: str | None = None
    cap: int | None = None
    delta_cap: int | None = None


class Line(NamedTuple):
    """What a run is charged, for good, with the sums up to it; only ``state`` and ``sha256`` change.

    ``most`` is what one unit is charged: the price of so many rows; without ``unit`` everybody is.  ``units`` is the
    SHA-256 of the file of units that was written with it.  ``repeats`` counts the runs of the same records under the
    same policy before, ``records_`` what the same records lost, ``everybody_`` what runs without units charge; sums are
    texts, as they may have more than 64 bits.
    """

    serial: int
    id: bytes
    fingerprint: str
    policy: str
    digest: bytes
    target: str
    unit: str | None
    epsilon: int
    delta: int
    rows: int
    most: int
    day: str
    units: bytes | None
    repeats: int
    records_epsilon: str
    records_delta: str
    everybody_epsilon: str
    everybody_delta: str
    head: bytes = b""
    state: str = "charged"
    sha256: str | None = None

    @property
    def of_records(self) -> Amounts:
        """What these very records lost, this run included."""
        return int(self.records_epsilon), int(self.records_delta)

    @property
    def of_everybody(self) -> Amounts:
        """What runs without units charged everybody, this one included."""
        return int(self.everybody_epsilon), int(self.everybody_delta)

    def linked(self, before: bytes) -> bytes:
        """Return the head of all runs up to this one: a hash of the one before, and of what stays of this."""
        stays = [value.hex() if isinstance(value, bytes) else value for value in self[: Line._fields.index("head")]]
        return hashlib.blake2b(before + json.dumps(stays).encode(), digest_size=32, person=b"epsworth-head").digest()


COLUMNS = ", ".join(Line._fields)
FILE_COLUMNS = ", ".join(field.name for field in fields(UnitFile))


class Tables:
    """Rows as values, within one transaction.

    Parameters
    ----------
    connection : Connection
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._file = connection

    @property
    def empty(self) -> bool:
        """Whether there are no tables yet."""
        return not self._file.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]

    def create(self) -> None:
        """Make the tables."""
        for statement in SCHEMA:
            self._file.execute(statement)
        self._file.execute("INSERT INTO about (one, version) VALUES (1, ?)", (VERSION,))

    def key_check(self) -> bytes | None:
        """Return the hash of the ledger's key, None before it has one."""
        if not self._file.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = 'about'").fetchone()[0]:
            altered("its database is no ledger's")
        version, check = self._file.execute("SELECT version, key_check FROM about").fetchone() or (0, None)
        if version != VERSION:
            altered("its database is of another version")
        return None if check is None else bytes(check)

    def set_key_check(self, check: bytes) -> None:
        """Keep the hash of the ledger's key."""
        self._file.execute("UPDATE about SET key_check = ?", (check,))

    def settled(self) -> Settled:
        """Return what is fixed."""
        return Settled(*self._file.execute("SELECT unit, cap, delta_cap FROM about").fetchone())

    def settle(self, settled: Settled) -> None:
        """Fix it."""
        self._file.execute("UPDATE about SET unit = ?, cap = ?, delta_cap = ?", astuple(settled))

    def lines(self) -> Iterator[Line]:
        """Yield all runs, in order."""
        return map(Line._make, self._file.execute(f"SELECT {COLUMNS} FROM runs ORDER BY serial"))

    def newest(self, where: str = "TRUE", *values: Any) -> Line | None:
        """Return the last run of those that a condition picks."""
        found = self._file.execute(
            f"SELECT {COLUMNS} FROM runs WHERE {where} ORDER BY serial DESC LIMIT 1", values
        ).fetchone()
        return None if found is None else Line._make(found)

    def same(self, fingerprint: str, digest: bytes) -> Line | None:
        """Return the last run of some records under a policy."""
        return self.newest("digest = ? AND fingerprint = ?", digest, fingerprint)

    def stopped(self, fingerprint: str, digest: bytes) -> bool:
        """Tell whether one of these runs is not done."""
        return self.newest("digest = ? AND fingerprint = ? AND state = 'charged'", digest, fingerprint) is not None

    def of(self, identity: Identity, unit: str | None) -> Line | None:
        """Return the last run of an identity that was charged for this column of units."""
        return self.newest(
            "digest = ? AND target = ? AND policy = ? AND unit IS ?",
            identity.digest, identity.target, identity.policy, unit,
        )  # fmt: skip

    def line(self, run: bytes) -> Line:
        """Return what became of a run."""
        found = self.newest("id = ?", run)
        return altered("its database does not know a run that it charged") if found is None else found

    def charge(self, line: Line, key: bytes) -> Line:
        """Enter a run behind the others, and its key; return it with its head."""
        before = self.newest()
        line = line._replace(head=line.linked(EMPTY if before is None else before.head))
        self._file.execute("INSERT INTO keys VALUES (?, ?)", (line.id, key))
        self._file.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(line))})", line)
        return line

    def key(self, run: bytes) -> bytes:
        """Return the key of a run that is not done."""
        found = self._file.execute("SELECT key FROM keys WHERE id = ?", (run,)).fetchone()
        return altered("its database lacks the key of a run that is not done") if found is None else bytes(found[0])

    def seal(self, line: Line, sha256: str) -> None:
        """Keep the hash of a run's output."""
        self._file.execute("UPDATE runs SET sha256 = ? WHERE serial = ?", (sha256, line.serial))

    def erase(self, line: Line) -> None:
        """End a run; zeros take the place of its key before the row goes."""
        self._file.execute("UPDATE keys SET key = zeroblob(32) WHERE id = ?", (line.id,))
        self._file.execute("DELETE FROM keys WHERE id = ?", (line.id,))
        self._file.execute("UPDATE runs SET state = 'done' WHERE serial = ?", (line.serial,))

    def files(self) -> list[UnitFile]:
        """Return what is known about the files of units, the oldest first."""
        found = self._file.execute(f"SELECT {FILE_COLUMNS} FROM files ORDER BY rowid")
        return [UnitFile(*row) for row in found]

    def add(self, file: UnitFile, instead_of: list[UnitFile]) -> None:
        """Enter a file, in the place of those that were put together."""
        self._file.executemany("DELETE FROM files WHERE name = ?", [(one.name,) for one in instead_of])
        row = astuple(file)
        self._file.execute(f"INSERT INTO files VALUES ({', '.join('?' * len(row))})", row)

    def check_sound(self) -> None:
        """Read the whole database, indices included; refuse what SQLite finds wrong."""
        if self._file.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise sqlite3.DatabaseError("integrity_check")
