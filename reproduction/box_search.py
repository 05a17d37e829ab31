"""The published box search (Zheng & Hu 2025, sections 4.2, 5.1), for comparison: a heuristic, not a bound.

Radius by bisection, each side stretched by bisection, every test on n(omega, tau/2) uniform points of the box;
then rho is quoted as the product of the mechanism's masses of the sides.  It over-claims where the classifier
is wrong on a small part of the box on which the mechanism puts much mass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.utility.engines.contraction import LawsOverEpsilon
from epsworth.utility.engines.engine import BATCH
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds, with_coin

OMEGA, TAU = 0.05, 0.01
TESTS = 7  # per radius and per side
POINTS = math.ceil(math.log(2 / OMEGA) / (2 * (TAU / 2) ** 2))  # Hoeffding: 73 778


@dataclass(frozen=True)
class Claims:
    """What the search claims, ``(mechanisms, epsilons, records)``, and how many records it asked about."""

    stability: Floats
    queries: int


def claims_of_boxes(model: Any, X: Any, *, rng: int, domain: Any = None, **asked: Any) -> Claims:
    """Search for a box around every record, and quote the masses of its sides as the paper does.

    Parameters
    ----------
    model, X, domain, **asked
        As for `epsworth.stability`: ``sensitive``, ``mechanisms``, ``epsilons``.
    rng : int
        Seed of the points that are tried.
    """
    problem = Problem.of(model, X, domain=domain, y=None, per="feature", **asked)
    if any(not release.mechanisms for row in problem.releases for release in row):
        raise ValueError("the published search knows no label_rr; leave it out")
    random = np.random.default_rng(rng)
    m, e, n = problem.shape
    laws, claim = LawsOverEpsilon(problem), np.empty((m, e, n))
    queries = 0
    for record in range(n):
        box, tried = find_box(problem, record, random)
        queries += tried
        for i in range(m):
            sides = [laws.boxes(i, j, problem.unit[record, j], box[j]) for j in range(len(box))]
            claim[i, :, record] = np.prod(sides, axis=0)
    mixed = with_coin(Bounds(claim, np.ones_like(claim)), problem.reveal, np.ones(n))
    return Claims(mixed.lower, queries)


def find_box(problem: Problem, record: int, rng: np.random.Generator) -> tuple[Floats, int]:
    """Return the published hyperrectangle around a record on the unit scale, and how many queries it took."""
    x, asked = problem.unit[record], 0

    def robust(box: Floats) -> bool:
        nonlocal asked
        failures = 0
        for start in range(0, POINTS, BATCH):
            size = min(BATCH, POINTS - start)
            unit = rng.uniform(box[:, 0], box[:, 1], (size, len(box)))
            values = [feature.from_unit(unit[:, j]) for j, feature in enumerate(problem.features)]
            failures += int((problem.ask(np.full(size, record), values) != problem.labels[record]).sum())
        asked += POINTS
        return failures <= TAU / 2 * POINTS

    def ball(radius: float) -> Floats:
        sides = np.clip(np.column_stack([x - radius, x + radius]), 0, 1)
        return as_floats(sides)

    box = ball(_furthest(lambda radius: robust(ball(radius)), 0.0, 1.0))
    for j, (side, end) in product(range(len(x)), ((0, 0.0), (1, 1.0))):
        at = float(box[j, side])
        box = _stretched(box, j, side, _furthest(partial(_accepts, robust, box, j, side), at, end))
    return box, asked


def _stretched(box: Floats, j: int, side: int, value: float) -> Floats:
    wider = box.copy()
    wider[j, side] = value
    return wider


def _accepts(robust: Callable[[Floats], bool], box: Floats, j: int, side: int, value: float) -> bool:
    return robust(_stretched(box, j, side, value))


def _furthest(accepts: Callable[[float], bool], good: float, goal: float) -> float:
    """Bisect from an accepted value towards a goal, trying the goal itself first; return the last accepted."""
    if good == goal or accepts(goal):
        return goal
    bad = goal
    for _ in range(TESTS - 1):
        middle = 0.5 * (good + bad)
        good, bad = (middle, bad) if accepts(middle) else (good, middle)
    return good
