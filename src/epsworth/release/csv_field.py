"""One column of a CSV file under a policy's rule: fields to the kernel's inputs, drawn values to fields."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from epsworth.arrays import Bools
from epsworth.records import MISSING as MISSING_WORDS
from epsworth.release.columns import Column, Indices
from epsworth.release.placed import Placed
from epsworth.release.policy import Policy

UNDECLARED = object()


class CsvField:
    """How one column is read from and written to CSV fields.

    ``alone``: it is the only column, so an empty field stands in quotes: many readers take a blank line for no row.
    """

    missing: ClassVar[frozenset[bytes]] = frozenset(word.encode() for word in MISSING_WORDS)

    def __init__(self, column: Column | Placed, *, alone: bool = False) -> None:
        self.column, self.alone = column, alone
        categories = column.feature.categories or ()
        if any("\n" in str(value) or "\r" in str(value) for value in categories):
            raise ValueError(
                f"{column.feature.name}: a category holds a line break, which in CSV could end a row; release "
                ".jsonl or .parquet"
            )
        self.declared = {_csv_word(value): value for value in categories}
        self.declared |= {
            str(value): value for value in categories if isinstance(value, bool)
        }  # True, as Python writes it
        self.numbers = {float(value): value for value in categories if isinstance(value, (int, float))}

    @cached_property
    def words(self) -> list[str]:
        """The words of all public values."""
        return [_csv_word(value) for value in self.column.values.tolist()]

    @cached_property
    def written(self) -> list[bytes]:
        """The fields that hold them."""
        return [self._quoted(word) for word in self.words]

    def encode(self, fields: list[bytes], first: int) -> Indices:
        """Return the kernel's inputs for the raw fields of a block."""
        assert isinstance(self.column, Column)
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

    def places(self, fields: list[bytes]) -> Indices:
        """Return where the raw fields of a block lie on a tailored policy's grid; none is refused."""
        assert isinstance(self.column, Placed)
        known = dict.fromkeys(fields)
        if self.column.feature.categories is not None:
            values: list[Any] = [self._category(field) for field in known]
        else:
            values = [_number_of(field, self.missing) for field in known]
        known.update(zip(known, self.column.places(values).tolist(), strict=True))
        return np.array([known[field] for field in fields], dtype=np.int64)

    def texts(self, drawn: Indices, keep: Bools | None, policy: Policy) -> tuple[list[str], list[bytes]]:
        """Return the words to write, and the fields that hold them."""
        if isinstance(self.column, Placed):  # few of its values leave
            sent, at = np.unique(np.asarray(drawn), return_inverse=True)
            words = [_csv_word(value) for value in self.column.values[sent].tolist()]
            written = [self._quoted(word) for word in words]
            return [words[j] for j in at.tolist()], [written[j] for j in at.tolist()]
        if keep is None:
            indices, words, written = np.asarray(drawn).tolist(), self.words, self.written
            return [words[j] for j in indices], [written[j] for j in indices]
        values = self.column.released(drawn, keep, policy).tolist()
        texts = ["" if v is None or v != v else _csv_word(v) for v in values]
        return texts, [self._quoted(text) for text in texts]

    def _quoted(self, word: str) -> bytes:
        needed = any(c in word for c in ',"\r\n') or (self.alone and not word.strip())
        return ('"' + word.replace('"', '""') + '"' if needed else word).encode()


def _number_of(field: bytes, missing: frozenset[bytes]) -> float | None:
    """Return a field's number; None where it holds none."""
    plain = field.strip(b'" ')
    return float(plain) if field not in missing and _is_number(plain) else None


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
