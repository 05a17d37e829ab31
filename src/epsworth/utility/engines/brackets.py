"""What the engines that bracket have in common: mechanism by mechanism, the laws of all epsilons at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.mechanisms import Mechanism
from epsworth.mechanisms.law import Law
from epsworth.utility.engines.contraction import aligned, stays_in_range
from epsworth.utility.engines.engine import records_of
from epsworth.utility.problem import Problem

Laws = list[Law]
Known = Callable[[int, Any, bool], float | None]
"""From record, label and whether outputs stay in the range to a probability that is 0 or 1 for certain."""
Keeps = Callable[[int, Any, Laws], Interval]
"""From record, label and laws per feature to bounds on how often the label is kept, one per epsilon of the laws."""
Batches = Callable[[list[list[Mechanism]], Floats], list[Laws]]


def batches(features: list[list[Mechanism]], values: Floats) -> list[Laws]:
    """Return the features' laws: one batch for all epsilons, or one per epsilon where they differ by more."""
    return [[one.law(x) for one, x in zip(part, values, strict=True)] for part in zip(*features, strict=True)]


def bracketed(
    problem: Problem, known: Known, keeps: Keeps, laws_of: Batches = batches
) -> Iterator[tuple[int, list[Interval]]]:
    """Yield every record with its bounds, one Interval of shape ``(mechanisms, epsilons)`` per target."""
    _, e, _ = problem.shape
    stacks = [aligned(row, len(problem.features)) for row in problem.releases]
    stays = [stays_in_range(row) for row in problem.releases]
    for record, labels in records_of(problem):
        rows: list[list[Interval]] = [[] for _ in labels]
        for features, within in zip(stacks, stays, strict=True):
            laws = laws_of(features, problem.unit[record])
            for row, label in zip(rows, labels, strict=True):
                sure = known(record, label, within)
                exact = None if sure is None else Interval(*np.full((2, e), sure))
                row.append(exact or _joined([keeps(record, label, batch) for batch in laws], np.concatenate))
        yield record, [_joined(row, np.stack) for row in rows]


def _joined(parts: Sequence[Interval], join: Callable[[Sequence[Floats]], Floats]) -> Interval:
    return Interval(join([part.lower for part in parts]), join([part.upper for part in parts]))
