"""The ``[tailored]`` table of a policy: read strictly, every kernel proven again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from epsworth.arrays import Indices
from epsworth.documents import known_table, with_floats
from epsworth.grids import BITS, Grid, Input
from epsworth.mechanisms.rational import stated_epsilon
from epsworth.mechanisms.regions import MOST_REGIONS, RegionKernel
from epsworth.numerals import exact_decimal
from epsworth.space import Domain
from epsworth.tailored.mechanism import Tailoring
from epsworth.tailored.randomisers import Average, Gain, Randomiser, Worst
from epsworth.tailored.surrogates import (
    EXACT,
    MOST_COMBINATIONS,
    Cells,
    IntegerReLU,
    Joint,
    Layer,
    Surrogate,
    Trees,
    require,
)

PLAIN = ("layers", "trees", "tree")
JOINED = ("joint", "cells")


def read_copy(table: Any, inputs: Sequence[Input], regions: int) -> Surrogate:
    """Return the copy that a policy's table describes; a wrong entry is named by its path.

    Raises
    ------
    ValueError
        If something is missing, is no whole number, or could fail or round on some record.
    """
    require(isinstance(table, Mapping), "copy: must be a table")
    kind, inputs = table.get("kind"), tuple(inputs)
    if kind == "joint":
        found: Surrogate = _joint(table, inputs, regions)
    elif kind == "cells":
        found = _cells(table, inputs)
    elif kind in PLAIN:
        found = _plain(table, inputs, regions)
    else:
        raise ValueError(f"copy.kind: must be one of {', '.join(PLAIN + JOINED)}, got {kind!r}")
    require(found.regions == regions, f"copy: it tells {found.regions} regions apart, the policy has {regions}")
    return found


def _plain(table: Mapping[str, Any], inputs: tuple[Input, ...], regions: int) -> Surrogate:
    if table["kind"] == "layers":
        given: Any = table.get("layers")
        require(isinstance(given, Sequence) and not isinstance(given, str), "layers: must be a list")
        return IntegerReLU(inputs, tuple(_layer(part, f"layers[{i}]") for i, part in enumerate(given)))
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


def _part(table: Any, inputs: tuple[Input, ...], count: int, where: str) -> Surrogate:
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


TABLE = (
    "epsilon", "labels", "draw", "classifiers", "inputs", "kernel", "default", "representatives", "copy",
)  # fmt: skip
GRID = ("sensitive", "lower", "upper", "points", "categories", "bits", "missing", "outside")
KINDS = {"worst": ("kind",), "average": ("kind", "prior", "orders", "most"), "gain": ("kind", "rows", "instead")}
LONGEST_WEIGHT = 20  # digits of 2^64


def read_tailoring(entry: Any) -> Tailoring:
    """Return what a policy's table says; a wrong entry is named by its path.

    Raises
    ------
    ValueError
        If something is missing, is no whole number, is out of range, or a kernel does not keep the stated epsilon.
    """
    table = known_table("tailored", entry, TABLE)
    for key in ("epsilon", "labels", "inputs", "kernel", "default", "representatives", "copy"):
        if key not in table:
            raise ValueError(f"tailored.{key}: is missing; write the policy anew")
    try:
        epsilon = exact_decimal("epsilon", table["epsilon"])
        stated_epsilon(epsilon)
        labels = _labels(table["labels"])
        inputs = table["inputs"]
        if not isinstance(inputs, Mapping) or not inputs:
            raise ValueError("inputs: there is none; write one section [tailored.inputs.NAME] per column")
        columns = [_grid(name, part) for name, part in inputs.items()]
        grids = tuple(grid for grid, _ in columns)
        if not any(hidden for _, hidden in columns):
            raise ValueError("inputs: none is sensitive; mark those that records keep to themselves")
        seen = [grid.input for grid in grids]
        randomiser = _randomiser(table["kernel"], epsilon, len(labels), seen)
        standing = enumerate(_list(table, "representatives"))
        return Tailoring(
            labels, grids, tuple(hidden for _, hidden in columns), _copy(table["copy"], "copy", seen, len(labels)),
            tuple(_places(rows, f"representatives[{i}]", columns) for i, rows in standing),
            tuple(_places([table["default"]], "default", columns)[0].tolist()),
            randomiser, _truth(table, "draw"), _texts(table, "classifiers"),
        )  # fmt: skip
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ValueError(f"tailored.{error}") from None


def _labels(given: Any) -> tuple[Any, ...]:
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_REGIONS:
        raise ValueError(f"labels: must be a list of 1 to {MOST_REGIONS} labels, one per region")
    return tuple(tuple(map(_label, one)) if isinstance(one, list) else _label(one) for one in given)


def _label(value: Any) -> Any:
    if not isinstance(value, (str, int, float, Decimal)):
        raise ValueError("labels: must be texts, numbers or truths")
    return float(value) if isinstance(value, Decimal) else value


def _grid(name: str, entry: Any) -> tuple[Grid, bool]:
    where = f"inputs.{name}"
    table = {key: with_floats(value) for key, value in known_table(where, entry, GRID).items()}
    declared = {key: table[key] for key in ("lower", "upper", "points", "categories") if key in table}
    try:
        feature = Domain.from_dict({"features": {name: declared}})[name]
        return Grid(feature, table.get("bits", BITS), table.get("missing"), table.get("outside")), _truth(
            table, "sensitive"
        )
    except ValueError as error:
        raise ValueError(f"{where}.{str(error).removeprefix(f'features.{name}: ')}") from None


def _copy(entry: Any, where: str, inputs: list[Input], regions: int) -> Surrogate:
    """Return a copy; what is wrong is named with the whole path."""
    try:
        return read_copy(entry, inputs, regions)
    except (ValueError, TypeError, ArithmeticError) as error:
        says = str(error)
        raise ValueError(f"{where}{says[4:] if says.startswith('copy') else f'.{says}'}") from None


def _randomiser(entry: Any, epsilon: Decimal, count: int, inputs: list[Input]) -> Randomiser:
    kind = entry.get("kind") if isinstance(entry, Mapping) else None
    if kind not in KINDS:
        raise ValueError(f"kernel.kind: must be one of {', '.join(KINDS)}, got {kind!r}")
    table = known_table("kernel", entry, KINDS[kind])
    if kind == "worst":
        return Worst(epsilon, count)
    if kind == "average":
        orders = tuple(tuple(_whole_numbers(row, "kernel.orders")) for row in _list(table, "orders", "kernel."))
        most = tuple(_whole_numbers(_list(table, "most", "kernel."), "kernel.most"))
        prior = _copy(table.get("prior"), "kernel.prior", inputs, len(orders))
        if not isinstance(prior, Trees):
            raise ValueError("kernel.prior: must be one tree whose leaves have numbers")
        return Average(epsilon, count, prior, orders, most)
    rows = tuple(tuple(_weight(weight) for weight in _row(row)) for row in _list(table, "rows", "kernel."))
    instead = tuple(tuple(_whole_numbers(row, "kernel.instead")) for row in _list(table, "instead", "kernel."))
    kernel = RegionKernel("region", stated_epsilon(epsilon), len(rows), rows, np.zeros(len(rows)), np.inf, -np.inf)
    try:
        return Gain(epsilon, count, kernel, instead)
    except ArithmeticError as error:
        raise ValueError(f"kernel: {error}") from None


def _weight(given: Any) -> int:
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) <= LONGEST_WEIGHT:
        return int(given)
    raise ValueError("kernel.rows: weights must be whole numbers that are not negative, written as texts")


def _places(given: Any, where: str, columns: list[tuple[Grid, bool]]) -> Indices:
    """Return rows of places of the sensitive columns; ranges are checked with all the rest."""
    width = sum(hidden for _, hidden in columns)
    rows = [_whole_numbers(row, where) for row in _row(given)]
    if any(len(row) != width for row in rows):
        raise ValueError(f"{where}: must hold one place for each of the {width} sensitive columns")
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)


def _whole_numbers(given: Any, where: str) -> list[int]:
    if not isinstance(given, list) or not all(type(value) is int and abs(value) < 1 << 53 for value in given):
        raise ValueError(f"{where}: must be a list of whole numbers")
    return given


def _row(given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise ValueError("kernel.rows, representatives: must be lists of lists")
    return given


def _list(table: Mapping[str, Any], key: str, where: str = "") -> list[Any]:
    if not isinstance(given := table.get(key), list):
        raise ValueError(f"{where}{key}: must be a list")
    return given


def _truth(table: Mapping[str, Any], key: str) -> bool:
    if not isinstance(given := table.get(key, False), bool):
        raise ValueError(f"{key}: must be true or false, got {given!r}")
    return given


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    given = table.get(key, [])
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ValueError(f"{key}: must be a list of texts")
    return tuple(given)
