"""The published detector: where the ratio of loss to epsilon starts to rise.  A plateau there is *not* protection.

LeBlond et al. 2023 plot the mean size of the loss over beta and read a plateau at small beta as "all samples are
protected, smaller epsilons gain nothing".  A plateau of that *ratio* means that the loss is proportional to epsilon:
halving epsilon halves every row's loss.  Where it ends, the best attack on the most exposed row is right 86 % of the
time in two dimensions, and 98 % at the published line (Adult, two columns).  The rule is kept to reproduce the paper.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from epsworth.exposure.distances import Kernels, kernels
from epsworth.exposure.glm import ExposureError
from epsworth.exposure.inputs import finite, whole

RISE = 0.05


def onset(scale: ArrayLike, ratio: ArrayLike, share: float = RISE, *, first: int = 5) -> float:
    """Return the first scale after which the curve stays above its low level by this share of its rise.

    The low level is the median of the ``first`` points, the high one the last point.  Curves may dip on their way.

    Parameters
    ----------
    scale, ratio : array_like of shape ``(m,)``
        A curve: where, rising, and its values.
    share : float
        Of the rise from the low to the high level.
    first : int
        How many points tell the low level.

    Raises
    ------
    ExposureError
        For curves of different lengths, or with hardly more than the ``first`` points.

    Examples
    --------
    >>> from epsworth.exposure import onset
    >>> onset([1, 2, 3, 4, 5, 6, 7], [1, 1, 1, 1, 1, 3, 4])
    6.0
    """
    first = whole("first", first, 1)
    at, curve = finite(scale, "scale"), finite(ratio, "ratio")
    if at.ndim != 1 or at.shape != curve.shape or len(at) < first + 1:
        raise ExposureError(f"scale and ratio must be two curves of the same length, at least {first + 1} points")
    low, high = float(np.median(curve[:first])), float(curve[-1])
    below = np.flatnonzero(curve < low + share * (high - low))
    last = int(below[-1]) if len(below) else -1
    return float(at[last + 1]) if last + 1 < len(at) else float("inf")


def plateau_ends(d: int) -> tuple[float, float]:
    """Return the u at which ``E|l| / u`` has made 5 % and 95 % of its rise, for good.

    In one dimension it starts at its high level, 1, and there is nothing to detect: an error says so.

    Parameters
    ----------
    d : int
        Number of coefficients.

    Examples
    --------
    >>> from epsworth.exposure import plateau_ends
    >>> [round(u, 1) for u in plateau_ends(2)]
    [3.2, 109.4]
    """
    law = kernels(d)
    if law.d == 1:
        raise ExposureError("in one dimension the ratio has no low plateau; use rule='advantage'")
    return _ends(law)


@lru_cache(maxsize=64)
def _ends(law: Kernels) -> tuple[float, float]:
    u = np.geomspace(1e-4, max(1e5, 1e3 * law.d), 20_000)
    ratio = law.abs(u) / u
    ratio[-1] = 1.0
    return onset(u, ratio, RISE), onset(u, ratio, 1 - RISE)
