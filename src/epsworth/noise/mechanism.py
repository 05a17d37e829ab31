"""What every noise offers: its exact profile, its promise about the region, its law."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from epsworth import laws
from epsworth.arrays import Floats, as_floats
from epsworth.laws import Law
from epsworth.noise.profiles import (
    Kernel,
    Weights,
    hockey_stick,
    kernel_law,
    pure_loss,
    renyi_divergence,
    smallest_epsilon,
    weights,
)
from epsworth.noise.regions import Region


class NoiseMechanism(ABC):
    """Noise for one release of a number, with sensitivity and preferred region fixed."""

    @abstractmethod
    def profile(self, epsilon: ArrayLike) -> Floats:
        """Return delta(epsilon) over all neighbouring answers, for epsilon >= 0; never rounded down."""

    @property
    @abstractmethod
    def pure_epsilon(self) -> float:
        """The epsilon kept with delta = 0; infinite if there is none."""

    @property
    @abstractmethod
    def confidence(self) -> float:
        """Pr[released value in the preferred region], for the true answer where it is smallest."""

    @property
    @abstractmethod
    def rmse(self) -> float:
        """Root of the mean squared error, for the true answer where it is largest."""

    @abstractmethod
    def law(self, answer: ArrayLike = 0.0) -> Law:
        """Return the law of the released value when the true answer is this."""

    @property
    def pairs(self) -> int:
        """How many ordered pairs of true answers the profile compares; one where a proof says which is worst."""
        return 1

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that is kept with this delta, the smallest up to rounding; infinite if none is."""
        if delta == 0:
            return self.pure_epsilon
        return min(float(smallest_epsilon(self.profile, delta)), self.pure_epsilon)

    def sample(self, answer: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw for analysis, one released value per true answer; never fit for release."""
        return self.law(answer).sample((), rng)


@dataclass(frozen=True, eq=False)
class Boosted(NoiseMechanism):
    """A kernel, ``boost`` times as likely inside the region as outside; boost 1 is the kernel, infinity truncation.

    Examples
    --------
    >>> from epsworth.noise.regions import Absolute
    >>> noise = Boosted("gaussian", 2.8, 1.5215837245, Absolute(5.0), 1.0)
    >>> float(noise.profile(0.75).round(6))
    0.012764
    """

    kernel: Kernel
    scale: float
    boost: float
    region: Region
    sensitivity: float

    @cached_property
    def _cut(self) -> Weights:
        return weights(
            self.kernel, as_floats(self.scale), as_floats(self.boost), self.region, *self.region.pairs(self.sensitivity)
        )

    @property
    def pairs(self) -> int:
        """How many ordered pairs are compared."""
        return self._cut.distance.size

    def by_pair(self, epsilon: float) -> Floats:
        """Return delta(epsilon) of every ordered pair of ``region.pairs``."""
        return hockey_stick(self.kernel, self.scale, self._cut, epsilon)

    def profile(self, epsilon: ArrayLike) -> Floats:
        """Return the largest delta of all pairs."""
        epsilon = as_floats(epsilon)
        chunk = max(1, 400_000 // self.pairs)
        flat = epsilon.reshape(-1, 1)
        parts = [
            hockey_stick(self.kernel, self.scale, self._cut, flat[i : i + chunk]).max(axis=-1)
            for i in range(0, flat.size, chunk)
        ]
        return np.concatenate(parts).reshape(epsilon.shape)

    @property
    def pure_epsilon(self) -> float:
        """The largest loss of all pairs."""
        loss = float(pure_loss(self.kernel, self.scale, self._cut).max())
        return loss * (1 + 1e-14)

    def renyi(self, alpha: float) -> float:
        """Return the largest Renyi divergence of order alpha."""
        return float(renyi_divergence(self.kernel, self.scale, self._cut, alpha).max())

    def law(self, answer: ArrayLike = 0.0) -> laws.Boosted:
        """Return the boosted law around the answer."""
        answer = as_floats(answer)
        low, high = self.region.ends(answer)
        return laws.Boosted(
            kernel_law(self.kernel, self.scale, answer), low, high, np.full(answer.shape, float(self.boost))
        )

    @property
    def confidence(self) -> float:
        """Pr[in region] at the hardest answer."""
        law = self.law(self.region.hardest)
        return float(law.mass(law.lower, law.upper).min())

    @property
    def rmse(self) -> float:
        """Root of the mean squared error at the answer where it is largest (all are tried)."""
        answers = getattr(self.region, "answers", self.region.hardest)
        return float(np.sqrt(self.law(answers).mean_square().max()))
