"""What left already: budgets add when the same records are perturbed again.

The ledger stands beside the output and may travel with it, so it must not tell what the input was: it keeps
keyed hashes, and the key stays in the user's own folder.
"""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsworth.documents import read_json
from epsworth.guarantees import Guarantee
from epsworth.release.locks import NO_LINKS, locked
from epsworth.rounding import sum_above

LEDGER = "epsworth-ledger.jsonl"
LOCK, NEW = ".epsworth-ledger.lock", ".epsworth-ledger.new"


@dataclass(frozen=True)
class Charge:
    """What a run costs every record, and the words in which a repeat of it is refused.

    Attributes
    ----------
    policy : str
        The fingerprint of what clients run.
    guarantee : Guarantee
        Per record.
    adds : str
        What another run adds, as the user stated it.
    left, where, output : str
        Words: these records *left* 2 times *under this policy*; use the *output* you have.
    """

    policy: str
    guarantee: Guarantee
    adds: str
    left: str = "left"
    where: str = "under this policy"
    output: str = "output"


@dataclass(frozen=True)
class Entry:
    """One run.

    Attributes
    ----------
    records : str or None
        The fingerprint of its input (see `keyed`); None while standard input is not read to its end.
    policy : str
        The policy's fingerprint.
    epsilon : float
        Per record.
    rows : int or None
        None until the output is whole: a run that was stopped before counts as having left.
    delta, notion
        Per record; None in lines of older versions, which did not keep them.
    run : str or None
        A random name.
    """

    records: str | None
    policy: str
    epsilon: float
    rows: int | None = None
    delta: float | None = None
    notion: str | None = None
    run: str | None = None

    @classmethod
    def of(cls, charge: Charge, records: str | None, run: str) -> Entry:
        """Return the entry of a run that is about to draw."""
        promise = charge.guarantee
        return cls(records, charge.policy, promise.epsilon, None, promise.delta, promise.notion, run)

    @classmethod
    def read(cls, line: str) -> Entry:
        """Read a line; what is not understood is refused."""
        document = read_json(line)
        found = cls(**{key: document.get(key) for key in cls.__dataclass_fields__})
        texts = [found.policy, *(text for text in (found.records, found.notion, found.run) if text is not None)]
        if not all(isinstance(text, str) for text in texts) or "records" not in document:
            raise ValueError("a text is missing")
        if not (found.rows is None or (type(found.rows) is int and found.rows >= 0)):
            raise ValueError("the rows are no number")
        if not _is_number(found.epsilon, math.inf) or not (found.delta is None or _is_number(found.delta, 1.0)):
            raise ValueError("a number is missing")
        return found

    @property
    def line(self) -> str:
        """The entry as it stands in the file."""
        return json.dumps({key: getattr(self, key) for key in self.__dataclass_fields__})


@dataclass(frozen=True)
class Spent:
    """What the records lost before: sums of numbers that are exact, rounded up.

    ``times``: runs under the same policy.
    """

    times: int
    epsilon: float
    delta: float


class Ledger:
    """Runs whose outputs lie in one folder.  Whatever is read to be acted upon, or written, is so within `alone`.

    Parameters
    ----------
    folder : path
    """

    def __init__(self, folder: Path) -> None:
        self.path = Path(os.path.realpath(folder / LEDGER))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep everybody else out: check and entry are one step between threads, processes and accounts."""
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.path.with_name(LOCK)))
            except OSError as error:
                raise ValueError(
                    f"the folder {self.path.parent} cannot be locked ({error.strerror}), so two runs could release the "
                    "same records at once; write to another folder"
                ) from None
            yield

    def entries(self, records: str | None = None) -> list[Entry]:
        """Return all runs, or those of these records and those of unknown ones; a damaged ledger is refused."""
        try:
            lines = check_plain(self.path).read_text(encoding="utf-8").splitlines() if self.path.exists() else []
            found = [Entry.read(line) for line in lines if line.strip()]
        except (OSError, ValueError, AttributeError, TypeError, RecursionError):
            raise ValueError(
                f"the ledger {self.path} cannot be read, so nobody knows what left before; repair it, or move it away"
            ) from None
        return [entry for entry in found if records is None or entry.records in (records, None)]

    def spent(self, charge: Charge, records: str, *, again: bool, run: str | None = None) -> Spent:
        """Return what these records lost in other runs than ``run``; refuse a repeat unless told.

        A run whose records are not known, as it was stopped while it read standard input, adds to the sums of all.
        A line without a delta has the policy's own where it is the same policy, else the largest there is, one.
        """
        before = [entry for entry in self.entries(records) if run is None or entry.run != run]
        seen = [entry for entry in before if entry.policy == charge.policy and entry.records == records]
        if seen and not again:
            stopped = " (a run that was stopped half-way counts)" if any(e.rows is None for e in seen) else ""
            raise ValueError(
                f"these records {charge.left} {len(seen)} time{'s' * (len(seen) > 1)} {charge.where}{stopped} "
                f"(ledger {self.path}); another run adds {charge.adds} per record: use the {charge.output} you have, "
                "or say --again (again=True)"
            )
        unknown = {charge.policy: charge.guarantee.delta}
        deltas = [unknown.get(entry.policy, 1.0) if entry.delta is None else entry.delta for entry in before]
        return Spent(len(seen), sum_above(entry.epsilon for entry in before), min(1.0, sum_above(deltas)))

    def put(self, entry: Entry) -> None:
        """Add a run, or replace what is known about it."""
        self._write([*(other for other in self.entries() if other.run is None or other.run != entry.run), entry])

    def withdraw(self, run: str) -> None:
        """Remove a run of which nothing is left."""
        before = self.entries()
        others = [entry for entry in before if entry.run != run]
        if len(others) < len(before):
            self._write(others)

    def _write(self, entries: list[Entry]) -> None:
        """Replace the file by a whole new one, on the disk before anything else happens; without entries remove it."""
        new = self.path.with_name(NEW)
        try:
            new.unlink(missing_ok=True)  # of a run that was killed here
            if entries:
                handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o644)
                with open(handle, "w", encoding="utf-8") as file:
                    file.writelines(entry.line + "\n" for entry in entries)
                    file.flush()
                    os.fsync(file.fileno())
                if self.path.exists():
                    shutil.copymode(self.path, new)
                os.replace(new, self.path)
            else:
                self.path.unlink(missing_ok=True)
            to_disk(self.path.parent)
        except OSError as error:
            raise ValueError(
                f"the ledger {self.path} cannot be written ({error.strerror}), so nothing may leave; make room for it"
            ) from None
        finally:
            with suppress(OSError):  # a folder of that name, which was told
                new.unlink(missing_ok=True)


def state_folder() -> Path:
    """Return the folder of what belongs to the account: EPSWORTH_STATE, or the system's place for it."""
    named = os.environ.get("EPSWORTH_STATE")
    if named:
        return Path(named)
    from typer import get_app_dir

    return Path(get_app_dir("epsworth"))


def check_plain(path: Path) -> Path:
    """Return the path of a plain file: a pipe would be waited for without end, within the lock."""
    if not path.is_file():
        raise OSError(errno.EINVAL, "it is no plain file", str(path))
    return path


def to_disk(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system lets folders be opened."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # some file systems know no such wish
                raise
        finally:
            os.close(handle)


def _is_number(value: Any, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most and value < math.inf
