"""CSV and JSON lines, perturbed in place: new values are spliced into the text, everything else stays as it was.

A parser that reads and writes again would reformat the columns it should leave alone (``1.50``, quotes, line
ends).  Here only the spans of the perturbed fields are located, by a grammar that refuses what readers could read
differently, and replaced.  Every block is then read back by another library: it must find the same rows and columns,
and in the perturbed ones the very words that were drawn.
"""

from __future__ import annotations

import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools
from epsworth.files import check_separators, check_text
from epsworth.release import csv_lines, json_lines
from epsworth.release.columns import Column, Indices
from epsworth.release.csv_field import CsvField, unquoted
from epsworth.release.tables import Perturbation, Replaced

if TYPE_CHECKING:
    import polars as pl

BLOCK = 1 << 19  # bytes read at a time
LONGEST = 1 << 22  # bytes of one record
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
Text = TypeVar("Text", str, bytes)


class Readable(Protocol):
    """Anything that bytes can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most ``size`` bytes; none at the end."""


class Splicer(ABC):
    """Perturbs a stream of text, block by block; every block ends with a whole record."""

    def __init__(self, perturbation: Perturbation) -> None:
        self.perturbation, self.columns, self.rows = perturbation, perturbation.columns, 0
        self.looked_at = {**perturbation.columns, **perturbation.seen}  # all whose values are read

    def run(self, source: Readable) -> Iterator[bytes]:
        """Yield the perturbed stream in order; memory is bounded by the block and the longest record.

        Nothing that was yielded may leave before the last block was: a later one may be refused.
        """
        held = b""
        try:
            while read := source.read(BLOCK):
                if not self.rows:
                    check_text(read, "the input")
                held += read
                end = held.rfind(b"\n") + 1  # neither a quoted field nor a JSON string holds a line end
                if end:
                    yield self._checked(held[:end])
                    held = held[end:]
                if len(held) > LONGEST:
                    raise ValueError(
                        f"the record after {self.rows} rows is longer than {LONGEST} bytes; a quote or a line end may "
                        "be missing: repair the row"
                    )
            yield self._checked(held)
        except UnicodeDecodeError:
            raise ValueError(f"the input is not UTF-8 after row {self.rows}; convert it first") from None

    def _checked(self, block: bytes) -> bytes:
        if not block.isascii():
            block.decode("utf-8")
        return self.block(block)

    @abstractmethod
    def block(self, block: bytes) -> bytes:
        """Return a block of whole records with its perturbed fields replaced."""

    def _not_the_same(self) -> ValueError:
        """Return the refusal of a block that another reader reads differently; values are private."""
        return ValueError(
            f"rows {self.rows} and following: another reader does not find the perturbed values where they were put, "
            "so nothing was written; write the table anew with one library"
        )


