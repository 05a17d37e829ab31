"""The key of an account: what is hashed with it means nothing to anybody else."""

from __future__ import annotations

import os
from pathlib import Path

from epsworth.files import OutputError, replacing
from epsworth.release.folders import check_plain, state_folder
from epsworth.release.locks import locked

KEY, KEY_LOCK, KEY_BYTES = "ledger.key", ".ledger.key.lock", 32


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
