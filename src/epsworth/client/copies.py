"""A classifier's copy in whole numbers: the region of a record's places; its tables are proven before they are used.

No promise rests on what a copy answers.  It must answer the same everywhere, and always: hence the proofs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from operator import mul

from epsworth.client.reading import WHOLE, table, whole

TYPE_CHECKING = False  # typing alone would take longer to import than all the rest
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Surrogate(Protocol):
        """What tells regions."""

        def region(self, places: Sequence[int]) -> int:
            """Return the region of a record's places."""

        def scores(self, places: Sequence[int]) -> list[int]:
            """Return what decides it."""


LEAF = -1
MOST_SHIFT = 52
MOST_COMBINATIONS = 1 << 16
NODE = re.compile(r"0|[1-9][0-9]{0,11}")
PLAIN = ("layers", "trees", "tree")
EVERY = (*PLAIN, "joint", "cells")

Inputs = Sequence[tuple[int, bool]]
"""How many places each input has, and whether they have an order."""


def read_copy(where: str, given: Any, inputs: Inputs, regions: int, kinds: Sequence[str] = EVERY) -> Surrogate:
    """Return the copy of a table, which tells so many regions."""
    kind = given.get("kind") if type(given) is dict else None
    if type(kind) is not str or kind not in kinds:
        raise ValueError(f"{where}.kind: must be one of {', '.join(kinds)}; write the policy anew")
    if kind == "layers":
        return IntegerReLU(where, given, inputs, regions)
    if kind in PLAIN:
        return Trees(where, given, inputs, regions)
    return (Joint if kind == "joint" else Cells)(where, given, inputs, regions)


def wholes(
    where: str, given: Any, least: int = 1 - WHOLE, most: int = WHOLE - 1, count: int | None = None
) -> list[int]:
    """Return a list of whole numbers within bounds, of a given length."""
    if type(given) is not list or count not in (None, len(given)):
        many = "" if count is None else f"{count} "
        raise ValueError(f"{where}: must be a list of {many}whole numbers; write it anew")
    return [one if type(one) is int and least <= one <= most else whole(where, one, least, most) for one in given]


def rows(where: str, given: Any, width: int, least: int = 1 - WHOLE, most: int = WHOLE - 1) -> list[list[int]]:
    """Return rows of whole numbers."""
    return [wholes(where, row, least, most, width) for row in listed(where, given)]


def listed(where: str, given: Any) -> list[Any]:
    """Return a list."""
    if type(given) is not list:
        raise ValueError(f"{where}: must be a list; write the policy anew")
    return given


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise ValueError(f"{sentence}; write the policy anew")


class IntegerReLU:
    """Sums of places (1 for a word's position, else 0) through shifted rectifiers; the first largest score wins."""

    def __init__(self, where: str, given: dict[str, Any], inputs: Inputs, regions: int) -> None:
        self.inputs, self.layers = inputs, []
        reach = [most for places, ordered in inputs for most in ([places - 1] if ordered else [1] * places)]
        parts = listed(f"{where}.layers", table(where, given, ("kind", "layers"))["layers"])
        for number, part in enumerate(parts):
            at = f"{where}.layers[{number}]"
            layer = table(at, part, ("weights", "biases", "shift"))
            biases = wholes(f"{at}.biases", layer["biases"])
            weights = rows(f"{at}.weights", layer["weights"], len(reach))
            _require(len(weights) == len(biases) >= 1, f"{at}: there must be one bias for each unit")
            shift = whole(f"{at}.shift", layer["shift"], 0, MOST_SHIFT)
            sums = [sum(map(mul, map(abs, row), reach)) + abs(bias) for row, bias in zip(weights, biases, strict=True)]
            _require(max(sums) < WHOLE, f"{at}: a sum can reach 2^53, beyond which doubles round")
            reach = [total >> shift for total in sums]
            self.layers.append((weights, biases, shift))
        _require(bool(parts) and shift == 0, f"{where}.layers: there must be one at least, the last without a shift")
        _require(len(biases) == regions, f"{where}: must tell {regions} regions apart")

    def scores(self, places: Sequence[int]) -> list[int]:
        """Return whole scores."""
        values: list[int] = []
        for at, (count, ordered) in zip(places, self.inputs, strict=True):
            values += [at] if ordered else [int(at == word) for word in range(count)]
        for number, (weights, biases, shift) in enumerate(self.layers, start=1):
            values = [sum(map(mul, row, values)) + bias for row, bias in zip(weights, biases, strict=True)]
            if number < len(self.layers):
                values = [max(value, 0) >> shift for value in values]
        return values

    def region(self, places: Sequence[int]) -> int:
        """Return the place of the largest score, the first of equals."""
        scores = self.scores(places)
        return scores.index(max(scores))


