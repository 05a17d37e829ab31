"""CSV files: checked by a grammar, read as texts, drawn under a policy's rules, and written."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth import csv_grammar, csv_text
from epsworth.arrays import Bools, Indices
from epsworth.csv_text import Sent, Texts, Words
from epsworth.lines import HEADER, count_lines, too_long
from epsworth.policy.columns import Column, centre, spread
from epsworth.policy.files.file_tables import Records, TextTable
from epsworth.policy.ledger.ids import Ids, check_id_column
from epsworth.policy.policy import Policy
from epsworth.policy.tables import GridColumn, Perturbation
from epsworth.values import Categories, numbers, spelling


class CsvField:
    """How one column is read from and written to CSV.

    ``alone``: it is the only column that is written, so an empty field stands in quotes: many readers take a blank
    line for no row.
    """

    def __init__(self, column: Column | GridColumn, *, alone: bool = False) -> None:
        self.column, self.alone = column, alone
        categories = column.feature.categories or ()
        if any("\n" in str(value) or "\r" in str(value) for value in categories):
            raise ValueError(
                f"{column.feature.name}: a category holds a line break, which in CSV could end a row; release "
                ".jsonl or .parquet"
            )
        self.categories = Categories(categories)

    @cached_property
    def words(self) -> Words:
        """The words of all public values."""
        return Words(_csv_words(self.column.values), self.alone)

    def encode(self, texts: Texts, first: int) -> Indices:
        """Return the kernel's inputs for the texts of a part, the first of which is row ``first``."""
        assert isinstance(self.column, Column)
        if self.column.feature.categories is not None:
            known, at = texts.distinct()
            return self.column.resolve(self.column.kinds(map(self.categories.read, known))[at], first)
        found = texts.numbers()
        if found is None:  # a gap, no number, or one that is too large for a double
            known, at = texts.distinct()
            found = numbers(known)[at]
        return self.column.encode_numbers(found, first)

    def places(self, texts: Texts) -> Indices:
        """Return where the texts of a part lie on a tailored policy's grid; none is refused."""
        assert isinstance(self.column, GridColumn)
        known, at = texts.distinct()
        if self.column.feature.categories is not None:
            return self.column.places([self.categories.read(text) for text in known])[at]
        return self.column.places(numbers(known))[at]

    def sent(self, drawn: Indices, keep: Bools | None, policy: Policy) -> Sent:
        """Return the words to write; where ``keep`` is false, those of a feature that is not released."""
        at = np.asarray(drawn)
        if isinstance(self.column, GridColumn):  # few of its values leave
            places, at = np.unique(at, return_inverse=True)
            return Sent(Words(_csv_words(self.column.values[places]), self.alone), at)
        if keep is None:
            return Sent(self.words, at)
        words = self._words_of_samples(policy)
        return Sent(words, np.where(keep, at, len(words.texts) - 1))

    def _words_of_samples(self, policy: Policy) -> Words:
        """Return the words where a record releases some features only; the last is that of those it does not."""
        if self._of_samples is None:
            assert policy.sampling is not None
            values, last = self.column.values, ""
            values = values.astype(np.float64) if values.dtype.kind == "i" else values  # gaps make doubles of frames
            if policy.sampling.unsampled == "scaled":
                values = spread(self.column.feature, values, len(policy.rules) / policy.sampling.features)
                last = spelling(centre(self.column.feature))
            self._of_samples = Words([*_csv_words(values), last], self.alone)
        return self._of_samples

    _of_samples: Words | None = None


def _csv_words(values: NDArray[Any]) -> list[str]:
    return list(map(str if values.dtype.kind == "f" else spelling, values.tolist()))


if TYPE_CHECKING:
    from epsworth.mechanisms.words import WordSource


class CsvTable(TextTable):
    """RFC 4180 without breaks in quotes: a header, commas or what else separates, double quotes."""

    sep = ","

    def _opened(self, stream: BinaryIO) -> tuple[bytes, bytes, tuple[str, ...], Records]:
        line = stream.readline(HEADER + 1)
        if len(line) > HEADER:
            raise too_long(1, HEADER)
        header = csv_grammar.header(line, sep=self.sep)
        self.perturbation.check_names(header.names)
        check_id_column(self.person, header.names)
        records = CsvRecords(self.perturbation, header, self.person, self.sep)
        return line, records.with_separators(header.line(records.kept)), tuple(header.names), records


