"""Randomised response that prefers neighbours: weight T on the truth, N within ``reach`` of it, F elsewhere.

Windows are clipped at the ends of the grid, so totals differ.  The total grows with the number of neighbours in the
grid, which is ``reach`` at an end and twice that in the middle, so with T >= N >= F no ratio of probabilities exceeds
(T / F) (W_middle / W_end); an output at an end, seen from there and from the middle, attains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.client.kernels import WORD, exp_below
from epsworth.mechanisms.kernels import require
from epsworth.mechanisms.law import GridLaw, Law, broadcast, nearest_index
from epsworth.mechanisms.mechanism import GridMechanism
from epsworth.mechanisms.noise_kernels import RenewedKernel

SPARE = 1 << 20  # of 2^64, for what rounding weights up adds


@dataclass(frozen=True, eq=False)
class WindowResponse(GridLaw):
    """Weight 1 on the true grid point, ``near`` on others at most ``reach`` away, ``far`` on the rest.

    Randomised response that prefers neighbours (Jiang et al. 2025, Proposition 7), with windows clipped at the ends.
    """

    index: Floats
    near: Floats
    far: Floats
    k: int
    reach: int

    @classmethod
    def around(cls, x: ArrayLike, near: ArrayLike, far: ArrayLike, k: int, reach: int) -> Self:
        """Build from the true value, which is rounded to the grid first."""
        index, near, far = broadcast(nearest_index(x, k), near, far)
        return cls(index, near, far, k, reach)

    def _window(self) -> tuple[Floats, Floats]:
        return np.maximum(self.index - self.reach, 0.0), np.minimum(self.index + self.reach, self.k - 1.0)

    def _total(self) -> Floats:
        first, last = self._window()
        return 1 + self.near * (last - first) + self.far * (self.k - 1 - (last - first))

    def _mass_of_range(self, low: Floats, high: Floats) -> Floats:
        first, last = self._window()
        within = np.maximum(np.minimum(high, last) - np.maximum(low, first) + 1, 0.0)
        hit = ((low <= self.index) & (self.index <= high)) * 1.0
        weight = hit + (within - hit) * self.near + (high - low + 1 - within) * self.far
        return np.asarray(weight / self._total())

    def _index_from_uniform(self, u: Floats) -> Floats:
        first, last = self._window()
        t = u * self._total()
        before, after = (self.index - first) * self.near, (last - self.index) * self.near
        starts = np.cumsum(np.broadcast_arrays(first * self.far, before, 1.0, after), axis=0)
        pieces = [
            np.floor(t / self.far),
            first + np.floor((t - starts[0]) / self.near),
            self.index,
            self.index + 1 + np.floor((t - starts[2]) / self.near),
        ]
        beyond = last + 1 + np.floor((t - starts[3]) / self.far)
        return np.select([t < starts[0], t < starts[1], t <= starts[2], t <= starts[3]], pieces, beyond)

    def _moments(self) -> tuple[Floats, Floats]:
        """Return E[J - index] and E[(J - index)^2] of the released index J."""
        first, last = self._window()
        sums = []
        for low, high in ((first, last), (np.zeros_like(first), np.full_like(last, self.k - 1.0))):
            below, above = self.index - low, high - self.index
            square = [side * (side + 1) * (2 * side + 1) / 6 for side in (below, above)]
            sums.append((above * (above + 1) / 2 - below * (below + 1) / 2, square[0] + square[1]))
        (near_1, near_2), (all_1, all_2) = sums
        extra, total = self.near - self.far, self._total()
        return (extra * near_1 + self.far * all_1) / total, (extra * near_2 + self.far * all_2) / total

    def mean(self) -> Floats:
        """Return E[Y]."""
        return as_floats((self.index + self._moments()[0]) / (self.k - 1))

    def var(self) -> Floats:
        """Return the variance."""
        first, second = self._moments()
        return np.maximum(second - first**2, 0.0) / (self.k - 1) ** 2


@dataclass(frozen=True, eq=False)
class NeighbourKernel(RenewedKernel):
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
    weights = noise(trial[0] * (WORD - SPARE) // (2 * sum(trial) - trial[0]))  # all signed noise fits a word
    if weights[-1] >= weights[0]:
        raise ValueError(
            f"epsilon {float(epsilon):g} is too small for {points} points: the weights of pb_grr would all be equal; "
            "use fewer bits or a larger epsilon"
        )
    return NeighbourKernel("pb_grr", epsilon, points, weights, reach)


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


@dataclass(frozen=True)
class PBGRR(GridMechanism):
    """Randomised response that prefers grid points within ``theta`` of the true one.

    The truth has weight B e^eps_K, its neighbours B, all others 1; eps_K is ``share`` of epsilon.  Windows are
    clipped at the ends, so totals differ: B is chosen such that the loss over the whole channel is exactly epsilon
    (with ln B = eps - eps_K, as published, it would exceed it).

    With N the total, the largest ratio is B e^eps_K N_middle / N_end: a quadratic equation for B.
    """

    theta: float = 0.05
    share: float = 0.5

    title: ClassVar[str] = "Randomised response preferring neighbours"
    reference: ClassVar[str] = "Jiang, Zhang, Lu, Du, Sharma & Yan 2025, Proposition 7 (calibrated by the exact ratio)"
    integers = staticmethod(pb_grr)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.theta, (int, float)) and 0 <= self.theta <= 1):
            raise ValueError(f"theta must lie in [0, 1] (half-width on the unit scale), got {self.theta!r}")
        if not (isinstance(self.share, (int, float)) and 0 <= self.share <= 1):
            raise ValueError(f"share must lie in [0, 1] (of epsilon, spent on the truth), got {self.share!r}")

    @property
    def reach(self) -> int:
        """Neighbours on either side; windows leave room for a point that is no neighbour of either end."""
        return min(int(self.theta * (self.k - 1) * (1 + 1e-12)), (self.k - 2) // 2)

    def weights(self) -> tuple[Floats, Floats]:
        """Return the weights of neighbours and of the others, relative to the truth's.

        With near = e^-eps_K and B = e^(eps - eps_K) b: (1 + 2r near) b^2 + (c e^-eps - 1 - r near) b = (c + r) e^-eps,
        c = k - 2r - 1.  far = e^-eps / b.
        """
        epsilon, r = as_floats(self.epsilon), self.reach
        near, least = np.exp(-self.share * epsilon), np.exp(-epsilon)
        others = self.k - 2 * r - 1
        square, linear, constant = 1 + 2 * r * near, 1 + r * near - others * least, (others + r) * least
        root = np.sqrt(linear**2 + 4 * square * constant)
        positive = (linear + root) / (2 * square)
        stable = 2 * constant / np.where(linear < 0, root - linear, 1.0)  # the same root, free of cancellation
        return near, np.asarray(least / np.where(linear < 0, stable, positive))

    def _law(self, x: Floats) -> Law:
        near, far = self.weights()
        return WindowResponse.around(x, near, far, self.k, self.reach)
