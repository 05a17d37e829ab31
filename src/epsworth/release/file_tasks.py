"""What a worker does with one of many files: it reads it, or draws it.

Tasks carry secrets; what they return are public facts, keyed digests and keyed hashes.  Whatever goes wrong is
returned as a sentence: a traceback in a worker's log could show a value.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epsworth.files import check_readable
from epsworth.release.file_tables import FileTable, Seen, file_table, keyed
from epsworth.release.ledger import RowCounts
from epsworth.release.ledger.ids import Hashes, hashes
from epsworth.release.outputs import appear, hash_of, hidden, is_there, on_disk
from epsworth.release.parts import PartWords, derivation
from epsworth.release.policy import Policy
from epsworth.release.tables import Perturbation
from epsworth.release.withheld import is_ours

PERSON = b"epsworth-file"
WIDTH = 32  # bytes of keys and digests
TRIES = 4  # of a file whose hidden output was taken away: by another driver of the run, which was done


class Secret:
    """Bytes that texts, logs, dashboards and traces do not show."""

    __slots__ = ("bytes",)

    def __init__(self, content: bytes) -> None:
        self.bytes = content

    def __repr__(self) -> str:
        """Return a text without them."""
        return "Secret()"


@dataclass(frozen=True)
class Failure:
    """Why a file could not be read, or written: a sentence that names it, and holds no value."""

    index: int
    sentence: str


@dataclass(frozen=True)
class Found:
    """What the first reading of a file found: keyed digests and hashes of ids, and their rows (None: one each)."""

    index: int
    seen: Seen = field(repr=False)
    people: Hashes | None = field(default=None, repr=False)
    counts: NDArray[np.int64] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Written:
    """One file of a release: public facts."""

    index: int
    name: str
    rows: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """One of the files, and how it is read."""

    index: int
    path: Path = field(repr=False)
    kind: str
    policy: Policy = field(repr=False)
    unit: str | None
    digest_key: Secret

    def table(self) -> FileTable:
        """Return the table in the file."""
        check_readable(self.path, "table")
        key = self.digest_key.bytes
        return file_table(self.kind, _ready(self.policy), self.path, self.unit, lambda content: keyed(key, content))


class Task(Protocol):
    """What a worker is sent."""

    @property
    def source(self) -> Source:
        """The file that it is about."""

    def run(self) -> Found | Written:
        """Do it, on any machine, any number of times."""


@dataclass(frozen=True)
class Reading:
    """The first reading: check, digest, count; nothing is drawn."""

    source: Source
    id_key: Secret | None

    def run(self) -> Found:
        """Read the file once."""
        if self.id_key is None:
            return Found(self.source.index, self.source.table().seen())
        counts, key = RowCounts(), self.id_key.bytes
        seen = self.source.table().seen(lambda ids: counts.add(hashes(ids, key)))
        people, rows = counts.sorted()
        several = None if len(people) == counts.rows else rows.astype(np.int64)
        return Found(self.source.index, seen, people, several)


@dataclass(frozen=True)
class Drawing:
    """The second reading: draw under the file's key, verify, and move the whole output into place.

    Attributes
    ----------
    source : Source
    seen : Seen
        What the first reading found; other bytes are refused.
    output : Path
    identity : str
        What is drawn, as `parts.derivation` says it.
    key : Secret or None
        The file's; None where the run is done, and its key is gone.
    recorded : str or None
        The sha256 of the output, where it was written before: if the file has it, it is left as it is.
    mark : str
        Of hidden files: the run, and who drives it.
    """

    source: Source
    seen: Seen = field(repr=False)
    output: Path = field(repr=False)
    identity: str = field(repr=False)
    key: Secret | None
    recorded: str | None
    mark: str

    def run(self) -> Written:
        """Leave the output as it was, or make it again: with the same key every time the same bytes."""
        if self.recorded is not None and is_there(self.output, self.recorded):
            return Written(self.source.index, self.output.name, self.seen.rows, self.recorded)
        if self.key is None:
            raise ValueError(
                f"{self.output} is not what its run wrote, and the run is done, so its key is gone; restore the file, "
                "or give another folder and say --again (again=True)"
            )
        if derivation(self.source.policy, self.source.kind) != self.identity:
            raise ValueError("a worker has another version of epsworth, which would draw otherwise; install the same")
        for _ in range(TRIES):
            try:
                return self._drawn(self.key.bytes)
            except FileNotFoundError:  # another driver of this run was done, and removed what it took for remains
                continue
        raise ValueError(f"{self.output}: its hidden files disappear while they are written; run it again")

    def _drawn(self, key: bytes) -> Written:
        """Write the output to a hidden file of one's own, and move it."""
        words = PartWords(key, self.identity)
        with hidden(self.output, self.mark) as temporary:
            rows = self.source.table().write(self.seen, words, temporary)
            if rows != self.seen.rows:
                raise RuntimeError(f"{rows} rows were drawn for a table of {self.seen.rows}; nothing was written")
            on_disk(temporary)
            sha256 = hash_of(temporary)
            appear(temporary, self.output)
        return Written(self.source.index, self.output.name, rows, sha256)


def attempt(task: Task) -> Found | Written | Failure:
    """Do a task; what goes wrong comes back as a sentence, for a traceback tells its locals to whoever logs it."""
    try:
        return task.run()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in compiled code is no Exception, and quotes what it was about
        return Failure(task.source.index, f"{task.source.path.name}: {_told(error)}")


def _told(error: BaseException) -> str:
    """Return our own sentences, of others no more than their kind: they may quote a value."""
    if is_ours(error):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}; check the path and the space left"
    return f"a worker failed ({type(error).__name__}); perturb this file by itself to see more"


def file_key(run_key: bytes, index: int, digest: bytes, identity: str) -> bytes:
    """Return the key of one file of a run: who has it can draw this file, and no other."""
    drawn = hashlib.blake2b(identity.encode(), digest_size=WIDTH).digest()
    message = index.to_bytes(8, "little") + digest + drawn
    return hashlib.blake2b(message, key=run_key, digest_size=WIDTH, person=PERSON).digest()


@lru_cache(maxsize=2)
def _ready(policy: Policy) -> Perturbation:
    """Return the policy's tables of values, made once in a worker."""
    return Perturbation(policy)
