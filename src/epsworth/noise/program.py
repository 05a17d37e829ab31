"""A noise by linear programming, and floors: epsilons below which no noise of a kind goes.

The noise is the solution on one grid, masses on a lattice or on cells of a step density, as well as doubles solve it:
often the cheapest there is, but not always.  Where the cells do not fit theta, or delta or what may fail are small,
other noises have a smaller epsilon.  The floors hold whatever the solver did.

By symmetry and convexity the best law is symmetric, so there is one variable p_a per distance a.  For a fixed epsilon
(E = e^epsilon) the program maximises the mass inside:

    p_a - E p_(a+m) <= s_a   (outputs on the far side: p_a against the answer m steps away),   sum s <= delta.

Beyond the window only the total t of every residue class modulo m matters: p_a0 - (E - 1) t <= s, met by geometric
tails.  Without the constraint that masses fall outwards this is a relaxation of every additive law: its dual bounds
them all.  With it, the shift by m steps is the worst one (see `regions.Absolute`), and the solution is a mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import brentq, linprog
from scipy.sparse import coo_array, csr_array

from epsworth.arrays import Floats
from epsworth.noise.allowed import Confidence, failure, in_decimals, length, share
from epsworth.noise.lattice import HALVES, LOSS, LatticeNoise, Spacing, spacing
from epsworth.noise.mechanism import TooLarge
from epsworth.noise.profiles import MARGIN
from epsworth.noise.staircase import best_staircase
from epsworth.results import Result, json_form
from epsworth.rounding import down, show_down, show_up, up

WINDOW = 130  # classes of distance in the program, at most: 260 points on the line
FINEST = 25  # cells per sensitivity
PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# Relative distances below the program's epsilon at which a proof is tried; without falling densities only the first.
GAPS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 0.6, 0.8, 0.9, 0.97)
# Relative rounding of a column of the program, u = 2^-53.  A coefficient is an exponential or the quotient of two, each
# off by 8 u and by its argument's rounding, 745 u at most (it underflows beyond); a column has eight at most, whose
# products and sum are rounded, too: below 2000 u.
COLUMN = 2.0**-42
NEAR = 6
REFINE = 5
TAIL = 1e-19
LEAST = 1e-3  # an epsilon below it is not searched for: tails would be very long
MOST_CLASSES = 500  # distances in the program; beyond, it takes more than seconds


class ProgramError(TooLarge):
    """The linear program is too large, or its solver gave up."""


@dataclass(frozen=True, eq=False)
class Optimum(Result):
    """The noise that a linear program found, and floors that no noise passes.

    Attributes
    ----------
    noise : LatticeNoise
        The program's law on its grid; its own exact profile says at which epsilon.  Others may need less.
    floor : float
        Additive noise with a density, or with masses on the lattice, that falls on either side of zero, and which
        meets the constraint with this delta, has an epsilon of at least this.  All noises that `cheapest` compares are
        of that kind.  0 where nothing was proved.
    floor_any : float
        The same for any additive noise with a density; often equal, but zero where theta is far below the
        sensitivity, since only answers exactly one sensitivity apart are compared.
    delta : float
        What was asked for.

    Examples
    --------
    >>> from epsworth import noise
    >>> best = noise.optimal_noise(2, confidence=0.9, sensitivity=1, delta=1e-6, lattice=1)  # whole numbers
    >>> round(best.floor, 3), round(best.noise.epsilon(1e-6), 3)
    (0.883, 0.883)
    """

    noise: LatticeNoise
    floor: float
    floor_any: float
    delta: float = 0.0

    def __str__(self) -> str:
        """Say what the program's noise costs, and where the floor is."""
        words = f"epsilon {show_up(self.noise.epsilon(self.delta))} with delta {show_up(self.delta)}"
        return f"{words}; no noise whose density falls outwards costs less than {show_down(self.floor)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        return {
            "epsilon": json_form(self.noise.epsilon(self.delta)), "delta": self.delta,
            "confidence": self.noise.confidence, "rmse": self.noise.rmse, "floor": self.floor,
            "floor_any": self.floor_any,
        }  # fmt: skip


