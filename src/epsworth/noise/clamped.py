"""Clamping: noise, then the nearer end of a fixed region. Post-processing, so it costs no privacy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.mechanisms import laws
from epsworth.noise.mechanism import Boosted, NoiseMechanism
from epsworth.noise.profiles import Kernel, kernel_law
from epsworth.noise.regions import Absolute, Fixed


@dataclass(frozen=True, eq=False)
class Clamped(NoiseMechanism):
    """A kernel whose outputs are moved into a fixed region; its profile is that of the kernel, a bound for it."""

    kernel: Kernel
    scale: float
    region: Fixed
    sensitivity: float

    @property
    def _free(self) -> Boosted:
        return Boosted(self.kernel, self.scale, 1.0, Absolute(self.sensitivity), self.sensitivity)

    def profile(self, epsilon: ArrayLike) -> Floats:
        """Return the kernel's delta."""
        return self._free.profile(epsilon)

    @property
    def pure_epsilon(self) -> float:
        """The kernel's pure epsilon."""
        return self._free.pure_epsilon

    @property
    def gaussian(self) -> float | None:
        """The kernel's."""
        return self._free.gaussian

    def renyi(self, order: float) -> float:
        """Return the kernel's Renyi divergence."""
        return self._free.renyi(order)

    @property
    def outside(self) -> float:
        """Every output lies in the region."""
        return 0.0

    def rounded(self, answer: ArrayLike) -> Floats:
        """Return the answers as they are, for the noise does not depend on them; beyond the list they are refused."""
        return self.region.admitted(answer)

    def law(self, answer: ArrayLike = 0.0) -> laws.Clipped:
        """Return the law, with atoms at both ends."""
        noise = kernel_law(self.kernel, self.scale, as_floats(answer))
        return laws.Clipped(noise, self.region.low, self.region.high)

    @property
    def rmse(self) -> float:
        """Root of the mean squared error at the answer where it is largest; biased near the ends."""
        return float(np.sqrt(self.law(self.region.answers).mean_square().max()))
