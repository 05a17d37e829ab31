"""Reports of whole tables and files: packed (``.ldp``: reports end to end) or JSON lines, written whole or not at all.

`write_reports` reports rows at hand, `report_file` a table of a file whose people are charged, and `aggregate_files`
adds reports up in bounded memory.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from epsworth.files import check_distinct, check_name, check_writable, file_sha256, replacing
from epsworth.learner.aggregation import BATCH, MAGIC, Aggregator, begins_with
from epsworth.learner.client import Seed, drawn_reports, roll_of, seed_bytes
from epsworth.learner.coins import Ints
from epsworth.learner.config import ClientConfig, Configuration
from epsworth.learner.tables.rounds import Step
from epsworth.learner.wire import joined
from epsworth.mechanisms.words import SystemWords, WordSource
from epsworth.numerals import short
from epsworth.parallel import in_order
from epsworth.policy.files.file_tables import PartWords
from epsworth.policy.files.outputs import execute_run
from epsworth.policy.ledger import Amount, ChargeRequest, Identity, Ledger, Run, RunTerms
from epsworth.tables import column, selected

PACKED, LINES = ".ldp", (".jsonl", ".ndjson")
ROWS = 1 << 16  # reported at a time
PART = 1 << 24  # bytes that one worker adds up, or as many as there are bytes of counters
VERSION = 2  # of the way from words to reports


def write_reports(config: ClientConfig, X: ArrayLike, y: ArrayLike, path: str | Path) -> int:
    """Write one report per row, fit for release, to a ``.ldp`` or ``.jsonl`` file; return how many.

    ``config``, ``X`` and ``y`` are as for `Client.reports`.  Another ending of ``path`` and points of another shape are
    refused before anything is written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from epsworth.learner import LatticeConfig, write_reports
    >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_reports(config, [[0.2], [0.9]], [0, 1], Path(folder, "reports.ldp"))
    2
    """
    refuse_files(config)
    destination = check_writable(path)
    as_lines = is_lines(destination)
    users = config.admitted(X, y)  # refuse before anything is written
    with replacing(destination) as temporary:
        draw(config, users, temporary, lambda index: SystemWords(), as_lines=as_lines)
    return int(users.label.size)


class Assigned(NamedTuple):
    """The ids of users, in order, and the rows that their reports are about."""

    ids: list[str]
    rows: Ints


def draw(
    config: ClientConfig, users: Any, path: Path, words: Callable[[int], WordSource], *, as_lines: bool,
    assigned: Assigned | None = None,
) -> None:  # fmt: skip
    """Write one report per checked user; part k, of `ROWS` users, is drawn with ``words(k)``."""
    with path.open("wb") as sink:
        for index, start in enumerate(range(0, users.label.size, ROWS)):
            run = slice(start, start + ROWS)
            ids, rows = (None, None) if assigned is None else (assigned.ids[run], assigned.rows[run])
            reports = drawn_reports(config, users.part(run), words(index), rows)
            sink.write(_lines(reports, config.report_size, ids) if as_lines else reports)


def columns(config: Configuration, table: Any) -> Any:
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
    config: ClientConfig,
    sources: Sequence[str | Path],
    *,
    shuffled: bool = False,
    n_jobs: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Aggregator:
    """Return the sums over files of reports and states of aggregators, in bounded memory.

    Claim: the same state, to the bit, for every number of workers, order of files and way to split them; batches of a
    shuffler stay whole.

    Parameters
    ----------
    config : LatticeConfig, Round or ScoreAudit
    sources : paths
        ``.ldp`` and ``.jsonl`` files of reports, or states of `Aggregator.save`, as machines that share no files do.
    shuffled : bool
        The files of reports are batches of a trusted shuffler (`shuffle_files`): with ``rows="hash"``, and only then,
        it must be told that rows and ids were checked, since the files hold none.  A batch counts once: the same
        reports in the same order under another name, or in a state that holds them, are refused.  What arrived and was
        shuffled twice is not recognised.
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
    ...     aggregate_files(config, paths).users
    4
    """
    paths = checked_sources(sources)
    parts = [part for path in paths for part in _parts(config, path)]
    total = Aggregator(config)
    sums = in_order(partial(_aggregate, config, shuffled), parts, n_jobs=n_jobs)
    for number, (part, found) in enumerate(zip(parts, sums, strict=True), 1):
        try:
            total = total.merge(found)
        except ValueError as error:
            raise ValueError(f"{part.path}: {error}") from None
        progress(number / len(parts))
    return total


def refuse_files(config: ClientConfig) -> None:
    """Refuse files of reports, which hold no ids."""
    if config.rows == "hash":
        raise ValueError(
            "files of reports hold no ids, which rows='hash' needs; let a shuffler check ids and rows (learn shuffle "
            "--registered, shuffle_files), and aggregate its batches as shuffled=True; or add reports "
            "with Aggregator.add(reports, users=ids, seed=seed)"
        )


def checked_sources(sources: Sequence[str | Path], destination: Path | None = None) -> list[Path]:
    """Return the files named; refuse one that is named twice, or that is to be written, too."""
    if isinstance(sources, (str, bytes, os.PathLike)):
        raise ValueError(f"sources must be a list of files, got {short(str(sources))}; put a single one in a list")
    paths = [Path(source) for source in sources]
    for number, path in enumerate(paths):
        if not path.is_file():
            raise ValueError(f"cannot read the reports {path}: there is no such file; check the path")
        if destination is not None:
            check_distinct(source=path, destination=destination)
        if any(path.samefile(other) for other in paths[:number]):
            raise ValueError(f"{path} is named twice: every report counts once; drop it")
    return paths


def _parts(config: ClientConfig, path: Path) -> Iterator[Part]:
    """Cut a packed file at whole reports; other files stay whole."""
    size, unit = os.path.getsize(path), config.report_size
    whole = is_lines(path) or begins_with(path, MAGIC)
    step = size if whole else max(PART, config.kernel.empty().counts.nbytes) // unit * unit
    for start in range(0, size, max(step, unit)):
        yield Part(path, start, min(size, start + max(step, unit)))


def _aggregate(config: ClientConfig, shuffled: bool, part: Part) -> Aggregator:
    if begins_with(part.path, MAGIC):
        return Aggregator.load(part.path)
    if not shuffled:
        refuse_files(config)
    found, digest = Aggregator(config), hashlib.sha256()
    try:
        for reports in report_blocks(config, part, shuffled=shuffled):
            found.add(reports, shuffled=shuffled)
            if shuffled:
                digest.update(reports)
    except ValueError as error:
        after = f", after {part.start // config.report_size + found.users:,} good ones"
        raise ValueError(f"{part.path}: {error}{after}") from None
    if shuffled and part.start == 0 and found.users:
        whole = part.stop >= os.path.getsize(part.path)  # else of all parts
        found.batches = frozenset([digest.hexdigest() if whole else file_sha256(part.path)])
    return found


def report_blocks(config: ClientConfig, part: Part, *, shuffled: bool = False) -> Iterator[bytes]:
    """Yield the reports of a part of a file as they lie there, in bounded memory; shuffled ones have no ids."""
    with part.path.open("rb") as stream:
        if is_lines(part.path):
            yield from _packed_of_lines(stream, config, shuffled)
        else:
            yield from _packed(stream, part, config.report_size)


def _packed(stream: BinaryIO, part: Part, size: int) -> Iterator[bytes]:
    stream.seek(part.start)
    left, step = part.stop - part.start, max(1, BATCH // size) * size
    while left > 0 and (block := stream.read(min(step, left))):
        left -= len(block)
        yield block


def _packed_of_lines(stream: BinaryIO, config: ClientConfig, shuffled: bool) -> Iterator[bytes]:
    while lines := stream.readlines(BATCH):
        found = [read_line(line) for line in lines if line.strip()]
        if shuffled and any(user is not None for user, _ in found):
            raise ValueError("its lines have ids, so that no shuffler has checked and dropped them; shuffle it first")
        if found:
            yield joined(config, (report for _, report in found))


def read_line(line: bytes) -> tuple[str | None, bytes]:
    """Return a line's id, None where it states none, and its report; refuse a line that holds anything else."""
    try:
        members = json.loads(line, object_pairs_hook=_members)
        report, user = members.pop("report"), members.pop("id", None)
        if not members and (user is None or isinstance(user, str)):
            return user, base64.b64decode(report, validate=True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise ValueError('a line is not {"report": "..."}, alone or beside an "id"; it was damaged: drop it')


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a member stands twice")
    return found


def _lines(reports: bytes, size: int, ids: Sequence[str] | None) -> bytes:
    encoded = (base64.b64encode(reports[i : i + size]).decode() for i in range(0, len(reports), size))
    if ids is None:
        return "".join(f'{{"report": "{text}"}}\n' for text in encoded).encode()
    return "".join(
        json.dumps({"id": one, "report": text}) + "\n" for one, text in zip(ids, encoded, strict=True)
    ).encode()


def is_lines(path: Path) -> bool:
    """Tell files of JSON lines from packed ones by their ending; others are refused."""
    if path.suffix not in (PACKED, *LINES):
        if begins_with(path, MAGIC):
            return False
        raise ValueError(f"{path} has an unknown ending; reports are {PACKED} or {', '.join(LINES)} files")
    return path.suffix in LINES


def report_file(
    config: ClientConfig,
    source: Path,
    destination: Path,
    target: str,
    *,
    person: str | None = None,
    cap: Amount | None = None,
    max_rows_per_person: int | None = None,
    ledger: str | Path | None = None,
    again: bool = False,
    sep: str = ",",
    seed: Seed | None = None,
) -> int:
    """Report a table's rows to a file, and return how many; refuse records that left before, unless told.

    Claim: nobody is charged more than ``cap`` over all runs of the ledger; k reports of one user tell k epsilon about
    them.  A run that was stopped goes on where the same is asked again, draws the same reports, and is charged once.

    Parameters
    ----------
    config : LatticeConfig, Round or ScoreAudit
    source, destination : paths
        The table, and the reports: ``.ldp`` or ``.jsonl``.
    target : str
        Column of labels.
    person : str, optional
        The column that says who a row is about.  Without it nobody knows, and the run is charged to everybody.
    cap : number or text, optional
        The largest sum of epsilons of a person over all runs; a ledger keeps what it was told first.
    max_rows_per_person : int, optional
        With ``person``: only the first so many rows of a person are reported, in the order of the table.  Without it:
        how many rows one person has at most, which nobody checks; else all rows may be one person's.
    ledger : path, optional
        Folder of the ledger; by default the account's own (``EPSWORTH_STATE``).
    again : bool
        Allow records to leave a second time: epsilons add.
    sep : str
        What separates the fields of CSV: a comma, semicolon, tab or bar.
    seed : str or bytes, optional
        With ``rows="hash"``, and only then: the public seed.  The ids are those of ``person``, who has one row, and the
        file is JSON lines of id and report, for a shuffler; of a round only those report who answer it.

    Raises
    ------
    ValueError
        For a table that lacks a column, where the ledger knows its records, and where a person would exceed the cap.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import polars as pl
    >>> from epsworth.learner import LatticeConfig, report_file
    >>> config = LatticeConfig(box=[(0, 100)], names=["age"], m=8, epsilon=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder, "table.csv")
    ...     pl.DataFrame({"id": [7, 8], "age": [30, 61], "sick": [0, 1]}).write_csv(table)
    ...     report_file(config, table, Path(folder, "reports.ldp"), "sick", person="id", ledger=Path(folder, "ledger"))
    2
    """
    terms = RunTerms(person, cap, None, max_rows_per_person, again)
    return reported(config, source, destination, target, terms, ledger, sep, seed)[0]


def reported(
    config: ClientConfig, source: Path, destination: Path, target: str, terms: RunTerms, ledger: str | Path | None,
    sep: str, seed: Seed | None,
) -> tuple[int, Run]:  # fmt: skip
    """Do what `report_file` says; return how many were reported, and what the ledger says of the run."""
    from epsworth.tables import read_texts

    _check_assigned(config, destination, terms.person, seed)
    store = Ledger(ledger)
    path, as_lines = check_name("output", check_writable(destination).resolve()), is_lines(destination)
    check_distinct(table=source, reports=path, **store.files)
    store.check_apart("output", path)
    digest = _digest(source, store)
    table = read_texts(source, sep=sep)  # no record decides how another one is read
    if _digest(source, store) != digest:
        raise ValueError(f"the table {source} changed while it was read; nothing was written: start anew")
    counts, person, most, roll = terms.counts, terms.person, terms.most, None
    if person is not None and counts is not None:
        hashes = store.hashes(column(table, person).to_list())
        if seed is not None:
            own = list(map(str, column(table, person).to_list()))
            roll = roll_of(config, dict.fromkeys(own), seed)
            here = np.array([one in roll for one in own])
            table, hashes = table.filter(here.tolist()), hashes[here]
        counts.add(hashes)
        table = table if (kept := counts.kept()) is None else table.filter(kept.tolist())
    assigned = None if person is None or roll is None else _assigned(column(table, person).to_list(), roll)
    users = config.admitted(columns(config, table), column(table, target))
    content = {"version": VERSION, "config": config.fingerprint(), "target": target, "lines": as_lines, "part": ROWS}
    if sep != ",":
        content["sep"] = sep
    if person is not None and most is not None:
        content["first rows"] = [person, most]
    if seed is not None:
        content["by hash"] = [person, hashlib.sha256(seed_bytes(seed)).hexdigest()]
    identity = Identity(json.dumps(content), digest, str(path))
    rows = int(users.label.size)
    request = ChargeRequest(
        config.session, config.budget, Fraction(0), rows, terms, "were reported", "before", _advice(config)
    )
    run = store.begin(request, identity, counts)

    def write(temporary: Path) -> None:
        assert run.key is not None  # only of a run that is done
        words = PartWords(run.key, identity.policy)
        draw(config, users, temporary, lambda index: words(index, digest), as_lines=as_lines, assigned=assigned)

    execute_run(store, run, request, path, write)
    return rows, run


def _advice(config: ClientConfig) -> str:
    """Say what to do where records were reported before: of a table's rounds each person answers one."""
    if not isinstance(config, Step):
        return f"another run adds epsilon {config.epsilon} per record: use the reports you have, or say again=True"
    one = "a record answers one round of a table: use the reports you have, or report other people's"
    return one if config.rows != "hash" else f"{one}; in another round, whose people ids tell, say again=True"


def _check_assigned(config: ClientConfig, destination: Path, person: str | None, seed: Seed | None) -> None:
    """Refuse a run whose rows follow from ids and a seed if one of them is missing, and others that name a seed."""
    if config.rows != "hash":
        if seed is not None:
            raise ValueError("seed belongs to rows='hash'; this configuration's clients draw their rows: leave it out")
        return
    if person is None or seed is None:
        raise ValueError("with rows='hash' an id and the public seed say which row is reported; give person= and seed=")
    if not is_lines(destination):
        raise ValueError(
            f"{destination} holds no ids, which rows='hash' needs beside reports; name a .jsonl file, for learn shuffle"
        )


def _assigned(ids: Sequence[Any], roll: Mapping[str, int | None]) -> Assigned:
    own = list(map(str, ids))
    if not own:
        raise ValueError("none of these people answers this round; report those of assigned_rounds(config, ids, seed)")
    if len(set(own)) < len(own):
        raise ValueError(
            "an id has several rows, but with rows='hash' one report; keep the first by max_rows_per_person=1"
        )
    return Assigned(own, np.array([roll[one] for one in own], dtype=np.int64))


def _digest(path: Path, store: Ledger) -> bytes:
    """Return a keyed hash of a file: without the ledger's key nobody can try out what it held."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(key=store.digest_key, digest_size=32)).digest()