@dataclass(frozen=True)
class _Shape:
    """Sizes of a program: window, shift, preferred classes, and whether the classes are cells."""

    window: int
    shift: int
    inside: int
    cells: bool

    @property
    def multiplicity(self) -> Floats:
        """How many points of the line have each distance."""
        counts = np.full(self.window, 2.0)
        counts[0] = 2.0 if self.cells else 1.0
        return counts

    def comparisons(self) -> tuple[np.ndarray, np.ndarray]:
        """Return distances (a, b) of an output from both answers, a < b: those where the first is likelier."""
        far = np.arange(self.window - self.shift)
        near = np.arange(0 if self.cells else 1, self.shift)  # outputs between the two answers
        back = self.shift - near - (1 if self.cells else 0)
        near, back = near[near < back], back[near < back]
        return np.concatenate([far, near]), np.concatenate([far + self.shift, back])


def optimal_noise(
    theta: float, *, confidence: Confidence, sensitivity: float, delta: float, lattice: float | None = None
) -> Optimum:
    """Return the noise that linear programming finds to stay within ``theta`` with this confidence, and floors.

    The program has one grid and is solved in double precision: other noises can need less epsilon than its law, most of
    all for confidences above about 1 - 1e-6 and for theta that the grid does not fit.  Both numbers are right whatever
    the solver did, epsilon from the table and floor from the dual.

    Parameters
    ----------
    theta, confidence, sensitivity, delta : float
        The question, see `cheapest`; ``delta`` may be zero.
    lattice : float, optional
        Step of the lattice that true answers lie on (1 for counts): noise lives on it.  By default answers are real
        numbers, and the noise has a step density.

    Raises
    ------
    ValueError
        For numbers out of their ranges.

    Examples
    --------
    >>> from epsworth.noise import optimal_noise
    >>> best = optimal_noise(0.5, confidence=0.9, sensitivity=1.0, delta=0.0)
    >>> round(best.floor, 3) <= 2.944439 <= round(best.noise.pure_epsilon, 3) + 1e-3  # the staircase mechanism
    True
    """
    theta, sensitivity = length(theta, "theta"), length(sensitivity, "sensitivity")
    allowed, delta = failure(confidence), share(delta, "delta", zero=True)
    widest = max(theta, 2 * sensitivity) / (sensitivity if lattice is None else length(lattice, "lattice"))
    if max(widest, sensitivity / theta) > MOST_CLASSES:
        _refuse(theta, sensitivity, max(widest, sensitivity / theta))
    grid = spacing(theta, sensitivity, lattice) if lattice is not None else _cells(theta, sensitivity)
    cells = lattice is None
    unit = in_decimals(sensitivity) / grid.shift if lattice is None else in_decimals(lattice)
    ratio = in_decimals(theta) / unit
    # A density within theta, rounded to the lattice, stays nearer than theta + 1/2: so many distances hold it.
    generous = math.ceil(ratio) if cells else max(math.ceil(ratio - Fraction(1, 2)), math.floor(ratio)) + 1
    exact = grid.inside // 2 if cells else grid.inside // 2 + 1
    window = exact + 2 * grid.shift
    if window > MOST_CLASSES:
        _refuse(theta, sensitivity, window)
    shape = _Shape(window, grid.shift, exact, cells)
    start = best_staircase(theta, allowed, sensitivity).loss
    epsilon = _least_epsilon(shape, allowed, delta, start)
    noise = _law(shape, grid, epsilon, allowed, delta)
    relaxed = _Shape(generous + 2 * grid.shift, grid.shift, generous, cells)
    floors = [_floor(relaxed, epsilon, down(1 - allowed), delta, unimodal=unimodal) for unimodal in (True, False)]
    return Optimum(noise, floors[0], floors[1], delta)


def _refuse(theta: float, sensitivity: float, window: float) -> None:
    raise ProgramError(
        f"theta {theta:g} and sensitivity {sensitivity:g} need a program of {window:.6g} cells or points on either "
        f"side, more than {MOST_CLASSES}; take another mechanism, or a coarser lattice"
    )


