"""Keyed hashes of inputs: equal for equal bytes on one account, meaningless to anybody else."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

from epsworth.files import OutputError, replacing
from epsworth.release.ledger import check_plain, state_folder
from epsworth.release.locks import locked

KEY, KEY_LOCK, KEY_BYTES = "ledger.key", ".ledger.key.lock", 32
BLOCK = 1 << 20


class Fingerprint:
    """A keyed hash of an input: equal for equal bytes on this account, meaningless to anybody else."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(key=account_key(), digest_size=16)

    def update(self, block: bytes) -> None:
        """Add bytes."""
        self._hash.update(block)

    def result(self) -> str:
        """Return the hash of all bytes so far."""
        return self._hash.hexdigest()


class Watched:
    """A stream of bytes that is fingerprinted as it is read."""

    def __init__(self, source: BinaryIO) -> None:
        self._source, self.fingerprint, self.read_bytes = source, Fingerprint(), 0

    def read(self, size: int = -1, /) -> bytes:
        """Read and remember."""
        block = self._source.read(size)
        self.fingerprint.update(block)
        self.read_bytes += len(block)
        return block


def fingerprint_of(path: Path) -> str:
    """Return the fingerprint of a file."""
    found = Fingerprint()
    with path.open("rb") as source:
        while block := source.read(BLOCK):
            found.update(block)
    return found.result()


def account_key() -> bytes:
    """Return this account's key, made on first use, readable by its owner only."""
    path = state_folder() / KEY
    try:
        key = check_plain(path).read_bytes() if path.exists() else _new_key(path)
    except (OSError, OutputError):
        raise ValueError(
            f"the ledger's key {path} cannot be written or read; set EPSWORTH_STATE to a folder of your own"
        ) from None
    if len(key) != KEY_BYTES:  # no key, or a short one, would let everybody try out what the records were
        raise ValueError(
            f"the ledger's key {path} has {len(key)} bytes instead of {KEY_BYTES}: it was damaged; restore it, or "
            "remove it and the ledgers written with it"
        )
    return key


def _new_key(path: Path) -> bytes:
    """Make the key once, however many processes ask for it first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(KEY_LOCK)):
        if not path.exists():
            with replacing(path, mode=0o600) as temporary, temporary.open("wb") as file:
                file.write(os.urandom(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
        return check_plain(path).read_bytes()
