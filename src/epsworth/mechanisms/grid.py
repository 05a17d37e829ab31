"""Mechanisms that release a point of the public grid {i/(k-1)}; the true value is rounded to it first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from epsworth import laws
from epsworth.arrays import Floats
from epsworth.laws import Law
from epsworth.mechanisms.mechanism import Mechanism, Output, grid_size


@dataclass(frozen=True)
class GridMechanism(Mechanism):
    """A mechanism on ``k`` evenly spaced public values (101 by default: steps of 0.01)."""

    k: int = 101

    output: ClassVar[Output] = "grid"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "k", grid_size(self.k))

    @property
    def points(self) -> int:
        """The grid's size k."""
        return self.k


@dataclass(frozen=True)
class KRR(GridMechanism):
    """k-ary randomised response: the true grid point with weight e^epsilon, every other with weight 1."""

    title: ClassVar[str] = "Randomised response"
    reference: ClassVar[str] = "Zheng & Hu 2025, Def. 14; Kairouz, Oh & Viswanath 2014"

    def _law(self, x: Floats) -> Law:
        return laws.RandomisedResponse.around(x, self.epsilon, self.k)


@dataclass(frozen=True)
class Exponential(GridMechanism):
    """Mass proportional to exp(-(epsilon/2) |g - x|): the textbook constant, which uses only half of epsilon.

    Def. 13 prints the exponent without its minus sign; with it the mechanism is epsilon-LDP and in fact
    epsilon/2-LDP, since the normaliser is the same at both ends.
    """

    title: ClassVar[str] = "Exponential"
    reference: ClassVar[str] = "McSherry & Talwar 2007; Zheng & Hu 2025, Def. 13 (corrected)"

    @property
    def tight_epsilon(self) -> float:
        """Half of the stated epsilon."""
        return self.scalar_epsilon / 2

    def _law(self, x: Floats) -> Law:
        return laws.TwoSidedGeometric.around(x, self.epsilon / (2 * (self.k - 1)), self.k)


@dataclass(frozen=True)
class ExponentialTight(GridMechanism):
    """Mass proportional to exp(-epsilon |g - x|): the exponential mechanism calibrated by its true loss."""

    title: ClassVar[str] = "Exponential, all of epsilon used"
    reference: ClassVar[str] = "McSherry & Talwar 2007, calibrated by the exact ratio"

    def _law(self, x: Floats) -> Law:
        return laws.TwoSidedGeometric.around(x, self.epsilon / (self.k - 1), self.k)
