"""What all results share: a text with the numbers, the same text in a notebook, a plain dictionary, a JSON file."""

from __future__ import annotations

import html
import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from epsworth.files import write_text


class Result(ABC):
    """An answer: ``print`` shows its numbers, ``to_dict`` returns them whole, ``save`` writes them.

    Printed numbers are rounded to the safe side; those of `to_dict` and `save` are not rounded.
    """

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: full precision, nothing rounded."""

    def save(self, path: str | Path) -> None:
        """Write JSON, whole or not at all."""
        write_text(path, json.dumps(self.to_dict(), allow_nan=False) + "\n")

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
