"""What a worker does with one of many files, and where tasks run: here, in processes, on a cluster, by a map.

A map gets a function and tasks and returns the results in any order.  Tasks may run twice, and workers may die: what
a task leaves must be the same whoever does it, and however often.  Tasks carry secrets; what they return are public
facts, keyed digests and keyed hashes.  Whatever goes wrong is returned as a sentence: a traceback in a worker's log
could show a value.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsworth.extras import needed
from epsworth.files import check_readable, file_sha256
from epsworth.numerals import short
from epsworth.parallel import MOST_WORKERS, client_of, end_with
from epsworth.policy.columns import is_ours
from epsworth.policy.files.file_tables import FileTable, FirstReading, PartWords, derivation, file_table, keyed
from epsworth.policy.files.outputs import appear, hidden, is_there, on_disk
from epsworth.policy.ledger import RowCounts
from epsworth.policy.ledger.ids import Hashes, hashes
from epsworth.policy.policy import Policy
from epsworth.policy.tables import Perturbation

Map = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
LIVES = 4  # workers that a task may lose one after the other, while nothing else is done either


@contextmanager
def chosen(workers: int = 1, cluster: str | None = None, own: Map | None = None) -> Iterator[Map]:
    """Yield the map that was asked for.

    Examples
    --------
    >>> with chosen() as here:
    ...     list(here(abs, [-1, 2]))
    [1, 2]
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= MOST_WORKERS:
        raise ValueError(f"workers must be a whole number of processes, at least 1, got {short(workers)}")
    if (workers > 1) + (cluster is not None) + (own is not None) > 1:
        raise ValueError("workers, cluster and map each say where the work is done; give one of them")
    if own is not None:
        yield own
    elif cluster is not None:
        with client_of(cluster, "sharing files with a cluster") as client:
            yield partial(_on_cluster, client)
    elif workers > 1:
        with closing(_Processes(workers)) as processes:
            yield processes
    else:
        yield map


class _Processes:
    """A map to processes of this machine, which live until it is closed; those that die are replaced."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool: Any = None

    def __call__(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield results as they come; what a process that died had in hand is done again."""
        from concurrent.futures import as_completed
        from concurrent.futures.process import BrokenProcessPool

        left, lives = dict(enumerate(tasks)), LIVES
        while left:
            before = len(left)
            try:
                futures = {self._started().submit(function, task): number for number, task in left.items()}
                for future in as_completed(futures):
                    error = future.exception()
                    if error is None:
                        del left[futures[future]]
                        yield future.result()
                    elif not isinstance(error, BrokenProcessPool):
                        raise _beyond(error)
            except BrokenProcessPool:
                pass  # while tasks were handed in
            finally:
                if left:  # a process died, or the caller wants no more
                    self.close()
            lives = LIVES if len(left) < before else lives - 1
            if not lives:
                raise _lost(len(left))

    def close(self) -> None:
        """End the processes, whatever they have in hand."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None

    def _started(self) -> Any:
        if self._pool is None:
            from joblib.externals.loky import ProcessPoolExecutor

            threads = str(max(1, (os.cpu_count() or 1) // self._workers))
            self._pool = ProcessPoolExecutor(
                self._workers, initializer=end_with, initargs=(os.getpid(),), env={"POLARS_MAX_THREADS": threads}
            )
        return self._pool


def _on_cluster(client: Any, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
    """Yield results as a cluster's workers bring them; Dask itself sends what lost workers had to others.

    Names of tasks are numbers: schedulers write them to logs and dashboards.
    """
    as_completed = needed("distributed", "cluster", "sharing files with a cluster").as_completed
    call, lives = secrets.token_hex(4), [LIVES] * len(tasks)
    futures = {}

    def submit(number: int) -> Any:
        key = f"epsworth-{call}-{number}-{lives[number]}"
        future = client.submit(function, tasks[number], key=key, pure=False, retries=LIVES)
        futures[future.key] = future, number
        return future

    try:
        waiting = as_completed([submit(number) for number in range(len(tasks))], loop=client.loop)
        for future in waiting:
            _, number = futures.pop(future.key)
            if future.status == "finished":
                yield future.result()
                future.release()
                continue
            error = future.exception() if future.status == "error" else None
            if error is not None and type(error).__name__ != "KilledWorker":
                raise _beyond(error)
            lives[number] -= 1
            if not lives[number]:
                raise _lost(1 + len(futures))
            waiting.add(submit(number))
    finally:
        client.cancel([future for future, _ in futures.values()])


def _beyond(error: BaseException) -> ValueError:
    """Return the refusal of a worker that could not even begin; its own words may hold anything."""
    return ValueError(
        f"a worker could not take its task ({type(error).__name__}); install the same version of epsworth there"
    )


def _lost(tasks: int) -> ValueError:
    return ValueError(
        f"workers ended again and again before they were done with any of {tasks} files (killed, or out of memory?); "
        "give them more memory, or fewer of them, and run it again"
    )


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
class FileReading:
    """What the first reading of a file found: keyed digests and hashes of ids, and their rows (None: one each)."""

    index: int
    seen: FirstReading = field(repr=False)
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
    person: str | None
    digest_key: Secret

    def table(self) -> FileTable:
        """Return the table in the file."""
        check_readable(self.path, "table")
        key = self.digest_key.bytes
        return file_table(self.kind, _ready(self.policy), self.path, self.person, lambda content: keyed(key, content))


class Task(Protocol):
    """What a worker is sent."""

    @property
    def source(self) -> Source:
        """The file that it is about."""

    def run(self) -> FileReading | Written:
        """Do it, on any machine, any number of times."""


@dataclass(frozen=True)
class Reading:
    """The first reading: check, digest, count; nothing is drawn."""

    source: Source
    id_key: Secret | None

    def run(self) -> FileReading:
        """Read the file once."""
        if self.id_key is None:
            return FileReading(self.source.index, self.source.table().seen())
        counts, key = RowCounts(), self.id_key.bytes
        seen = self.source.table().seen(lambda ids: counts.add(hashes(ids, key)))
        people, rows = counts.sorted()
        several = None if len(people) == counts.rows else rows.astype(np.int64)
        return FileReading(self.source.index, seen, people, several)


@dataclass(frozen=True)
class Drawing:
    """The second reading: draw under the file's key, verify, and move the whole output into place.

    Attributes
    ----------
    source : Source
    seen : FirstReading
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
    seen: FirstReading = field(repr=False)
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
                "or give another folder and say again=True"
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
            sha256 = file_sha256(temporary)
            appear(temporary, self.output)
        return Written(self.source.index, self.output.name, rows, sha256)


def attempt(task: Task) -> FileReading | Written | Failure:
    """Do a task; what goes wrong comes back as a sentence, for a traceback tells its locals to whoever logs it."""
    try:
        return task.run()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in compiled code is no Exception, and quotes what it was about
        name, sentence = task.source.path.name, _told(error)
        return Failure(task.source.index, sentence if name in sentence else f"{name}: {sentence}")


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
