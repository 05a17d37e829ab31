"""Certificates of cells: whether the label that a cell shows is the one that its users in truth have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.bounds import Risk, check_spent
from epsworth.learner.aggregation import Aggregator
from epsworth.learner.coins import Ints
from epsworth.learner.config import LatticeConfig
from epsworth.learner.encoding import class_array
from epsworth.learner.fakes import assumption, fakes_among, taken_for_honest, why_odd
from epsworth.learner.mechanism import Mechanism, checked_number, checked_probability, times
from epsworth.results import Result
from epsworth.rounding import down, show_down, up

Adjust = Literal["bonferroni", "bh", "by"]
Fakes = int | float | Fraction  # how many, or below one half which share of the reports


class Holder(NamedTuple):
    """Declared smoothness: ``|eta(x) - eta(x')| <= constant |x - x'|^exponent``, largest coordinate, natural units.

    ``mass`` is an upper bound on the share of users in any one cell, which must hold for certain.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import Classifier, Holder, LatticeConfig, simulate
    >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    >>> x = np.linspace(0, 1, 100)
    >>> learnt = Classifier.from_aggregate(simulate(config, x[:, None], x > 0.5, 0, users=10**7))
    >>> smooth = Holder(constant=1.0, mass=0.15)  # the chance of a label changes by at most the distance
    >>> learnt.certificate([[0.2], [0.8]], fakes=0, holder=smooth).point.tolist()  # of the points themselves
    [True, True]
    """

    constant: float
    exponent: float = 1.0
    mass: float = 1.0


@dataclass(frozen=True, eq=False)
class Certificates(Result):
    """One entry per asked point ``(n,)``; all of it holds if no more than ``fakes`` of the reports are fakes.

    Attributes
    ----------
    label, cell : ndarray
        Label and number of the point's cell.
    p_value, adjusted : ndarray
        Bound on the probability of sums as clear as these, were another label the cell's; adjusted for all cells.
    certified : ndarray of bool
        Where ``adjusted`` is at most 1 - confidence.
    lower, upper : ndarray
        Interval for the cell's signed mean E[1{cell}(2 eta - 1)], each of which alone holds with ``confidence``; nan
        where the mechanism has none, and where fakes are allowed for.
    point : ndarray of bool, or None
        Where the label of the point itself is certified, given the declared smoothness.
    confidence, spent : float or Fraction
        The probability of a miss that the certified labels spend, all cells together, is at most 1 - confidence.
    fakes : int
        So many of the reports may be fakes; 0: all are honest clients'.
    reason : str or None
        Why nothing is certified at all: the reports name a row too often or too rarely for no more fakes than declared.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import Classifier, LatticeConfig, simulate
    >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    >>> x = np.linspace(0, 1, 100)
    >>> learnt = Classifier.from_aggregate(simulate(config, x[:, None], x > 0.5, 0, users=10**6))
    >>> found = learnt.certificate([[0.2], [0.8]], fakes=0, confidence=0.99)
    >>> found.label.tolist(), found.certified.tolist()
    ([0, 1], [True, True])
    """

    OVER: ClassVar[tuple[str, str]] = ("point", "cell")

    label: NDArray[Any]
    p_value: Floats
    adjusted: Floats
    certified: Bools
    lower: Floats
    upper: Floats
    point: Bools | None
    cell: Ints
    confidence: float | Fraction
    spent: Fraction
    fakes: int
    reason: str | None = None

    def __post_init__(self) -> None:
        check_spent(self.spent, self.confidence)

    def __str__(self) -> str:
        text = (
            f"{int(self.certified.sum())} of {self.label.size} labels certified with confidence "
            f"{show_down(float(self.confidence))}, {assumption(self.fakes)}"
        )
        if self.reason is not None:
            return f"{text}.\nNothing is certified: {self.reason}."
        point, cell = self.OVER
        text += f".\nCertified is the label of the average over the {point}'s {cell}, not of the {point} itself"
        if self.point is not None:
            text += f"; with the declared smoothness {int(self.point.sum())} points are certified themselves"
        return f"{text}.\n{taken_for_honest(self.fakes)}"


class Certifying:
    """What certifies labels, and masks those that it does not certify."""

    certificate: Callable[..., Certificates]

    def abstain(
        self, X: ArrayLike, *, fakes: Fakes, confidence: float | Fraction = 0.95, adjust: Adjust = "bonferroni"
    ) -> np.ma.MaskedArray[Any, Any]:
        """Return the certified labels, masked where none is certified with this confidence and so many fakes."""
        found = self.certificate(X, confidence=confidence, adjust=adjust, fakes=fakes)
        return np.ma.masked_array(found.label, mask=~found.certified)


def certify(
    aggregate: Aggregator,
    cell: Ints,
    outside: Bools,
    best: Ints,
    confidence: float | Fraction,
    adjust: Adjust,
    holder: Holder | None,
    fakes: Fakes,
) -> Certificates:
    """Return the certificates of the cells at some points; ``best`` is every cell's label."""
    kernel: Mechanism = aggregate.config.kernel
    checked_probability(confidence)
    if adjust not in get_args(Adjust):
        raise ValueError(f"adjust must be one of {', '.join(get_args(Adjust))}, got {adjust!r}")
    count = fakes_among(fakes, aggregate.users)
    if count and holder is not None:
        raise ValueError(
            "holder needs fakes = 0: intervals, which it rests on, allow for no fakes; leave one of them out"
        )
    if count and adjust == "bh":  # fakes that see all reports choose which true labels stand beside the wrong ones
        raise ValueError(
            "adjust='bh' needs cells that do not depend on one another, but fakes see them all; take 'bonferroni' or "
            "'by'"
        )
    risk = Risk.of(confidence)
    against, rivals = kernel.against(aggregate.tally, best, count), kernel.classes - 1
    p = times(rivals, against)
    if adjust == "bonferroni":  # a union bound: every cell and every wrong label pays for itself
        adjusted = times(p.size, p)
        certified = against <= risk.split(p.size * rivals).spend(p.size * rivals)
    else:  # these bound the share of false discoveries, by another argument
        from scipy.stats import false_discovery_control

        adjusted = as_floats(false_discovery_control(p, method=adjust))
        certified = adjusted <= risk.spend()
    interval = None if count else kernel.interval(aggregate.tally, Risk.apart(confidence, kernel.cells))
    lower, upper = interval or np.full((2, kernel.cells), np.nan)
    point = None if holder is None else _smooth(aggregate, Risk.of(confidence), holder)[cell] & ~outside
    found = Certificates(
        class_array(aggregate.config.classes)[best[cell]], p[cell], adjusted[cell], certified[cell], lower[cell],
        upper[cell], point, cell, confidence, risk.spent, count,
    )  # fmt: skip
    if (reason := why_odd(aggregate, count)) is None:
        return found
    ones, unknown, never = (np.full(cell.size, value) for value in (1.0, np.nan, False))
    return replace(
        found, p_value=ones, adjusted=ones, certified=never, lower=unknown, upper=unknown,
        point=None if point is None else never, reason=reason,
    )  # fmt: skip


def _smooth(aggregate: Aggregator, risk: Risk, holder: Holder) -> Bools:
    """Tell the cells in which |V| / (2 mass) > L diam^beta, by the lower confidence limit of |V|, all cells together.

    Cells that hold points which were moved to the edge are left out: those users come from elsewhere.
    """
    config = cast(LatticeConfig, aggregate.config)  # a classifier's
    kernel = config.kernel
    constant, exponent, mass = (checked_number(value, "holder") for value in holder)
    if not (constant >= 0 and 0 < exponent <= 1 and 0 < mass <= 1):
        raise ValueError(f"holder needs constant >= 0, exponent in (0, 1] and mass in (0, 1], got {tuple(holder)}")
    interval = kernel.interval(aggregate.tally, risk.split(kernel.cells))
    if interval is None:
        return np.zeros(kernel.cells, dtype=bool)
    least = np.maximum(interval.lower, -interval.upper)
    step = max(high - low for low, high in config.box) / kernel.m
    diameter = 1.5 * step if kernel.overlapping else step
    index = np.column_stack(np.unravel_index(np.arange(kernel.cells), [kernel.side] * kernel.d))
    edge = 2 if kernel.overlapping else 1
    inner = ((index >= edge) & (index < kernel.side - edge)).all(axis=1) | (config.outside != "clip")
    # units: 3 of the diameter, 1 of its power (C library) and 1 of the product; 2 of twice the mass and the quotient
    varies = up(constant * diameter**exponent, ulps=5)
    return np.asarray((down(least / (2 * mass), ulps=2) > varies) & inner)
