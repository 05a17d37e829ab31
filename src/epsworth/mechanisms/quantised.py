"""Any mechanism, rounded to a public grid after the fact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from epsworth.arrays import Floats
from epsworth.guarantees import Approximate, Guarantee
from epsworth.mechanisms import laws
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.mechanism import Mechanism, Output, grid_size


@dataclass(frozen=True)
class Quantised(Mechanism):
    """Round the output of ``mechanism`` to the grid of ``k`` points: post-processing keeps its promise.

    It is another mechanism, with slightly other utility; what it buys is that every classifier becomes
    exactly answerable, by asking it about the whole grid once.
    """

    epsilon: float | Floats = field(init=False, default=1.0)
    mechanism: Mechanism
    k: int

    title: ClassVar[str] = "rounded to a grid"
    reference: ClassVar[str] = "post-processing"
    output: ClassVar[Output] = "grid"

    def __init__(self, mechanism: Mechanism, k: int) -> None:
        if mechanism.points is not None:
            raise ValueError(f"the outputs already lie on a grid of {mechanism.points} points; set its k instead")
        object.__setattr__(self, "epsilon", mechanism.epsilon)
        object.__setattr__(self, "mechanism", mechanism)
        object.__setattr__(self, "k", grid_size(k))

    @property
    def points(self) -> int:
        """The grid's size k."""
        return self.k

    @property
    def guarantee(self) -> Guarantee:
        """The mechanism's own; the probabilistic notion, which rounding may break, is given up for the approximate."""
        promise = self.mechanism.guarantee
        if promise.notion == "probabilistic" and self.tight_epsilon > promise.epsilon:
            return Approximate(promise.epsilon, promise.delta)
        return promise

    @property
    def tight_epsilon(self) -> float:
        """The mechanism's own: rounding can only lower it."""
        return self.mechanism.tight_epsilon

    def _law(self, x: Floats) -> Law:
        return laws.Quantised(self.mechanism.law(x), self.k)
