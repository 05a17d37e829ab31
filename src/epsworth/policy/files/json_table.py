"""JSON lines: one object per line, written anew, so that what leaves tells nothing but what it holds.

Blanks, escapes, the forms of numbers, blank lines and the place of a member would tell what stood there before: members
that pass come first, then those that are drawn, in the policy's order, each in the one text of its value.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Indices
from epsworth.csv_grammar import BYTE_ORDER_MARK
from epsworth.files import check_text
from epsworth.lines import count_lines
from epsworth.policy.columns import Column
from epsworth.policy.files import json_lines
from epsworth.policy.files.file_tables import Records, TextTable
from epsworth.policy.ledger.ids import Ids
from epsworth.policy.tables import Perturbation, Replaced
from epsworth.values import number

if TYPE_CHECKING:
    from epsworth.mechanisms.words import WordSource

CONSTANTS = ("NaN", "Infinity", "-Infinity")
BLANK = re.compile(rb"(?:\A|\n)[ \t\r]*\n")


class JsonTable(TextTable):
    """One JSON object per line; blank lines may stand between."""

    rows_are_lines = False

    def _opened(self, stream: BinaryIO) -> tuple[bytes, bytes, tuple[str, ...], Records]:
        start = cast(io.BufferedReader, stream).peek(8)
        check_text(start, "the input")
        mark = stream.read(len(BYTE_ORDER_MARK)) if start.startswith(BYTE_ORDER_MARK) else b""  # JSON has none
        return mark, b"", (), JsonRecords(self.perturbation, self.person)


@dataclass
class ParsedBatch:
    """The objects of a part.

    Attributes
    ----------
    passing : list of dict
        What stays of every object: names, and values as they leave.
    texts : dict
        The values of the members that are looked at, as they are written.
    """

    passing: list[dict[str, str]]
    texts: dict[str, list[str]]


class JsonPart(NamedTuple):
    """A part: the members that pass, what the kernels take, where records lie on grids, and whose they are."""

    passing: list[dict[str, str]]
    inputs: dict[str, Indices]
    places: dict[str, Indices]
    ids: Ids | None


class JsonRecords(Records):
    """The objects of one file."""

    def __init__(self, perturbation: Perturbation, person: str | None) -> None:
        self.perturbation, self.person = perturbation, person
        self.needed = [name for name, column in perturbation.ruled.items() if column.rule.missing is None]
        self.looked_at = dict.fromkeys(
            [*perturbation.columns, *perturbation.seen, *([] if person is None else [person])]
        )
        self.known: dict[tuple[str, ...], list[str]] = {}  # which members of such objects pass

    def told(self) -> tuple[Any, ...]:
        """Return the column of people."""
        return (self.person,)

    def rows(self, part: bytes) -> int:
        """Count the lines that are not blank."""
        white = json_lines.WHITE.encode()
        if BLANK.search(part):
            return sum(bool(line.strip(white)) for line in part.split(b"\n"))
        return count_lines(part) + bool(part[part.rfind(b"\n") + 1 :].strip(white))

    def lines(self, part: bytes) -> list[bytes]:
        """Return the lines that are not blank."""
        white = json_lines.WHITE.encode()
        return [line for line in super().lines(part) if line.strip(white)]

    def read(self, part: bytes, first: int, *, whole: bool = True) -> JsonPart:
        """Read every object and every value."""
        found = self._found(part, first)
        ids = None if self.person is None else list(json_lines.decode_values(found.texts[self.person]))
        return JsonPart(found.passing, *self._inputs(found, first), ids)

    def ids(self, read: JsonPart) -> Ids | None:
        """Return the values of the member."""
        return read.ids

    def release(self, read: JsonPart, words: WordSource | None) -> bytes:
        """Draw and write."""
        perturbation = self.perturbation.drawing(words)
        drawn = {
            column.feature.name: self._drawn(column, places, keep)
            for column, places, keep in perturbation.draw(read.inputs, read.places)
        }
        names = {name: json_lines.string(name) for name in {*drawn, *chain.from_iterable(read.passing)}}
        lines = []
        for row, passing in enumerate(read.passing):
            members = passing | {name: texts[row] for name, texts in drawn.items()}
            lines.append(f"{{{', '.join(f'{names[name]}: {text}' for name, text in members.items())}}}")
        return "".join(line + "\n" for line in lines).encode("utf-8")

    def _found(self, part: bytes, first: int) -> ParsedBatch:
        """Find the members of every object; lines like those before by one expression each."""
        layout: re.Pattern[str] | None = None
        before: tuple[str, ...] = ()
        usual: list[str] = []
        found = ParsedBatch([], {name: [] for name in self.looked_at})
        lines = (line for line in json_lines.LINE.findall(self._text(part, first)) if line.strip(json_lines.WHITE))
        for row, line in enumerate(lines, start=first):
            match = layout.fullmatch(line) if layout is not None else None
            if match is not None:
                read, passing = dict(zip(before, match.groups(), strict=True)), usual
            else:
                members = _members(line, row)
                names = tuple(name for name, *_ in members)
                passing = self._passing(names, row)
                read = {name: line[a:b] for name, a, b in members}
                if layout is None and not any('"' in name or "\\" in name for name in names):
                    layout, before, usual = json_lines.layout(names), names, passing
            found.passing.append({name: self._rewritten(read[name], name, row) for name in passing})
            for name, texts in found.texts.items():
                texts.append(read.get(name, "null"))
        return found

    def _text(self, part: bytes, first: int) -> str:
        try:
            return part.decode("utf-8")
        except UnicodeDecodeError as error:
            row = first + self.rows(part[: part.rfind(b"\n", 0, error.start) + 1])
            raise ValueError(f"row {row} is not UTF-8; convert the input first") from None

    def _passing(self, names: tuple[str, ...], row: int) -> list[str]:
        """Return which members pass, or refuse an object that lacks one, has one twice, or one that nobody declared."""
        if names not in self.known:
            for name in self.needed:
                if names.count(name) != 1:
                    what = "lacks the member" if name not in names else "holds twice the member"
                    raise ValueError(f"row {row} {what} {name!r}, which the policy perturbs; repair the row")
            if self.person is not None and self.person not in names and self.person not in self.perturbation.columns:
                raise ValueError(f"row {row} lacks the member {self.person!r}, which says whose it is; repair the row")
            if len(set(names)) < len(names):
                raise ValueError(f"row {row} holds two members of one name; repair the row")
            if len(self.known) > 1000:
                self.known.clear()
            kept = set(self.perturbation.kept(list(names)))
            self.known[names] = [name for name in self.perturbation.policy.passing.columns if name in kept]
        return self.known[names]

    def _rewritten(self, text: str, name: str, row: int) -> str:
        """Return the text of a value that passes; what nests could hold any other column."""
        if text[0] in "[{":
            raise ValueError(
                f"row {row}, {name}: the member passes, but is not one number, word or truth; send one value"
            )
        try:
            return json_lines.rewritten(text)
        except json_lines.NotJson:
            if text in CONSTANTS:
                raise ValueError(
                    f"row {row}: a member is NaN or Infinity, which JSON does not have; write null, or a text"
                ) from None
            raise _not_json(row) from None

    def _inputs(self, found: ParsedBatch, first: int) -> tuple[dict[str, Indices], dict[str, Indices]]:
        columns = {**self.perturbation.ruled, **self.perturbation.seen}
        values = {name: json_lines.decode_values(found.texts[name]) for name in columns}
        inputs = {n: column.encode(values[n], first, number) for n, column in self.perturbation.ruled.items()}
        return inputs, {n: column.places(values[n]) for n, column in self.perturbation.seen.items()}

    @cached_property
    def written(self) -> dict[str, list[str]]:
        """The texts of all public values, by feature."""
        return {
            name: [json.dumps(value, ensure_ascii=False) for value in column.values.tolist()]
            for name, column in self.perturbation.ruled.items()
        }

    def _drawn(self, column: Replaced, drawn: Indices, keep: Bools | None) -> list[str]:
        """Return the texts of released values; missing ones are null."""
        if keep is None and isinstance(column, Column):
            written = self.written[column.feature.name]
            return [written[j] for j in np.asarray(drawn).tolist()]
        released: NDArray[Any] = column.released(drawn, keep, self.perturbation.policy)
        return [json.dumps(None if v is None or v != v else v, ensure_ascii=False) for v in released.tolist()]


def _members(line: str, row: int) -> list[json_lines.Member]:
    try:
        return json_lines.members(line)
    except (ValueError, RecursionError):
        raise _not_json(row) from None


def _not_json(row: int) -> ValueError:
    return ValueError(
        f"row {row}: the line is not one JSON object whose members differ in name; write one such object per line"
    )
