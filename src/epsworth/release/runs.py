"""A run: charged first, then drawn, sealed and moved into place; done again after a stop, it draws the same bytes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from epsworth.files import OutputError, writing
from epsworth.release.ledger import Ledger
from epsworth.release.ledger_terms import Run, Terms
from epsworth.release.outputs import appear, hash_of, hidden, is_there, on_disk, remove_strays, standard_output


def bring_about(ledger: Ledger, run: Run, terms: Terms, path: Path | None, write: Callable[[Path], None]) -> None:
    """Make the output of a charged run, unless it is there.

    Claim: whenever the process ends, ``path`` is what it was or the whole output, and ``write`` may be called again.

    Parameters
    ----------
    path : Path or None
        None is standard output, which gets everything or, where it breaks, a beginning of the same bytes.
    write : callable
        Draws into the file that it is given; with the run's key, so every time the same.
    """
    if run.state == "done":
        if not is_there(path, run.sha256):
            raise ledger.repeated(terms, 1 + run.times_before)
        return
    if not is_there(path, run.sha256):  # else it was stopped between the move and its last word
        place = Path(tempfile.gettempdir(), "standard-output") if path is None else path
        try:
            _draw(ledger, run, place, path, write)
        except FileNotFoundError as error:  # another had this very run, was done, and removed what it took for remains
            if not is_there(path, ledger.sealed(run)):
                raise OutputError(
                    f"cannot write {place}: {error.filename} disappeared meanwhile; the run is charged, and goes on "
                    "where the same command is given again"
                ) from None
        remove_strays(place, run.id.hex())
    ledger.done(run)


def _draw(ledger: Ledger, run: Run, place: Path, path: Path | None, write: Callable[[Path], None]) -> None:
    with hidden(place, run.id.hex()) as temporary:
        write(temporary)
        on_disk(temporary)
        ledger.seal(run, hash_of(temporary))
        if path is not None:
            appear(temporary, path)
            return
        with temporary.open("rb") as made, writing("standard output"):
            sink = standard_output()
            try:
                shutil.copyfileobj(made, sink, 1 << 20)
                sink.flush()
            except BrokenPipeError:
                raise OutputError(
                    "standard output was closed before everything was written; the run is charged, and goes on where "
                    "the same command is given again"
                ) from None
