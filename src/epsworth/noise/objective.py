"""What a noise costs: epsilon, what an attacker gains, or the parameter of a Renyi or Gaussian notion of privacy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtr

from epsworth.arrays import Floats, as_floats
from epsworth.noise.composition import POINTS, composed_epsilon, deltas_around
from epsworth.noise.mechanism import NoiseMechanism
from epsworth.numerals import short
from epsworth.rounding import show_up, up

ALONE = ("epsilon", "advantage", "zcdp", "gdp")
AT = {"tpr": "false positive rate", "renyi": "order"}
SAYING = {
    "epsilon": "epsilon", "advantage": "attacker's advantage", "tpr": "attacker's true positive rate",
    "renyi": "Renyi divergence", "zcdp": "zCDP rho", "gdp": "Gaussian-DP mu",
}  # fmt: skip
ORDERS = 1 + np.geomspace(1e-2, 1e4, 21)  # between which the greatest ratio of a zCDP bound is looked for
NARROW, COARSE = 1e-4, 1e-2  # relative: when an interval of orders is narrow enough; in a search
PLACES = 4000  # epsilons at which a profile is held against a Gaussian's


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
        if name in AT and mark:
            try:
                at = float(value)
            except ValueError:
                at = math.nan
            if (name == "tpr" and 0 < at < 1) or (name == "renyi" and 1 < at < math.inf):
                return cls(name, at)
        raise ValueError(
            f"objective must be {', '.join(ALONE)}, tpr@R with a false positive rate R in (0, 1), or renyi@A with an "
            f"order A above 1, got {short(text)}"
        )

    @property
    def text(self) -> str:
        """What `of` reads."""
        return self.name if self.at is None else f"{self.name}@{self.at!r}"

    def __str__(self) -> str:
        """Name what is small."""
        return SAYING[self.name] + ("" if self.at is None else f" at {AT[self.name]} {self.at:g}")

    def said(self, cost: float) -> str:
        """Show a cost, rounded up."""
        return f"{self} {show_up(cost)}"

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


def _caught(deltas: Callable[[float], float], rate: float) -> float:
    """Return the largest true positive rate at a false positive rate: delta + e^epsilon rate bounds it everywhere."""

    def bound(epsilon: float) -> float:
        return up(deltas(epsilon) + math.exp(epsilon) * rate, ulps=12)

    reach = max(-math.log(rate), 1.0)
    found = minimize_scalar(bound, bounds=(-reach, reach), method="bounded", options={"xatol": 1e-6})
    return min(1.0, float(found.fun), bound(0.0))


def _rho(noise: NoiseMechanism, narrow: float) -> float:
    """Return a bound on D_a / a for all orders a: divergences do not fall as orders grow.

    Below the first order, D_a / a is at most its divergence; beyond the last one, at most the pure epsilon over it.
    """
    if noise.gaussian is not None:
        return up(noise.gaussian**2 / 2, ulps=2)
    if not math.isfinite(noise.pure_epsilon):
        return math.inf
    ends = [1.0, *ORDERS.tolist()]
    gaps = [(low, high, noise.renyi(high)) for low, high in pairwise(ends)]
    least = max(divergence / high for _, high, divergence in gaps)
    most = noise.pure_epsilon / ends[-1]
    while gaps:
        low, high, divergence = gaps.pop()
        if divergence / low <= least * (1 + narrow) or high / low < 1 + narrow:
            most = max(most, divergence / low)
            continue
        middle = math.sqrt(low * high)
        inner = noise.renyi(middle)
        least = max(least, inner / middle)
        gaps += [(low, middle, inner), (middle, high, divergence)]
    return float(up(most, ulps=2))


def _mu(noise: NoiseMechanism) -> float:
    """Return a mu whose Gaussian profile is nowhere below the noise's: at each place the next one's of the Gaussian."""
    if noise.gaussian is not None:
        return noise.gaussian
    if not math.isfinite(noise.pure_epsilon):
        return math.inf
    grid = noise.pure_epsilon * np.linspace(0, 1, PLACES + 1)
    deltas, after = noise.profile(grid[:-1]), grid[1:]
    low, high = np.zeros(PLACES), np.full(PLACES, 1.0)
    while (short_of := _gaussian(after, high) < deltas).any():
        high[short_of] *= 2
        if high.max() > 1e6:
            return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        enough = _gaussian(after, middle) * (1 - 1e-12) >= deltas
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return up(float(high.max()))


def _gaussian(epsilon: Floats, mu: Floats) -> Floats:
    """Return delta of Gaussian noise of sensitivity ``mu`` and scale 1 (Balle & Wang 2018)."""
    with np.errstate(divide="ignore", over="ignore"):
        return as_floats(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))
