"""Skops files are zip archives: what they would unpack to is bounded before any of it is loaded."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np

LARGEST = 2**30  # bytes that an archive may unpack to
SMALL, RATIO = 2**26, 100  # beyond the first, not more than so many times the archive's own size
CHUNK = 2**20
ZIP, NPY = b"PK", b"\x93NUMPY"
SCHEMA = "schema.json"


class ArchiveError(ValueError):
    """An archive that is too large, or not what it says."""


def check_archive(data: bytes) -> None:
    """Refuse an archive that unpacks to too much, in itself or in archives it holds, or that holds object arrays.

    What counts is what the directory states, every member as often as the schema refers to it; reading then stops
    at what was stated, member by member.
    """
    most = min(LARGEST, max(SMALL, RATIO * len(data)))
    left = most
    for name, size in _loaded(data, most):
        left -= size
        if left < 0:
            raise ArchiveError(
                f"unpacks to more than {most / 2**20:,.0f} MB, at {name!r}, from {len(data) / 2**20:,.1f} MB"
            )


def _loaded(data: bytes, most: int) -> list[tuple[str, int]]:
    """Return the members that loading unpacks, and their sizes; references after the members themselves."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        stated = {info.filename: info.file_size for info in archive.infolist()}
        found = [(info.filename, info.file_size) for info in archive.infolist()]
        if sum(size for _, size in found) > most:
            return found
        for info in archive.infolist():
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
                raise ArchiveError(f"holds {info.filename!r} in a compression that skops does not write")
            member = _read(archive, info)
            if member.startswith(ZIP):  # a sparse matrix
                found += [(f"{info.filename}: {name}", size) for name, size in _loaded(member, most)]
            elif member.startswith(NPY):
                _check_array(info.filename, member)
            if info.filename == SCHEMA:
                found += [(name, stated.get(name, 0)) for name in _references(json.loads(member))]
    return found


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return a member, in pieces, so that it cannot become larger than its stated size."""
    parts, size = [], 0
    with archive.open(info) as file:
        while part := file.read(CHUNK):
            size += len(part)
            if size > info.file_size:
                raise ArchiveError(f"holds {info.filename!r}, which is larger than the archive states")
            parts.append(part)
    return b"".join(parts)


def _check_array(name: str, member: bytes) -> None:
    """Refuse an array of Python objects, which is a pickle, or one whose header promises more than follows."""
    file = io.BytesIO(member)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ArchiveError(f"holds an array of Python objects, {name!r}, which is a pickle")
    if dtype.itemsize * int(np.prod([int(side) for side in shape], dtype=object)) != len(member) - file.tell():
        raise ArchiveError(f"holds an array, {name!r}, of another size than it states")


def _references(part: Any) -> list[str]:
    """Return the members that a schema refers to, as often as it does."""
    waiting, found = [part], []
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += part.values()
            if isinstance(file := part.get("file"), str):
                found.append(file)
        elif isinstance(part, list):
            waiting += part
    return found
