"""The noise that needs the least epsilon for one release within an absolute error, and the proof that none needs less.

Nothing is discretised.  By symmetry and convexity the best law is symmetric.  Only outputs a sensitivity D apart are
compared, so that the line falls into the classes x + D Z, of which each holds either n or n + 1 points within theta;
laws may be averaged over the points between two neighbours of {+-theta + k D}, which keeps all that matters: masses
within, falling densities, and what is lost (a convex function).  The best density is therefore constant on these cells,
of two widths in turn, and found by a linear program of a few variables for each sensitivity within theta.  On a lattice
of which D is a whole number of steps the same holds for theta half-way between two points: each cell holds a whole
number of them.

With E = e^epsilon, cells h = 0, 1, .. outwards, P of them in a period, of levels k, each P cells long, and densities
y_h E^-k, the program minimises the mass outside:

    y_h - y_(h+P) <= r_h u_h,   sum u <= 1,   r_h = delta E^k / w_h,

w_h being a cell's width; beyond the window only the total of every class of cells matters, and geometric tails meet it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, linprog
from scipy.sparse import coo_array, csr_array

from epsworth.arrays import Floats, Indices
from epsworth.noise.allowed import Confidence, failure, in_decimals, length, share
from epsworth.noise.lattice import HALVES, LOSS, MOST_POINTS, CellNoise, LatticeNoise, spacing
from epsworth.noise.mechanism import NoiseMechanism, TooLarge
from epsworth.noise.profiles import MARGIN
from epsworth.noise.staircase import best_staircase
from epsworth.results import Result, json_form
from epsworth.rounding import down, show_down, show_up, up

PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
Solver = tuple[str, dict[str, float]]
SOLVERS: list[Solver] = [("highs", PRECISE), ("highs-ipm", PRECISE), ("highs", {})]  # the next where one gives up
FINE = 1e-6  # of sizes: a solver drops coefficients below 1e-9
LEAST = 1e-3  # of a law's epsilon: below it, tails are very long
SMALLEST = 1e-9  # an epsilon below it is not searched for
MOST_PERIODS = 1000  # sensitivities within theta; beyond, the program takes more than seconds
GAPS = 10.0 ** np.arange(-10.0, 0, 0.5)  # relative distances below the program's epsilon at which a floor is tried
GIVEN = 10.0 ** np.arange(-14.0, -1)  # relative: by how much the multiplier of the total gives way
SPARE = 1e-9  # of delta: a law that uses all of it may exceed it by a rounding, at every epsilon
LOST = 1e-10  # of delta, or of what may fail: mass of the tails that is not laid out
# Relative rounding of a term of a column, u = 2^-53: an exponential or a quotient of two, each off by 8 u and by its
# argument's rounding, 745 u at most (it underflows beyond); with a product and a sum, below 2000 u.
COLUMN = 2.0**-42


class ProgramError(TooLarge):
    """The linear program is too large, or its solver gave up."""


@dataclass(frozen=True, eq=False)
class Optimum(Result):
    """The best noise for one release, and floors that no noise passes.

    Attributes
    ----------
    noise : NoiseMechanism
        The law; its own exact profile says at which epsilon.
    floor : float
        Additive noise with a density, or with masses on the lattice, that falls on either side of zero, and which
        meets the constraint with this delta, has an epsilon of at least this.  All noises that `cheapest` compares are
        of that kind.  0 where nothing was proved.
    floor_any : float
        The same for any additive noise; often equal, but zero where theta is far below the sensitivity, since only
        answers exactly one sensitivity apart are compared.
    delta : float
        What was asked for.

    Examples
    --------
    >>> from epsworth import noise
    >>> best = noise.optimal_noise(2, confidence=0.9, sensitivity=1, delta=1e-6, lattice=1)  # whole numbers
    >>> round(best.floor, 3), round(best.noise.epsilon(1e-6), 3)
    (0.883, 0.883)
    """

    noise: NoiseMechanism
    floor: float
    floor_any: float
    delta: float = 0.0

    def __str__(self) -> str:
        """Say what the noise costs, and where the floor is."""
        words = f"epsilon {show_up(self.noise.epsilon(self.delta))} with delta {show_up(self.delta)}"
        return f"{words}; no noise whose density falls outwards costs less than {show_down(self.floor)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        return {
            "epsilon": json_form(self.noise.epsilon(self.delta)), "delta": self.delta,
            "confidence": self.noise.confidence, "rmse": self.noise.rmse, "floor": self.floor,
            "floor_any": self.floor_any,
        }  # fmt: skip


def optimal_noise(
    theta: float, *, confidence: Confidence, sensitivity: float, delta: float, lattice: float | None = None
) -> Optimum:
    """Return the noise of least epsilon that stays within ``theta`` with this confidence, and floors.

    The program is solved in double precision; both numbers are right whatever the solver did, epsilon from the law's
    table and floor from the dual.  They differ by some 1e-8 of epsilon.

    Parameters
    ----------
    theta, confidence, sensitivity, delta : float
        The question, see `cheapest`; ``delta`` may be zero.
    lattice : float, optional
        Step of the lattice that true answers lie on (1 for counts): noise lives on it, unless theta reaches farther
        than half a step beyond its last point, where a step density is better.  By default answers are real numbers,
        and the noise has a step density.

    Raises
    ------
    ValueError
        For numbers out of their ranges.

    Examples
    --------
    >>> from epsworth.noise import optimal_noise
    >>> best = optimal_noise(0.5, confidence=0.9, sensitivity=1.0, delta=0.0)
    >>> round(best.floor, 6), round(best.noise.pure_epsilon, 6)  # the staircase mechanism: ln 19
    (2.944439, 2.944439)
    """
    theta, sensitivity = length(theta, "theta"), length(sensitivity, "sensitivity")
    allowed, delta = failure(confidence), share(delta, "delta", zero=True)
    step = None if lattice is None else length(lattice, "lattice")
    within, points = in_decimals(theta) / in_decimals(sensitivity), None
    if step is not None:
        grid = spacing(theta, sensitivity, step)
        if within <= Fraction(grid.inside, 2 * grid.shift):
            within, points = Fraction(grid.inside, 2 * grid.shift), grid.shift
    if within > MOST_PERIODS:
        raise ProgramError(
            f"theta {theta:g} and sensitivity {sensitivity:g} need a program of {float(within):.6g} periods, more than "
            f"{MOST_PERIODS}; take another mechanism"
        )
    cells = Cells.of(within)
    start = best_staircase(theta if points is None else float(within) * sensitivity, allowed, sensitivity).loss
    spent = delta * (1 - SPARE)
    epsilon = _least_epsilon(cells, allowed, spent, start)
    half = _half_line(cells, max(epsilon, LEAST), allowed, spent)
    if points is None:
        noise: NoiseMechanism = _cell_noise(cells, half, sensitivity)
    else:
        assert step is not None
        noise = _lattice_noise(cells, half, points, step)
    floors = [_floor(cells, epsilon, allowed, delta, falling=falling) for falling in (True, False)]
    return Optimum(noise, floors[0], floors[1], delta)


class Cells(NamedTuple):
    """Where densities may change: widths of a period's cells, in sensitivities, and how many are within theta.

    The first cell lies around zero where its width is that of ``odd``; else two of them meet there.
    """

    widths: tuple[Fraction, ...]
    odd: bool
    inside: int  # cells of the half-line

    @classmethod
    def of(cls, within: Fraction) -> Cells:
        """Return the cells for theta in sensitivities."""
        periods, rest = divmod(within, 1)
        near = min(rest, 1 - rest)
        widths = [width for width in (2 * near, 1 - 2 * near) if width]
        inside = len(widths) * int(periods)
        if rest:
            inside += 1 if rest <= Fraction(1, 2) else 2
        return cls(tuple(widths), bool(near), inside)

    @property
    def period(self) -> int:
        """How many cells a period has."""
        return len(self.widths)

    def sizes(self, count: int) -> tuple[Indices, Floats, Floats]:
        """Return of so many cells their levels, widths, and widths on both sides of zero.

        Densities fall by some e^-epsilon from one level to the next; the first cell outside begins one.
        """
        h = np.arange(count)
        width = np.array([float(width) for width in self.widths])[h % self.period]
        both = 2 * width
        if self.odd:
            both[0] = width[0]
        return (h + -self.inside % self.period) // self.period, width, both


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
        np.arange(n) < cells.inside, 1.0, float(np.clip(failing * math.exp(epsilon * k[cells.inside]), FINE, 1))
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
    for method, options in SOLVERS:
        found = linprog(  # type: ignore[call-overload]
            padded[1], A_ub=matrix, b_ub=bounds, A_eq=padded[:1], b_eq=[1.0], method=method, options=options
        )
        if found.x is not None:
            break
    else:
        raise ProgramError(f"the linear program failed at epsilon {epsilon:g}: {found.message}")
    held = np.maximum(-found.ineqlin.marginals[rows + 1 :], 0.0) / beside
    proved = _proved(cells.period, weight, cost, slack, order, held, float(found.eqlin.marginals[0]))
    return Solution(float(found.fun), proved, np.maximum(found.x[:n], 0.0) * size)


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


def _least_epsilon(cells: Cells, failing: float, delta: float, start: float) -> float:
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


def _floor(cells: Cells, epsilon: float, failing: float, delta: float, *, falling: bool) -> float:
    """Return the largest epsilon tried at which the dual proves that too much lies outside of every law; 0 if none."""
    for gap in GAPS:
        if _solve(cells, epsilon * (1 - gap), failing, delta, falling=falling).proved > 1:
            return float(epsilon * (1 - gap))
    return 0.0


class HalfLine(NamedTuple):
    """A law's densities outwards, cell by cell, with their widths on both sides of zero, and the mass beyond them."""

    density: Floats
    both: Floats
    lost: float


