"""One column of a CSV file under a policy's rule: fields to the kernel's inputs, drawn values to fields."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from epsworth.arrays import Bools
from epsworth.records import MISSING as MISSING_WORDS
from epsworth.release.columns import Column, Indices
from epsworth.release.policy import Policy

UNDECLARED = object()


class CsvField:
    """How one column is read from and written to CSV fields.

    ``alone``: it is the only column, so an empty field stands in quotes: many readers take a blank line for no row.
    """

    missing: ClassVar[frozenset[bytes]] = frozenset(word.encode() for word in MISSING_WORDS)

    def __init__(self, column: Column, *, alone: bool = False) -> None:
        self.column, self.alone = column, alone
        self.words = [_csv_word(value) for value in column.values.tolist()]
        if any("\n" in word or "\r" in word for word in self.words):
            raise ValueError(
                f"{column.feature.name}: a category holds a line break, which in CSV could end a row; release "
                ".jsonl or .parquet"
            )
        self.written = [self._quoted(word) for word in self.words]
        categories = column.feature.categories or ()
        self.declared = {_csv_word(value): value for value in categories}
        self.declared |= {
            str(value): value for value in categories if isinstance(value, bool)
        }  # True, as Python writes it
        self.numbers = {float(value): value for value in categories if isinstance(value, (int, float))}

    def encode(self, fields: list[bytes], first: int) -> Indices:
        """Return the kernel's inputs for the raw fields of a block."""
        if self.column.feature.categories is not None:
            return self.column.resolve(self.column.kinds(map(self._category, fields)), first)
        try:
            if b"_" in b"".join(fields):
                raise ValueError  # 1_000 is a number to Python alone
            numbers = [float("nan" if f in self.missing else f.strip(b'" ')) for f in fields]
        except ValueError:
            row = next(i for i, f in enumerate(fields) if f not in self.missing and not _is_number(f.strip(b'" ')))
            name = self.column.feature.name
            raise ValueError(f"row {first + row}, {name}: the field is not a number; recode it") from None
        return self.column.encode_numbers(numbers, first)

    def _category(self, field: bytes) -> Any:
        word = unquoted(field)
        if word in self.declared:
            return self.declared[word]
        if field in self.missing:
            return None
        if self.numbers and _is_number(field.strip(b'" ')):  # 1.0 stands for the category 1
            return self.numbers.get(float(field.strip(b'" ')), UNDECLARED)
        return UNDECLARED

    def texts(self, drawn: Indices, keep: Bools | None, policy: Policy) -> tuple[list[str], list[bytes]]:
        """Return the words to write, and the fields that hold them."""
        if keep is None:
            indices, words, written = np.asarray(drawn).tolist(), self.words, self.written
            return [words[j] for j in indices], [written[j] for j in indices]
        values = self.column.released(drawn, keep, policy).tolist()
        texts = ["" if v is None or v != v else _csv_word(v) for v in values]
        return texts, [self._quoted(text) for text in texts]

    def _quoted(self, word: str) -> bytes:
        needed = any(c in word for c in ',"\r\n') or (self.alone and not word.strip())
        return ('"' + word.replace('"', '""') + '"' if needed else word).encode()


def unquoted(field: bytes) -> str:
    """Return the text of a field."""
    text = field.decode("utf-8")
    return text[1:-1].replace('""', '"') if len(text) > 1 and text[0] == text[-1] == '"' else text


def _csv_word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field
