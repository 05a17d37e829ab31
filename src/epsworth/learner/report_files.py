"""Files of reports: packed (``.ldp``: reports end to end) or JSON lines, written whole, read in bounded memory."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from numpy.typing import ArrayLike

from epsworth.files import check_distinct, check_writable, replacing
from epsworth.learner.aggregation import BATCH, MAGIC, Aggregator
from epsworth.learner.asked import Asked
from epsworth.learner.assignment import refuse_files
from epsworth.learner.client import drawn_reports
from epsworth.mechanisms.words import SystemWords, WordSource
from epsworth.parallel import in_order
from epsworth.tables import column, selected

PACKED, LINES = ".ldp", (".jsonl", ".ndjson")
TABLES = {".csv": "write_csv", ".parquet": "write_parquet", ".jsonl": "write_ndjson", ".ndjson": "write_ndjson"}
ROWS = 1 << 16  # reported at a time
PART = 1 << 24  # bytes that one worker adds up, or as many as there are bytes of counters


def write_reports(config: Asked, X: ArrayLike, y: ArrayLike, path: str | Path) -> int:
    """Write one report per row, fit for release; return how many.

    Parameters
    ----------
    config : LatticeConfig, Round or ScoreAudit
        What clients and server agree on.
    X, y : array_like
        Points ``(n, d)`` in natural units, and labels.
    path : path
        ``.ldp`` or ``.jsonl``.

    Raises
    ------
    ValueError
        For another ending and points of another shape; nothing is written then.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from epsworth.learner import LatticeConfig, write_reports
    >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "reports.ldp")
    ...     count = write_reports(config, [[0.2], [0.9]], [0, 1], path)
    ...     size = path.stat().st_size
    >>> count, size == count * config.report_size
    (2, True)
    """
    refuse_files(config)
    destination = check_writable(path)
    as_lines = is_lines(destination)
    users = config.admitted(X, y)  # refuse before anything is written
    with replacing(destination) as temporary:
        draw(config, users, temporary, lambda index: SystemWords(), as_lines=as_lines)
    return int(users.label.size)


def draw(config: Asked, users: Any, path: Path, words: Callable[[int], WordSource], *, as_lines: bool) -> None:
    """Write one report per checked user; part k, of `ROWS` users, is drawn with ``words(k)``."""
    with path.open("wb") as sink:
        for index, start in enumerate(range(0, users.label.size, ROWS)):
            reports = drawn_reports(config, users.part(slice(start, start + ROWS)), words(index))
            sink.write(_lines(reports, config.report_size) if as_lines else reports)


def columns(config: Asked, table: Any) -> Any:
    """Return the configuration's features of a data frame."""
    for name in config.names:
        column(table, name)
    return selected(table, config.names)


class Part(NamedTuple):
    """A run of whole reports of a file."""

    path: Path
    start: int
    stop: int


