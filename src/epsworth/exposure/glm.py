"""Smooth losses of a row's outputs, with the bounds that certificates and sensitivities need.

With two labels a row has one output ``z = f.x`` and the loss is one of the margin ``m = y z``; with K classes it has
K - 1 outputs (`Softmax`).  Arrays of outputs have shape ``(n,)`` or ``(n, K - 1)``, curvatures ``(n,)`` or
``(n, K - 1, K - 1)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import helmert
from scipy.special import erfcx, expit, log_ndtr, logsumexp

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

    output_ulps = 0  # of an output beside those of its sum of products
    stretch = 1.0  # the change of an output that counts is no larger than this times the change of outputs

    def values(self, y: Floats, outputs: Floats) -> Floats:
        """Return each row's loss."""
        return self.value(y * outputs)

    def slopes(self, y: Floats, outputs: Floats) -> Floats:
        """Return its gradient in the outputs."""
        return as_floats(self.slope(y * outputs) * y)

    def curvatures(self, y: Floats, outputs: Floats) -> Floats:
        """Return its second derivative in the outputs."""
        return self.curvature(y * outputs)

    traces = curvatures

    def reaches(self, forms: Floats) -> Floats:
        """Return the largest square of a change of outputs that counts, from their forms."""
        return forms


@dataclass(frozen=True)
class Softmax:
    """Cross-entropy of K classes, whose scores sum to 0: the outputs are their K - 1 orthonormal coordinates.

    ``|D^3 l(z)[u, u, v]| <= range(v) D^2 l(z)[u, u]``, with the range of scores in place of a margin's size: the third
    derivative is the mean of ``(u - mean u)^2 (v - mean v)`` under the softmax (docs/theory/exposure.md).
    """

    classes: int

    name = "multinomial"
    most_curved = 0.5  # a variance is at most a quarter of the squared range, which is at most twice the squared length
    third = up(math.sqrt(0.5), ulps=2)
    stretch = up(math.sqrt(2), ulps=2)
    self_concordant = True

    @property
    def output_ulps(self) -> int:
        """Roundings from outputs to the exponents of probabilities."""
        return self.classes + 8

    @property
    def slope_ulps(self) -> int:
        """Units by which slopes, and half of those by which curvatures, are off: of products with `basis`, mostly."""
        return 2 * self.classes**2 + 8 * self.classes + 16

    @cached_property
    def basis(self) -> Floats:
        """Orthonormal coordinates of scores that sum to 0, shape ``(K, K - 1)``."""
        return as_floats(-helmert(self.classes).T)

    def _probabilities(self, outputs: Floats) -> Floats:
        scores = outputs @ self.basis.T
        found = np.exp(scores - scores.max(axis=1, keepdims=True))
        return as_floats(found / found.sum(axis=1, keepdims=True))

    def values(self, y: Floats, outputs: Floats) -> Floats:
        """Return each row's loss; labels are numbers of classes."""
        scores = outputs @ self.basis.T
        return as_floats(logsumexp(scores - scores[np.arange(len(y)), y.astype(np.int64), np.newaxis], axis=1))

    def slopes(self, y: Floats, outputs: Floats) -> Floats:
        """Return its gradient in the outputs."""
        found, own = self._probabilities(outputs), (np.arange(len(y)), y.astype(np.int64))
        found[own] = 0.0
        found[own] = -found.sum(axis=1)  # without the cancellation of p - 1
        return as_floats(found @ self.basis)

    def curvatures(self, y: Floats, outputs: Floats) -> Floats:
        """Return its second derivative in the outputs."""
        p, every = self._probabilities(outputs), np.arange(self.classes)
        found = -p[:, :, np.newaxis] * p[:, np.newaxis, :]
        found[:, every, every] = 0.0
        found[:, every, every] = -found.sum(axis=2)
        return as_floats(self.basis.T @ found @ self.basis)

    def traces(self, y: Floats, outputs: Floats) -> Floats:
        """Return the traces of `curvatures`."""
        p = self._probabilities(outputs)
        return as_floats((p * (1 - p)).sum(axis=1))

    def reaches(self, forms: Floats) -> Floats:
        """Return the largest square of a difference of scores, from the outputs' forms."""
        of_scores = self.basis @ forms @ self.basis.T
        squares = np.einsum("ikk->ik", of_scores)
        pairs = squares[:, :, np.newaxis] + squares[:, np.newaxis, :] - 2 * of_scores
        return as_floats(pairs.max(axis=(1, 2)))


RowLoss = Loss | Softmax


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
    if name == Softmax.name:
        raise ExposureError("loss 'multinomial' is for `fit_base` and `moves`; here give a binary target")
    if not isinstance(name, str) or name not in LOSSES:
        raise ExposureError(f"loss must be one of {', '.join(LOSSES)}, got {short(name)}")
    return LOSSES[name]
