"""The JSON-lines ledger that earlier versions kept beside each output: its lines, read."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsworth.documents import read_json
from epsworth.release.folders import check_plain

LEDGER = "epsworth-ledger.jsonl"


@dataclass(frozen=True)
class Entry:
    """One run.

    Attributes
    ----------
    records : str or None
        The fingerprint of its input (see `keyed`); None while standard input is not read to its end.
    policy : str
        The policy's fingerprint.
    epsilon : float
        Per record.
    rows : int or None
        None until the output is whole: a run that was stopped before counts as having left.
    delta, notion
        Per record; None in lines of older versions, which did not keep them.
    run : str or None
        A random name.
    """

    records: str | None
    policy: str
    epsilon: float
    rows: int | None = None
    delta: float | None = None
    notion: str | None = None
    run: str | None = None

    @classmethod
    def read(cls, line: str) -> Entry:
        """Read a line; what is not understood is refused."""
        document = read_json(line)
        found = cls(**{key: document.get(key) for key in cls.__dataclass_fields__})
        texts = [found.policy, *(text for text in (found.records, found.notion, found.run) if text is not None)]
        if not all(isinstance(text, str) for text in texts) or "records" not in document:
            raise ValueError("a text is missing")
        if not (found.rows is None or (type(found.rows) is int and found.rows >= 0)):
            raise ValueError("the rows are no number")
        if not _is_number(found.epsilon, math.inf) or not (found.delta is None or _is_number(found.delta, 1.0)):
            raise ValueError("a number is missing")
        return found

    @property
    def line(self) -> str:
        """The entry as it stands in the file."""
        return json.dumps({key: getattr(self, key) for key in self.__dataclass_fields__})


def read_entries(path: Path) -> list[Entry]:
    """Return the runs of a file, none where it is absent; a damaged one is refused."""
    try:
        lines = check_plain(path).read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [Entry.read(line) for line in lines if line.strip()]
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        raise ValueError(
            f"the ledger {path} cannot be read, so nobody knows what left before; repair it, or move it away"
        ) from None


def _is_number(value: Any, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most and value < math.inf