def _cells(theta: float, sensitivity: float) -> Spacing:
    """Choose cells of which theta holds a whole number, or nearly."""
    finest = int(np.clip(WINDOW / (theta / sensitivity + 2), 1, FINEST))
    shifts = np.arange(max(finest, int(np.ceil(sensitivity / theta))), 0, -1)
    ratio = in_decimals(theta) / in_decimals(sensitivity)
    inside = np.array([math.floor(ratio * int(shift)) for shift in shifts])
    best = int(np.argmax(np.round(inside / shifts, 12)))
    return Spacing(float(sensitivity / shifts[best]), int(shifts[best]), 2 * int(inside[best]))


def _least_epsilon(shape: _Shape, failing: float, delta: float, start: float) -> float:
    """Return the epsilon at which the largest mass inside leaves so much failing."""

    def excess(epsilon: float) -> float:
        return float(np.log(max(1 - _solve(shape, epsilon, delta, unimodal=True)[0], 1e-300) / failing))

    high = 1.02 * start
    while excess(high) > 0:
        high *= 1.5
    low = high / 2
    while low > LEAST and excess(low) <= 0:
        high, low = low, low / 4
    return float(brentq(excess, low, high, xtol=1e-9 * high, rtol=1e-9)) if low > LEAST else max(high, LEAST)


