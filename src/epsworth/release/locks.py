"""Locks between threads, processes and accounts; the operating system ends them with the process that holds them."""

from __future__ import annotations

import os
import sys

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
