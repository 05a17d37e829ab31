"""Regularised linear models in the unit ball: checks of the data, and the exact minimiser.

The objective is ``J(f) = mean_i l(y_i f.x_i) + l2/2 |f|^2`` (Chaudhuri, Monteleoni & Sarwate 2011).  There is no free
intercept: append a constant column *before* scaling, so that it is regularised and counted in the norm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.coverage.glm import CoverageError, Loss, loss_named

NORM_SLACK = 1e-9
GRADIENT_TOLERANCE = 1e-12  # guaranteed |grad J| at what `fit_base` returns; charged to the sensitivity of a release
BLOCK = 65_536  # rows handled at once
MOST_STEPS = 200


def check_data(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return rows and labels -1/+1 as floats, or say what is wrong with them.

    The larger of two label values is +1.
    """
    try:
        rows, labels = as_floats(X), as_floats(y)
    except (TypeError, ValueError):
        raise CoverageError("X and y must be numbers; encode categories first (see epsworth.coverage.encode)") from None
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise CoverageError(f"X must be a table of shape (rows, features), got shape {rows.shape}; reshape it")
    if len(rows) < 2:
        raise CoverageError(f"X has {len(rows)} rows; neighbours differ in one row, so give at least 2")
    if labels.shape != (len(rows),):
        raise CoverageError(f"y must hold one label per row, shape ({len(rows)},), got shape {labels.shape}")
    if not np.isfinite(rows).all():
        bad = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise CoverageError(f"X, row {bad} holds a missing or infinite value; fill or drop it first")
    if not np.isfinite(labels).all():
        raise CoverageError(f"y, row {int(np.argmin(np.isfinite(labels)))} has no label; fill or drop it first")
    lengths = np.linalg.norm(rows, axis=1)
    if lengths.max() > 1 + NORM_SLACK:
        bad = int(lengths.argmax())
        raise CoverageError(
            f"X, row {bad} has norm {lengths[bad]:.6g}; rows must lie in the unit ball: divide all by a public bound"
        )
    return rows, _signs(labels)


def _signs(labels: Floats) -> Floats:
    """Return -1/+1 for two values."""
    values = np.unique(labels)
    if len(values) != 2:
        shown = ", ".join(f"{v:g}" for v in values[:4])
        raise CoverageError(f"y must hold two different labels, got {len(values)} ({shown}); give a binary target")
    return as_floats(np.where(labels == values[1], 1.0, -1.0))


def check_l2(l2: float) -> float:
    """Return the regulariser's weight, or refuse one that bounds nothing."""
    if not (math.isfinite(l2) and l2 > 0):
        raise CoverageError(
            f"l2 must be positive and finite, got {l2!r}; without it one row can move the model any distance"
        )
    return float(l2)


def check_coefficients(f: ArrayLike, d: int) -> Floats:
    """Return coefficients of the right shape."""
    found = as_floats(f)
    if found.shape != (d,) or not np.isfinite(found).all():
        raise CoverageError(f"f must hold {d} finite coefficients, one per column of X, got shape {found.shape}")
    return found


def blocks(count: int, size: int = BLOCK) -> Iterator[slice]:
    """Yield slices that cover ``range(count)``."""
    for first in range(0, count, size):
        yield slice(first, min(first + size, count))


def weighted_gram(X: Floats, weights: Floats) -> Floats:
    """Return ``sum_i w_i x_i x_i^T`` without a second copy of the table."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for part in blocks(len(X)):
        total += X[part].T @ (weights[part, None] * X[part])
    return total


def gradient(X: Floats, y: Floats, f: Floats, l2: float, loss: Loss) -> Floats:
    """Return the gradient of J at f."""
    return as_floats(X.T @ (loss.slope(y * (X @ f)) * y) / len(X) + l2 * f)


def minimise(X: Floats, y: Floats, l2: float, loss: Loss, start: Floats) -> tuple[Floats, float]:
    """Return the minimiser of J to rounding level, by damped Newton steps, and the gradient's norm there."""

    def objective(f: Floats) -> float:
        return float(loss.value(y * (X @ f)).mean() + 0.5 * l2 * f @ f)

    f, slope = start, gradient(X, y, start, l2, loss)
    size = float(np.linalg.norm(slope))
    for _ in range(MOST_STEPS):
        hessian = weighted_gram(X, loss.curvature(y * (X @ f))) / len(X) + l2 * np.eye(len(f))
        step = as_floats(np.linalg.solve(hessian, slope))
        full = gradient(X, y, f - step, l2, loss)
        share = 1.0
        if np.linalg.norm(full) > 0.5 * size and size > GRADIENT_TOLERANCE:  # far away: halve until J falls enough
            here, fall = objective(f), float(slope @ step)
            while objective(f - share * step) > here - 1e-4 * share * fall and share > 1e-10:
                share /= 2
            full = full if share == 1 else gradient(X, y, f - share * step, l2, loss)
        following = float(np.linalg.norm(full))
        if following >= size and size <= GRADIENT_TOLERANCE:
            break  # rounding level: the last point is the best
        f, slope, size = f - share * step, full, following
        if size == 0:
            break
    return f, size


def fit_base(X: ArrayLike, y: ArrayLike, l2: float, *, loss: str = "logistic") -> Floats:
    """Return the coefficients that minimise the regularised mean loss, exact to rounding.

    Claim: the gradient of J at the result is at most 1e-12 in norm; otherwise a `CoverageError` says so.

    Parameters
    ----------
    X : array_like of shape ``(n, d)``
        Rows in the unit ball.
    y : array_like of shape ``(n,)``
        Two different labels; the larger is +1.
    l2 : float
        Weight of ``|f|^2 / 2`` beside the *mean* loss; scikit-learn's ``C`` is ``1 / (n l2)``.
    loss : {"logistic", "squared", "probit"}
        Loss of the margin.

    Examples
    --------
    >>> fit_base([[0.5, 0.0], [0.0, 0.5]], [1, -1], 1.0).round(4)
    array([ 0.1212, -0.1212])

    References
    ----------
    Chaudhuri, Monteleoni & Sarwate 2011, "Differentially private empirical risk minimization".
    """
    rows, labels = check_data(X, y)
    found, size = minimise(rows, labels, check_l2(l2), loss_named(loss), np.zeros(rows.shape[1]))
    if size > GRADIENT_TOLERANCE:
        raise CoverageError(
            f"the fit stops at a gradient of {size:.1e}, above {GRADIENT_TOLERANCE:g}; take a larger l2 than {l2:g}"
        )
    return found
