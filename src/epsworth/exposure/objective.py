"""Objective perturbation: the exact ex-post loss of every row at a released model, without retraining.

The released model minimises ``sum_j l_j(f) + reg/2 |f|^2 + b.f``, so it *determines* the noise b that was drawn, on
this data set and on every neighbour.  The loss is the ratio of the noise's densities times that of the Jacobians
(Chaudhuri, Monteleoni & Sarwate 2011, section 3; Redberg & Wang 2021).  **Not private.**
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.exposure.fitting import NORM_SLACK, check_coefficients, check_data, check_table, weighted_gram
from epsworth.exposure.glm import ExposureError, loss_named
from epsworth.exposure.inputs import NOT_PRIVATE, Classes, NotPrivate, positive
from epsworth.numerals import short
from epsworth.rounding import show_up

CURVATURE = 0.25  # of the logistic loss, per squared length of a row


class ExposureWarning(UserWarning):
    """A model whose stated epsilon may not hold.

    Examples
    --------
    >>> import warnings
    >>> from types import SimpleNamespace
    >>> from epsworth.exposure import ExposureWarning, expost_diffprivlib
    >>> model = SimpleNamespace(C=1.0, epsilon=1.0, data_norm=12.0, fit_intercept=False, coef_=[[0.1, 0.1]])
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     found = expost_diffprivlib(model, [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1])
    >>> told[0].category is ExposureWarning
    True
    >>> str(told[0].message)
    "data_norm is 12: above 1 diffprivlib's epsilon can be exceeded; rescale the rows to the unit ball"
    """


@dataclass(frozen=True, eq=False)
class ExPost(NotPrivate):
    """Loss of each row at a released model, in its two parts, shape ``(n,)`` each; not private.

    Parameters
    ----------
    noise_part, jacobian_part : ndarray of shape ``(n,)``
        From the density of the noise, and from the change of variables.

    Examples
    --------
    >>> from epsworth.exposure import expost_objective
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> found = expost_objective(X, y, [0.1, 0.1], reg=3.0, noise_scale=2.0)
    >>> found.losses.round(3), bool((found.losses == found.noise_part + found.jacobian_part).all())
    (array([ 0.013, -0.117, -0.102]), True)
    """

    noise_part: Floats
    jacobian_part: Floats

    @property
    def losses(self) -> Floats:
        """Log density of the model with the row over without it."""
        return as_floats(self.noise_part + self.jacobian_part)

    def __str__(self) -> str:
        worst = int(np.abs(self.losses).argmax())
        size = show_up(float(abs(self.losses[worst])), 3)
        return f"{len(self.losses)} rows: the ex-post loss of row {worst} is largest, {size} in size ({NOT_PRIVATE})"


def expost_objective(
    X: ArrayLike,
    y: ArrayLike,
    model: ArrayLike,
    *,
    reg: float,
    noise_scale: float,
    noise: Literal["laplace", "gaussian"] = "laplace",
    loss: str = "logistic",
    classes: Classes | None = None,
) -> ExPost:
    """Return the ex-post loss of every row (removed) at a model released by objective perturbation.

    Claim: exact for the exact minimiser of the perturbed objective; O(n d^2).

    Parameters
    ----------
    X, y : array_like of shape ``(n, d)``, ``(n,)``
        The rows that were trained on, in the unit ball; two different labels.
    model : array_like of shape ``(d,)``
        The released coefficients.
    reg : float
        Weight of ``|f|^2 / 2`` beside the *summed* loss, the same for neighbours.
    noise_scale : float
        Density of b proportional to ``exp(-|b| / s)``, or Gaussian with standard deviation s per coordinate.
    noise : {"laplace", "gaussian"}
        Law of b.
    loss : {"logistic", "squared", "probit"}
        Loss of the margin.
    classes : pair of labels, optional
        The two labels, -1 first, where they are declared; the data may then hold one of them only.

    Raises
    ------
    ExposureError
        For rows outside the unit ball, other than two labels, a model of another length, and weights not positive.

    Examples
    --------
    >>> from epsworth.exposure import expost_objective
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> expost_objective(X, y, [0.1, 0.1], reg=3.0, noise_scale=2.0).losses.round(3)
    array([ 0.013, -0.117, -0.102])
    """
    rows, labels = check_data(X, y, classes)
    return _expost(rows, labels, check_coefficients(model, rows.shape[1]), reg, noise_scale, noise, loss)


def _expost(X: Floats, y: Floats, f: Floats, reg: float, scale: float, noise: str, loss: str) -> ExPost:
    """Return the parts for rows of any length."""
    reg, scale = positive("reg", reg), positive("noise_scale", scale)
    if not isinstance(noise, str) or noise not in ("laplace", "gaussian"):
        raise ExposureError(f"noise must be laplace or gaussian, got {short(noise)}")
    law, margins = loss_named(loss), y * (X @ f)
    pulls = (law.slope(margins) * y)[:, None] * X
    curvature = law.curvature(margins)
    b = -(pulls.sum(axis=0) + reg * f)
    # |b + g|^2 - |b|^2, without the cancellation
    change = np.einsum("ij,ij->i", pulls, pulls + 2 * b)
    if noise == "laplace":
        below = np.linalg.norm(b + pulls, axis=1) + np.linalg.norm(b)
        part = change / np.where(below > 0, below, 1.0) / scale
    else:
        part = change / (2 * scale**2)
    hessian = weighted_gram(X, curvature) + reg * np.eye(len(f))
    leverage = curvature * np.einsum("ij,ij->i", X, np.linalg.solve(hessian, X.T).T)
    return ExPost(as_floats(part), as_floats(-np.log1p(-leverage)))


class DiffprivlibModel(Protocol):
    """What is read of a fitted ``diffprivlib.models.LogisticRegression``."""

    C: float
    epsilon: float
    data_norm: float
    fit_intercept: bool
    coef_: Floats


def expost_diffprivlib(
    model: DiffprivlibModel, X: ArrayLike, y: ArrayLike, *, classes: Classes | None = None
) -> ExPost:
    """Return the ex-post loss of every row at a fitted diffprivlib logistic regression; not private.

    Warns where the model's epsilon may not hold: ``data_norm`` above 1 (its Jacobian budget grows with the norm, the
    curvature of the loss with its square: with 12 the loss was seen above epsilon in 13 % of releases), or rows longer
    than ``data_norm`` (they are clipped, as diffprivlib does).  An intercept is refused: it is not regularised.

    Parameters
    ----------
    model : diffprivlib.models.LogisticRegression
        Fitted, binary, ``fit_intercept=False``.  Only its attributes are read; diffprivlib need not be installed.
    X, y : array_like
        What it was fitted on.
    classes : pair of labels, optional
        The two labels, -1 first, where they are declared; the data may then hold one of them only.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from epsworth.exposure import expost_diffprivlib
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> model = SimpleNamespace(C=1.0, epsilon=1.0, data_norm=1.0, fit_intercept=False, coef_=[[0.1, 0.1]])
    >>> expost_diffprivlib(model, X, y).losses.round(3)
    array([0.049, 0.018, 0.014])
    """
    if model.fit_intercept:
        raise ExposureError(
            "the model has an intercept, which diffprivlib does not regularise; append a constant column, rescale the "
            "rows to the unit ball and fit with fit_intercept=False"
        )
    norm = positive("data_norm", model.data_norm)
    table = check_table(X)
    lengths = np.linalg.norm(table, axis=1)
    if norm > 1:
        warnings.warn(
            f"data_norm is {norm:g}: above 1 diffprivlib's epsilon can be exceeded; rescale the rows to the unit ball",
            ExposureWarning, stacklevel=2,
        )  # fmt: skip
    if (lengths > norm * (1 + NORM_SLACK)).any():
        warnings.warn(
            f"some rows are longer than data_norm = {norm:g} and were clipped; rescale them instead",
            ExposureWarning, stacklevel=2,
        )  # fmt: skip
        table = table / np.maximum(1.0, lengths / norm)[:, None]
    rows, labels = check_data(table / max(norm, 1.0), y, classes)
    reg, scale = diffprivlib_noise(positive("C", model.C), positive("epsilon", model.epsilon), norm)
    f = check_coefficients(np.ravel(model.coef_), rows.shape[1])
    return _expost(rows * max(norm, 1.0), labels, f, reg, scale, "laplace", "logistic")


def diffprivlib_noise(C: float, epsilon: float, data_norm: float) -> tuple[float, float]:
    """Return the regulariser on the sum scale and the noise scale that diffprivlib 0.6 uses.

    Examples
    --------
    >>> reg, scale = diffprivlib_noise(C=1.0, epsilon=1.0, data_norm=1.0)
    >>> reg, round(scale, 3)
    (1.0, 3.612)
    """
    left = epsilon - 2 * math.log1p(CURVATURE * data_norm * C)
    more = 0.0
    if left <= 0:
        more, left = CURVATURE * data_norm / math.expm1(epsilon / 4) - 1 / C, epsilon / 2
    return 1 / C + more, 2 * data_norm / left
