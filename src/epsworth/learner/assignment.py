"""Rows by hash: what a report is about follows from a public seed and the user's id, so that nobody chooses it.

A number below ``size`` for an id is the first word, modulo ``size``, that lies below the last multiple of it, of the
words of SHA-256(m, 0), SHA-256(m, 1), ..: each digest is four words of eight bytes, the first byte the highest, the
number behind m has eight bytes likewise, and m is, each preceded by its length in eight bytes, the texts
"epsworth learner, by hash", the seed, the fingerprint, the purpose, and the id, in UTF-8.

The seed is drawn and published *after* the ids are registered: whoever knows it before tries ids until one has the row
that it wants.  Ids must not derive from records: a row tells of the id, and everybody sees the row.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from epsworth.learner.coins import WORD, Ints
from epsworth.learner.config import Asked
from epsworth.learner.mechanism import Rowed
from epsworth.learner.tables.config import Purpose, TableConfig
from epsworth.learner.tables.rounds import Round, Step
from epsworth.numerals import short
from epsworth.policy.ledger.ids import refusal

MARK = 16  # bytes of an id's mark: of a billion ids two share one with probability 1e-21
Seed = str | bytes


def assigned_rows(config: Asked, users: Iterable[str], seed: Seed) -> Ints:
    """Return the row that each user's report must be about ``(n,)``, for a configuration with ``rows="hash"``.

    Rows are uniform, as SHA-256 is.

    Parameters
    ----------
    config : LatticeConfig, Round or ScoreAudit
    users : sequence of str
        Ids as they were registered, before the public ``seed`` was known; nothing in them may derive from a record.
        Ids that are no texts or stand twice are refused, and an empty seed.

    Examples
    --------
    >>> from epsworth.learner import LatticeConfig, assigned_rows
    >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1, rows="hash")
    >>> assigned_rows(config, ["ann", "bob", "eve"], "a public seed").tolist()
    [1, 2, 0]
    """
    return called(config, users, seed).rows


class Called(NamedTuple):
    """Users of one call, each once: their rows, and all that their marks are made of."""

    rows: Ints
    ids: list[bytes]
    key: bytes
    fingerprint: str

    @property
    def seed(self) -> str:
        """A digest of the seed."""
        return hashlib.sha256(self.key).hexdigest()

    def marks(self) -> list[bytes]:
        """Return what is kept of the ids."""
        return [block[:MARK] for block in digests(self.ids, self.key, self.fingerprint, "reported")]


def called(config: Asked, users: Iterable[str] | None, seed: Seed | None) -> Called:
    """Return the rows of users; refuse ids that are none, or stand twice."""
    kernel = config.kernel
    if config.rows != "hash" or not isinstance(kernel, Rowed):
        raise ValueError(
            "users and seed belong to rows='hash'; this configuration's clients draw their rows: leave both"
        )
    if users is None or seed is None:
        what = "users" if users is None else "seed"
        raise ValueError(
            f"{what} is missing: with rows='hash' a user's id and the public seed say which row is reported"
        )
    ids, key = _registered(users), seed_bytes(seed)
    if isinstance(config, Round):
        for number, purpose in enumerate(_rounds(config.config, ids, key)):
            if purpose != config.purpose:
                raise ValueError(
                    f"users: number {number} answers the round of {purpose}, not of {config.purpose}; see "
                    "assigned_rounds"
                )
    return Called(_rows(config, kernel, ids, key), ids, key, config.session)


def roll_of(config: Asked, users: Iterable[str], seed: Seed | None) -> dict[str, int | None]:
    """Return who may report, and about which row, None where clients draw it: of a round only those who answer it."""
    kernel = config.kernel
    if config.rows != "hash" or not isinstance(kernel, Rowed):
        if seed is not None:
            raise ValueError("seed belongs to rows='hash'; this configuration's clients draw their rows: leave it out")
        return dict.fromkeys(one.decode() for one in _registered(users))
    if seed is None:
        raise ValueError("seed is missing: with rows='hash' the public seed and an id say which row is reported")
    ids, key = _registered(users), seed_bytes(seed)
    if isinstance(config, Round):
        rounds = _rounds(config.config, ids, key)
        ids = [one for one, purpose in zip(ids, rounds, strict=True) if purpose == config.purpose]
    return {one.decode(): row for one, row in zip(ids, _rows(config, kernel, ids, key).tolist(), strict=True)}


def _registered(users: Iterable[str]) -> list[bytes]:
    ids = list(map(_of_user, itertools.count(), _listed(users)))
    if len(set(ids)) < len(ids):
        first = {one: number for number, one in reversed(list(enumerate(ids)))}
        again = next(number for number, one in enumerate(ids) if first[one] < number)
        raise ValueError(f"users: number {again} is the same as number {first[ids[again]]}; one report per user")
    return ids


def _rows(config: Asked, kernel: Rowed, ids: Sequence[bytes], key: bytes) -> Ints:
    purpose = "row"
    if isinstance(config, Step):
        purpose = f"row of {config.purpose if isinstance(config, Round) else config.mechanism}"
    return kernel.rows_at(numbers_by_hash(kernel.named, ids, key, config.session, purpose))


def row_count(kernel: Rowed) -> int:
    """Return how many rows a report may be about."""
    return kernel.named if kernel.weights is None else len(kernel.weights)


def assigned_rounds(config: TableConfig, users: Iterable[str], seed: Seed) -> list[Purpose]:
    """Return the purpose of the round that each user answers, for a table with ``rows="hash"``, by the rounds' shares.

    ``config`` is the `TableConfig`; ``users``, ``seed`` and what is refused are as for `assigned_rows`.

    Examples
    --------
    >>> from epsworth.learner import Number, TableConfig, assigned_rounds
    >>> columns = [Number(name, 0, 1) for name in "abcde"]
    >>> table = TableConfig(columns, (0, 1), epsilon=1, users=100_000, rows="hash")
    >>> assigned_rounds(table, ["ann", "bob", "eve"], "a public seed")
    ['tables', 'weights', 'tables']
    """
    return _rounds(config, list(map(_of_user, itertools.count(), _listed(users))), seed_bytes(seed))


def _rounds(config: TableConfig, ids: Sequence[bytes], seed: bytes) -> list[Purpose]:
    whole = math.lcm(*(share.denominator for _, share in config.shares))
    ends = np.cumsum([int(share * whole) for _, share in config.shares])
    numbers = numbers_by_hash(whole, ids, seed, config.fingerprint(), "round")
    return [config.shares[at].purpose for at in np.searchsorted(ends, numbers, side="right").tolist()]


def checked_rows(config: Asked, rows: ArrayLike | None) -> Ints | None:
    """Return the rows that reports are to be about, None where clients draw them; refuse what is neither."""
    kernel = config.kernel
    if config.rows != "hash" or not isinstance(kernel, Rowed):
        if rows is not None:
            raise ValueError("rows belong to rows='hash'; this configuration's clients draw their own: leave them out")
        return None
    if rows is None:
        raise ValueError("rows are missing: with rows='hash' give assigned_rows(config, users, seed), one per report")
    found = np.asarray(rows)
    below = row_count(kernel)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not ((found >= 0) & (found < below)).all():
        raise ValueError(
            f"rows must be whole numbers from 0 to {below - 1}, one per report, got {short(rows)}; give what "
            "assigned_rows(config, users, seed) returns"
        )
    return found.astype(np.int64)


def numbers_by_hash(size: int, ids: Sequence[bytes], seed: bytes, fingerprint: str, purpose: str) -> Ints:
    """Return a number below ``size``, at most 2^63, for each id: exactly uniform if digests are; see the module."""
    found, left, number = np.empty(len(ids), dtype=np.int64), np.arange(len(ids)), 0
    last = WORD - WORD % size - 1
    while left.size:
        blocks = digests([ids[one] for one in left.tolist()], seed, fingerprint, purpose, number)
        words = np.frombuffer(b"".join(blocks), dtype=">u8").astype(np.uint64).reshape(-1, 4)
        taken = words <= np.uint64(last)
        word = words[np.arange(left.size), taken.argmax(axis=1)]
        some = taken.any(axis=1)
        found[left[some]] = (word % np.uint64(size))[some]
        left, number = left[~some], number + 1
    return found


def digests(ids: Iterable[bytes], seed: bytes, fingerprint: str, purpose: str, number: int = 0) -> list[bytes]:
    """Return each id's digest of this number."""
    before, behind = hashlib.sha256(), number.to_bytes(8, "big")
    for part in (b"epsworth learner, by hash", seed, fingerprint.encode(), purpose.encode()):
        before.update(_counted(part))
    found = []
    for one in ids:
        own = before.copy()
        own.update(_counted(one) + behind)
        found.append(own.digest())
    return found


