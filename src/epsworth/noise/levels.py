"""The law of least Renyi divergence within an absolute error: of several releases, the best for some order.

Densities y = e^g are constant on levels, outwards: each ends a whole number of sensitivities beyond theta.  Of outputs
a sensitivity apart, lengths e_k compare levels k and k + 1, once in either order, and lengths o_k a level with itself.
With order a the law minimises the moment

    sum e_k (y_k^a y_(k+1)^(1-a) + y_(k+1)^a y_k^(1-a)) + sum o_k y_k,

which is convex, with what may fail outside and the rest within; beyond the last level, levels go on geometrically.
Newton's equations in g are those of currents on a path: each is a sum from its outer end, so that far tails are as
exact as the middle.  Of k releases the moment is the k-th power, so that the law of least moment at the order of
Chernoff's bound has the least epsilon but for what that bound gives away; orders are searched by composed epsilons.

What is found is a law, whatever the search did: its own exact profile says at which epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.noise.cells import Cells, HalfLine, ProgramError
from epsworth.noise.lattice import MOST_POINTS
from epsworth.noise.tuning import least, one_by_one
from epsworth.rounding import UNIT

ORDERS = 1 + np.geomspace(0.03, 3000, 14)  # tried; the best is refined between its neighbours
STEPS = 100  # of Newton's method, for one order
NEAR = 1e-6  # of a step: what the logarithm of neighbours' ratio must change by for another one
ROUNDED = 1e-14  # what roundings may raise the logarithm of the moment by
FLATTEST, STEEPEST = 1e-4, 60.0  # decay of a level beyond the last one


class Moment(NamedTuple):
    """The logarithm of the moment, and the shares of its terms: outwards, inwards, a level with itself, the tail."""

    log: float
    outwards: Floats
    inwards: Floats
    own: Floats
    tail: float


class Levels:
    """Levels of a question, and its laws of least Renyi divergence, order by order.

    ``start`` is the staircase's epsilon: levels fall by it at first; ``lost`` the mass beyond the table, at most.
    """

    def __init__(self, cells: Cells, failing: float, start: float, lost: float) -> None:
        self.cells, self.failing = cells, failing
        count = -(-cells.inside // cells.period) + 3 + math.ceil(max(0.0, math.log(failing / lost)) / start)
        if 2 * count * cells.period > MOST_POINTS:
            raise ProgramError(
                f"the best noise has tails of {count * cells.period} cells, more than {MOST_POINTS // 2}; take another "
                "mechanism"
            )
        self._start, self._found = as_floats(-start * np.arange(count)), dict[float, Floats]()
        n = count * cells.period - -cells.inside % cells.period
        self.of, _, both = cells.sizes(n)  # the level of every cell
        self.width = np.bincount(self.of, both)  # on both sides of zero
        self.within: Bools = np.asarray(np.arange(count) < self.of[cells.inside])
        left, right, length = cells.pairs(n)
        first, second = self.of[left], self.of[right]
        outwards, own = second == first + 1, second == first
        with np.errstate(divide="ignore"):  # logarithms of the lengths that compare levels
            self.edge = np.log(np.bincount(first[outwards], length[outwards], minlength=count)[: count - 1])
            self.own = np.log(np.bincount(first[own], length[own], minlength=count))

    def settled(self, g: Floats) -> tuple[Floats, Floats, float]:
        """Return logarithms of densities that meet the constraint, masses, and the decay beyond the last level."""
        decay = min(max(float(g[-2] - g[-1]), FLATTEST), STEEPEST)
        g = g - np.where(self.within, g[self.within].max(), g[~self.within].max())  # neither part is nothing
        mass = self.width * np.exp(g)
        mass[-1] /= -math.expm1(-decay)
        inside, outside = float(mass[self.within].sum()), float(mass[~self.within].sum())
        change = np.where(self.within, (1 - self.failing) / inside, self.failing / outside)
        return g + np.log(change), as_floats(mass * change), decay

    def moment(self, g: Floats, decay: float, order: float) -> Moment:
        """Return the moment of an order."""
        inner, outer = g[:-1], g[1:]
        outwards = self.edge + order * inner + (1 - order) * outer
        inwards = self.edge + order * outer + (1 - order) * inner
        own = self.own + g
        tail = float(np.logaddexp(-order * decay, (order - 1) * decay) + g[-1]) - math.log(-math.expm1(-decay))
        log = float(logsumexp(np.concatenate([outwards, inwards, own, [tail]])))
        return Moment(log, np.exp(outwards - log), np.exp(inwards - log), np.exp(own - log), math.exp(tail - log))

    def least_moment(self, g: Floats, order: float) -> Floats:
        """Return the logarithms of densities with the least moment, from a start."""
        g, mass, decay = self.settled(g)
        found = self.moment(g, decay, order)
        for _ in range(STEPS):
            step, gain = self._step(found, mass, order)
            size = 1.0
            while True:  # densities grow, or shrink, by a factor of 1 + |step|: never through zero
                tried, masses, slope = self.settled(g + np.sign(step) * np.log1p(np.abs(size * step)))
                reached = self.moment(tried, slope, order)
                if reached.log <= found.log - 1e-4 * size * max(gain, 0.0) + ROUNDED:
                    break
                size /= 2
                if not size > 1e-8:
                    return g
            g, mass, decay, found = tried, masses, slope, reached
            if size == 1 and float(np.abs(np.diff(step)).max()) < NEAR:  # far tails, too
                break
        return g

    def _step(self, at: Moment, mass: Floats, order: float) -> tuple[Floats, float]:
        """Return Newton's step within the constraints, and what it gains to first order."""
        slope = at.own.copy()
        slope[:-1] += order * at.outwards + (1 - order) * at.inwards
        slope[1:] += (1 - order) * at.outwards + order * at.inwards
        slope[-1] += at.tail
        stiff = order * (order - 1) * (at.outwards + at.inwards)
        masses = np.where(self.within, mass, 0.0), np.where(self.within, 0.0, mass)

        def path(force: Floats) -> tuple[Floats, float]:
            """Return the differences that a force brings about, summed outwards, and what it lacks of balance."""
            beyond = np.cumsum(force[::-1])[::-1]
            return np.concatenate([[0.0], np.cumsum(beyond[1:] / stiff)]), float(beyond[0])

        (free, lack), *held = path(-slope), *(path(-part) for part in masses)
        matrix = [[*(float(part @ shape) for shape, _ in held), float(part.sum())] for part in masses]
        matrix.append([*(balance for _, balance in held), 0.0])
        right = [*(-float(part @ free) for part in masses), -lack]
        first, second, offset = np.linalg.solve(np.array(matrix), np.array(right)).tolist()
        step = path(-slope - first * masses[0] - second * masses[1])[0] + offset
        return as_floats(step), -float(slope @ step)

    def law(self, order: float) -> HalfLine:
        """Return the law of least divergence of an order."""
        near = min(self._found, key=lambda known: abs(math.log((known - 1) / (order - 1))), default=None)
        g = self._start if near is None else self._found[near]
        if near != order:
            with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):  # a start is a law, too
                g = self.least_moment(g, order)
            self._found[order] = g
        g, _, decay = self.settled(g)
        return HalfLine.of(self.cells, np.exp(g)[self.of], decay, self.failing)

    def cheapest(self, cost: Callable[[HalfLine], float]) -> HalfLine:
        """Return, of all orders' laws, that of the least cost."""
        return self.law(least(one_by_one(lambda order: cost(self.law(order))), ORDERS, zooms=2, per_zoom=5))

    def floor(self, order: float) -> float:
        """Return a Renyi divergence of this order that no law with falling densities is below."""
        return divergence_floor(self.cells, self.law(order), order, self.failing)


