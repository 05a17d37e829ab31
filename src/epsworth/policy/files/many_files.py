"""`perturb_files`: a folder of files as one run, charged once, whoever reads and draws its files, and however often.

Workers read every file once, and return keyed digests and hashes; the driver charges one run for all of them, and
sends each worker the key of its file.  There are no locks: workers that race write equal bytes.  A manifest at the end
says what was written.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epsworth.callbacks import check_callback
from epsworth.documents import read_json
from epsworth.files import OutputError, check_name, file_named, file_sha256
from epsworth.numerals import short
from epsworth.policy.files.file_tables import FirstReading, derivation, keyed, with_sep
from epsworth.policy.files.one_file import ENDINGS, READING, Format, Progress, receipt_of, request_of
from epsworth.policy.files.outputs import STANDARD, execute_run, is_there, on_disk
from epsworth.policy.files.workers import (
    Drawing,
    Failure,
    FileReading,
    Map,
    Reading,
    Secret,
    Source,
    Task,
    Written,
    attempt,
    chosen,
    file_key,
)
from epsworth.policy.folders import NO_LINKS, folder_named, state_folder, to_disk
from epsworth.policy.ledger import Amount, ChargeRequest, Identity, Ledger, RowCounts, Run, RunTerms
from epsworth.policy.ledger.store import LedgerEntry
from epsworth.policy.policy import Given, as_policy
from epsworth.policy.receipt import Receipt

MANIFEST = "_manifest.json"
BESIDE = {
    MANIFEST,
    "_SUCCESS",
    "_metadata",
    "_common_metadata",
}  # ours; of Spark and Dask
PUBLIC = (  # of a receipt; how often people left before, and with how many rows, is the owner's to know
    "policy", "rows", "columns", "epsilon", "delta", "notion", "stated", "together", "private", "version",
)  # fmt: skip
NOTES = ".epsworth-{}.jsonl"  # what was written so far, by the run's id
CLAIM = ".epsworth-claim"  # whose outputs appear here


@dataclass(frozen=True)
class Inputs:
    """Files of one kind, in order, that are released together."""

    kind: str
    paths: tuple[Path, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Their base names, which the outputs have, too."""
        return tuple(path.name for path in self.paths)


def inputs(sources: object, kind: str | None, endings: dict[str, Any]) -> Inputs:
    """Return the files of a folder sorted by name, or those of a list; what is no table is refused by its name.

    Parameters
    ----------
    sources : path or sequence of paths
        Hidden files of a folder are left out, and what Spark and Dask write beside their parts.
    kind : str, optional
        What all of them must be.
    endings : dict
        From endings of names to kinds.
    """
    if isinstance(sources, (str, os.PathLike)):
        folder = folder_named("input", sources)
        try:
            names = sorted(name for name in os.listdir(folder) if not name.startswith(".") and name not in BESIDE)
        except OSError as error:
            raise ValueError(f"cannot read the folder {folder}: {error.strerror}; give a folder of tables") from None
        paths = [folder / name for name in names]
        where = f"the folder {folder}"
    elif isinstance(sources, Sequence):
        paths, where = [file_named(path) for path in sources], "the list"
    else:
        raise TypeError(f"sources must be a folder or a list of files, got {type(sources).__name__}")
    if not paths:
        raise ValueError(f"{where} holds no table; give one with {', '.join(endings)} files")
    kinds: dict[str, str] = {}  # and the first file of each
    for path in paths:
        check_name("table", path)
        if path.is_dir():
            raise ValueError(f"{path}: is a folder, whose name could tell a value; give one folder of files at a time")
        ending = endings.get(path.suffix.lower())
        if ending is None:
            raise ValueError(f"{path}: the ending is none of {', '.join(endings)}; move it elsewhere")
        if kind is not None and (not isinstance(kind, str) or kind != ending):
            raise ValueError(f"{path}: must be {short(kind)}, as was said; move it elsewhere")
        kinds.setdefault(ending, path.name)
    if len(kinds) > 1:
        raise ValueError(f"{where} must hold files of one kind, got {' and '.join(sorted(kinds.values()))}")
    seen: dict[str, Path] = {}
    for path in paths:
        twin = seen.setdefault(path.name.casefold(), path)  # some file systems know no capitals
        if twin is not path:
            raise ValueError(f"{path}: another file is called {twin.name}, too; outputs need names of their own")
    return Inputs(next(iter(kinds)), tuple(Path(os.path.abspath(path)) for path in paths))


