"""Certificates of cells: whether the label that a cell shows is the one that its users in truth have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.learner.aggregation import Aggregator
from epsworth.learner.coins import Ints
from epsworth.learner.mechanism import checked_level, checked_number
from epsworth.rounding import show_up

Adjust = Literal["bonferroni", "bh", "by"]


class Holder(NamedTuple):
    """Declared smoothness: |eta(x) - eta(x')| <= constant |x - x'|^exponent in the largest coordinate, natural units.

    ``mass`` is an upper bound on the share of users in any one cell; it must hold for certain, or be known with a
    confidence of its own, which adds to the level.
    """

    constant: float
    exponent: float = 1.0
    mass: float = 1.0


HONEST = "All reports are taken to be honest: a share of 1 % fakes can turn every label, certified."


@dataclass(frozen=True, eq=False)
class Certificates:
    """One entry per asked point ``(n,)``; all of it holds if every report is an honest client's.

    Attributes
    ----------
    label : ndarray
        Label of the point's cell.
    p_value : ndarray
        Bound on the probability of sums as clear as these, were another label the cell's.
    adjusted : ndarray
        The same, adjusted for all cells.
    certified : ndarray of bool
        ``adjusted <= level``.
    lower, upper : ndarray
        Interval for the cell's signed mean E[1{cell}(2 eta - 1)], each missing with probability at most ``level``; nan
        where the mechanism has none.
    point : ndarray of bool, or None
        Where the label of the point itself is certified, given the declared smoothness.
    cell : ndarray of int
    level : float
    """

    label: NDArray[Any]
    p_value: Floats
    adjusted: Floats
    certified: Bools
    lower: Floats
    upper: Floats
    point: Bools | None
    cell: Ints
    level: float

    def __str__(self) -> str:
        """Say what is certified, and what is not."""
        text = (
            f"{int(self.certified.sum())} of {self.label.size} labels certified at level {show_up(self.level)}: the "
            "label of the average over the point's cell, not of the point itself"
        )
        if self.point is not None:
            text += f"; with the declared smoothness {int(self.point.sum())} points are certified themselves"
        return f"{text}. {HONEST}"


def certify(
    aggregate: Aggregator,
    estimates: Floats,
    cell: Ints,
    outside: Bools,
    best: Ints,
    level: float,
    adjust: Adjust,
    holder: Holder | None,
) -> Certificates:
    """Return the certificates of the cells at some points; ``best`` is every cell's label.

    Smoothness says nothing of a point ``outside`` the box, whose cell is only the nearest one.
    """
    config, kernel = aggregate.config, aggregate.config.kernel
    checked_level(level)
    p = kernel.p_values(aggregate.tally, best)
    adjusted = _adjusted(p, adjust)
    interval = kernel.interval(aggregate.tally, level)
    nowhere = np.full(kernel.cells, np.nan)
    lower, upper = (nowhere, nowhere) if interval is None else interval
    point = None if holder is None else _smooth(aggregate, level, holder)
    return Certificates(
        np.array(config.classes)[best[cell]], p[cell], adjusted[cell], adjusted[cell] <= level, lower[cell],
        upper[cell], None if point is None else point[cell] & ~outside, cell, level,
    )  # fmt: skip


def _adjusted(p: Floats, adjust: Adjust) -> Floats:
    if adjust not in get_args(Adjust):
        raise ValueError(f"adjust must be one of {', '.join(get_args(Adjust))}, got {adjust!r}")
    if adjust == "bonferroni":
        return np.minimum(1.0, p * p.size)
    from scipy.stats import false_discovery_control

    return as_floats(false_discovery_control(p, method=adjust))


def _smooth(aggregate: Aggregator, level: float, holder: Holder) -> Bools:
    """Tell the cells in which |V| / (2 mass) > L diam^beta, by the lower confidence limit of |V|, all cells together.

    The average of eta - 1/2 over the cell then exceeds what eta can vary inside it.  Cells that hold points which
    were moved to the edge are left out: those users come from elsewhere.
    """
    config, kernel = aggregate.config, aggregate.config.kernel
    constant, exponent, mass = (checked_number(value, "holder") for value in holder)
    if not (constant >= 0 and 0 < exponent <= 1 and 0 < mass <= 1):
        raise ValueError(f"holder needs constant >= 0, exponent in (0, 1] and mass in (0, 1], got {tuple(holder)}")
    interval = kernel.interval(aggregate.tally, level / kernel.cells)
    if interval is None:
        return np.zeros(kernel.cells, dtype=bool)
    least = np.maximum(interval.lower, -interval.upper)
    step = max(high - low for low, high in config.box) / kernel.m
    diameter = 1.5 * step if kernel.overlapping else step
    index = np.column_stack(np.unravel_index(np.arange(kernel.cells), [kernel.side] * kernel.d))
    edge = 2 if kernel.overlapping else 1
    inner = ((index >= edge) & (index < kernel.side - edge)).all(axis=1) | (config.outside != "clip")
    return np.asarray((least / (2 * mass) > constant * diameter**exponent) & inner)