class Trees:
    """Sums of leaves' values; the first largest wins.  One tree can say the region itself."""

    def __init__(self, where: str, given: dict[str, Any], inputs: Inputs, regions: int) -> None:
        parts = ("kind", "feature", "threshold", "left", "right", "sets", "roots", "values")
        entry = table(where, given, parts)
        self.says = entry["kind"] == "tree"
        self.feature = wholes(f"{where}.feature", entry["feature"], LEAF, len(inputs) - 1)
        nodes = len(self.feature)
        self.threshold = wholes(f"{where}.threshold", entry["threshold"], count=nodes)
        self.left, self.right = (wholes(f"{where}.{side}", entry[side], count=nodes) for side in ("left", "right"))
        self.roots = wholes(f"{where}.roots", entry["roots"], 0, nodes - 1)
        self.values = rows(f"{where}.values", entry["values"], 1 if self.says else regions)
        _require(len(self.values) == nodes >= 1 and bool(self.roots), f"{where}: must have nodes, and a root at least")
        self.sets = self._read_sets(f"{where}.sets", entry["sets"], inputs)
        for node, column in enumerate(self.feature):
            if column != LEAF:
                after = node < self.left[node] < nodes and node < self.right[node] < nodes
                _require(after, f"{where}: children must come after their parents")
        self._prove_values(where, regions)

    def _read_sets(self, where: str, given: Any, inputs: Inputs) -> dict[int, frozenset[int]]:
        """Return the words that go left; they stand where words are asked about, and there alone."""
        named = type(given) is dict and all(NODE.fullmatch(node) for node in given)
        _require(named, f"{where}: must be an object whose members are numbers of nodes")
        nodes = [at for at, column in enumerate(self.feature) if column != LEAF and not inputs[column][1]]
        asked = {at: inputs[self.feature[at]][0] for at in nodes}
        _require({int(node) for node in given} == asked.keys(), f"{where}: must stand where words are asked about")
        return {int(node): frozenset(wholes(where, own, 0, asked[int(node)] - 1)) for node, own in given.items()}

    def _prove_values(self, where: str, regions: int) -> None:
        leaves = [row for row, column in zip(self.values, self.feature, strict=True) if column == LEAF]
        if self.says:
            _require(len(self.roots) == 1, f"{where}: one tree alone can name regions")
            _require(all(0 <= row[0] < regions for row in leaves), f"{where}: a leaf names a region that is not there")
            return
        largest = max(abs(value) for row in leaves for value in row)
        _require(largest * len(self.roots) < WHOLE, f"{where}: a sum can reach 2^53, beyond which doubles round")

    def asked(self) -> set[int]:
        """Return the inputs that a node asks about."""
        return set(self.feature) - {LEAF}

    def scores(self, places: Sequence[int]) -> list[int]:
        """Return the sums of leaves' values, from every root to a leaf."""
        feature, threshold, left, right, sets = self.feature, self.threshold, self.left, self.right, self.sets
        leaves = []
        for node in self.roots:
            while (column := feature[node]) != LEAF:
                at = places[column]
                turned = at in sets[node] if node in sets else at <= threshold[node]
                node = left[node] if turned else right[node]
            leaves.append(self.values[node])
        return list(map(sum, zip(*leaves, strict=True)))

    def region(self, places: Sequence[int]) -> int:
        """Return what the leaf says, or the place of the largest sum, the first of equals."""
        scores = self.scores(places)
        return scores[0] if self.says else scores.index(max(scores))


