"""How much accuracy a noisy model keeps, by epsilon: simulated with common random numbers, bounded with confidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from epsworth.arrays import Bools, Floats, as_floats, slices
from epsworth.bounds import Risk
from epsworth.exposure.fitting import Rows
from epsworth.exposure.inputs import NOT_PRIVATE, NotPrivate
from epsworth.exposure.output import OutputPerturbation
from epsworth.keeping import Arrays, Keeping
from epsworth.parallel import in_order
from epsworth.rounding import float_below, show_down

CELLS = 2_000_000  # (row, draw) pairs held at once
SAME = 1e-12  # relative: epsilons that are one point of the grid
KEPT = 0.9  # share of the models that must keep the accuracy
GRID = (1e-3, 1e4, 57)  # epsilons at which utility is simulated: eight to a factor of ten


@dataclass(frozen=True, eq=False)
class Usefulness(NotPrivate):
    """Accuracy of noisy models on fixed rows.

    Attributes
    ----------
    epsilons : ndarray of shape ``(m,)``
        Budgets, rising.
    accuracy : ndarray of shape ``(m,)``
        Mean accuracy over the simulated models.
    kept : ndarray of shape ``(m,)``
        Share of simulated models within the tolerance of the noiseless accuracy; where that is above the commoner
        label's, they must stay at or above it, too.
    kept_lower : ndarray of shape ``(m,)``
        Lower bounds on the probability behind ``kept``.
    better_lower : ndarray of shape ``(m,)``
        Lower bounds on the probability that a model is better than always answering the commoner label.
    base, majority : float
        Accuracy of the noiseless model, and of always answering the commoner label.
    confidence : float
        With which all of ``kept_lower`` and ``better_lower`` hold together.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.exposure import window
    >>> X = np.random.default_rng(0).uniform(-0.7, 0.7, size=(300, 2))
    >>> found = window(X, X[:, 0] > 0, 0.01, rng=1).usefulness
    >>> found.epsilons.shape == found.accuracy.shape, found.base > 0.9, found.hopeless
    (True, True, False)
    >>> found.majority < found.at(1.0) <= 1
    True
    """

    epsilons: Floats
    accuracy: Floats
    kept: Floats
    kept_lower: Floats
    better_lower: Floats
    base: float
    majority: float
    confidence: float

    def __str__(self) -> str:
        return (
            f"accuracy {show_down(self.base, 3)} without noise, {show_down(self.majority, 3)} of the commoner label, "
            f"{show_down(float(self.accuracy[0]), 3)} to {show_down(float(self.accuracy[-1]), 3)} at epsilon "
            f"{self.epsilons[0]:g} to {self.epsilons[-1]:g} ({NOT_PRIVATE})"
        )

    @property
    def hopeless(self) -> bool:
        """Even without noise the model is no better than always answering the commoner label."""
        return useless(self.base, self.majority)

    def least_use(self) -> float:
        """Return the smallest epsilon on the grid from which on most models surely beat the commoner label."""
        return self._from(self.better_lower > 0.5)

    def useless_at(self, epsilon: float) -> bool:
        """Tell whether models at an epsilon are not surely better than the commoner label."""
        return epsilon < self.least_use() * (1 - SAME)

    def at(self, epsilon: float) -> float:
        """Return the mean accuracy at an epsilon: the lesser one of its neighbours on the grid.

        Below the grid it is no more than 1/2, where noise alone decides; above, that of the last point.
        """
        near = np.searchsorted(self.epsilons, [epsilon * (1 - SAME), epsilon * (1 + SAME)], side="left")
        low, high = max(int(near[1]) - 1, 0), min(int(near[0]), len(self.epsilons) - 1)
        found = float(min(self.accuracy[low], self.accuracy[high]))
        return min(found, 0.5) if epsilon < self.epsilons[0] * (1 - SAME) else found

    def least(self, share: float) -> float:
        """Return the smallest epsilon on the grid from which on every larger one keeps this share (``inf``: none)."""
        return self._from(self.kept_lower >= share)

    def _from(self, enough: Bools) -> float:
        failing = np.flatnonzero(~enough)
        start = int(failing[-1]) + 1 if len(failing) else 0
        return float(self.epsilons[start]) if start < len(enough) else float("inf")


def useless(base: float | None, majority: float | None) -> bool:
    """Tell whether even the model without noise is no better than always answering the commoner label."""
    return base is not None and majority is not None and base <= majority


def simulate(
    X: Rows,
    y: Floats,
    f: Floats,
    rates: Floats,
    epsilons: Floats,
    *,
    tolerance: float,
    risk: Risk,
    draws: int,
    rng: np.random.Generator,
    n_jobs: int | None = None,
    kept: Keeping | None = None,
    told: Callable[[float], None] | None = None,
) -> Usefulness:
    """Simulate accuracy at every rate with one set of noise vectors, scaled (common random numbers).

    The two bounds at each epsilon are exact binomial ones and take their parts of the risk.  Rows are counted in whole
    numbers, so that a tolerance means the text that it prints as.
    """
    turning = _Turning(X, y, f, rates, OutputPerturbation(len(f), 1.0).sample(draws, rng))
    turns, base = np.zeros(draws * (len(rates) + 1)), 0
    parts = list(slices(len(X), max(1, CELLS // draws)))
    for part, (turned, right_before) in zip(parts, in_order(turning, parts, n_jobs=n_jobs, kept=kept), strict=True):
        turns += turned  # whole numbers: in any order the same
        base += right_before
        if told is not None:
            told(min(1.0, part.stop / len(X)))
    wrong = len(X) - base
    right = wrong + turns.reshape(draws, -1).cumsum(axis=1)[:, :-1].T
    positive = int((y > 0).sum())
    majority = max(positive, len(X) - positive)
    fewest = math.ceil(base - Fraction(repr(float(tolerance))) * len(X))
    if base > majority:  # keeping to the tolerance is not enough where a constant answer does as well
        fewest = max(fewest, majority)
    within = (right >= fewest).sum(axis=1)
    better = (right > majority).sum(axis=1)
    kept_lower, better_lower = risk.split(2 * len(epsilons)).lower(np.array([within, better]), draws)
    return Usefulness(
        epsilons, as_floats(right.mean(axis=1) / len(X)), as_floats(within / draws), kept_lower, better_lower,
        base / len(X), majority / len(X), float_below(1 - risk.total),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Turning:
    """At which rates rows turn right or wrong under noise that is drawn once, and scaled."""

    X: Rows
    y: Floats
    f: Floats
    rates: Floats
    unit: Floats

    def __call__(self, part: slice) -> tuple[Floats, int]:
        """Return how many more rows turn right than wrong, by draw and rate, and how many are right without noise."""
        draws, steps = len(self.unit), len(self.rates) + 1
        centre = self.y[part] * (self.X[part] @ self.f)
        spread = self.y[part, None] * (self.X[part] @ self.unit.T)
        right = int((centre > 0).sum())
        centre[centre == 0] = 1e-300  # decided by the noise alone
        # right where centre + spread / rate > 0: a row turns right (centre > 0) or wrong (< 0) at one rate
        cell = np.searchsorted(self.rates, -spread / centre[:, None]) + np.arange(draws) * steps
        return as_floats(np.bincount(cell.ravel(), np.repeat(np.sign(centre), draws), draws * steps)), right

    def arrays(self, found: tuple[Floats, int]) -> Arrays:
        """Return what is kept of a part."""
        return {"turns": found[0], "right": np.array(float(found[1]))}

    def read(self, part: slice, arrays: Arrays) -> tuple[Floats, int]:
        """Return what was kept of a part."""
        return arrays["turns"], int(arrays["right"])
