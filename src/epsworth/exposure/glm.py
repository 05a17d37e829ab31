"""Smooth losses of the margin ``m = y f.x``, with the bounds that certificates and sensitivities need."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, expit, log_ndtr

from epsworth.arrays import Floats, as_floats
from epsworth.numerals import short
from epsworth.rounding import up


class ExposureError(ValueError):
    """Data or parameters for which no statement about single rows can be made.

    Examples
    --------
    >>> from epsworth.exposure import ExposureError, fit_base
    >>> try:
    ...     fit_base([[0.5, 0.0], [0.0, 3.0]], [1, -1], 1.0)
    ... except ExposureError as told:
    ...     print(told)
    X, row 1 lies outside the unit ball (its norm is above 1); divide all rows by a public bound
    """


@dataclass(frozen=True)
class Loss:
    """A convex, decreasing-at-0 loss of the margin, its derivatives and their bounds.

    ``steepest``, ``most_curved`` and ``third`` bound ``|l'|``, ``l''`` and ``|l'''|`` over all margins (``inf``: none).
    ``peak`` is where ``-m l'(m)`` is largest over ``m >= 0`` and ``most`` that largest value, rounded up;
    ``-m l'(m)`` rises up to ``peak``.  ``slope_ulps``: units of 2^-53 by which a computed slope may be off, its product
    with a row included.  ``self_concordant``: ``|l'''| <= l''`` at every margin.
    """

    name: str
    value: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]
    curvature: Callable[[Floats], Floats]
    steepest: float
    most_curved: float
    third: float
    peak: float
    most: float
    slope_ulps: int
    self_concordant: bool = False


def _logistic(m: Floats) -> Floats:
    return as_floats(np.logaddexp(0.0, -m))


def _logistic_slope(m: Floats) -> Floats:
    return as_floats(-expit(-m))


def _logistic_curvature(m: Floats) -> Floats:
    return as_floats(expit(m) * expit(-m))


def _mills(m: Floats) -> Floats:
    """Return density over distribution of the standard normal law, good to a few roundings in both tails."""
    return as_floats(math.sqrt(2 / math.pi) / erfcx(-m / math.sqrt(2)))  # erfcx: "relative error below 1e-13"


def _probit_curvature(m: Floats) -> Floats:
    ratio = _mills(m)
    return as_floats(np.clip(ratio * (ratio + m), 0.0, 1.0))  # rounding takes it a little out of [0, 1] at m << 0


# Logistic: |l'''| <= 1/(6 sqrt 3) where sigma is (1 +- 1/sqrt 3)/2; max m sigma(-m) = W(1/e) = 0.27846454276107...
LOGISTIC = Loss(
    "logistic", _logistic, _logistic_slope, _logistic_curvature,
    steepest=1.0, most_curved=0.25, third=up(1 / (6 * math.sqrt(3)), ulps=2), peak=1.2784, most=0.27846454276108,
    slope_ulps=8,  # an exponential, a sum, a quotient, a product: 5 roundings, of which the exponential takes two
    self_concordant=True,  # l''' = l'' (1 - 2 sigma)
)  # fmt: skip
SQUARED = Loss(
    "squared", lambda m: 0.5 * (1 - m) ** 2, lambda m: m - 1, lambda m: np.ones_like(m),
    steepest=math.inf, most_curved=1.0, third=0.0, peak=0.5, most=0.25, slope_ulps=4,
)  # fmt: skip
PROBIT = Loss(
    "probit", lambda m: as_floats(-log_ndtr(m)), lambda m: -_mills(m), _probit_curvature,
    steepest=math.inf, most_curved=1.0, third=0.29572, peak=0.8399, most=0.29453, slope_ulps=1000,
)  # fmt: skip
LOSSES = {loss.name: loss for loss in (LOGISTIC, SQUARED, PROBIT)}


def loss_named(name: str) -> Loss:
    """Return one of `LOSSES`, or say which there are."""
    if name not in LOSSES:
        raise ExposureError(f"loss must be one of {', '.join(LOSSES)}, got {short(name)}")
    return LOSSES[name]
