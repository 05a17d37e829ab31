"""Epsilon of several releases: connect-the-dots on the exact profile, convolved by the dp-accounting library.

The profile sampled at i h is itself the profile of a dominating pair (Doroshenko et al. 2022), so what is composed
bounds the truth at every grid size.  Binning the *outputs* would not: that is post-processing and lowers delta.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from epsworth.arrays import Floats
from epsworth.noise.mechanism import Boosted, NoiseMechanism, TooLarge
from epsworth.noise.profiles import smallest_epsilon
from epsworth.noise.regions import Absolute
from epsworth.rounding import up

POINTS, LEAST_POINTS = 4000, 200  # grid points on either side of zero
ROOM = 4_000_000  # of them, over all releases: composing takes some 40 bytes for each
BEYOND = (1e-4, 1e-2, 0.3)  # shares of delta/T that may lie beyond the last grid point; the first that can
MISSING = (
    "composing several releases needs dp-accounting; install it with: pip install 'epsworth[accounting]' "
    "(one release works without it)"
)


def composed_epsilon(noise: NoiseMechanism, delta: float, releases: int, *, points: int = POINTS) -> float:
    """Return an epsilon kept by ``releases`` independent releases together, with this delta in all.

    Never below the truth; infinite where no epsilon is kept.  Gaussian noise without a boost is exact.  `TooLarge` for
    other noise and more releases than memory allows a grid for.
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
    points = _points(releases, points)
    from_dots = _connect(noise, reach / points, points).self_compose(releases).get_epsilon_for_delta(delta)
    return min(float(from_dots), pure)


def composed_delta(noise: NoiseMechanism, epsilon: float, releases: int, *, beyond: float = 1e-12) -> float:
    """Return a delta kept by several releases together at this epsilon; never below the truth.

    ``beyond`` bounds the mass of one release's loss that the grid does not resolve.
    """
    reach = min(float(smallest_epsilon(noise.profile, beyond)), noise.pure_epsilon)
    if not math.isfinite(reach):
        raise ValueError(f"the loss exceeds every bound with more than {beyond:g}; take a larger one")
    points = _points(releases)
    return float(_connect(noise, reach / points, points).self_compose(releases).get_delta_for_epsilon(epsilon))


def _points(releases: int, wanted: int = POINTS) -> int:
    """Return how fine the grid may be; every one gives a bound."""
    found = min(wanted, ROOM // releases)
    if found < LEAST_POINTS:
        raise TooLarge(
            f"composing more than {ROOM // LEAST_POINTS:,} releases of it takes more memory than 1 GB; ask about fewer"
        )
    return found


def _reach(noise: NoiseMechanism, delta: float) -> float:
    """Return a loss beyond which hardly anything lies."""
    for share in BEYOND:
        reach = min(float(smallest_epsilon(noise.profile, share * delta)), noise.pure_epsilon)
        if math.isfinite(reach):
            return reach
    return math.inf


def _connect(noise: NoiseMechanism, step: float, points: int):  # type: ignore[no-untyped-def]
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError:
        raise ImportError(MISSING) from None
    deltas = sampled_profile(noise, step, points)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, np.arange(-points, points + 1), deltas)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def sampled_profile(noise: NoiseMechanism, step: float, points: int) -> Floats:
    """Return delta at -points .. points steps of epsilon: falling, and never below the truth.

    delta(-e) = 1 - e^-e + e^-e delta(e).  Two exponentials at eight roundings, and three of products and sums.
    """
    grid = np.arange(points + 1) * step
    above = np.maximum.accumulate(noise.profile(grid)[::-1])[::-1]  # rounding must not make deltas rise
    below = up(-np.expm1(-grid[:0:-1]) + np.exp(-grid[:0:-1]) * above[:0:-1], ulps=20)
    deltas = np.minimum(np.concatenate([np.maximum(below, above[0]), above]), 1.0)
    return np.asarray(np.maximum.accumulate(deltas[::-1])[::-1])
