"""A run: charged first, then drawn, sealed and moved into place; done again after a stop, it draws the same bytes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from epsworth.files import writing
from epsworth.release.ledger import Ledger
from epsworth.release.ledger_terms import Run, Terms
from epsworth.release.outputs import appear, hash_of, hidden, on_disk, remove_strays, standard_output


def bring_about(
    ledger: Ledger, run: Run, terms: Terms, path: Path | None, write: Callable[[Path], None]
) -> None:
    """Make the output of a charged run, unless it is there.

    Claim: whenever the process ends, ``path`` is what it was or the whole output, and ``write`` may be called again.

    Parameters
    ----------
    path : Path or None
        None is standard output, which gets everything or, where it breaks, a beginning of the same bytes.
    write : callable
        Draws into the file that it is given; with the run's key, so every time the same.
    """
    if path is not None and run.sha256 is not None and path.is_file() and hash_of(path) == run.sha256:
        if run.state != "done":  # stopped between the move and its last word
            ledger.done(run)
        return
    if run.state == "done":
        raise ledger.repeated(terms, 1 + run.times_before)
    place = Path(tempfile.gettempdir(), "standard-output") if path is None else path
    with hidden(place, run.id.hex()) as temporary:
        write(temporary)
        on_disk(temporary)
        ledger.seal(run, hash_of(temporary))
        if path is not None:
            appear(temporary, path)
        else:
            with temporary.open("rb") as made, writing("standard output"):
                sink = standard_output()
                shutil.copyfileobj(made, sink, 1 << 20)
                sink.flush()
    ledger.done(run)
    remove_strays(place, run.id.hex())
