"""Does a classifier answer as what was read of it says?  Asked before any engine relies on a reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers import Labels
from epsworth.classifiers.reading import adjacent_floats
from epsworth.classifiers.reading import answers_as_read as agrees
from epsworth.records import Indices
from epsworth.utility.problem import Problem

SPREAD = 64  # points over the sensitive ranges, and as many near thresholds
MOST_RECORDS = 256  # of those that are compared as they stand

Reading = Callable[[Indices, list[NDArray[Any]]], tuple[Labels, Bools]]
"""From records and values of their sensitive features (natural units) to labels, and where these are clear."""


def answers_as_read(problem: Problem, read: Reading, near: Sequence[Floats] = ()) -> bool:
    """Tell whether the classifier answers as a reading does, wherever the reading is clear.

    The records themselves, points spread over the sensitive ranges and somewhat beyond, and points beside thresholds.

    Parameters
    ----------
    near : sequence of ndarray
        Per sensitive feature the last values before each threshold, in natural units.
    """
    asked, points = probes(problem, near)
    return agrees(problem.ask(asked, points), *read(asked, points))


def probes(problem: Problem, near: Sequence[Floats] = ()) -> tuple[Indices, list[NDArray[Any]]]:
    """Return the records, and the values of their sensitive features, at which a reading is compared."""
    own = np.arange(min(len(problem.records), MOST_RECORDS))
    rng = np.random.default_rng(0)
    rows = rng.integers(len(problem.records), size=SPREAD)
    values = [f.from_unit(u) for f, u in zip(problem.features, problem.unit[own].T, strict=True)]
    ranges = [_spread(problem, j, rng) for j in range(len(problem.features))]
    groups: list[tuple[Indices, list[NDArray[Any]]]] = [(own, values), (rows, ranges)]
    if any(edges.size for edges in near):
        groups.append((rows, [_beside(e, s, rng) for e, s in zip(near, ranges, strict=True)]))
    asked = np.concatenate([rows for rows, _ in groups])  # at once: forests take their time for each call
    return asked, [np.concatenate([values[j] for _, values in groups]) for j in range(len(problem.features))]


def _spread(problem: Problem, j: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return values over the range of a feature, its ends among them; every fourth from thrice the range."""
    feature, unit = problem.features[j], rng.uniform(size=SPREAD)
    if feature.categories is not None:
        return feature.from_unit(unit)
    unit[::4] = 3 * unit[::4] - 1
    unit[1::16], unit[2::16] = 0, 1
    return feature.from_unit(unit)


def _beside(edges: Floats, others: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Return values on thresholds and right beside them; ``others`` where there are none."""
    finite = edges[np.isfinite(edges)]
    return np.asarray(rng.choice(adjacent_floats(finite), SPREAD)) if finite.size else others
