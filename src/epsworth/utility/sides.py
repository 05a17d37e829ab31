"""Sides of a box in natural units: rounded inwards wherever they are changed, cast, converted or printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.rounding import show_down, show_up
from epsworth.space import Feature
from epsworth.utility.problem import Problem

EPS = float(np.finfo(float).eps)
PULLS = 80  # doublings of a step of one ulp: more than any range holds
LOST = 1e-3  # share of a side that printing may cost; more digits are printed where six would cost more

Probes = Callable[[Floats], Floats]
"""From ends, shape ``(s, 2)``, to points of the box that must keep the label, shape ``(n, s)``."""


def texts(low: float, high: float) -> tuple[str, str]:
    """Print both ends, rounded inwards: what is printed lies inside.

    Examples
    --------
    >>> texts(40.0000019, 100.0), texts(1e6, 1e6 + 0.01)
    (('40.0001', '100'), ('1000000', '1000000.01'))
    """
    close = LOST * (high - low)
    for digits in range(6, 18):
        shown = show_up(low, digits), show_down(high, digits)
        if float(shown[0]) - low <= close and high - float(shown[1]) <= close:
            break
    return shown


def place(problem: Problem) -> Floats:
    """Return the first record's own values of the sensitive features."""
    return np.array([float(problem.records.column(p)[0]) for p in problem.positions])


def inward(problem: Problem, ends: Floats) -> Floats:
    """Round ends inwards to the numbers that the table's own columns hold, declared ends excepted."""
    found = ends.copy()
    for j, (feature, dtype) in enumerate(zip(problem.features, _dtypes(problem), strict=True)):
        if ends[j, 0] > feature.lower:
            found[j, 0] = _rounded(ends[j, 0], dtype, np.inf)
        if ends[j, 1] < feature.upper:
            found[j, 1] = _rounded(ends[j, 1], dtype, -np.inf)
    return found


def _rounded(value: float, dtype: np.dtype[np.floating], towards: float) -> float:
    near = dtype.type(value)
    beyond = float(near) < value if towards > 0 else float(near) > value
    return float(np.nextafter(near, dtype.type(towards)) if beyond else near)


def held(problem: Problem, ends: Floats, probes: Probes) -> Floats | None:
    """Pull ends in until the classifier itself keeps the label at every probe, None where it never does.

    It is asked in double precision, as the engines ask, and in the table's own precision.
    """
    x, label = place(problem), problem.labels[0]
    for pull in range(PULLS):
        ends = inward(problem, ends)
        ends = np.column_stack([np.minimum(ends[:, 0], x), np.maximum(ends[:, 1], x)])
        points = probes(ends)
        failing = points[~_keeps(problem, points, label)]
        if not len(failing):
            return ends
        at = np.stack([(failing == ends[:, side]).any(axis=0) for side in (0, 1)], axis=1)
        if not at.any() or (ends[at] == np.column_stack([x, x])[at]).all():
            return None  # inside, or at the record itself
        rows = zip(ends, x.tolist(), _dtypes(problem), strict=True)
        unit = np.array([np.spacing(np.abs([*row, v]).max().astype(d)) for row, v, d in rows])
        step = 2.0**pull * unit
        low, high = np.minimum(ends[:, 0] + step, x), np.maximum(ends[:, 1] - step, x)
        ends = np.where(at, np.column_stack([low, high]), ends)
    return None


def unit_sides(features: Sequence[Feature], ends: Floats) -> Floats:
    """Convert ends to the unit scale; they move in by the rounding of both conversions, but for declared ends."""
    return np.array([_unit_side(feature, *side) for feature, side in zip(features, ends.tolist(), strict=True)])


def natural_sides(problem: Problem, box: Floats) -> Floats:
    """Convert a box around the first record from the unit scale; whoever takes the ends checks them (see `held`)."""
    x, ends = place(problem), []
    for j, feature in enumerate(problem.features):
        low, high = (float(end) for end in feature.from_unit(box[j]))
        low = feature.lower if box[j, 0] <= 0 else low
        high = feature.upper if box[j, 1] >= 1 else high
        ends.append([min(low, x[j]), max(high, x[j])])
    return np.array(ends)


def _unit_side(feature: Feature, low: float, high: float) -> tuple[float, float]:
    width = feature.upper - feature.lower
    pad = 4 * EPS * (abs(feature.lower) + abs(feature.upper)) / width  # of both conversions, and a spare
    a, b = ((end - feature.lower) / width for end in (low, high))
    first = 0.0 if low <= feature.lower else max(a + pad, EPS)
    last = 1.0 if high >= feature.upper else min(b - pad, 1 - EPS)
    return (first, last) if first <= last else (float(np.clip(a, 0, 1)), float(np.clip(a, 0, 1)))


def _dtypes(problem: Problem) -> list[np.dtype[np.floating]]:
    """Return the precision in which the table holds each sensitive feature; double where it holds no floats."""
    found = [problem.records.column(p).dtype for p in problem.positions]
    return [dtype if dtype.kind == "f" else np.dtype(np.float64) for dtype in found]


def _keeps(problem: Problem, points: Floats, label: object) -> Bools:
    first = np.zeros(len(points), dtype=np.intp)
    found = problem.ask(first, list(points.T)) == label
    dtypes = _dtypes(problem)
    if any(dtype != np.float64 for dtype in dtypes):
        own: list[NDArray[np.floating]] = [v.astype(dtype) for v, dtype in zip(points.T, dtypes, strict=True)]
        found = found & (problem.ask(first, own) == label)
    return np.asarray(found, dtype=bool)
