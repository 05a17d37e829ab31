"""Models that `fit_base` fits and `moves` reads: two labels or several, an intercept that is free, L1 beside L2.

The penalty leaves an intercept alone.  Scores of K classes sum to 0, which takes nothing from the loss or the penalty
and leaves one minimiser; they are held in K - 1 orthonormal coordinates, so that distances are those of the scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.exposure.fitting import (
    Penalty,
    Rows,
    any_rows,
    check_any,
    check_coefficients,
    check_l2,
    check_size,
    fit,
    numbered_classes,
)
from epsworth.exposure.glm import ExposureError, Loss, RowLoss, Softmax, loss_named
from epsworth.exposure.inputs import Classes, numbers, weight_of
from epsworth.exposure.lasso import fit_lasso
from epsworth.exposure.sparse import Slot, SparseRows
from epsworth.numerals import short


@dataclass(frozen=True, eq=False)
class Design:
    """Checked rows, with a constant 1 for an intercept that is free, labels, penalties and the loss.

    ``l2``: one weight, or one per column; ``l1``: one per column, or None.
    """

    rows: Rows
    labels: Floats
    l2: Penalty
    l1: Floats | None
    loss: RowLoss

    @classmethod
    def of(
        cls, X: Any, y: ArrayLike, l2: float, l1: float, loss: str, classes: Classes | None, fit_intercept: bool
    ) -> Design:
        """Return the design, or say what is wrong with it."""
        if loss == Softmax.name:
            if classes is not None:
                raise ExposureError("classes declares two labels; leave it out with loss='multinomial'")
            rows = any_rows(X)
            values, labels = numbered_classes(y, len(rows))
            law: RowLoss = Softmax(len(values))
        else:
            (rows, labels), law = check_any(X, y, classes), loss_named(loss)
        if not isinstance(fit_intercept, (bool, np.bool_)):
            raise ExposureError(f"fit_intercept must be True or False, got {short(fit_intercept)}")
        (n, d), free = rows.shape, int(fit_intercept)
        if free:
            if not law.self_concordant:
                raise ExposureError(f"fit_intercept needs loss='logistic' or 'multinomial', got {short(loss)}")
            if len(np.unique(labels)) < 2:
                raise ExposureError("y holds one label only, for which no intercept that is free is best; leave it out")
            if isinstance(rows, SparseRows):
                rows = SparseRows((*rows.slots, Slot(d, 1, None, 1.0)), (n, d + 1))
            else:
                rows = as_floats(np.column_stack([rows, np.ones(n)]))
        heavy = _check_l1(l1)
        if heavy and law.name != "logistic":
            raise ExposureError(f"l1 needs loss='logistic', got {short(loss)}; leave it out")
        penalised = np.append(np.ones(d), np.zeros(free))
        weight: Penalty = 0.0 if heavy and weight_of(l2) == 0 else check_l2(l2)
        if free:
            weight = weight * (penalised[:, np.newaxis] if isinstance(law, Softmax) else penalised)
        return cls(rows, labels, weight, heavy * penalised if heavy else None, law)


def _check_l1(l1: float) -> float:
    weight = weight_of(l1)
    if not (math.isfinite(weight) and weight >= 0):
        raise ExposureError(f"l1 must be finite and at least 0, got {short(l1)}")
    return weight


def coordinates(f: ArrayLike, d: int, loss: RowLoss) -> Floats:
    """Return what `coefficients` took f from; of scores that do not sum to 0 what predicts the same."""
    if not isinstance(loss, Softmax):
        return check_coefficients(f, d)
    found = numbers(f, "f")
    if found.shape != (loss.classes, d) or not np.isfinite(found).all():
        raise ExposureError(f"f must hold finite coefficients of shape ({loss.classes}, {d}), got shape {found.shape}")
    return as_floats(check_size(found).T @ loss.basis)


def coefficients(f: Floats, loss: RowLoss) -> Floats:
    """Return coefficients as users know them: one row per class where there are more than two."""
    return as_floats(loss.basis @ f.T) if isinstance(loss, Softmax) else f


def fit_base(
    X: Any,
    y: ArrayLike,
    l2: float,
    *,
    loss: str = "logistic",
    classes: Classes | None = None,
    fit_intercept: bool = False,
    l1: float = 0.0,
) -> Floats:
    """Return the coefficients that minimise the regularised mean loss, exact to rounding.

    Claim: the gradient of J at the result, as computed, is at most 1e-12 in norm; otherwise a `ExposureError` says so.

    Parameters
    ----------
    X : array_like or sparse matrix of shape ``(n, d)``
        Rows in the unit ball.
    y : array_like of shape ``(n,)``
        Two different labels, numbers or texts; the larger is +1.  With the loss ``multinomial`` two or more.
    l2 : float
        Weight of ``|f|^2 / 2`` beside the *mean* loss; scikit-learn's ``C`` is ``1 / (n l2)``.
    loss : {"logistic", "squared", "probit", "multinomial"}
        Loss of the margin, or the softmax of all classes.
    classes : pair of labels, optional
        The two labels, -1 first, where they are declared; the data may then hold one of them only.
    fit_intercept : bool
        Add an intercept that is not regularised (it comes last), as scikit-learn does by default.  For `moves` only: it
        has no sensitivity, so no noise makes it private.
    l1 : float
        Weight of the sum of absolute values beside the mean loss (logistic loss alone); l2 may then be 0.  Of
        scikit-learn's ``C`` and ``l1_ratio`` it is ``l1_ratio / (n C)``, and l2 ``(1 - l1_ratio) / (n C)``.  For
        `moves` only, too.

    Returns
    -------
    ndarray of shape ``(d,)``, or ``(K, d)`` for K classes in sorted order; one column more with an intercept

    Raises
    ------
    ExposureError
        For rows outside the unit ball, other than two labels, and a weight that is not positive.

    Examples
    --------
    >>> from epsworth.exposure import fit_base
    >>> fit_base([[0.5, 0.0], [0.0, 0.5]], [1, -1], 1.0).round(4)
    array([ 0.1212, -0.1212])
    >>> fit_base([[0.5], [0.0], [0.1]], ["a", "b", "c"], 0.1, loss="multinomial", fit_intercept=True).shape
    (3, 2)
    >>> fit_base([[0.5, 0.0], [0.0, 0.1]], [1, -1], 0.0, l1=0.1).round(4)
    array([0.8109, 0.    ])

    References
    ----------
    Chaudhuri, Monteleoni & Sarwate 2011, "Differentially private empirical risk minimization".
    """
    design = Design.of(X, y, l2, l1, loss, classes, fit_intercept)
    if design.l1 is not None:
        assert isinstance(design.loss, Loss)
        return fit_lasso(design.rows, design.labels, design.l2, design.l1, design.loss)
    return coefficients(fit(design.rows, design.labels, design.l2, design.loss), design.loss)
