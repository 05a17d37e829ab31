"""The radius of a sum of trees as it was searched before: boxes of cells in the order of where they begin.

What is needed of it, under a deadline: it had none, and gave what it had proven after so many boxes.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from epsworth.classifiers.pipeline import ShortCuts
from epsworth.classifiers.structure import read_trees
from epsworth.utility.engines.trees import Leaves, Sweep
from epsworth.utility.radius.question import RadiusQuestion, ask
from epsworth.utility.radius.sampled import nearest_flip
from epsworth.utility.radius.trees import _certain, _given, _leads, _sizes_below, _slack, nearest, reachable_leaves

BATCH = 32


def radius_within(model: Any, x: np.ndarray, *, norm: float, seconds: float) -> tuple[float, float]:
    """Return the bracket after so many seconds, all of the reading and the first flip included."""
    ends = time.perf_counter() + seconds
    asked = ask(model, x, norm=norm, features=None)
    read = read_trees(asked.classifier.inside)
    here = _given(asked, read, dict(zip(asked.positions, asked.point[:, np.newaxis], strict=True)))
    sweep = Sweep.over(read, asked.positions, ShortCuts(read.before, asked.records, {}))
    leaves = reachable_leaves(sweep, here, read)
    added, start = _leads(asked, read, read.values[leaves.node])
    return _searched(asked, leaves, added, start + _slack(leaves, added, read.tie), ends)


def _searched(asked: RadiusQuestion, leaves: Leaves, added: Any, offset: Any, ends: float) -> tuple[float, float]:
    best = nearest_flip(asked, np.random.default_rng(0))
    away = _sizes_below(asked, nearest(leaves.edges, asked.point, leaves.low.T, leaves.high.T))
    certain = _certain(leaves, added, offset, away)
    low = np.zeros((1, len(leaves.edges)), dtype=np.intp)
    high = np.array([[len(e) for e in leaves.edges]], dtype=np.intp)
    distance = np.zeros(1)
    while distance.size and time.perf_counter() < ends:
        count = min(BATCH, distance.size)
        order = np.argpartition(distance, count - 1)
        now, later = order[:count], order[count:]
        a, b = _halved(low[now], high[now])
        points = nearest(leaves.edges, asked.point, a, b)
        near = _sizes_below(asked, points)
        kept = near < (math.inf if best is None else best.distance)
        kept[kept] = _may_flip(leaves, added, offset, a[kept], b[kept])
        a, b, near, points = a[kept], b[kept], near[kept], points[kept]
        single = (a == b).all(axis=1)
        found = asked.nearest(points[single])
        if found is not None and (best is None or found.distance < best.distance):
            best = found
        low, high = np.concatenate([low[later], a[~single]]), np.concatenate([high[later], b[~single]])
        distance = np.concatenate([distance[later], near[~single]])
    upper = math.inf if best is None else best.distance
    return min(max(float(distance.min(initial=math.inf)), certain), upper), upper


def _may_flip(leaves: Leaves, added: Any, offset: Any, low: Any, high: Any) -> Any:
    meets = np.ones((len(low), len(added)), dtype=bool)
    for j in range(low.shape[1]):
        meets &= (leaves.low[j] <= high[:, j, np.newaxis]) & (leaves.high[j] >= low[:, j, np.newaxis])
    may = np.zeros(len(low), dtype=bool)
    for rival, start in zip(added.T, offset, strict=True):
        best = np.maximum.reduceat(np.where(meets, rival, -np.inf), leaves.starts, axis=1) if len(low) else meets
        may |= best.sum(axis=1) + start >= 0
    return may


def _halved(low: Any, high: Any) -> tuple[Any, Any]:
    rows, axis = np.arange(len(low)), (high - low).argmax(axis=1)
    middle = (low[rows, axis] + high[rows, axis]) // 2
    several = high[rows, axis] > low[rows, axis]
    left_high, right_low = high.copy(), low.copy()
    left_high[rows, axis] = middle
    right_low[rows, axis] = middle + 1
    return np.concatenate([low, right_low[several]]), np.concatenate([left_high, high[several]])
