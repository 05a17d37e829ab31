"""`Client`: one user's report, and the bytes that carry it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.guarantees import Pure
from epsworth.learner.asked import Asked, checked_asked
from epsworth.learner.assignment import checked_rows
from epsworth.learner.coins import Ints
from epsworth.learner.config import PREFIX
from epsworth.learner.rows import Rowed
from epsworth.learner.tables.kernels import Question
from epsworth.learner.wire import Bytes
from epsworth.mechanisms.words import SystemWords, WordSource
from epsworth.refusals import alone

PRIME = 4294967291  # the largest below 2^32
EXACT = 8192  # so many products of a byte and a number below the prime add up to less than 2^53: exact in floats


class Client:
    """The part that runs on a user's device.

    Claim: one report keeps pure epsilon-LDP for the pair (point, label): its bits are drawn from integer weights with
    randomness of the operating system, which cannot be seeded.  k reports of one user keep k epsilon.  No value of a
    record is refused, since a missing report would tell of it: what cannot be used is reported as nowhere (`admitted`);
    only where the configuration says ``outside="refuse"`` is the claim about those who report.  With ``rows="hash"``
    the same holds given the row, which must not derive from a record.

    Parameters
    ----------
    config : LatticeConfig

    Examples
    --------
    >>> from epsworth.learner import Client, LatticeConfig, assigned_rows
    >>> client = Client(LatticeConfig(box=(0, 1), m=8, epsilon=1))
    >>> len(client.report([0.3], 1)) == client.config.report_size
    True
    >>> assigned = LatticeConfig(box=(0, 1), m=8, epsilon=1, rows="hash")
    >>> (row,) = assigned_rows(assigned, ["ann"], seed="published when all ids were registered")
    >>> report = Client(assigned).report([0.3], 1, row=row)
    """

    def __init__(self, config: Asked) -> None:
        self.config = checked_asked(config)

    def report(self, x: ArrayLike, y: object, *, row: int | None = None) -> bytes:
        """Return the report of one user: point ``(d,)`` in natural units, and label.

        With ``rows="hash"``, and only then, it is about the ``row`` that the user's id has: `assigned_rows`.
        """
        return self.reports([x], [y], rows=None if row is None else [row])  # type: ignore[arg-type]

    @alone()
    def reports(self, X: ArrayLike, y: ArrayLike | Sequence[object], *, rows: ArrayLike | None = None) -> bytes:
        """Return one report per row, end to end: for a device that keeps several records, or a trusted proxy."""
        row = checked_rows(self.config, rows)  # before anything is seen of the records
        return self.of_users(self.config.admitted(X, y), row)

    def of_users(self, users: Any, row: Ints | None = None) -> bytes:
        """Return one report per checked user, end to end, about the rows that are assigned to them if any are."""
        if row is None:
            checked_rows(self.config, None)
        elif row.size != users.label.size:
            raise ValueError(f"X has {users.label.size} rows but rows has {row.size} numbers; give one per report")
        return drawn_reports(self.config, users, SystemWords(), row)

    def guarantee(self, reports: int = 1) -> Pure:
        """Return what this many reports of one user keep together: epsilons add.

        Examples
        --------
        >>> from epsworth.learner import Client, LatticeConfig
        >>> Client(LatticeConfig(box=(0, 1), m=8, epsilon=1)).guarantee(reports=3).epsilon
        3.0
        """
        if isinstance(reports, bool) or not isinstance(reports, int) or reports < 1:
            raise ValueError(f"reports must be a whole number of at least 1, got {reports!r}")
        return self.config.promise(reports)


def drawn_reports(config: Asked, users: Any, words: WordSource, row: Ints | None = None) -> bytes:
    """Return one report per checked user, end to end, drawn with these words."""
    kernel = config.kernel
    if row is None:
        return pack(config, kernel.format.encode(kernel.draw(users, words)))
    assert isinstance(kernel, (Rowed, Question))
    return pack(config, kernel.format.encode(kernel.draw_at(users, row, words)))


def pack(config: Asked, messages: Bytes) -> bytes:
    """Put the fingerprint before each message and a check behind it."""
    n = len(messages)
    found = np.empty((n, config.report_size), dtype=np.uint8)
    found[:, :PREFIX] = _prefix(config.fingerprint())
    found[:, PREFIX:-4] = messages
    found[:, -4:] = check(found[:, :-4]).astype("<u4").view(np.uint8).reshape(n, 4)
    return found.tobytes()


def unpack(config: Asked, data: bytes | bytearray | memoryview) -> Bytes:
    """Return the messages of reports that lie end to end; refuse the first that is not one of this configuration."""
    size = config.report_size
    if len(data) == 0 or len(data) % size:
        raise ValueError(
            f"got {len(data)} bytes, but a report of this configuration has {size}; one was cut or is foreign"
        )
    found = np.frombuffer(data, dtype=np.uint8).reshape(-1, size)
    foreign = np.ascontiguousarray(found[:, :PREFIX]).view("<u8").ravel() != _prefix(config.fingerprint()).view("<u8")
    if foreign.any():
        raise ValueError(
            f"report {int(np.argmax(foreign))}: its fingerprint is not {config.fingerprint()[: 2 * PREFIX]}: it was "
            "made for another configuration, or damaged; aggregate it apart"
        )
    damaged = check(found[:, :-4]) != np.ascontiguousarray(found[:, -4:]).view("<u4").ravel()
    if damaged.any():
        raise ValueError(f"report {int(np.argmax(damaged))}: it was damaged on its way (its check fails); drop it")
    return found[:, PREFIX:-4]


def check(rows: Bytes) -> Ints:
    """Return a polynomial of the bytes modulo a prime: no single damaged byte, and no swap, goes unseen."""
    powers = _powers(rows.shape[1])
    runs = (slice(start, start + EXACT) for start in range(0, rows.shape[1], EXACT))
    sums = [(rows[:, run].astype(np.float64) @ powers[run]).astype(np.int64) % PRIME for run in runs]
    return sums[0] if len(sums) == 1 else np.asarray(np.sum(sums, axis=0) % PRIME)


@cache
def _powers(count: int) -> Floats:
    """Return powers of 257 modulo the prime."""
    powers = [1.0]
    for _ in range(count - 1):
        powers.append(powers[-1] * 257 % PRIME)
    return np.array(powers)


@cache
def _prefix(fingerprint: str) -> Bytes:
    return np.frombuffer(bytes.fromhex(fingerprint[: 2 * PREFIX]), dtype=np.uint8)
