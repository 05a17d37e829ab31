"""Where a ledger lies: one SQLite database and one key, in a folder of its owner alone.

A database and a key that do not belong together, as after half a restore, would let people start from nothing: they are
refused.  Who owns the folder can write any past into it; `Ledger.head` is for whoever wants to know.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import NamedTuple

from epsworth.files import OutputError
from epsworth.policy.folders import NO_LINKS, folder_named, to_disk
from epsworth.policy.ledger.costs import Amounts, LedgerConfig

VERSION = 3
DATABASE, KEY = "ledger.sqlite3", "people.key"
NEW_KEY = f".{KEY}.new"
OWN = re.compile(rf"{re.escape(DATABASE)}(-.*)?|\.?{re.escape(KEY)}(\..*)?", re.I | re.S)
KEY_BYTES = 32
PAGE = 1 << 14  # bytes: a few of the default size for each row of people take twice the time
PATIENCE = 120.0  # seconds for other processes: one may be charging many million people
NO_RUNS = bytes(32)  # the head of no runs
SCHEMA = f"""
CREATE TABLE meta (
    version INTEGER, key_check BLOB, person TEXT, cap INTEGER, delta_cap INTEGER, everybody_epsilon TEXT,
    everybody_delta TEXT
);
CREATE TABLE runs (
    serial INTEGER PRIMARY KEY, id BLOB UNIQUE, fingerprint TEXT, policy TEXT, digest BLOB, target TEXT, person TEXT,
    epsilon INTEGER, delta INTEGER, rows INTEGER, most INTEGER, day TEXT, head BLOB, state TEXT, sha256 TEXT
);
CREATE INDEX records ON runs (digest);
CREATE TABLE keys (id BLOB PRIMARY KEY, key BLOB);
CREATE TABLE people (bucket INTEGER PRIMARY KEY, sums BLOB);
INSERT INTO meta (version, everybody_epsilon, everybody_delta) VALUES ({VERSION}, '0', '0')
"""
FORKS = threading.RLock()  # no thread holds a connection while another forks: locks of SQLite do not survive that

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=FORKS.acquire, after_in_parent=FORKS.release, after_in_child=FORKS.release)


class Altered(Exception):
    """The ledger's files do not belong together, and why."""


class LedgerEntry(NamedTuple):
    """What a run is charged, for good; only ``state`` and ``sha256``, of its output, change.

    ``most`` is what one person is charged: the price of so many rows; without ``person`` everybody is.  ``head`` is a
    hash of all runs up to this one.
    """

    serial: int
    id: bytes
    fingerprint: str
    policy: str
    digest: bytes
    target: str
    person: str | None
    epsilon: int
    delta: int
    rows: int
    most: int
    day: str
    head: bytes = b""
    state: str = "charged"
    sha256: str | None = None

    @property
    def price(self) -> Amounts:
        """What a row costs."""
        return Amounts(self.epsilon, self.delta)

    def linked(self, before: bytes) -> bytes:
        """Return the head of all runs up to this one: a hash of the head before, and of what stays of this."""
        stays = [value.hex() if isinstance(value, bytes) else value for value in self[: self._fields.index("head")]]
        return hashlib.blake2b(before + json.dumps(stays).encode(), digest_size=32, person=b"epsworth-head").digest()


