"""The best mechanism under a relative error, on a public list of answers: a linear program, and what none is below.

A table of one row of chances per answer and one column per maximal set of regions with a common point is as good as any
mechanism (docs/theory/noise.md).  The program minimises the largest chance of a point outside over what may fail:

    p_ic <= E p_jc + s_ijc,   sum_c s_ijc <= delta,   sum_c p_ic = 1,   E = e^epsilon, for all neighbours i, j.

Answers with wide regions are joined in groups, which costs little, and far outside a column falls by E a neighbour:
both keep it small, and only raise its epsilon.  The floor comes from the dual of the whole program for the first
answers alone, where regions are narrowest.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, brentq, linprog
from scipy.sparse import coo_array, csr_array

from epsworth.arrays import Bools, Floats, Indices, as_floats
from epsworth.noise.allowed import in_decimals
from epsworth.noise.cells import ProgramError
from epsworth.noise.mechanism import NoiseMechanism
from epsworth.noise.regions import Relative
from epsworth.noise.release import AnswerTable
from epsworth.noise.staircase import best_staircase
from epsworth.rounding import UNIT, down

JOINED = 0.4  # of what a region's half-width has grown by: width of groups, at most
EXTRA = 5e-4  # of the floor: what a table costs more, for smaller errors
MOST_CELLS, MOST_COMPARED, MOST_PROVED = 150_000, 28_000, 5_000  # of programs: seconds
MOST_SLACK = 1e4  # coefficient of a program: beyond, a cell is nought anyway
UNSPENT = 1e-3  # of what may fail: a smaller delta hardly helps
SPARE = 1e-5  # of what may fail: spread evenly, so that no chance is nought
BELOW, OVER, MOST_TRIES = 1e-5, 1e-6, 8  # where a floor is looked for: below an epsilon; logarithm of what fails
BEYOND = 1e-12  # logarithm of what must be proved to fail: more than what may fail was rounded by
NEAR, LEAST = 1e-6, 1e-6  # of epsilons that are searched: how well, and from where
PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "time_limit": 20.0}
INTERIOR, SIMPLEX = ("highs-ipm", PRECISE), ("highs-ds", PRECISE)
LATE = 1  # a solver's status: its time is up
PENALTY = 1e5  # of failing, for errors
Solvers = tuple[tuple[str, dict[str, float]], ...]


class Best(NamedTuple):
    """The best mechanism, None where its program is too large; an epsilon that none is below, 0 where none is known."""

    noise: NoiseMechanism | None
    floor: float


@dataclass(frozen=True, eq=False)
class Groups:
    """Neighbouring answers that share a row: the interval that all their regions hold, and which groups are compared.

    ``low``, ``high``: whole numbers of 1 / ``unit``, exactly; ``of``: answer -> group; ``first``, ``second``: ordered
    pairs of groups with neighbours in them.
    """

    answers: Floats
    low: NDArray[np.object_]
    high: NDArray[np.object_]
    unit: int
    of: Indices
    first: Indices
    second: Indices

    @classmethod
    def joined(cls, region: Relative, sensitivity: float, share: float) -> Groups:
        """Join answers while they lie within a share of what the region has grown by."""
        values, starts, at = region.answers, [0], 0
        width = share * region.theta * (values - values[0])
        while (at := max(at + 1, int(np.searchsorted(values, values[at] + width[at])))) < values.size:
            starts.append(at)
        of = np.repeat(np.arange(len(starts)), np.diff([*starts, values.size]))
        low, high, unit = region.exact_ends
        inner = np.maximum.reduceat(low, starts), np.minimum.reduceat(high, starts)
        return cls(values, *inner, unit, of, *region.row_pairs(of, sensitivity))

    @classmethod
    def single(cls, region: Relative, sensitivity: float, count: int) -> Groups:
        """Return the first answers, each alone; those are neighbours that are no farther apart than the sensitivity."""
        values, reach = region.answers[:count], in_decimals(sensitivity)
        exact = [in_decimals(value) for value in values.tolist()]
        count = len(exact)
        pairs = [(i, j) for i in range(count) for j in range(i + 1, count) if exact[j] - exact[i] <= reach]
        first, second = np.array(pairs + [(j, i) for i, j in pairs], dtype=np.intp).reshape(-1, 2).T
        low, high, unit = region.exact_ends
        return cls(values, low[:count], high[:count], unit, np.arange(count), first, second)

    @cached_property
    def spans(self) -> tuple[Indices, Indices]:
        """First and last group of every maximal set with a common point, and of smaller ones at either end."""
        end = self.low.size - 1
        if self.low.max() <= self.high.min():  # one point for all
            return np.array([0]), np.array([end])
        first = np.searchsorted(self.high, self.low)  # of those that hold the point where a region begins
        last = np.flatnonzero(np.append(np.diff(first) > 0, True))
        spans = {*zip(first[last].tolist(), last.tolist(), strict=True)}
        parts = 2 ** np.arange(1, 1 + int(end).bit_length())
        spans |= {(0, int(at)) for at in last[0] // parts} | {
            (int(end - at), end) for at in (end - first[end]) // parts
        }
        firsts, lasts = zip(*sorted(spans), strict=True)
        return np.array(firsts), np.array(lasts)

    @cached_property
    def inside(self) -> Bools:
        """Whether a group's regions hold a column's point, shape ``(groups, columns)``."""
        at, (first, last) = np.arange(self.low.size)[:, np.newaxis], self.spans
        return np.asarray((first <= at) & (at <= last))

    @cached_property
    def points(self) -> Floats:
        """The columns' points, doubles: near the middle of their answers, within all their regions but for rounding."""
        first, last = self.spans
        low, high = np.maximum(self.low[first], self.low[last]), np.minimum(self.high[first], self.high[last])
        ends = self.answers[np.searchsorted(self.of, first)], self.answers[np.searchsorted(self.of, last, "right") - 1]
        middle = [int(in_decimals(float(a + b) / 2) * self.unit) for a, b in zip(*ends, strict=True)]
        return np.array([*map(self._double, np.clip(np.array(middle, dtype=object), low, high), low, high)])

    def _double(self, point: int, low: int, high: int) -> float:
        """Return a double next to a point that prints as a number of the interval, if there is one."""
        found = float(Fraction(point, self.unit))
        if in_decimals(found) * self.unit > high:
            return math.nextafter(found, -math.inf)
        return math.nextafter(found, math.inf) if in_decimals(found) * self.unit < low else found

    @property
    def centres(self) -> tuple[Floats, Floats]:
        """Middles and widths of the intervals."""
        middle, width = (self.low + self.high).tolist(), (self.high - self.low).tolist()
        halves = np.array([float(Fraction(part, 2 * self.unit)) for part in middle])
        return halves, np.array([float(Fraction(part, self.unit)) for part in width])

    @cached_property
    def reach(self) -> tuple[Indices, Indices]:
        """The farthest neighbour of every group, downwards and upwards; itself where there is none."""
        lowest, highest = np.arange(self.low.size), np.arange(self.low.size)
        np.minimum.at(lowest, self.first, self.second)
        np.maximum.at(highest, self.first, self.second)
        return lowest, highest

    @cached_property
    def hops(self) -> Indices:
        """How many neighbours lie between every group and the first one, about."""
        counted = [0]
        for at, nearer in enumerate(self.reach[0].tolist()[1:], 1):
            counted.append(counted[min(nearer, at - 1)] + 1)
        return np.array(counted)

    @property
    def comparisons(self) -> float:
        """How many cells within are compared, about, times how many neighbours each has: a program's time."""
        return float(self.inside.sum()) * (self.first.size / self.low.size) ** 2


