"""`Client`: one user's report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from epsworth.guarantees import Pure
from epsworth.learner.assignment import checked_rows
from epsworth.learner.coins import Ints
from epsworth.learner.config import Asked, checked_asked
from epsworth.learner.mechanism import Rowed
from epsworth.learner.wire import pack
from epsworth.mechanisms.words import SystemWords, WordSource
from epsworth.refusals import alone


class Client:
    """The part that runs on a user's device.

    Claim: one report keeps pure epsilon-LDP for the pair (point, label): its bits are drawn from integer weights with
    randomness of the operating system, which cannot be seeded.  k reports of one user keep k epsilon.  No value of a
    record is refused, since a missing report would tell of it: what cannot be used is reported as nowhere (`admitted`);
    only where the configuration says ``outside="refuse"`` is the claim about those who report.  With ``rows="hash"``
    the same holds given the row, which must not derive from a record.

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
        users = self.config.admitted(X, y)
        if row is not None and row.size != users.label.size:
            raise ValueError(f"X has {users.label.size} rows but rows has {row.size} numbers; give one per report")
        return drawn_reports(self.config, users, SystemWords(), row)

    def guarantee(self, reports: int = 1) -> Pure:
        """Return what this many reports of one user keep together: epsilons add."""
        if isinstance(reports, bool) or not isinstance(reports, int) or reports < 1:
            raise ValueError(f"reports must be a whole number of at least 1, got {reports!r}")
        return self.config.promise(reports)


def drawn_reports(config: Asked, users: Any, words: WordSource, row: Ints | None = None) -> bytes:
    """Return one report per checked user, end to end, drawn with these words."""
    kernel = config.kernel
    if row is None:
        return pack(config, kernel.format.encode(kernel.draw(users, words)))
    assert isinstance(kernel, Rowed)
    return pack(config, kernel.format.encode(kernel.draw_at(users, row, words)))
