"""Kernels between regions: any gain, as much of it as epsilon allows, in integers, with a certificate.

A linear program supplies the least weight of every column alone; integers are handed out from there, so that what the
program errs by costs gain, never privacy.  Where some regions cannot be released, others stand for them (`folded`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import chain, pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, Indices
from epsworth.client.kernels import WORD, exp_below
from epsworth.extras import later
from epsworth.mechanisms.alias import Alias, draw_by_row
from epsworth.mechanisms.kernels import Kernel, require
from epsworth.mechanisms.krr import krr
from epsworth.mechanisms.pieces import Pieces
from epsworth.mechanisms.rational import Exact, stated_epsilon
from epsworth.mechanisms.words import WordSource
from epsworth.rounding import float_above, float_below

linprog, coo_array = later("scipy.optimize", "linprog"), later("scipy.sparse", "coo_array")
MOST_REGIONS = 256
LARGEST = 1e300  # of a gain: sums over 256 regions stay finite
NEGLIGIBLE = 1e-9  # of the largest column's least weight: columns below it are emptied
LACKS = Fraction(1, 10**70)  # more than `exp_below` lacks, relatively


@dataclass(frozen=True, eq=False)
class RegionKernel(Kernel):
    """Region i is released as region y with probability exactly ``rows[i][y] / 2^64``.

    Attributes
    ----------
    rows : tuple of tuples of int
    dual : ndarray, shape ``(points,)``
        One multiplier per region: with any of them, `bound` holds.
    bound : float
        No kernel of this epsilon gains more.
    gained : float
        What this one gains, rounded down.

    Examples
    --------
    >>> from epsworth.mechanisms import region_kernel
    >>> best = region_kernel([[0.5, 0], [0, 0.5]], "1")  # two regions, equally common
    >>> [[round(weight / 2**64, 3) for weight in row] for row in best.rows]
    [[0.731, 0.269], [0.269, 0.731]]
    >>> best.gained <= best.bound, best.guarantee
    (True, Pure(epsilon=1.0, unit='feature'))
    """

    rows: tuple[tuple[int, ...], ...]
    dual: Floats
    bound: float
    gained: float

    def weights(self, i: int) -> list[int]:
        """Return the weights of all released regions when the true one is i."""
        return list(self.rows[i])

    def total(self, i: int) -> int:
        """Return 2^64."""
        return sum(self.rows[i])

    def ratio(self) -> Fraction:
        """Return the largest ratio of two weights in one column, of those that are not empty."""
        columns = [column for column in zip(*self.rows, strict=True) if any(column)]
        return max((Fraction(max(column), min(column)) for column in columns), default=Fraction(1))

    def prove(self) -> None:
        """Check that weights are whole and not negative, all totals, and all ratios."""
        bound = exp_below(self.epsilon)
        require(len(self.rows) == self.points, self, "there must be a row for every region")
        for row in self.rows:
            whole = len(row) == self.points and all(type(weight) is int and weight >= 0 for weight in row)
            require(whole, self, "weights must be whole numbers that are not negative, one per region")
            require(sum(row) == WORD, self, "the weights of a row must add up to 2^64")
        for column in zip(*self.rows, strict=True):
            require(not any(column) or min(column) > 0, self, "a column is empty in a part of the rows")
            require(max(column) <= bound * min(column), self, "the ratio of two weights exceeds e^epsilon")

    @cached_property
    def tables(self) -> tuple[Alias, ...]:
        """One table of draws per true region."""
        return tuple(Alias(row) for row in self.rows)

    def outcomes(self, inputs: Indices, source: WordSource) -> Indices:
        """Draw from the true region's row; every input takes one word."""
        return draw_by_row(self.tables, inputs, source.take(inputs.size))

    def pieces(self, i: ArrayLike) -> Pieces:
        """Return the runs of the true region's table, of one region at a time."""
        (region,) = np.atleast_1d(i).tolist()
        first, step, drawn = self.tables[region].runs()
        return Pieces(first, step, np.ones_like(drawn), drawn, self.points, np.zeros(1, dtype=np.int64))

    @cached_property
    def cumulated(self) -> Floats:
        """Pr[released < y | i], shape ``(points, points + 1)``, each rounded once."""
        sums = [[sum(row[:y]) / WORD for y in range(self.points + 1)] for row in self.rows]
        return np.array(sums)

    def mass_of_range(self, index: Floats, low: Floats, high: Floats) -> Floats:
        """Return the mass of a range of regions."""
        i, first, last = (part.astype(np.intp) for part in (index, low, high))
        return np.asarray(self.cumulated[i, last + 1] - self.cumulated[i, first])