class Tied(NamedTuple):
    """What stands for every cell of a table: a variable and its factor; and what solves such programs fastest."""

    variable: Indices
    factor: Floats
    variables: int
    solvers: Solvers = (INTERIOR, SIMPLEX, ("highs", {"time_limit": 20.0}))

    @classmethod
    def free(cls, groups: Groups, epsilon: float, failing: float) -> Tied:
        """Return a variable for each cell."""
        number = np.arange(groups.inside.size).reshape(groups.inside.shape)
        return cls(number, _sizes(groups, epsilon, failing), number.size, (SIMPLEX, INTERIOR))

    @classmethod
    def falling(cls, groups: Groups, epsilon: float, failing: float) -> Tied:
        """Return variables inside and one neighbour around; beyond, cells fall by e^-epsilon a neighbour."""
        (lowest, highest), (first, last) = groups.reach, groups.spans
        at = np.arange(groups.low.size)[:, np.newaxis]
        own = groups.inside | ((at < first) & (highest[:, np.newaxis] >= first))
        own |= (at > last) & (lowest[:, np.newaxis] <= last)
        variable, factor = np.zeros(own.shape, dtype=np.intp), np.where(own, _sizes(groups, epsilon, failing), 0.0)
        variable[own] = np.arange(int(own.sum()))
        for rows, nearer, beyond in ((at[::-1, 0], highest, at < first), (at[:, 0], lowest, at > last)):
            for row in rows.tolist():
                if nearer[row] != row:
                    tied = beyond[row] & ~own[row]
                    variable[row, tied] = variable[nearer[row], tied]
                    factor[row, tied] = math.exp(-epsilon) * factor[nearer[row], tied]
        return cls(variable, factor, int(own.sum()))