class Joint:
    """Several copies at once: a table says which region a combination of their regions is."""

    def __init__(self, where: str, given: dict[str, Any], inputs: Inputs, regions: int) -> None:
        entry = table(where, given, ("kind", "counts", "parts", "table"))
        self.counts = wholes(f"{where}.counts", entry["counts"], 1, MOST_COMBINATIONS)
        parts = listed(f"{where}.parts", entry["parts"])
        _require(len(parts) == len(self.counts) >= 1, f"{where}.counts: there must be one for each part")
        self.parts = [
            read_copy(f"{where}.parts[{i}]", part, inputs, self.counts[i], PLAIN) for i, part in enumerate(parts)
        ]
        combinations = prod(self.counts)
        _require(combinations <= MOST_COMBINATIONS, f"{where}: at most {MOST_COMBINATIONS} combinations can be told")
        self.table = wholes(f"{where}.table", entry["table"], 0, regions - 1, combinations)

    def scores(self, places: Sequence[int]) -> list[int]:
        """Return the scores of all parts."""
        return [score for part in self.parts for score in part.scores(places)]

    def region(self, places: Sequence[int]) -> int:
        """Return the region of the parts' combination, the first part's digit the most significant."""
        at = 0
        for part, count in zip(self.parts, self.counts, strict=True):
            at = at * count + part.region(places)
        return self.table[at]


class Cells:
    """The nearest median among the cells of a record's region; the first of equals."""

    def __init__(self, where: str, given: dict[str, Any], inputs: Inputs, regions: int) -> None:
        entry = table(where, given, ("kind", "count", "part", "sensitive", "labels", "medians", "weights"))
        count = whole(f"{where}.count", entry["count"], 1, regions)
        self.part = read_copy(f"{where}.part", entry["part"], inputs, count, PLAIN)
        columns = wholes(f"{where}.sensitive", entry["sensitive"], 0, len(inputs) - 1)
        width = len(columns)
        _require(width == len(set(columns)) >= 1, f"{where}.sensitive: must name inputs, each once")
        self.labels = wholes(f"{where}.labels", entry["labels"], 0, count - 1, regions)
        _require(len(set(self.labels)) == count, f"{where}.labels: every region must own at least one cell")
        self.medians = rows(f"{where}.medians", entry["medians"], width, 0)
        fine = all(at < inputs[column][0] for row in self.medians for at, column in zip(row, columns, strict=True))
        _require(fine and len(self.medians) == regions, f"{where}.medians: must be places, for each cell")
        weights = wholes(f"{where}.weights", entry["weights"], 1, count=width)
        longest = [max(1, inputs[column][0] - 1) if inputs[column][1] else 1 for column in columns]
        _require(sum(map(mul, weights, longest)) < WHOLE, f"{where}: a distance can reach 2^53")
        self.axes = [(column, inputs[column][1], weight) for column, weight in zip(columns, weights, strict=True)]
        self.own = [[cell for cell, owner in enumerate(self.labels) if owner == label] for label in range(count)]

    def scores(self, places: Sequence[int]) -> list[int]:
        """Return the distances to the cells of the record's region."""
        return self._distances(places, self.own[self.part.region(places)])

    def region(self, places: Sequence[int]) -> int:
        """Return the nearest cell of the record's region."""
        own = self.own[self.part.region(places)]
        distances = self._distances(places, own)
        return own[distances.index(min(distances))]

    def _distances(self, places: Sequence[int], cells: list[int]) -> list[int]:
        return [
            sum(
                weight * (abs(places[column] - at) if ordered else places[column] != at)
                for (column, ordered, weight), at in zip(self.axes, self.medians[cell], strict=True)
            )
            for cell in cells
        ]
