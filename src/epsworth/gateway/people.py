"""What each person lost already, on the disk before a draw leaves; several workers share one file.

People stand there by keyed hashes, and the key is that of the account's own ledger (see `epsworth.policy.ledger`): the
file tells nobody who they are.  What is kept are whole numbers of draws per policy, so sums are exact.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from epsworth.gateway.settings import Settings
from epsworth.policy.ledger import Ledger

SCHEMA = """
CREATE TABLE IF NOT EXISTS about (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER, key BLOB);
CREATE TABLE IF NOT EXISTS policies (policy TEXT PRIMARY KEY, epsilon TEXT, delta REAL);
CREATE TABLE IF NOT EXISTS charges (
    person BLOB, policy TEXT, draws INTEGER, PRIMARY KEY (person, policy)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS drawn (
    person BLOB, policy TEXT, released TEXT, PRIMARY KEY (person, policy)
) WITHOUT ROWID;
"""
VERSION = 1
MARKED = "epsworth: the key of this ledger"  # hashed, it tells another key
PATIENCE = 10.0  # seconds for another worker's transaction

Row = tuple[Any, ...]  # released values, in the order of the policy


class LedgerError(Exception):
    """The ledger could not be written: nothing may leave."""


class People:
    """The ledger of one policy's draws by person.  For one thread: the service gives it one of its own.

    Claim: a charge is on the disk before `charge` or `keep` returns; of a request every person is charged, or none.

    Parameters
    ----------
    settings : Settings
        With a ledger.
    """

    def __init__(self, settings: Settings) -> None:
        assert settings.ledger is not None
        self.policy, self.path = settings.policy.fingerprint, Path(settings.ledger)
        self.cap = None if settings.cap is None else Fraction(settings.cap)
        self.delta_cap = None if settings.delta_cap is None else Fraction(settings.delta_cap)
        self.cost = Fraction(settings.policy.total), Fraction(settings.policy.guarantee.delta)
        self._key = _key()
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # for its owner's eyes; SQLite keeps that
            self._file = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")  # a transaction that returned survives a loss of power
            with self._alone():
                self._open(settings)
        except FileNotFoundError:
            raise ValueError(f"the ledger {self.path} cannot be made: there is no such folder; make it first") from None
        except (sqlite3.Error, LedgerError, OSError):
            raise ValueError(
                f"the ledger {self.path} cannot be opened, or is none: nobody knows what left before; give another file"
            ) from None

    def _open(self, settings: Settings) -> None:
        for statement in filter(str.strip, SCHEMA.split(";")):
            self._file.execute(statement)
        self._file.execute("INSERT OR IGNORE INTO about VALUES (1, ?, ?)", (VERSION, self._hash(MARKED)))
        _check(self._file, self._key, self.path)
        told = str(settings.policy.total), float(settings.policy.guarantee.delta)
        self._file.execute("INSERT OR REPLACE INTO policies VALUES (?, ?, ?)", (self.policy, *told))

    def charge(self, requests: Sequence[Sequence[str]]) -> list[bool]:
        """Charge the people of each request, in one transaction; False for a request that somebody cannot afford."""
        with self._alone():
            return [self._charged(Counter(map(self._hash, people))) for people in requests]

    def keep(self, requests: Sequence[tuple[Sequence[str], Sequence[Row]]]) -> list[list[Row] | None]:
        """Return what leaves for each record of each request: what left for that person before, else the new draw.

        Only a person's first draw is charged; None for a request that somebody cannot afford.
        """
        with self._alone():
            return [self._kept([self._hash(person) for person in people], rows) for people, rows in requests]

    def spent(self, person: str) -> tuple[Fraction, Fraction]:
        """Return what all draws of a person add up to: epsilon and delta, exactly."""
        return _spent(self._file, self._hash(person))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _kept(self, people: list[bytes], rows: Sequence[Row]) -> list[Row] | None:
        first = dict(zip(reversed(people), reversed(rows), strict=True))
        before = {person: row for person in first if (row := self._left(person)) is not None}
        new = {person: row for person, row in first.items() if person not in before}
        if not self._charged(Counter(new.keys())):
            return None
        self._file.executemany(
            "INSERT INTO drawn VALUES (?, ?, ?)",
            [(person, self.policy, json.dumps(row)) for person, row in new.items()],
        )
        return [before.get(person, first[person]) for person in people]

    def _left(self, person: bytes) -> Row | None:
        found = self._file.execute(
            "SELECT released FROM drawn WHERE person = ? AND policy = ?", (person, self.policy)
        ).fetchone()
        return None if found is None else tuple(json.loads(found[0]))

    def _charged(self, counted: Counter[bytes]) -> bool:
        if self.cap is not None and not all(self._affords(person, times) for person, times in counted.items()):
            return False
        self._file.executemany(
            "INSERT INTO charges VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET draws = draws + excluded.draws",
            [(person, self.policy, times) for person, times in counted.items()],
        )
        return True

    def _affords(self, person: bytes, times: int) -> bool:
        epsilon, delta = _spent(self._file, person)
        assert self.cap is not None
        enough = epsilon + times * self.cost[0] <= self.cap
        return enough and (self.delta_cap is None or delta + times * self.cost[1] <= self.delta_cap)

    def _hash(self, person: str) -> bytes:
        return _hash(person, self._key)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Run one transaction: nobody else reads or writes between the question and the charge."""
        try:
            self._file.execute("BEGIN IMMEDIATE")
            yield
            self._file.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise LedgerError(type(error).__name__) from None
            raise


def spent(path: Path, people: Sequence[str]) -> list[tuple[Fraction, Fraction]]:
    """Return the epsilon and delta of all draws of each of these people, by a gateway's file; nothing is written."""
    key = _key()
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=PATIENCE)) as file:
            _check(file, key, path)
            return [_spent(file, _hash(person, key)) for person in people]
    except sqlite3.Error:
        raise ValueError(
            f"{path} is no ledger of a gateway, or is damaged; name that file, or a ledger's folder"
        ) from None


def _key() -> bytes:
    return Ledger().subkey(b"epsworth-gateway")


def _hash(person: str, key: bytes) -> bytes:
    return hashlib.blake2b(person.encode(), key=key, digest_size=16).digest()


def _check(file: sqlite3.Connection, key: bytes, path: Path) -> None:
    """Refuse a file of another version or key, with which everybody would start from nothing."""
    if file.execute("SELECT version, key FROM about").fetchone() != (VERSION, _hash(MARKED, key)):
        raise ValueError(
            f"the ledger {path} was written with another key or by another version, so nobody knows what left "
            "before; set EPSWORTH_STATE to the folder that holds its key"
        )


def _spent(file: sqlite3.Connection, person: bytes) -> tuple[Fraction, Fraction]:
    epsilon = delta = Fraction(0)
    for draws, cost, of_delta in file.execute(
        "SELECT draws, epsilon, delta FROM charges JOIN policies USING (policy) WHERE person = ?", (person,)
    ):
        epsilon, delta = epsilon + draws * _exact(cost), delta + draws * Fraction(of_delta)
    return epsilon, delta


@lru_cache(maxsize=64)
def _exact(text: str) -> Fraction:
    return Fraction(Decimal(text))
