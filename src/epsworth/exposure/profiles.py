"""The privacy profile: losses of all rows, ranked; of one released model, or averaged over models.

**Not private**: computed from raw data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.exposure.distances import kernels
from epsworth.exposure.glm import ExposureError
from epsworth.exposure.inputs import NOT_PRIVATE, NotPrivate, finite, whole
from epsworth.exposure.neighbours import Neighbours
from epsworth.exposure.output import OutputPerturbation
from epsworth.records import Indices
from epsworth.rounding import show_up


@dataclass(frozen=True, eq=False)
class Profile(NotPrivate):
    """Losses of every row in one released model.

    Attributes
    ----------
    losses : ndarray of shape ``(n,)``
        Signed ex-post loss of each row.
    rows : ndarray of shape ``(n,)``
        Row numbers, the least exposed first; the ranking does not depend on ``rate``.

    Examples
    --------
    >>> from epsworth.exposure import fit_base, loo, profile
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> found = profile(loo(X, y, fit_base(X, y, 1.0), 1.0), [0.1, 0.1], rate=1.5)
    >>> found.losses.round(3), found.ranked.round(3)
    (array([ 0.108, -0.027, -0.049]), array([0.027, 0.049, 0.108]))
    """

    losses: Floats
    rows: Indices

    @property
    def ranked(self) -> Floats:
        """Sizes of the losses, smallest first."""
        return as_floats(np.abs(self.losses)[self.rows])

    def __str__(self) -> str:
        return (
            f"{len(self.rows)} rows: the most exposed one is row {self.rows[-1]}, with an ex-post loss of "
            f"{show_up(float(self.ranked[-1]), 3)} in size ({NOT_PRIVATE})"
        )


@dataclass(frozen=True, eq=False)
class TypicalProfile(NotPrivate):
    """What models drawn by the mechanism say about the rows.

    Attributes
    ----------
    ranked : ndarray of shape ``(n,)``
        Mean over models of the ranked sizes of losses (sorted per model, then averaged); sampled.
    mean_abs, kl, adv : ndarray of shape ``(n,)``
        Per row: mean size of the loss, mean loss, membership advantage; exact.
    rate : float
        Rate of the noise.
    draws : int
        Models averaged over.

    Examples
    --------
    >>> from epsworth.exposure import fit_base, loo, typical_profile
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> found = typical_profile(loo(X, y, fit_base(X, y, 1.0), 1.0), 1.5, rng=0)
    >>> found.adv.round(3), found.kl.round(4), found.ranked.shape
    (array([0.047, 0.047, 0.019]), array([0.0055, 0.0055, 0.0009]), (3,))
    """

    ranked: Floats
    mean_abs: Floats
    kl: Floats
    adv: Floats
    rate: float
    draws: int

    def __str__(self) -> str:
        return (
            f"{len(self.adv)} rows, noise of rate {self.rate:.4g}: membership advantage "
            f"{show_up(float(self.adv.max()), 3)} against the most exposed row ({NOT_PRIVATE})"
        )


def profile(neighbours: Neighbours, model: ArrayLike, rate: float) -> Profile:
    """Return the ranked ex-post losses of all rows at one released model (LeBlond et al. 2023, section 4.3).

    **Not private.**

    Parameters
    ----------
    neighbours : Neighbours
        From `loo`.
    model : array_like of shape ``(d,)``
        The released coefficients.
    rate : float
        Rate of the noise that was added.

    Raises
    ------
    ExposureError
        For a model of another length and a rate that is not positive.

    Examples
    --------
    >>> from epsworth.exposure import fit_base, loo, profile
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> found = profile(loo(X, y, fit_base(X, y, 1.0), 1.0), [0.1, 0.1], rate=1.5)
    >>> found.rows
    array([1, 2, 0])
    """
    d = _deltas(neighbours).shape[1]
    mechanism = OutputPerturbation(d, rate)
    losses = mechanism.losses(_deltas(neighbours), finite(model, "model", (d,)) - neighbours.base)
    return Profile(losses, np.argsort(np.abs(losses), kind="stable"))


def typical_profile(
    neighbours: Neighbours, rate: float, *, rng: np.random.Generator | int | None, draws: int = 100
) -> TypicalProfile:
    """Return the profile averaged over models that the mechanism draws; per-row means in closed form.

    **Not private.**  Time O(draws n (d + log n)) for ``ranked``, O(n) for the rest.

    Parameters
    ----------
    neighbours : Neighbours
        From `loo`.
    rate : float
        Rate of the noise.
    rng : numpy.random.Generator, int or None
        Draws the models.
    draws : int
        How many of them.

    Raises
    ------
    ExposureError
        For a rate that is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.exposure import fit_base, loo, typical_profile
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> found = typical_profile(loo(X, y, fit_base(X, y, 1.0), 1.0), 1.5, rng=np.random.default_rng(0))
    >>> bool((np.diff(found.ranked) >= 0).all()), found.adv.round(3)
    (True, array([0.047, 0.047, 0.019]))
    """
    draws = whole("draws", draws, 1)
    deltas = _deltas(neighbours)
    mechanism = OutputPerturbation(deltas.shape[1], rate)
    total = np.zeros(len(neighbours))
    for noise in mechanism.sample(draws, rng):
        total += np.sort(np.abs(mechanism.losses(deltas, noise)))
    law, u = kernels(mechanism.d), rate * neighbours.distances
    return TypicalProfile(total / draws, law.abs(u), law.kl(u), law.adv(u), rate, draws)


def _deltas(neighbours: object) -> Floats:
    """Return where each row moves the model; refuse what knows lengths alone."""
    if not isinstance(neighbours, Neighbours):
        raise ExposureError(
            f"neighbours must be what loo() returns, got a {type(neighbours).__name__}; losses in a model need the "
            "direction of each move, and moves() keeps lengths alone"
        )
    return neighbours.deltas
