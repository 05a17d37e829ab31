"""The least epsilon of one release within an absolute error: a linear program, and the proof that no noise needs less.

With E = e^epsilon, cells h = 0, 1, .. outwards, P of them in a period, of levels k, each P cells long, and densities
y_h E^-k, the program minimises the mass outside:

    y_h - y_(h+P) <= r_h u_h,   sum u <= 1,   r_h = delta E^k / w_h,

w_h being a cell's width; beyond the window only the total of every class of cells matters, and geometric tails meet it.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import numpy as np
from scipy.optimize import OptimizeResult, brentq, linprog
from scipy.sparse import coo_array, csr_array

from epsworth.arrays import Floats, Indices
from epsworth.noise.cells import Cells, HalfLine, ProgramError
from epsworth.noise.lattice import MOST_POINTS
from epsworth.rounding import UNIT, down, up

PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
Solver = tuple[str, dict[str, float]]
SOLVERS: list[Solver] = [("highs", PRECISE), ("highs-ipm", PRECISE), ("highs", {})]  # the next where one gives up
FINE = 1e-6  # of sizes: a solver drops coefficients below 1e-9
FINEST = 1e-15  # a delta below it is not searched for
SMALLEST = 1e-9  # an epsilon below it is not searched for
GAPS = 10.0 ** np.arange(-10.0, 0, 0.5)  # relative distances below the program's epsilon at which a floor is tried
RATE_GAPS = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)  # the same of a true positive rate: each takes a hundred programs
NARROWEST = 2e-4  # of such a rate: what a span of epsilons is worth that is not halved again
GIVEN = 10.0 ** np.arange(-14.0, -1)  # relative: by how much the multiplier of the total gives way
LOST = 1e-10  # of delta, or of what may fail: mass of the tails that is not laid out
# Relative rounding of a term of a column, u = 2^-53: an exponential or a quotient of two, each off by 8 u and by its
# argument's rounding, 745 u at most (it underflows beyond); with a product and a sum, below 2000 u.
COLUMN = 2.0**-42


class Solution(NamedTuple):
    """What the program found: the least mass outside over what may fail, a proven bound below it, and densities y."""

    outside: float
    proved: float
    scaled: Floats


class Order(NamedTuple):
    """That density ``later`` is at most density ``first``: y_later ratio <= y_first."""

    first: Indices
    later: Indices
    ratio: Floats

    @classmethod
    def of(cls, k: Indices, rows: int, epsilon: float, *, laid: bool) -> Order:
        """Return the order of all cells; that of classes beyond the window among themselves, unless they are laid."""
        first = np.arange(k.size - 1)
        if not laid:  # a class's total says nothing of its first cell
            first = first[first != rows - 1]
        later, steps = first + 1, k[first + 1] - k[first]
        if laid and k.size - rows > 1:  # the second cells of the tails
            first, later = np.append(first, k.size - 1), np.append(later, rows)
            steps = np.append(steps, k[rows] + 1 - k[-1])
        return cls(first, later, np.exp(-epsilon * steps))


def _solve(
    cells: Cells, epsilon: float, failing: float, delta: float, *, falling: bool = True, laid: bool = False
) -> Solution:
    """Minimise the mass outside; ``falling``: over densities that fall; ``laid``: in tails that are geometric, too.

    Variables are y of the window, and of what stands for each class beyond it, and u, scaled to lie around one: y
    outside are no more than what may fail lets them be, so that a solver's tolerance is small beside them.
    """
    rows = cells.inside + cells.period  # comparisons: of all cells within, and of one period outside
    n = rows + cells.period
    k, width, both = cells.sizes(n)
    weight = both * np.exp(-epsilon * k)
    weight[rows:] /= -math.expm1(-epsilon)  # a geometric tail
    cost = np.where(np.arange(n) < cells.inside, 0.0, weight / failing)
    with np.errstate(over="ignore"):
        slack = np.minimum(delta * np.exp(epsilon * k[:rows]) / width[:rows], 1e300)
    size = np.where(
        np.arange(n) < cells.inside,
        1.0,
        float(np.clip(failing * math.exp(min(epsilon * k[cells.inside], 700.0)), FINE, 1)),
    )
    scale = np.minimum(1.0, size[:rows] / np.maximum(slack, 1e-300))
    order = Order.of(k, rows, epsilon, laid=laid) if falling else Order(np.arange(0), np.arange(0), np.zeros(0))
    h, at = np.arange(rows), rows + 1 + np.arange(order.first.size)
    own, beside = size[:rows], size[order.first]  # rows are divided by the size of their first cell
    entries = [
        (h, h, np.ones(rows)), (h, h + cells.period, -size[cells.period : n] / own), (h, n + h, -slack / own * scale),
        (np.full(rows, rows), n + h, scale),
        (at, order.later, order.ratio * size[order.later] / beside), (at, order.first, -np.ones(at.size)),
    ]  # fmt: skip
    row, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    matrix = csr_array(coo_array((value, (row, column)), shape=(rows + 1 + at.size, n + rows)))
    bounds = np.zeros(matrix.shape[0])
    bounds[rows] = 1.0
    padded = np.zeros((2, n + rows))
    padded[:, :n] = weight * size, cost * size
    found = solved(padded[1], matrix, bounds, padded[:1], f" at epsilon {epsilon:g}")
    held = np.maximum(-found.ineqlin.marginals[rows + 1 :], 0.0) / beside
    proved = _proved(cells.period, weight, cost, slack, order, held, float(found.eqlin.marginals[0]))
    return Solution(float(found.fun), proved, np.maximum(found.x[:n], 0.0) * size)


def solved(cost: Floats, matrix: csr_array, bounds: Floats, total: Floats, where: str) -> OptimizeResult:
    """Return what the first solver finds that does not give up: least cost, rows within bounds, a total of one."""
    for method, options in SOLVERS:
        found = linprog(  # type: ignore[call-overload]
            cost, A_ub=matrix, b_ub=bounds, A_eq=total, b_eq=[1.0], method=method, options=options
        )
        if found.x is not None:
            return cast(OptimizeResult, found)
    raise ProgramError(f"the linear program failed{where}: {found.message}")


def _proved(
    period: int, weight: Floats, cost: Floats, slack: Floats, order: Order, held: Floats, total: float
) -> float:
    """Return a lower bound on the objective that holds whatever the solver did: weak duality, repaired.

    The multipliers of comparisons are worked out anew from the centre outwards, no smaller than each cell's column asks
    for, its rounding included; delta's covers them.  That of the total, and those of the order (``held``), give way
    until the columns of the tails hold.
    """
    n, push, size = len(weight), np.zeros(len(weight)), np.zeros(len(weight))
    np.add.at(push, order.first, held)
    np.add.at(push, order.later, -held * order.ratio)
    np.add.at(size, order.first, held)
    np.add.at(size, order.later, held * order.ratio)
    for gap, give in ((0.0, 0.0), *((size, part) for size in GIVEN for part in (0.0, size / 4))):
        share, kept, asked = total * (1 - gap), 1 - give, np.zeros(n)
        for at in range(n):
            before = asked[at - period] if at >= period else 0.0
            terms = before + share * weight[at] + cost[at] + kept * size[at]
            asked[at] = max(0.0, before + share * weight[at] - cost[at] + kept * push[at] + COLUMN * terms)
        if not asked[len(slack) :].any():
            most = float((asked[: len(slack)] * slack).max()) * (1 + COLUMN)
            return float(down(share - up(most), ulps=2))
    return 0.0


def least_epsilon(cells: Cells, failing: float, delta: float, start: float) -> float:
    """Return the epsilon at which the least mass outside is what may fail."""

    def excess(epsilon: float) -> float:
        return math.log(max(_solve(cells, epsilon, failing, delta, laid=True).outside, 1e-300))

    high = start * (1 + 1e-6)
    while excess(high) > 0:
        high *= 1.5
    low = high / 2
    while low > SMALLEST and excess(low) <= 0:
        high, low = low, low / 4
    return float(brentq(excess, low, high, xtol=1e-12 * high, rtol=1e-12)) if low > SMALLEST else SMALLEST


def least_delta(cells: Cells, epsilon: float, failing: float) -> float:
    """Return the least delta with which this epsilon, above zero, leaves no more outside than may fail."""

    def excess(log_delta: float) -> float:
        return math.log(max(_solve(cells, epsilon, failing, math.exp(log_delta), laid=True).outside, 1e-300))

    least = math.log(FINEST)
    return math.exp(brentq(excess, least, 0.0, xtol=1e-9)) if excess(least) > 0 else FINEST


def floor(cells: Cells, epsilon: float, failing: float, delta: float, *, falling: bool) -> float:
    """Return the largest epsilon tried at which the dual proves that too much lies outside of every law; 0 if none."""
    for gap in GAPS:
        if _solve(cells, epsilon * (1 - gap), failing, delta, falling=falling).proved > 1:
            return float(epsilon * (1 - gap))
    return 0.0


def rate_floor(cells: Cells, failing: float, rate: float, cost: float) -> float:
    """Return a true positive rate that attackers reach at a false positive rate, whatever the symmetric noise."""
    for gap in RATE_GAPS:
        tried = cost * (1 - gap)
        if tried <= rate:
            break
        if _unreachable(cells, failing, rate, tried) and _unreachable(cells, failing, 1 - tried, 1 - rate):
            return tried
    return rate


def _unreachable(cells: Cells, failing: float, low: float, high: float) -> bool:
    """Prove that no law has a delta of ``high - e^epsilon low`` at any epsilon from zero on.

    That falls as epsilon grows, and so does a law's delta: between two epsilons the law of the second one has, at that,
    no more than what stands at the first.  Spans of epsilon are halved until the program refutes them.
    """
    spans = [(0.0, up(math.log(up(high / low)), ulps=4))] if high > low else []
    while spans:
        start, end = spans.pop()
        used = math.exp(start) * low
        if _solve(cells, end, failing, max(high - used, 0.0) + 16 * UNIT * (high + used)).proved > 1:
            continue
        if math.expm1(end - start) * used < NARROWEST * high:
            return False
        middle = (start + end) / 2
        spans += [(start, middle), (middle, end)]
    return True


def half_line(cells: Cells, epsilon: float, failing: float, delta: float) -> HalfLine:
    """Lay out a law: densities made to fall, tails, and the constraint met with room to spare."""
    y = _solve(cells, epsilon, failing, delta, laid=True).scaled
    beyond = y[-cells.period :]
    least = max(0.0, math.log(failing) - math.log(delta)) if delta else 0.0
    periods = math.ceil((math.log(2 / LOST) + least) / epsilon) + 1
    count = len(y) + periods * cells.period
    if 2 * count > MOST_POINTS:
        raise ProgramError(
            f"the best noise, of epsilon {epsilon:.3g}, has tails of {count} cells, more than {MOST_POINTS // 2}; "
            "take 'laplace', which it hardly differs from"
        )
    k, _, _ = cells.sizes(count)
    return HalfLine.of(cells, np.concatenate([y, np.tile(beyond, periods)]) * np.exp(-epsilon * k), epsilon, failing)
