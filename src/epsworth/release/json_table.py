"""JSON lines: one object per line, whose members that pass keep their every character.

Under a tailored policy, what is replaced stands at the end of its object, whether it was there or not: were new values
put where the old ones stood, the place of a member would tell whether the record had it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools
from epsworth.files import check_text
from epsworth.release import json_lines
from epsworth.release.columns import Column, Indices
from epsworth.release.file_tables import Records, TextTable
from epsworth.release.lines import count_lines
from epsworth.release.tables import Perturbation, Replaced
from epsworth.release.unit_columns import Units, units_of_values

if TYPE_CHECKING:
    from epsworth.exact.entropy import WordSource

BLANK = re.compile(rb"(?:\A|\n)[ \t\r]*\n")


class JsonTable(TextTable):
    """One JSON object per line; blank lines may stand between."""

    def _opened(self, stream: BinaryIO) -> tuple[bytes, bytes, tuple[str, ...], Records]:
        check_text(cast(io.BufferedReader, stream).peek(8), "the input")
        return b"", b"", (), JsonRecords(self.perturbation, self.unit)


@dataclass
class Found:
    """The objects of a part.

    Attributes
    ----------
    text : str
    lines : list of str
        All lines, with their ends.
    records : list of str
        Those that are not blank.
    texts : dict
        The values of the wanted members, as they are written.
    spans : list of (str, int, int)
        Where the values stand that are replaced, in order, by the members' names.
    members : list of dict
        All members of each object, where objects are written anew.
    flat : int
        How many members each object has, if all have the same, without nesting or escapes; else 0.
    """

    text: str
    lines: list[str]
    records: list[str]
    texts: dict[str, list[str]]
    spans: list[json_lines.Member] = field(default_factory=list)
    members: list[dict[str, str]] = field(default_factory=list)
    flat: int = 0


class JsonRecords(Records):
    """The objects of one file."""

    def __init__(self, perturbation: Perturbation, unit: str | None) -> None:
        self.perturbation, self.unit = perturbation, unit
        self.columns, self.tailored = perturbation.columns, perturbation.policy.tailoring is not None
        self.anew = self.tailored or bool(perturbation.policy.others and perturbation.policy.others.dropped)
        self.sensitive = [name for name in self.columns if name not in perturbation.ruled]
        self.wanted = dict.fromkeys([*self.columns, *perturbation.seen, *([] if unit is None else [unit])])
        self.known: dict[tuple[str, ...], frozenset[str]] = {}  # which members of such objects are written

    def told(self) -> tuple[Any, ...]:
        """Return the unit."""
        return (self.unit,)

    def rows(self, part: bytes) -> int:
        """Count the lines that are not blank."""
        white = json_lines.WHITE.encode()
        if BLANK.search(part):
            return sum(bool(line.strip(white)) for line in part.split(b"\n"))
        return count_lines(part) + bool(part[part.rfind(b"\n") + 1 :].strip(white))

    def check(self, part: bytes, first: int) -> Units | None:
        """Read every object, by two readers, and every value."""
        found = self._found(part, first)
        self._inputs(found, first)
        lines = found.records
        if self.anew:  # what is replaced may be broken
            lines = [_object({n: t for n, t in read.items() if n not in self.sensitive}) for read in found.members]
        self._objects(lines, first, found.flat)
        if self.unit is None:
            return None
        values = _any_values(found.texts[self.unit])
        return units_of_values([v if isinstance(v, (str, int)) else _gap(v) for v in values], self.unit, first)

    def release(self, part: bytes, first: int, words: WordSource | None) -> bytes:
        """Draw, write, and let the standard library find what was written."""
        found = self._found(part, first)
        perturbation = self.perturbation.drawing(words)
        values: dict[str, list[Any]] = {}
        new: dict[str, list[str]] = {}
        for column, drawn, keep in perturbation.draw(*self._inputs(found, first)):
            values[column.feature.name], new[column.feature.name] = self._drawn(column, drawn, keep)
        released = self._anew(found, new) if self.anew else _spliced(found, new)
        lines = [line for line in json_lines.LINE.findall(released) if line.strip(json_lines.WHITE)]
        if len(lines) != len(found.records):
            raise _unlike(first)
        objects = self._objects(lines, first, found.flat)
        for name, sent in values.items():
            if [read.get(name) for read in objects] != sent:
                raise _unlike(first)
        return released.encode("utf-8")

    def _found(self, part: bytes, first: int) -> Found:
        text = self._text(part, first)
        lines = json_lines.LINE.findall(text)
        found = Found(
            text, lines, [line for line in lines if line.strip(json_lines.WHITE)], {n: [] for n in self.wanted}
        )
        if self.anew:
            self._read_members(found, first)
        else:
            self._read_spans(found, first)
        return found

    def _text(self, part: bytes, first: int) -> str:
        try:
            return part.decode("utf-8")
        except UnicodeDecodeError as error:
            row = first + self.rows(part[: part.rfind(b"\n", 0, error.start) + 1])
            raise ValueError(f"row {row} is not UTF-8; convert the input first") from None

    def _read_members(self, found: Found, first: int) -> None:
        for row, line in enumerate(found.records, start=first):
            members = _members(line, row)
            kept = self._kept(tuple(name for name, *_ in members), row)
            read = {name: line[a:b] for name, a, b in members}
            for name in self.wanted:
                found.texts[name].append(read.get(name, "null"))
            found.members.append({name: text for name, text in read.items() if name in kept})

    def _read_spans(self, found: Found, first: int) -> None:
        """Find the wanted values; most lines are like those before, and one expression finds all of theirs."""
        layout: re.Pattern[str] | None = None
        order: list[str] = []
        before: tuple[str, ...] = ()
        at, row, alike, spans, texts = 0, first, True, found.spans, found.texts
        for line in found.lines:
            if not line.strip(json_lines.WHITE):
                at += len(line)
                continue
            match = layout.fullmatch(line) if layout is not None else None
            if match is not None:
                for i, name in enumerate(order, 1):
                    a, b = match.span(i)
                    texts[name].append(line[a:b])
                    if name in self.columns:
                        spans.append((name, at + a, at + b))
                members = []
            else:
                alike = alike and layout is None
                members = _members(line, row)
                names = tuple(name for name, *_ in members)
                self._kept(names, row)
                members = [member for member in members if member[0] in self.wanted]
                if layout is None and not any('"' in name or "\\" in name for name in names):
                    layout = json_lines.layout(names, frozenset(self.wanted))
                    order, before = [name for name, *_ in members], names
                    alike = alike and layout.fullmatch(line) is not None
            for name, a, b in members:
                texts[name].append(line[a:b])
                if name in self.columns:
                    spans.append((name, at + a, at + b))
            at += len(line)
            row += 1
        found.flat = len(before) if alike else 0

    def _kept(self, names: tuple[str, ...], row: int) -> frozenset[str]:
        """Return which members are written, or refuse an object that lacks one or has one twice."""
        if names not in self.known:
            for name in (*self.perturbation.ruled, *([] if self.unit is None else [self.unit])):
                if name in self.perturbation.ruled and names.count(name) != 1:
                    what = "lacks the member" if name not in names else "holds twice the member"
                    raise ValueError(f"row {row} {what} {name!r}, which the policy perturbs; repair the row")
                if name not in names and name not in self.sensitive:
                    raise ValueError(f"row {row} lacks the member {name!r}, which says whose it is; repair the row")
            if len(set(names)) < len(names):
                raise ValueError(f"row {row} holds two members of one name; repair the row")
            if len(self.known) > 1000:
                self.known.clear()
            self.known[names] = frozenset(self.perturbation.kept(list(names)))
        return self.known[names]

    def _inputs(self, found: Found, first: int) -> tuple[dict[str, Indices], dict[str, Indices]]:
        inputs = {n: self._encode(column, found.texts[n], first) for n, column in self.perturbation.ruled.items()}
        return inputs, {n: c.places(_any_values(found.texts[n])) for n, c in self.perturbation.seen.items()}

    def _encode(self, column: Column, texts: list[str], first: int) -> Indices:
        try:
            values = json_lines.decode_values(texts)
        except (ValueError, RecursionError):
            row = next((i for i, text in enumerate(texts) if not json_lines.is_json(text)), 0)
            raise _not_json(first + row) from None
        if column.feature.categories is not None:
            values = [repr(v) if isinstance(v, (list, dict)) else v for v in values]
            return column.resolve(column.kinds(values), first)
        column.check_numbers(values, first)
        for row, value in enumerate(values, start=first):
            if isinstance(value, float) and not isfinite(value):  # 1e999, or too many digits
                raise ValueError(f"row {row}, {column.feature.name}: the value is no finite number; repair the row")
        return column.encode_numbers([float("nan") if v is None else v for v in values], first)

    @cached_property
    def written(self) -> dict[str, list[str]]:
        """The texts of all public values, by feature."""
        return {
            name: [json.dumps(value, ensure_ascii=False) for value in column.values.tolist()]
            for name, column in self.perturbation.ruled.items()
        }

    def _drawn(self, column: Replaced, drawn: Indices, keep: Bools | None) -> tuple[list[Any], list[str]]:
        """Return released values, missing ones as None, and their texts."""
        if keep is None and isinstance(column, Column):
            indices, written = np.asarray(drawn).tolist(), self.written[column.feature.name]
            return column.values[indices].tolist(), [written[j] for j in indices]
        released: NDArray[Any] = column.released(drawn, keep, self.perturbation.policy)
        values = [None if v is None or v != v else v for v in released.tolist()]
        return values, [json.dumps(v, ensure_ascii=False) for v in values]

    def _anew(self, found: Found, new: Mapping[str, list[str]]) -> str:
        """Write the objects; sensitive members come last."""
        for i, members in enumerate(found.members):
            for name in self.sensitive:
                members.pop(name, None)
            for name, texts in new.items():
                members[name] = texts[i]
        objects = iter(found.members)
        return "".join(
            _object(next(objects)) + line[len(line.rstrip("\r\n")) :] if line.strip(json_lines.WHITE) else line
            for line in found.lines
        )

    def _objects(self, lines: list[str], first: int, flat: int) -> list[dict[str, Any]]:
        """Return what the standard library finds, or refuse a line that it does not take for one object."""
        strict = self.perturbation.policy.others is not None
        try:
            objects = json_lines.decode_objects(lines, flat, strict=strict)
        except (ValueError, TypeError, RecursionError):
            row = next((i for i, line in enumerate(lines) if not json_lines.is_json(line, strict=strict)), None)
            if row is not None and json_lines.is_json(lines[row]):
                raise ValueError(
                    f"row {first + row}: a member is NaN or Infinity, which JSON does not have; write null, or a text"
                ) from None
            raise _unlike(first) if row is None else _not_json(first + row) from None
        if self.perturbation.policy.others is not None and not flat:
            for row, read in enumerate(objects, start=first):
                self._check_single(read, row)
        return objects

    def _check_single(self, read: Mapping[str, Any], row: int) -> None:
        """Refuse an object with a member that passes by its name and nests: it could hold any other."""
        for name, value in read.items():
            if isinstance(value, (dict, list)) and name not in self.columns:
                raise ValueError(
                    f"row {row}, {name}: the member passes, but is not one number, word or truth; send one value"
                )


def _members(line: str, row: int) -> list[json_lines.Member]:
    try:
        return json_lines.members(line)
    except (ValueError, RecursionError):
        raise _not_json(row) from None


def _spliced(found: Found, new: Mapping[str, list[str]]) -> str:
    """Replace the values where they stand."""
    fresh = {name: iter(texts) for name, texts in new.items()}
    pieces, at = [], 0
    for name, start, end in found.spans:
        pieces += [found.text[at:start], next(fresh[name])]
        at = end
    return "".join([*pieces, found.text[at:]])


def _any_values(texts: list[str]) -> list[Any]:
    """Return the values that texts stand for, whatever they are: what is none, or nests too deeply, is a container."""
    try:
        return json_lines.decode_values(texts)
    except (ValueError, RecursionError):
        return [_any_value(text) for text in texts]


def _any_value(text: str) -> Any:
    try:
        return json_lines.decode(text)
    except (ValueError, RecursionError):
        return [text]


def _gap(value: Any) -> Any:
    """Return what stands for a value that is no unit: none stays none."""
    return None if value is None else 0.5


def _object(members: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_name(name)}: {text}" for name, text in members.items()) + "}"


def _name(name: str) -> str:
    """Return a name as JSON has it; a half of a surrogate pair, which no UTF-8 holds, as its escape."""
    return json.dumps(name, ensure_ascii=any("\ud800" <= letter <= "\udfff" for letter in name))


def _not_json(row: int) -> ValueError:
    return ValueError(
        f"row {row}: the line is not one JSON object whose members differ in name; write one such object per line"
    )


def _unlike(first: int) -> ValueError:
    """Return the refusal of a part that two readers read differently; values are private."""
    return ValueError(
        f"rows {first} and following: another reader does not find the perturbed values where they were put, "
        "so nothing was written; write the table anew with one library"
    )
