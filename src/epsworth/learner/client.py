"""`Client`: one user's report, and which row it is about, where that follows from a public seed and the user's id.

A number below ``size`` for an id is the first word, modulo ``size``, that lies below the last multiple of it, of the
words of SHA-256(m, 0), SHA-256(m, 1), ..: each digest is four words of eight bytes, the first byte the highest, the
number behind m has eight bytes likewise, and m is, each preceded by its length in eight bytes, the texts
"epsworth learner, by hash", the seed, the fingerprint, the purpose, and the id, in UTF-8.

The seed is drawn and published *after* the ids are registered: whoever knows it before tries ids until one has the row
that it wants.  Ids must not derive from records: a row tells of the id, and everybody sees the row.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from epsworth.guarantees import Pure
from epsworth.learner.coins import WORD, Ints
from epsworth.learner.config import ClientConfig, checked_config
from epsworth.learner.mechanism import Rowed
from epsworth.learner.tables.config import Purpose, TableConfig
from epsworth.learner.tables.rounds import Round, Step
from epsworth.learner.wire import pack
from epsworth.mechanisms.words import SystemWords, WordSource
from epsworth.numerals import short
from epsworth.policy.ledger.ids import refusal
from epsworth.refusals import alone

MARK = 16  # bytes of an id's mark: of a billion ids two share one with probability 1e-21
Seed = str | bytes


class Client:
    """The part that runs on a user's device.

    Claim: one report keeps pure epsilon-LDP for the pair (point, label): its bits are drawn from integer weights with
    randomness of the operating system, which cannot be seeded.  k reports of one user keep k epsilon.  No value of a
    record is refused, since a missing report would tell of it: what cannot be used is encoded as the reserved symbol
    "outside" (`admitted`); only where the configuration says ``outside="refuse"`` is the claim about those who report.
    With ``rows="hash"`` the same holds given the row, which must not derive from a record.

    Parameters
    ----------
    config : LatticeConfig, Round or ScoreAudit

    Examples
    --------
    >>> from epsworth.learner import Client, LatticeConfig
    >>> client = Client(LatticeConfig(box=(0, 1), m=8, epsilon=1))
    >>> len(client.report([0.3], 1)) == client.config.report_size
    True
    """

    def __init__(self, config: ClientConfig) -> None:
        self.config = checked_config(config)

    def report(self, x: ArrayLike, y: object, *, row: int | None = None) -> bytes:
        """Return the report of one user: point ``(d,)`` in natural units, and label.

        With ``rows="hash"``, and only then, it is about the ``row`` that the user's id has: `assigned_rows`.
        """
        return self.reports([x], [y], rows=None if row is None else [row])  # type: ignore[arg-type]

    @alone()
    def reports(self, X: ArrayLike, y: ArrayLike | Sequence[object], *, rows: ArrayLike | None = None) -> bytes:
        """Return one report per row, end to end: for a device that keeps several records, or a trusted proxy."""
        row = checked_rows(self.config, rows)  # before anything is seen of the records
        users = self.config.admitted(X, y)
        if row is not None and row.size != users.label.size:
            raise ValueError(f"X has {users.label.size} rows but rows has {row.size} numbers; give one per report")
        return drawn_reports(self.config, users, SystemWords(), row)

    def guarantee(self, reports: int = 1) -> Pure:
        """Return what this many reports of one user keep together: epsilons add."""
        if isinstance(reports, bool) or not isinstance(reports, int) or reports < 1:
            raise ValueError(f"reports must be a whole number of at least 1, got {short(reports)}")
        return self.config.promise(reports)


def drawn_reports(config: ClientConfig, users: Any, words: WordSource, row: Ints | None = None) -> bytes:
    """Return one report per checked user, end to end, drawn with these words."""
    kernel = config.kernel
    messages = kernel.draw(users, words) if row is None else kernel.draw_at(users, row, words)
    return pack(config, kernel.format.encode(messages))


def assigned_rows(config: ClientConfig, users: Iterable[str], seed: Seed) -> Ints:
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


def called(config: ClientConfig, users: Iterable[str] | None, seed: Seed | None) -> Called:
    """Return the rows of users; refuse ids that are none, or stand twice."""
    if config.rows != "hash":
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
    return Called(_rows(config, ids, key), ids, key, config.session)


def roll_of(config: ClientConfig, users: Iterable[str], seed: Seed | None) -> dict[str, int | None]:
    """Return who may report, and about which row, None where clients draw it: of a round only those who answer it."""
    if config.rows != "hash":
        if seed is not None:
            raise ValueError("seed belongs to rows='hash'; this configuration's clients draw their rows: leave it out")
        return dict.fromkeys(one.decode() for one in _registered(users))
    if seed is None:
        raise ValueError("seed is missing: with rows='hash' the public seed and an id say which row is reported")
    ids, key = _registered(users), seed_bytes(seed)
    if isinstance(config, Round):
        rounds = _rounds(config.config, ids, key)
        ids = [one for one, purpose in zip(ids, rounds, strict=True) if purpose == config.purpose]
    return {one.decode(): row for one, row in zip(ids, _rows(config, ids, key).tolist(), strict=True)}


def _registered(users: Iterable[str]) -> list[bytes]:
    ids, first = _ids(users), dict[bytes, int]()
    for number, one in enumerate(ids):
        if (before := first.setdefault(one, number)) < number:
            raise ValueError(f"users: number {number} is the same as number {before}; one report per user")
    return ids


def _rows(config: ClientConfig, ids: Sequence[bytes], key: bytes) -> Ints:
    kernel: Rowed = config.kernel
    purpose = "row"
    if isinstance(config, Step):
        purpose = f"row of {config.purpose if isinstance(config, Round) else config.mechanism}"
    return kernel.rows_at(numbers_by_hash(kernel.named, ids, key, config.session, purpose))


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
    return _rounds(config, _ids(users), seed_bytes(seed))


def _rounds(config: TableConfig, ids: Sequence[bytes], seed: bytes) -> list[Purpose]:
    whole = math.lcm(*(share.denominator for _, share in config.shares))
    ends = np.cumsum([int(share * whole) for _, share in config.shares])
    numbers = numbers_by_hash(whole, ids, seed, config.fingerprint(), "round")
    return [config.shares[at].purpose for at in np.searchsorted(ends, numbers, side="right").tolist()]


def checked_rows(config: ClientConfig, rows: ArrayLike | None) -> Ints | None:
    """Return the rows that reports are to be about, None where clients draw them; refuse what is neither."""
    if config.rows != "hash":
        if rows is not None:
            raise ValueError("rows belong to rows='hash'; this configuration's clients draw their own: leave them out")
        return None
    if rows is None:
        raise ValueError("rows are missing: with rows='hash' give assigned_rows(config, users, seed), one per report")
    found, below = np.asarray(rows), config.kernel.rows_in_all
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


def _ids(users: Iterable[str]) -> list[bytes]:
    """Return ids as bytes; what is none by the rule of ledgers could report twice, and is refused."""
    if isinstance(users, (str, bytes)) or not isinstance(users, Iterable):
        raise ValueError(f"users must be a list of ids, one per report, got {short(users)}; put a single one in a list")
    found = list(users)
    for number, user in enumerate(found):
        if not isinstance(user, str):
            raise ValueError(f"users: number {number} must be a text that is not empty; write a number as its text")
        if (why := refusal(user)) is not None:
            raise ValueError(f"users: number {number} {why}")
    return [user.encode() for user in found]


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
