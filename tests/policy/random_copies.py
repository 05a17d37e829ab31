"""Copies of every kind with random tables, and a reader of them in Python's own integers, which cannot round."""

from __future__ import annotations

from typing import Any

import numpy as np

from epsworth.grids import Input
from epsworth.tailored.surrogates import LEAF, Cells, IntegerReLU, Joint, Layer, Surrogate, Trees, cell_weights

INPUTS = (Input(1 << 16, True), Input(5, False), Input(11, True), Input(70, False))


def random_places(rng: np.random.Generator, count: int, inputs=INPUTS):
    return np.column_stack([rng.integers(0, one.places, count) for one in inputs])


def random_layers(rng, *, regions=3, inputs=INPUTS):
    """Sums up to about 2^52; biases that let every unit and every region have its turn."""
    width = sum(1 if one.ordered else one.places for one in inputs)
    places = random_places(rng, 200, inputs)
    weights, last = rng.integers(-(2**20), 2**20, (6, width)), rng.integers(-(2**20), 2**20, (regions, 6))
    centred = IntegerReLU(inputs, (Layer(weights, np.zeros(6, dtype=np.int64), 0),)).scores(places)
    first = Layer(weights, -np.median(centred, axis=0).astype(np.int64), 10)
    scores = IntegerReLU(inputs, (first, Layer(last, np.zeros(regions, dtype=np.int64), 0))).scores(places)
    return IntegerReLU(inputs, (first, Layer(last, -np.median(scores, axis=0).astype(np.int64), 0)))


def random_trees(rng, *, trees=8, leaves=90, regions=3, names=False, spread=1 << 30, inputs=INPUTS, grids=None):
    """Trees whose leaves are split at random; ``grids``: how many thresholds differ per column, for equal ones."""
    feature, left, right, threshold, sets, roots, values = [], [], [], [], {}, [], []

    def leaf():
        for part in (feature, left, right):
            part.append(LEAF)
        threshold.append(0)
        values.append([int(rng.integers(regions))] if names else rng.integers(-spread, spread, regions).tolist())
        return len(feature) - 1

    for _ in range(trees):
        roots.append(leaf())
        open_ = [roots[-1]]
        for _ in range(leaves - 1):
            node = open_.pop(int(rng.integers(len(open_))))
            column = int(rng.integers(len(inputs)))
            feature[node] = column
            places = inputs[column].places
            if inputs[column].ordered:
                step = 1 if grids is None else max(1, places // grids)
                threshold[node] = int(rng.integers(-2, places + 2)) // step * step
            else:
                sets[node] = tuple(np.flatnonzero(rng.random(places) < 0.5).tolist())
            left[node], right[node] = leaf(), leaf()
            open_ += [left[node], right[node]]
    parts = [np.array(part, dtype=np.int64) for part in (feature, left, right, threshold)]
    return Trees(inputs, *parts, sets, np.array(roots), np.array(values, dtype=np.int64), regions, names)


def random_joint(rng):
    parts = (random_layers(rng), random_trees(rng, regions=4), random_trees(rng, trees=1, regions=2, names=True))
    table = rng.integers(0, 5, 24)
    return Joint(INPUTS, parts, table, 5)


def random_cells(rng, *, cells=12, sensitive=(3, 0, 1)):
    part = random_layers(rng)
    labels = np.concatenate([np.arange(3), rng.integers(0, 3, cells - 3)])
    medians = random_places(rng, cells)[:, list(sensitive)]
    medians[-1], labels[-1] = medians[0], labels[0]  # as near as the first
    return Cells(INPUTS, part, np.array(sensitive), labels, medians, cell_weights(INPUTS, sensitive))


def random_copies(seed: int) -> list[Surrogate]:
    rng = np.random.default_rng(seed)
    return [
        random_layers(rng), random_trees(rng), random_trees(rng, trees=3, spread=2),
        random_trees(rng, trees=1, leaves=200, names=True), random_joint(rng), random_cells(rng),
    ]  # fmt: skip


def read(copy: dict[str, Any], inputs, places: list[int]) -> tuple[int, list[int]]:
    """Return region and scores; of joint copies all parts' scores, of cells the distances to those of the region."""
    if copy["kind"] == "layers":
        values = [v for one, p in zip(inputs, places, strict=True)
                  for v in ([p] if one.ordered else [int(p == word) for word in range(one.places)])]  # fmt: skip
        for number, layer in enumerate(copy["layers"]):
            rows = zip(layer["weights"], layer["biases"], strict=True)
            values = [sum(w * v for w, v in zip(row, values, strict=True)) + bias for row, bias in rows]
            if number < len(copy["layers"]) - 1:
                values = [max(value, 0) >> layer["shift"] for value in values]
        return values.index(max(values)), values
    if copy["kind"] in ("trees", "tree"):
        sums = [0] * len(copy["values"][0])
        for node in copy["roots"]:
            while (column := copy["feature"][node]) != LEAF:
                words = copy["sets"].get(str(node))
                left = places[column] <= copy["threshold"][node] if words is None else places[column] in words
                node = copy["left" if left else "right"][node]
            sums = [total + value for total, value in zip(sums, copy["values"][node], strict=True)]
        return sums[0] if copy["kind"] == "tree" else sums.index(max(sums)), sums
    if copy["kind"] == "joint":
        at, scores = 0, []
        for part, count in zip(copy["parts"], copy["counts"], strict=True):
            region, own = read(part, inputs, places)
            at, scores = at * count + region, scores + own
        return copy["table"][at], scores
    label, _ = read(copy["part"], inputs, places)
    own = [cell for cell, owner in enumerate(copy["labels"]) if owner == label]
    distances = [
        sum(
            weight * (abs(places[c] - median) if inputs[c].ordered else int(places[c] != median))
            for c, median, weight in zip(copy["sensitive"], copy["medians"][cell], copy["weights"], strict=True)
        )
        for cell in own
    ]
    return own[distances.index(min(distances))], distances
