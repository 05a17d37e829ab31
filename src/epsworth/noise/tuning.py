"""The kernel's scale and boost with the least epsilon under the constraint.

Epsilon as a function of the scale has kinks and can have two minima, one of them at the kernel that needs no boost,
so the search is a grid that is refined around its best point; the unboosted kernel is always among the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
from scipy.special import ndtri

from epsworth.arrays import Bools, Floats, as_floats, slices
from epsworth.noise.lattice import LatticeNoise, Spacing, discrete
from epsworth.noise.mechanism import Boosted, NoiseMechanism, TooLarge
from epsworth.noise.profiles import (
    MARGIN,
    Kernel,
    boost_needed,
    hockey_stick,
    outside,
    pure_loss,
    smallest_epsilon,
    weights,
)
from epsworth.noise.regions import Absolute, Region
from epsworth.search import last_passing

WIDEST = 40.0  # times the scale that needs no boost
FINE, COARSE, SEVERAL = 200, 40, 20  # scales tried: one pair, many pairs, several releases
WIDEST_SEVERAL = 6.0
ZOOMS, PER_ZOOM = 3, 21
BATCH = 400_000  # pairs times scales at once
SEARCH_HALVINGS = 34  # of epsilon while searching: 1e-10
SEARCH_POINTS = 400  # of the composition's grid while searching; the chosen scale is composed on the full one

Noise = TypeVar("Noise", bound=NoiseMechanism)
Objective = Callable[[Floats], Floats]
Cost = Callable[[NoiseMechanism], float]


def plain(kernel: Kernel, region: Region, failure: float, sensitivity: float) -> Boosted:
    """Return the kernel alone, at the scale that just meets the constraint; its profile needs no region."""
    tails = -ndtri(failure / 2) if kernel == "gaussian" else -np.log(failure)
    build = partial(Boosted, kernel, boost=1.0, region=Absolute(region.half), sensitivity=sensitivity)
    return first_kept(build, float(region.half / tails), failure, -1)


def least_boosted(kernel: Kernel, scale: float, region: Region, sensitivity: float, failure: float) -> Boosted:
    """Return the kernel with the smallest boost that is seen to meet the constraint."""
    return with_least_boost(partial(Boosted, kernel, scale, region=region, sensitivity=sensitivity), failure)


def best_boosted(
    kernel: Kernel, region: Region, failure: float, sensitivity: float, delta: float | None, cost: Cost | None = None
) -> Boosted:
    """Return the boosted kernel with the least epsilon (up to the search, about 1e-5) and the smallest boost.

    Without a ``delta``, with the least ``cost``.
    """
    base = plain(kernel, region, failure, sensitivity).scale

    def boosts(scales: Floats) -> Floats:
        return np.where(scales <= base, 1.0, boost_needed(outside(kernel, scales, region), failure))

    def built(scale: float) -> Boosted:
        build = partial(Boosted, kernel, scale, region=region, sensitivity=sensitivity)
        return first_kept(build, float(boosts(as_floats(scale))), failure, +1)

    if delta is None:
        assert cost is not None
        costs = one_by_one(lambda scale: cost(built(scale)))
        return built(least(costs, base * np.geomspace(1, WIDEST_SEVERAL, SEVERAL), zooms=2, per_zoom=7))
    many = region.pairs(sensitivity)[0].size > 1

    def single(scales: Floats) -> Floats:
        return epsilons(kernel, scales, boosts(scales), region, sensitivity, delta)

    grid = base * np.geomspace(1, WIDEST, COARSE if many else FINE)
    return built(least(single, grid, zooms=1 if many else ZOOMS, per_zoom=9 if many else PER_ZOOM))


def best_truncated(kernel: Kernel, region: Region, sensitivity: float, delta: float) -> Boosted:
    """Return the kernel restricted to the region, at the scale with the least epsilon; it may be infinite."""

    def single(scales: Floats) -> Floats:
        return epsilons(kernel, scales, np.full(scales.shape, np.inf), region, sensitivity, delta)

    grid = region.half * np.geomspace(0.01, 3.0, 2 * COARSE)
    return Boosted(kernel, least(single, grid, zooms=ZOOMS, per_zoom=PER_ZOOM), np.inf, region, sensitivity)


def epsilons(
    kernel: Kernel, scales: Floats, boosts: Floats, region: Region, sensitivity: float, delta: float
) -> Floats:
    """Return epsilon at delta for every scale with its boost, over all pairs; vectorised over scales."""
    first, second = region.pairs(sensitivity)

    def of(scale: Floats, boost: Floats) -> Floats:
        cut = weights(kernel, scale, boost, region, first, second)

        def profile(epsilon: Floats) -> Floats:
            return np.asarray(hockey_stick(kernel, scale, cut, epsilon[:, np.newaxis]).max(axis=-1))

        if delta == 0:
            return np.asarray(pure_loss(kernel, scale, cut).max(axis=-1))
        return smallest_epsilon(profile, delta, scale.shape[:1], halvings=SEARCH_HALVINGS)

    batches = slices(scales.size, max(1, BATCH // first.size))
    return np.concatenate([of(scales[part, np.newaxis], boosts[part, np.newaxis]) for part in batches])


def discrete_plain(kernel: Kernel, grid: Spacing, failure: float) -> LatticeNoise:
    """Return the widest discrete law that lands on the preferred points with this confidence."""
    return discrete(kernel, _discrete_scale(kernel, grid, failure), 1.0, grid)


def best_discrete(kernel: Kernel, grid: Spacing, failure: float, cost: Cost, *, slow: bool) -> LatticeNoise:
    """Return the boosted discrete law with the least cost; where that is ``slow``, of fewer scales."""
    base = _discrete_scale(kernel, grid, failure)

    def built(scale: float) -> LatticeNoise:
        build = partial(discrete, kernel, scale, grid=grid)
        return build(1.0) if scale <= base else with_least_boost(build, failure)

    @one_by_one
    def costs(scale: float) -> float:
        try:
            return cost(built(scale))
        except TooLarge:  # a wider law than any table holds: not a candidate
            return math.inf

    scales = base * np.geomspace(1, WIDEST_SEVERAL if slow else WIDEST, SEVERAL if slow else COARSE)
    return built(least(costs, scales, zooms=1 if slow else 2, per_zoom=7))


def _discrete_scale(kernel: Kernel, grid: Spacing, failure: float) -> float:
    low = np.array(grid.step / 60)  # all mass on the middle point

    def kept(scale: Floats) -> Bools:
        return np.asarray(scale <= low or discrete(kernel, float(scale), 1.0, grid).outside <= failure)

    high = np.array(plain(kernel, Absolute((grid.inside + 1) * grid.step / 2), failure, 1.0).scale)
    while kept(high):
        high = 1.25 * high
    return float(last_passing(kept, low, high))


def with_least_boost(build: Callable[[float], Noise], failure: float) -> Noise:
    """Return the noise with the smallest boost that is seen to meet the constraint."""
    return first_kept(build, float(boost_needed(build(1.0).outside, failure)), failure, +1)


def first_kept(build: Callable[[float], Noise], start: float, failure: float, direction: int) -> Noise:
    """Return the first noise seen to meet the constraint, from a start that meets it but for rounding."""
    value, step = start, MARGIN
    while (noise := build(value)).outside > failure:
        value, step = value * (1 + direction * min(step, 0.5)), 2 * step
    return noise


def one_by_one(cost: Callable[[float], float]) -> Objective:
    """Return what gives the costs of an array."""
    return lambda values: np.array([cost(value) for value in values.tolist()])


def least(objective: Objective, grid: Floats, *, zooms: int, per_zoom: int) -> float:
    """Return the best point of a grid, refined between its neighbours; never worse than the grid's first point."""
    values = objective(grid)
    for _ in range(zooms):
        best = int(np.argmin(values))
        around = np.geomspace(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)], per_zoom)
        kept, lowest = grid[best], values[best]
        grid, values = around, objective(around)
        if values.min() > lowest:
            return float(kept)
    return float(grid[np.argmin(values)])