def _sizes(groups: Groups, epsilon: float, failing: float) -> Floats:
    """Return about how large each cell can be: what may fail outside, and e^epsilon more a neighbour within."""
    (first, last), hops = groups.spans, groups.hops[:, np.newaxis]
    left = np.where(first > 0, hops - groups.hops[first] + 1, math.inf)
    right = np.where(last < hops.size - 1, groups.hops[last] - hops + 1, math.inf)
    deep = np.clip(np.minimum(left, right), 0.0, -math.log(failing) / epsilon)
    return as_floats(failing * np.exp(epsilon * deep))


class Solution(NamedTuple):
    """The largest chance outside over what may fail, the table, and multipliers: of comparisons, and of rows.

    ``compared``: the pair and the column of every comparison.
    """

    outside: float
    table: Floats
    compared: tuple[Indices, Indices]
    held: Floats
    weights: Floats


def solved(
    groups: Groups, tied: Tied, epsilon: float, failing: float, delta: float, errors: Floats | None = None
) -> Solution:
    """Minimise the largest chance outside or, if it need be no less than what may fail, the sum of these errors."""
    first, second, (rows, columns) = groups.first, groups.second, groups.inside.shape
    variable, factor = tied.variable, tied.factor
    ratio = math.exp(epsilon)
    needed = (factor[first] > 0) & ((variable[first] != variable[second]) | (factor[first] > ratio * factor[second]))
    pair, column = np.nonzero(needed)  # the comparisons
    above, below = (first[pair], column), (second[pair], column)
    size = np.maximum(factor[above], ratio * factor[below])
    many, slacks = pair.size, pair.size if delta else 0
    outer, at = np.nonzero(~groups.inside & (factor > 0))
    worst = tied.variables + slacks  # the last variable
    entries = [
        (np.arange(many), variable[above], factor[above] / size),
        (np.arange(many), variable[below], -ratio * factor[below] / size),
        (many + outer, variable[outer, at], factor[outer, at] / failing),
        (many + np.arange(rows), np.full(rows, worst), -np.ones(rows)),
    ]
    bounds = np.zeros(many + rows + (first.size if delta else 0))
    if delta:
        entries += [
            (np.arange(many), tied.variables + np.arange(many), -np.minimum(delta / size, MOST_SLACK)),
            (many + rows + pair, tied.variables + np.arange(many), np.ones(many)),
        ]
        bounds[many + rows :] = 1.0
    row, place, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    matrix = csr_array(coo_array((value, (row, place)), shape=(bounds.size, worst + 1)))
    sums = csr_array(
        coo_array(
            (factor.ravel(), (np.repeat(np.arange(rows), columns), variable.ravel())), shape=(rows, worst + 1)
        )
    )  # fmt: skip
    cost, least = np.zeros(worst + 1), np.zeros(worst + 1)
    cost[worst] = 1.0
    if errors is not None:  # a penalty: a program at the border of what is feasible takes minutes
        np.add.at(cost, variable, factor * errors / (rows * PENALTY))
        least[worst] = 1.0
    found = _optimum(tied.solvers, cost, matrix, bounds, sums, least)
    held = np.maximum(-found.ineqlin.marginals[:many], 0.0) / size
    weights = np.maximum(-found.ineqlin.marginals[many : many + rows], 0.0)
    return Solution(float(found.fun), np.maximum(found.x, 0.0)[variable] * factor, (pair, column), held, weights)