def check_apart(sources: object, folder: str | Path, ledger: str | Path | None) -> None:
    """Refuse standard output as a folder, and a ledger among tables, before anything is made there.

    Parameters
    ----------
    sources : path or sequence of paths
    folder : path
    ledger : path, optional
        By default the account's own.
    """
    if str(folder) == STANDARD:
        raise OutputError("the files of a folder cannot go to standard output (-); give a folder")
    place = Path(os.path.realpath(state_folder() if ledger is None else folder_named("ledger", ledger)))
    tables = {"outputs": folder} | ({"inputs": sources} if isinstance(sources, (str, os.PathLike)) else {})
    for what, path in tables.items():
        if Path(os.path.realpath(folder_named(what.removesuffix("s"), path))) in (place, *place.parents):
            raise ValueError(f"{place}: the ledger would lie among the {what}; give ledger= a folder of its own")


class Folder:
    """The folder that outputs of one run appear in.

    Parameters
    ----------
    path : path
        It is made where it is not there, but not what it lies in.
    given : Inputs
    """

    def __init__(self, path: str | Path, given: Inputs) -> None:
        self.path, self.given = Path(os.path.realpath(folder_named("output", path))), given
        if any(self.path in (source.resolve().parent, *source.resolve().parents) for source in given.paths):
            raise OutputError(f"{path}: the output's folder holds an input; give a folder of its own")
        if any(source.resolve().parent in self.path.parents for source in given.paths):
            raise OutputError(f"{path}: the output's folder lies among the inputs; give one beside theirs")
        try:
            self.path.mkdir(exist_ok=True)
            to_disk(self.path.parent)
        except OSError as error:
            raise OutputError(f"cannot make the folder {path}: {error.strerror}; choose another place") from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise OutputError(f"cannot write to the folder {path}: permission denied; choose another place")
        self.manifest = self.path / MANIFEST
        self._name = ""  # of the run that has the folder
        self._names()

    def _names(self) -> list[str]:
        """Return what is there; names that no output has are refused."""
        found = os.listdir(self.path)
        for name in sorted(found):
            if not name.startswith(".") and name not in self.given.names and name != MANIFEST:
                raise OutputError(f"{self.path / name} is no output of this run; give an empty folder")
        return found

    def check(self, asked: Callable[[], LedgerEntry | None]) -> None:
        """Refuse a folder that holds anything else than what this very run left there.

        Parameters
        ----------
        asked : callable
            Returns the run of the same policy, files and folder, if it is charged already.  It is asked last: another
            driver of that run may be at work.
        """
        names = self._names()
        manifest = file_sha256(self.manifest) if MANIFEST in names else None
        known = asked()
        notes = None if known is None else NOTES.format(known.id.hex())
        others = [name for name in names if name.startswith(NOTES[:10]) and name.endswith(NOTES[-6:]) and name != notes]
        present = sorted({*names} & {*self.given.names})
        if manifest is not None:
            unended = known is not None and known.sha256 is None and notes in names  # stopped after its last move
            foreign = not unended and (known is None or manifest != known.sha256)
        else:
            foreign = bool(others) or (bool(present) and notes not in names)
        if foreign:
            raise OutputError(
                f"{self.path} holds what another run released, or was to release; nothing is replaced: "
                "give an empty folder, or remove that release"
            )

    @contextmanager
    def claimed(self, name: str, asked: Callable[[], LedgerEntry | None]) -> Iterator[None]:
        """Let the outputs of one run alone appear here, of however many drivers; see `check`.

        A driver that is killed leaves its claim, which the same run takes for its own; one that is refused before its
        run is charged takes its claim away.

        Parameters
        ----------
        name : str
            Of the run, before it is charged.
        """
        self._name = name
        made = self._claim()
        try:
            self.check(asked)
        except BaseException:
            if made:
                self._unclaim()
            raise
        try:
            yield
        except BaseException:
            if made and _uncharged(asked):
                self._unclaim()
            raise

    def _claim(self) -> bool:
        """Make the claim, whole and once; False where the run has it already; that of another one is refused."""
        claim = self.path / CLAIM
        while True:
            with suppress(FileExistsError):
                self._make_claim(claim)
                return True
            with suppress(FileNotFoundError):  # else its run was done, or refused, meanwhile
                if claim.read_text() == self._name:
                    return False
                raise OutputError(
                    f"{claim}: another run is to release its files here, or was killed while it did; nothing is "
                    "replaced: give an empty folder, let that run end, or remove its files with this one"
                )

    def _make_claim(self, claim: Path) -> None:
        new = self.path / f"{CLAIM}.{secrets.token_hex(8)}"
        try:
            _write_new(new, self._name)
            try:
                os.link(new, claim)
            except FileExistsError:
                raise
            except OSError:  # no file has two names here
                _write_new(claim, self._name)
        finally:
            new.unlink(missing_ok=True)
        to_disk(self.path)

    def _unclaim(self) -> None:
        for path in (self.path / CLAIM, *self.path.glob(f"{CLAIM}.*")):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def check_written(self, files: Sequence[Written]) -> None:
        """Refuse to certify outputs that are not what was written: read again, whoever changed them."""
        for file in files:
            if not is_there(self.path / file.name, file.sha256):
                raise OutputError(
                    f"{self.path / file.name}: was changed after it was written, so no {MANIFEST} certifies it; let "
                    "nobody else write there, and give the same command again, which goes on with the run"
                )

    def recorded(self, run: Run) -> dict[str, str]:
        """Return the sha256 of outputs, as their run wrote them."""
        if self.manifest.exists():
            return {entry["name"]: entry["sha256"] for entry in read_json(self.manifest.read_text())["files"]}
        found = {}
        with suppress(FileNotFoundError):
            for line in self._notes(run).read_text().splitlines():
                with suppress(ValueError, KeyError, TypeError):  # cut short by the end of the process that wrote it
                    entry = json.loads(line)
                    found[entry["name"]] = entry["sha256"]
        return found

    def open(self, run: Run) -> None:
        """Say that outputs in this folder are the run's, before there is one."""
        self._claim()  # again: another driver of it that was refused before the charge took it away
        self._notes(run).touch(mode=0o600)
        to_disk(self.path)

    def note(self, run: Run, written: Written) -> None:
        """Keep what was written, so that nobody writes it again."""
        line = json.dumps({"name": written.name, "sha256": written.sha256}) + "\n"
        with self._notes(run).open("ab", buffering=0) as notes:
            notes.write(line.encode())

    def write_manifest(self, path: Path, run: Run, receipt: Receipt, files: Sequence[Written]) -> None:
        """Write what everybody may know of the run: its receipt, and every file's rows and sha256."""
        facts = receipt.to_dict()
        content = {
            "run": run.id.hex(),
            "receipt": {name: facts[name] for name in PUBLIC},
            "files": [{"name": file.name, "rows": file.rows, "sha256": file.sha256} for file in files],
        }
        path.write_text(json.dumps(content, indent=1) + "\n")
        on_disk(path)

    def sweep(self, mark: str) -> None:
        """Remove hidden outputs with a mark: those of a run, or of one driver of it."""
        with suppress(OSError):
            for name in os.listdir(self.path):
                if name.startswith(".") and f".{mark}." in name and name.endswith(".part"):
                    with suppress(OSError):
                        (self.path / name).unlink(missing_ok=True)

    def forget(self, run: Run) -> None:
        """Remove the notes of a run that is done: its manifest says the same."""
        with suppress(OSError):
            self._notes(run).unlink(missing_ok=True)
        self._unclaim()

    def _notes(self, run: Run) -> Path:
        return self.path / NOTES.format(run.id.hex())


