"""Where the model would be without each row: all leave-one-out minimisers at once, with certificates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.callbacks import check_callback
from epsworth.exposure.fitting import check_coefficients, check_data, check_l2
from epsworth.exposure.glm import ExposureError, Loss, loss_named
from epsworth.exposure.inputs import Classes, NotPrivate, number, whole
from epsworth.exposure.left_out import (
    Problem,
    Regulariser,
    check_regulariser,
    furthest,
    furthest_first,
    newton,
    refined,
)
from epsworth.keeping import Keeping
from epsworth.numerals import short
from epsworth.parallel import check_n_jobs
from epsworth.rounding import up

Method = Literal["newton", "wc", "exact"]


@dataclass(frozen=True, eq=False)
class Neighbours(NotPrivate):
    """The models of all data sets that lack one row.

    Attributes
    ----------
    base : ndarray of shape ``(d,)``
        The model of the whole data set.
    deltas : ndarray of shape ``(n, d)``
        Row i: the model without row i, minus ``base``.
    errors : ndarray of shape ``(n,)``
        Bound on the distance between ``deltas[i]`` and the truth.
    method, regulariser, loss : str
        How they were found; what stays fixed when a row leaves.
    l2 : float
        Weight of the regulariser.

    Examples
    --------
    >>> from epsworth.exposure import fit_base, loo
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> found = loo(X, y, fit_base(X, y, 1.0), 1.0)
    >>> found.deltas.shape, found.distances.round(3), bool(found.errors.max() < 1e-3)
    ((3, 2), array([0.099, 0.099, 0.039]), True)
    """

    base: Floats
    deltas: Floats
    errors: Floats
    method: str
    regulariser: Regulariser
    loss: str
    l2: float

    def __len__(self) -> int:
        return len(self.deltas)

    def __str__(self) -> str:
        return furthest(self.distances, self.errors)

    @property
    def distances(self) -> Floats:
        """How far each row moves the model, shape ``(n,)``."""
        return as_floats(np.linalg.norm(self.deltas, axis=1))


def loo(
    X: ArrayLike,
    y: ArrayLike,
    f: ArrayLike,
    l2: float,
    method: Method = "newton",
    *,
    tol: float | None = None,
    top: int | None = None,
    regulariser: Regulariser = "mean",
    loss: str = "logistic",
    classes: Classes | None = None,
    n_jobs: int | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[float], None] | None = None,
) -> Neighbours:
    """Return the model of every data set that lacks one row, and how far off it can be.

    Claim: ``|A(x without row i) - A(x) - deltas[i]| <= errors[i]`` for every row, where A is the exact minimiser; the
    same bound holds against ``f + deltas[i]``.  Time O(n d^2 + d^3) for ``newton`` and ``wc``, O(n^2 d) for ``exact``.

    Parameters
    ----------
    X, y : array_like of shape ``(n, d)``, ``(n,)``
        Rows in the unit ball; two different labels.
    f : array_like of shape ``(d,)``
        The base model, from `fit_base`; what is left of its gradient is counted in ``errors``.
    l2 : float
        Weight of ``|f|^2 / 2`` beside the mean loss.
    method : {"newton", "wc", "exact"}
        One Newton step per row; the published point across the sphere (it overstates the distance, by 8 times at small
        ``l2``); or every row solved to rounding level.
    tol : float, optional
        Refine the rows whose relative error is larger than this, O(n d) each.
    top : int, optional
        Refine only among this many rows: those that may move the model furthest.
    regulariser : {"mean", "sum"}
        What stays fixed when a row leaves: ``l2`` beside the mean loss (the papers), or ``n l2`` beside the summed loss
        (libraries with a parameter ``C = 1 / (n l2)``).
    loss : {"logistic", "squared", "probit"}
        Loss of the margin.
    classes : pair of labels, optional
        The two labels, -1 first, where they are declared; the data may then hold one of them only.
    n_jobs : int, optional
        Workers that refine rows, block by block; -1 for all cores.  Results do not depend on it, to the bit.
    checkpoint : path, optional
        A folder in which blocks are kept as they are done: the same call goes on from it, and finds the same bits.  It
        is computed from raw data: keep it as you keep the table.
    progress : callable, optional
        Called with the share of the work that is done.

    Examples
    --------
    >>> from epsworth.exposure import fit_base, loo
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> found = loo(X, y, fit_base(X, y, 1.0), 1.0)
    >>> found.distances.round(3), bool((found.errors < 1e-3).all())
    (array([0.099, 0.099, 0.039]), True)

    References
    ----------
    LeBlond et al. 2023, eq. (4)-(7), for ``wc``.  The certificate is the smaller of Taylor's remainder over strong
    convexity and, for the logistic loss, self-concordance: Bach 2010, "Self-concordant analysis for logistic
    regression".
    """
    rows, labels = check_data(X, y, classes)
    if tol is not None and not number(tol) >= 0:
        raise ExposureError(f"tol must be a relative error of at least 0, got {short(tol)}")
    if top is not None:
        top = whole("top", top, 0)
    base, weight = check_coefficients(f, rows.shape[1]), check_l2(l2)
    check_n_jobs(n_jobs)
    check_callback("progress", progress)
    given: dict[str, Any] = {"method": method, "tol": tol, "top": top, "regulariser": regulariser}
    kept = None
    if checkpoint is not None:
        from epsworth.utility.steps import KeptSteps

        data = {"rows": (rows, labels), "the base model": (base,)}
        kept = KeptSteps.of(checkpoint, "neighbours of a model", data, given | {"l2": weight, "loss": loss})
    law = loss_named(loss)
    found = leave_one_out(rows, labels, base, weight, law, **given, n_jobs=n_jobs, kept=kept, told=progress)
    if progress is not None:
        progress(1.0)
    return found


def leave_one_out(
    X: Floats,
    y: Floats,
    f: Floats,
    l2: float,
    loss: Loss,
    *,
    method: Method = "newton",
    tol: float | None = None,
    top: int | None = None,
    regulariser: Regulariser = "mean",
    n_jobs: int | None = None,
    kept: Keeping | None = None,
    told: Callable[[float], None] | None = None,
) -> Neighbours:
    """Return what `loo` returns, for rows and labels that were checked."""
    if not isinstance(method, str) or method not in ("newton", "wc", "exact"):
        raise ExposureError(f"method must be newton, wc or exact, got {short(method)}")
    check_regulariser(regulariser)
    if tol is not None and method == "wc":
        raise ExposureError("tol refines Newton's points; leave it out with method='wc', or use method='newton'")
    problem = Problem(X, y, f, l2, loss, regulariser)
    deltas, errors = _worst_case(problem) if method == "wc" else _newton(problem)
    rows = np.arange(0)
    if method == "exact":
        rows, tol = np.arange(len(X)), 0.0
    elif tol is not None:
        sizes = np.linalg.norm(deltas, axis=1)
        rows = np.flatnonzero(errors > tol * sizes)
        if top is not None:
            rows = furthest_first(rows, sizes, errors)[:top]
    if len(rows):
        deltas[rows], errors[rows] = refined(
            problem, problem.inverse(), rows, deltas[rows], errors[rows], tol or 0.0, n_jobs, kept, told
        )
    errors = up(errors, ulps=X.shape[1] + 16)  # of the norms and the few sums that an error is made of
    return Neighbours(f, deltas, errors, method, regulariser, loss.name, l2)


def _newton(problem: Problem) -> tuple[Floats, Floats]:
    deltas, errors = np.empty(problem.X.shape), np.empty(len(problem.X))
    for part, steps, off in newton(problem):
        deltas[part], errors[part] = steps, off
    return deltas, errors


def _worst_case(problem: Problem) -> tuple[Floats, Floats]:
    """Return the far end of the sphere; the truth lies in the sphere, so its diameter bounds the error."""
    deltas = problem.pulls() / problem.convexity
    return deltas, as_floats(np.linalg.norm(deltas, axis=1) + problem.unexplained() + problem.rounded(deltas))
