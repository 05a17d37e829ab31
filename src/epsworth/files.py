"""Reading with sentences for what goes wrong; writing so that a file is whole or absent, moved into place."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epsworth.numerals import short

RESULT_BYTES = 1 << 28  # of a result: reading curves takes five times as many, and seconds
PAIR_BYTES, RECORD_BYTES = 44, 64  # of two bounds, and of what else a result says of a record


def file_named(path: object, field: str = "path") -> Path:
    """Return the path of a file, or refuse what names none in one sentence.

    Examples
    --------
    >>> file_named(5)
    Traceback (most recent call last):
    TypeError: path must name a file, as a text or a Path, got 5
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{field} must name a file, as a text or a Path, got {short(path)}")
    if path == "":  # which would be the current folder
        raise ValueError(f"{field} must name a file, got an empty text")
    return Path(path)


def check_name(what: str, path: Path) -> Path:
    r"""Return a path that can be written down, and handed to any library; others are refused.

    Examples
    --------
    >>> from pathlib import Path
    >>> check_name("table", Path("\udcff.csv"))
    Traceback (most recent call last):
    ValueError: the table '\udcff.csv': the name is no UTF-8; rename it
    """
    name = os.fspath(path)
    if "\0" in name:
        raise ValueError(f"the {what} {name!r}: a name holds no NUL; give another")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the {what} {name!r}: the name is no UTF-8; rename it") from None
    return path


@contextmanager
def reading(path: str | Path, what: str, *, most: int | None = None) -> Iterator[bytes]:
    """Yield a file's content; where it cannot be read, or is refused, the sentence names the file.

    ``most``: bytes that it may have; then devices and pipes, which may never end, are refused as well.
    """
    path = check_name(what, file_named(path))
    try:
        yield path.read_bytes() if most is None else _read_at_most(path, most)
    except OSError as error:
        raise ValueError(f"cannot read the {what} {path}: {error.strerror}; check the path") from None
    except UnicodeDecodeError:
        raise ValueError(f"{what} {path}: is not UTF-8 text; convert it to UTF-8 first") from None
    except ValueError as error:
        raise ValueError(f"{what} {path}: {error}") from None


def _read_at_most(path: Path, most: int) -> bytes:
    found = path.stat()
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise ValueError("is a device or a pipe; give a file")
    if found.st_size <= most:
        with path.open("rb") as stream:
            content = stream.read(most + 1)
        if len(content) <= most:  # some files say that they are empty, and others grow
            return content
    raise ValueError(f"has more than {_too_much(most)}")


def _too_much(most: int) -> str:
    return f"{most >> 20} MB, too much for one result; ask about fewer records at a time"


def check_curves_size(shape: tuple[int, int, int], *, accuracy: bool) -> None:
    """Refuse, before any work, curves that no command would read once they are written.

    Parameters
    ----------
    shape : tuple of int
        Mechanisms, epsilons, records.
    accuracy : bool
        Whether bounds on the accuracy stand beside those on the stability.

    Examples
    --------
    >>> check_curves_size((6, 7, 100_000), accuracy=False)
    >>> check_curves_size((6, 7, 200_000), accuracy=False)
    Traceback (most recent call last):
    ValueError: the bounds of 200,000 records would take more than 256 MB, too much for one result; ask about fewer \
records at a time
    """
    mechanisms, epsilons, records = shape
    pairs = mechanisms * epsilons * (2 if accuracy else 1)
    if records * (pairs * PAIR_BYTES + RECORD_BYTES) > RESULT_BYTES:
        raise ValueError(f"the bounds of {records:,} records would take more than {_too_much(RESULT_BYTES)}")


