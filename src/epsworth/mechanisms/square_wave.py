"""The square wave mechanism: a window narrower than the piecewise mechanism's, and less certain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.laws import TwoLevel
from epsworth.mechanisms.mechanism import Mechanism, Output
from epsworth.mechanisms.two_level import window_kernel


def square_wave_shape(epsilon: Floats) -> tuple[Floats, Floats]:
    """Return the weight of the uniform part, (1 - e^-eps)/eps, and the window's half-width."""
    return as_floats(-np.expm1(-epsilon) / epsilon), square_wave_half_width(epsilon)


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


@dataclass(frozen=True)
class SW(Mechanism):
    """Square wave mechanism: density p = (e^eps - 1)/eps on a window of half-width C, p e^-eps elsewhere."""

    title: ClassVar[str] = "Square wave"
    reference: ClassVar[str] = "Zheng & Hu 2025, Def. 12; Li et al. 2020"
    output: ClassVar[Output] = "[0, 1]"
    integers = staticmethod(partial(window_kernel, "sw"))

    def _law(self, x: Floats) -> Law:
        return TwoLevel.around(x, *square_wave_shape(as_floats(self.epsilon)))


@dataclass(frozen=True)
class SWAffine(Mechanism):
    """Square wave mechanism whose window slides linearly with x, as it was published (outputs mapped to [0, 1])."""

    title: ClassVar[str] = "Square wave, affine"
    reference: ClassVar[str] = "Li et al. 2020"
    output: ClassVar[Output] = "[0, 1]"
    integers = staticmethod(partial(window_kernel, "sw_affine"))

    def _law(self, x: Floats) -> Law:
        return TwoLevel.sliding(x, *square_wave_shape(as_floats(self.epsilon)))
