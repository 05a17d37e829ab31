"""Sensitive categories beside numbers: an engine that reads ranges alone is asked once per combination of categories.

Features are released independently, so for a label of a record and all combinations c of its categories

    rho = sum over c of Pr[c] rho_c,

where rho_c is how often the *record's* label is answered while its categories are held at c and its numbers move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.reading import Unsupported
from epsworth.records import as_records
from epsworth.utility.engines.contraction import LawsOverEpsilon, mass_error, widened
from epsworth.utility.labels import answer
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds

Counts = NDArray[np.int64]

MOST_COMBINATIONS = 4_096  # of categories, per record
MOST_ROWS = 50_000  # records times combinations


@dataclass(frozen=True, eq=False)
class ByCategory:
    """A question about the numbers alone, with every record once per combination of the categories.

    Attributes
    ----------
    asked : Problem
        ``combinations`` rows per record, in the order of C; each of them is asked for its record's own labels.
    moving, held : tuple of int
        Which sensitive features are numbers, and which are categories.
    levels : tuple of int
        How many categories each of ``held`` has.
    kinds : ndarray of int, shape ``(records,)``
        Labels that the classifier gives a record's combinations while its numbers stay.
    """

    asked: Problem
    moving: tuple[int, ...]
    held: tuple[int, ...]
    levels: tuple[int, ...]
    kinds: Counts

    @property
    def combinations(self) -> int:
        """How many rows a record has become."""
        return math.prod(self.levels)

    def about(self, problem: Problem) -> Problem:
        """Return the question about the mechanisms of another one: what is released of the numbers."""
        releases = tuple(
            tuple(replace(r, mechanisms=tuple(r.mechanisms[j] for j in self.moving)) for r in row)
            for row in problem.releases
        )
        return replace(self.asked, names=problem.names, epsilons=problem.epsilons, releases=releases)

    def mixed(self, problem: Problem, bounds: Bounds) -> Bounds:
        """Mix the bounds on every combination by their probabilities; what is certain whatever is sent stays so.

        The probabilities are off as those of a product partition are (see `mass_error`); a sum of c products, in any
        order, adds c units.
        """
        (m, e, _), n = problem.shape, len(problem.left)
        sides = [side.reshape(m, e, n, self.combinations) for side in (bounds.lower, bounds.upper)]
        error, laws = mass_error(sum(self.levels) + self.combinations), LawsOverEpsilon(problem)
        lower, upper = np.empty((2, m, e, n))
        for record in range(n):
            weights = self._weights(problem, laws, problem.start + record)
            low, high = (side[:, :, record] for side in sides)
            found = widened((weights * low).sum(axis=-1), (weights * high).sum(axis=-1), error)
            lower[..., record] = np.where((low == 1).all(axis=-1), 1.0, found.lower)
            upper[..., record] = np.where((high == 0).all(axis=-1), 0.0, found.upper)
        return Bounds(lower, upper)

    def _weights(self, problem: Problem, laws: LawsOverEpsilon, record: int) -> Floats:
        """Return the probabilities of a record's combinations, shape ``(mechanisms, epsilons, combinations)``."""
        m, e, _ = problem.shape
        found = np.ones((m, e, 1))
        for j, k in zip(self.held, self.levels, strict=True):
            x, grid = problem.unit[record, j], np.arange(k) / (k - 1)
            own = np.stack([laws.runs(i, j, x, grid, grid) for i in range(m)])
            found = (found[..., np.newaxis] * own[:, :, np.newaxis]).reshape(m, e, -1)
        return found

    def some(self, rows: Bools) -> Bools:
        """Tell of which records some combination is marked, shape ``(mechanisms, records)``."""
        return np.asarray(rows.reshape(len(rows), -1, self.combinations).any(axis=-1))

    def possible(self, problem: Problem, counts: Counts) -> Counts:
        """Return how many labels can occur, at least: within a combination, or among them."""
        return np.asarray(np.maximum(counts.reshape(-1, self.combinations).max(axis=1), self.kinds[problem.left]))


def by_category(problem: Problem) -> ByCategory | None:
    """Return the question about the numbers alone; None where not both numbers and categories are sensitive."""
    held = tuple(j for j, feature in enumerate(problem.features) if feature.categories is not None)
    moving = tuple(j for j in range(len(problem.features)) if j not in held)
    if not held or not moving:
        return None
    levels = tuple(len(problem.features[j].categories or ()) for j in held)
    count, n = math.prod(levels), len(problem.records)
    if count > MOST_COMBINATIONS or count * n > MOST_ROWS:
        raise Unsupported(
            f"the sensitive categories have {count} combinations for each of {n} records, and at most "
            f"{MOST_COMBINATIONS} for a record and {MOST_ROWS} in all are gone through: give fewer records"
        )
    rows, at = np.repeat(np.arange(n), count), np.unravel_index(np.tile(np.arange(count), n), levels)
    units = [i / (k - 1) for i, k in zip(at, levels, strict=True)]
    values = {problem.positions[j]: problem.features[j].from_unit(u) for j, u in zip(held, units, strict=True)}
    records = as_records(problem.records.take(rows, values), features=problem.records.names)
    records = records.releasing(problem.records.words)
    labels = answer(problem.classifier, records, np.arange(len(rows)))
    asked = replace(
        problem,
        records=records,
        positions=tuple(problem.positions[j] for j in moving),
        features=tuple(problem.features[j] for j in moving),
        unit=problem.unit[rows][:, moving],
        labels=problem.labels[rows],
        y=None if problem.y is None else problem.y[rows],
        readings={},
        answered=labels,
    )
    kinds = np.array([len(set(row)) for row in labels.reshape(n, count).tolist()], dtype=np.int64)
    return ByCategory(asked, moving, held, levels, kinds)
