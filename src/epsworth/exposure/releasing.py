"""Output perturbation fit for release: operating-system randomness, 50 digits, a public lattice.

The sum of a floating-point model and floating-point noise leaks the model through its low-order bits (Mironov 2012).
Here the model is rounded to a lattice, the noise is drawn with 50 decimal digits and rounded to the same lattice, and
integers are added: rounding to the lattice after adding would give the same result, so it is post-processing.  The
rounding of the model, and the fit's own tolerance, are charged to the sensitivity.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.exposure.calibration import Calibration, norm_bound, sensitivity
from epsworth.exposure.fitting import GRADIENT_TOLERANCE, check_l2, fit, gradient_rounding, into_ball
from epsworth.exposure.glm import ExposureError, loss_named
from epsworth.exposure.inputs import Classes, check_classes, entries, positive, positives
from epsworth.exposure.left_out import Regulariser
from epsworth.numerals import short
from epsworth.results import Result
from epsworth.rounding import down, show_up, up

DIGITS = 50
BITS = 160  # of each uniform number
FINENESS = 2**16  # lattice steps per sensitivity, at least
LEAST_EPSILON = 1e-10  # below, the noise has so many lattice steps that DIGITS would not resolve single ones
MOST_TIMES = 1000  # rows over n where n l2 stays fixed: the weight beside the *mean* loss falls with the rows


@dataclass(frozen=True, eq=False)
class Release(Result):
    """A private model: the only thing in this package that may be published.

    Attributes
    ----------
    coefficients : ndarray of shape ``(d,)``
        The noisy model, multiples of ``step``.
    epsilon, rate, n : float, float, int
        Pure privacy loss per row; rate of the noise; the public size.
    neighbours : str
        What neighbouring data sets differ in.
    step : float
        Lattice spacing, a power of two that depends on public numbers only.

    Examples
    --------
    >>> from epsworth.exposure import release
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> found = release(X, y, l2=1.0, epsilon=2.0, n=3)
    >>> found.coefficients.shape, found.epsilon, round(found.rate, 2)
    ((2,), 2.0, 3.0)
    """

    coefficients: Floats
    epsilon: float
    rate: float
    n: int
    neighbours: str
    step: float

    def __str__(self) -> str:
        """Return the promise with its neighbour relation."""
        return f"pure differential privacy, epsilon {show_up(self.epsilon)} per {self.neighbours}"


def release(
    X: ArrayLike,
    y: ArrayLike,
    l2: float,
    epsilon: float,
    *,
    n: int,
    classes: Classes = (-1, 1),
    calibration: Calibration = "chaudhuri",
    regulariser: Regulariser = "mean",
    loss: str = "logistic",
) -> Release:
    """Fit, add noise from the operating system, and return a model that is safe to publish.

    Claim: pure epsilon-privacy for one row, up to the 2^-160 grain of the uniform numbers, if ``X``'s scaling, ``l2``,
    ``epsilon``, ``n`` and ``classes`` were chosen without looking at the data.  It cannot be seeded.

    No value is refused, since a refusal would tell two neighbours apart: rows longer than 1 are shortened to 1, a row
    with a missing or infinite value, or one that is no number, counts as zeros, and every label but the second class
    counts as the first.  What is refused depends on shapes, on the declared types of columns (texts, dates, categories,
    complex numbers; labels that are numbers for classes that are texts, or the reverse, or of a precision in which the
    classes are one) and on the declared numbers alone.

    Parameters
    ----------
    X, y : array_like of shape ``(n, d)``, ``(n,)``
        Rows in the unit ball, and their labels.
    l2, epsilon : float
        Weight of the regulariser; pure privacy loss per row.
    n : int
        *Public* number of rows, or a public lower bound; smaller data sets are refused, so the promise is for
        neighbours of at least ``n`` rows each.
    classes : pair of labels
        The two labels, *declared*: which of them occur in the data is private.  The second one is +1.
    calibration, regulariser, loss
        As in `sensitivity`; with ``"sum"`` the weight beside the summed loss is the public ``n l2``.

    Examples
    --------
    >>> from epsworth.exposure import release
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> print(release(X, y, l2=1.0, epsilon=2.0, n=3))
    pure differential privacy, epsilon 2 per row replaced, added or removed
    """
    pair = check_classes(classes)
    table = entries(X)
    labels = np.where(positives(y, len(table), pair), 1.0, -1.0)
    rate, step = noise_rate(n, table.shape[1], l2, epsilon, calibration, regulariser, loss)
    if len(table) < n:
        raise ExposureError(f"X has {len(table)} rows, fewer than the public n = {n}; noise for n does not cover it")
    weight, tolerance = check_l2(l2), GRADIENT_TOLERANCE
    if regulariser == "sum":  # n l2 beside the sum, however many rows there are
        if len(table) > MOST_TIMES * n:
            raise ExposureError(f"X has more than {MOST_TIMES} times the public n = {n} rows; declare a larger n")
        weight, tolerance = weight * n / len(table), tolerance * n / len(table)
    centre = np.rint(fit(into_ball(table), labels, weight, loss_named(loss), tolerance) / step)
    steps = [int(c) + b for c, b in zip(centre, _noise(table.shape[1], rate, step), strict=True)]
    relation = "row added or removed" if calibration == "add_remove" else "row replaced, added or removed"
    return Release(as_floats([k * step for k in steps]), float(epsilon), rate, n, relation, step)


def noise_rate(
    n: int,
    d: int,
    l2: float,
    epsilon: float,
    calibration: Calibration = "chaudhuri",
    regulariser: Regulariser = "mean",
    loss: str = "logistic",
) -> tuple[float, float]:
    """Return the rate of the noise of a release, and the lattice step: functions of public numbers only."""
    epsilon = positive("epsilon", epsilon)
    if not LEAST_EPSILON <= epsilon <= 1 / LEAST_EPSILON:
        raise ExposureError(
            f"epsilon must lie between {LEAST_EPSILON:g} and {1 / LEAST_EPSILON:g}, got {short(epsilon)}; beyond, the "
            f"noise needs more than {DIGITS} digits"
        )
    move = sensitivity(n, l2, calibration, regulariser=regulariser, loss=loss)
    # a shortened row is longer than 1 by d/2 + 3 units of rounding at most, and no bound grows faster than its cube
    move = up(move, ulps=2 * d + 10)
    finest = min(move / (1024 * epsilon), move / (FINENESS * math.sqrt(d)))
    step = 2.0 ** math.floor(math.log2(finest))
    # both neighbours' centres are off by half a diagonal of the lattice and by the fit's gradient over l2
    weight = check_l2(l2) / (MOST_TIMES if regulariser == "sum" else 1)  # the least beside the mean loss
    left = GRADIENT_TOLERANCE / check_l2(l2) + gradient_rounding(d, norm_bound(weight, loss), loss_named(loss)) / weight
    return down(epsilon / (move + step * math.sqrt(d) + 2 * left), ulps=16), step  # a dozen roundings


def _noise(d: int, rate: float, step: float) -> list[int]:
    """Draw spherical Laplace noise in lattice steps: Gamma(d) radius times a uniform direction."""
    with localcontext(Context(prec=DIGITS)):
        product = Decimal(1)
        for _ in range(d):
            product *= _uniform()
        radius = -product.ln() / Decimal(rate)
        direction = [_normal() for _ in range(d)]
        length = sum((z * z for z in direction), Decimal(0)).sqrt()
        return [int((radius * z / length / Decimal(step)).to_integral_value()) for z in direction]


def _uniform() -> Decimal:
    """Draw from (0, 1]."""
    return Decimal(secrets.randbits(BITS) + 1) / Decimal(2**BITS)


def _normal() -> Decimal:
    """Draw by the polar method (Marsaglia & Bray 1964): rejection, a logarithm and a square root."""
    while True:
        a, b = 2 * _uniform() - 1, 2 * _uniform() - 1
        s = a * a + b * b
        if 0 < s < 1:
            return a * (-2 * s.ln() / s).sqrt()
