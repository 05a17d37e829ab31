"""Laplace noise of scale 1/epsilon (sensitivity 1): on the real line, clipped to the range, renormalised on it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from epsworth.arrays import Floats
from epsworth.client.kernels import PRECISION, WORD, exp_below
from epsworth.mechanisms import laws
from epsworth.mechanisms.exponential import DistanceKernel, distance_kernel
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.mechanism import Mechanism, Output
from epsworth.mechanisms.noise_kernels import PureClippedKernel

FINEST = 64  # least outermost weight of discrete Laplace noise: its floor costs at most 1/64 of the loss


def laplace_clipped(epsilon: Fraction, points: int) -> PureClippedKernel:
    """Return discrete Laplace noise (Ghosh, Roughgarden & Sundararajan 2009), clipped.

    With rho just below e^(epsilon/(points - 1)), the tail grows inwards by at most rho a step, and no
    weight exceeds E times the outermost: T(n) = floor(min((rho - 1) tail(n + 1), E T(points - 2))).  The
    tail R to start from is as large as a word allows: the total is below R (E + E/rho), by the floors alone.
    """
    one, bound = 1 << PRECISION, exp_below(epsilon)
    excess = exp_below(epsilon / (points - 1)) - 1
    growth = int(excess * one)
    tail = int(WORD / (bound + bound / (1 + excess))) - 1
    noise = [tail, tail * growth >> PRECISION]
    tail, most = tail + noise[1], int(bound * noise[1])
    for _ in range(points - 2):
        noise.append(min(tail * growth >> PRECISION, most))
        tail += noise[-1]
    if noise[1] < FINEST:
        raise ValueError(
            f"epsilon {float(epsilon):g} does not fit {points} points: the outermost weights of discrete Laplace noise "
            "would be too coarse; use fewer bits"
        )
    return PureClippedKernel("laplace_clipped", epsilon, points, tuple(noise[::-1]))


def bounded_laplace(epsilon: Fraction, points: int) -> DistanceKernel:
    """Return Laplace noise conditioned on the range; on a grid it is `exponential_tight` under another name."""
    return distance_kernel("bounded_laplace", epsilon, points, epsilon)


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
    integers = staticmethod(laplace_clipped)

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
    integers = staticmethod(bounded_laplace)

    def _law(self, x: Floats) -> Law:
        return laws.Truncated(laws.Laplace.around(x, self.epsilon))