def region_kernel(gain: ArrayLike, epsilon: Exact) -> RegionKernel:
    """Return the kernel between regions that gains most, up to rounding, of all that keep epsilon.

    Claim: for all regions i, j and y, Pr[y | i] <= e^epsilon Pr[y | j], for the integers that are drawn from; and no
    kernel that keeps epsilon gains more than ``bound``.

    Parameters
    ----------
    gain : array_like, shape ``(regions, regions)``
        ``gain[i, y]`` is what releasing y is worth where i is true, times how often i is; at most 256 regions.
    epsilon : str, int, float, Fraction or Decimal
        Taken exactly as its text says.

    Returns
    -------
    RegionKernel
        ``weights(i)`` are the integers; ``gained`` is the sum of gain times probability; ``bound``, by ``dual``, what
        no other exceeds.

    Raises
    ------
    ValueError
        If the gain is not square, not finite or of more than 256 regions, or epsilon is not positive.

    Notes
    -----
    With M_y the largest and m_y = e^-epsilon M_y the least probability of column y, a linear program maximises the gain
    over M and what the rows have beyond m.  From its m come whole numbers b_y, and every row hands out what is left to
    2^64 by falling gain, at most floor(b_y E) - b_y to a column, E <= e^epsilon: all of a column lies in
    [b_y, floor(b_y E)].  Time grows with the program's: 64 regions take seconds.

    The bound is Lagrange's: for any dual lambda, the sum of lambda + max(c, c e^-epsilon) with c the largest over y of
    sum_i [(gain - lambda_i) + (e^epsilon - 1) max(gain - lambda_i, 0)], in exact arithmetic.

    Examples
    --------
    >>> from epsworth.mechanisms import region_kernel
    >>> kernel = region_kernel([[0.6, 0, 0], [0, 0.3, 0], [0, 0, 0.1]], "2")
    >>> round(kernel.gained, 4), round(kernel.bound, 4)  # the rarest region is never released
    (0.7927, 0.7927)
    >>> [round(weight / 2**64, 3) for weight in kernel.weights(2)]
    [0.881, 0.119, 0.0]
    """
    stated, values = stated_epsilon(epsilon), checked_gain(gain)
    largest = float(np.abs(values).max())
    scaled = values / largest if largest > 0 else values
    least, dual = _program(scaled, float(stated))
    dual = _raised(values, float(stated), dual * largest)
    rows = refill(floors(least, exp_below(stated)), values, exp_below(stated))
    if rows is None:
        simple = krr(stated, len(values))
        rows = [simple.weights(i) for i in range(len(values))]
    pairs = zip(values.ravel().tolist(), chain.from_iterable(rows), strict=True)
    total = sum((Fraction(worth) * weight for worth, weight in pairs), Fraction(0))
    kernel = RegionKernel(
        "region", stated, len(values), tuple(map(tuple, rows)), dual, dual_bound(values, stated, dual),
        float_below(total / WORD),
    )  # fmt: skip
    kernel.prove()
    return kernel


def checked_gain(gain: ArrayLike) -> Floats:
    """Return a square matrix of finite numbers, or refuse what was given in one sentence."""
    values = _numbers(gain)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
        raise ValueError(f"gain must be square, got shape {values.shape}; give one row and one column per region")
    if len(values) > MOST_REGIONS:
        raise ValueError(f"gain has {len(values)} regions, the most is {MOST_REGIONS}; join some")
    if not np.isfinite(values).all():
        raise ValueError("gain must be finite; it holds NaN or infinity")
    if np.abs(values).max() > LARGEST:
        raise ValueError(f"gain must not exceed {LARGEST:g} in size, or its sums overflow; divide it by its largest")
    return values


