"""Epsilon and delta of several releases: the exact profile's connected dots, convolved (`epsworth.composition`).

Binning the *outputs* would be no bound: that is post-processing, which lowers delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from epsworth.composition import Losses, finest
from epsworth.noise.mechanism import Boosted, NoiseMechanism
from epsworth.noise.profiles import smallest_epsilon
from epsworth.noise.regions import Absolute
from epsworth.rounding import up

POINTS = 4000  # grid points on either side of zero
WIDE = 50.0  # a loss of which it makes no difference whether it is larger
BEYOND = (1e-4, 1e-2, 0.3)  # shares of delta/T that may lie beyond the last grid point; the first that can


def composed_epsilon(noise: NoiseMechanism, delta: float, releases: int, *, points: int = POINTS) -> float:
    """Return an epsilon kept by ``releases`` independent releases together, with this delta in all.

    Never below the truth; infinite where no epsilon is kept.  Gaussian noise without a boost is exact.
    """
    if releases == 1:
        return noise.epsilon(delta)
    pure = up(releases * noise.pure_epsilon)
    if noise.gaussian is not None:
        reach = up(noise.gaussian * math.sqrt(releases), ulps=2)  # T answers are one answer of this sensitivity
        return Boosted("gaussian", 1.0, 1.0, Absolute(reach), reach).epsilon(delta)
    if delta == 0:
        return pure
    reach = _reach(noise, delta / releases)
    if not math.isfinite(reach):
        return pure
    if reach == 0:
        return 0.0
    return min(Losses.of(noise.profile, reach, finest(releases, points)).epsilon(delta, releases), pure)


def deltas_around(
    noise: NoiseMechanism, releases: int, points: int = POINTS, *, epsilon: float = 0.0, beyond: float = 1e-12
) -> Callable[[float], float]:
    """Return what gives deltas that releases keep together, at epsilons of any sign: sharp around one of them.

    Never below the truth.  ``beyond`` bounds the mass of one release's loss that the grid does not resolve.
    """
    if releases == 1:
        return lambda epsilon: float(noise.deltas(epsilon))
    reach = min(float(smallest_epsilon(noise.profile, beyond)), noise.pure_epsilon)
    if not 0 < reach < math.inf:  # more than that is lost wholly, or hardly anything at all
        reach = WIDE
    return Losses.of(noise.profile, reach, finest(releases, points)).around(epsilon, releases)


def _reach(noise: NoiseMechanism, delta: float) -> float:
    """Return a loss beyond which hardly anything lies."""
    for share in BEYOND:
        reach = min(float(smallest_epsilon(noise.profile, share * delta)), noise.pure_epsilon)
        if math.isfinite(reach):
            return reach
    return math.inf