class CsvPart(NamedTuple):
    """A part: its fields, what the kernels take, where records lie on grids, and whether its last line has an end."""

    table: csv_text.Table
    inputs: dict[str, Indices]
    places: dict[str, Indices]
    ended: bool


class CsvRecords(Records):
    """The records of one CSV file."""

    def __init__(
        self, perturbation: Perturbation, header: csv_grammar.Header, person: str | None, sep: str = ","
    ) -> None:
        self.perturbation, self.header, self.person, self.sep = perturbation, header, person, sep
        self.kept = perturbation.kept(header.names)
        self.width = len(header.names)
        alone = len(self.kept) == 1
        self.fields = {name: CsvField(column, alone=alone) for name, column in perturbation.columns.items()}
        self.places = {name: CsvField(column) for name, column in perturbation.seen.items()}

    def told(self) -> tuple[Any, ...]:
        """Return the header, the column of people and the separator."""
        return self.header, self.person, self.sep

    def with_separators(self, records: bytes) -> bytes:
        """Return records with the file's own separators."""
        return csv_grammar.separated(records, b",", self.sep.encode())

    @cached_property
    def positions(self) -> dict[str, int]:
        """Where the columns stand."""
        return {name: at for at, name in enumerate(self.header.names)}

    @cached_property
    def looked_at(self) -> list[int]:
        """Which columns the first reading looks at."""
        person = [] if self.person is None else [self.person]
        names = {*self.fields, *self.places, *person, *self.perturbation.plain(self.kept)}
        return sorted(self.positions[name] for name in names)

    def rows(self, part: bytes) -> int:
        """Count line ends; the last may be missing."""
        return count_lines(part) + (not part.endswith(b"\n"))

    def read(self, part: bytes, first: int, *, whole: bool = True) -> CsvPart:
        """Check the grammar and every value."""
        gated = csv_grammar.checked(part, self.width, self.header.end, first, self.sep)
        table = csv_text.Table(gated, self.width, list(range(self.width)) if whole else self.looked_at)
        if gated.quoted:
            self._check_plain(table, first)
        return CsvPart(table, *self._inputs(table, first), gated.ended)

    def ids(self, read: CsvPart) -> Ids | None:
        """Return whole numbers, or the texts."""
        if self.person is None:
            return None
        ids = read.table.column(self.positions[self.person])
        numbers = ids.whole_numbers()
        return list(ids.tell()) if numbers is None else numbers

    def release(self, read: CsvPart, words: WordSource | None) -> bytes:
        """Draw and write."""
        perturbation = self.perturbation.drawing(words)
        sent = {
            self.positions[column.feature.name]: self.fields[column.feature.name].sent(drawn, keep, perturbation.policy)
            for column, drawn, keep in perturbation.draw(read.inputs, read.places)
        }
        kept = [self.positions[name] for name in self.kept]
        out = self.with_separators(read.table.write(kept, sent))
        if self.header.end == b"\r\n":
            out = out.replace(b"\n", b"\r\n")
        return out if read.ended else out.removesuffix(self.header.end)

    def _check_plain(self, table: csv_text.Table, first: int) -> None:
        """Refuse commas and quotes in columns that pass, unless the policy says that they are texts.

        A stray quote may take in a neighbour, and a surplus comma in the same line hide that.
        """
        for name in self.perturbation.plain(self.kept):
            row = table.column(self.positions[name]).marked()
            if row is not None:
                raise ValueError(
                    f"row {first + row}, {name}: the field holds a comma or a quote, and may be two fields in one; "
                    f"repair the row, or name the column in pass.text of the policy"
                )

    def _inputs(self, table: csv_text.Table, first: int) -> tuple[dict[str, Indices], dict[str, Indices]]:
        inputs = {
            name: self.fields[name].encode(table.column(self.positions[name]), first)
            for name in self.perturbation.ruled
        }
        return inputs, {name: field.places(table.column(self.positions[name])) for name, field in self.places.items()}
