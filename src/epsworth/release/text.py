"""CSV and JSON lines, perturbed in place: new values are spliced into the text, everything else stays as it was.

A parser that reads and writes again would reformat the columns it should leave alone (``1.50``, quotes, line
ends).  Here only the spans of the perturbed fields are located and replaced.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools
from epsworth.records import MISSING as MISSING_WORDS
from epsworth.release.columns import Column, Indices
from epsworth.release.policy import Policy
from epsworth.release.tables import Perturbation

BLOCK = 1 << 23  # bytes read at a time
COMMA, NEWLINE, RETURN, QUOTE = 44, 10, 13, 34
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANK = re.compile(r"[ \t\r\n]*")
LINE = re.compile(r"[^\n]*\n|[^\n]+")  # str.splitlines would split at line separators inside strings, too
MEMBER = re.compile(r'[ \t]*"([^"\\]*)"[ \t]*:[ \t]*("[^"\\]*"|[^\s,{}\[\]"]+)[ \t]*([,}])')
UNDECLARED = object()
Text = TypeVar("Text", str, bytes)


class Readable(Protocol):
    """Anything that bytes can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most ``size`` bytes; none at the end."""


class Splicer(ABC):
    """Perturbs a stream of text, block by block; every block ends with a whole record."""

    def __init__(self, perturbation: Perturbation) -> None:
        self.perturbation, self.columns, self.rows = perturbation, perturbation.columns, 0

    def run(self, source: Readable) -> Iterator[bytes]:
        """Yield the perturbed stream in order; memory is bounded by the block and the longest record."""
        held = b""
        try:
            while read := source.read(BLOCK):
                held += read
                end = self.last_end(held)
                if end:
                    yield self.block(held[:end])
                    held = held[end:]
            yield self.block(held)
        except UnicodeDecodeError:
            raise ValueError(f"the input is not UTF-8 after row {self.rows}; convert it first") from None

    @abstractmethod
    def last_end(self, held: bytes) -> int:
        """Return where the last whole record ends; 0 where there is none."""

    @abstractmethod
    def block(self, block: bytes) -> bytes:
        """Return a block of whole records with its perturbed fields replaced."""


class CsvSplicer(Splicer):
    """RFC 4180: commas, double quotes, a header; line ends and quoting stay as they are."""

    def __init__(self, perturbation: Perturbation) -> None:
        super().__init__(perturbation)
        self.width = 0  # fields of the header; 0 before it was read
        self.positions: list[int] = []
        self.fields: list[CsvField] = []

    def last_end(self, held: bytes) -> int:
        """Return the end of the last line outside quotes."""
        ends = _separators(held, NEWLINE)
        return int(ends[-1]) + 1 if ends.size else 0

    def block(self, block: bytes) -> bytes:
        """Replace the fields of a block; the first block starts with the header."""
        if self.width:
            return self._records(block)
        ends = _separators(block, NEWLINE)
        end = int(ends[0]) + 1 if ends.size else len(block)
        self._header(block[:end])
        return block[:end] + self._records(block[end:])

    def _header(self, line: bytes) -> None:
        if not line.strip():
            raise ValueError("the input is empty; give a header and at least one row")
        line = line.removeprefix(BYTE_ORDER_MARK)
        starts, ends = _spans(line, 0, 0)
        names = [_unquoted(line[a:b]) for a, b in zip(starts[0], ends[0], strict=True)]
        for name in self.columns:
            if names.count(name) > 1:
                raise ValueError(f"the header names the column {name!r} twice; rename one")
        self.perturbation.check_names(names)
        self.width = len(names)
        self.positions = sorted(names.index(name) for name in self.columns)
        self.fields = [CsvField(self.columns[names[at]]) for at in self.positions]

    def _records(self, block: bytes) -> bytes:
        body = block.rstrip(b"\r\n") if self.width > 1 else block  # blank lines at the end of the file
        if not body:
            return block
        starts, ends = _spans(body, self.width, self.rows)
        starts, ends = starts[:, self.positions], ends[:, self.positions]
        inputs = {
            field.column.feature.name: field.encode([body[a:b] for a, b in zip(*span, strict=True)], self.rows)
            for field, *span in zip(self.fields, starts.T.tolist(), ends.T.tolist(), strict=True)
        }
        self.rows += len(starts)
        written = {field.column.feature.name: field for field in self.fields}
        new = {
            column.feature.name: written[column.feature.name].texts(drawn, keep, self.perturbation.policy)
            for column, drawn, keep in self.perturbation.draw(inputs)
        }
        replaced = list(chain.from_iterable(zip(*(new[name] for name in written), strict=True)))
        spliced: bytes = _spliced(body, starts.ravel().tolist(), ends.ravel().tolist(), replaced, b"")
        return spliced + block[len(body) :]


class CsvField:
    """How one column is read from and written to CSV fields."""

    missing: ClassVar[frozenset[bytes]] = frozenset(word.encode() for word in MISSING_WORDS)

    def __init__(self, column: Column) -> None:
        self.column = column
        self.written = [_quoted(_csv_word(value)) for value in column.values.tolist()]
        categories = column.feature.categories or ()
        self.words = {_csv_word(value): value for value in categories}
        self.words |= {
            str(value): value for value in categories if isinstance(value, bool)
        }  # True, as Python writes it
        self.numbers = {float(value): value for value in categories if isinstance(value, (int, float))}

    def encode(self, fields: list[bytes], first: int) -> Indices:
        """Return the kernel's inputs for the raw fields of a block."""
        if self.column.feature.categories is not None:
            return self.column.resolve(self.column.kinds(map(self._category, fields)), first)
        try:
            numbers = [float("nan" if f in self.missing else f.strip(b'" ')) for f in fields]
        except ValueError:
            row = next(i for i, f in enumerate(fields) if f not in self.missing and not _is_number(f.strip(b'" ')))
            name = self.column.feature.name
            raise ValueError(f"row {first + row}, {name}: the field is not a number; recode it") from None
        return self.column.encode_numbers(numbers, first)

    def _category(self, field: bytes) -> Any:
        word = _unquoted(field)
        if word in self.words:
            return self.words[word]
        if field in self.missing:
            return None
        if self.numbers and _is_number(field.strip(b'" ')):  # 1.0 stands for the category 1
            return self.numbers.get(float(field.strip(b'" ')), UNDECLARED)
        return UNDECLARED

    def texts(self, drawn: Indices, keep: Bools | None, policy: Policy) -> list[bytes]:
        """Return the fields to write."""
        if keep is None:
            written = self.written
            return [written[j] for j in np.asarray(drawn).tolist()]
        values = self.column.released(drawn, keep, policy).tolist()
        return [b"" if v is None or v != v else _quoted(_csv_word(v)) for v in values]


