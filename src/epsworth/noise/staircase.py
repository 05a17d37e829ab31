"""The staircase mechanism with the least pure epsilon for |noise| <= theta with a given confidence.

Density a on [0, g D), a e^-eps on [g D, D), times e^(-k eps) on the k-th period, mirrored.  With theta = (j + r) D,
0 <= r < 1, the mass within theta rises in g up to r and falls beyond: g = r, and
Pr[|noise| > theta] = e^(-(j + 1) eps) / (r + e^-eps (1 - r)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.mechanisms.steps import Steps
from epsworth.noise.allowed import in_decimals
from epsworth.noise.mechanism import NoiseMechanism, TooLarge
from epsworth.rounding import float_below, up
from epsworth.search import last_passing

TAIL = 1e-17  # beyond this, the law that is drawn from for analysis is cut
MOST_PERIODS = 1 << 17  # of the law's table


@dataclass(frozen=True, eq=False)
class Staircase(NoiseMechanism):
    """Staircase noise for a sensitivity: pure epsilon.

    Attributes
    ----------
    loss : float
        The pure epsilon.
    share : float
        g: how much of a period the upper step takes, in [0, 1).
    theta, sensitivity : float
        The preferred half-width, and the period.
    """

    loss: float
    share: float
    theta: float
    sensitivity: float

    @property
    def _top(self) -> float:
        """The upper step's density times the sensitivity."""
        return float(-np.expm1(-self.loss) / (2 * (self.share + np.exp(-self.loss) * (1 - self.share))))

    def profile(self, epsilon: ArrayLike) -> Floats:
        """Return P+ (1 - e^(epsilon - loss)), P+ being the mass at which the loss is reached; never rounded down.

        Roundings: 24 of P+ (two exponentials at 8, sums and products), 9 of the other factor, one of the product.
        """
        reached = 0.5 + min(self.share, 1 - self.share) * self._top
        lost = -reached * np.expm1(as_floats(epsilon) - self.loss)
        return np.where(lost > 0, up(lost, ulps=34), 0.0)

    @property
    def pure_epsilon(self) -> float:
        """The stated loss."""
        return self.loss

    def renyi(self, order: float) -> float:
        """Return the Renyi divergence: the loss is the pure epsilon on a mass P+, its negative on P+ e^-eps, or 0.

        M - 1 = P+ ((e^((a - 1) eps) - 1) + e^-eps (e^((1 - a) eps) - 1)), whose logarithm is taken in parts.
        """
        reached = 0.5 + min(self.share, 1 - self.share) * self._top
        gain = (order - 1) * self.loss
        back = math.exp(-self.loss) * math.expm1(-gain) / math.exp(min(gain, 700.0))
        moment = gain + math.log(reached) + math.log1p(back - math.exp(-gain) + math.exp(-gain) / reached)
        return max(0.0, up(moment / (order - 1), ulps=64) + 1e-14 / (order - 1))

    @property
    def outside(self) -> float:
        """Pr[|noise| > theta]."""
        periods, rest = _periods(self.theta, self.sensitivity)
        return float(_outside(np.array(-self.loss), periods, rest))

    def law(self, answer: ArrayLike = 0.0) -> Steps:
        """Return the law, cut where less than 1e-17 is left."""
        periods = int(np.ceil(-np.log(TAIL) / self.loss)) + 1
        if periods > MOST_PERIODS:
            raise TooLarge(
                f"the staircase with epsilon {self.loss:g} needs a table of {periods} periods, more than "
                f"{MOST_PERIODS}; draw from 'laplace', which it hardly differs from"
            )
        decay = np.exp(-self.loss * np.arange(periods))
        edges = (np.arange(periods)[:, np.newaxis] + [self.share, 1.0]).ravel()
        low = np.exp(-self.loss) * (1 - self.share)
        masses = (self._top * decay[:, np.newaxis] * [self.share, low]).ravel()
        kept = np.diff(edges, prepend=0.0) > 0
        edges, masses = edges[kept] * self.sensitivity, masses[kept]
        whole = np.concatenate([masses[::-1], masses])
        return Steps(
            as_floats(answer),
            tuple(np.concatenate([-edges[::-1], [0.0], edges]).tolist()),
            tuple((whole / whole.sum()).tolist()),
        )

    @property
    def rmse(self) -> float:
        """Root of the mean squared error: z^2 over both steps of every period, summed as geometric series."""
        decay, rest, g = np.exp(-self.loss), -np.expm1(-self.loss), self.share
        cubes = (g**3 + decay * (1 - g**3)) / (3 * rest)
        squares = (g**2 + decay * (1 - g**2)) * decay / rest**2
        lines = (g + decay * (1 - g)) * decay * (1 + decay) / rest**3
        return float(self.sensitivity * np.sqrt(2 * self._top * (cubes + squares + lines)))


def best_staircase(theta: float, failure: float, sensitivity: float) -> Staircase:
    """Return the staircase mechanism with the least epsilon.

    Examples
    --------
    >>> round(best_staircase(0.5, 0.1, 1.0).pure_epsilon, 6)
    2.944439

    References
    ----------
    Geng & Viswanath 2014; the optimal share follows from the constraint.
    """
    periods, rest = _periods(theta, sensitivity)

    def kept(minus_epsilon: Floats) -> Bools:
        return np.asarray(_outside(minus_epsilon, periods, rest) <= failure)

    low = np.array(-1.0)
    while not kept(low):
        low = 2 * low
    loss = -float(last_passing(kept, low, np.array(0.0)))
    return Staircase(loss, rest, theta, sensitivity)


def _outside(minus_epsilon: Floats, periods: int, share: float) -> Floats:
    """Return Pr[|noise| > theta], rounded up: one rounding per unit of the exponent, 8 of each exponential, 4 more."""
    exponent = (periods + 1) * minus_epsilon
    out = np.exp(exponent) / (share + np.exp(minus_epsilon) * (1 - share))
    return np.minimum(up(out, ulps=20 + np.abs(exponent)), 1.0)


def _periods(theta: float, sensitivity: float) -> tuple[int, float]:
    """Return how many whole sensitivities theta holds, and the rest as a share of one, rounded down; in decimals."""
    periods, rest = divmod(in_decimals(theta) / in_decimals(sensitivity), 1)
    return int(periods), float_below(rest)
