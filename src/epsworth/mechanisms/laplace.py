"""Three ways to add Laplace noise of scale 1/epsilon to a value in [0, 1] (sensitivity 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from epsworth import laws
from epsworth.arrays import Floats
from epsworth.laws import Law
from epsworth.mechanisms.mechanism import Mechanism, Output


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Noise on the real line: outputs may leave [0, 1]."""

    title: ClassVar[str] = "Laplace, unclipped"
    reference: ClassVar[str] = "Dwork, McSherry, Nissim & Smith 2006"
    output: ClassVar[Output] = "real line"

    def _law(self, x: Floats) -> Law:
        return laws.Laplace.around(x, self.epsilon)


@dataclass(frozen=True)
class LaplaceClipped(Mechanism):
    """Laplace noise, then clipped to [0, 1]: post-processing, so the promise is unchanged."""

    title: ClassVar[str] = "Laplace, clipped to the range"
    reference: ClassVar[str] = "Dwork, McSherry, Nissim & Smith 2006; clipping is post-processing"
    output: ClassVar[Output] = "[0, 1] with atoms at 0 and 1"

    def _law(self, x: Floats) -> Law:
        return laws.Clipped(laws.Laplace.around(x, self.epsilon))


@dataclass(frozen=True)
class BoundedLaplace(Mechanism):
    """Laplace noise conditioned on [0, 1].

    Its loss is exactly epsilon although the normaliser depends on x: Z(0) = Z(1), and the ratio is
    largest at opposite ends.
    """

    title: ClassVar[str] = "Laplace, renormalised on the range"
    reference: ClassVar[str] = "Holohan, Antonatos, Braghin & Mac Aonghusa 2018"
    output: ClassVar[Output] = "[0, 1]"

    def _law(self, x: Floats) -> Law:
        return laws.Truncated(laws.Laplace.around(x, self.epsilon))