class CsvSplicer(Splicer):
    """RFC 4180: commas, double quotes, a header; line ends and quoting stay as they are."""

    def __init__(self, perturbation: Perturbation) -> None:
        super().__init__(perturbation)
        self.width = 0  # fields of the header; 0 before it was read
        self.positions: list[int] = []
        self.fields: list[CsvField] = []
        self.readers: dict[str, tuple[int, CsvField]] = {}  # of what a tailored policy looks at, with their positions
        self.blank = False  # whether blank lines were seen: only the end of the file may follow

    def block(self, block: bytes) -> bytes:
        """Replace the fields of a block; the first block starts with the header."""
        if self.width:
            return self._records(block)
        end = block.find(b"\n") + 1 or len(block)
        self._header(block[:end])
        return block[:end] + self._records(block[end:])

    def _header(self, line: bytes) -> None:
        if not line.strip():
            raise ValueError("the input is empty; give a header and at least one row")
        line = line.removeprefix(BYTE_ORDER_MARK)
        starts, ends = csv_lines.spans(line, 0, csv_lines.HEADER)
        names = [unquoted(line[a:b]) for a, b in zip(starts[0], ends[0], strict=True)]
        for name in self.looked_at:
            if names.count(name) > 1:
                raise ValueError(f"the header names the column {name!r} twice; rename one")
        if len(names) == 1 and names[0] not in self.looked_at:
            check_separators(names[0], "the input")
        self.perturbation.check_names(names)
        self.width = len(names)
        self.positions = sorted(names.index(name) for name in self.columns)
        self.fields = [CsvField(self.columns[names[at]], alone=self.width == 1) for at in self.positions]
        self.readers = {name: (names.index(name), CsvField(column)) for name, column in self.perturbation.seen.items()}

    def _records(self, block: bytes) -> bytes:
        body = self._without_blank_lines(block)
        if not body:
            return block
        starts, ends = csv_lines.spans(body, self.width, self.rows)

        def raw(at: int) -> list[bytes]:
            return [body[a:b] for a, b in zip(starts[:, at].tolist(), ends[:, at].tolist(), strict=True)]

        inputs = {
            field.column.feature.name: field.encode(raw(at), self.rows)
            for at, field in zip(self.positions, self.fields, strict=True)
            if field.column.feature.name in self.perturbation.ruled
        }
        places = {name: field.places(raw(at)) for name, (at, field) in self.readers.items()}
        starts, ends = starts[:, self.positions], ends[:, self.positions]
        words: dict[str, list[str]] = {}
        fields: dict[str, list[bytes]] = {}
        written = {field.column.feature.name: field for field in self.fields}
        for column, drawn, keep in self.perturbation.draw(inputs, places):
            name = column.feature.name
            words[name], fields[name] = written[name].texts(drawn, keep, self.perturbation.policy)
        replaced = list(chain.from_iterable(zip(*(fields[name] for name in written), strict=True)))
        new: bytes = _spliced(body, starts.ravel().tolist(), ends.ravel().tolist(), replaced, b"")
        self._read_back(body, new, [words[name] for name in written])
        self.rows += len(starts)
        return new + block[len(body) :]

    def _without_blank_lines(self, block: bytes) -> bytes:
        """Return the records of a block; blank lines may stand at the end of the file alone."""
        if self.width == 1:
            return block
        body = block.rstrip(b"\r\n")
        end = block[len(body) :].find(b"\n") + 1 if body else 0  # of the last record
        body, blank = block[: len(body) + end], block[len(body) + end :]
        if self.blank and body:
            raise ValueError(f"row {self.rows} is blank; delete the blank line")
        if blank.count(b"\r") != blank.count(b"\r\n"):
            raise ValueError(f"row {self.rows}: a carriage return stands alone; end lines with a line feed")
        self.blank = self.blank or bool(blank)
        return body

    def _read_back(self, before: bytes, after: bytes, words: list[list[str]]) -> None:
        """Refuse a block in which polars does not find the same rows and columns, and the words that were drawn."""
        given, found = self._polars(before), self._polars(after)
        for at, drawn in zip(self.positions, words, strict=True):
            if given.height != len(drawn) or found.height != len(drawn) or found[:, at].to_list() != drawn:
                raise self._not_the_same()
        perturbed = [str(at) for at in self.positions]
        if not found.drop(perturbed).equals(given.drop(perturbed)):
            raise self._not_the_same()

    def _polars(self, block: bytes) -> pl.DataFrame:
        """Return all fields as polars reads them; a header of our own keeps it from guessing."""
        import polars as pl

        names = [str(at) for at in range(self.width)]
        try:
            read = pl.read_csv(
                io.BytesIO(",".join(names).encode() + b"\n" + block), schema=dict.fromkeys(names, pl.String)
            )
        except pl.exceptions.PolarsError:
            raise self._not_the_same() from None
        return read.with_columns(pl.all().fill_null(""))  # some versions take an empty field for a missing one


