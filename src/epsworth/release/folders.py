"""The account's own folder; plain files in it, and names that are on the disk."""

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
    if path == "":  # which would be the current folder
        raise ValueError(f"the {what}'s folder has an empty name; give one, or . for the current folder")
    return check_name(what, file_named(path))


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
