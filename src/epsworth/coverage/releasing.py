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
from epsworth.coverage.calibration import Calibration, sensitivity
from epsworth.coverage.fitting import GRADIENT_TOLERANCE, NORM_SLACK, check_data, check_l2, fit_base
from epsworth.coverage.glm import CoverageError
from epsworth.coverage.neighbours import Regulariser
from epsworth.rounding import show_up

DIGITS = 50
BITS = 160  # of each uniform number
FINENESS = 2**16  # lattice steps per sensitivity, at least


@dataclass(frozen=True, eq=False)
class Release:
    """A private model: the only thing in this package that may be published.

    Attributes
    ----------
    coefficients : ndarray of shape ``(d,)``
        The noisy model, multiples of ``step``.
    epsilon, beta, n : float, float, int
        Pure privacy loss per row; rate of the noise; the public size.
    neighbours : str
        What neighbouring data sets differ in.
    step : float
        Lattice spacing, a power of two that depends on public numbers only.
    """

    coefficients: Floats
    epsilon: float
    beta: float
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
    calibration: Calibration = "chaudhuri",
    regulariser: Regulariser = "mean",
    loss: str = "logistic",
) -> Release:
    """Fit, add noise from the operating system, and return a model that is safe to publish.

    Claim: pure epsilon-privacy for one row, up to the 2^-160 grain of the uniform numbers, if ``X``'s scaling, ``l2``,
    ``epsilon`` and ``n`` were chosen without looking at the data.  It cannot be seeded.

    Parameters
    ----------
    X, y : array_like of shape ``(n, d)``, ``(n,)``
        Rows in the unit ball; two different labels.
    l2, epsilon : float
        Weight of the regulariser; pure privacy loss per row.
    n : int
        *Public* number of rows, or a public lower bound; smaller data sets are refused.
    calibration, regulariser, loss
        As in `sensitivity`.

    Examples
    --------
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> print(release(X, y, l2=1.0, epsilon=2.0, n=3))
    pure differential privacy, epsilon 2 per row replaced, added or removed
    """
    rows, labels = check_data(X, y)
    if len(rows) < n:
        raise CoverageError(f"X has {len(rows)} rows, fewer than the public n = {n}; noise for n does not cover it")
    beta, step = noise_rate(n, rows.shape[1], l2, epsilon, calibration, regulariser, loss)
    centre = np.rint(fit_base(rows, labels, l2, loss=loss) / step)
    steps = [int(c) + b for c, b in zip(centre, _noise(rows.shape[1], beta, step), strict=True)]
    relation = "row added or removed" if calibration == "add_remove" else "row replaced, added or removed"
    return Release(as_floats([k * step for k in steps]), epsilon, beta, n, relation, step)


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
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise CoverageError(f"epsilon must be positive and finite, got {epsilon!r}")
    move = sensitivity(n, l2, calibration, regulariser=regulariser, loss=loss)
    move *= 1 + 4 * NORM_SLACK  # rows that long are accepted as lying in the unit ball
    finest = min(move / (1024 * epsilon), move / (FINENESS * math.sqrt(d)))
    step = 2.0 ** math.floor(math.log2(finest))
    # both neighbours' centres are off by half a diagonal of the lattice and by the fit's gradient over l2
    whole = move + step * math.sqrt(d) + 2.02 * GRADIENT_TOLERANCE / check_l2(l2)
    return epsilon / whole * (1 - 1e-14), step


def _noise(d: int, beta: float, step: float) -> list[int]:
    """Draw spherical Laplace noise in lattice steps: Gamma(d) radius times a uniform direction."""
    with localcontext(Context(prec=DIGITS)):
        product = Decimal(1)
        for _ in range(d):
            product *= _uniform()
        radius = -product.ln() / Decimal(beta)
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
