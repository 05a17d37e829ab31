"""JSON lines under a tailored policy: what is replaced stands at the end of its object, whether it was there or not.

Were new values put where the old ones stood, the place of a member would tell whether the record had it.
"""

from __future__ import annotations

import json
from typing import Any

from epsworth.release import json_lines
from epsworth.release.text import JsonSplicer


class TailoredJsonSplicer(JsonSplicer):
    """Members that are not perturbed keep their names, their order and every character of their values."""

    def block(self, block: bytes) -> bytes:
        """Write the objects of a block anew."""
        lines = json_lines.LINE.findall(block.decode("utf-8"))
        records = [line for line in lines if line.strip(json_lines.WHITE)]
        if not records:
            return block
        read = [self._read(line, self.rows + i) for i, line in enumerate(records)]
        texts = {name: [members.get(name, "null") for members in read] for name in self.looked_at}
        inputs = {name: self._encode(column, texts[name]) for name, column in self.perturbation.ruled.items()}
        places = {name: column.places(_any_values(texts[name])) for name, column in self.perturbation.seen.items()}
        values: dict[str, list[Any]] = {}
        for column, drawn, keep in self.perturbation.draw(inputs, places):
            name = column.feature.name
            values[name], written = self._drawn(column, drawn, keep)
            sensitive = name not in self.perturbation.ruled
            for members, text in zip(read, written, strict=True):
                if sensitive:
                    members.pop(name, None)  # so that it comes last
                members[name] = text
        objects = iter(read)
        released = "".join(
            _object(next(objects)) + line[len(line.rstrip("\r\n")) :] if line.strip(json_lines.WHITE) else line
            for line in lines
        )
        self._read_back(released, values, 0)
        self.rows += len(records)
        return released.encode("utf-8")

    def _read(self, line: str, row: int) -> dict[str, str]:
        """Return the members of one object with the texts of their values."""
        try:
            found = json_lines.members(line)
        except (ValueError, RecursionError):
            raise self._not_json(row) from None
        self._check_names([name for name, *_ in found], row)
        return {name: line[a:b] for name, a, b in found}


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


def _object(members: dict[str, str]) -> str:
    return "{" + ", ".join(f"{_name(name)}: {text}" for name, text in members.items()) + "}"


def _name(name: str) -> str:
    """Return a name as JSON has it; a half of a surrogate pair, which no UTF-8 holds, as its escape."""
    return json.dumps(name, ensure_ascii=any("\ud800" <= letter <= "\udfff" for letter in name))