def _optimum(
    solvers: Solvers, cost: Floats, matrix: csr_array, bounds: Floats, sums: csr_array, least: Floats
) -> OptimizeResult:
    """Solve a program by the first method that does not give up."""
    for method, options in solvers:
        found = linprog(  # type: ignore[call-overload]
            cost, A_ub=matrix, b_ub=bounds, A_eq=sums, b_eq=np.ones(sums.shape[0]), method=method, options=options,
            bounds=np.stack([least, np.full_like(least, np.inf)], axis=1),
        )  # fmt: skip
        if found.status == 0:
            return cast(OptimizeResult, found)
        if found.status == LATE:
            break
    raise ProgramError(f"the linear program failed: {found.message}")


def _proved(groups: Groups, epsilon: float, failing: float, delta: float) -> float:
    """Return what the largest chance outside is at least, over what may fail: weak duality, repaired.

    With any multipliers that are not negative, of comparisons and of rows, the sums of rows may be paid for by what
    their cheapest column costs: whatever the solver did.
    """
    found, ratio = solved(groups, Tied.free(groups, epsilon, failing), epsilon, failing, delta), math.exp(epsilon)
    if not found.weights.any():
        return 0.0
    weights, held = found.weights / failing, np.zeros((groups.first.size, groups.inside.shape[1]))
    held[found.compared] = found.held
    price = np.where(groups.inside, 0.0, weights[:, np.newaxis])
    size = price.copy()
    np.add.at(price, groups.first, held)
    np.add.at(price, groups.second, -ratio * held)
    np.add.at(size, groups.first, held)
    np.add.at(size, groups.second, ratio * held)
    terms = 2 * held.shape[0] + 16  # roundings of a sum, of e^epsilon and products
    paid = (price - terms * UNIT * size).min(axis=1)
    spent = delta * held.max(axis=1).sum()
    slack = 4 * (paid.size + held.shape[0]) * UNIT * (np.abs(paid).sum() + spent)
    return float(down((paid.sum() - spent - slack) / weights.sum() / failing, ulps=9))


def best_relative(region: Relative, failing: float, sensitivity: float, delta: float) -> Best:
    """Return the mechanism of least epsilon under a relative error, and what no mechanism is below.

    Claim: the table keeps its exact epsilon and confidence, by its integers.  No mechanism of any kind keeps less than
    the floor in one release, with this delta and this confidence, for the answers on the list.
    """
    every = Groups.joined(region, sensitivity, 1.0)
    if every.spans[0].size == 1:  # one output lies in all regions
        alone = AnswerTable.of(region, sensitivity, every.of, every.points, np.ones((every.low.size, 1)))
        return Best(alone if alone.outside <= failing else None, 0.0)
    near, floor = _searched(_first(region, sensitivity), failing, sensitivity, delta)
    best, least = None, math.inf
    for finer in (1, 2, 4):  # a region must be many groups wide, for what fails to fall by e^-epsilon a group
        groups = Groups.joined(region, sensitivity, min(JOINED, near / math.log(3 / failing) / finer))
        if groups.inside.size > MOST_CELLS or groups.comparisons > MOST_COMPARED:
            break
        table, cost = _affordable(region, groups, failing, sensitivity, delta, floor or near)
        if table is None or cost >= least:
            break
        best, least, gained = table, cost, least - cost
        extra = cost - (floor or near)
        if gained < 0.3 * extra or extra <= 3 * EXTRA * cost or groups.low.size == region.answers.size:
            break
    return Best(best, floor)