class JsonSplicer(Splicer):
    """One JSON object per line; the members that are not perturbed keep their every character."""

    @cached_property
    def written(self) -> dict[str, list[str]]:
        """The texts of all public values, by feature."""
        return {
            name: [json.dumps(value, ensure_ascii=False) for value in column.values.tolist()]
            for name, column in self.columns.items()
        }

    def last_end(self, held: bytes) -> int:
        """Return the end of the last line (strings cannot hold a line end)."""
        return held.rfind(b"\n") + 1

    def block(self, block: bytes) -> bytes:
        """Replace the values of a block."""
        text, starts, ends = block.decode("utf-8"), [], []
        values: dict[str, list[Any]] = {name: [] for name in self.columns}
        names: list[str] = []  # of the spans, in their order
        at, row = 0, self.rows
        for line in LINE.findall(text):
            if line.strip():
                found = self._members(line, row)
                for name, value, a, b in found:
                    values[name].append(value)
                    names.append(name)
                    starts.append(at + a)
                    ends.append(at + b)
                row += 1
            at += len(line)
        if not starts:
            return block
        inputs = {name: self._encode(column, values[name]) for name, column in self.columns.items()}
        new = {c.feature.name: iter(self._texts(c, drawn, keep)) for c, drawn, keep in self.perturbation.draw(inputs)}
        self.rows = row
        return _spliced(text, starts, ends, [next(new[name]) for name in names], "").encode("utf-8")

    def _members(self, line: str, row: int) -> list[tuple[str, Any, int, int]]:
        """Return the perturbed members of one object with the spans of their values."""
        try:
            members = _flat_members(line, self.columns)
            if members is None:
                members = [member for member in _members(line) if member[0] in self.columns]
        except (ValueError, IndexError):
            raise ValueError(f"row {row}: the line is not one JSON object; write one object per line") from None
        names = [name for name, *_ in members]
        for name in self.columns:
            if names.count(name) != 1:
                what = "lacks the member" if name not in names else "holds twice the member"
                raise ValueError(f"row {row} {what} {name!r}, which the policy perturbs; repair the row")
        return members

    def _encode(self, column: Column, values: list[Any]) -> Indices:
        if column.feature.categories is not None:
            values = [repr(v) if isinstance(v, (list, dict)) else v for v in values]
            return column.resolve(column.kinds(values), self.rows)
        for row, value in enumerate(values):
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
                name = column.feature.name
                raise ValueError(f"row {self.rows + row}, {name}: the value is not a number; recode it")
        return column.encode_numbers([float("nan") if v is None else v for v in values], self.rows)

    def _texts(self, column: Column, drawn: Indices, keep: Bools | None) -> list[str]:
        if keep is None:
            written = self.written[column.feature.name]
            return [written[j] for j in np.asarray(drawn).tolist()]
        values: NDArray[Any] = column.released(drawn, keep, self.perturbation.policy)
        return ["null" if v is None or v != v else json.dumps(v, ensure_ascii=False) for v in values.tolist()]


