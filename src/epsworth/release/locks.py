"""Locks between threads, processes and accounts; the operating system ends them with the process that holds them."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # nor waits for a pipe

if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 40  # locked bytes cannot be written there: one beyond every file's end is taken

    def hold(handle: int, *, wait: bool = False) -> bool:
        """Lock an open file for oneself; False where another holds it and ``wait`` is not set."""
        while True:
            os.lseek(handle, FAR, os.SEEK_SET)
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            except OSError:
                if not wait:
                    return False
            else:
                os.lseek(handle, 0, os.SEEK_SET)
                return True

    def let_go(handle: int) -> None:
        """Unlock and close."""
        os.close(handle)

else:
    import fcntl

    def hold(handle: int, *, wait: bool = False) -> bool:
        """Lock an open file for oneself; False where another holds it and ``wait`` is not set."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def let_go(handle: int) -> None:
        """Unlock and close: a process forked meanwhile may have a copy of the handle."""
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file ``path`` alone, waiting for whoever holds it; it is made for that, and removed afterwards.

    What stands there and is no plain file raises `OSError`: it would be waited for without end.
    """
    handle = _held(path)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # while it is held: whoever waits for it finds another file under its name, or none
        let_go(handle)


def _held(path: Path) -> int:
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o666)  # network file systems lock no other
        except PermissionError:  # another account's
            handle = os.open(path, os.O_RDONLY | NO_LINKS)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, f"{path.name} is no plain file", str(path))
            hold(handle, wait=True)
            mine, named = os.fstat(handle), os.stat(path)
            if (mine.st_dev, mine.st_ino) == (named.st_dev, named.st_ino):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
