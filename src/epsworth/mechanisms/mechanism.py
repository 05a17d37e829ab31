"""What a mechanism is: a law for every true value in [0, 1], and the promise that it keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.client.kernels import EPSILON_RANGE
from epsworth.guarantees import Guarantee, Pure
from epsworth.mechanisms.law import Law
from epsworth.numerals import whole

if TYPE_CHECKING:
    from epsworth.mechanisms.kernels import Kernel

MOST_POINTS = 2**20  # of a grid: each law holds a number per point

Output = Literal["real line", "[0, 1]", "[0, 1] with atoms at 0 and 1", "grid"]


@dataclass(frozen=True)
class Mechanism(ABC):
    """Perturbs one feature on [0, 1] under local differential privacy.

    ``integers``, where a mechanism has them, makes its kernel from epsilon, a number of grid points and options:
    what a release is drawn by (`epsworth.mechanisms.kernel`).

    Parameters
    ----------
    epsilon : float or ndarray
        Privacy parameter per feature.  An array broadcasts against x in `law`; only a scalar has a
        `guarantee`.

    Examples
    --------
    >>> from epsworth import MECHANISMS
    >>> pm = MECHANISMS["pm"](1.0)
    >>> print(pm.guarantee)
    pure LDP, epsilon 1 per feature
    >>> law = pm.law(0.2)  # of what is released where the true value is 0.2
    >>> round(float(law.mean()), 3), round(float(law.cdf(0.5)), 3)
    (0.382, 0.697)
    """

    epsilon: float | Floats

    title: ClassVar[str]
    reference: ClassVar[str]
    output: ClassVar[Output]
    integers: ClassVar[Callable[..., Kernel] | None] = None

    def __post_init__(self) -> None:
        low, high = EPSILON_RANGE
        if isinstance(self.epsilon, float) and low <= self.epsilon <= high:
            return
        epsilon = _numbers("epsilon", self.epsilon)
        bad = ~((epsilon >= low) & (epsilon <= high))
        if bad.any():
            raise ValueError(
                f"epsilon must lie between {low:g} and {high:g} (per feature), got {epsilon[bad].flat[0]:g}"
            )
        object.__setattr__(self, "epsilon", float(epsilon) if epsilon.ndim == 0 else epsilon)

    @abstractmethod
    def _law(self, x: Floats) -> Law:
        """Return the law at x, already checked to lie in [0, 1]."""

    @property
    def guarantee(self) -> Guarantee:
        """The promise for one feature."""
        return Pure(self.scalar_epsilon)

    @property
    def tight_epsilon(self) -> float:
        """The smallest pure epsilon that the mechanism in fact keeps; ``inf`` if there is none."""
        return self.scalar_epsilon

    @property
    def points(self) -> int | None:
        """Number of grid points that outputs lie on; None for a continuous output."""
        return None

    @property
    def scalar_epsilon(self) -> float:
        """Epsilon as a number; an array of epsilons has no single promise."""
        if not isinstance(self.epsilon, float):
            raise ValueError(
                f"a guarantee belongs to one epsilon, this mechanism holds {self.epsilon.size}; build one per epsilon"
            )
        return self.epsilon

    def law(self, x: ArrayLike) -> Law:
        """Return the law of the released value when the true value is x.

        Parameters
        ----------
        x : array_like
            True values on the unit scale, in [0, 1]; any shape that broadcasts against epsilon.
        """
        x = _numbers("x", x)
        outside = ~((x >= 0) & (x <= 1))
        if outside.any():
            row = int(np.argmax(outside.ravel()))  # values are private: no message shows them
            raise ValueError(
                f"x must lie in [0, 1], but value {row} does not; convert natural units with Feature.to_unit"
            )
        return self._law(x)


def _numbers(field: str, given: ArrayLike) -> Floats:
    """Return a number, or an array of them; all else is refused by its kind alone, for it may be private."""
    try:
        values = np.asarray(given)
        if values.dtype.kind not in "OUSb":
            return as_floats(values)
        kinds = {type(one) for one in np.asarray(given, dtype=object).flat}
        if not kinds & {str, bytes, bool, np.bool_, np.str_}:
            return as_floats(given)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{field} must be a number or an array of numbers, got a {type(given).__name__}")


def grid_size(k: int) -> int:
    """Check the number of grid points."""
    return whole("k", k, least=2, most=MOST_POINTS)


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
