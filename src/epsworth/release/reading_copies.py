"""Copies read from a policy's tables: every entry is checked before it is used, and a wrong one named by its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epsworth.release.copies import (
    EXACT,
    MOST_COMBINATIONS,
    Cells,
    Copy,
    Indices,
    Input,
    Joint,
    Layer,
    Layers,
    Trees,
    require,
)

PLAIN = ("layers", "trees", "tree")
JOINED = ("joint", "cells")


def read_copy(table: Any, inputs: Sequence[Input], regions: int) -> Copy:
    """Return the copy that a policy's table describes; a wrong entry is named by its path.

    Raises
    ------
    ValueError
        If something is missing, is no whole number, or could fail or round on some record.
    """
    require(isinstance(table, Mapping), "copy: must be a table")
    kind, inputs = table.get("kind"), tuple(inputs)
    if kind == "joint":
        found: Copy = _joint(table, inputs, regions)
    elif kind == "cells":
        found = _cells(table, inputs)
    elif kind in PLAIN:
        found = _plain(table, inputs, regions)
    else:
        raise ValueError(f"copy.kind: must be one of {', '.join(PLAIN + JOINED)}, got {kind!r}")
    require(found.regions == regions, f"copy: it tells {found.regions} regions apart, the policy has {regions}")
    return found


def _plain(table: Mapping[str, Any], inputs: tuple[Input, ...], regions: int) -> Copy:
    if table["kind"] == "layers":
        given: Any = table.get("layers")
        require(isinstance(given, Sequence) and not isinstance(given, str), "layers: must be a list")
        return Layers(inputs, tuple(_layer(part, f"layers[{i}]") for i, part in enumerate(given)))
    columns = {key: _whole(table, key, key) for key in ("feature", "threshold", "left", "right", "roots")}
    sets = table.get("sets", {})
    require(isinstance(sets, Mapping), "sets: must be a table")
    named = {_node(at): tuple(_whole(sets, at, f"sets.{at}").tolist()) for at in sets}
    return Trees(
        inputs, columns["feature"], columns["left"], columns["right"], columns["threshold"], named,
        columns["roots"], _whole(table, "values", "values", rows=True), regions, table["kind"] == "tree",
    )  # fmt: skip


def _joint(table: Mapping[str, Any], inputs: tuple[Input, ...], regions: int) -> Joint:
    given: Any = table.get("parts")
    counts = _whole(table, "counts", "joint.counts").tolist()
    require(isinstance(given, list), "joint.parts: must be a list of tables")
    require(len(given) == len(counts), "joint.counts: must be one for each part")
    parts = tuple(_part(part, inputs, counts[i], f"joint.parts[{i}]") for i, part in enumerate(given))
    return Joint(inputs, parts, _whole(table, "table", "joint.table"), regions)


def _cells(table: Mapping[str, Any], inputs: tuple[Input, ...]) -> Cells:
    count: Any = table.get("count")
    require(type(count) is int, "cells.count: must be a whole number")
    columns = {key: _whole(table, key, f"cells.{key}") for key in ("sensitive", "labels", "weights")}
    return Cells(
        inputs, _part(table.get("part"), inputs, count, "cells.part"), columns["sensitive"], columns["labels"],
        _whole(table, "medians", "cells.medians", rows=True), columns["weights"],
    )  # fmt: skip


def _part(table: Any, inputs: tuple[Input, ...], count: int, where: str) -> Copy:
    """Return a plain copy; parts have no parts of their own."""
    require(isinstance(table, Mapping), f"{where}: must be a table")
    require(table.get("kind") in PLAIN, f"{where}.kind: must be one of {', '.join(PLAIN)}")
    require(1 <= count <= MOST_COMBINATIONS, f"{where}: must tell 1 to {MOST_COMBINATIONS} regions apart")
    try:
        return read_copy(table, inputs, count)
    except ValueError as problem:
        raise ValueError(f"{where}: {problem}") from None


def _layer(part: Any, where: str) -> Layer:
    require(isinstance(part, Mapping), f"{where}: must be a table")
    shift = part.get("shift", 0)
    require(type(shift) is int, f"{where}.shift: must be a whole number")
    return Layer(
        _whole(part, "weights", f"{where}.weights", rows=True), _whole(part, "biases", f"{where}.biases"), shift
    )


def _node(at: Any) -> int:
    named = isinstance(at, str) and at.isascii() and at.isdecimal() and len(at) <= 12
    require(named, "sets: nodes must be named by their numbers")
    return int(at)


def _whole(table: Mapping[str, Any], key: str, where: str, *, rows: bool = False) -> Indices:
    """Return a list of whole numbers below 2^53, or rows of them that are equally long."""
    given: Any = table.get(key)
    require(isinstance(given, list), f"{where}: must be a list of whole numbers")
    lists: list[Any] = given if rows else [given]
    require(all(isinstance(row, list) for row in lists), f"{where}: must be a list of rows")
    require(len({len(row) for row in lists}) <= 1, f"{where}: rows must be equally long")
    fine = all(type(value) is int and abs(value) < EXACT for row in lists for value in row)
    require(fine, f"{where}: must be whole numbers below 2^53")
    return np.array(given, dtype=np.int64)
