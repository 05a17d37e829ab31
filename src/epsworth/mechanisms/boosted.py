"""Privacy boosting on [0, 1]: outputs in a preferred set are made likelier, and pay for it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsworth import laws
from epsworth.arrays import Floats, as_floats
from epsworth.laws import Law
from epsworth.mechanisms.grid import GridMechanism
from epsworth.mechanisms.mechanism import Mechanism, Output


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
        return laws.WindowResponse.around(x, near, far, self.k, self.reach)


@dataclass(frozen=True)
class BoostedLaplace(Mechanism):
    """Laplace noise whose outputs lie in [0, 1] with probability 1 - ``beta``, for the worst true value.

    Between `Laplace` (no boost) and `BoundedLaplace` (an infinite one).  The loss is epsilon for every boost B: with
    Z(t) = 1 + (B - 1) Pr[inside] the normaliser at t, |Z'| <= epsilon Z, so ln Z changes no faster than the kernel's
    loss; Z(0) = Z(1), so the ends of the range reach epsilon.
    """

    beta: float = 0.1

    title: ClassVar[str] = "Laplace, boosted on the range"
    reference: ClassVar[str] = "Jiang, Zhang, Lu, Du, Sharma & Yan 2025, section 4.2 (fixed region)"
    output: ClassVar[Output] = "real line"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.beta, (int, float)) and 0 < self.beta < 1):
            raise ValueError(f"beta must lie strictly between 0 and 1, got {self.beta!r}")

    @property
    def boost(self) -> Floats:
        """B: weight inside over weight outside."""
        inside = -np.expm1(-as_floats(self.epsilon)) / 2  # of the kernel, for a true value at an end
        return np.maximum((1 - self.beta) / self.beta * (1 - inside) / inside, 1.0)

    def _law(self, x: Floats) -> Law:
        noise = laws.Laplace.around(x, self.epsilon)
        low, high, boost = (np.broadcast_to(v, noise.shape) for v in (0.0, 1.0, self.boost))
        return laws.Boosted(noise, low, high, boost)