def _numbers(gain: ArrayLike) -> Floats:
    """Return real numbers as plain doubles; texts, times, complex numbers and masks are no numbers."""
    try:
        with np.errstate(over="ignore"):  # infinite then, and refused
            array = np.asarray(gain)
            real = array.dtype.kind in "biuf" or (
                array.dtype.kind == "O" and all(isinstance(value, (Real, Decimal)) for value in array.flat)
            )
            if real and not np.ma.is_masked(gain):
                return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError("gain must be a square matrix of numbers; give one row and one column per region")


def _program(gain: Floats, epsilon: float) -> tuple[Floats, Floats]:
    """Return the columns' least probabilities of the best kernel, and the rows' multipliers.

    Variables are a_iy = Pr[y | i] - m_y, row by row, then M_y; they stay of the order of 1 at any epsilon.
    """
    k, small = len(gain), float(np.exp(-epsilon))
    row, column, each = np.repeat(np.arange(k), k), np.tile(np.arange(k), k), np.arange(k * k)
    ones = np.ones(k * k)
    at = np.concatenate([each, k * k + column])
    sums: Any = coo_array((np.concatenate([ones, small * ones]), (np.tile(row, 2), at)), shape=(k, k * k + k)).tocsr()
    beyond = np.concatenate([ones, np.expm1(-epsilon) * ones])
    room: Any = coo_array((beyond, (np.tile(each, 2), at)), shape=(k * k, k * k + k)).tocsr()
    solution = linprog(
        -np.concatenate([gain.ravel(), small * gain.sum(axis=0)]),
        A_ub=room, b_ub=np.zeros(k * k), A_eq=sums, b_eq=np.ones(k), bounds=(0, None), method="highs",
    )  # fmt: skip
    if solution.x is None:  # never seen; randomised response then serves
        return np.full(k, small), gain.max(axis=1)
    return np.maximum(solution.x[k * k :], 0) * small, -np.asarray(solution.eqlin.marginals, dtype=np.float64)


