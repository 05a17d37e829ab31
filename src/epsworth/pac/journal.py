"""A file of what was answered: each line on the disk before its answer leaves, each chained to all before it.

It holds the secret, so that its owner alone may read it.  A line is a JSON object, a blank, and the SHA-256 of the
line before's, in binary, and the object: no bit of what went before can change without notice.  That the *last* lines
are gone, as in an older copy, only somebody who remembers the `head` can tell.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from epsworth.files import check_name, file_named
from epsworth.policy.folders import NO_LINKS, hold, let_go, to_disk

Entry = dict[str, Any]
START = bytes(32)
OTHERS = 0o077  # permissions of anybody but the owner


class Journal:
    """An open journal, locked against every other process, which a copy of its file is not.

    Parameters
    ----------
    path : path
        Made if absent, for its owner alone.
    head : str, optional
        What `head` was after an answer that is known to have left.

    Raises
    ------
    ValueError
        For a file that is in use, that others may read, that is damaged, or that does not know ``head``.
    """

    _handle: int | None = None

    def __init__(self, path: str | Path, head: str | None = None) -> None:
        self.path = check_name("ledger", file_named(path)).absolute()
        if not (head is None or (isinstance(head, str) and len(head) == 64)):
            raise ValueError("head must be the 64 letters that .head showed, or None")
        self._expected, self._home = head, os.getpid()
        self._head, self._size = START, 0
        try:
            self._handle = _opened(self.path)
        except OSError as error:
            raise ValueError(f"cannot open the ledger {self.path}: {error.strerror}; check the path") from None

    @property
    def head(self) -> str:
        """The mark of the last line, and so of all lines: 64 letters that tell nothing of them."""
        return self._head.hex()

    @property
    def open(self) -> bool:
        """Whether it can be written to."""
        return self._handle is not None

    def read(self) -> Iterator[Entry]:
        """Yield all entries, once; cut off what was never sent: a last line without its newline.

        A last line with another byte in the newline's place was whole once, and is refused like any damaged one.
        """
        assert self._handle is not None
        known = self._expected is None
        try:
            with os.fdopen(os.dup(self._handle), "rb") as stream:
                for number, line in enumerate(stream, 1):
                    body, _, mark = line[:-1].rpartition(b" ")
                    chained = hashlib.sha256(self._head + body).digest()
                    whole, ended = mark == chained.hex().encode(), line.endswith(b"\n")
                    if not (whole or ended):
                        break
                    if not (whole and ended):
                        raise self._damaged(number)
                    self._head, self._size = chained, self._size + len(line)
                    known = known or self.head == self._expected
                    yield self._entry(body, number)
            os.lseek(self._handle, self._size, os.SEEK_SET)
            os.ftruncate(self._handle, self._size)
            os.fsync(self._handle)
            to_disk(self.path.parent)  # its name, too, before the first answer
        except OSError as error:
            raise ValueError(f"cannot read the ledger {self.path}: {error.strerror}; check the disk") from None
        if not known:
            raise ValueError(
                f"the ledger {self.path} does not know the line that head names: it is an older copy, or another "
                "ledger, and would spend again what was spent since; give the newest one"
            )

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries and wait until they are on the disk; whatever goes wrong closes the journal for good."""
        if self._handle is None:
            raise ValueError(f"the ledger {self.path} is closed; open it again")
        head, lines = self._head, []
        for entry in entries:
            body = json.dumps(entry, separators=(",", ":")).encode()
            head = hashlib.sha256(head + body).digest()
            lines.append(body + b" " + head.hex().encode() + b"\n")
        data = b"".join(lines)
        try:
            self._check_place()
            left = memoryview(data)
            while left:
                left = left[os.write(self._handle, left) :]
            os.fsync(self._handle)
        except OSError as error:
            self.close()
            raise ValueError(
                f"the ledger {self.path} could not be written ({error.strerror}): nothing was answered, and it is "
                "closed; mend the disk, then open it again"
            ) from None
        except BaseException:
            self.close()
            raise
        self._head, self._size = head, self._size + len(data)

    def close(self) -> None:
        """Let another process have it; a forked one only lets go of its own handle, which shares the lock."""
        handle, self._handle = self._handle, None
        if handle is not None:
            if os.getpid() == self._home:
                let_go(handle)
            else:
                os.close(handle)

    def __del__(self) -> None:
        self.close()

    def _check_place(self) -> None:
        """Refuse to go on where the file was moved, replaced or written to: what is there would be another past."""
        assert self._handle is not None
        mine, named = os.fstat(self._handle), os.stat(self.path)
        if (mine.st_dev, mine.st_ino, mine.st_size) != (named.st_dev, named.st_ino, self._size):
            self.close()
            raise ValueError(f"the ledger {self.path} was moved or changed while it was in use, and is closed")

    def _entry(self, body: bytes, number: int) -> Entry:
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._damaged(number)
        return found

    def _damaged(self, number: int) -> ValueError:
        return ValueError(
            f"line {number} of the ledger {self.path} is damaged, or lines before it are missing: nobody knows what "
            "was spent; give the file as it was, or answer from other models with a ledger of their own"
        )


def _opened(path: Path) -> int:
    """Return a handle that nobody else has locked, of a plain file that is still there and its owner's alone."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINKS | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        if not hold(handle):
            raise ValueError(f"the ledger {path} is in use by another server; there is one at a time")
        mine, named = os.fstat(handle), os.stat(path)
        if not stat.S_ISREG(mine.st_mode) or (mine.st_dev, mine.st_ino) != (named.st_dev, named.st_ino):
            raise ValueError(f"the ledger {path} is no plain file, or was just replaced; give another, or try again")
        if os.name == "posix" and (mine.st_mode & OTHERS or mine.st_uid != os.geteuid()):
            raise ValueError(
                f"the ledger {path} knows which model is the secret one, and is another account's or may be read by "
                "others; make it yours alone (chmod 600), if nobody has read it"
            )
    except BaseException:
        os.close(handle)
        raise
    return handle
