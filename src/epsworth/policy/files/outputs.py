"""The output of a charged run: drawn into a hidden file, moved into place, and its run ended: whole, or absent.

Nothing is drawn before its run is charged (`Ledger.begin`), and whoever draws it again draws the same bytes: what a
stopped run left, half or whole, shows nothing that its charge does not cover.  What a table may hold where a policy
perturbs, and what it must hold afterwards, is checked.
"""

from __future__ import annotations

import numbers
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from epsworth.files import OutputError, as_if_new, file_sha256, writing
from epsworth.policy.folders import NO_LINKS, to_disk
from epsworth.policy.ledger import ChargeRequest, Ledger, Run
from epsworth.values import is_missing

if TYPE_CHECKING:
    import narwhals as nw

    from epsworth.arrays import Bools, Indices
    from epsworth.policy.columns import Column
    from epsworth.policy.policy import Policy
    from epsworth.policy.tables import GridColumn

LIBRARIES = ("builtins", "numpy", "decimal", "fractions", "datetime", "pandas")  # whose types hold one value
PLAIN = (str, bool, np.bool_, numbers.Real, np.number)  # decimals are looked at apart: they are registered as no reals


def check_plain(name: str, values: Iterable[Any]) -> None:
    """Refuse a column of objects that are not texts, numbers, truths or missing; the message shows no value."""
    for kind in {type(value) for value in values if not is_missing(value)}:
        if kind.__module__.partition(".")[0] not in LIBRARIES:
            raise ValueError(
                f"{name}: the column holds values of a type of somebody's own, which may carry more than one number or "
                "word; give plain ones"
            )
        if not (issubclass(kind, PLAIN) or kind.__name__ == "Decimal") or issubclass(kind, np.complexfloating):
            raise ValueError(
                f"{name}: the column holds something that is not a number or a word; give one number or word per record"
            )


def check_released(
    column: Column | GridColumn,
    drawn: Indices,
    keep: Bools | None,
    policy: Policy,
    released: nw.Series[Any] | NDArray[Any],
) -> None:
    """Check after a draw that every record has a value of the policy's public table, and no other; else nothing leaves.

    Raises
    ------
    ArithmeticError
        A fault of the program, never of the table.
    """
    name, places = column.feature.name, np.asarray(drawn)
    if len(released) != places.size:
        raise ArithmeticError(
            f"{name}: {len(released)} values were drawn for {places.size} records; nothing is released"
        )
    inside = not places.size or (places.min() >= 0 and places.max() < len(column.values))
    if not inside or not _public(column, places, keep, policy, released):
        raise ArithmeticError(f"{name}: what was drawn is not in the policy's public table; nothing is released")


def _public(
    column: Column | GridColumn,
    places: Indices,
    keep: Bools | None,
    policy: Policy,
    released: nw.Series[Any] | NDArray[Any],
) -> bool:
    """Compare numbers with what was looked up, row by row; words with the declared ones."""
    if column.feature.categories is None:
        found = released if isinstance(released, np.ndarray) else released.to_numpy()
        told = column.released(places, keep, policy)
        return np.array_equal(found.astype(np.float64), told.astype(np.float64), equal_nan=True)
    values = released.tolist() if isinstance(released, np.ndarray) else released.unique().to_list()
    return all(value in column.feature.categories for value in set(values) if not is_missing(value))


STANDARD = "-"
BLOCK = 1 << 20


def execute_run(
    ledger: Ledger, run: Run, request: ChargeRequest, path: Path | None, write: Callable[[Path], None]
) -> None:
    """Make the output of a charged run, unless it is done, and end the run.

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
            raise ledger.repeated(request, 1 + run.times_before)
        return
    place = Path(tempfile.gettempdir(), "standard-output") if path is None else path
    try:
        with hidden(place, run.id.hex()) as temporary:
            write(temporary)
            on_disk(temporary)
            if path is None:
                _print(temporary)

            def move() -> None:
                if path is not None:
                    appear(temporary, path)
                _remove_strays(place, run.id.hex())

            ledger.finish(run, file_sha256(temporary), move)
    except FileNotFoundError as error:  # another had this very run, was done, and removed what it took for remains
        if not is_there(path, ledger.output_of(run)):
            raise OutputError(
                f"cannot write {place}: {error.filename} disappeared meanwhile; the run is charged, and goes on "
                "where the same command is given again"
            ) from None


def _print(made: Path) -> None:
    with made.open("rb") as content, writing("standard output"):
        sink = standard_output()
        try:
            shutil.copyfileobj(content, sink, BLOCK)
            sink.flush()
        except BrokenPipeError:
            raise OutputError(
                "standard output was closed before everything was written; the run is charged, and goes on where "
                "the same command is given again"
            ) from None


@contextmanager
def hidden(path: Path, run: str) -> Iterator[Path]:
    """Make a hidden file beside ``path`` for the owner's eyes only, and remove it if it is still there at the end."""
    temporary = path.with_name(f".{path.name[:40]}.{run}.{secrets.token_hex(4)}.part")
    try:
        os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o600))
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another place") from None
    try:
        with writing(path):
            yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def appear(temporary: Path, path: Path) -> None:
    """Move a whole file, which is on the disk, into place, as a file opened for writing would have been made."""
    as_if_new(temporary, 0o666)
    os.replace(temporary, path)
    to_disk(path.parent)


def _remove_strays(path: Path, run: str) -> None:
    """Remove what stopped processes left of a run whose output is there."""
    middle, end = f".{path.name[:40]}.{run}.", ".part"
    with suppress(OSError):
        for name in os.listdir(path.parent):
            if name.startswith(middle) and name.endswith(end):
                with suppress(OSError):
                    (path.parent / name).unlink(missing_ok=True)


def is_there(path: Path | None, sha256: str | None) -> bool:
    """Tell whether an output is what its run wrote; what went to standard output is nowhere."""
    return path is not None and sha256 is not None and path.is_file() and file_sha256(path) == sha256


def on_disk(path: Path) -> None:
    """Wait until a file's content is on the disk."""
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def bytes_of(stream: Any, what: str) -> BinaryIO:
    """Return the stream of bytes under a standard stream; some shells close it, and notebooks have none."""
    found: BinaryIO | None = getattr(stream, "buffer", None)
    if found is None:
        raise ValueError(f"{what} is closed, or takes texts alone; give a file instead of -")
    return found


def standard_output() -> BinaryIO:
    """Return the stream of bytes under standard output."""
    return bytes_of(sys.stdout, "standard output")
