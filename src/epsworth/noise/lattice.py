"""Noise on an evenly spaced lattice, and noise with constant density on cells: exact sums instead of integrals.

A table of masses on consecutive points, or on cells.  Answers a sensitivity apart shift the table by whole places, and
delta(epsilon) is a sum over it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.mechanisms.steps import Lattice, Steps
from epsworth.noise.allowed import finite, in_decimals
from epsworth.noise.mechanism import NoiseMechanism, TooLarge
from epsworth.noise.profiles import Kernel
from epsworth.rounding import UNIT, up

# In roundings, u = 2^-53, relative.  `np.sum` adds 128 numbers in eight lanes and halves longer arrays: fewer than 64
# a number; `np.cumsum` one after the other.  NumPy's exp and log err by at most 4 units in the last place, 8 u.
HALVES = 64
# More than what underflows: SciPy's normal tail is 0 beyond 37.7 scales, and so are the least masses of a table.
LEAST = float(np.finfo(float).tiny)
LOSS = 20 * 2.0**-53  # a difference of two logarithms, per unit of the larger one
REACH = {"gaussian": 9.5, "laplace": 45.0}  # scales; what lies beyond, below 1e-19, is added to every delta
WHOLE = 1e-9  # relative: how far a sensitivity may be from a whole number of the lattice's steps
MOST_POINTS = 1 << 17  # of a table: seconds, and a few megabytes
SPLIT = 2.0**27 + 1  # Dekker 1971: halves of a double whose products are exact
MOST_INSIDE = 400  # preferred steps on either side, unless one sensitivity is one step: finer gains nothing


@dataclass(frozen=True, eq=False, kw_only=True)
class TableNoise(NoiseMechanism):
    """Symmetric noise from a table of masses, on points or cells, that a sensitivity moves by a whole number of places.

    Attributes
    ----------
    masses : ndarray, shape ``(n,)``
        Those of the law, or larger by what is beyond the table.  What their sum lacks of one, by rounding, is counted.
    shift : int
        The sensitivity in places.
    inside : int
        How many points or cells, from the middle out, are preferred.
    pure : float
        The pure epsilon, infinite if there is none.
    lost : float
        Mass beyond the table, at most.
    """

    masses: Floats
    shift: int
    inside: int
    pure: float = np.inf
    lost: float = 0.0

    @property
    def _shifts(self) -> Iterable[int]:
        """The moves of the table that have to be compared."""
        return [self.shift]

    @cached_property
    def _tables(self) -> list[tuple[Floats, Floats, Floats]]:
        """Return losses, rounded up, in descending order with cumulated masses under both answers, per shift needed."""
        tables = []
        for shift in self._shifts:
            first, second = self.masses, np.zeros_like(self.masses)
            second[shift:] = self.masses[: max(0, self.masses.size - shift)]  # a table may be shorter than its shift
            first, second = first[first > 0], second[first > 0]
            with np.errstate(divide="ignore"):
                loss = np.log(first) - np.log(second) + self._blur
            order = np.argsort(-loss, kind="stable")
            first, second = (np.append(0.0, np.cumsum(part[order])) for part in (first, second))
            tables.append((-loss[order], first, second))
        return tables

    @cached_property
    def _blur(self) -> float:
        """How far a loss may be off: points that lose less than an epsilon, but by no more than twice this, count."""
        return float(LOSS * np.abs(np.log(self.masses[self.masses > 0])).max())

    def profile(self, epsilon: ArrayLike) -> Floats:
        """Return the largest delta of all shifts up to the sensitivity; one is enough where densities fall outwards.

        Never rounded down: all points that lose more are summed, and some that gain, by e^(2 blur) at most.  Sums of n
        masses err by n roundings each, and so does their total of one; e^epsilon by 8, and ten are products and sums.
        What is beyond the table can be lost wholly.
        """
        epsilon = as_floats(epsilon)
        worst = np.zeros(epsilon.shape)
        for minus_loss, first, second in self._tables:
            count = np.searchsorted(minus_loss, -epsilon, side="left")
            with np.errstate(over="ignore", invalid="ignore"):
                theirs = np.where(second[count] > 0, np.exp(np.minimum(epsilon, 700.0)) * second[count], 0.0)
            mine = up(first[count] * (1 + 3 * self._blur), ulps=3 * self.masses.size + 18)
            worst = np.maximum(worst, mine - theirs)
        return np.minimum(up(worst + self.lost), 1.0)

    @property
    def pure_epsilon(self) -> float:
        """The pure epsilon of the whole law, tails included."""
        return self.pure

    def renyi(self, order: float) -> float:
        """Return the Renyi divergence of an order, never rounded down: a sum over the table, and its ends.

        What has no place under the other answer, and what is beyond the table, loses the pure epsilon at most.
        """
        if not math.isfinite(self.pure):
            return math.inf
        found = []
        for shift in self._shifts:
            first, second = self.masses[shift:], self.masses[: max(0, self.masses.size - shift)]
            first, second = first[(both := (first > 0) & (second > 0))], second[both]
            ends = np.log(self.masses[:shift].sum() + self.lost) + (order - 1) * self.pure
            moment = float(logsumexp(np.append(order * np.log(first) + (1 - order) * np.log(second), ends)))
            found.append(moment + 2 * order * self._blur + self.masses.size * UNIT)
        return max(0.0, up(max(found) / (order - 1), ulps=4))

    @property
    def outside(self) -> float:
        """Mass beyond the preferred points or cells, the rounding of its sums, and of that of all masses, included."""
        cut = (self.masses.size - self.inside) // 2
        beyond = self.masses[:cut].sum() + self.masses[self.masses.size - cut :].sum() + self.lost
        return min(up(float(beyond), ulps=2 * HALVES + 2), 1.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class LatticeNoise(TableNoise):
    """Noise on points ``(i - (n - 1)/2) step``.

    Attributes
    ----------
    step : float
        Distance of neighbours.
    rounding : float
        How far the true answer may be from the lattice point that it is rounded to first.
    """

    step: float
    rounding: float = 0.0

    @property
    def _shifts(self) -> Iterable[int]:
        """All moves up to the sensitivity, unless masses fall outwards."""
        half = self.masses[: self.masses.size // 2 + 1]
        return [self.shift] if bool((np.diff(half) >= 0).all()) else range(1, self.shift + 1)

    @property
    def rmse(self) -> float:
        """Root of the mean squared error, for answers as far from the lattice as they can be."""
        points = np.arange(self.masses.size) - (self.masses.size - 1) / 2
        return float(np.sqrt(np.dot(self.masses, points**2) * self.step**2 + self.rounding**2))

    def law(self, answer: ArrayLike = 0.0) -> Lattice:
        """Return the law around the answer, which a lattice rounds first: its fraction would tell answers apart."""
        masses = tuple((self.masses / self.masses.sum()).tolist())
        return Lattice(as_floats(in_steps(answer, self.step) * self.step), self.step, masses)


@dataclass(frozen=True, eq=False, kw_only=True)
class CellNoise(TableNoise):
    """Noise of constant density on cells, which falls outwards; answers less than a sensitivity apart lose less.

    Attributes
    ----------
    edges : ndarray, shape ``(n + 1,)``
        Where cells begin and end.
    """

    edges: Floats

    @property
    def rmse(self) -> float:
        """Root of the mean squared error."""
        low, high = self.edges[:-1], self.edges[1:]
        return float(np.sqrt(np.dot(self.masses, low**2 + low * high + high**2) / 3))

    def law(self, answer: ArrayLike = 0.0) -> Steps:
        """Return the law around the answer."""
        return Steps(finite(answer), tuple(self.edges.tolist()), tuple((self.masses / self.masses.sum()).tolist()))


@dataclass(frozen=True)
class Spacing:
    """A lattice that fits a question: its step, the sensitivity and the preferred points in steps."""

    step: float
    shift: int
    inside: int
    rounding: float = 0.0  # of true answers to the lattice


def spacing(theta: float, sensitivity: float, lattice: float | None = None) -> Spacing:
    """Choose or check a lattice.

    With ``lattice`` given, true answers are multiples of it.  Otherwise they are real numbers, rounded to the
    lattice before noise is added, so the noise must stay within theta less half a step; of the steps sensitivity/1
    to sensitivity/16 (or less far), the one that wastes least of theta is taken.
    """
    for size, what in ((sensitivity, "sensitivity"), (theta, "theta")):
        if lattice is not None and size / lattice > MOST_POINTS:
            raise TooLarge(
                f"{what} {size:g} is {size / lattice:.3g} steps of the lattice {lattice:g}, more than {MOST_POINTS}; "
                "take a coarser lattice, or none"
            )
    if lattice is not None:
        shift, inside = sensitivity / lattice, math.floor(in_decimals(theta) / in_decimals(lattice))
        if abs(shift - round(shift)) > WHOLE * shift or round(shift) < 1:
            raise ValueError(
                f"sensitivity must be a multiple of the lattice's step {lattice:g}, got {sensitivity:g}; "
                "answers on the lattice differ by whole steps"
            )
        return Spacing(lattice, round(shift), 2 * inside + 1)
    shifts = np.arange(1, max(1, min(16, int(MOST_INSIDE * sensitivity / theta))) + 1)
    ratio = in_decimals(theta) / in_decimals(sensitivity)
    room = np.array([math.floor(ratio * int(shift) - Fraction(1, 2)) for shift in shifts])
    best = int(np.argmax(np.where(room >= 0, (room + 0.5) / shifts, -1.0)))
    if room[best] < 0:
        return _fine(theta, sensitivity)
    step = _step(sensitivity, int(shifts[best]))
    return Spacing(step, int(shifts[best]), 2 * int(room[best]) + 1, step / 2)


def discrete(kernel: Kernel, scale: float, boost: float, grid: Spacing) -> LatticeNoise:
    """Return a discrete Gaussian or Laplace law, boosted; mass proportional to the density on the lattice.

    ``scale`` is sigma or b, in the units of the answer; ``boost`` the preferred points' weight, of which infinity
    truncates.
    """
    reach = scale / grid.step
    longest = max(REACH[kernel] * reach, grid.inside // 2, grid.shift)
    if not 2 * longest + 5 <= MOST_POINTS:
        raise TooLarge(
            f"scale {scale:g} with sensitivity {grid.shift * grid.step:g} needs a table of {2 * longest:.3g} points of "
            f"a lattice with step {grid.step:g}, more than {MOST_POINTS}; take continuous noise, or a coarser lattice"
        )
    half = int(np.ceil(longest)) + 1
    away = np.abs(np.arange(-half, half + 1))
    density = np.exp(-0.5 * (away / reach) ** 2) if kernel == "gaussian" else np.exp(-away / reach)
    beyond = 2 * reach * (np.sqrt(2 * np.pi) * ndtr(-half / reach) if kernel == "gaussian" else np.exp(-half / reach))
    weighted = np.where(away <= grid.inside // 2, density, density / boost)
    total = weighted.sum()
    # The density is convex beyond the table: masses there sum to less than its integral from half a step further on.
    # It falls by 9.5/reach a step or faster (Laplace: 1/reach), and a table has 9.5 (45) reach on either side: so that
    # integral is less than `beyond` by a share of more than 1e-4.  Tails and sums err by less than 1e-10.
    lost = max(float(beyond / boost / total), LEAST)
    pure = np.inf
    if kernel == "laplace" and np.isfinite(boost):
        # reached between a preferred point and one that is not, as far apart as answers; ten roundings
        pure = up(float(grid.shift / reach + np.log(boost)), ulps=10)
    return LatticeNoise(
        masses=weighted / total, shift=grid.shift, inside=grid.inside, pure=pure, lost=up(lost), step=grid.step,
        rounding=grid.rounding,
    )  # fmt: skip


def _fine(theta: float, sensitivity: float) -> Spacing:
    """Return a lattice for a half-width far below the sensitivity: three points, at most 2/3 theta apart."""
    steps = sensitivity / (2 * theta / 3)
    if not steps <= MOST_POINTS / 2:
        raise TooLarge(
            f"theta {theta:g} with sensitivity {sensitivity:g} needs a lattice of {steps:.3g} steps per sensitivity, "
            f"more than {MOST_POINTS // 2}; take continuous noise"
        )
    shift = int(np.ceil(steps))
    step = _step(sensitivity, shift)
    return Spacing(step, shift, 3, step / 2)


def _step(sensitivity: float, shift: int) -> float:
    """Return the smallest step of which ``shift`` make up the sensitivity: answers that far apart are no more steps."""
    step = sensitivity / shift
    while Fraction(step) * shift < max(Fraction(sensitivity), in_decimals(sensitivity)):
        step = math.nextafter(step, math.inf)
    return step


def in_steps(answers: ArrayLike, step: float) -> Floats:
    """Round answers to whole numbers of steps, half-way ones upwards: floor(answer / step + 1/2), without rounding.

    A quotient of doubles can be off by an ulp, which next to a half-way point is a whole step: 0.15 and 0.25 must
    not be two steps of 0.1 apart.
    """
    found = finite(answers)
    exponent = math.frexp(step)[1]
    with np.errstate(over="ignore"):
        found, unit = np.ldexp(found, -exponent), math.ldexp(step, -exponent)  # exact: the step is in [1/2, 1)
        steps = np.floor(found / unit + 0.5)
        near = np.where(np.abs(steps) < 2.0**52, steps, 0.0)
    lower, upper = _below(found, near - 0.5, unit), _below(found, near + 0.5, unit)
    return np.asarray(np.where(near == steps, steps - lower + ~upper, steps))


def _below(answers: Floats, half_steps: Floats, step: float) -> Bools:
    """Return whether answer < half_steps * step, exactly: the product's rounding error is a double (Dekker 1971)."""
    product = half_steps * step
    (a, b), (c, d) = _halves(half_steps), _halves(as_floats(step))
    error = ((a * c - product) + a * d + b * c) + b * d
    return np.asarray(answers - product < error)  # the difference is exact wherever the error matters


def _halves(values: Floats) -> tuple[Floats, Floats]:
    shifted = SPLIT * values
    high = shifted - (shifted - values)
    return as_floats(high), as_floats(values - high)
