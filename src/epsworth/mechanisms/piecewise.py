"""The piecewise mechanism: a window around x is e^epsilon times as likely as the rest."""

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


def piecewise_shape(epsilon: Floats) -> tuple[Floats, Floats]:
    """Return the weight of the uniform part, e^(-eps/2), and the window's half-width 1/(2(e^(eps/2) + 1))."""
    spread = as_floats(np.exp(-0.5 * epsilon))
    return spread, 0.5 * spread / (1 + spread)


@dataclass(frozen=True)
class PM(Mechanism):
    """Piecewise mechanism: density e^(eps/2) on a window of half-width 1/(2(e^(eps/2) + 1)), e^(-eps/2) elsewhere.

    The window is snapped into [0, 1], which makes it the optimal piecewise mechanism of Zheng, Mishra & Hu 2025.
    """

    title: ClassVar[str] = "Piecewise"
    reference: ClassVar[str] = "Zheng & Hu 2025, Def. 11; Zheng, Mishra & Hu 2025"
    output: ClassVar[Output] = "[0, 1]"
    integers = staticmethod(partial(window_kernel, "pm"))

    def _law(self, x: Floats) -> Law:
        return TwoLevel.around(x, *piecewise_shape(as_floats(self.epsilon)))


@dataclass(frozen=True)
class PMAffine(Mechanism):
    """Piecewise mechanism whose window slides linearly with x: the mean is linear, so sums can be debiased."""

    title: ClassVar[str] = "Piecewise, affine"
    reference: ClassVar[str] = "Wang et al. 2019, mapped from [-1, 1]"
    output: ClassVar[Output] = "[0, 1]"
    integers = staticmethod(partial(window_kernel, "pm_affine"))

    def _law(self, x: Floats) -> Law:
        return TwoLevel.sliding(x, *piecewise_shape(as_floats(self.epsilon)))
