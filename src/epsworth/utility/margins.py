"""The largest box on which a linear score stays positive: the score's margin, shared out over the features.

Within a box each feature can lower the score towards one end of its side only; how far that end lies from the true
value is its share of the margin.  The log mass of the box is a sum of one rising function per feature, so the best
box is the best division of the margin.  It is sought on a lattice by dynamic programming, and bounded from above
twice: by rounding all shares of a division up, and by Lagrange duality, which prices the margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from epsworth.arrays import Floats, as_floats
from epsworth.mechanisms.law import Law

NEARLY = 1.001  # factor of mass up to which a box is called the best one
STEPS, ZOOMS = (256, 2_048), 6  # of the margin; each zoom puts the first lattice around the best division so far
LEVEL = 1e-14  # relative; a side whose room is paid for up to rounding is whole, and has the atom at its end
SPLIT, ROUNDS = 8, 12  # of a cell in which a peak may lie


@dataclass(frozen=True, eq=False)
class Side:
    """One feature of a box: its end on the harmful side moves away from ``x`` at a cost of ``slope`` per unit."""

    law: Law
    x: float
    low: float
    high: float
    slope: float

    @property
    def room(self) -> float:
        """What it costs to leave the side as it is."""
        return abs(self.slope) * (self.x - self.low if self.slope > 0 else self.high - self.x)

    def part(self, cost: ArrayLike) -> tuple[Floats, Floats]:
        """Return both ends of the part of the side that a cost allows."""
        cost = as_floats(cost)
        reach = self.x - cost / self.slope if self.slope else self.x
        end = np.where(cost < self.room * (1 - LEVEL), reach, self.low if self.slope > 0 else self.high)
        return (end, as_floats(self.high)) if self.slope > 0 else (as_floats(self.low), end)

    def log_mass(self, cost: ArrayLike) -> Floats:
        """Return the log mass of that part; rises with the cost."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.law.mass(*self.part(cost))))


def largest_part(laws: Sequence[Law], x: Floats, box: Floats, slopes: Floats, margin: float) -> tuple[Floats, float]:
    """Return the part of a box on which a score falls by at most ``margin`` below that of x, and a bound.

    Parameters
    ----------
    laws : sequence of s Law, of shape ``()``
    x : ndarray, shape ``(s,)``
        Lies in the box.
    box : ndarray, shape ``(s, 2)``
    slopes : ndarray, shape ``(s,)``
        Of the score.
    margin : float
        Positive.

    Returns
    -------
    part : ndarray, shape ``(s, 2)``
    bound : float
        No such part has a larger log mass; that of the one returned is close to it.
    """
    sides = [Side(law, v, low, high, w) for law, v, (low, high), w in zip(laws, x, box, slopes, strict=True)]
    if sum(side.room for side in sides) <= margin:
        return box.copy(), float(sum(side.log_mass(side.room) for side in sides))
    found, most, bound = np.zeros(len(sides)), -np.inf, np.inf
    for steps in STEPS:
        costs, unit, values, worth = _divided(sides, np.zeros(len(sides)), margin, steps)
        bound = min(bound, float(worth[-1]), priced_bound(sides, margin, _price(values, worth) / unit))
        for _ in range(ZOOMS):
            reached = float(sum(side.log_mass(cost) for side, cost in zip(sides, costs, strict=True)))
            if reached >= most:
                found, most = costs, reached
            if bound - most <= np.log(NEARLY):
                break
            costs, unit, *_ = _divided(sides, np.maximum(costs - unit, 0), margin, STEPS[0])
        if bound - most <= np.log(NEARLY):
            break
    return np.array([side.part(cost) for side, cost in zip(sides, found, strict=True)]), bound


def _divided(sides: Sequence[Side], kept: Floats, margin: float, steps: int) -> tuple[Floats, float, Floats, Floats]:
    """Share out, in this many steps, what is left of the margin when each side has got what it keeps.

    Returns costs by side, the size of a step, and the values and their largest sums on the lattice of steps.
    """
    unit = (margin - float(kept.sum())) / steps
    units = np.arange(steps + len(sides)) * unit
    values = np.stack([side.log_mass(own + units) for side, own in zip(sides, kept, strict=True)])
    shares, worth = share_out(values)
    return np.minimum(kept + shares * unit, [side.room for side in sides]), unit, values, worth


def share_out(values: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Divide N whole units among s rising functions so that the sum of their values is largest.

    Parameters
    ----------
    values : ndarray, shape ``(s, N + s)``
        ``values[j, i]``: what i units are worth to function j; may be -inf.

    Returns
    -------
    shares : ndarray of int, shape ``(s,)``
        At most N units in all.
    worth : ndarray, shape ``(N + s,)``
        The largest sum by units.  ``worth[-1]`` bounds every division of N units into *fractions*: rounded up,
        they are at most N + s - 1 units.

    Examples
    --------
    >>> shares, worth = share_out(np.array([[0.0, 3, 4, 4, 4], [0, 2, 4, 5, 5]]))
    >>> shares.tolist(), worth.tolist()
    ([1, 2], [0.0, 3.0, 5.0, 7.0, 8.0])
    """
    parts, length = values.shape
    best = [values[0]]  # best[j][i]: the most that i units are worth to functions 0..j
    for row in values[1:]:
        before, now = best[-1], np.full(length, -np.inf)
        for i in range(length):
            np.maximum(now[i:], before[: length - i] + row[i], out=now[i:])
        best.append(now)
    shares, left = np.zeros(parts, dtype=np.intp), length - parts
    for j in range(parts - 1, 0, -1):
        shares[j] = np.argmax(best[j - 1][left::-1] + values[j, : left + 1])
        left -= shares[j]
    shares[0] = left
    return shares, best[-1]


def priced_bound(sides: Sequence[Side], margin: float, price: float) -> float:
    """Bound the log mass of every part that costs at most ``margin``, by weak duality at any price >= 0.

    sum v_j(c_j) <= price * margin + sum_j max_c (v_j(c) - price * c).
    """
    close = np.log(NEARLY) / (4 * len(sides))
    return price * margin + sum(_peak(side, min(side.room, margin), price, close) for side in sides)


def _peak(side: Side, most: float, price: float, close: float) -> float:
    """Bound max (v(c) - price * c) over [0, most]: v rises, so it is at most v(r) - price * l between l and r."""
    left, right, seen = np.zeros(1), np.full(1, most), -np.inf
    for _ in range(ROUNDS):
        edges = left + np.linspace(0, 1, SPLIT + 1)[:, np.newaxis] * (right - left)
        edges[-1] = right
        left, right = edges[:-1].ravel(), edges[1:].ravel()
        values = side.log_mass(right)
        seen = max(seen, float((values - price * right).max()))
        upper = values - price * left
        open_ = upper > seen + close
        if not open_.any():
            return seen + close
        left, right = left[open_], right[open_]
    return float(upper.max())


def _price(values: Floats, worth: Floats) -> float:
    """Return the price of a unit at which the dual of the lattice is least."""
    units = len(worth) - len(values)
    steepest = 2 * (worth[units] - worth[units // 2]) / units
    if not 0 < steepest < np.inf:
        return 0.0
    i = np.arange(units + 1)

    def dual(price: float) -> float:
        return float(price * units + (values[:, : units + 1] - price * i).max(axis=1).sum())

    return float(minimize_scalar(dual, bounds=(0, 2 * steepest), method="bounded").x)
