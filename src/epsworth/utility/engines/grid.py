"""Exact stability of any classifier for mechanisms whose outputs lie on a public grid: ask about all of it once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from epsworth.records import Indices
from epsworth.utility.curves import Bounds
from epsworth.utility.engines.contraction import LawsOverEpsilon, Table, agreement, mass_error, outward
from epsworth.utility.engines.sampled import BATCH, Answer, Progress
from epsworth.utility.question import Question

MOST_POINTS = 2_000_000  # of one record's grid


def grid_sizes(question: Question, m: int) -> tuple[int, ...] | None:
    """Return the grid of mechanism m per sensitive feature, or None where an output is continuous or grids differ."""
    sizes = {tuple(mechanism.points for mechanism in release.mechanisms) for release in question.releases[m]}
    found = sizes.pop()
    return None if sizes or None in found else found  # type: ignore[return-value]


def exact_grid(question: Question, sizes: tuple[int, ...], progress: Progress) -> Answer:
    """Return exact bounds for mechanisms that share the grid ``sizes``; one query per grid point and public record."""
    m, e, n = question.shape
    laws = LawsOverEpsilon(question)
    grids = [np.arange(k) / (k - 1) for k in sizes]
    stability, accuracy = np.empty((m, e, n)), np.empty((m, e, n))
    possible, queries = np.empty(n, dtype=np.int64), 0
    groups = _same_public(question)
    for group, table in _tables(question, sizes, groups):
        queries += table.labels.size
        for record in group:
            masses = [
                np.concatenate([laws.points(i, j, question.unit[record, j], grid) for i in range(m)])
                for j, grid in enumerate(grids)
            ]
            own, right = agreement(question, record, table, masses)
            stability[:, :, record], accuracy[:, :, record] = own.reshape(m, e), right.reshape(m, e)
            possible[record] = len(set(table.kinds.tolist()) | {question.labels[record]})
        progress(min(1.0, queries / (len(groups) * table.labels.size)))
    error = mass_error(sum(sizes))
    exact = None if question.y is None else Bounds(*outward(accuracy, error))
    return Answer(Bounds(*outward(stability, error)), exact, possible, queries)


def _same_public(question: Question) -> list[Indices]:
    """Group the records whose public features coincide: they share a decision table."""
    public = [c for c in range(len(question.records.names)) if c not in question.positions]
    columns = [question.records.column(c).tolist() for c in public]
    groups: dict[tuple[object, ...], list[int]] = {}
    for record in range(len(question.records)):
        groups.setdefault(tuple(column[record] for column in columns), []).append(record)
    return [np.array(group) for group in groups.values()]


def count_groups(question: Question) -> int:
    """Return how many decision tables the question needs."""
    return len(_same_public(question))


def _tables(question: Question, sizes: tuple[int, ...], groups: list[Indices]) -> Iterator[tuple[Indices, Table]]:
    """Yield the decision table of every group, asking about as many grids at once as a batch holds."""
    size = int(np.prod(sizes))
    index = np.unravel_index(np.arange(size), sizes)
    natural = [
        feature.from_unit(np.arange(k) / (k - 1), points=k)[i]
        for feature, k, i in zip(question.features, sizes, index, strict=True)
    ]
    together = max(1, BATCH // size)
    for start in range(0, len(groups), together):
        part = groups[start : start + together]
        rows = np.repeat([group[0] for group in part], size)
        labels = np.concatenate(
            [
                question.ask(rows[at : at + BATCH], [np.tile(v, len(part))[at : at + BATCH] for v in natural])
                for at in range(0, rows.size, BATCH)
            ]
        )
        for group, own in zip(part, labels.reshape(len(part), *sizes), strict=True):
            kinds, codes = np.unique(own, return_inverse=True)
            yield group, Table(codes.reshape(sizes), kinds)
