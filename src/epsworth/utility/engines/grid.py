"""Exact stability of any classifier for mechanisms whose outputs lie on a public grid: ask about all of it once."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator

import numpy as np

from epsworth.arrays import Floats
from epsworth.records import Indices
from epsworth.utility.engines.cells import cells_for
from epsworth.utility.engines.contraction import LawsOverEpsilon, Table, agreement, mass_error, merged, outward
from epsworth.utility.engines.engine import BATCH, ByRecord, RecordResult, Settings, target_labels
from epsworth.utility.engines.linear import linear_for
from epsworth.utility.question import Question

MOST_POINTS = 2_000_000  # of one record's grid
CHEAP_GRID = 2_000_000  # queries over all records up to which a grid is asked even where cells are known
MOST_KEPT = 8_000_000  # cells of the tables that a process keeps
FINEST = 1_024  # values of one feature up to which a grid is asked even where cells, or sums, are known
LARGEST_GRID = 50_000_000  # queries over all records beyond which sampling is the better bargain


def grid_sizes(question: Question, m: int) -> tuple[int, ...] | None:
    """Return the grid of mechanism m per sensitive feature, or None where an output is continuous or grids differ."""
    sizes = {tuple([mechanism.points for mechanism in release.mechanisms]) for release in question.releases[m]}
    found = sizes.pop()
    return None if sizes or None in found else found  # type: ignore[return-value]


class Grid(ByRecord):
    """Asks about every output that a mechanism can have: exact for any classifier."""

    name, slow = "grid", True
    remedy = "use quantise=k with a smaller k, or method='auto'"

    def unsupported_reason(self, question: Question, m: int) -> str | None:
        """Refuse continuous outputs and large grids."""
        sizes = grid_sizes(question, m)
        small = sizes is not None and math.prod(sizes) <= MOST_POINTS
        return None if small else f"its outputs are continuous or its grid exceeds {MOST_POINTS} points"

    def worthwhile(self, question: Question, m: int) -> bool:
        """Tell whether all decision tables, one per set of public features, cost less than what else there is."""
        sizes = grid_sizes(question, m) or ()
        queries = math.prod(sizes) * len(question.read(_same_public))
        if question.readable(cells_for):
            return queries <= CHEAP_GRID and max(sizes) <= FINEST
        linear = max(sizes) > FINEST and question.readable(linear_for)
        return queries <= LARGEST_GRID and not (linear and len(question.read(linear_for).weights) == 1)

    def explain(self, question: Question, m: int) -> str:
        """Name the grid."""
        return f"outputs lie on a grid of {' x '.join(map(str, grid_sizes(question, m) or ()))} points"

    def group_key(self, question: Question, m: int) -> Hashable:
        """Answer mechanisms of one grid together."""
        return grid_sizes(question, m)

    def record_results(self, question: Question, settings: Settings) -> Iterator[RecordResult]:
        """Yield exact bounds for mechanisms that share their grid: one query per grid point and public record."""
        sizes, m = grid_sizes(question, 0) or (), question.shape[0]
        laws, every = LawsOverEpsilon(question), [np.arange(k + 1) for k in sizes]
        for group, table, new in _tables(question, sizes):
            edges, labels = merged(every, table.labels)  # runs of values between which no label changes
            runs, own = [_ends(edge, k) for edge, k in zip(edges, sizes, strict=True)], Table(labels, table.kinds)
            error = mass_error(sum(labels.shape))
            left = group[slice(*np.searchsorted(group, [question.left.start, question.left.stop]))]
            for record in left.tolist():
                masses = [
                    np.concatenate([laws.runs(i, j, question.unit[record, j], *ends) for i in range(m)])
                    for j, ends in enumerate(runs)
                ]
                shares = agreement(own, target_labels(question, record), masses)
                possible = len(set(table.kinds.tolist()) | {question.labels[record]})
                asked = table.labels.size if new and record == left[0] else 0
                yield RecordResult(record, [outward(share, error) for share in shares], possible, asked)


def _ends(edges: Indices, k: int) -> tuple[Floats, Floats]:
    """Return the first and the last value of every run on the unit scale."""
    return edges[:-1] / (k - 1), (edges[1:] - 1) / (k - 1)


def _same_public(question: Question) -> list[Indices]:
    """Group the records whose public features coincide: they share a decision table."""
    public = [c for c in range(len(question.records.names)) if c not in question.positions]
    columns = [question.records.column(c).tolist() for c in public]
    groups: dict[tuple[object, ...], list[int]] = {}
    for record in range(len(question.records)):
        groups.setdefault(tuple(column[record] for column in columns), []).append(record)
    return [np.array(group) for group in groups.values()]


def _group_of(question: Question) -> Indices:
    """Return the number of every record's group."""
    found = np.empty(len(question.records), dtype=np.intp)
    for number, group in enumerate(question.read(_same_public)):
        found[group] = number
    return found


class _Known:
    """Tables that a process has asked about already, as far as they are small: other pieces need them again."""

    def __init__(self, question: Question) -> None:
        self.tables: dict[tuple[tuple[int, ...], int], Table] = {}
        self.cells = 0

    def keep(self, sizes: tuple[int, ...], number: int, table: Table) -> None:
        if self.cells + table.labels.size <= MOST_KEPT:
            self.tables[sizes, number] = table
            self.cells += table.labels.size


def _tables(question: Question, sizes: tuple[int, ...]) -> Iterator[tuple[Indices, Table, bool]]:
    """Yield every group that is asked about with its decision table, and whether that is new."""
    groups, known = question.read(_same_public), question.read(_Known)
    numbers = np.unique(question.read(_group_of)[question.left]).tolist()
    for number in numbers:
        if (sizes, number) in known.tables:
            yield groups[number], known.tables[sizes, number], False
    missing = [number for number in numbers if (sizes, number) not in known.tables]
    asked = _asked(question, sizes, [groups[number] for number in missing])
    for number, (group, table) in zip(missing, asked, strict=True):
        if question.stop is not None:
            known.keep(sizes, number, table)
        yield group, table, True


def _asked(question: Question, sizes: tuple[int, ...], groups: list[Indices]) -> Iterator[tuple[Indices, Table]]:
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
