"""Reading the ``[tailored]`` table of a policy: everything in it is checked, and every kernel is proven, again."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from epsworth.mechanisms.rational import stated_epsilon
from epsworth.mechanisms.regions import MOST_REGIONS, RegionKernel
from epsworth.numerals import exact_decimal
from epsworth.release.copies import Copy, Indices, Input, Trees
from epsworth.release.grids import Grid
from epsworth.release.randomisers import Average, Gain, Randomiser, Worst
from epsworth.release.reading import known_table, with_floats
from epsworth.release.reading_copies import read_copy
from epsworth.release.rules import BITS
from epsworth.release.tailoring import Tailoring
from epsworth.space import Domain

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


def _copy(entry: Any, where: str, inputs: list[Input], regions: int) -> Copy:
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
        orders = tuple(tuple(_whole(row, "kernel.orders")) for row in _list(table, "orders", "kernel."))
        most = tuple(_whole(_list(table, "most", "kernel."), "kernel.most"))
        prior = _copy(table.get("prior"), "kernel.prior", inputs, len(orders))
        if not isinstance(prior, Trees):
            raise ValueError("kernel.prior: must be one tree whose leaves have numbers")
        return Average(epsilon, count, prior, orders, most)
    rows = tuple(tuple(_weight(weight) for weight in _row(row)) for row in _list(table, "rows", "kernel."))
    instead = tuple(tuple(_whole(row, "kernel.instead")) for row in _list(table, "instead", "kernel."))
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
    rows = [_whole(row, where) for row in _row(given)]
    if any(len(row) != width for row in rows):
        raise ValueError(f"{where}: must hold one place for each of the {width} sensitive columns")
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)


def _whole(given: Any, where: str) -> list[int]:
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
