"""SHA-256 of the files that a study read: of what was read, not of what lies there later."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsworth.documents import read_as
from epsworth.files import check_readable


@dataclass(frozen=True)
class ReadFile:
    """A file as it was: how many bytes, and their SHA-256."""

    sha256: str
    size: int

    @classmethod
    def of(cls, path: Path, what: str) -> ReadFile:
        """Read a file to its end."""
        with check_readable(path, what).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256")
            return cls(digest.hexdigest(), stream.tell())

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ReadFile:
        """Read what `to_dict` wrote."""
        return cls(read_as(str, document["sha256"], "sha256"), read_as(int, document["bytes"], "bytes"))

    def named(self, path: str | Path) -> str:
        """Return what pages say of it: its name without the folders that tell about its owner, and the SHA-256."""
        return f"{Path(path).name}, SHA-256 {self.sha256}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"sha256": self.sha256, "bytes": self.size}


def read_files(files: Mapping[str, Path]) -> dict[str, ReadFile]:
    """Return what files hold now, by the field of a study that names them."""
    return {name: ReadFile.of(path, name) for name, path in files.items()}


def check_unchanged(before: Mapping[str, ReadFile], files: Mapping[str, Path]) -> None:
    """Refuse files that were changed since; to be called when they have been read."""
    for name, found in read_files(files).items():
        if found != before[name]:
            raise ValueError(f"{name}: {files[name]} was changed while it was read; run it again")
