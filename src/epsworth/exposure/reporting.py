"""What can be said without looking at the data: the worst case over all rows, and stand-in data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.exposure.distances import above, kernels
from epsworth.exposure.inputs import generator, positive, whole
from epsworth.results import Result
from epsworth.rounding import show_up, up


@dataclass(frozen=True)
class WorstCase(Result):
    """What pure epsilon means for *any* row of *any* data set; safe to publish.

    Attributes
    ----------
    epsilon, d : float, int
        The mechanism's epsilon; number of coefficients.
    advantage : float
        Largest membership advantage that output perturbation allows in this dimension.
    any_mechanism : float
        The same for any pure epsilon-private mechanism, ``tanh(epsilon / 2)``.
    mean_loss, mean_abs_loss : float
        Largest mean loss and mean size of the loss.

    Examples
    --------
    >>> from epsworth.exposure import worst_case
    >>> found = worst_case(1.0, 109)
    >>> round(found.advantage, 3), round(found.any_mechanism, 3)
    (0.038, 0.462)
    >>> found.epsilon_at(1e-5) < 1
    True
    """

    epsilon: float
    d: int
    advantage: float
    any_mechanism: float
    mean_loss: float
    mean_abs_loss: float

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, and that no data was read."""
        return {"notice": "data-independent"} | super().to_dict()

    def epsilon_at(self, delta: float) -> float:
        """Return the smaller epsilon that holds once ``delta`` is allowed."""
        return float(kernels(self.d).epsilon(self.epsilon, delta))

    def __str__(self) -> str:
        """Return the meaning in a sentence."""
        return (
            f"epsilon {show_up(self.epsilon)} with {self.d} coefficients: no attack tells whether a row was used with "
            f"more than {show_up(50 * (1 + self.advantage), 3)} % accuracy, whatever the data (data-independent)"
        )


def worst_case(epsilon: float, d: int) -> WorstCase:
    """Return what epsilon means for output perturbation of d coefficients, whatever the data: nothing is read.

    Claim: no row's distance exceeds the sensitivity, so u is at most epsilon, and every quantity rises with u.

    Parameters
    ----------
    epsilon : float
        Pure privacy loss per row.
    d : int
        Number of coefficients, a constant column included.

    Raises
    ------
    ExposureError
        For an epsilon that is not positive, or no coefficient.

    Examples
    --------
    >>> from epsworth.exposure import worst_case
    >>> print(worst_case(1.0, 109))
    epsilon 1 with 109 coefficients: no attack tells whether a row was used with more than 52 % accuracy, \
whatever the data (data-independent)
    """
    epsilon = positive("epsilon", epsilon)
    law = kernels(d)
    advantage, mean_loss, mean_abs_loss = (above(float(of(epsilon))) for of in (law.adv, law.kl, law.abs))
    any_mechanism = min(up(math.tanh(epsilon / 2), ulps=3), 1.0)  # a half, and two for the library's tanh
    mean_loss, mean_abs_loss = min(mean_loss, epsilon), min(mean_abs_loss, epsilon)
    return WorstCase(epsilon, law.d, min(advantage, any_mechanism), any_mechanism, mean_loss, mean_abs_loss)


def stand_in(n: int, d: int, *, rng: np.random.Generator | int | None, strength: float = 5.0) -> tuple[Floats, Floats]:
    """Return synthetic rows in the unit ball with logistic labels, of the public shape ``(n, d)`` only.

    Run `window` on them in place of private data: what comes out is safe to publish, and as right as they are alike.

    Parameters
    ----------
    n, d : int
        Number of rows and of features.
    rng : numpy.random.Generator, int or None
        What draws them.
    strength : float
        How steeply the chance of a label rises along a random direction.

    Raises
    ------
    ExposureError
        For fewer than two rows, or no feature.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.exposure import stand_in
    >>> X, y = stand_in(100, 3, rng=np.random.default_rng(0))
    >>> X.shape, bool(np.linalg.norm(X, axis=1).max() <= 1), np.unique(y)
    ((100, 3), True, array([-1.,  1.]))
    """
    n, d = whole("n", n, 2), whole("d", d, 1)
    rng, strength = generator(rng), positive("strength", strength)
    X = rng.standard_normal((n, d))
    X *= rng.random((n, 1)) ** (1 / d) / np.linalg.norm(X, axis=1, keepdims=True)
    rule = rng.standard_normal(d)
    margins = X @ rule * strength / np.linalg.norm(rule)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-margins)), 1.0, -1.0)
    y[:2] = [1.0, -1.0]  # both labels occur, however small n is
    return as_floats(X * (1 - 1e-12)), as_floats(y)