def _affordable(
    region: Relative, groups: Groups, failing: float, sensitivity: float, delta: float, near: float
) -> tuple[AnswerTable | None, float]:
    """Return a table that costs little more than the least of such, ``near`` or more, and what it was made for."""

    def tried(epsilon: float, *, closer: bool = True) -> AnswerTable | None:
        chances = _chances(groups, failing, delta, epsilon, closer=closer)
        found = AnswerTable.of(region, sensitivity, groups.of, groups.points, chances)
        return found if found.outside <= failing else None

    with suppress(ProgramError):
        if (table := tried(near * (1 + EXTRA))) is not None:
            return table, near * (1 + EXTRA)
        least = _least_epsilon(groups, failing * (1 - 3 * SPARE), _spent(delta, failing), near)
        for closer in (True, False):
            if (table := tried(least * (1 + EXTRA), closer=closer)) is not None:
                return table, least * (1 + EXTRA)
    return None, math.inf


def _first(region: Relative, sensitivity: float) -> Groups:
    """Return the first answers, as many as a program of seconds takes."""
    groups, count = Groups.single(region, sensitivity, 2), 3
    while count < 1.3 * region.answers.size:
        larger = Groups.single(region, sensitivity, count)
        if larger.inside.size * (1 + larger.first.size / larger.low.size) > MOST_PROVED:
            break
        groups, count = larger, math.ceil(1.3 * count)
    return groups


def _searched(groups: Groups, failing: float, sensitivity: float, delta: float) -> tuple[float, float]:
    """Return the least epsilon found, and one at which a dual proves that too much fails; 0 if none is found.

    What fails rises as epsilon falls: the place is looked for along straight lines of its logarithm, from a table's.
    """

    def proved(tried: float) -> float:
        return math.log(max(_proved(groups, tried, failing, delta), 1e-300))

    half = float(Fraction(min(groups.high - groups.low), 2 * groups.unit))  # of the narrowest interval
    start = best_staircase(half, failing, sensitivity).loss
    near = last = _least_epsilon(groups, failing, _spent(delta, failing), start)
    tried, before = last * (1 - BELOW), proved(last) if last > LEAST else 0.0
    for _ in range(MOST_TRIES if last > LEAST else 0):
        if (held := proved(tried)) > BEYOND:
            return near, float(down(tried))
        slope = (held - before) / (tried - last)
        if not slope < 0 or (after := tried + (OVER - held) / slope) <= 0:
            break
        tried, last, before = after, tried, held
    return near, 0.0


def _least_epsilon(groups: Groups, failing: float, delta: float, high: float) -> float:
    """Return the epsilon at which the largest chance outside is what may fail, looked for around ``high``."""

    @cache
    def excess(epsilon: float) -> float:
        tied = Tied.falling(groups, epsilon, failing)
        return math.log(max(solved(groups, tied, epsilon, failing, delta).outside, 1e-300))

    while excess(high) > 0:
        high *= 2
    low = high / 2
    while low > LEAST and excess(low) <= 0:
        high, low = low, low / 2
    return float(brentq(excess, low, high, xtol=NEAR * high, rtol=NEAR)) if low > LEAST else LEAST


def _spent(delta: float, failing: float) -> float:
    """Return the delta that a table makes use of."""
    return delta if delta > UNSPENT * failing else 0.0


def _chances(groups: Groups, failing: float, delta: float, epsilon: float, *, closer: bool) -> Floats:
    """Return a table, ``closer``: that of least errors, for the sizes of regions.

    Even chances are added, so that none is nought.
    """
    middle, width = (part[:, np.newaxis] for part in groups.centres)
    errors = ((groups.points - middle) / width) ** 2
    tied, kept = Tied.falling(groups, epsilon, failing), failing * (1 - 3 * SPARE)
    table = solved(groups, tied, epsilon, kept, _spent(delta, failing), errors if closer else None).table
    table /= table.sum(axis=1, keepdims=True)
    return (1 - failing * SPARE) * table + failing * SPARE / groups.points.size