BEGINNINGS = {  # of files that are often taken for text
    b"\x1f\x8b": "is compressed with gzip; decompress it first",
    b"PK\x03\x04": "is a zip archive or a spreadsheet; export it as text first",
    b"PAR1": "is a Parquet file; name it .parquet",
    b"(\xb5/\xfd": "is compressed with zstandard; decompress it first",
    b"\xff\xfe": "is UTF-16 text; convert it to UTF-8 first",
    b"\xfe\xff": "is UTF-16 text; convert it to UTF-8 first",
}
GZIP = b"\x1f\x8b"
FULL = {
    errno.ENOSPC: "make room or choose another place",
    errno.EDQUOT: "make room or choose another place",
    errno.EFBIG: "make room or choose another place",
    errno.EIO: "check the disk or choose another place",
}
"""What to do where the system cannot write."""


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_text(beginning: bytes, what: str) -> None:
    """Refuse bytes that begin like something else than UTF-8 text, and say what they are.

    Examples
    --------
    >>> check_text(b"age,job", "the table")
    >>> check_text("age,job".encode("utf-16"), "the table")
    Traceback (most recent call last):
    ValueError: the table is UTF-16 text; convert it to UTF-8 first
    """
    for start, told in BEGINNINGS.items():
        if beginning.startswith(start):
            raise ValueError(f"{what} {told}")
    if beginning[1:2] == b"\0" or beginning[:1] == b"\0":
        raise ValueError(f"{what} is UTF-16 or binary; convert it to UTF-8 text first")


def check_readable(path: str | Path, what: str) -> Path:
    """Return the path of a file that can be read, or say why it cannot."""
    path = file_named(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            why = "it is a folder; give a file"
        elif not stat.S_ISREG(mode):
            why = "it is a device or a pipe; give a file"
        elif not os.access(path, os.R_OK):
            why = "permission denied; check who may read it"
        else:
            return path
    except FileNotFoundError:
        why = "there is no such file; check the path"
    except (OSError, ValueError) as error:  # a loop of links, a name that is too long, a NUL in it
        why = f"{getattr(error, 'strerror', None) or error}; check the path"
    raise ValueError(f"cannot read the {what} {path}: {why}")


def check_distinct(**paths: str | Path | None) -> None:
    """Refuse paths of which two lead to one file: through links, other spellings, or a second name of the file.

    Parameters
    ----------
    **paths
        By the word that messages use; None stands for none.  A stream, such as /dev/stdin, counts where a regular
        file was redirected to it.

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
            if _same_file(path, second):
                raise ValueError(f"{paths[word]}: the {word} is the {other} itself; give another path")


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other) and one.is_file()
    except (OSError, ValueError):  # one is not there yet
        return os.path.normcase(os.path.realpath(one)) == os.path.normcase(os.path.realpath(other))


class OutputError(ValueError):
    """An output cannot be written."""


def check_writable(path: str | Path) -> Path:
    """Return the path (links followed), or say why nothing can be written there; for use *before* long work."""
    path = file_named(path)
    try:
        if "\0" in str(path):
            raise OutputError(f"cannot write {str(path)!r}: a file's name holds no NUL; choose another")
        if path.absolute().parts[1:2] == ("dev",):  # /dev/stdout may lead to a file that another process writes
            raise OutputError(f"cannot write {path}: it is a device; give a file (- is standard output)")
        path = _followed(path) if path.is_symlink() else path
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


def _followed(path: Path) -> Path:
    """Return where links lead; some versions of Python raise at a circle, others return a part of it."""
    try:
        found = path.resolve()
    except RuntimeError:
        found = path
    if found.is_symlink():
        raise OutputError(f"cannot write {path}: its links lead in a circle; choose another place")
    return found


@contextmanager
def writing(what: str | Path) -> Iterator[None]:
    """Name the output in the refusal when the system finds no room for it, or its disk fails."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise OutputError(f"cannot write {what}: {os.strerror(error.errno)}; {FULL[error.errno]}") from None


def as_if_new(made: Path, mode: int) -> None:
    """Give what was made for its owner alone the mode that a new file, or folder, gets in the same place.

    One is made, looked at and removed: the umask is every thread's, and to read it is to set it.
    """
    model = made.with_name(f".{secrets.token_hex(8)}.new")
    if made.is_dir():
        model.mkdir(mode)
        found = model.stat().st_mode
        model.rmdir()
    else:
        handle = os.open(model, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        found = os.fstat(handle).st_mode
        os.close(handle)
        model.unlink()
    made.chmod(stat.S_IMODE(found))


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
        with writing(path):
            yield temporary
            as_if_new(temporary, mode)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