def aggregate_files(
    config: Asked,
    sources: Sequence[str | Path],
    *,
    shuffled: bool = False,
    n_jobs: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Aggregator:
    """Return the sums over files of reports and states of aggregators, in bounded memory.

    Claim: the same state, to the bit, for every number of workers, order of files and way to split them.

    Parameters
    ----------
    config : LatticeConfig, Round or ScoreAudit
        What clients and server agree on.
    sources : paths
        ``.ldp`` and ``.jsonl`` files of reports, or files that `Aggregator.save` wrote.
    shuffled : bool
        The files of reports are batches of a trusted shuffler (`shuffle_files`): with ``rows="hash"``, and only then,
        it must be told that rows and ids were checked, since the files hold none.
    n_jobs : int, optional
        Local processes; -1 for all cores.  None leaves it to ``joblib.parallel_config``, by default serial: with
        ``backend="dask"`` a cluster adds up, whose workers must see the files under the same paths.
    progress : callable, optional
        Told the share that is done.

    Raises
    ------
    ValueError
        For files that are not there, of another ending or configuration, cut or changed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from epsworth.learner import LatticeConfig, aggregate_files, write_reports
    >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [Path(folder, "monday.ldp"), Path(folder, "tuesday.ldp")]
    ...     sent = [write_reports(config, [[0.2], [0.9]], [0, 1], path) for path in paths]
    ...     aggregate = aggregate_files(config, paths)
    >>> sent, aggregate.users
    ([2, 2], 4)

    Notes
    -----
    Machines that share no files save a state each, and one merges the states.
    """
    paths = [Path(source) for source in sources]
    check_sources(paths)
    parts = [part for path in paths for part in _parts(config, path)]
    total = Aggregator(config)
    for number, found in enumerate(in_order(partial(_aggregate, config, shuffled), parts, n_jobs=n_jobs), 1):
        total = total.merge(found)
        progress(number / len(parts))
    return total


def check_sources(paths: Sequence[Path], destination: Path | None = None) -> None:
    """Refuse a file that is named twice, or that is to be written, too."""
    for number, path in enumerate(paths):
        if destination is not None:
            check_distinct(source=path, destination=destination)
        for other in paths[:number]:
            try:
                check_distinct(one=path, other=other)
            except ValueError:
                raise ValueError(f"{path} is named twice: every report counts once; drop it") from None


def _parts(config: Asked, path: Path) -> Iterator[Part]:
    """Cut a packed file at whole reports; other files stay whole."""
    if not path.is_file():
        raise ValueError(f"cannot read the reports {path}: there is no such file; check the path")
    size, unit = os.path.getsize(path), config.report_size
    whole = is_lines(path) or _is_state(path)
    step = size if whole else max(PART, config.kernel.empty().counts.nbytes) // unit * unit
    for start in range(0, size, max(step, unit)):
        yield Part(path, start, min(size, start + max(step, unit)))


def _aggregate(config: Asked, shuffled: bool, part: Part) -> Aggregator:
    if _is_state(part.path):
        held = Aggregator.load(part.path)
        try:
            return Aggregator(config).merge(held)
        except ValueError as error:
            raise ValueError(f"{part.path}: {error}") from None
    if not shuffled:
        refuse_files(config)
    found = Aggregator(config)
    with part.path.open("rb") as stream:
        try:
            for reports in (
                _packed_of_lines(stream) if is_lines(part.path) else _packed(stream, part, config.report_size)
            ):
                found.add(reports, shuffled=shuffled)
        except ValueError as error:
            after = f", after {part.start // config.report_size + found.users:,} good ones"
            raise ValueError(f"{part.path}: {error}{after}") from None
    return found


def report_blocks(config: Asked, path: Path) -> Iterator[bytes | list[bytes]]:
    """Yield the reports of a file as they lie there, in bounded memory; a state, which holds none, is refused."""
    if not path.is_file():
        raise ValueError(f"cannot read the reports {path}: there is no such file; check the path")
    if _is_state(path):
        raise ValueError(f"{path} is the state of an aggregation, which holds no reports; name files of reports")
    lines = is_lines(path)
    with path.open("rb") as stream:
        if lines:
            try:
                yield from _packed_of_lines(stream)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
        else:
            yield from _packed(stream, Part(path, 0, os.path.getsize(path)), config.report_size)


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
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError('a line is not {"report": "..."}; it was damaged: drop it') from None


def _lines(reports: bytes, size: int) -> bytes:
    encoded = (base64.b64encode(reports[i : i + size]).decode() for i in range(0, len(reports), size))
    return "".join(f'{{"report": "{text}"}}\n' for text in encoded).encode()


def write_table(table: Any, path: Path) -> None:
    """Write a data frame in the format of its file's ending, whole or not at all."""
    method = TABLES[check_table(path)]
    with replacing(path) as temporary:
        getattr(table, method)(temporary)


def check_table(path: Path) -> str:
    """Return the ending of a table that can be written, or refuse it."""
    ending = path.suffix.lower()
    if ending not in TABLES:
        raise ValueError(f"{path} has an unknown ending; tables are written as {', '.join(TABLES)}")
    check_writable(path)
    return ending


def _is_state(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def is_lines(path: Path) -> bool:
    """Tell files of JSON lines from packed ones by their ending; others are refused."""
    if path.suffix not in (PACKED, *LINES):
        if path.is_file() and _is_state(path):
            return False
        raise ValueError(f"{path} has an unknown ending; reports are {PACKED} or {', '.join(LINES)} files")
    return path.suffix in LINES
