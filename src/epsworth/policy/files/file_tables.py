"""Tables in files, read twice: once to be checked, when nothing is drawn, and once to be drawn and written.

Between the two readings the release is charged; parts that fit into memory are held meanwhile, and read once.  What is
drawn for a part is a function of its bytes and its words, so parts may be drawn in any order, by any process, and again
after a run that died.  Words are derived from the run's key, which arises in the transaction that charges it
(`Ledger.begin`): equal parts give equal bytes, so k executions of a run show what one shows (Goldreich, Goldwasser &
Micali 1986: a pseudorandom function of the part).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from itertools import chain, compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from epsworth import csv_grammar
from epsworth.arrays import Bools
from epsworth.lines import parts, placing
from epsworth.mechanisms.kernels import Kernel
from epsworth.mechanisms.words import KeyedWords
from epsworth.policy.ledger.ids import Count, Ids, count_ids
from epsworth.policy.policy import Policy
from epsworth.policy.tables import Perturbation
from epsworth.refusals import alone

PERSON = b"epsworth-part"
VERSION = 1  # of the way from words to outputs: where that changes no run goes on with what another one began
WIDTH = 32  # bytes of keys and digests


class PartWords:
    """The words of a run's parts.

    Parameters
    ----------
    key : bytes
        The run's.
    identity : str
        What is drawn, as `derivation` says it.
    """

    def __init__(self, key: bytes, identity: str) -> None:
        self._key, self._identity = key, hashlib.blake2b(identity.encode(), digest_size=WIDTH).digest()

    def __call__(self, index: int, digest: bytes) -> KeyedWords:
        """Return the words of part ``index``, whose bytes have this digest: no word may move to another row."""
        part = index.to_bytes(8, "little") + digest + self._identity
        return KeyedWords(hashlib.blake2b(part, key=self._key, digest_size=WIDTH, person=PERSON).digest())


def derivation(policy: Policy, kind: str, person: str | None = None, most: int | None = None) -> str:
    """Return the text that names everything besides words and input that an output is a function of."""
    content = {
        "version": VERSION,
        "policy": policy.fingerprint,
        "kernels": [_integers(rule.kernel) for rule in policy.rules],
        "format": kind,
    }
    if person is not None and most is not None:
        content["first rows"] = [person, most]
    return json.dumps(content, sort_keys=True)


def _integers(kernel: Kernel) -> str:
    """Return a hash of the integers that a kernel draws by."""
    found = hashlib.blake2b(type(kernel).__name__.encode(), digest_size=WIDTH)
    for named in fields(kernel):
        value = getattr(kernel, named.name)
        shown = np.asarray(value).tobytes().hex() if isinstance(value, np.ndarray) else _text(value)
        found.update(f"|{named.name}={shown}".encode())
    return found.hexdigest()


def _text(value: object) -> str:
    return _integers(value) if isinstance(value, Kernel) else repr(value)


if TYPE_CHECKING:
    from epsworth.mechanisms.words import WordSource

Digest = Callable[[bytes], bytes]
WordsOf = Callable[[int, bytes], "WordSource | None"]
Progress = Callable[[float], None]
WINDOW = 8  # parts in hand per process
DIGEST = 32  # bytes


@dataclass(frozen=True)
class FirstReading:
    """What the first reading found.

    Attributes
    ----------
    header : bytes
        The digest of what stands before the records, or of the columns' names and types.
    parts : tuple of bytes
        The digest of every part, in order.
    rows : int
    columns : tuple of str
        Their names; none where every record has its own.
    kept : array of bool, optional
        Which rows are released; by default all.
    held : tuple of Held
        The first parts, ready to be drawn.
    """

    header: bytes
    parts: tuple[bytes, ...]
    rows: int
    columns: tuple[str, ...] = ()
    kept: Bools | None = None
    held: tuple[Held, ...] = field(default=(), repr=False, compare=False)

    @property
    def released(self) -> int:
        """How many rows are released."""
        return self.rows if self.kept is None else int(self.kept.sum())

    @property
    def digest(self) -> bytes:
        """The digest of the whole, from those of its parts in their order."""
        return hashlib.blake2b(self.header + b"".join(self.parts), digest_size=DIGEST).digest()


class FileTable(ABC):
    """A file that holds a table.

    Parameters
    ----------
    perturbation : Perturbation
    path : str or Path
        A regular file: it is read twice.
    person : str, optional
        The column that says whose a row is.
    digest : callable
        A keyed digest; by default under a key of this object's own, which nothing else ever has.
    """

    def __init__(
        self, perturbation: Perturbation, path: str | Path, person: str | None = None, digest: Digest | None = None
    ) -> None:
        self.perturbation, self.path, self.person = perturbation, Path(path), person
        self.digest = digest or partial(keyed, os.urandom(DIGEST))

    @abstractmethod
    def seen(self, count: Count | None = None, progress: Progress | None = None, *, hold: int = 0) -> FirstReading:
        """Read the file once and refuse what could not be released; nothing is drawn.

        Parameters
        ----------
        count : callable, optional
            Called with the ids of every part: an array of whole numbers, or a list of numbers and texts.
        progress : callable, optional
            Called with the share that is read.
        hold : int
            Bytes, of lines or of columns, that may stay in memory until they are drawn.
        """

    @abstractmethod
    def write(
        self, seen: FirstReading, words: WordsOf, sink: Path, progress: Progress | None = None, *, jobs: int | None = 1
    ) -> int:
        """Read the file again, draw every part and write it; return the number of released rows.

        Parameters
        ----------
        seen : FirstReading
            A part whose digest differs from what was seen is not drawn.
        words : callable
            From the number of a part and its digest to its random words; None stands for the system's.
        sink : Path
            Nothing in it may be used before this returns.
        jobs : int, optional
            Processes that draw parts side by side; ``words`` must then be picklable.
        """

    def changed(self, *, charged: bool = True) -> ValueError:
        """Return the refusal of a file that changed, as a rule between its readings."""
        told = f"the table {self.path} changed while it was read; nothing was written"
        if not charged:
            return ValueError(f"{told}: start anew")
        return ValueError(
            f"{told}, but the run is charged: put the file back as it was and give the same command again, which ends "
            "the run without another charge; until then its key stays in the ledger"
        )


class Held(NamedTuple):
    """One part that stays in memory: what it says, and how many rows it has."""

    read: Any
    rows: int


class Taken(NamedTuple):
    """One part, taken from a file."""

    number: int
    content: bytes
    first: int
    digest: bytes


class Records(ABC):
    """How the parts of one file are read and written; may be sent to other processes, without words."""

    perturbation: Perturbation

    @abstractmethod
    def told(self) -> tuple[Any, ...]:
        """Return what it is made from, beside the policy."""

    @abstractmethod
    def rows(self, part: bytes) -> int:
        """Return how many records a part holds."""

    def lines(self, part: bytes) -> list[bytes]:
        """Return the lines that hold a record each."""
        return io.BytesIO(part).readlines()

    @abstractmethod
    def read(self, part: bytes, first: int, *, whole: bool = True) -> Any:
        """Return a part as it is understood, or refuse what could not be released; ``whole``: fit for `release`."""

    @abstractmethod
    def ids(self, read: Any) -> Ids | None:
        """Return whose the rows are, if a column says it."""

    @abstractmethod
    def release(self, read: Any, words: WordSource | None) -> bytes:
        """Return a part with its perturbed fields replaced."""


class TextTable(FileTable):
    """A file of lines; without blank ones every line is a row."""

    rows_are_lines = True

    @abstractmethod
    def _opened(self, stream: BinaryIO) -> tuple[bytes, bytes, tuple[str, ...], Records]:
        """Read what stands before the records; return it, what is written for it, the columns, and the records."""

    @alone()
    def seen(self, count: Count | None = None, progress: Progress | None = None, *, hold: int = 0) -> FirstReading:
        """Read the lines once."""
        digests: list[bytes] = []
        held: list[Held] = []
        rows, size, read = 0, max(1, os.path.getsize(self.path)), 0
        with self.path.open("rb") as stream:
            header, _, columns, records = self._opened(stream)
            line = header.count(b"\n") + 1
            for part in parts(stream, line):
                stays = read + len(part) <= hold
                with placing(self.path, line if self.rows_are_lines else None):
                    understood = records.read(part, rows, whole=stays)
                    ids = records.ids(understood)
                    if count is not None and ids is not None and self.person is not None:
                        count_ids(count, ids, self.person, rows)
                digests.append(self.digest(part))
                count_of = records.rows(part)
                if stays:
                    held.append(Held(understood, count_of))
                rows, read = rows + count_of, read + len(part)
                if progress is not None:
                    progress(min(1.0, (len(header) + read) / size))
        if progress is not None:
            progress(1.0)
        return FirstReading(self.digest(header), tuple(digests), rows, columns, held=tuple(held))

    @alone()
    def write(
        self, seen: FirstReading, words: WordsOf, sink: Path, progress: Progress | None = None, *, jobs: int | None = 1
    ) -> int:
        """Draw the parts and write them in order."""
        done = 0
        with self.path.open("rb") as stream, sink.open("wb") as target:
            header, released, _, records = self._opened(stream)
            if self.digest(header) != seen.header:
                raise self.changed()
            target.write(released)
            for part, rows in chain(
                _of_held(records, seen, words),
                _released(records, self._taken(stream, seen, records, header.count(b"\n") + 1), words, jobs),
            ):
                target.write(part)
                done += rows
                if progress is not None:
                    progress(min(1.0, done / max(1, seen.released)))
        if done != seen.released:
            raise self.changed()
        if progress is not None:
            progress(1.0)
        return done

    def _taken(self, stream: BinaryIO, seen: FirstReading, records: Records, line: int) -> Iterator[Taken]:
        first = number = 0
        if len(seen.held) == len(seen.parts):
            return
        for number, part in enumerate(parts(stream, line), start=1):
            if number <= len(seen.held):
                first += seen.held[number - 1].rows
                continue
            digest = self.digest(part)
            if number > len(seen.parts) or digest != seen.parts[number - 1]:
                raise self.changed()
            rows = records.rows(part)
            if seen.kept is not None:
                part = b"".join(compress(records.lines(part), seen.kept[first : first + rows]))
            if part:
                yield Taken(number - 1, part, first, digest)
            first += rows
        if number != len(seen.parts):
            raise self.changed()


def _of_held(records: Records, seen: FirstReading, words: WordsOf) -> Iterator[tuple[bytes, int]]:
    """Yield the parts that are still in memory as they are released, and their rows."""
    for number, (held, digest) in enumerate(zip(seen.held, seen.parts, strict=False)):
        yield records.release(held.read, words(number, digest)), held.rows


def _released(
    records: Records, taken: Iterator[Taken], words: WordsOf, jobs: int | None
) -> Iterator[tuple[bytes, int]]:
    """Yield the released parts in order, and their rows; as many are in memory as the processes need."""
    if jobs == 1:
        for part in taken:
            yield _drawn(records, part, words), records.rows(part.content)
        return
    from joblib import effective_n_jobs

    from epsworth.parallel import in_order

    work = partial(_elsewhere, pickle.dumps((type(records), records.perturbation.policy, records.told(), words)))
    while window := list(islice(taken, WINDOW * effective_n_jobs(jobs))):
        for part, released in zip(window, in_order(work, window, n_jobs=jobs), strict=True):
            yield released, records.rows(part.content)


def _elsewhere(told: bytes, part: Taken) -> bytes:
    records, words = _made(told)
    return _drawn(records, part, words)


def _drawn(records: Records, part: Taken, words: WordsOf) -> bytes:
    return records.release(records.read(part.content, part.first), words(part.number, part.digest))


@lru_cache(maxsize=2)
def _made(told: bytes) -> tuple[Records, WordsOf]:
    """Return records as another process made them; their tables of values are built once."""
    kind, policy, given, words = pickle.loads(told)
    return kind(Perturbation(policy), *given), words


def keyed(key: bytes, content: bytes) -> bytes:
    """Return a keyed digest of a part of an input: without the key it confirms no guess of a row."""
    return hashlib.blake2b(content, key=key, digest_size=DIGEST).digest()


def with_sep(kind: str, sep: str) -> str:
    """Return the kind of files, csv with what separates its fields where that is no comma.

    Examples
    --------
    >>> with_sep("csv", ";"), with_sep("csv", ",")
    ('csv;', 'csv')
    """
    csv_grammar.check_sep(sep)
    if sep == ",":
        return kind
    if kind != "csv":
        raise ValueError(f"sep is about CSV, and the table is {kind}; leave it out")
    return kind + sep


def file_table(
    kind: str,
    perturbation: Perturbation,
    path: str | Path,
    person: str | None = None,
    digest: Digest | None = None,
) -> FileTable:
    """Return a table in a file of a kind: csv (see `with_sep`), jsonl or parquet."""
    from epsworth.policy.files.csv_table import CsvTable
    from epsworth.policy.files.json_table import JsonTable
    from epsworth.policy.files.parquet_table import ParquetTable

    kinds: dict[str, type[FileTable]] = {"csv": CsvTable, "jsonl": JsonTable, "parquet": ParquetTable}
    if kind.startswith("csv") and kind != "csv":
        table = CsvTable(perturbation, path, person, digest)
        table.sep = kind.removeprefix("csv")
        return table
    if kind not in kinds:
        raise ValueError(f"the format must be csv, jsonl or parquet, got {kind!r}")
    return kinds[kind](perturbation, path, person, digest)
