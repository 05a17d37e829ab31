"""What every integer kernel offers: weights, a proven loss, draws fit for release, and its own law for analysis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, Indices, as_floats
from epsworth.client.kernels import WORD, exp_below
from epsworth.guarantees import Approximate, Guarantee, Pure
from epsworth.mechanisms.law import GridLaw, broadcast, nearest_index
from epsworth.mechanisms.mechanism import Mechanism, Output
from epsworth.mechanisms.pieces import Pieces
from epsworth.mechanisms.rational import Exact, log_above, stated_epsilon
from epsworth.mechanisms.words import NotPrivate, SystemWords, WordSource
from epsworth.rounding import float_above

CHUNK = 1 << 14  # values at a time: words, indices and outcomes stay in the cache


@dataclass(frozen=True, eq=False)
class Kernel(ABC):
    """Integer weights from a public grid of true values to the same grid of released values.

    Input i and output y stand for ``i / (points - 1)`` and ``y / (points - 1)`` on the unit scale, or for
    categories.  Input i gives output y with probability exactly ``weights(i)[y] / total(i)``.

    Attributes
    ----------
    name : str
        The mechanism's word in `MECHANISMS`.
    epsilon : Fraction
        The stated parameter, exactly.
    points : int
        Size of the grid.

    Examples
    --------
    >>> from epsworth.mechanisms import kernel
    >>> coin = kernel("krr", 1, k=3)
    >>> coin.points, coin.guarantee, coin.loss() <= 1
    (3, Pure(epsilon=1.0, unit='feature'), True)
    >>> sum(coin.weights(0)) == coin.total(0), [round(weight / coin.total(0), 3) for weight in coin.weights(0)]
    (True, [0.576, 0.212, 0.212])
    """

    name: str
    epsilon: Fraction
    points: int

    @abstractmethod
    def weights(self, i: int) -> list[int]:
        """Return the weights of all outputs when the input is i, as Python integers."""

    @abstractmethod
    def total(self, i: int) -> int:
        """Return the sum of ``weights(i)``."""

    @abstractmethod
    def ratio(self) -> Fraction:
        """Return a number that no ratio of two probabilities of one output exceeds (exact, except where said)."""

    @abstractmethod
    def prove(self) -> None:
        """Check in integers what the construction promises; raise `ArithmeticError` naming what fails."""

    @abstractmethod
    def outcomes(self, inputs: Indices, source: WordSource) -> Indices:
        """Return one output per input; -1 where its word was rejected."""

    def pieces(self, i: ArrayLike) -> Pieces:
        """Return which words lead to which output when the input is i, as runs: what `outcomes` must do.

        Claim: the numbers of words add up to ``weights(i)``, up to one factor.

        Parameters
        ----------
        i : int, or several
            `regions` take one at a time.

        Raises
        ------
        TypeError
            For a kernel that takes several words per draw (`parts`).
        """
        raise TypeError(f"{self.name} has no runs of single words; ask its parts")

    def parts(self) -> tuple[tuple[int, Kernel], ...]:
        """Return the kernels that a word of its own decides between, each with how many words decide for it.

        `outcomes` takes that word first, then the words of every part, in this order.
        """
        return ((WORD, self),)

    @abstractmethod
    def mass_of_range(self, index: Floats, low: Floats, high: Floats) -> Floats:
        """Return the probability of outputs low..high in floating point, for analysis."""

    def loss(self) -> float:
        """Return the pure epsilon that the weights keep, rounded up; never above the stated one."""
        return log_above(self.ratio())

    def delta(self, epsilon: Exact) -> float:
        """Return a delta with which the kernel is (epsilon, delta)-DP, rounded up.

        The smallest one for two levels, Duchi's mechanism and Gaussian noise; for the others the bound
        that their pure loss implies.
        """
        return float_above(max(self.slack(exp_below(stated_epsilon(epsilon))), Fraction(0)))

    def slack(self, bound: Fraction) -> Fraction:
        """Return the delta that goes with probabilities up to ``bound`` times each other.

        From the pure loss alone: no mechanism that keeps it is worse than randomised response (Kairouz, Oh
        & Viswanath 2015).
        """
        worst = self.ratio()
        return (worst - bound) / (worst + 1)

    @property
    def guarantee(self) -> Pure | Approximate:
        """The promise for one feature, in the numbers that the integers keep."""
        return Pure(self.loss())

    def index(self, x: ArrayLike) -> Indices:
        """Round values on the unit scale to inputs: clamped to [0, 1], then the nearest grid point.

        Deterministic, so free of privacy cost.  NaN is refused.
        """
        x = as_floats(x)
        if np.isnan(x).any():  # the values are private: no message shows them
            raise ValueError("x holds NaN; decide before the release what stands for a missing value")
        return nearest_index(np.clip(x, 0.0, 1.0), self.points).astype(np.int64)

    def draw(self, inputs: ArrayLike, *, words: WordSource | None = None) -> NDArray[np.int64]:
        """Draw one output per input, with exactly the kernel's probabilities, fit for release.

        Parameters
        ----------
        inputs : array_like of int
            Indices of true values (see `index`); any shape.
        words : WordSource, optional
            For tests alone (`epsworth.mechanisms.words`): the result is then marked NOT PRIVATE.  By default
            a fresh key is taken from the operating system for this call.

        Returns
        -------
        ndarray of int64, same shape
            Indices of released values.

        Notes
        -----
        What is exact is the law.  How long a call takes is not part of the promise: kernels that reject
        words (`bounded_laplace`, `exponential`) take longer for some inputs.
        """
        indices = self._checked(inputs)
        source = SystemWords() if words is None else words
        flat = indices.ravel()
        drawn = np.empty(flat.shape, dtype=np.int64)
        for start in range(0, flat.size, CHUNK):
            drawn[start : start + CHUNK] = self.outcomes(flat[start : start + CHUNK], source)
        again = np.flatnonzero(drawn < 0)
        while again.size:
            for part in np.array_split(again, -(-again.size // CHUNK)):
                drawn[part] = self.outcomes(flat[part], source)
            again = again[drawn[again] < 0]
        shaped = drawn.reshape(indices.shape)
        return shaped if source.private else shaped.view(NotPrivate)

    def _checked(self, inputs: ArrayLike) -> Indices:
        indices = np.asarray(inputs)
        if indices.dtype.kind not in "iu" and indices.size:
            raise TypeError(f"inputs must be whole numbers, got {indices.dtype}; round values with kernel.index(x)")
        if indices.size and not (int(indices.min()) >= 0 and int(indices.max()) < self.points):
            raise ValueError(f"inputs must lie between 0 and {self.points - 1}; round values with kernel.index(x)")
        return indices.astype(np.int64, copy=False)

    def law(self, i: ArrayLike) -> KernelLaw:
        """Return the law of the released value (unit scale) when the input is i: these weights, for analysis."""
        return KernelLaw(as_floats(self._checked(i)), self.points, self)

    def mechanism(self) -> KernelMechanism:
        """Return the kernel as a mechanism that `stability` can be asked about.

        Examples
        --------
        >>> from epsworth.mechanisms import kernel
        >>> round(float(kernel("pm", 2, bits=8).mechanism().law(0.5).mass(0.2, 0.8)), 3)
        0.854
        """
        return KernelMechanism(float(self.epsilon), self)


class Weighted(Protocol):
    """A kernel, or what rounding makes of one."""

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
        What has the weights, or what they are rounded to.

    Examples
    --------
    >>> from epsworth.mechanisms import kernel
    >>> law = kernel("pm", 1, bits=8).law(51)  # the true value is 51/255 = 0.2
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
        moments = np.empty(self.shape)
        for at in np.ndindex(self.shape):
            masses = self.kernel.mass_of_range(np.broadcast_to(self.index[at], outputs.shape), outputs, outputs)
            moments[at] = masses @ (grid - about[at]) ** power
        return moments

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
    >>> from epsworth.mechanisms import kernel
    >>> mine = {"pm, exact": lambda epsilon: kernel("pm", epsilon, bits=8).mechanism()}
    >>> curves = ew.stability(lambda X: X[:, 0] > 0.5, [[0.8]], sensitive=0, mechanisms=mine, epsilons=[2.0])
    >>> curves.method.tolist()
    [['grid']]
    """

    kernel: Kernel

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


def require(holds: bool, kernel: Kernel, what: str) -> None:
    """Raise `ArithmeticError` where an obligation of a construction does not hold."""
    if not holds:
        raise ArithmeticError(f"{kernel.name} at epsilon {float(kernel.epsilon):g} on {kernel.points} points: {what}")