_decode: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().raw_decode


def _flat_members(line: str, names: Container[str]) -> list[tuple[str, Any, int, int]] | None:
    """Return the named members of an object without nesting or escapes; None for any other line.

    Most lines are such, and one pattern per member is three times faster than the full grammar.
    """
    at, found = BLANK.match(line).end() + 1, []  # type: ignore[union-attr]  # it matches anywhere
    if line[at - 1 : at] != "{":
        return None
    while True:
        member = MEMBER.match(line, at)
        if member is None:
            return None
        if member[1] in names:
            value, end = _decode(line, member.start(2))
            if end != member.end(2):
                return None
            found.append((member[1], value, member.start(2), end))
        at = member.end()
        if member[3] == "}":
            return found if BLANK.fullmatch(line, at) else None


def _members(line: str) -> Iterator[tuple[str, Any, int, int]]:
    """Yield key, value and the span of the value for every member of the object that a line holds."""
    at = _after_blank(line, 0)
    _expect(line[at] == "{")
    at = _after_blank(line, at + 1)
    while line[at] != "}":
        key, at = _decode(line, at)
        at = _after_blank(line, at)
        _expect(isinstance(key, str) and line[at] == ":")
        start = _after_blank(line, at + 1)
        value, end = _decode(line, start)
        yield key, value, start, end
        at = _after_blank(line, end)
        _expect(line[at] in ",}")
        if line[at] == ",":
            at = _after_blank(line, at + 1)
            _expect(line[at] != "}")
    _expect(_after_blank(line, at + 1) == len(line))


def _expect(holds: bool) -> None:
    if not holds:
        raise ValueError


def _after_blank(text: str, at: int) -> int:
    found = BLANK.match(text, at)
    assert found is not None
    return found.end()


def _separators(block: bytes, *kinds: int) -> Indices:
    """Return the positions of separators outside double quotes: where an even number of them stands before."""
    array = np.frombuffer(block, dtype=np.uint8)
    found = np.isin(array, kinds)
    if QUOTE in block:
        found &= np.cumsum(array == QUOTE) % 2 == 0
    return np.flatnonzero(found)


def _spans(block: bytes, width: int, first: int) -> tuple[Indices, Indices]:
    """Return starts and ends of all fields, shape ``(rows, width)``; every row must have ``width`` of them (0: any)."""
    if not block.endswith(b"\n"):
        block += b"\n"  # the last line may lack its end
    ends = _separators(block, COMMA, NEWLINE)
    array = np.frombuffer(block, dtype=np.uint8)
    starts = np.concatenate([[0], ends[:-1] + 1])
    last = np.flatnonzero(array[ends] == NEWLINE)
    if not ends.size or ends[-1] != len(block) - 1:
        raise ValueError(f"row {first + last.size}: a quote is opened and never closed; repair the row")
    counts = np.diff(last, prepend=-1)
    wrong = np.flatnonzero(counts != (width or counts[0]))
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(f"row {first + row} has {counts[row]} fields, the header has {width}; repair the row")
    stops = ends.copy()
    stops[last] -= (array[ends[last] - 1] == RETURN) & (ends[last] > starts[last])  # of a line end of two bytes
    return starts.reshape(-1, counts[0]), stops.reshape(-1, counts[0])


def _spliced(text: Text, starts: Sequence[int], ends: Sequence[int], new: list[Text], nothing: Text) -> Text:
    """Replace spans, given in order, by new texts."""
    pieces = [nothing] * (2 * len(new) + 1)
    pieces[::2] = [text[a:b] for a, b in zip([0, *ends], [*starts, len(text)], strict=True)]
    pieces[1::2] = new
    return nothing.join(pieces)


def _unquoted(field: bytes) -> str:
    text = field.decode("utf-8")
    return text[1:-1].replace('""', '"') if len(text) > 1 and text[0] == text[-1] == '"' else text


def _csv_word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(word: str) -> bytes:
    needed = any(c in word for c in ',"\r\n')
    return ('"' + word.replace('"', '""') + '"' if needed else word).encode()


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
