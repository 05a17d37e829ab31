"""Randomised response that prefers neighbours: weight T on the truth, N within ``reach`` of it, F elsewhere.

Windows are clipped at the ends of the grid, so totals differ.  The total grows with the number of neighbours in the
grid, which is ``reach`` at an end and twice that in the middle, so with T >= N >= F no ratio of probabilities exceeds
(T / F) (W_middle / W_end); an output at an end, seen from there and from the middle, attains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from epsworth.exact.alias import WORD
from epsworth.exact.integer import require
from epsworth.exact.noise import RenewedNoise
from epsworth.exact.rational import exp_below

SPARE = 1 << 20  # of 2^64, for what rounding weights up adds


@dataclass(frozen=True, eq=False)
class NeighbourKernel(RenewedNoise):
    """Weights ``noise[0] >= noise[1] = .. = noise[reach] >= noise[reach + 1] = ..``."""

    reach: int

    def ratio(self) -> Fraction:
        """Return (T / F) (W_middle / W_end), exactly the largest ratio."""
        return _ratio(self.noise[0], self.noise[self.reach and 1], self.noise[-1], self.points, self.reach)

    def prove(self) -> None:
        """Check the window, the order of the weights and the ratio."""
        truth, near, far = self.noise[0], self.noise[self.reach and 1], self.noise[-1]
        require(2 * self.reach + 2 <= self.points, self, "the window must leave room for a point beyond both ends'")
        three = (truth, *[near] * self.reach, *[far] * (self.points - 1 - self.reach))
        require(self.noise == three, self, "weights must be those of the truth, its neighbours and the others")
        require(truth >= near >= far >= 1, self, "weights must not rise with the distance")
        require(self.whole <= WORD, self, "the weights exceed 2^64")
        require(self.ratio() <= exp_below(self.epsilon), self, "the largest ratio exceeds e^epsilon")


def pb_grr(
    epsilon: Fraction, points: int, theta: Fraction = Fraction(1, 20), share: Fraction = Fraction(1, 2)
) -> NeighbourKernel:
    """Return PB-GRR: neighbours are the points within ``theta``; ``share`` of epsilon tells truth from neighbours.

    N = T e^(-share epsilon), up to rounding, and F is the smallest integer whose ratio is below e^epsilon.
    """
    reach = min(int(theta * (points - 1) * (1 + Fraction(1, 10**12))), (points - 2) // 2)
    relative, bound = exp_below(share * epsilon), exp_below(epsilon)

    def noise(truth: int) -> tuple[int, ...]:
        near = -int(-truth // relative)
        far = _least(truth, near, bound, points, reach)
        return (truth, *[near] * reach, *[far] * (points - 1 - reach))

    trial = noise(WORD >> 4)
    found = noise(trial[0] * (WORD - SPARE) // (2 * sum(trial) - trial[0]))  # all signed noise fits a word
    if found[-1] >= found[0]:
        raise ValueError(
            f"epsilon {float(epsilon):g} is too small for {points} points: the weights of pb_grr would all be equal; "
            "use fewer bits or a larger epsilon"
        )
    return NeighbourKernel("pb_grr", epsilon, points, found, reach)


def _least(truth: int, near: int, bound: Fraction, points: int, reach: int) -> int:
    """Return the smallest F that keeps the ratio at ``bound``: the ratio falls in F."""
    low, high = 0, near
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _ratio(truth, near, middle, points, reach) <= bound else (middle, high)
    return high


def _ratio(truth: int, near: int, far: int, points: int, reach: int) -> Fraction:
    middle, end = (truth + n * near + (points - 1 - n) * far for n in (2 * reach, reach))
    return Fraction(truth * middle, far * end)
