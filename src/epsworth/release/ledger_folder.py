"""Where a ledger lies: its database, its key, its files, opened for one transaction at a time.

Files that do not belong together, as after half a restore, would let people start from nothing: they are refused.  Who
owns the folder can write any past into it; `Ledger.head` is for whoever wants to know.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from epsworth.files import OutputError
from epsworth.release.folders import folder_named, to_disk
from epsworth.release.ledger_tables import Altered, Tables
from epsworth.release.locks import NO_LINKS
from epsworth.release.unit_files import ENDING, NEW, UNITS

DATABASE, KEY = "ledger.sqlite3", "units.key"
NEW_KEY = f".{KEY}.new"
OWN = re.compile(rf"{re.escape(DATABASE)}(-.*)?|\.?{re.escape(KEY)}(\..*)?|.*{re.escape(ENDING)}(\..*)?", re.I | re.S)
KEY_BYTES = 32
PATIENCE = 120.0  # seconds for other processes: one may be putting files of many million units together
ALONE = threading.RLock()  # no thread holds a connection while another forks: locks of SQLite do not survive that

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=ALONE.acquire, after_in_parent=ALONE.release, after_in_child=ALONE.release)


class LedgerFolder:
    """A ledger's folder, made on first use, for its owner alone.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder_named("ledger", folder)))
        self.path = self.folder / DATABASE
        self.key = b""
        with self._told():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.alone():
            pass
        self.erased()

    @property
    def files(self) -> dict[str, Path]:
        """What stands in the folder, but for the units of runs."""
        log, index = (self.path.with_name(f"{DATABASE}-{end}") for end in ("wal", "shm"))
        own = {"database": self.path, "log": log, "index": index}
        return own | {"key": self.folder / KEY}

    def check_apart(self, what: str, path: Path) -> None:
        """Refuse an output in the folder whose name, or the name that its links lead to, could be the ledger's."""
        place = Path(os.path.realpath(path))
        with suppress(OSError):  # no such folder
            if OWN.fullmatch(place.name) and place.parent.samefile(self.folder):
                raise OutputError(
                    f"{path}: the {what} would take the place of a file of the ledger in {self.folder}; "
                    "give another path"
                )

    def subkey(self, what: bytes) -> bytes:
        """Return a key for one purpose."""
        return hashlib.blake2b(key=self.key, person=what, digest_size=KEY_BYTES).digest()

    @contextmanager
    def alone(self) -> Iterator[Tables]:
        """Keep everybody else out of the ledger; what happens within is on the disk afterwards, all or nothing."""
        with self._told(), ALONE:
            self._check_plain()
            with closing(self._connected()) as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    self._check_whole(connection)
                    tables = Tables(connection)
                    if tables.empty:
                        if self._unit_files() or (self.folder / KEY).exists():
                            raise Altered("its database was lost or emptied")
                        tables.create()
                        connection.execute("COMMIT")  # before there is a key, which needs a database from then on
                        connection.execute("BEGIN IMMEDIATE")
                    opening = not self.key
                    self._unlock(tables)
                    self._tidy(tables)
                    for file in tables.files() if opening else ():  # later whoever reads one looks at it
                        file.check(self.folder)
                    yield tables
                    connection.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    raise

    def erased(self, patience: float = 0.0) -> bool:
        """Write what was erased out of the log, too; False while another process still reads it."""
        until = time.monotonic() + min(patience, PATIENCE)
        while True:
            with self._told(), ALONE, closing(self._connected()) as connection:
                connection.execute("PRAGMA busy_timeout = 100")  # it does not wait for all that it needs
                busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            if not busy or time.monotonic() > until:
                return not busy
            time.sleep(0.01)

    def _connected(self) -> sqlite3.Connection:
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o600))  # SQLite keeps the mode
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        try:
            until = time.monotonic() + PATIENCE
            while True:
                try:
                    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                    break
                except sqlite3.OperationalError as error:  # it does not wait for another that asks for the same
                    if "locked" not in str(error) or time.monotonic() > until:
                        raise
                    time.sleep(0.01)
            if mode != "wal":  # the rollback journal would keep copies of keys
                raise ValueError(
                    f"the folder {self.folder} cannot hold a ledger, as SQLite logs nothing there; take a local one"
                )
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_whole(self, connection: sqlite3.Connection) -> None:
        """Refuse a database that was cut, where no log holds its end: SQLite would read zeros there."""
        log = self.path.with_name(f"{DATABASE}-wal")
        if not log.exists() or not log.stat().st_size:
            (pages,), (size,) = (connection.execute(f"PRAGMA page_{what}").fetchone() for what in ("count", "size"))
            if self.path.stat().st_size < pages * size:
                raise Altered("its database was cut")

    def _unit_files(self) -> dict[str, bytes]:
        """Return the names that the ledger gives its files, in its folder, with the run that each is named by."""
        found = {name: UNITS.fullmatch(name) for name in os.listdir(self.folder)}
        return {name: bytes.fromhex(match[1]) for name, match in found.items() if match}

    def _tidy(self, tables: Tables) -> None:
        """Name the files of runs that are charged; remove those of runs that never were, or are put together.

        Whoever writes one holds the lock until the database knows it.
        """
        units, known = self._unit_files(), {file.name for file in tables.files()}
        for name, run in units.items():
            final, path = run.hex() + ENDING, self.folder / name
            charged = final in known or tables.newest("id = ?", run) is not None
            if name == final and not charged:
                raise Altered(f"its database does not know the run of {name}, as an older copy or another would not")
            if name == run.hex() + NEW and final in known and final not in units:
                path.rename(self.folder / final)
                to_disk(self.folder)
            elif (name == final and final not in known) or (name != final and not charged):
                path.unlink()

    def _unlock(self, tables: Tables) -> None:
        """Read the key, which is made once; another than that of the database, or none, is refused."""
        path, known = self.folder / KEY, tables.key_check()
        if not path.exists():
            if known is not None:
                raise Altered(f"its key {KEY} is missing")
            self._make_key(path)
        self.key = path.read_bytes()
        if len(self.key) != KEY_BYTES:
            raise Altered(f"its key {KEY} is damaged")
        check = self.subkey(b"epsworth-check")
        if known is None:
            tables.set_key_check(check)
        elif known != check:
            raise Altered(f"its key {KEY} is not the one that it was written with")

    def _make_key(self, path: Path) -> None:
        new = path.with_name(NEW_KEY)
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_LINKS, 0o600)
        with open(handle, "wb") as file:
            file.write(os.urandom(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
        to_disk(self.folder)

    def _check_plain(self) -> None:
        """Refuse links, and pipes, which would be waited for without end."""
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", KEY, NEW_KEY):
            path = self.folder / name
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(os.lstat(path).st_mode):
                    raise ValueError(
                        f"the ledger's file {path} is a link, a pipe or a folder; put the file itself there"
                    )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in one sentence what is wrong."""
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
        except OSError as error:
            raise ValueError(
                f"the ledger {self.path} cannot be kept ({error.strerror}), so nothing may leave; see to the folder's "
                "rights and space"
            ) from None
