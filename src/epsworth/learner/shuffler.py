"""The trusted shuffler: full batches of checked reports, in random order, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from epsworth.files import check_writable, replacing
from epsworth.learner.aggregation import BATCH, MAGIC, Aggregator, begins_with
from epsworth.learner.client import Seed, roll_of
from epsworth.learner.config import ClientConfig
from epsworth.learner.report_files import (
    PACKED,
    Part,
    checked_sources,
    is_lines,
    read_line,
    refuse_files,
    report_blocks,
)
from epsworth.learner.wire import unpack
from epsworth.mechanisms.words import SystemWords, random_order
from epsworth.numerals import whole

LONGEST_LINE = 1 << 16  # bytes: a report takes a few dozen, and an id may be long


class Batch(NamedTuple):
    """What became of a batch: how many reports are good, and whether they were forwarded.

    Attributes
    ----------
    reports, forwarded
    smallest_row : int, optional
        With ``rows="hash"``: how many of them are about the row that has the fewest.  Only these hide each other.
    refused : dict, optional
        How many were dropped, by reason; None without ids, where one bad report refuses all.

    Examples
    --------
    >>> from epsworth.learner import Batch
    >>> Batch(reports=12, forwarded=False).forwarded
    False
    """

    reports: int
    forwarded: bool
    smallest_row: int | None = None
    refused: dict[str, int] | None = None


def shuffle_files(
    config: ClientConfig,
    sources: Sequence[str | Path],
    destination: str | Path,
    *,
    at_least: int,
    registered: Iterable[str] | None = None,
    seed: Seed | None = None,
) -> Batch:
    r"""Forward reports as a trusted shuffler does: checked, in an order that tells nothing, in full batches alone.

    Claim: the file written is a uniformly random permutation of the reports, by the operating system's randomness; it
    holds nothing of names, ids, files or arrival, and is written only where ``at_least`` reports hide each other.  With
    ``registered`` ids it holds one report at most of each, and with ``rows="hash"`` only such as are about their id's
    row; without ids it is for the shuffler's door to see to that no user sends two.

    Parameters
    ----------
    config : LatticeConfig, Round or ScoreAudit
    sources : paths
        ``.ldp`` and ``.jsonl`` files of reports, held in memory; with ``registered`` JSON lines ``{"id": "..",
        "report": ".."}``, the report in base 64.
    destination : path
        ``.ldp``: reports end to end.
    at_least : int
        The number that was planned with: a smaller batch is held back, and it returns a Batch not ``forwarded``.
        With ``rows="hash"`` it is of the reports of the smallest row, since whoever knows an id knows its row.
    registered : sequence of str, optional
        The ids of this batch's users, which ``rows="hash"`` needs, with the public ``seed``.  Reports of others, the
        second one of an id, those about another row and damaged lines are dropped and counted: no sender can stop a
        batch.  Somebody who is registered for two batches reports twice.

    Raises
    ------
    ValueError
        For states, a file that is named twice, another ending; without ids also for damaged or foreign reports.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from epsworth.learner import LatticeConfig, shuffle_files, write_reports
    >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     arrived, batch = Path(folder, "arrived.ldp"), Path(folder, "batch.ldp")
    ...     sent = write_reports(config, [[0.2], [0.9]], [0, 1], arrived)
    ...     [shuffle_files(config, [arrived], batch, at_least=n)[:2] for n in (2, 3)]
    [(2, True), (2, False)]
    """
    least = whole("at_least", at_least, least=2)
    roll = None
    if registered is not None:
        roll = roll_of(config, registered, seed)
    else:
        refuse_files(config)
        if seed is not None:
            raise ValueError("seed is for rows='hash', beside the registered ids; leave it out")
    target = check_writable(destination)
    if target.suffix != PACKED:
        raise ValueError(f"{target} has an unknown ending; a batch is written as {PACKED}, reports end to end")
    paths = checked_sources(sources, target)
    if roll is None:
        reports = list(_checked(config, paths))
        count = sum(map(len, reports)) // config.report_size
        found = Batch(count, count >= least)
    else:
        collector = _Collector(config, roll)
        for path in paths:
            collector.read(path)
        reports, found = collector.reports, collector.batch(least)
    if found.forwarded:
        with replacing(target) as temporary:
            held = np.frombuffer(b"".join(reports), dtype=np.uint8).reshape(-1, config.report_size)
            temporary.write_bytes(held[random_order(SystemWords().words, len(held))].tobytes())
    return found


def _checked(config: ClientConfig, paths: Sequence[Path]) -> Iterable[bytes]:
    """Yield blocks of reports that carry no name, all of which must be good."""
    checked = Aggregator(config)
    for path in paths:
        if begins_with(path, MAGIC):
            raise ValueError(f"{path} is the state of an aggregation, which holds no reports; name files of reports")
        try:
            for block in report_blocks(config, Part(path, 0, path.stat().st_size)):
                checked.add(block)
                yield block
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


class _Collector:
    """Takes reports with ids: one of each registered id, about its row; all else is dropped and counted."""

    def __init__(self, config: ClientConfig, roll: Mapping[str, int | None]) -> None:
        self.config, self.roll = config, roll
        self.sent: set[str] = set()
        self.reports: list[bytes] = []
        self.refused: Counter[str] = Counter()
        self.by_row = [0] * config.kernel.rows_in_all if config.rows == "hash" else None

    def read(self, path: Path) -> None:
        """Take a file of JSON lines."""
        if not is_lines(path):
            raise ValueError(f"{path}: reports beside ids are JSON lines, one {{'id': .., 'report': ..}} a line")
        with path.open("rb") as stream:
            while lines := stream.readlines(BATCH):
                pairs = [_pair(line) for line in lines if line.strip()]
                good = [pair for pair in pairs if pair is not None]
                messages = _messages(self.config, [report for _, report in good])
                for (user, report), message in zip(good, messages, strict=True):
                    self._take(user, report, message)
                self.refused["damaged"] += len(pairs) - len(good)

    def _take(self, user: str, report: bytes, message: Any) -> None:
        if message is None:
            self.refused["damaged"] += 1
        elif user not in self.roll:
            self.refused["of no registered id"] += 1
        elif (row := self.roll[user]) is not None and row != message // 2:
            self.refused["about another row"] += 1
        elif user in self.sent:
            self.refused["second of an id"] += 1
        else:
            self.sent.add(user)
            self.reports.append(report)
            if row is not None and self.by_row is not None:
                self.by_row[row] += 1

    def batch(self, least: int) -> Batch:
        """Return what was collected, and whether that is enough."""
        smallest = None if self.by_row is None else min(self.by_row)
        hiding = len(self.reports) if smallest is None else smallest
        return Batch(len(self.reports), hiding >= least, smallest, dict(+self.refused))


def _pair(line: bytes) -> tuple[str, bytes] | None:
    """Return a line's id and report; None of a line that holds none, or is longer than any client's."""
    if len(line) > LONGEST_LINE:
        return None
    try:
        user, report = read_line(line)
    except ValueError:
        return None
    return None if user is None else (user, report)


def _messages(config: ClientConfig, reports: Sequence[bytes]) -> list[Any]:
    """Return each report's message, None of one that no client of this configuration sends."""
    if all(len(report) == config.report_size for report in reports):
        try:
            return list(config.kernel.format.decode(unpack(config, b"".join(reports)))) if reports else []
        except ValueError:
            pass
    return [None] if len(reports) == 1 else [one for report in reports for one in _messages(config, [report])]