def divergence_floor(cells: Cells, half: HalfLine, order: float, failing: float) -> float:
    """Return a lower bound on the Renyi divergences of all laws with falling densities: a tangent at one of them.

    The moment is convex and homogeneous, so that it is at least its gradient at any densities times those of a law.
    Falling densities are mixtures of uniform ones on the first j cells, with sums S_j of the gradient, masses m_j and
    outside masses o_j: whatever the multiplier u of what may fail, the moment is at least min_j (S_j + u o_j) / m_j -
    u beta.  In the geometric tail the gradient is constant, and the ratio tends to it.
    """
    y, n, period = half.density, half.density.size, cells.period
    _, width, both = cells.sizes(n)
    first, second, length = cells.pairs(n)
    decay = np.log(y[-2 * period : -period] / y[-period:])
    with np.errstate(all="ignore"):
        ratio = y[first] / y[second]
        slope = as_floats(np.bincount(first, length * order * ratio ** (order - 1), minlength=n))
        slope -= np.bincount(second, length * (order - 1) * ratio**order, minlength=n)
        after = order * np.exp((order - 1) * decay) - (order - 1) * np.exp(-order * decay)
        before = order * np.exp((1 - order) * decay) - (order - 1) * np.exp(order * decay)
        slope[-period:] += width[-period:] * after
        far, sums = float(((after + before) / 2).min()), np.cumsum(slope)
    masses = np.cumsum(both)
    outside = np.cumsum(np.where(np.arange(n) < cells.inside, 0.0, both))

    size = max(abs(far), float(np.abs(sums / masses).max()))
    if not math.isfinite(size):  # powers overflow
        return 0.0

    def bound(u: float) -> float:
        """Return the bound at a multiplier, both in sizes."""
        return min(float(((sums / size + u * outside) / masses).min()), far / size + u) - u * failing

    high = 1.0
    while bound(2 * high) > bound(high):
        high *= 2
    ends = (0.0, 2 * high)
    best = minimize_scalar(lambda u: -bound(u), bounds=ends, method="bounded", options={"xatol": 1e-12 * high})
    slack = 8 * (n + order * float(np.abs(np.log(ratio)).max()) + 16) * UNIT  # of sums of powers, in sizes
    proved = size * (bound(float(best.x)) - slack)
    return math.log(proved) / (order - 1) if proved > 1 else 0.0