def _uncharged(asked: Callable[[], LedgerEntry | None]) -> bool:
    try:
        return asked() is None
    except ValueError:  # nobody knows
        return False


def _write_new(path: Path, content: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o600)
    with open(handle, "w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def perturb_files(
    policy: Given,
    sources: str | Path | Sequence[str | Path],
    folder: str | Path,
    *,
    kind: Format | None = None,
    sep: str = ",",
    person: str | None = None,
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
    person, cap, delta_cap, max_rows_per_person, ledger, again
        As of `perturb_file`, for all files together; ``max_rows_per_person`` without ``person`` alone.
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
    ...     receipt = perturb_files(policy, parts, out, person="id", cap=2, ledger=Path(place, "ledger"))
    ...     names = sorted(path.name for path in out.iterdir())
    >>> names, receipt.rows
    (['_manifest.json', 'a.csv', 'b.csv'], 3)
    """
    policy = as_policy(policy, sources)
    check_apart(sources, folder, ledger)
    given = inputs(sources, kind, ENDINGS)
    form = with_sep(given.kind, sep)
    terms = RunTerms(person, cap, delta_cap, max_rows_per_person, again)
    check_limit(terms)
    told = check_callback("progress", progress) or (lambda share: None)
    check_callback("map", map)
    store = Ledger(ledger)
    place = Folder(folder, given)
    digest_key = Secret(store.digest_key)
    files = [Source(index, path, form, policy, person, digest_key) for index, path in enumerate(given.paths)]
    with chosen(workers, cluster, map) as spread:
        counts = terms.counts
        seen = _first_reading(spread, files, counts, store, told)
        digests, whole = digests_of(digest_key, given.names, seen)
        identity = Identity(derivation(policy, form), whole, str(place.path))
        rows = sum(one.rows for one in seen)
        request = request_of(policy, rows, terms)
        name = store.digest(repr((identity, person)).encode()).hex()
        with place.claimed(name, lambda: _known(store, identity, person, again=again)):
            run = store.begin(request, identity, counts)
            if run.state == "done" and not place.manifest.is_file():
                raise store.repeated(request, 1 + run.times_before)
            columns = tuple(dict.fromkeys(name for one in seen for name in one.columns))
            receipt = receipt_of(policy, columns, run, request, counts)
            release = _Release(store, run, request, place, identity, receipt)
            release.finish(spread, files, seen, digests, told)
    told(1.0)
    return release.receipt


def check_limit(terms: RunTerms) -> None:
    """Refuse to choose rows of people over several files: readers of one do not know of the others."""
    if terms.person is not None and terms.most is not None:
        raise ValueError(
            "max_rows_per_person beside person chooses among the rows of one table, and these are several; put them "
            "into one file, or leave it out"
        )


@dataclass(frozen=True, repr=False)
class _Release:
    """A charged run, and the folder that it fills."""

    store: Ledger
    run: Run
    request: ChargeRequest
    place: Folder
    identity: Identity
    receipt: Receipt

    def finish(
        self, spread: Map, files: list[Source], seen: list[FirstReading], digests: list[bytes], told: Progress
    ) -> None:
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

    def _tasks(self, files: list[Source], seen: list[FirstReading], digests: list[bytes], mark: str) -> list[Drawing]:
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
) -> list[FirstReading]:
    """Return what was seen in every file, and count the people of all; the first failure ends it."""
    key = None if counts is None else Secret(store.key)
    seen: dict[int, FirstReading] = {}
    for found in _results(spread, [Reading(file, key) for file in files], FileReading):
        if isinstance(found, Failure):
            raise ValueError(f"{found.sentence} (nothing was charged)")
        assert isinstance(found, FileReading)
        seen[found.index] = found.seen
        if counts is not None and found.people is not None:
            counts.add(found.people if found.counts is None else np.repeat(found.people, found.counts))
        told(READING * len(seen) / len(files))
    return [seen[file.index] for file in files]


def _results(
    spread: Map, tasks: Sequence[Task], kind: type[FileReading | Written]
) -> Iterator[FileReading | Written | Failure]:
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


def digests_of(key: Secret, names: Sequence[str], seen: Sequence[FirstReading]) -> tuple[list[bytes], bytes]:
    """Return the digest of every file, and that of all with their names."""
    digests = [_digest(key, bytes(1), one.header, *one.parts) for one in seen]
    return digests, _digest(key, bytes([2]), *(name.encode() for name in names), *digests)


def _digest(key: Secret, *contents: bytes) -> bytes:
    """Return a keyed digest of a list."""
    lengths = [len(content).to_bytes(8, "little") for content in contents]
    return keyed(key.bytes, b"".join(part for pair in zip(lengths, contents, strict=True) for part in pair))


def _known(store: Ledger, identity: Identity, person: str | None, *, again: bool) -> LedgerEntry | None:
    """Return the run that another call with the same arguments goes on with."""
    found = store.find(identity, person)
    return None if found is None or (again and found.state == "done") else found
