"""How far one row can move the minimiser, whatever the data: the sensitivity that noise is calibrated to."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from epsworth.exposure.fitting import UNIT, check_l2
from epsworth.exposure.glm import ExposureError, loss_named
from epsworth.exposure.inputs import whole
from epsworth.exposure.left_out import Regulariser, check_regulariser
from epsworth.numerals import short
from epsworth.rounding import up

Calibration = Literal["chaudhuri", "add_remove"]


def norm_bound(l2: float, loss: str = "logistic") -> float:
    """Return a bound R on the norm of every minimiser with rows in the unit ball.

    Parameters
    ----------
    l2 : float
        Weight of ``|f|^2 / 2`` beside the mean loss.
    loss : {"logistic", "squared", "probit"}
        Loss of the margin.

    Raises
    ------
    ExposureError
        For a weight that is not positive, and an unknown loss.

    Examples
    --------
    >>> from epsworth.exposure import norm_bound
    >>> round(norm_bound(1.0), 6)
    0.401058

    Notes
    -----
    At the minimiser ``l2 |f|^2 = mean(-m_j l'(m_j))`` with ``m_j <= |f|``, and ``-m l'(m)`` rises up to its peak.
    """
    from scipy.optimize import brentq

    law = loss_named(loss)
    weight = check_l2(l2)

    def excess(radius: float) -> float:
        return weight * radius + float(law.slope(np.array(radius)))

    if excess(law.peak) < 0:
        return up(math.sqrt(law.most / weight), ulps=2)
    radius = float(brentq(excess, 0.0, law.peak, xtol=1e-15, rtol=1e-14))  # of l2 R = -l'(R), below the peak
    ulps = 1.0
    while (
        excess(radius) <= UNIT * (law.slope_ulps + 4) * weight * radius
    ):  # what rounding may hide of a rising function
        radius, ulps = up(radius, ulps=ulps), 2 * ulps
    return radius


def sensitivity(
    n: int,
    l2: float,
    calibration: Calibration = "chaudhuri",
    *,
    regulariser: Regulariser = "mean",
    loss: str = "logistic",
) -> float:
    """Return a data-independent bound on the distance between neighbouring minimisers.

    Claim: for every pair of neighbours whose larger set has at least ``n`` rows of the unit ball, the exact minimisers
    are at most this far apart.  ``n`` must be public: noise calibrated to a private size is not purely private.

    Parameters
    ----------
    n : int
        Public number of rows, or a public lower bound on it.
    l2 : float
        Weight of ``|f|^2 / 2`` beside the mean loss.
    calibration : {"chaudhuri", "add_remove"}
        ``2 / (n l2)``, valid for a replaced and for an added or removed row (losses of slope at most 1); or
        ``C / ((n - 1) l2)`` for one row added or removed, about half of it.
    regulariser : {"mean", "sum"}
        What stays fixed between neighbours, see `loo`.
    loss : {"logistic", "squared", "probit"}
        Loss of the margin.

    Raises
    ------
    ExposureError
        For fewer than two rows, a weight that is not positive, and unknown words.

    Examples
    --------
    >>> from epsworth.exposure import sensitivity
    >>> round(sensitivity(1001, 0.1), 5), round(sensitivity(1001, 0.1, "add_remove"), 5)
    (0.01998, 0.01008)

    References
    ----------
    Chaudhuri, Monteleoni & Sarwate 2011, Corollary 8, for ``chaudhuri``; ``C = l2 R + |l'(-R)|`` with `norm_bound`'s R.
    """
    weight, law = check_l2(l2), loss_named(loss)
    n = whole("n", n, 2)
    check_regulariser(regulariser)
    if not isinstance(calibration, str) or calibration not in ("chaudhuri", "add_remove"):
        raise ExposureError(f"calibration must be chaudhuri or add_remove, got {short(calibration)}")
    if (calibration == "chaudhuri" or regulariser == "sum") and math.isinf(law.steepest):
        raise ExposureError(
            f"the slope of the {loss} loss is not bounded; use calibration='add_remove' with regulariser='mean'"
        )
    if calibration == "chaudhuri":
        return up(2 * law.steepest / (n * weight), ulps=3)
    if regulariser == "sum":  # the neighbour's gradient is g_i alone, of norm at most the steepest slope
        return up(law.steepest / (n * weight), ulps=3)
    radius = norm_bound(weight, loss)  # the largest norm, for the regulariser's part and the steepest slope
    pull = up(weight * radius - float(law.slope(np.array(-radius))), ulps=law.slope_ulps + 3)
    return up(pull / ((n - 1) * weight), ulps=3)