class Tables:
    """The ledger's rows as values, within one transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database

    def meta(self) -> tuple[LedgerConfig, Amounts]:
        """Return what is fixed, and what runs that name nobody charged everybody, of any number of bits."""
        found = self.database.execute("SELECT person, cap, delta_cap, everybody_epsilon, everybody_delta FROM meta")
        person, cap, delta_cap, *everybody = found.fetchone()
        amounts = [amount for amount in (cap, delta_cap) if amount is not None]
        plain = all(isinstance(text, str) and text.isascii() and text.isdigit() for text in everybody)
        if not (plain and isinstance(person, str | None) and all(isinstance(one, int) and one >= 0 for one in amounts)):
            raise Altered("its caps, person or sums of everybody are no amounts or names")
        return LedgerConfig(person, cap, delta_cap), Amounts(*map(int, everybody))

    def set_meta(self, config: LedgerConfig, everybody: Amounts) -> None:
        """Keep both."""
        self.database.execute(
            "UPDATE meta SET person = ?, cap = ?, delta_cap = ?, everybody_epsilon = ?, everybody_delta = ?",
            (*astuple(config), *map(str, everybody)),
        )

    def entries(self, where: str = "TRUE", *values: object) -> list[LedgerEntry]:
        """Return the runs that a condition picks, in the order in which they were charged."""
        columns = ", ".join(LedgerEntry._fields)
        found = self.database.execute(f"SELECT {columns} FROM runs WHERE {where} ORDER BY serial", values)
        return [LedgerEntry._make(row) for row in found]

    def newest(self) -> LedgerEntry | None:
        """Return the last run."""
        return next(iter(self.entries("serial = (SELECT MAX(serial) FROM runs)")), None)

    def entry(self, run: bytes) -> LedgerEntry:
        """Return what became of a run."""
        for found in self.entries("id = ?", run):
            return found
        raise Altered("its database does not know a run that it charged")

    def charge(self, entry: LedgerEntry, key: bytes) -> None:
        """Enter a run, and its key."""
        self.database.execute("INSERT INTO keys VALUES (?, ?)", (entry.id, key))
        self.database.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(entry))})", entry)

    def key(self, run: bytes) -> bytes:
        """Return the key of a run that is not done."""
        for (found,) in self.database.execute("SELECT key FROM keys WHERE id = ?", (run,)):
            return bytes(found)
        raise Altered("its database lacks the key of a run that is not done")

    def finish(self, run: bytes, sha256: str) -> None:
        """End a run; zeros take the place of its key before the row goes."""
        self.database.execute("UPDATE keys SET key = zeroblob(32) WHERE id = ?", (run,))
        self.database.execute("DELETE FROM keys WHERE id = ?", (run,))
        self.database.execute("UPDATE runs SET state = 'done', sha256 = ? WHERE id = ?", (sha256, run))

    def check_sound(self) -> None:
        """Read the whole database, indices included; refuse what SQLite finds wrong."""
        if self.database.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise sqlite3.DatabaseError("integrity_check")


class Store:
    """A ledger's folder, made on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder_named("ledger", folder)))
        if os.path.isfile(self.folder):  # False, too, for names that no system takes
            raise ValueError(f"a ledger is a folder, and {self.folder} is a file; name another place")
        self.path = self.folder / DATABASE
        self.files = {
            "ledger's database": self.path,
            "ledger's log": self.folder / f"{DATABASE}-wal",
            "ledger's index": self.folder / f"{DATABASE}-shm",
            "ledger's key": self.folder / KEY,
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._check_plain()
            with suppress(FileExistsError):  # SQLite keeps the mode
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o600))
            with self._explained(), FORKS, closing(self._connected()) as database:
                self.key = self._opened(database)
        except OSError as error:
            raise ValueError(
                f"the ledger {self.path} cannot be kept ({error.strerror}), so nothing may leave; see to the folder's "
                "rights and space"
            ) from None
        self.empty_log()

    def check_apart(self, what: str, path: Path) -> None:
        """Refuse an output in the folder whose name, or the name that its links lead to, could be the ledger's."""
        place = Path(os.path.realpath(path))
        with suppress(OSError):  # no such folder
            if OWN.fullmatch(place.name) and place.parent.samefile(self.folder):
                raise OutputError(
                    f"{path}: the {what} would take the place of a file of the ledger in {self.folder}; "
                    "give another path"
                )

    def subkey(self, purpose: bytes) -> bytes:
        """Return a key for one purpose."""
        return hashlib.blake2b(key=self.key, person=purpose, digest_size=KEY_BYTES).digest()

    @contextmanager
    def reading(self) -> Iterator[Tables]:
        """Look at the ledger as it is at one moment, without waiting for whoever writes."""
        with self._explained(), FORKS, closing(self._connected()) as database:
            database.execute("BEGIN")
            yield Tables(database)

    @contextmanager
    def transaction(self) -> Iterator[Tables]:
        """Keep other writers out of the ledger; what happens within is on the disk afterwards, all or nothing."""
        with self._explained(), FORKS, closing(self._connected()) as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield Tables(database)
                database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
                raise
            if not _emptied(database):  # which writes everything through; somebody reads the log
                database.execute("PRAGMA synchronous = FULL")
                database.execute("UPDATE meta SET version = version")  # the log is on the disk once this is

    def empty_log(self, patience: float = 0.0) -> bool:
        """Write what was erased out of the log, too; False while another process still reads it."""
        until = time.monotonic() + min(patience, PATIENCE)
        while self._log_size():
            with self._explained(), FORKS, closing(self._connected()) as database:
                if not _emptied(database) and time.monotonic() > until:
                    return False
        return True

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(f"{self.path.as_uri()}?mode=rw", uri=True, timeout=PATIENCE, isolation_level=None)
        database.execute("PRAGMA synchronous = NORMAL")  # whoever writes sees to the disk
        database.execute("PRAGMA secure_delete = ON")
        return database

    def _opened(self, database: sqlite3.Connection) -> bytes:
        """Return the key, which is made once, after the database; another than that of the database is refused."""
        database.execute("BEGIN")
        known = self._known_key(database)
        self._check_whole(database)
        database.execute("ROLLBACK")
        path = self.folder / KEY
        if known is None:
            self._set_log(database)
            database.execute("BEGIN IMMEDIATE")
            self._create(database, path)
            database.execute("COMMIT")
            known = self._known_key(database)
        if not path.exists():
            raise Altered(f"its key {KEY} is missing")
        key = path.read_bytes()
        if len(key) != KEY_BYTES:
            raise Altered(f"its key {KEY} is damaged")
        if known != _check_of(key):
            raise Altered(f"its key {KEY} is not the one that it was written with")
        return key

    def _known_key(self, database: sqlite3.Connection) -> bytes | None:
        """Return the hash of the ledger's key, None before it has one."""
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return None
        found = database.execute("SELECT version, key_check FROM meta").fetchone() if "meta" in tables else None
        if found is None:
            raise Altered("its database is no ledger's")
        if found[0] != VERSION:
            raise Altered("its database is of another version")
        if not isinstance(found[1], bytes | None):
            raise Altered("its database is damaged")
        return found[1]

    def _create(self, database: sqlite3.Connection, path: Path) -> None:
        """Make the tables, and then the key, which needs a database from then on."""
        if not database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
            if path.exists():
                raise Altered("its database was lost or emptied")
            for statement in SCHEMA.split(";"):
                database.execute(statement)
            database.execute("COMMIT")
            database.execute("BEGIN IMMEDIATE")
        if not path.exists():
            new = path.with_name(NEW_KEY)
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_LINKS, 0o600)
            with open(handle, "wb") as file:
                file.write(os.urandom(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            new.rename(path)
            to_disk(self.folder)
        check = _check_of(path.read_bytes())
        database.execute("UPDATE meta SET key_check = ? WHERE key_check IS NULL", (check,))

    def _set_log(self, database: sqlite3.Connection) -> None:
        """Let SQLite write a log: the journal that it keeps by default would hold copies of keys."""
        database.execute("PRAGMA synchronous = FULL")  # the tables are on the disk before the key is
        database.execute(f"PRAGMA page_size = {PAGE}")
        until = time.monotonic() + PATIENCE
        while True:
            try:
                (mode,) = database.execute("PRAGMA journal_mode = WAL").fetchone()
                break
            except sqlite3.OperationalError as error:  # it does not wait for another that asks for the same
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.01)
        if mode != "wal":
            raise ValueError(
                f"the folder {self.folder} cannot hold a ledger, as SQLite logs nothing there; take a local one"
            )

    def _check_whole(self, database: sqlite3.Connection) -> None:
        """Refuse a database that was cut, where no log holds its end: SQLite would read zeros there."""
        if not self._log_size():
            (pages,) = database.execute("PRAGMA page_count").fetchone()
            (size,) = database.execute("PRAGMA page_size").fetchone()
            if self.path.stat().st_size < pages * size:
                raise Altered("its database was cut")

    def _log_size(self) -> int:
        with suppress(FileNotFoundError):
            return self.files["ledger's log"].stat().st_size
        return 0

    def _check_plain(self) -> None:
        """Refuse links, and pipes, which would be waited for without end."""
        for path in (*self.files.values(), self.folder / NEW_KEY):
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(os.lstat(path).st_mode):
                    raise ValueError(
                        f"the ledger's file {path} is a link, a pipe or a folder; put the file itself there"
                    )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in one sentence what is wrong with the database."""
        try:
            yield
        except Altered as error:
            raise ValueError(
                f"the ledger {self.path} has files that do not belong together: {error}, so nobody knows what left; "
                "restore the whole folder from one backup"
            ) from None
        except sqlite3.Error as error:
            told = str(error)
            if "locked" in told:
                why = f"other processes kept it for {PATIENCE:.0f} seconds; try again"
            elif isinstance(error, sqlite3.OperationalError):
                why = f"it cannot be written or read ({told}); see to the folder's rights and space"
            else:
                why = f"its file is none of SQLite, or damaged ({told}); restore the whole folder from its backup"
            raise ValueError(f"the ledger {self.path} keeps nothing, so nothing may leave: {why}") from None


def is_ledger(folder: Path) -> bool:
    """Tell whether a ledger lies in a folder."""
    return any((folder / name).exists() for name in (DATABASE, KEY))


def _emptied(database: sqlite3.Connection) -> bool:
    """Write the log into the database, through to the disk, and empty it; False while somebody reads it."""
    database.execute("PRAGMA busy_timeout = 100")
    busy = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    database.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000:.0f}")
    return not busy


def _check_of(key: bytes) -> bytes:
    return hashlib.blake2b(key=key[:KEY_BYTES], person=b"epsworth-check", digest_size=KEY_BYTES).digest()
