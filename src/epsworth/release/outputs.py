"""An output that is charged before a draw of it exists, and appears whole or not at all.

Under the ledger's lock: leftovers of dead processes go, the ledger is asked, a hidden file is made, the run is entered.
Then values are drawn into the hidden file, without the lock.  Under the lock again: the entry is completed and the
file moved into place.  So whatever lies on the disk, half or whole, is in the ledger; two runs of the same records
cannot both find that they are the first; and a run that ends by an error, not by a kill, takes its entry back with
its file.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from epsworth.files import OutputError, writing
from epsworth.release.ledger import Charge, Entry, Ledger, Spent, to_disk
from epsworth.release.locks import NO_LINKS, hold, let_go

HIDDEN = re.compile(r"\..*\.[0-9a-f]{32}\.epsworth")


class Output:
    """One output on its way.

    Attributes
    ----------
    temporary : Path
        Where to draw to.
    spent : Spent or None
        What the records lost before; None while they are not known.
    """

    def __init__(self, path: Path, charge: Charge, again: bool) -> None:
        self.path, self.charge, self.again = path, charge, again
        self.run, self.ledger = secrets.token_hex(16), Ledger(path.parent)
        self.temporary = path.with_name(f".{path.name[:40]}.{self.run}.epsworth")
        self.spent: Spent | None = None
        self.handle: int | None = None
        self.moving = False

    def enter(self, records: str | None) -> None:
        """Ask the ledger, make the hidden file and enter the run, all at once."""
        if self.path == self.ledger.path:
            raise OutputError(f"{self.path} is the ledger; give another output")
        with self.ledger.alone():
            _remove_leftovers(self.path.parent)
            self._ask(records)
            self.handle = _make(self.temporary, self.path)
            self.ledger.put(Entry.of(self.charge, records, self.run))

    def whole(self, records: str, rows: int) -> None:
        """Say that everything is drawn: of which records, and how many rows."""
        self.records, self.rows = records, rows

    def appear(self) -> None:
        """Complete the entry and move the file into place."""
        assert self.handle is not None
        with self.ledger.alone():
            self._ask(self.records)  # standard input is known only now
            self.ledger.put(replace(Entry.of(self.charge, self.records, self.run), rows=self.rows))
            os.fsync(self.handle)
            mask = os.umask(0)
            os.umask(mask)
            self.temporary.chmod(0o666 & ~mask)  # as a file opened for writing would have been made
            self.moving = True
            self.close()  # some systems move no open file; under the ledger's lock nobody takes it for a leftover
            os.replace(self.temporary, self.path)
            to_disk(self.path.parent)

    def take_back(self) -> None:
        """Remove the hidden file, then the entry: nothing is left of the run.  What has begun to move is charged."""
        with suppress(ValueError, OSError):  # whatever led here is told; an entry that stays counts
            self.temporary.unlink(missing_ok=True)
            if not self.moving:
                with self.ledger.alone():
                    self.ledger.withdraw(self.run)

    def close(self) -> None:
        """Let go of the hidden file."""
        if self.handle is not None:
            let_go(self.handle)
            self.handle = None

    def _ask(self, records: str | None) -> None:
        if records is not None:
            self.spent = self.ledger.spent(self.charge, records, again=self.again, run=self.run)


@contextmanager
def charged(path: Path, charge: Charge, records: str | None, *, again: bool) -> Iterator[Output]:
    """Enter a run into the ledger beside ``path`` and yield its output: draw to it, then say that it is `whole`.

    Parameters
    ----------
    records : str or None
        The fingerprint of the input; None where it is known only after the draws.
    """
    output = Output(path, charge, again)
    try:
        with writing(path):
            output.enter(records)
            yield output
            output.appear()
    except BaseException:
        output.take_back()
        raise
    finally:
        output.close()


def _make(temporary: Path, path: Path) -> int:
    """Make the hidden file for the owner's eyes only, locked as long as this process lives."""
    try:
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o600)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another place") from None
    hold(handle)
    return handle


def _remove_leftovers(folder: Path) -> None:
    """Remove the hidden files of processes that are dead: nobody locks them any more."""
    for name in filter(HIDDEN.fullmatch, os.listdir(folder)):
        try:
            handle = os.open(folder / name, os.O_RDWR | NO_LINKS)
        except OSError:
            continue  # another account's
        if hold(handle):
            (folder / name).unlink(missing_ok=True)
            let_go(handle)
        else:
            os.close(handle)
