"""Epsilon and delta of several releases: the exact profile's connected dots, convolved (`epsworth.composition`).

Binning the *outputs* would be no bound: that is post-processing, which lowers delta.
"""

from __future__ import annotations

import math
from dataclasses import replace

from epsworth.composition import Losses, finest
from epsworth.noise.mechanism import Boosted, NoiseMechanism
from epsworth.noise.profiles import smallest_epsilon
from epsworth.noise.regions import Absolute
from epsworth.rounding import up

POINTS = 4000  # grid points on either side of zero
BEYOND = (1e-4, 1e-2, 0.3)  # shares of delta/T that may lie beyond the last grid point; the first that can


def composed_epsilon(noise: NoiseMechanism, delta: float, releases: int, *, points: int = POINTS) -> float:
    """Return an epsilon kept by ``releases`` independent releases together, with this delta in all.

    Never below the truth; infinite where no epsilon is kept.  Gaussian noise without a boost is exact.
    """
    if releases == 1:
        return noise.epsilon(delta)
    pure = up(releases * noise.pure_epsilon)
    if isinstance(noise, Boosted) and noise.kernel == "gaussian" and noise.boost == 1:
        reach = up(noise.sensitivity * math.sqrt(releases), ulps=2)  # T answers are one answer of this sensitivity
        return replace(noise, region=Absolute(reach), sensitivity=reach).epsilon(delta)
    if delta == 0:
        return pure
    reach = _reach(noise, delta / releases)
    if not math.isfinite(reach):
        return pure
    if reach == 0:
        return 0.0
    return min(Losses.of(noise.profile, reach, finest(releases, points)).epsilon(delta, releases), pure)


def composed_delta(noise: NoiseMechanism, epsilon: float, releases: int, *, beyond: float = 1e-12) -> float:
    """Return a delta kept by several releases together at this epsilon; never below the truth.

    ``beyond`` bounds the mass of one release's loss that the grid does not resolve.
    """
    reach = min(float(smallest_epsilon(noise.profile, beyond)), noise.pure_epsilon)
    if not math.isfinite(reach):
        raise ValueError(f"the loss exceeds every bound with more than {beyond:g}; take a larger one")
    return Losses.of(noise.profile, reach, finest(releases, POINTS)).delta(epsilon, releases)


def _reach(noise: NoiseMechanism, delta: float) -> float:
    """Return a loss beyond which hardly anything lies."""
    for share in BEYOND:
        reach = min(float(smallest_epsilon(noise.profile, share * delta)), noise.pure_epsilon)
        if math.isfinite(reach):
            return reach
    return math.inf
