"""The staircase mechanism with the least pure epsilon for |noise| <= theta with probability 1 - beta.

Density a on [0, g D), a e^-eps on [g D, D), times e^(-k eps) on the k-th period, mirrored.  With theta = (j + r) D,
0 <= r < 1, the mass within theta rises in g up to r and falls beyond: g = r, and
beta = e^(-(j + 1) eps) / (r + e^-eps (1 - r)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth import laws
from epsworth.arrays import Bools, Floats, as_floats
from epsworth.noise.mechanism import NoiseMechanism
from epsworth.search import last_passing

TAIL = 1e-17  # beyond this, the law that is drawn from for analysis is cut
WHOLE = 1e-12  # theta / sensitivity this near below a whole number counts as it: rounding of decimals


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
        decay = np.exp(-self.loss)
        return float((1 - decay) / (2 * (self.share + decay * (1 - self.share))))

    def profile(self, epsilon: ArrayLike) -> Floats:
        """Return P+ (1 - e^(epsilon - loss)), P+ being the mass at which the loss is reached."""
        reached = 0.5 + min(self.share, 1 - self.share) * self._top
        return np.maximum(-reached * np.expm1(as_floats(epsilon) - self.loss) * (1 + 1e-14), 0.0)

    @property
    def pure_epsilon(self) -> float:
        """The stated loss."""
        return self.loss

    @property
    def confidence(self) -> float:
        """Pr[|noise| <= theta]."""
        periods, rest = _periods(self.theta, self.sensitivity)
        decay = np.exp(-self.loss)
        within = min(rest, self.share) + decay * max(rest - self.share, 0.0)
        return float(1 - decay**periods * (1 - 2 * self._top * within))

    def law(self, answer: ArrayLike = 0.0) -> laws.Steps:
        """Return the law, cut where less than 1e-17 is left."""
        periods = int(np.ceil(-np.log(TAIL) / self.loss)) + 1
        decay = np.exp(-self.loss * np.arange(periods))
        edges = (np.arange(periods)[:, np.newaxis] + [self.share, 1.0]).ravel()
        low = np.exp(-self.loss) * (1 - self.share)
        masses = (self._top * decay[:, np.newaxis] * [self.share, low]).ravel()
        kept = np.diff(edges, prepend=0.0) > 0
        edges, masses = edges[kept] * self.sensitivity, masses[kept]
        whole = np.concatenate([masses[::-1], masses])
        return laws.Steps(
            as_floats(answer),
            tuple(np.concatenate([-edges[::-1], [0.0], edges]).tolist()),
            tuple((whole / whole.sum()).tolist()),
        )

    @property
    def rmse(self) -> float:
        """Root of the mean squared error."""
        return float(np.sqrt(self.law(0.0).mean_square()))


def best_staircase(theta: float, beta: float, sensitivity: float) -> Staircase:
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
        decay = np.exp(minus_epsilon)
        out = np.exp((periods + 1) * minus_epsilon) / (rest + decay * (1 - rest))
        return np.asarray(out <= beta * (1 - 1e-14))

    low = np.array(-1.0)
    while not kept(low):
        low = 2 * low
    loss = -float(last_passing(kept, low, np.array(0.0)))
    return Staircase(loss, rest, theta, sensitivity)


def _periods(theta: float, sensitivity: float) -> tuple[int, float]:
    """Return how many whole sensitivities theta holds, and the rest as a share of one."""
    ratio = theta / sensitivity
    periods = int(np.floor(ratio * (1 + WHOLE)))
    return periods, max(ratio - periods, 0.0)
