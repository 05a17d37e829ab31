"""Files of reports: packed (``.ldp``: reports end to end) or JSON lines, written whole, read in bounded memory."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import reduce
from multiprocessing import get_context
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.files import check_writable, replacing
from epsworth.learner.aggregation import BATCH, MAGIC, Aggregator
from epsworth.learner.client import Client
from epsworth.learner.config import LatticeConfig
from epsworth.release.ledger import Ledger, fingerprint_of

PACKED, LINES = ".ldp", (".jsonl", ".ndjson")
ROWS = 1 << 16  # reported at a time


def write_reports(config: LatticeConfig, X: ArrayLike, y: ArrayLike, path: str | Path) -> int:
    """Write one report per row, fit for release; return how many.

    Parameters
    ----------
    path : path
        ``.ldp`` or ``.jsonl``.
    """
    target, client = check_writable(path), Client(config)
    as_lines = _is_lines(target)
    points, labels = as_floats(X), np.asarray(y)
    n = config.users(points, labels).label.size  # refuse before anything is written
    with replacing(target) as temporary, temporary.open("wb") as sink:
        for start in range(0, n, ROWS):
            rows = slice(start, start + ROWS)
            reports = client.reports(points[rows], labels[rows])
            sink.write(_lines(reports, config.report_size) if as_lines else reports)
    return int(n)


def report_file(config: LatticeConfig, source: Path, target: Path, target_column: str, *, again: bool = False) -> int:
    """Report a table's rows to a file; refuse records that left before under this configuration, unless told.

    The ledger beside the target knows what left (see `Ledger`): k reports of one user tell k alpha about them.
    """
    from epsworth.records import read_table

    table = read_table(source)
    X, y = columns(config, table), column(table, target_column).to_numpy()
    ledger, records = Ledger(check_writable(target).resolve().parent), fingerprint_of(source)
    before = [entry for entry in ledger.entries(records) if entry["policy"] == config.fingerprint()]
    if before and not again:
        raise ValueError(
            f"these records were reported {len(before)} time{'s' * (len(before) > 1)} before (ledger {ledger.path}); "
            f"once more adds alpha {config.alpha} per record: use the reports you have, or say --again"
        )
    config.users(X, y)
    _is_lines(target)  # whatever can be refused is refused before it counts as sent
    ledger.add(records, config.fingerprint(), len(y), config.guarantee.epsilon)  # a run that is killed counts as sent
    return write_reports(config, X, y, target)


def columns(config: LatticeConfig, table: Any) -> Floats:
    """Return the configuration's features of a data frame as an array ``(n, d)``."""
    for name in config.names:
        column(table, name)
    try:
        return as_floats(table.select(list(config.names)).to_numpy())
    except (TypeError, ValueError):
        raise ValueError(f"the columns {', '.join(config.names)} must hold numbers; recode them") from None


def column(table: Any, name: str) -> Any:
    """Return a column of a data frame, or say which there are."""
    if name not in table.columns:
        raise ValueError(f"the table has no column {name!r}; it has {', '.join(table.columns)}")
    return table[name]


class Part(NamedTuple):
    """A run of whole reports of a file."""

    path: Path
    start: int
    stop: int


def aggregate_files(
    config: LatticeConfig,
    sources: Sequence[str | Path],
    *,
    jobs: int = 1,
    progress: Callable[[float], None] = lambda share: None,
) -> Aggregator:
    """Return the sums over files of reports and states of aggregators, in bounded memory.

    Claim: the same state, to the bit, for every number of processes, order of files and way to split them.  On a
    cluster each machine saves its state, and one merges the states.

    Parameters
    ----------
    sources : paths
        ``.ldp`` and ``.jsonl`` files of reports, or files that `Aggregator.save` wrote.
    jobs : int
        Local processes.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    parts = [part for source in sources for part in _parts(config, Path(source), jobs)]
    total = Aggregator(config)
    if jobs == 1 or len(parts) == 1:
        for number, part in enumerate(parts, 1):
            total = total.merge(_aggregate(config, part))
            progress(number / len(parts))
        return total
    with ProcessPoolExecutor(min(jobs, len(parts)), mp_context=get_context("spawn")) as pool:
        found = pool.map(_aggregate, [config] * len(parts), parts)
        return reduce(Aggregator.merge, found, total)


def _parts(config: LatticeConfig, path: Path, jobs: int) -> Iterator[Part]:
    """Cut a packed file at whole reports; other files stay whole."""
    if not path.is_file():
        raise ValueError(f"cannot read the reports {path}: there is no such file; check the path")
    size, unit = os.path.getsize(path), config.report_size
    step = size if _is_lines(path) or _is_state(path) else -(-size // unit // (4 * jobs)) * unit
    for start in range(0, size, max(step, unit)):
        yield Part(path, start, min(size, start + max(step, unit)))


def _aggregate(config: LatticeConfig, part: Part) -> Aggregator:
    if _is_state(part.path):
        return Aggregator(config).merge(Aggregator.load(part.path))
    found = Aggregator(config)
    with part.path.open("rb") as stream:
        try:
            for reports in (
                _packed_of_lines(stream) if _is_lines(part.path) else _packed(stream, part, config.report_size)
            ):
                found.add(reports)
        except ValueError as error:
            after = f", after {part.start // config.report_size + found.users:,} good ones"
            raise ValueError(f"{part.path}: {error}{after}") from None
    return found


def _packed(stream: BinaryIO, part: Part, size: int) -> Iterator[bytes]:
    stream.seek(part.start)
    left, step = part.stop - part.start, max(1, BATCH // size) * size
    while left > 0 and (block := stream.read(min(step, left))):
        left -= len(block)
        yield block


def _packed_of_lines(stream: BinaryIO) -> Iterator[bytes | list[bytes]]:
    while lines := stream.readlines(BATCH):
        try:
            yield [base64.b64decode(json.loads(line)["report"], validate=True) for line in lines if line.strip()]
        except (ValueError, KeyError, TypeError):
            raise ValueError('a line is not {"report": "..."}; it was damaged: drop it') from None


def _lines(reports: bytes, size: int) -> bytes:
    encoded = (base64.b64encode(reports[i : i + size]).decode() for i in range(0, len(reports), size))
    return "".join(f'{{"report": "{text}"}}\n' for text in encoded).encode()


def _is_state(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def _is_lines(path: Path) -> bool:
    if path.suffix not in (PACKED, *LINES):
        if path.is_file() and _is_state(path):
            return False
        raise ValueError(f"{path} has an unknown ending; reports are {PACKED} or {', '.join(LINES)} files")
    return path.suffix in LINES
