"""What releases of a noise cost: epsilon, what an attacker gains, or the parameter of Renyi or Gaussian privacy.

Several releases are composed from the exact profile's connected dots (`epsworth.composition`); binning the *outputs*
would be no bound: that is post-processing, which lowers delta.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtr, ndtri_exp

from epsworth.arrays import Bools, Floats
from epsworth.composition import Losses, finest
from epsworth.noise.allowed import LARGEST_ORDER
from epsworth.noise.mechanism import Boosted, NoiseMechanism
from epsworth.noise.profiles import smallest_epsilon
from epsworth.noise.regions import Absolute
from epsworth.numerals import short
from epsworth.rounding import UNIT, show_up, up

ALONE = ("epsilon", "advantage", "zcdp", "gdp")
AT = {"tpr": "false positive rate", "renyi": "order"}
RANGES = {"tpr": (1e-15, 0.999999), "renyi": (1.001, LARGEST_ORDER)}
NUMBER = re.compile(r"[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?", re.ASCII)
ENDLESS = ("renyi", "zcdp", "gdp")  # rest on tails that no table of integers has
SAYING = {
    "epsilon": "epsilon", "advantage": "attacker's advantage", "tpr": "attacker's true positive rate",
    "renyi": "Renyi divergence", "zcdp": "zCDP rho", "gdp": "Gaussian-DP mu",
}  # fmt: skip
ENDS = [1.0, *(1 + np.geomspace(1e-2, 1e4, 21)).tolist()]  # of orders: the greatest ratio is looked for between them
MOST_HALVINGS = 400  # of such gaps
NARROW, COARSE = 1e-4, 1e-2  # relative: when an interval of orders is narrow enough; in a search
PLACES = 4000  # epsilons at which a profile is held against a Gaussian's
POINTS = 4000  # grid points on either side of zero, of a composition
WIDE = 50.0  # a loss of which it makes no difference whether it is larger
LOWEST = 20.0  # epsilons below zero of which a true positive rate may be the least
BEYOND = (1e-4, 1e-2, 0.3)  # shares of delta/T that may lie beyond the last grid point; the first that can


@dataclass(frozen=True)
class Objective:
    """What is to be small, of all releases together.

    Examples
    --------
    >>> str(Objective.of("tpr@0.01")), Objective.of("renyi@8").at
    ("attacker's true positive rate at false positive rate 0.01", 8.0)
    """

    name: str = "epsilon"
    at: float | None = None

    @classmethod
    def of(cls, text: object) -> Objective:
        """Read a name, with ``@`` and a number for a rate or an order."""
        name, mark, value = text.partition("@") if isinstance(text, str) else ("", "", "")
        if name in ALONE and not mark:
            return cls(name)
        if name in AT and NUMBER.fullmatch(value):
            low, high = RANGES[name]
            if low <= float(value) <= high:
                return cls(name, float(value))
        raise ValueError(
            f"objective must be {', '.join(ALONE)}, tpr@R with a false positive rate R from {RANGES['tpr'][0]:g} to "
            f"{RANGES['tpr'][1]:g}, or renyi@A with an order A from {RANGES['renyi'][0]:g} to {RANGES['renyi'][1]:g}, "
            f"got {short(text)}"
        )

    @property
    def text(self) -> str:
        """What `of` reads."""
        return self.name if self.at is None else f"{self.name}@{self.at!r}"

    def __str__(self) -> str:
        return SAYING[self.name] + self._where

    @property
    def _where(self) -> str:
        return "" if self.at is None else f" at {AT[self.name]} {self.at:g}"

    def said(self, cost: float) -> str:
        """Show a cost, rounded up."""
        return f"{SAYING[self.name]} {show_up(cost)}{self._where}"

    def cost(self, noise: NoiseMechanism, delta: float, releases: int, points: int = POINTS) -> float:
        """Return what ``releases`` of a noise cost together, never below the truth; infinite where none is known.

        ``delta`` matters to epsilon alone.  The others hold for any.
        """
        if self.name == "epsilon":
            return composed_epsilon(noise, delta, releases, points=points)
        if self.name == "renyi":
            assert self.at is not None
            return up(releases * noise.renyi(self.at))
        if self.name == "zcdp":
            return up(releases * _rho(noise, NARROW if points >= POINTS else COARSE))
        if self.name == "gdp":
            return up(math.sqrt(releases) * _mu(noise), ulps=2)
        deltas = deltas_around(noise, releases, points)
        return deltas(0.0) if self.at is None else _caught(deltas, self.at)


EPSILON = Objective()


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


def _caught(deltas: Callable[[float], float], rate: float) -> float:
    """Return the largest true positive rate at a false positive rate: delta + e^epsilon rate bounds it everywhere."""

    def bound(epsilon: float) -> float:
        return up(deltas(epsilon) + math.exp(epsilon) * rate, ulps=12)

    ends = (-LOWEST, max(-math.log(rate), 1.0))  # convex in e^epsilon; above one beyond, and close to one before
    found = minimize_scalar(bound, bounds=ends, method="bounded", options={"xatol": 1e-6})
    return min(1.0, float(found.fun), bound(0.0))


def _rho(noise: NoiseMechanism, narrow: float) -> float:
    """Return a bound on D_a / a for all orders a: divergences do not fall as orders grow.

    Below the first order, D_a / a is at most its divergence; beyond the last one, at most the pure epsilon over it.
    """
    if noise.gaussian is not None:
        return up(noise.gaussian**2 / 2, ulps=2)
    if not math.isfinite(noise.pure_epsilon):
        return math.inf
    gaps = [(-(divergence := noise.renyi(high)) / low, high, divergence) for low, high in pairwise(ENDS)]
    least = max(divergence / high for _, high, divergence in gaps)
    lows = dict(zip(ENDS[1:], ENDS, strict=False))
    heapq.heapify(gaps)
    for _ in range(MOST_HALVINGS):
        bound, high, divergence = gaps[0]
        if -bound <= least * (1 + narrow):
            break
        middle = math.sqrt(lows[high] * high)
        inner = noise.renyi(middle)
        least, lows[middle], lows[high] = max(least, inner / middle), lows[high], middle
        heapq.heapreplace(gaps, (-divergence / middle, high, divergence))
        heapq.heappush(gaps, (-inner / lows[middle], middle, inner))
    return float(up(max(-gaps[0][0], noise.pure_epsilon / ENDS[-1]), ulps=4))


def _mu(noise: NoiseMechanism) -> float:
    """Return a mu whose Gaussian profile is nowhere below the noise's: at each place the next one's of the Gaussian."""
    if noise.gaussian is not None:
        return noise.gaussian
    if not math.isfinite(noise.pure_epsilon):
        return math.inf
    most = -2 * float(ndtri_exp(-np.logaddexp(0.0, noise.pure_epsilon)))  # of whatever keeps this pure epsilon
    grid = noise.pure_epsilon * np.linspace(0, 1, PLACES + 1)
    deltas, after = noise.profile(grid[:-1]), grid[1:]
    low, high = np.zeros(PLACES), np.full(PLACES, most)
    for _ in range(60):
        middle = (low + high) / 2
        enough = _covers(after, middle, deltas)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return float(up(float(high.max()) * (1 + 1e-12)))


def _covers(epsilon: Floats, mu: Floats, deltas: Floats) -> Bools:
    """Tell where Gaussian noise of sensitivity ``mu`` and scale 1 surely has such a delta.

    Near one, what is missing is compared.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        a, second, off = gaussian_terms(epsilon, mu)
        reached = ndtr(a) * (1 - off) - second * (1 + off) >= deltas
        close = (ndtr(-a) + second) * (1 + off) <= 1 - deltas
    return np.asarray(np.where(deltas < 0.5, reached, close))


def gaussian_terms(epsilon: Floats, mu: Floats | float) -> tuple[Floats, Floats, Floats]:
    """Return of delta = Phi(a) - e^epsilon Phi(b) (Balle & Wang 2018): a, the second term, and its relative error.

    Noise has scale 1 and sensitivity ``mu``.  Logarithms err by 8 roundings each, and by their size.
    """
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return a, np.exp(np.minimum(epsilon + log_ndtr(b), 0.0)), 16 * UNIT * (2 + epsilon + a**2 + b**2)
