"""Any training algorithm, as a black box: many models with the row, many without, and what tells them apart.

Balls in many dimensions are empty, and a model of the ratio can be wrong; so the models are projected on the direction
between the two means (found on one half of them) and counted there (on the other half).  Projection loses information:
the advantage is a lower bound.  **Not private**, and expensive: one set of trainings for every row looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.bounds import Risk
from epsworth.exposure.glm import ExposureError
from epsworth.exposure.inputs import NOT_PRIVATE, NotPrivate, finite, positive, share
from epsworth.records import Indices
from epsworth.rounding import show_down

FEWEST = 40


@dataclass(frozen=True, eq=False)
class BlackBox(NotPrivate):
    """Estimated losses of one row at some models, with intervals.

    Attributes
    ----------
    losses, lower, upper : ndarray of shape ``(m,)``
        Smoothed estimate ``log (k+1/2)/(N+1)`` ratio of coverage within ``radius`` along the projection, and bounds on
        the *projected* coverage ratio that hold per model with the confidence.
    censored : ndarray of bool, shape ``(m,)``
        No model of one of the sides fell that near: the loss is unknown on that side, not infinite.
    advantage_lower : float
        Lower bound on the membership advantage, with the confidence.
    direction : ndarray of shape ``(d,)``
        What the models were projected on.
    radius : float
        Half-width of the window along the projection.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.exposure import black_box
    >>> rng = np.random.default_rng(0)
    >>> found = black_box(rng.normal(size=(2000, 3)), rng.normal(size=(2000, 3)) + [2, 0, 0], [[0, 0, 0], [9, 9, 9]])
    >>> found.censored.tolist(), bool(found.lower[0] <= found.losses[0] <= found.upper[0])
    ([False, True], True)
    >>> 0.5 < found.advantage_lower < 1
    True
    """

    losses: Floats
    lower: Floats
    upper: Floats
    censored: Bools
    advantage_lower: float
    direction: Floats
    radius: float

    def __str__(self) -> str:
        return (
            f"membership advantage of at least {show_down(self.advantage_lower, 3)} in {len(self.losses)} models, "
            f"{int(self.censored.sum())} of whose losses are not known on one side ({NOT_PRIVATE})"
        )


def black_box(
    with_row: ArrayLike,
    without_row: ArrayLike,
    models: ArrayLike,
    *,
    radius: float | None = None,
    confidence: float = 0.95,
) -> BlackBox:
    """Estimate the loss of one row from trained models alone.

    Parameters
    ----------
    with_row, without_row : array_like of shape ``(N, d)``
        Coefficients of models trained with and without the row; at least 40 each, independent.
    models : array_like of shape ``(m, d)``
        Released models to judge.
    radius : float, optional
        Half-width along the projection; by default the interquartile range over ``N^(1/5)``.
    confidence : float
        Of each interval, and of the advantage.

    Returns
    -------
    BlackBox

    Raises
    ------
    ExposureError
        For fewer than 40 models on a side, and models of different shapes.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.exposure import black_box
    >>> rng = np.random.default_rng(0)
    >>> found = black_box(rng.normal(size=(2000, 3)), rng.normal(size=(2000, 3)) + [2, 0, 0], [[0, 0, 0], [1, 0, 0]])
    >>> bool(found.losses[0] > found.losses[1]), found.advantage_lower > 0.6
    (True, True)
    """
    given = {"with_row": with_row, "without_row": without_row, "models": models}
    inside, outside, judged = (np.atleast_2d(finite(part, name)) for name, part in given.items())
    if (
        not inside.ndim == outside.ndim == judged.ndim == 2
        or len({inside.shape[1], outside.shape[1], judged.shape[1]}) != 1
    ):
        raise ExposureError("with_row, without_row and models must have the same number of columns")
    if min(len(inside), len(outside)) < FEWEST:
        raise ExposureError(f"give at least {FEWEST} models with the row and without it; fewer tell nothing apart")
    confidence = share("confidence", confidence)
    if radius is not None:
        radius = positive("radius", radius)
    fit_in, fit_out, in_, out = inside[::2], outside[::2], inside[1::2], outside[1::2]
    direction = fit_out.mean(axis=0) - fit_in.mean(axis=0)
    direction = direction / max(float(np.linalg.norm(direction)), 1e-300)
    a, b, at = in_ @ direction, out @ direction, judged @ direction
    if radius is None:
        radius = float(np.subtract(*np.percentile(np.r_[a, b], [75, 25]))) / len(a) ** 0.2
    near_a, near_b = _within(a, at, radius), _within(b, at, radius)
    pairs = [_both(Risk.of(confidence), *near, len(a), len(b)) for near in zip(near_a, near_b, strict=True)]
    low_a, high_a, low_b, high_b = np.array(pairs).reshape(-1, 4).T
    with np.errstate(divide="ignore"):
        lower, upper = np.log(low_a) - np.log(high_b), np.log(high_a) - np.log(low_b)
    smooth = np.log((near_a + 0.5) / (len(a) + 1)) - np.log((near_b + 0.5) / (len(b) + 1))
    advantage = _advantage(fit_in @ direction, fit_out @ direction, a, b, Risk.of(confidence))
    censored = (near_a == 0) | (near_b == 0)
    return BlackBox(as_floats(smooth), as_floats(lower), as_floats(upper), censored, advantage, direction, radius)


def _within(values: Floats, at: Floats, radius: float) -> Indices:
    ordered = np.sort(values)
    above, below = np.searchsorted(ordered, at + radius, side="right"), np.searchsorted(ordered, at - radius)
    return np.asarray(above - below)


def _both(risk: Risk, near_a: int, near_b: int, many_a: int, many_b: int) -> tuple[float, ...]:
    """Return an interval for the coverage of either side; the two hold together."""
    of_a, of_b = risk.split(2)
    return *map(float, of_a.interval(near_a, many_a)), *map(float, of_b.interval(near_b, many_b))


def _advantage(fit_in: Floats, fit_out: Floats, a: Floats, b: Floats, risk: Risk) -> float:
    """Bound from below the advantage of the threshold that the first half of the models suggests."""
    cuts = np.sort(np.r_[fit_in, fit_out])
    gain = np.searchsorted(np.sort(fit_in), cuts) / len(fit_in) - np.searchsorted(np.sort(fit_out), cuts) / len(fit_out)
    cut = cuts[gain.argmax()]
    of_a, of_b = risk.split(2)
    return max(0.0, float(of_a.lower((a < cut).sum(), len(a)) - of_b.upper((b < cut).sum(), len(b))))
