"""Whole-number copies of classifiers that were read: the same turns at every place, leaves and weights rounded.

The turns of a tree are asked of its own steps at every place of a grid, so that they are those of the classifier; what
is rounded are leaf values (to 2^-40) and weights (to 24 bits), and a region can differ where scores are that close.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools
from epsworth.classifiers.pipeline import ShortCuts
from epsworth.classifiers.reading import Unsupported
from epsworth.classifiers.structure import read_trees
from epsworth.classifiers.trees import TreeModel
from epsworth.records import Records
from epsworth.release.copies import EXACT, LEAF, Indices, Trees
from epsworth.release.grids import Grid

FINEST = 40  # bits after the point of leaf values, where sums leave room for them


def copy_of_trees(model: Any, grids: Sequence[Grid], records: Records) -> Trees:
    """Return a copy of trees whose turns are those of the model at all places, or say what stands in the way.

    Parameters
    ----------
    model : fitted classifier
    grids : sequence of Grid
        One for each column of the records.
    records : Records
        At least one: its values stand where a column is not asked about.
    """
    trees = read_trees(model)
    if trees.decision is not None:
        raise Unsupported("the members of the ensemble decide by themselves, so that they are no one sum of trees")
    through = ShortCuts(trees.before, records, {})
    place = np.arange(len(grids)) if not trees.before.steps else _owners(trees, len(grids))
    nodes = np.flatnonzero(trees.left != LEAF)
    sets: dict[int, tuple[int, ...]] = {}
    threshold, swapped = np.zeros(len(trees.feature), dtype=np.int64), np.zeros(len(trees.feature), dtype=bool)
    for position, grid in enumerate(grids):
        own = nodes[place[trees.feature[nodes]] == position]
        if not own.size:
            continue
        columns, at = np.unique(trees.feature[own], return_inverse=True)
        seen = _seen(trees, columns, position, grid, through)
        if grid.input.ordered:
            steps = np.diff(seen, axis=1)
            falls = np.asarray((steps <= 0).all(axis=1))
            if not (falls | (steps >= 0).all(axis=1)).all():
                raise Unsupported(f"a step keeps no order of {grid.feature.name!r}")
            swapped[own] = np.asarray(falls)[at]
            threshold[own] = _changes(trees, own, seen, at) - 1
        else:
            sets |= {
                int(node): tuple(np.flatnonzero(trees.turns(seen[c], np.full(seen.shape[1], node))).tolist())
                for node, c in zip(own, at, strict=True)
            }
    return _tables(trees, grids, place, threshold, swapped, sets)


def _owners(trees: TreeModel, width: int) -> NDArray[np.intp]:
    """Return which of the record's columns feeds each seen one."""
    uses = trees.before.columns.uses
    asked = np.unique(trees.feature[trees.left != LEAF])
    if (uses[asked].sum(axis=1) > 1).any():
        raise Unsupported("a step mixes several columns, so that a tree's turn depends on all of them")
    return np.where(uses.any(axis=1), np.argmax(uses, axis=1), 0)


def _seen(trees: TreeModel, columns: Indices, position: int, grid: Grid, through: ShortCuts) -> NDArray[Any]:
    """Return what trees see in some of their columns at all places of a record's, shape ``(columns, places)``."""
    if trees.before.steps:
        handed = through(position, grid.values)[:, columns]
    else:
        handed = np.repeat(np.asarray(grid.values, dtype=np.float64)[:, np.newaxis], len(columns), axis=1)
    return np.ascontiguousarray(trees.seen(np.asarray(handed, dtype=np.float64)).T)


def _changes(trees: TreeModel, nodes: Indices, seen: NDArray[Any], at: Indices) -> Indices:
    """Return how many places, counted from the first, go the way that small ones go; turns change once."""
    low, high = np.zeros(len(nodes), dtype=np.int64), np.full(len(nodes), seen.shape[1])
    rises = seen[at, 0] <= seen[at, -1]
    while (low < high).any():
        middle = np.minimum((low + high) // 2, seen.shape[1] - 1)
        before = trees.turns(seen[at, middle], nodes) == rises
        low, high = np.where(before & (low < high), middle + 1, low), np.where(before, high, np.minimum(high, middle))
    return low


def _tables(
    trees: TreeModel, grids: Sequence[Grid], place: NDArray[np.intp], threshold: Indices, swapped: Bools,
    sets: dict[int, tuple[int, ...]],
) -> Trees:  # fmt: skip
    leaf = trees.left == LEAF
    left, right = np.where(swapped, trees.right, trees.left), np.where(swapped, trees.left, trees.right)
    values = trees.values if trees.values.shape[1] > 1 else np.hstack([np.zeros_like(trees.values), trees.values])
    offset = trees.offset if trees.values.shape[1] > 1 else np.concatenate([[0.0], trees.offset])
    values = np.where(leaf[:, np.newaxis], values, 0.0)
    values[leaf & (np.arange(len(leaf)) < _end_of_first(trees))] += offset  # what every record starts from
    largest = float(np.abs(values).max()) * len(trees.roots) + 1
    bits = min(FINEST, int(np.log2(EXACT / 2 / largest)))
    order = _parents_first(left, right, trees.roots)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    feature = np.where(leaf, LEAF, place[np.where(leaf, 0, trees.feature)])
    return Trees(
        tuple(grid.input for grid in grids),
        feature[order].astype(np.int64),
        np.where(leaf, LEAF, rank[np.where(leaf, 0, left)])[order],
        np.where(leaf, LEAF, rank[np.where(leaf, 0, right)])[order],
        threshold[order],
        {int(rank[node]): words for node, words in sets.items()},
        rank[trees.roots].astype(np.int64),
        np.rint(values[order] * 2.0**bits).astype(np.int64),
        values.shape[1],
    )


def _end_of_first(trees: TreeModel) -> int:
    """Return where the nodes of the first tree end."""
    return int(trees.roots[1]) if len(trees.roots) > 1 else len(trees.feature)


def _parents_first(left: Indices, right: Indices, roots: Indices) -> Indices:
    """Return all reachable nodes, level by level."""
    found, level = [], np.asarray(roots, dtype=np.int64)
    while level.size:
        found.append(level)
        inner = level[left[level] != LEAF]
        level = np.concatenate([left[inner], right[inner]])
    return np.concatenate(found)
