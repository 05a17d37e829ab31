"""The folder of a run over many files: which names may stand there, what was written, and the manifest at the end."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsworth.documents import read_json
from epsworth.files import OutputError, check_name, file_named
from epsworth.release.file_tasks import Written
from epsworth.release.folders import folder_named, state_folder, to_disk
from epsworth.release.ledger import Run
from epsworth.release.ledger.store import LedgerEntry
from epsworth.release.locks import NO_LINKS
from epsworth.release.outputs import STANDARD, hash_of, is_there, on_disk
from epsworth.release.receipt import Receipt

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
        if kind not in (None, ending):
            raise ValueError(f"{path}: must be {kind}, as was said; move it elsewhere")
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
            raise ValueError(f"{place}: the ledger would lie among the {what}; give a folder of its own (ledger=)")


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
        manifest = hash_of(self.manifest) if MANIFEST in names else None
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
