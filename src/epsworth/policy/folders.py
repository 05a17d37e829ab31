"""The account's own folder, plain files in it, and locks between threads, processes and accounts.

The operating system ends a lock with the process that holds it.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from epsworth.files import check_name, file_named


def state_folder() -> Path:
    """Return the folder of what belongs to the account: EPSWORTH_STATE, or the system's place for it.

    That is ``$XDG_STATE_HOME/epsworth`` where this is an absolute path, else ``~/.local/state/epsworth``; on Windows
    and macOS the folder of an application's data.
    """
    named = os.environ.get("EPSWORTH_STATE")
    if named:
        return Path(named)
    if sys.platform in ("win32", "darwin"):
        from typer import get_app_dir

        return Path(get_app_dir("epsworth"))
    home = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local" / "state") / "epsworth"


def folder_named(what: str, path: object) -> Path:
    """Return the path of a folder; what names none is refused in a sentence."""
    if isinstance(path, str) and path == "":  # which would be the current folder
        raise ValueError(f"the {what}'s folder has an empty name; give one, or . for the current folder")
    return check_name(what, file_named(path, what))


def to_disk(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system lets folders be opened."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # some file systems know no such wish
                raise
        finally:
            os.close(handle)


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
