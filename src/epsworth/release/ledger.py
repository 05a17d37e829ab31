"""What left already, and the receipt of a run: budgets add when the same records are perturbed again.

The ledger stands beside the output and may travel with it, so it must not tell what the input was: it keeps
keyed hashes, and the key stays in the user's own folder.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from epsworth.files import OutputError, replacing

LEDGER = "epsworth-ledger.jsonl"
KEY_BYTES = 32
BLOCK = 1 << 20


@dataclass(frozen=True)
class Receipt:
    """What one run released: public facts only, none of them a draw or a value.

    Attributes
    ----------
    rows : int
    columns : tuple of str
        The perturbed ones.
    epsilon, delta, notion
        Per record, of this run.
    times_before : int or None
        How often the ledger has seen these records leave under the same policy before; None without a ledger.
    epsilon_so_far : float or None
        Sum over all runs of these records in the ledger, this one included, whatever the policy.
    private : bool
        False if replayable randomness touched the output: then it must not leave the device.
    """

    policy: str
    rows: int
    columns: tuple[str, ...]
    epsilon: float
    delta: float
    notion: str
    version: str
    times_before: int | None = None
    epsilon_so_far: float | None = None
    private: bool = True

    def __str__(self) -> str:
        """Return the receipt in a sentence or two."""
        from epsworth.rounding import show_up

        delta = f", delta {show_up(self.delta)}" if self.delta else ""
        text = (
            f"{self.rows} rows, perturbed in {', '.join(self.columns)}: {self.notion} LDP, "
            f"epsilon {show_up(self.epsilon)}{delta} per record; policy {self.policy[:12]}, epsworth {self.version}."
        )
        if self.times_before is None:
            text += " No ledger was kept: perturbing the same records again adds the same epsilon."
        elif self.epsilon_so_far is not None and self.epsilon_so_far > self.epsilon:
            text += f" These records left before: epsilon {show_up(self.epsilon_so_far)} per record in all."
        return text if self.private else f"NOT PRIVATE (replayable randomness): {text}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self) | {"columns": list(self.columns)}


class Ledger:
    """Runs whose outputs lie in one folder.

    Parameters
    ----------
    folder : path
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LEDGER

    def entries(self, records: str) -> list[dict[str, Any]]:
        """Return the runs of these records (see `fingerprint`); a damaged ledger is refused, not ignored."""
        if not self.path.exists():
            return []
        try:
            lines = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines() if line.strip()]
            return [line for line in lines if line["records"] == records]
        except (OSError, ValueError, KeyError, TypeError):
            raise ValueError(
                f"the ledger {self.path} cannot be read, so nobody knows what left before; repair it, or move it away"
            ) from None

    def add(self, records: str, policy: str, rows: int, epsilon: float) -> None:
        """Add a run: one line, written at once and flushed to the disk before the output appears."""
        line = json.dumps({"records": records, "policy": policy, "rows": rows, "epsilon": epsilon}) + "\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line.encode())
            os.fsync(handle)
        finally:
            os.close(handle)


class Fingerprint:
    """A keyed hash of an input: equal for equal bytes on this account, meaningless to anybody else."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(key=_key(), digest_size=16)

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


def _key() -> bytes:
    """Return this account's key, made on first use, readable by its owner only."""
    path = state_folder() / "ledger.key"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path, mode=0o600) as temporary:
                temporary.write_bytes(os.urandom(KEY_BYTES))
        return path.read_bytes()
    except (OSError, OutputError):
        raise ValueError(
            f"the ledger's key {path} cannot be written or read; set EPSWORTH_STATE to a folder of your own"
        ) from None


def state_folder() -> Path:
    """Return the folder of what belongs to the account: EPSWORTH_STATE, or the system's place for it."""
    named = os.environ.get("EPSWORTH_STATE")
    if named:
        return Path(named)
    from typer import get_app_dir

    return Path(get_app_dir("epsworth"))
