"""Reading with sentences for what goes wrong; writing so that a file is whole or absent, moved into place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[bytes]:
    """Yield a file's content; where it cannot be read, or is refused, the sentence names the file."""
    try:
        yield Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read the {what} {path}: {error.strerror}; check the path") from None
    except ValueError as error:  # the decoders' own errors, too
        raise ValueError(f"{what} {path}: {error}") from None


class OutputError(ValueError):
    """An output cannot be written."""


def check_writable(path: str | Path) -> Path:
    """Return the path (links followed), or say why nothing can be written there; for use *before* long work."""
    path = Path(path)
    try:
        if path.absolute().parts[1:2] == ("dev",):  # /dev/stdout may lead to a file that another process writes
            raise OutputError(f"cannot write {path}: it is a device; give a file (- is standard output)")
        path = path.resolve() if path.is_symlink() else path
        folder = path.parent
        if not folder.is_dir():
            raise OutputError(f"cannot write {path}: the folder {folder} does not exist; create it or choose another")
        if path.is_dir():
            raise OutputError(f"cannot write {path}: it is a folder; give a file name")
        if path.exists() and not path.is_file():
            raise OutputError(f"cannot write {path}: it is a device or a pipe; give a file (- is standard output)")
        if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
            raise OutputError(f"cannot write {path}: permission denied; choose another place")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another place") from None
    return path


@contextmanager
def replacing(path: str | Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary path; on success move it to ``path``, on any error or Ctrl-C remove it.

    ``mode``: who may read and write it, less what the umask forbids; 0o600 for the owner's eyes only.
    """
    path = check_writable(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another place") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(mode & ~mask)  # as a file opened for writing would have been made
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_distinct(**paths: str | Path | None) -> None:
    """Refuse paths of which two lead to one file: through links, other spellings, or a second name of the file.

    Parameters
    ----------
    **paths
        By the word that messages use; None stands for none.

    Examples
    --------
    >>> check_distinct(input="a.csv", output="./b.csv", receipt=None)
    >>> check_distinct(input="a.csv", output="./a.csv")
    Traceback (most recent call last):
    ValueError: ./a.csv: the output is the input itself; give another path
    """
    given = [(word, Path(path)) for word, path in paths.items() if path is not None]
    for i, (word, path) in enumerate(given):
        for other, second in given[:i]:
            both = path.exists() and second.exists()
            if path.samefile(second) if both else os.path.realpath(path) == os.path.realpath(second):
                raise ValueError(f"{paths[word]}: the {word} is the {other} itself; give another path")


def write_text(path: str | Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
