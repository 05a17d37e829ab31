"""An integer kernel seen by the analysis: its law with masses w/W, and a mechanism for `stability`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from epsworth.arrays import Floats
from epsworth.guarantees import Guarantee
from epsworth.laws.grid import GridLaw, nearest_index
from epsworth.laws.law import broadcast
from epsworth.mechanisms.mechanism import Mechanism, Output


class Weighted(Protocol):
    """What the analysis asks of a kernel (`epsworth.exact.integer.Kernel`)."""

    @property
    def points(self) -> int:
        """The grid's size."""

    @property
    def guarantee(self) -> Guarantee:
        """The promise that the integers keep."""

    def loss(self) -> float:
        """Return the pure loss, rounded up."""

    def mass_of_range(self, index: Floats, low: Floats, high: Floats) -> Floats:
        """Return the probability of outputs low..high."""


@dataclass(frozen=True, eq=False)
class KernelLaw(GridLaw):
    """The law of a kernel's output, ``weights(i) / total(i)``; masses are rounded to doubles once.

    Parameters
    ----------
    index : ndarray
        True values on the grid.
    k : int
        Points of the grid.
    kernel : Kernel
        What has the weights.

    Examples
    --------
    >>> from epsworth import exact
    >>> law = exact.kernel("pm", 1, bits=8).law(51)  # the true value is 51/255 = 0.2
    >>> round(float(law.mean()), 3), round(float(law.var()), 3), round(float(law.cdf(0.5)), 3)
    (0.382, 0.077, 0.697)
    """

    index: Floats
    k: int
    kernel: Weighted

    def _mass_of_range(self, low: Floats, high: Floats) -> Floats:
        return self.kernel.mass_of_range(self.index, low, high)

    def _index_from_uniform(self, u: Floats) -> Floats:
        """Return the smallest index whose cumulated mass reaches u, by bisection."""
        u, index = broadcast(u, self.index)
        low, high = np.zeros(u.shape), np.full(u.shape, self.k - 1.0)
        for _ in range(self.k.bit_length()):
            middle = np.floor(0.5 * (low + high))
            reached = self.kernel.mass_of_range(index, np.zeros(u.shape), middle) >= u
            low = np.where(reached, low, np.minimum(middle + 1, high))
            high = np.where(reached, middle, high)
        return high

    def _moment(self, power: int, about: Floats) -> Floats:
        """Return E[(Y - about)^power], one row of masses at a time."""
        grid, outputs = np.arange(self.k) / (self.k - 1), np.arange(self.k, dtype=np.float64)
        found = np.empty(self.shape)
        for at in np.ndindex(self.shape):
            masses = self.kernel.mass_of_range(np.broadcast_to(self.index[at], outputs.shape), outputs, outputs)
            found[at] = masses @ (grid - about[at]) ** power
        return found

    def mean(self) -> Floats:
        """Return E[Y], a sum over the grid."""
        x = np.asarray(self.index / (self.k - 1))
        return np.asarray(x + self._moment(1, x))

    def var(self) -> Floats:
        """Return the variance, a sum over the grid."""
        return self._moment(2, self.mean())


@dataclass(frozen=True)
class KernelMechanism(Mechanism):
    """What a kernel releases: the true value is rounded to the grid, then drawn by integer weights.

    Parameters
    ----------
    epsilon : float
        As the kernel states it.
    kernel : Kernel
        What has the weights.

    Examples
    --------
    >>> import epsworth as ew
    >>> from epsworth import exact
    >>> mine = {"pm, exact": lambda epsilon: exact.kernel("pm", epsilon, bits=8).mechanism()}
    >>> curves = ew.stability(lambda X: X[:, 0] > 0.5, [[0.8]], sensitive=0, mechanisms=mine, epsilons=[2.0])
    >>> curves.method.tolist()
    [['grid']]
    """

    kernel: Weighted

    title: ClassVar[str] = "integer kernel"
    reference: ClassVar[str] = "exact weights w/W on a public grid"
    output: ClassVar[Output] = "grid"

    @property
    def points(self) -> int:
        """The grid's size."""
        return self.kernel.points

    @property
    def guarantee(self) -> Guarantee:
        """The promise that the integers keep."""
        return self.kernel.guarantee

    @property
    def tight_epsilon(self) -> float:
        """The kernel's pure loss, rounded up."""
        return self.kernel.loss()

    def _law(self, x: Floats) -> KernelLaw:
        index, _ = broadcast(nearest_index(x, self.points), self.epsilon)
        return KernelLaw(index, self.points, self.kernel)
