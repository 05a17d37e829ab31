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
from epsworth.utility.problem import Problem

MOST_POINTS = 2_000_000  # of one record's grid
CHEAP_GRID = 2_000_000  # queries over all records up to which a grid is asked even where cells are known
MOST_KEPT = 8_000_000  # cells of the tables that a process keeps
FINEST = 1_024  # values of one feature up to which a grid is asked even where cells, or sums, are known
LARGEST_GRID = 50_000_000  # queries over all records beyond which sampling is the better bargain


def grid_sizes(problem: Problem, m: int) -> tuple[int, ...] | None:
    """Return the grid of mechanism m per sensitive feature, or None where an output is continuous or grids differ."""
    sizes = {tuple([mechanism.points for mechanism in release.mechanisms]) for release in problem.releases[m]}
    result = sizes.pop()
    return None if sizes or None in result else result  # type: ignore[return-value]


class Grid(ByRecord):
    """Asks about every output that a mechanism can have: exact for any classifier."""

    name, slow = "grid", True
    remedy = "use quantise=k with a smaller k, or method='auto'"

    def unsupported_reason(self, problem: Problem, m: int) -> str | None:
        """Refuse continuous outputs and large grids."""
        sizes = grid_sizes(problem, m)
        small = sizes is not None and math.prod(sizes) <= MOST_POINTS
        return None if small else f"its outputs are continuous or its grid exceeds {MOST_POINTS} points"

    def worthwhile(self, problem: Problem, m: int) -> bool:
        """Tell whether all decision tables, one per set of public features, cost less than what else there is."""
        sizes = grid_sizes(problem, m) or ()
        queries = math.prod(sizes) * len(problem.read(_same_public))
        if problem.readable(cells_for):
            return queries <= CHEAP_GRID and max(sizes) <= FINEST
        linear = max(sizes) > FINEST and problem.readable(linear_for)
        return queries <= LARGEST_GRID and not (linear and len(problem.read(linear_for).weights) == 1)

    def explain(self, problem: Problem, m: int) -> str:
        """Name the grid."""
        return f"outputs lie on a grid of {' x '.join(map(str, grid_sizes(problem, m) or ()))} points"

    def group_key(self, problem: Problem, m: int) -> Hashable:
        """Answer mechanisms of one grid together."""
        return grid_sizes(problem, m)

    def record_results(self, problem: Problem, settings: Settings) -> Iterator[RecordResult]:
        """Yield exact bounds for mechanisms that share their grid: one query per grid point and public record."""
        sizes, m = grid_sizes(problem, 0) or (), problem.shape[0]
        laws, every = LawsOverEpsilon(problem), [np.arange(k + 1) for k in sizes]
        for group, table, new in _tables(problem, sizes):
            edges, labels = merged(every, table.labels)  # runs of values between which no label changes
            runs, own = [_ends(edge, k) for edge, k in zip(edges, sizes, strict=True)], Table(labels, table.kinds)
            error = mass_error(sum(labels.shape))
            left = group[slice(*np.searchsorted(group, [problem.left.start, problem.left.stop]))]
            for record in left.tolist():
                masses = [
                    np.concatenate([laws.runs(i, j, problem.unit[record, j], *ends) for i in range(m)])
                    for j, ends in enumerate(runs)
                ]
                shares = agreement(own, target_labels(problem, record), masses)
                possible = len(set(table.kinds.tolist()) | {problem.labels[record]})
                asked = table.labels.size if new and record == left[0] else 0
                yield RecordResult(record, [outward(share, error) for share in shares], possible, asked)


def _ends(edges: Indices, k: int) -> tuple[Floats, Floats]:
    """Return the first and the last value of every run on the unit scale."""
    return edges[:-1] / (k - 1), (edges[1:] - 1) / (k - 1)


def _same_public(problem: Problem) -> list[Indices]:
    """Group the records whose public features coincide: they share a decision table."""
    public = [c for c in range(len(problem.records.names)) if c not in problem.positions]
    columns = [problem.records.column(c).tolist() for c in public]
    groups: dict[tuple[object, ...], list[int]] = {}
    for record in range(len(problem.records)):
        groups.setdefault(tuple(column[record] for column in columns), []).append(record)
    return [np.array(group) for group in groups.values()]


def _group_of(problem: Problem) -> Indices:
    """Return the number of every record's group."""
    result = np.empty(len(problem.records), dtype=np.intp)
    for number, group in enumerate(problem.read(_same_public)):
        result[group] = number
    return result


class _Known:
    """Tables that a process has asked about already, as far as they are small: other pieces need them again."""

    def __init__(self, problem: Problem) -> None:
        self.tables: dict[tuple[tuple[int, ...], int], Table] = {}
        self.cells = 0

    def keep(self, sizes: tuple[int, ...], number: int, table: Table) -> None:
        if self.cells + table.labels.size <= MOST_KEPT:
            self.tables[sizes, number] = table
            self.cells += table.labels.size


def _tables(problem: Problem, sizes: tuple[int, ...]) -> Iterator[tuple[Indices, Table, bool]]:
    """Yield every group that is asked about with its decision table, and whether that is new."""
    groups, known = problem.read(_same_public), problem.read(_Known)
    numbers = np.unique(problem.read(_group_of)[problem.left]).tolist()
    for number in numbers:
        if (sizes, number) in known.tables:
            yield groups[number], known.tables[sizes, number], False
    missing = [number for number in numbers if (sizes, number) not in known.tables]
    asked = _asked(problem, sizes, [groups[number] for number in missing])
    for number, (group, table) in zip(missing, asked, strict=True):
        if problem.stop is not None:
            known.keep(sizes, number, table)
        yield group, table, True


def _asked(problem: Problem, sizes: tuple[int, ...], groups: list[Indices]) -> Iterator[tuple[Indices, Table]]:
    """Yield the decision table of every group, asking about as many grids at once as a batch holds."""
    size = int(np.prod(sizes))
    index = np.unravel_index(np.arange(size), sizes)
    natural = [
        feature.from_unit(np.arange(k) / (k - 1), points=k)[i]
        for feature, k, i in zip(problem.features, sizes, index, strict=True)
    ]
    together = max(1, BATCH // size)
    for start in range(0, len(groups), together):
        part = groups[start : start + together]
        rows = np.repeat([group[0] for group in part], size)
        labels = np.concatenate(
            [
                problem.ask(rows[at : at + BATCH], [np.tile(v, len(part))[at : at + BATCH] for v in natural])
                for at in range(0, rows.size, BATCH)
            ]
        )
        for group, own in zip(part, labels.reshape(len(part), *sizes), strict=True):
            kinds, codes = np.unique(own, return_inverse=True)
            yield group, Table(codes.reshape(sizes), kinds)