def _solve(shape: _Shape, epsilon: float, delta: float, *, unimodal: bool) -> tuple[float, Floats, Floats, float]:
    """Return the largest mass inside, the masses p, the tails t, and a bound on that mass proved by the dual.

    Variables are p_a E^(a // m), t likewise, and s in the same scale: then all comparisons have coefficients 1.
    """
    n, m = shape.window, shape.shift
    first, second = shape.comparisons()
    scale = np.exp(-epsilon * (np.arange(n) // m))
    tail_scale = scale[n - m :] / np.expm1(epsilon)
    k, rows = first.size, np.arange(first.size)
    step = scale[first]  # every comparison is divided by its first mass's scale
    ratio = np.exp(epsilon) * scale[second] / step
    last = k + np.arange(m)
    entries = [
        (rows, first, np.ones(k)), (rows, second, -ratio), (rows, n + m + rows, -np.ones(k)),
        (last, n - m + np.arange(m), np.ones(m)), (last, n + np.arange(m), -np.ones(m)),
        (last, n + m + last, -np.ones(m)),
        (np.full(k + m, k + m), n + m + np.arange(k + m), np.concatenate([step, scale[n - m :]])),
        (np.full(n, k + m + 1), np.arange(n), shape.multiplicity * scale),
        (np.full(m, k + m + 1), n + np.arange(m), 2 * tail_scale),
    ]  # fmt: skip
    bounds = np.concatenate([np.zeros(k + m), [delta, 1.0]])
    matrix = _matrix(entries, (k + m + 2, n + m + k + m))
    gain = np.zeros(matrix.shape[1])
    gain[: shape.inside] = (shape.multiplicity * scale)[: shape.inside]
    full, limits = matrix, bounds
    if unimodal:
        falling = _falling(shape, epsilon, scale, matrix.shape[1])
        full = csr_array(_stack(matrix, falling))
        limits = np.concatenate([bounds, np.zeros(falling.shape[0])])
    found = linprog(-gain, A_ub=full, b_ub=limits, method="highs", options=PRECISE)  # type: ignore[call-overload]
    if found.x is None:
        raise ProgramError(f"the linear program failed at epsilon {epsilon:g}: {found.message}")
    proved = _proved(full, limits, gain, -found.ineqlin.marginals, k + m)
    masses = np.maximum(found.x[:n], 0.0) * scale
    return -float(found.fun), masses, np.maximum(found.x[n : n + m], 0.0) * tail_scale, proved


def _proved(matrix: csr_array, bounds: Floats, gain: Floats, multipliers: Floats, comparisons: int) -> float:
    """Return a bound on the mass inside that holds whatever the solver did: weak duality, repaired.

    Slacks: no comparison may weigh more than delta's multiplier allows.  Masses and tails: raise the multiplier of the
    total until every column is covered, its rounding included.
    """
    y = np.maximum(multipliers, 0.0)
    share = matrix[comparisons, :].toarray().ravel()[-comparisons:]
    y[:comparisons] = np.minimum(y[:comparisons], y[comparisons] * share)
    variables = matrix.shape[1] - comparisons
    lack = gain - y @ matrix + COLUMN * (gain + y @ abs(matrix))
    weight = matrix[comparisons + 1, :].toarray().ravel()[:variables]
    y[comparisons + 1] += max(0.0, up(float((lack[:variables] / weight).max()), ulps=3))
    return up(float(bounds @ y), ulps=y.size + 1)  # of the sum, and one of delta's multiplier times a share


def _falling(shape: _Shape, epsilon: float, scale: Floats, columns: int) -> csr_array:
    """Return the rows of p_(a+1) - p_a <= 0 through the first period of the tails, and to the second."""
    n, m = shape.window, shape.shift
    shrink = -np.expm1(-epsilon)  # the first mass of a tail of total t is t (1 - 1/E)
    weight = np.concatenate([scale, np.full(m, shrink) * scale[n - m :] / np.expm1(epsilon)])
    a = np.arange(n + m - 1)
    ratio = weight[1:] / weight[:-1]
    row = np.array([a.size])
    entries = [
        (a, a + 1, ratio), (a, a, -np.ones(a.size)),
        (row, np.array([n]), np.exp([-epsilon])), (row, np.array([n + m - 1]), -np.ones(1)),
    ]  # fmt: skip
    return _matrix(entries, (n + m, columns))


def _matrix(entries: list[tuple[np.ndarray, np.ndarray, Floats]], shape: tuple[int, int]) -> csr_array:
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    return csr_array(coo_array((values, (rows, columns)), shape=shape))


def _stack(above: csr_array, below: csr_array) -> csr_array:
    from scipy.sparse import vstack

    return csr_array(vstack([above, below]))


def _law(shape: _Shape, grid: Spacing, epsilon: float, failing: float, delta: float) -> LatticeNoise:
    """Build the mechanism: masses made to fall outwards, tails laid out, the constraint met with room to spare."""
    _, masses, tails, _ = _solve(shape, epsilon, delta, unimodal=True)
    periods = int(np.ceil(-np.log(TAIL) / epsilon)) + 1
    decay = np.exp(-epsilon * np.arange(periods))[:, np.newaxis] * -np.expm1(-epsilon)
    half = np.minimum.accumulate(np.concatenate([masses, (decay * tails).ravel()]))
    whole = np.concatenate([half[::-1], half if shape.cells else half[1:]])
    inside = 2 * shape.inside - (0 if shape.cells else 1)
    cut = (whole.size - inside) // 2
    within = np.zeros(whole.size, dtype=bool)
    within[cut : whole.size - cut] = True
    lost = up(2 * float(tails.sum()) * TAIL / float(whole.sum()), ulps=HALVES)  # on both sides
    whole /= whole.sum()
    out, allowed = float(whole[~within].sum()), failing * (1 - MARGIN) - lost
    if allowed <= 0:
        raise ProgramError(f"the tails of the program's law weigh more than the {failing:g} that may fail")
    if out > allowed:
        whole = np.where(within, whole * ((1 - allowed) / whole[within].sum()), whole * (allowed / out))
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.abs(np.log(whole[grid.shift :]) - np.log(whole[: -grid.shift]))
    # tails beyond go on at the same ratio; losses are differences of logarithms
    pure = up(float(losses.max() + LOSS * np.abs(np.log(whole)).max())) if whole.min() > 0 else np.inf
    return LatticeNoise(whole, grid.step, grid.shift, inside, cells=shape.cells, pure=pure, lost=lost)


def _floor(shape: _Shape, epsilon: float, needed: float, delta: float, *, unimodal: bool) -> float:
    """Return the largest epsilon found at which the dual proves that no law holds enough mass inside; 0 if none."""

    def proved(gap: float) -> bool:
        return _solve(shape, epsilon * (1 - gap), delta, unimodal=unimodal)[3] < needed

    tried = 0.0
    for works in GAPS if unimodal else GAPS[:NEAR]:
        if proved(works):
            break
        tried = works
    else:
        return 0.0
    for _ in range(REFINE if tried else 0):
        middle = math.sqrt(works * tried)
        works, tried = (middle, tried) if proved(middle) else (works, middle)
    return epsilon * (1 - works)