def _half_line(cells: Cells, epsilon: float, failing: float, delta: float) -> HalfLine:
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
    k, _, both = cells.sizes(count)
    density = np.concatenate([y, np.tile(beyond, periods)]) * np.exp(-epsilon * k)
    density = np.minimum.accumulate(density)
    mass = density * both
    lost = up(float(mass[-cells.period :].sum()) / math.expm1(epsilon), ulps=HALVES)  # of what follows, geometrically
    total = float(mass.sum())
    density, mass, lost = density / total, mass / total, up(lost / total, ulps=HALVES)
    out, allowed = float(mass[cells.inside :].sum()), failing * (1 - MARGIN) - lost
    if out > allowed:
        density[: cells.inside] *= (1 - allowed) / float(mass[: cells.inside].sum())
        density[cells.inside :] *= allowed / out
    return HalfLine(density, both, lost)


def _whole(cells: Cells, half: HalfLine) -> tuple[Floats, Floats]:
    """Return densities and widths of all cells of the line."""
    width = half.both / 2
    if not cells.odd:
        return np.concatenate([half.density[::-1], half.density]), np.concatenate([width[::-1], width])
    density, width = half.density[1:], width[1:]
    return (
        np.concatenate([density[::-1], half.density]),
        np.concatenate([width[::-1], half.both[:1], width]),
    )


