"""What left already: budgets add when the same records are perturbed again.

The ledger stands beside the output and may travel with it, so it must not tell what the input was: it keeps
keyed hashes, and the key stays in the user's own folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from epsworth.guarantees import Guarantee
from epsworth.release.earlier_ledger import LEDGER as LEDGER
from epsworth.release.earlier_ledger import Entry as Entry
from epsworth.release.earlier_ledger import read_entries
from epsworth.release.folders import check_plain as check_plain
from epsworth.release.folders import state_folder as state_folder
from epsworth.release.folders import to_disk as to_disk
from epsworth.release.locks import NO_LINKS, locked
from epsworth.rounding import sum_above

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
        found = read_entries(self.path)
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
