"""Answers by the exact bytes of a record, in memory or in a file that outlives the run.

A file holds, per service, a digest of every record that was asked about, and its label: whoever guesses a record can
look its label up, so it is as private as the records, and its owner alone may read it.  Every reply is on disk before
the next request is sent: a run that is killed loses what was in flight.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import numpy as np

from epsworth.classifiers.reading import ClassifierError
from epsworth.classifiers.service.protocol import Label, Tensor

MARK = 0x65707377  # of our files, by SQLite's application_id
FORMAT = 1
MOST_IN_MEMORY = 2_000_000  # records, some 250 MB
TABLES = """
CREATE TABLE IF NOT EXISTS services
    (service INTEGER PRIMARY KEY, fingerprint TEXT UNIQUE NOT NULL, version TEXT, kind TEXT);
CREATE TABLE IF NOT EXISTS answers
    (service INTEGER, record BLOB, label TEXT, PRIMARY KEY (service, record)) WITHOUT ROWID;
"""


def digests(tensors: Sequence[Tensor]) -> list[bytes]:
    """Return 256 bits per record that differ for records of which any byte differs."""
    columns = [_texts(tensor) if tensor.kind == "BYTES" else _numbers(tensor) for tensor in tensors]
    return [sha256(b"".join(parts)).digest() for parts in zip(*columns, strict=True)]


def _numbers(tensor: Tensor) -> list[bytes]:
    values = np.ascontiguousarray(tensor.values)
    whole, size = values.tobytes(), values.nbytes // max(1, len(values))
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def _texts(tensor: Tensor) -> list[bytes]:
    """Return texts behind their lengths, so that two never run into one; a gap has a length that no text has."""
    texts = [None if text is None else text.encode() for text in tensor.values.tolist()]
    return [(2**63 if text is None else len(text)).to_bytes(8, "little") + (text or b"") for text in texts]


class Cache:
    """The labels that one service gave.

    Parameters
    ----------
    path : Path, optional
        Where they are kept; None keeps them in memory, as far as they fit.
    fingerprint : str
        What tells this service, and the way it is asked, from others in the file.
    """

    def __init__(self, path: Path | None, fingerprint: str) -> None:
        self.path = path
        self._words: dict[str, Label] = {}
        if path is not None:
            _make_private(path)
        with self._reported():
            self._file = sqlite3.connect(":memory:" if path is None else path, timeout=60, check_same_thread=False)
            _check_ours(self._file, path)
            self._file.executescript(TABLES)
            with self._file:
                self._file.execute("INSERT OR IGNORE INTO services (fingerprint) VALUES (?)", (fingerprint,))
            query = "SELECT service, version, kind FROM services WHERE fingerprint = ?"
            self._service, self.version, self.kind = self._file.execute(query, (fingerprint,)).fetchone()
            query = "SELECT count(*) FROM answers WHERE service = ?"
            (self.count,) = self._file.execute(query, (self._service,)).fetchone()

    def known(self, records: Iterable[bytes]) -> dict[bytes, Label]:
        """Return the labels of those of the records that have one."""
        if not self.count:
            return {}
        query, execute = "SELECT label FROM answers WHERE service = ? AND record = ?", self._file.execute
        with self._reported():
            rows = {record: execute(query, (self._service, record)).fetchone() for record in records}
        return {record: self._label(row[0]) for record, row in rows.items() if row is not None}

    def keep(self, answers: dict[bytes, Label], kind: str, version: str | None) -> None:
        """Keep a reply: all of it, or nothing."""
        if self.path is None and self.count + len(answers) > MOST_IN_MEMORY:
            return
        rows = [(self._service, record, json.dumps(label)) for record, label in answers.items()]
        with self._reported(), self._file:
            if (kind, version) != (self.kind, self.version):
                new = (kind, version, self._service)
                self._file.execute("UPDATE services SET kind = ?, version = ? WHERE service = ?", new)
            self._file.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", rows)
        self.kind, self.version, self.count = kind, version, self.count + len(rows)

    def drop(self) -> None:
        """Forget what this service answered."""
        with self._reported(), self._file:
            self._file.execute("DELETE FROM answers WHERE service = ?", (self._service,))
        self.count = 0

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def _label(self, written: str) -> Label:
        """Read a label; there are few, and each is read once."""
        if written not in self._words:
            try:
                label = json.loads(written)
            except ValueError:
                label = None
            if not isinstance(label, (int, float, str)):
                raise ClassifierError(f"the cache {self.path} is damaged; give another file")
            self._words[written] = label
        return self._words[written]

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise ClassifierError(
                f"cannot use the cache {self.path}: {error}; check the disk, or give another file"
            ) from None


def _make_private(path: Path) -> None:
    """Make the file, for its owner's eyes only, or refuse one that others can read."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ClassifierError(f"cannot use the cache {path}: {reason}; check the path") from None
    try:
        mode = os.fstat(handle).st_mode
    finally:
        os.close(handle)
    if not stat.S_ISREG(mode):
        raise ClassifierError(f"cannot use the cache {path}: it is a device or a pipe; give a file")
    if os.name == "posix" and mode & 0o077:
        raise ClassifierError(f"others may read the cache {path}, which tells about records; run chmod 600 on it first")


def _check_ours(file: sqlite3.Connection, path: Path | None) -> None:
    """Mark a new file as ours; refuse another program's, and formats to come."""
    (mark,), (version,) = (file.execute(f"PRAGMA {word}").fetchone() for word in ("application_id", "user_version"))
    (tables,) = file.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if (mark, version) == (MARK, FORMAT):
        return
    if tables or mark or version:
        raise ClassifierError(f"the cache {path} was written by another program, or version of it; give another file")
    file.executescript(f"PRAGMA application_id = {MARK}; PRAGMA user_version = {FORMAT};")
