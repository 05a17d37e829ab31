"""What all results share: a text with the numbers, tables of them in a notebook, a plain dictionary, a JSON file."""

from __future__ import annotations

import html
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from epsworth.files import file_named, write_text
from epsworth.rounding import percent_down


@dataclass(frozen=True)
class Table:
    """Texts in rows under heads: columns in print, a table in a notebook.

    Examples
    --------
    >>> print(Table("at least", ("mechanism", "1", "2.5"), (("pm", "0.6", "0.75"),)))
    at least
    mechanism     1   2.5
    pm          0.6  0.75
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        """Return the title and the rows, the first column on the left and all others on the right."""
        every = [self.heads, *self.rows]
        first, *others = (max(map(len, column)) for column in zip(*every, strict=True))
        wide = max([4, *others])
        lines = [row[0].ljust(first) + "".join(f"  {text:>{wide}}" for text in row[1:]) for row in every]
        return "\n".join([self.title, *lines])

    def html(self) -> str:
        """Return an HTML table."""
        rows = [("th", self.heads), *(("td", row) for row in self.rows)]
        body = "".join(
            f"<tr>{''.join(f'<{kind}>{html.escape(text)}</{kind}>' for text in row)}</tr>" for kind, row in rows
        )
        return f"<table><caption>{html.escape(self.title)}</caption>{body}</table>"


class Result(ABC):
    """An answer: ``print`` shows its numbers, ``to_dict`` returns them whole, ``save`` writes them.

    Printed numbers are rounded to the safe side; those of `to_dict` and `save` are not rounded.
    """

    @abstractmethod
    def __str__(self) -> str: ...

    def shown(self) -> Sequence[str | Table]:
        """Return what a notebook shows, in order; a result with tables says which."""
        return [str(self)]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: full precision, nothing rounded."""
        return {name: json_form(value) for name, value in _fields_of(self)}

    def save(self, path: str | Path) -> None:
        """Write JSON, whole or not at all."""
        write_text(file_named(path), json.dumps(self.to_dict(), allow_nan=False) + "\n")

    def _repr_html_(self) -> str:
        return "".join(
            part.html() if isinstance(part, Table) else f'<pre style="white-space: pre-wrap">{html.escape(part)}</pre>'
            for part in self.shown()
        )


def how_sure(confidence: float) -> str:
    """Say with which confidence an answer holds, rounded down.

    Examples
    --------
    >>> how_sure(1.0), how_sure(0.99999)
    ('for certain', 'with 99.999 % confidence')
    """
    return "for certain" if confidence == 1 else f"with {percent_down(confidence, 4)} % confidence"


def json_form(value: Any) -> Any:
    """Return what JSON can hold: lists of arrays, null for numbers that are infinite or none.

    Examples
    --------
    >>> json_form((np.float32(0.5), math.inf, {"a": np.arange(2)}))
    [0.5, None, {'a': [0, 1]}]
    """
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, (np.ndarray, np.generic)):
        whole = value.dtype.kind in "biuU" or (value.dtype.kind == "f" and bool(np.isfinite(value).all()))
        return value.tolist() if whole else json_form(value.tolist())
    if is_dataclass(value):
        return {name: json_form(entry) for name, entry in _fields_of(value)}
    if isinstance(value, Mapping):
        return {str(name): json_form(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_form(entry) for entry in value]
    if isinstance(value, (float, Fraction, Decimal)):
        return float(value) if math.isfinite(value) else None
    return value


def _fields_of(value: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(value, field.name)) for field in fields(value)]
