"""Piecewise-constant mechanisms on [0, 1]: a window around x is e^epsilon times as likely as the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsworth import laws
from epsworth.arrays import Floats, as_floats
from epsworth.laws import Law
from epsworth.mechanisms.mechanism import Mechanism, Output


@dataclass(frozen=True)
class PM(Mechanism):
    """Piecewise mechanism: density e^(eps/2) on a window of half-width 1/(2(e^(eps/2) + 1)), e^(-eps/2) elsewhere.

    The window is snapped into [0, 1], which makes it the optimal piecewise mechanism of Zheng, Mishra & Hu 2025.
    """

    title: ClassVar[str] = "Piecewise"
    reference: ClassVar[str] = "Zheng & Hu 2025, Def. 11; Zheng, Mishra & Hu 2025"
    output: ClassVar[Output] = "[0, 1]"

    def _law(self, x: Floats) -> Law:
        return laws.TwoLevel.around(x, *piecewise_shape(as_floats(self.epsilon)))


@dataclass(frozen=True)
class SW(Mechanism):
    """Square wave mechanism: density p = (e^eps - 1)/eps on a window of half-width C, p e^-eps elsewhere."""

    title: ClassVar[str] = "Square wave"
    reference: ClassVar[str] = "Zheng & Hu 2025, Def. 12; Li et al. 2020"
    output: ClassVar[Output] = "[0, 1]"

    def _law(self, x: Floats) -> Law:
        epsilon = as_floats(self.epsilon)
        return laws.TwoLevel.around(x, -np.expm1(-epsilon) / epsilon, square_wave_half_width(epsilon))


@dataclass(frozen=True)
class PMAffine(Mechanism):
    """Piecewise mechanism whose window slides linearly with x: the mean is linear, so sums can be debiased."""

    title: ClassVar[str] = "Piecewise, affine"
    reference: ClassVar[str] = "Wang et al. 2019, mapped from [-1, 1]"
    output: ClassVar[Output] = "[0, 1]"

    def _law(self, x: Floats) -> Law:
        return laws.TwoLevel.sliding(x, *piecewise_shape(as_floats(self.epsilon)))


@dataclass(frozen=True)
class SWAffine(Mechanism):
    """Square wave mechanism whose window slides linearly with x, as it was published (outputs mapped to [0, 1])."""

    title: ClassVar[str] = "Square wave, affine"
    reference: ClassVar[str] = "Li et al. 2020"
    output: ClassVar[Output] = "[0, 1]"

    def _law(self, x: Floats) -> Law:
        epsilon = as_floats(self.epsilon)
        return laws.TwoLevel.sliding(x, -np.expm1(-epsilon) / epsilon, square_wave_half_width(epsilon))


def piecewise_shape(epsilon: Floats) -> tuple[Floats, Floats]:
    """Return the weight of the uniform part, e^(-eps/2), and the window's half-width 1/(2(e^(eps/2) + 1))."""
    spread = as_floats(np.exp(-0.5 * epsilon))
    return spread, 0.5 * spread / (1 + spread)


def square_wave_half_width(epsilon: Floats) -> Floats:
    """Return C = (e^eps (eps - 1) + 1) / (2 (e^eps - 1)^2), without cancellation or overflow."""
    decay = np.exp(-epsilon)
    direct = decay * (epsilon - 1 + decay) / (2 * np.expm1(-epsilon) ** 2)
    # below 0.5 the numerator cancels: e^eps (eps - 1) + 1 = sum_{m>=2} eps^m (m - 1)/m!
    small = np.minimum(epsilon, 0.5)
    term, total = 0.5 * np.ones_like(small), np.zeros_like(small)
    for m in range(2, 18):  # term = eps^(m-2)/m!; the first one left out is below 1e-19 of the sum
        total += (m - 1) * term
        term = term * small / (m + 1)
    series = total / (2 * (np.expm1(small) / small) ** 2)
    return np.where(epsilon < 0.5, series, direct)