class JsonSplicer(Splicer):
    """One JSON object per line; the members that are not perturbed keep their every character."""

    def __init__(self, perturbation: Perturbation) -> None:
        super().__init__(perturbation)
        self.names: list[str] = []  # of the last line's members
        self.layout: re.Pattern[str] | None = None  # of the lines before, if two in a row agreed
        self.wanted: list[str] = []  # its groups
        self.size = 0  # how many members such objects have
        self.others = False  # whether lines of a block do not agree with it

    @cached_property
    def written(self) -> dict[str, list[str]]:
        """The texts of all public values, by feature."""
        return {
            name: [json.dumps(value, ensure_ascii=False) for value in column.values.tolist()]
            for name, column in self.perturbation.ruled.items()
        }

    def block(self, block: bytes) -> bytes:
        """Replace the values of a block."""
        text, at, starts, ends = block.decode("utf-8"), 0, [], []
        texts: dict[str, list[str]] = {name: [] for name in self.columns}
        names: list[str] = []  # of the spans, in their order
        rows, self.others = 0, False
        for line in json_lines.LINE.findall(text):
            if line.strip(json_lines.WHITE):
                for name, a, b in self._members(line, self.rows + rows):
                    texts[name].append(line[a:b])
                    names.append(name)
                    starts.append(at + a)
                    ends.append(at + b)
                rows += 1
            at += len(line)
        if not starts:
            return block
        inputs = {name: self._encode(column, texts[name]) for name, column in self.perturbation.ruled.items()}
        values, new = {}, {}
        for column, drawn, keep in self.perturbation.draw(inputs):
            name = column.feature.name
            values[name], fresh = self._drawn(column, drawn, keep)
            new[name] = iter(fresh)
        released: str = _spliced(text, starts, ends, [next(new[name]) for name in names], "")
        self._read_back(released, values, 0 if self.others else self.size)
        self.rows += rows
        return released.encode("utf-8")

    def _members(self, line: str, row: int) -> list[json_lines.Member]:
        """Return the perturbed members of one object with the spans of their values."""
        if self.layout is not None and (match := self.layout.fullmatch(line)):
            return [(name, *match.span(i)) for i, name in enumerate(self.wanted, 1)]
        self.others = True
        try:
            found = json_lines.members(line)
        except (ValueError, RecursionError):
            raise self._not_json(row) from None
        names = [name for name, *_ in found]
        self._check_names(names, row)
        found = [member for member in found if member[0] in self.columns]
        if names == self.names and not any('"' in name or "\\" in name for name in names):
            self.size = len(names)
            self.layout, self.wanted = json_lines.layout(tuple(names), frozenset(self.columns)), [n for n, *_ in found]
        self.names = names
        return found

    def _check_names(self, names: list[str], row: int) -> None:
        for name in self.perturbation.ruled:
            if names.count(name) != 1:
                what = "lacks the member" if name not in names else "holds twice the member"
                raise ValueError(f"row {row} {what} {name!r}, which the policy perturbs; repair the row")
        if len(set(names)) < len(names):
            raise ValueError(f"row {row} holds two members of one name; repair the row")

    def _not_json(self, row: int) -> ValueError:
        return ValueError(
            f"row {row}: the line is not one JSON object whose members differ in name; write one such object per line"
        )

    def _values(self, texts: list[str]) -> list[Any]:
        try:
            return json_lines.decode_values(texts)
        except (ValueError, RecursionError):
            row = next((i for i, text in enumerate(texts) if not json_lines.is_json(text)), 0)
            raise self._not_json(self.rows + row) from None

    def _encode(self, column: Column, texts: list[str]) -> Indices:
        values = self._values(texts)
        if column.feature.categories is not None:
            values = [repr(v) if isinstance(v, (list, dict)) else v for v in values]
            return column.resolve(column.kinds(values), self.rows)
        column.check_numbers(values, self.rows)
        return column.encode_numbers([float("nan") if v is None else v for v in values], self.rows)

    def _drawn(self, column: Replaced, drawn: Indices, keep: Bools | None) -> tuple[list[Any], list[str]]:
        """Return released values, missing ones as None, and their texts."""
        if keep is None and isinstance(column, Column):
            indices, written = np.asarray(drawn).tolist(), self.written[column.feature.name]
            return column.values[indices].tolist(), [written[j] for j in indices]
        released: NDArray[Any] = column.released(drawn, keep, self.perturbation.policy)
        values = [None if v is None or v != v else v for v in released.tolist()]
        return values, [json.dumps(v, ensure_ascii=False) for v in values]

    def _read_back(self, released: str, values: Mapping[str, list[Any]], flat: int) -> None:
        """Refuse a block in which the standard library does not find one object per line with the drawn values."""
        lines = [line for line in json_lines.LINE.findall(released) if line.strip(json_lines.WHITE)]
        try:
            objects = json_lines.decode_objects(lines, flat)
        except (ValueError, TypeError, RecursionError):
            row = next((i for i, line in enumerate(lines) if not json_lines.is_json(line)), None)
            raise self._not_the_same() if row is None else self._not_json(self.rows + row) from None
        for name, drawn in values.items():
            if [found.get(name) for found in objects] != drawn:
                raise self._not_the_same()


def _spliced(text: Text, starts: Sequence[int], ends: Sequence[int], new: list[Text], nothing: Text) -> Text:
    """Replace spans, given in order, by new texts."""
    pieces = [nothing] * (2 * len(new) + 1)
    pieces[::2] = [text[a:b] for a, b in zip([0, *ends], [*starts, len(text)], strict=True)]
    pieces[1::2] = new
    return nothing.join(pieces)