def _counted(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part


def _listed(users: Iterable[str]) -> list[str]:
    if isinstance(users, (str, bytes)) or not isinstance(users, Iterable):
        raise ValueError(f"users must be a list of ids, one per report, got {short(users)}; put a single one in a list")
    return list(users)


def _of_user(number: int, user: object) -> bytes:
    """Return an id as bytes; what is none by the rule of ledgers could report twice, and is refused."""
    if not isinstance(user, str):
        raise ValueError(f"users: number {number} must be a text that is not empty; write a number as its text")
    if (why := refusal(user)) is not None:
        raise ValueError(f"users: number {number} {why}")
    return user.encode()


def seed_bytes(seed: object) -> bytes:
    """Return a seed as bytes; refuse what is none."""
    if isinstance(seed, bytes) and seed:
        return seed
    if not isinstance(seed, str) or not seed:
        raise ValueError(
            f"seed must be texts or bytes that are not empty, got {short(seed)}; write a number as its text"
        )
    try:
        return seed.encode()
    except UnicodeEncodeError:  # half of a character
        raise ValueError(f"seed must be texts that UTF-8 can write, got {short(seed)}; choose another") from None


class Roll:
    """Who reported under one seed: marks of ids, 16 bytes of a digest each.

    Whoever holds it and guesses an id can tell whether it reported, never what.
    """

    def __init__(self, seed: str = "", marks: Iterable[bytes] = ()) -> None:
        self.seed, self.marks = seed, set(marks)

    def check(self, seed: str, marks: Iterable[bytes]) -> None:
        """Refuse users of another seed, and those who reported before."""
        if self.marks and seed != self.seed:
            raise ValueError("seed: reports were added under another one; users of two seeds are aggregated apart")
        twice = next((number for number, mark in enumerate(marks) if mark in self.marks), None)
        if twice is not None:
            raise ValueError(f"users: number {twice} reported before; one report per user, drop the second")

    def add(self, seed: str, marks: Iterable[bytes]) -> None:
        """Enter users that were checked."""
        self.seed = seed
        self.marks.update(marks)

    def joined(self, other: Roll) -> Roll:
        """Return both, none of whose users may be in the other."""
        if not other.marks or not self.marks:
            return Roll(self.seed or other.seed, self.marks | other.marks)
        self.check(other.seed, ())
        if common := len(self.marks & other.marks):
            raise ValueError(f"{common} users reported to both; one report per user: aggregate them once")
        return Roll(self.seed, self.marks | other.marks)

    def body(self) -> bytes:
        """Return the marks in order."""
        return b"".join(sorted(self.marks))

    @classmethod
    def of_body(cls, seed: object, body: bytes, count: int) -> Roll:
        """Read `body`; refuse what is none."""
        marks = [body[start : start + MARK] for start in range(0, len(body), MARK)]
        ordered = all(one < other for one, other in itertools.pairwise(marks))
        if not isinstance(seed, str) or len(seed) != 64 or len(marks) != count or len(body) % MARK or not ordered:
            raise ValueError("the state's ids were changed after it was written; aggregate the reports again")
        return cls(seed, marks)


def refuse_other_rows(rows: Ints, assigned: Ints) -> None:
    """Refuse reports that are about another row than their user's."""
    other = rows != assigned
    if other.any():
        number = int(np.argmax(other))
        raise ValueError(
            f"report {number}: it is about row {int(rows[number])}, but its user's is {int(assigned[number])}; it is a "
            "fake, or stands beside another id: drop it"
        )


def refuse_files(config: Asked) -> None:
    """Refuse files of reports, which hold no ids."""
    if config.rows == "hash":
        raise ValueError(
            "files of reports hold no ids, which rows='hash' needs; let a shuffler check ids and rows (learn shuffle "
            "--registered, shuffle_files), and aggregate its batches as shuffled=True (--shuffled); or add reports "
            "with Aggregator.add(reports, users=ids, seed=seed)"
        )
