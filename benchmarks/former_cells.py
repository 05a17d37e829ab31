"""How cells of tree models were bounded before they were swept: a dense table in doubles, every near tie asked."""

from __future__ import annotations

import numpy as np

from epsworth.utility.engines.cells import TreeCells
from epsworth.utility.engines.contraction import LawsOverEpsilon, Table, agreement, merged
from epsworth.utility.engines.trees import sum_of_boxes


def former_draft(builder: TreeCells, record: int) -> tuple[tuple[np.ndarray, ...], np.ndarray, tuple[np.ndarray, ...]]:
    """Return the edges and labels of all cells, and which are near ties, of a model without a rule of its own."""
    model = builder.model
    leaves = builder.sweep.leaves(builder._public_turns(record)).compact()
    edges = tuple(np.concatenate([[-np.inf], e, [np.inf]]) for e in leaves.edges)
    shape = tuple(len(e) - 1 for e in edges)
    scores = sum_of_boxes(shape, leaves.low, leaves.high, model.values[leaves.node])
    scores += model.offset.reshape(-1, *(1,) * len(shape))
    if len(scores) == 1:
        labels, margin = (scores[0] > 0).astype(np.intp), np.abs(scores[0])
    else:
        labels = np.argmax(scores, axis=0)
        best = np.partition(scores, -2, axis=0)[-2:]
        margin = best[1] - best[0]
    return edges, labels, np.nonzero(margin < model.slack)


def former_cells(builder: TreeCells, record: int) -> tuple[tuple[np.ndarray, ...], Table]:
    """Return the edges and the decision table of a record."""
    model, (edges, labels, tied) = builder.model, former_draft(builder, record)
    if tied[0].size:
        values = []
        for edge, at in zip(edges, tied, strict=True):
            left, right = edge[:-1][at], edge[1:][at]
            beyond = np.where(np.isfinite(left), np.nextafter(left, np.inf), 0.0)
            values.append(np.where(np.isfinite(right), right, beyond))
        labels[tied] = model.places(builder.problem.ask(np.full(tied[0].size, record), values))
    edges, labels = merged(edges, labels)
    return edges, Table(labels, model.classes)


def former_shares(builder: TreeCells, laws: LawsOverEpsilon, record: int) -> np.ndarray:
    """Return how often the record's own label stays, for all points."""
    problem, (edges, table) = builder.problem, former_cells(builder, record)
    masses = [
        np.concatenate([laws.masses(i, j, problem.unit[record, j], edge) for i in range(len(problem.names))])
        for j, edge in enumerate(edges)
    ]
    return agreement(table, [problem.labels[record]], masses)[0]