def floors(least: Floats, bound: Fraction, total: int = WORD) -> list[int]:
    """Return whole least weights of the columns, from probabilities; their caps leave room for every row."""
    kept = np.where(least < NEGLIGIBLE * least.max(), 0.0, least)
    kept = kept / max(1.0, float(kept.sum()))
    least_weights = [-int(-Fraction(share) * total // 1) for share in kept.tolist()]
    largest = max(range(len(least_weights)), key=least_weights.__getitem__)
    missing = total - sum(_most(b, bound) for b in least_weights)
    if missing > 0:
        least_weights[largest] += -int(-missing // bound) + 1
    least_weights[largest] -= max(0, sum(least_weights) - total)
    return least_weights


def refill(floors: Sequence[int], gain: Floats, bound: Fraction, total: int = WORD) -> list[list[int]] | None:
    """Return rows that hold their columns' least weights and hand out the rest by falling gain, ties from the left.

    No weight exceeds ``bound`` times its column's least one; None where the rest has no room.
    """
    caps, left = [_most(b, bound) - b for b in floors], total - sum(floors)
    if min(floors) < 0 or not 0 <= left <= sum(caps):
        return None
    rows = []
    for given in gain.tolist():
        row, rest = list(floors), left
        for y in sorted(range(len(row)), key=lambda y: (-given[y], y)):
            more = min(rest, caps[y])
            row[y], rest = row[y] + more, rest - more
        rows.append(row)
    return rows


def _most(weight: int, bound: Fraction) -> int:
    return int(weight * bound.numerator // bound.denominator)


def _raised(gain: Floats, epsilon: float, dual: Floats) -> Floats:
    """Raise all multipliers by about the least amount that leaves no column a positive surplus.

    Differences are taken from the raised multipliers as they are returned: e^epsilon magnifies their rounding.
    """

    def surplus(by: float) -> float:
        over = gain - (dual + by)[:, np.newaxis]
        with np.errstate(over="ignore"):  # e^epsilon times a large gain: infinite, so too much
            return float((over + np.expm1(epsilon) * np.maximum(over, 0)).sum(axis=0).max())

    scale = float(np.abs(gain).max() + np.abs(dual).max())
    low, high = 0.0, 2 * scale
    if surplus(low) <= 0:
        return dual
    while np.nextafter(low, high) < high and high > 1e-18 * scale:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if surplus(middle) <= 0 else (middle, high)
    return np.asarray(dual + high)


def dual_bound(gain: Floats, epsilon: Fraction, dual: NDArray[np.float64]) -> float:
    """Return what no kernel that keeps epsilon gains more than, for any multipliers: exact, then rounded up."""
    above = exp_below(epsilon) * (1 + LACKS)
    multipliers = [Fraction(value) for value in dual.tolist()]
    surplus = []
    for column in gain.T.tolist():
        over = [Fraction(value) - multiplier for value, multiplier in zip(column, multipliers, strict=True)]
        surplus.append(sum(over) + (above - 1) * sum(value for value in over if value > 0))
    most = max(surplus)
    ceiling = sum(multipliers) + (most if most > 0 else most / above)
    return float_above(ceiling) if ceiling <= sys.float_info.max else math.inf


def folded(kernel: Kernel, present: Sequence[int], instead: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return a kernel's rows where only some regions can be released, the others moved to those that stand for them.

    Claim: no ratio of two weights in a column exceeds the largest that the kernel has: every released region is moved
    by a rule that does not look at the true one (post-processing).  Leaving columns out and dividing by what is left
    has no such bound.

    Parameters
    ----------
    kernel : Kernel
        Whose weights add up to 2^64, as those of `region_kernel` do.
    present : sequence of int
        Regions that can be released, rising; at least one.  They must not depend on the true region.
    instead : sequence of sequences of int
        ``instead[y]``: the order of regions that stand for y.  Where y is not present, the first one that is takes all
        of its weight.

    Returns
    -------
    tuple of tuples of int
        ``rows[a][b]``: the weight of releasing ``present[b]`` where ``present[a]`` is true; each row sums to 2^64.

    Raises
    ------
    ValueError
        If a region does not exist, ``present`` is empty or does not rise, or nothing present stands for a region.

    Examples
    --------
    >>> kernel = region_kernel([[0.5, 0, 0], [0, 0.3, 0], [0, 0, 0.2]], "4")
    >>> rows = folded(kernel, (0, 2), [(0, 1, 2), (1, 2, 0), (2, 1, 0)])
    >>> [round(weight / 2**64, 3) for weight in rows[0]]  # what region 1 had is added to region 2
    [0.965, 0.035]
    """
    places = _places(kernel.points, present, instead)
    rows = []
    for region in present:
        row = [0] * len(present)
        for place, weight in zip(places, kernel.weights(region), strict=True):
            row[place] += weight
        require(sum(row) == WORD, kernel, "the weights of a row must add up to 2^64")
        rows.append(tuple(row))
    return tuple(rows)


def _places(points: int, present: Sequence[int], instead: Sequence[Sequence[int]]) -> list[int]:
    """Return where in ``present`` each region's weight goes."""
    named = [*present, *chain.from_iterable(instead)]
    if any(isinstance(region, (bool, np.bool_)) or not isinstance(region, (int, np.integer)) for region in named):
        raise ValueError("regions must be whole numbers; give their places in the kernel")
    if any(not 0 <= region < points for region in named) or len(instead) != points:
        raise ValueError(f"the kernel has regions 0 to {points - 1}; name only these, with an order for each of them")
    if not len(present) or any(first >= second for first, second in pairwise(present)):
        raise ValueError("present must hold at least one region, each once and rising; sort it")
    place = {int(region): at for at, region in enumerate(present)}
    taken_by = []
    for region, order in enumerate(instead):
        place_of = next((place[other] for other in (region, *order) if other in place), None)
        if place_of is None:
            raise ValueError(f"nothing that is present stands for region {region}; let its order name every region")
        taken_by.append(place_of)
    return taken_by