def _pure(cells: Cells, density: Floats) -> float:
    """Return the largest loss, infinite where a cell is empty; tails beyond go on at the same ratio."""
    if density.min() <= 0:
        return math.inf
    logs = np.log(density)
    losses = np.abs(logs[cells.period :] - logs[: -cells.period])
    return up(float(losses.max() + LOSS * np.abs(logs).max()))


def _cell_noise(cells: Cells, half: HalfLine, sensitivity: float) -> CellNoise:
    """Return the law as a step density."""
    density, width = _whole(cells, half)
    ends = np.cumsum(half.both / 2 if not cells.odd else np.append(half.both[0] / 2, half.both[1:] / 2)) * sensitivity
    return CellNoise(
        masses=density * width, shift=cells.period, inside=2 * cells.inside - cells.odd, pure=_pure(cells, density),
        lost=half.lost, ends=ends,
    )  # fmt: skip


def _lattice_noise(cells: Cells, half: HalfLine, shift: int, step: float) -> LatticeNoise:
    """Return the law as masses on a lattice, of which every cell holds a whole number of points."""
    density, width = _whole(cells, half)
    counts = np.rint(width * shift).astype(np.intp)
    if counts.sum() > MOST_POINTS:
        raise ProgramError(
            f"the best noise has {counts.sum()} points of the lattice {step:g}, more than {MOST_POINTS}; take a "
            "coarser lattice, or none"
        )
    inside = int(counts[len(counts) // 2 - cells.inside + 1 : len(counts) // 2 + cells.inside].sum())
    masses = np.repeat(density / shift, counts)
    return LatticeNoise(
        masses=masses, shift=shift, inside=inside, pure=_pure(cells, density), lost=half.lost, step=step
    )
