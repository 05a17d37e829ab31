"""The best noise within an absolute error, for one release or for many, and floors that no noise passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from epsworth.noise.allowed import Confidence, failure, in_decimals, length, share, whole
from epsworth.noise.cells import Cells, HalfLine, ProgramError
from epsworth.noise.curves import FADING, Counted, Curve, Gaussian, tightest
from epsworth.noise.lattice import spacing
from epsworth.noise.levels import ORDERS, Levels
from epsworth.noise.mechanism import FINEST as RESOLVED
from epsworth.noise.mechanism import NoiseMechanism
from epsworth.noise.objective import POINTS, Objective
from epsworth.noise.program import floor, half_line, least_delta, least_epsilon, rate_floor
from epsworth.noise.staircase import best_staircase
from epsworth.noise.tuning import SEARCH_POINTS
from epsworth.results import Result, json_form
from epsworth.rounding import down, show_down, show_up

MOST_PERIODS = 1000  # sensitivities within theta; beyond, the program takes more than seconds
MOST_RELEASES = 1 << 20
LEAST = 1e-3  # of a law's epsilon: below it, tails are very long
SPARE = 1e-9  # of delta: a law that uses all of it may exceed it by a rounding, at every epsilon
LOST = 1e-10  # of a release's share of delta: mass of the tails that is not laid out
FINEST = 1e-6  # stands for such a share where no delta is asked for
MOST_COUNTED = 1000  # releases: more of them cost no less
HIGHEST = 4.0  # log of what may fail times a ratio of densities beyond which no comparison matters
NEAR = 1e-2  # of the staircase's epsilon: how well the one of a true positive rate is searched


@dataclass(frozen=True, eq=False)
class Optimum(Result):
    """The best noise there is for a question, and floors that no noise passes.

    Attributes
    ----------
    noise : NoiseMechanism
        The law; its own exact profile says what it costs.
    cost : float
        What all releases cost together: epsilon, or another objective.
    floor : float
        Additive noise with a density, or with masses on the lattice, that falls on either side of zero, and which
        meets the constraint, costs at least this (in a true positive rate: if it is symmetric, too).  All noises that
        `cheapest` compares are of that kind.  0 where nothing was proved.  For epsilons of several releases with a
        delta, and their advantage, it is for one law that is drawn from independently, and may be loose.
    floor_any : float
        For the epsilon of one release, the same for any additive noise; often equal, but zero where theta is far below
        the sensitivity, since only answers exactly one sensitivity apart are compared.
    delta, releases, objective : float, int, str
        What was asked for.

    Examples
    --------
    >>> from epsworth import noise
    >>> best = noise.optimal_noise(2, confidence=0.9, sensitivity=1, delta=1e-6, lattice=1)  # whole numbers
    >>> round(best.floor, 3), round(best.cost, 3)
    (0.883, 0.883)
    """

    noise: NoiseMechanism
    cost: float
    floor: float
    floor_any: float
    delta: float = 0.0
    releases: int = 1
    objective: str = "epsilon"

    def __str__(self) -> str:
        words = Objective.of(self.objective).said(self.cost)
        words += f" with delta {show_up(self.delta)}" if self.objective == "epsilon" else ""
        words += f" for {self.releases} releases together" if self.releases > 1 else ""
        if self.floor == 0:
            return words
        return f"{words}; no noise whose density falls outwards costs less than {show_down(self.floor)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        return {
            "objective": self.objective, "cost": json_form(self.cost), "delta": self.delta, "releases": self.releases,
            "confidence": self.noise.confidence, "rmse": self.noise.rmse, "floor": self.floor,
            "floor_any": self.floor_any,
        }  # fmt: skip


def optimal_noise(
    theta: float, *, confidence: Confidence, sensitivity: float, delta: float, lattice: float | None = None,
    releases: int = 1, objective: str = "epsilon",
) -> Optimum:  # fmt: skip
    """Return the noise of least cost that stays within ``theta`` with this confidence, and floors.

    One release, epsilon: by a linear program; floor and cost differ by some 1e-8.  Several releases: of the laws of
    least Renyi divergence, one for each order, that whose composed epsilon is least.  Costs are right whatever the
    solvers did, by the law's table, and so are floors, by a dual.

    Parameters
    ----------
    theta, confidence, sensitivity, delta : float
        The question, see `cheapest`, which refuses the same numbers; ``delta`` may be zero.
    lattice : float, optional
        Step of the lattice that true answers lie on (1 for counts): noise lives on it, unless theta reaches farther
        than half a step beyond its last point, where a step density is better.  By default answers are real numbers,
        and the noise has a step density.
    releases : int
        How many answers are released, each under the constraint.
    objective : str
        What is to be small, see `cheapest`.

    Examples
    --------
    >>> from epsworth.noise import optimal_noise
    >>> best = optimal_noise(0.5, confidence=0.9, sensitivity=1.0, delta=0.0)
    >>> round(best.floor, 6), round(best.noise.pure_epsilon, 6)  # the staircase mechanism: ln 19
    (2.944439, 2.944439)
    >>> round(optimal_noise(5, confidence=0.99, sensitivity=1.0, delta=1e-5, releases=100).cost, 1)  # Gaussian: 34.5
    32.6
    """
    theta, sensitivity = length(theta, "theta"), length(sensitivity, "sensitivity")
    allowed, delta = failure(confidence), share(delta, "delta", zero=True)
    releases, wanted = whole(releases, "releases", 1, MOST_RELEASES), Objective.of(objective)
    within, points = in_decimals(theta) / in_decimals(sensitivity), None
    if lattice is not None:
        grid = spacing(theta, sensitivity, length(lattice, "lattice"))
        if within <= Fraction(grid.inside, 2 * grid.shift):
            within, points = Fraction(grid.inside, 2 * grid.shift), (grid.shift, grid.step)
    if within > MOST_PERIODS:
        raise ProgramError(
            f"theta {theta:g} and sensitivity {sensitivity:g} need a program of {float(within):.6g} periods, more than "
            f"{MOST_PERIODS}; take another mechanism"
        )
    search = _Search(within, allowed, delta, releases, wanted, sensitivity, points)
    alone = releases == 1 or delta == 0
    return search.of_one() if alone and wanted.name == "epsilon" else search.of_many()


@dataclass(frozen=True)
class _Search:
    """A question, in sensitivities, and its ways to an answer."""

    within: Fraction
    failing: float
    delta: float
    releases: int
    objective: Objective
    sensitivity: float
    points: tuple[int, float] | None  # of a lattice: steps of a sensitivity, and its step

    @cached_property
    def cells(self) -> Cells:
        return Cells.of(self.within)

    @cached_property
    def start(self) -> float:
        """The staircase's epsilon: no optimum's is above it."""
        return best_staircase(float(self.within), self.failing, 1.0).loss

    def built(self, half: HalfLine) -> NoiseMechanism:
        return half.noise(self.cells, self.sensitivity, self.points)

    def cost(self, noise: NoiseMechanism, points: int = POINTS) -> float:
        return self.objective.cost(noise, self.delta, self.releases, points)

    @property
    def _spent(self) -> float:
        """What a law may use of delta."""
        return self.delta * (1 - SPARE) if self.delta >= RESOLVED else 0.0

    def _least_epsilon(self) -> float:
        """Return the least epsilon of one release."""
        return least_epsilon(self.cells, self.failing, self._spent, self.start)

    def of_one(self) -> Optimum:
        """Return the best noise of one release; without a delta, of many: pure epsilons add up."""
        epsilon = self._least_epsilon()
        noise = self.built(half_line(self.cells, max(epsilon, LEAST), self.failing, self._spent))
        floors = (floor(self.cells, epsilon, self.failing, self.delta, falling=falling) for falling in (True, False))
        return self._found(noise, *(self.releases * found for found in floors))

    def of_many(self) -> Optimum:
        """Return the best of the laws of least Renyi divergence, and of those of programs."""
        each = max(self.delta / self.releases, RESOLVED) if self.objective.name == "epsilon" else FINEST
        orders = Levels(self.cells, self.failing, self.start, LOST * each)
        if self.objective.name == "renyi":
            assert self.objective.at is not None
            found = self.built(orders.law(self.objective.at))
            return self._found(found, self.releases * orders.floor(self.objective.at))
        near = orders.cheapest(lambda half: self.cost(self.built(half), SEARCH_POINTS))
        tried = [self.built(near), *map(self.built, self._programs())]
        costs = list(map(self.cost, tried))
        floor, law = self._by_curves(near, min(costs))
        if law is not None:
            tried.append(self.built(law))
            costs.append(self.cost(tried[-1]))
        best = costs.index(min(costs))
        return self._found(tried[best], max(floor, self._floor(orders, costs[best])), cost=costs[best])

    def _by_curves(self, near: HalfLine, cost: float) -> tuple[float, HalfLine | None]:
        """Return a floor by what is asked of each release, and the best law where that is the whole question."""
        several, high = min(self.releases, MOST_COUNTED), HIGHEST - math.log(self.failing)
        curves: dict[str, Callable[[float], Curve]] = {
            "gdp": lambda mu: Gaussian(mu / math.sqrt(self.releases), FADING * self.failing),
            "epsilon": lambda epsilon: Counted.epsilon(epsilon, self.delta, several, min(epsilon, high)),
            "advantage": lambda advantage: Counted.epsilon(0.0, advantage, several, high),
            "tpr": lambda most: Counted.caught(most, self.objective.at or 0.0, several, high),
        }
        name = self.objective.name
        if name not in curves or (self.releases == 1 and name != "gdp") or not 0 < cost < math.inf:
            return 0.0, None
        try:
            found = tightest(self.cells, self.failing, near, curves[name], cost)
        except ProgramError:
            return 0.0, None
        if name == "gdp":  # several releases may keep less than root k times the mu of one
            return (min(found.floor, cost) if self.releases == 1 else 0.0), found.law
        return min(found.floor, cost), None

    def _programs(self) -> Iterator[HalfLine]:
        """Yield what else may be best: laws of linear programs, delta's share spent or not, and uniform ones."""
        for spent in (0.0, self.delta / self.releases * (1 - SPARE)):
            if spent == 0 or spent >= RESOLVED:
                epsilon = least_epsilon(self.cells, self.failing, spent, self.start)
                yield half_line(self.cells, max(epsilon, LEAST), self.failing, spent)
        if self.objective.name in ("advantage", "tpr"):
            yield self._uniform()
        if self.releases > 1 or self.objective.name != "tpr":
            return

        rate, end = self.objective.at or 0.0, self.start

        def caught(epsilon: float) -> float:
            delta = least_delta(self.cells, abs(epsilon), self.failing)
            if epsilon > 0:
                return delta + math.exp(epsilon) * rate
            return 1 - math.exp(epsilon) * (1 - rate - delta)  # D_a = 1 - a + a D_(1/a) of two laws that are mirrored

        with suppress(ProgramError):
            sides = (
                minimize_scalar(caught, bounds=bounds, method="bounded", options={"xatol": NEAR * end})
                for bounds in ((LEAST, end), (-end, -LEAST))
            )
            epsilon = abs(float(min(sides, key=lambda side: float(side.fun)).x))
            yield half_line(self.cells, epsilon, self.failing, least_delta(self.cells, epsilon, self.failing))

    def _uniform(self) -> HalfLine:
        """Return even densities within, and outside as far as what may fail lets them: of least advantage.

        A shift's total variation is the mass less than half a sensitivity from zero.  Where theta is less than that,
        what may fail is spread thinly, as far out as a table reaches.
        """
        share, near = self.failing / (1 - self.failing) * (1 - SPARE), self.within < Fraction(1, 2)
        periods = MOST_PERIODS if near else min(math.ceil(share * (float(self.within) + 1)) + 2, MOST_PERIODS)
        _, _, both = self.cells.sizes(self.cells.inside + periods * self.cells.period)
        outside = both[self.cells.inside :]
        room = share * float(both[: self.cells.inside].sum())
        outer = np.full(outside.size, min(1.0, room / float(outside.sum())))
        if not near:
            outer = np.clip((room - np.cumsum(outside) + outside) / outside, 0.0, 1.0)
        return HalfLine.of(self.cells, np.concatenate([np.ones(self.cells.inside), outer]), 1.0, self.failing)

    def _floor(self, orders: Levels, cost: float) -> float:
        """Return what is proved: D_a <= a rho under zCDP, with rho = mu^2 / 2 under Gaussian DP.

        The advantage in one release is the mass within half a sensitivity, and densities fall.  Epsilons, advantages
        and true positive rates of several releases are no less than those of one.
        """
        if self.objective.name == "advantage":
            return (1 - self.failing) * min(1.0, 1 / (2 * float(self.within)))
        if self.objective.name == "epsilon":
            return floor(self.cells, self._least_epsilon(), self.failing, self.delta, falling=True)
        if self.objective.at is not None:  # a true positive rate
            if self.releases > 1:
                return replace(self, releases=1).of_many().floor
            return rate_floor(self.cells, self.failing, self.objective.at, cost)
        rho = self.releases * max(orders.floor(order) / order for order in ORDERS.tolist())
        return rho if self.objective.name == "zcdp" else math.sqrt(2 * rho)

    def _found(
        self, noise: NoiseMechanism, falling: float, any_law: float = 0.0, *, cost: float | None = None
    ) -> Optimum:
        cost = self.cost(noise) if cost is None else cost
        falling, any_law = (max(0.0, down(found, ulps=8)) for found in (falling, any_law))
        return Optimum(noise, cost, falling, any_law, self.delta, self.releases, self.objective.text)
