"""What every noise offers: its exact profile, its promise about the region, its law; boosted and clamped kernels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats, generator, slices
from epsworth.composition import mirrored
from epsworth.mechanisms import boosted_laplace, laws
from epsworth.mechanisms.law import Law
from epsworth.noise.allowed import finite
from epsworth.noise.profiles import (
    Kernel,
    Weights,
    hockey_stick,
    kernel_law,
    mass_outside,
    pure_loss,
    renyi_divergence,
    smallest_epsilon,
    weights,
)
from epsworth.noise.regions import Fixed, Region
from epsworth.rounding import UNIT, float_below, up

FINEST = 1e-280  # of deltas: masses below it are not resolved
STEEP = 35.0  # standard deviations beyond which a Gaussian has more than that
AT_ONCE = 400_000  # pairs times epsilons


class TooLarge(ValueError):
    """A noise, or a program for one, whose table would be too large for this question."""


class NoiseMechanism(ABC):
    """Noise for one release of a number, with sensitivity and preferred region fixed."""

    @abstractmethod
    def profile(self, epsilon: ArrayLike) -> Floats:
        """Return delta(epsilon) over all neighbouring answers, for epsilon >= 0; never rounded down."""

    def deltas(self, epsilon: ArrayLike) -> Floats:
        """Return delta at epsilons of any sign, never rounded down: the set of pairs holds both orders."""
        epsilon = as_floats(epsilon)
        kept = self.profile(np.abs(epsilon))
        return np.where(epsilon < 0, np.minimum(mirrored(as_floats(np.abs(epsilon)), kept), 1.0), kept)

    @property
    @abstractmethod
    def pure_epsilon(self) -> float:
        """The epsilon kept with delta = 0; infinite if there is none."""

    @property
    @abstractmethod
    def outside(self) -> float:
        """Pr[released value outside the preferred region], for the answer where it is largest; never rounded down."""

    @property
    def confidence(self) -> float:
        """Pr[released value in the preferred region], for the true answer where it is smallest; never rounded up."""
        return float_below(1 - Fraction(self.outside))

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

    @property
    def gaussian(self) -> float | None:
        """The sensitivity in standard deviations, if the noise is Gaussian and nothing else."""
        return None

    @abstractmethod
    def renyi(self, order: float) -> float:
        """Return the largest Renyi divergence of an order above 1 between answers, infinite where none is known."""

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that is kept with this delta, the smallest up to rounding; infinite if none is."""
        if delta == 0:
            return self.pure_epsilon
        return min(float(smallest_epsilon(self.profile, delta)), self.pure_epsilon)

    def rounded(self, answer: ArrayLike) -> Floats:
        """Return the numbers that noise is added to, for true answers; what the promise does not cover is refused."""
        return finite(answer)

    def sample(self, answer: ArrayLike, rng: np.random.Generator | int) -> Floats:
        """Draw for analysis, one released value per true answer, rounded first; never fit for release."""
        return self.law(self.rounded(answer)).sample((), generator(rng))


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
        flat = as_floats(epsilon).reshape(-1, 1)
        parts = slices(flat.size, max(1, AT_ONCE // self.pairs))
        deltas = [hockey_stick(self.kernel, self.scale, self._cut, flat[part]).max(axis=-1) for part in parts]
        return np.concatenate(deltas).reshape(np.shape(epsilon))

    @property
    def pure_epsilon(self) -> float:
        """The largest loss of all pairs, rounded up."""
        return float(pure_loss(self.kernel, self.scale, self._cut).max())

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that is kept, as other noises do; by a bound on a plain Gaussian's tail for tiny deltas.

        delta(epsilon) <= Phi(-t), where epsilon = r^2 / 2 + r t and r is the sensitivity in scales, and Phi(-t) is at
        most exp(-t^2 / 2) / (t sqrt(2 pi)): at most delta where that holds with `STEEP` <= t in the place of t.
        """
        r = self.gaussian
        if r is None or not 0 < delta < FINEST:
            return super().epsilon(delta)
        return up(r * r / 2 + r * math.sqrt(-2 * (math.log(delta) + math.log(STEEP * math.sqrt(2 * math.pi)))), ulps=16)

    @property
    def gaussian(self) -> float | None:
        """The sensitivity in standard deviations, without a boost."""
        plain = self.kernel == "gaussian" and self.boost == 1
        return up(self.sensitivity / self.scale) if plain else None

    def renyi(self, order: float) -> float:
        """Return the largest Renyi divergence of an order, never rounded down.

        Exponents are sums of logarithms of weights, times the order, and squares of distances in scales, times the
        order or its square: each rounds by a few units of its size.
        """
        if self.gaussian is not None:
            return up(order / 2 * self.gaussian**2, ulps=4)
        found, cut = float(renyi_divergence(self.kernel, self.scale, self._cut, order).max()), self._cut
        reach = max(float(np.abs(part[np.isfinite(part)]).max(initial=0)) for part in (cut.edges, cut.distance))
        logs = max(float(np.abs(part[np.isfinite(part)]).max(initial=0)) for part in (cut.log_first, cut.log_second))
        size = 1 + order * logs + (order * (1 + 2 * reach / self.scale)) ** (2 if self.kernel == "gaussian" else 1)
        return max(0.0, up(found + 64 * UNIT * size / (order - 1), ulps=4))

    def rounded(self, answer: ArrayLike) -> Floats:
        """Return the nearest answers of the region's public list, if it has one."""
        return self.region.rounded(answer)

    def law(self, answer: ArrayLike = 0.0) -> boosted_laplace.Boosted:
        """Return the boosted law around a number, on the region's public list or, for analysis alone, off it."""
        answer = as_floats(answer)
        low, high = self.region.ends(answer)
        return boosted_laplace.Boosted(
            kernel_law(self.kernel, self.scale, answer), low, high, np.full(answer.shape, float(self.boost))
        )

    @property
    def outside(self) -> float:
        """Pr[outside the region] at the hardest answer."""
        return float(mass_outside(self.kernel, self.scale, self.boost, self.region))

    @property
    def rmse(self) -> float:
        """Root of the mean squared error at the answer where it is largest (all are tried)."""
        answers = getattr(self.region, "answers", self.region.hardest)
        return float(np.sqrt(self.law(answers).mean_square().max()))


@dataclass(frozen=True, eq=False)
class Clamped(NoiseMechanism):
    """Noise of a kernel, then the nearer end of a fixed region: post-processing, so the kernel's profile bounds it."""

    free: Boosted
    region: Fixed

    def profile(self, epsilon: ArrayLike) -> Floats:
        """Return the kernel's delta."""
        return self.free.profile(epsilon)

    @property
    def pure_epsilon(self) -> float:
        """The kernel's pure epsilon."""
        return self.free.pure_epsilon

    @property
    def gaussian(self) -> float | None:
        """The kernel's sensitivity in standard deviations."""
        return self.free.gaussian

    def renyi(self, order: float) -> float:
        """Return the kernel's Renyi divergence."""
        return self.free.renyi(order)

    @property
    def outside(self) -> float:
        """Every output lies in the region."""
        return 0.0

    def rounded(self, answer: ArrayLike) -> Floats:
        """Return the answers as they are, for the noise does not depend on them; beyond the list they are refused."""
        return self.region.admitted(answer)

    def law(self, answer: ArrayLike = 0.0) -> laws.Clipped:
        """Return the law, with atoms at both ends."""
        kernel = kernel_law(self.free.kernel, self.free.scale, as_floats(answer))
        return laws.Clipped(kernel, self.region.low, self.region.high)

    @property
    def rmse(self) -> float:
        """Root of the mean squared error at the answer where it is largest; biased near the ends."""
        return float(np.sqrt(self.law(self.region.answers).mean_square().max()))
