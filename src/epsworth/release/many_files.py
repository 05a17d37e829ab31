"""`perturb_files`: a folder of files as one run, charged once, whoever reads and draws its files, and however often.

Workers read every file once, and return keyed digests and hashes; the driver charges one run for all of them, and
sends each worker the key of its file.  There are no locks: workers that race write equal bytes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epsworth.release.file_tables import Seen, keyed, with_sep
from epsworth.release.file_tasks import (
    Drawing,
    Failure,
    Found,
    Reading,
    Secret,
    Source,
    Task,
    Written,
    attempt,
    file_key,
)
from epsworth.release.given import Given, as_policy
from epsworth.release.ledger import Amount, ChargeRequest, Identity, Ledger, RowCounts, Run, check_caps
from epsworth.release.ledger.store import LedgerEntry
from epsworth.release.maps import Map, chosen
from epsworth.release.outputs import execute_run
from epsworth.release.parts import derivation
from epsworth.release.receipt import Receipt
from epsworth.release.released_folder import Folder, check_apart, inputs
from epsworth.release.streams import ENDINGS, READING, Format, Progress, check_most, receipt_of, request_of


def perturb_files(
    policy: Given,
    sources: str | Path | Sequence[str | Path],
    folder: str | Path,
    *,
    kind: Format | None = None,
    sep: str = ",",
    unit: str | None = None,
    cap: Amount | None = None,
    delta_cap: Amount | None = None,
    max_rows_per_person: int | None = None,
    ledger: str | Path | None = None,
    again: bool = False,
    workers: int = 1,
    cluster: str | None = None,
    map: Map | None = None,
    progress: Progress | None = None,
) -> Receipt:
    """Perturb many files as one run, by processes of this machine or of a cluster.

    Claim: what `perturb_file` promises of one file, and rows of one person count together whichever files hold them.
    The run is charged once, before a draw of it exists.  Workers and the driver may be killed at any moment: given
    again, the same call goes on, every output has one version of bytes, and ``_manifest.json`` is there once all
    others are.

    Parameters
    ----------
    policy : Policy or path
    sources : path or list of paths
        Files of one kind: those of a folder, sorted by name, or these, whose base names differ.  Workers read them
        under the same paths.
    folder : path
        Gets files of the same names and, last, ``_manifest.json``: the receipt, the rows and sha256 of every output.
    kind : {"csv", "jsonl", "parquet"}, optional
        By default what the endings say.
    sep : str
        What separates the fields of CSV: a comma, semicolon, tab or bar.
    unit, cap, delta_cap, max_rows_per_person, ledger, again
        As of `perturb_file`, for all files together; ``max_rows_per_person`` without ``unit`` alone.
    workers : int
        Processes of this machine.
    cluster : str, optional
        The address of a Dask scheduler instead, such as ``tcp://10.0.0.1:8786``; ``pip install "epsworth[cluster]"``.
    map : callable, optional
        Where the work is done instead: called with a function and a list, returns the results in any order; a pool's
        ``imap_unordered``, for example.
    progress : callable, optional
        Called with the share of the work that is done, file by file.

    Returns
    -------
    Receipt
        Of all rows together.

    Raises
    ------
    ValueError
        For a file that cannot be released, naming it and the row; where the ledger knows the records, or a person
        would exceed the cap: nothing is charged then.  For a file that was changed, or could not be written, after the
        charge: the other outputs stay, and the same call goes on.

    Notes
    -----
    Tasks carry keys: a worker gets those of the ledger's hashes, and of the files that it draws.  Whoever holds a
    file's key and its output can tell the raw values.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import polars as pl
    >>> from epsworth import Domain, Policy, perturb_files
    >>> policy = Policy.of("pm", 1, Domain.of({"age": (0, 100)}), passing=["id"])
    >>> with tempfile.TemporaryDirectory() as place:
    ...     parts, out = Path(place, "parts"), Path(place, "out")
    ...     parts.mkdir()
    ...     pl.DataFrame({"id": [7, 8], "age": [30, 61]}).write_csv(parts / "a.csv")
    ...     pl.DataFrame({"id": [7], "age": [31]}).write_csv(parts / "b.csv")
    ...     receipt = perturb_files(policy, parts, out, unit="id", cap=2, ledger=Path(place, "ledger"))
    ...     names = sorted(path.name for path in out.iterdir())
    >>> names, receipt.rows
    (['_manifest.json', 'a.csv', 'b.csv'], 3)
    """
    policy = as_policy(policy, sources)
    check_apart(sources, folder, ledger)
    given = inputs(sources, kind, ENDINGS)
    form = with_sep(given.kind, sep)
    most = check_limit(unit, max_rows_per_person)
    check_caps(cap=cap, delta_cap=delta_cap)
    store = Ledger(ledger)
    place = Folder(folder, given)
    told = progress or (lambda share: None)
    digest_key = Secret(store.digest_key)
    files = [Source(index, path, form, policy, unit, digest_key) for index, path in enumerate(given.paths)]
    with chosen(workers, cluster, map) as spread:
        counts = None if unit is None else RowCounts()
        seen = _first_reading(spread, files, counts, store, told)
        digests, whole = digests_of(digest_key, given.names, seen)
        identity = Identity(derivation(policy, form), whole, str(place.path))
        rows = sum(one.rows for one in seen)
        request = request_of(policy, rows, unit, cap, delta_cap, most, again=again)
        name = store.digest(repr((identity, unit)).encode()).hex()
        with place.claimed(name, lambda: _known(store, identity, unit, again=again)):
            run = store.begin(request, identity, counts)
            if run.state == "done" and not place.manifest.is_file():
                raise store.repeated(request, 1 + run.times_before)
            columns = tuple(dict.fromkeys(name for one in seen for name in one.columns))
            receipt = receipt_of(policy, columns, run, request, counts)
            release = _Release(store, run, request, place, identity, receipt)
            release.finish(spread, files, seen, digests, told)
    told(1.0)
    return release.receipt


def check_limit(unit: str | None, most: int | None) -> int | None:
    """Refuse to choose rows of people over several files: readers of one do not know of the others."""
    if unit is not None and most is not None:
        raise ValueError(
            "max_rows_per_person beside unit chooses among the rows of one table, and these are several; put them into "
            "one file, or leave it out"
        )
    return check_most(most)


@dataclass(frozen=True, repr=False)
class _Release:
    """A charged run, and the folder that it fills."""

    store: Ledger
    run: Run
    request: ChargeRequest
    place: Folder
    identity: Identity
    receipt: Receipt

    def finish(self, spread: Map, files: list[Source], seen: list[Seen], digests: list[bytes], told: Progress) -> None:
        """Let workers write what is not there yet; then write the manifest, and end the run."""
        name = self.run.id.hex()
        mark = f"{name}.{secrets.token_hex(4)}"
        if self.run.state != "done":
            self.place.open(self.run)
        try:
            written = self._second_reading(spread, self._tasks(files, seen, digests, mark), told)
        finally:
            self.place.sweep(mark)
        execute_run(self.store, self.run, self.request, self.place.manifest, lambda path: self._manifest(path, written))
        self.place.sweep(name)
        self.place.forget(self.run)

    def _tasks(self, files: list[Source], seen: list[Seen], digests: list[bytes], mark: str) -> list[Drawing]:
        recorded, path = self.place.recorded(self.run), self.place.path
        return [
            Drawing(
                file, one, path / file.path.name, self.identity.policy, self._key(file, digest),
                recorded.get(file.path.name), mark,
            )
            for file, one, digest in zip(files, seen, digests, strict=True)
        ]  # fmt: skip

    def _key(self, file: Source, digest: bytes) -> Secret | None:
        key = self.run.key
        return None if key is None else Secret(file_key(key, file.index, digest, self.identity.policy))

    def _second_reading(self, spread: Map, tasks: list[Drawing], told: Progress) -> list[Written]:
        """Return what was written, in order; where files failed, after all others are there."""
        written: dict[int, Written] = {}
        failures: list[Failure] = []
        for done, outcome in enumerate(_results(spread, tasks, Written), start=1):
            if isinstance(outcome, Written):
                if tasks[outcome.index].recorded != outcome.sha256:
                    self.place.note(self.run, outcome)
                written[outcome.index] = outcome
            elif isinstance(outcome, Failure):
                failures.append(outcome)
            told(READING + (1 - READING) * done / len(tasks))
        if failures:
            first = min(failures, key=lambda failure: failure.index)
            what = f"{first.sentence} ({len(failures)} of {len(tasks)} files are not there"
            done = self.run.state == "done"
            raise ValueError(f"{what})" if done else f"{what}; the run is charged, the same command goes on with it)")
        return [written[task.source.index] for task in tasks]

    def _manifest(self, path: Path, written: list[Written]) -> None:
        self.place.check_written(written)
        self.place.write_manifest(path, self.run, self.receipt, written)


def _first_reading(
    spread: Map, files: list[Source], counts: RowCounts | None, store: Ledger, told: Progress
) -> list[Seen]:
    """Return what was seen in every file, and count the people of all; the first failure ends it."""
    key = None if counts is None else Secret(store.key)
    seen: dict[int, Seen] = {}
    for found in _results(spread, [Reading(file, key) for file in files], Found):
        if isinstance(found, Failure):
            raise ValueError(f"{found.sentence} (nothing was charged)")
        assert isinstance(found, Found)
        seen[found.index] = found.seen
        if counts is not None and found.people is not None:
            counts.add(found.people if found.counts is None else np.repeat(found.people, found.counts))
        told(READING * len(seen) / len(files))
    return [seen[file.index] for file in files]


def _results(spread: Map, tasks: Sequence[Task], kind: type[Found | Written]) -> Iterator[Found | Written | Failure]:
    """Yield what tasks return, in any order and each once; workers are let go however it ends."""
    found: Iterable[Any] = spread(attempt, tasks)
    left = {task.source.index for task in tasks}
    try:
        for one in found if isinstance(found, Iterable) else ():
            if not isinstance(one, (kind, Failure)) or one.index not in left:
                raise _garbled(len(tasks))
            left.remove(one.index)
            yield one
        if left:
            raise _garbled(len(tasks))
    finally:
        close = getattr(found, "close", None)
        if close is not None:
            close()


def _garbled(tasks: int) -> ValueError:
    return ValueError(
        f"map did not return the results of {tasks} tasks as they were, each once; give one that calls the function "
        "with every task and returns what it returns, and run it again"
    )


def digests_of(key: Secret, names: Sequence[str], seen: Sequence[Seen]) -> tuple[list[bytes], bytes]:
    """Return the digest of every file, and that of all with their names."""
    digests = [_digest(key, bytes(1), one.header, *one.parts) for one in seen]
    return digests, _digest(key, bytes([2]), *(name.encode() for name in names), *digests)


def _digest(key: Secret, *contents: bytes) -> bytes:
    """Return a keyed digest of a list."""
    lengths = [len(content).to_bytes(8, "little") for content in contents]
    return keyed(key.bytes, b"".join(part for pair in zip(lengths, contents, strict=True) for part in pair))


def _known(store: Ledger, identity: Identity, unit: str | None, *, again: bool) -> LedgerEntry | None:
    """Return the run that another call with the same arguments goes on with."""
    found = store.find(identity, unit)
    return None if found is None or (again and found.state == "done") else found
