"""Where the model would be without each row: all leave-one-out minimisers at once, with certificates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.coverage.fitting import (
    UNIT,
    blocks,
    careful_gradient,
    check_coefficients,
    check_data,
    check_l2,
    minimise,
    roundings,
    weighted_gram,
)
from epsworth.coverage.glm import CoverageError, Loss, loss_named
from epsworth.coverage.inputs import NOT_PRIVATE, Classes, NotPrivate, number, whole
from epsworth.records import Indices
from epsworth.rounding import show_up, up

Method = Literal["newton", "wc", "exact"]
Regulariser = Literal["mean", "sum"]

# What Taylor's remainder and a computed residual leave out.  Let g be the base model's gradient as computed.  The exact
# one is within ROUNDING roundings(..) of it, so that the neighbour's (n times the mean, less one row) is within n + 1
# times that, and strong convexity turns it into a distance: divide by the weight.  On top, f + delta as the user adds
# them is a rounded vector: ROUNDING (|f| + |delta|), twice since delta itself is stored.  A linear solve is judged by
# what it leaves (Higham 2002, section 7.1): the Hessian's least eigenvalue is no smaller than the weight.
ROUNDING = UNIT
CHORD_STEPS = 12
PAIRS = 4_000_000  # (kept row, removed row) pairs whose margins are held at once


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
    >>> from epsworth.coverage import fit_base, loo
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
        far = int(self.distances.argmax())
        return (
            f"{len(self)} rows: without row {far} the model moves furthest, by "
            f"{show_up(float(self.distances[far]), 3)} within {show_up(float(self.errors[far]), 2)} ({NOT_PRIVATE})"
        )

    @property
    def distances(self) -> Floats:
        """How far each row moves the model, shape ``(n,)``."""
        return as_floats(np.linalg.norm(self.deltas, axis=1))


@dataclass(frozen=True, eq=False)
class _Problem:
    """The data set with what every neighbour shares: the sum-scale Hessian and its inverse at the base model."""

    X: Floats
    y: Floats
    f: Floats
    l2: float
    loss: Loss
    regulariser: Regulariser

    @property
    def weight(self) -> float:
        """Weight of |f|^2/2 beside the *summed* loss of the neighbour: its strong convexity."""
        return self.l2 * (len(self.X) - (self.regulariser == "mean"))

    @property
    def size(self) -> float:
        """Norm of the base model."""
        return float(np.linalg.norm(self.f))

    def pulls(self) -> Floats:
        """Return v_i: minus the neighbour's sum-scale gradient at the base model."""
        slopes = self.loss.slope(self.y * (self.X @ self.f)) * self.y
        return as_floats(slopes[:, None] * self.X + (self.l2 * self.f if self.regulariser == "mean" else 0.0))

    def hessian(self) -> Floats:
        curvature = weighted_gram(self.X, self.loss.curvature(self.y * (self.X @ self.f)))
        return as_floats(curvature + self.weight * np.eye(len(self.f)))

    def inverse(self) -> Floats:
        return as_floats(np.linalg.inv(self.hessian()))

    def hessian_roundings(self) -> float:
        """Return how many units of rounding, times a step's length, a computed Hessian times the step can be off by.

        A curvature is off by twice a slope's units of itself and of the squared slope, and by what its margin, off by
        ``(d + 1) |x| |f|``, moves it; a product of two sums takes one for each of its n + 2 d terms and factors.
        """
        n, d = self.X.shape
        margins, squares = self.y * (self.X @ self.f), np.einsum("ij,ij->i", self.X, self.X)
        bent, steep = self.loss.curvature(margins) @ squares, self.loss.slope(margins) ** 2 @ squares
        moved = self.loss.third * (d + 1) * self.size * float((squares**1.5).sum())
        return float((n + 2 * d + 12) * (bent + self.weight) + 2 * self.loss.slope_ulps * (bent + steep) + moved)

    def unexplained(self) -> float:
        """Return how much the base model's own gradient can add to any error (zero at the exact minimiser)."""
        n = len(self.X)
        left = float(np.linalg.norm(careful_gradient(self.X, self.y, self.f, self.l2, self.loss)))
        return (n * left + (n + 1) * ROUNDING * self.roundings()) / self.weight

    def roundings(self) -> float:
        return roundings(self.X, self.y, self.f, self.l2, self.loss)

    def rounded(self, deltas: Floats) -> Floats:
        """Return how far ``f + deltas`` is off as it is stored and added."""
        return as_floats(2 * ROUNDING * (self.size + np.linalg.norm(deltas, axis=1)))

    def solved(self, hessian: Floats, inverse: Floats, rows: slice, right: Floats) -> tuple[Floats, Floats]:
        """Return what `solve` does, and the length of what it leaves of ``right``."""
        X, found = self.X[rows], self.solve(inverse, rows, right)
        own = self.loss.curvature(self.y[rows] * (X @ self.f)) * np.einsum("ij,ij->i", X, found)
        return found, as_floats(np.linalg.norm(right - found @ hessian + own[:, None] * X, axis=1))

    def solve(self, inverse: Floats, rows: slice | Indices, right: Floats) -> Floats:
        """Return (K - h_i x_i x_i^T)^-1 right_i for each row, by Sherman & Morrison."""
        X = self.X[rows]
        h = self.loss.curvature(self.y[rows] * (X @ self.f))
        towards, found = X @ inverse, right @ inverse
        least = self.weight / (self.weight + h * np.einsum("ij,ij->i", X, X))  # of 1 - leverage, in exact arithmetic
        room = np.maximum(1 - h * np.einsum("ij,ij->i", towards, X), least)
        found += (h * np.einsum("ij,ij->i", X, found) / room)[:, None] * towards
        return as_floats(found)


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

    Examples
    --------
    >>> from epsworth.coverage import fit_base, loo
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5]], [1, -1, 1]
    >>> found = loo(X, y, fit_base(X, y, 1.0), 1.0)
    >>> found.distances.round(3), bool((found.errors < 1e-3).all())
    (array([0.099, 0.099, 0.039]), True)

    References
    ----------
    LeBlond et al. 2023, eq. (4)-(7), for ``wc``.  The certificate is Taylor's remainder over strong convexity.
    """
    rows, labels = check_data(X, y, classes)
    if tol is not None and not number(tol) >= 0:
        raise CoverageError(f"tol must be a relative error of at least 0, got {tol!r}")
    if top is not None:
        top = whole("top", top, 0)
    base, weight = check_coefficients(f, rows.shape[1]), check_l2(l2)
    return leave_one_out(
        rows, labels, base, weight, loss_named(loss), method=method, tol=tol, top=top, regulariser=regulariser
    )


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
) -> Neighbours:
    """Return what `loo` returns, for rows and labels that were checked."""
    if method not in ("newton", "wc", "exact"):
        raise CoverageError(f"method must be newton, wc or exact, got {method!r}")
    if regulariser not in ("mean", "sum"):
        raise CoverageError(f"regulariser must be mean or sum, got {regulariser!r}")
    if tol is not None and method == "wc":
        raise CoverageError("tol refines Newton's points; leave it out with method='wc', or use method='newton'")
    problem = _Problem(X, y, f, l2, loss, regulariser)
    deltas, errors = _worst_case(problem) if method == "wc" else _newton(problem)
    if method == "exact":
        _refine(problem, deltas, errors, np.arange(len(X)), 0.0)
    elif tol is not None:
        sizes = np.linalg.norm(deltas, axis=1)
        poor = np.flatnonzero(errors > tol * sizes)
        if top is not None:
            poor = poor[np.argsort(-(sizes + errors)[poor], kind="stable")[:top]]
        _refine(problem, deltas, errors, poor, tol)
    errors = up(errors, ulps=X.shape[1] + 16)  # of the norms and the few sums that an error is made of
    return Neighbours(f, deltas, errors, method, regulariser, loss.name, l2)


def _newton(problem: _Problem) -> tuple[Floats, Floats]:
    hessian, deltas = problem.hessian(), problem.pulls()
    inverse = as_floats(np.linalg.inv(hessian))
    lengths = np.linalg.norm(problem.X, axis=1)
    bend = weighted_gram(problem.X, lengths)
    per_length = ROUNDING * problem.hessian_roundings()
    per_square = ROUNDING * (len(lengths) + 2 * problem.X.shape[1] + 8) * float((lengths**3).sum())
    errors = np.empty(len(deltas))
    for part in blocks(len(deltas)):
        pulls = deltas[part].copy()
        deltas[part], left = problem.solved(hessian, inverse, part, pulls)
        sizes = np.linalg.norm(deltas[part], axis=1)
        moved = np.einsum("ij,ij->i", deltas[part] @ bend, deltas[part]) + per_square * sizes**2
        left += 4 * ROUNDING * np.linalg.norm(pulls, axis=1) + per_length * sizes
        errors[part] = (0.5 * problem.loss.third * moved + left) / problem.weight
    return deltas, errors + problem.unexplained() + problem.rounded(deltas)


def _worst_case(problem: _Problem) -> tuple[Floats, Floats]:
    """Return the far end of the sphere; the truth lies in the sphere, so its diameter bounds the error."""
    deltas = problem.pulls() / problem.weight
    return deltas, as_floats(np.linalg.norm(deltas, axis=1) + problem.unexplained() + problem.rounded(deltas))


def _refine(problem: _Problem, deltas: Floats, errors: Floats, rows: Indices, tol: float) -> None:
    """Improve some rows in place by chord steps against the exact residual; retrain where those stall."""
    inverse = problem.inverse()
    at_base = problem.loss.slope(problem.y * (problem.X @ problem.f)) * problem.y
    for part in blocks(len(rows), max(1, PAIRS // len(problem.X))):
        some = rows[part]
        found = deltas[some]
        residual, noise = _residual(problem, at_base, some, found)
        for _ in range(CHORD_STEPS):
            size = np.linalg.norm(residual, axis=1)
            proposed = found - problem.solve(inverse, some, residual)
            after, blur = _residual(problem, at_base, some, proposed)
            falls = np.linalg.norm(after, axis=1) < size
            found[falls], residual[falls], noise[falls] = proposed[falls], after[falls], blur[falls]
            left = np.linalg.norm(residual, axis=1)
            if (
                not (left < 0.5 * size).any()
                or (left <= 0.9 * tol * problem.weight * np.linalg.norm(found, axis=1)).all()
            ):
                break
        deltas[some] = found
        errors[some] = (np.linalg.norm(residual, axis=1) + noise) / problem.weight  # strong convexity
    floor = problem.unexplained()
    for i in rows[errors[rows] > np.maximum(100 * floor, tol * np.linalg.norm(deltas[rows], axis=1))]:
        deltas[i], errors[i] = _retrain(problem, int(i), problem.f + deltas[i])
    errors[rows] += floor + problem.rounded(deltas[rows])


def _retrain(problem: _Problem, row: int, start: Floats) -> tuple[Floats, float]:
    kept = np.arange(len(problem.X)) != row
    l2 = problem.weight / (len(problem.X) - 1)
    X, y = problem.X[kept], problem.y[kept]
    found, _ = minimise(X, y, l2, problem.loss, start)
    size = float(np.linalg.norm(careful_gradient(X, y, found, l2, problem.loss)))
    size += ROUNDING * roundings(X, y, found, l2, problem.loss)
    return as_floats(found - problem.f), size / l2


def _residual(problem: _Problem, at_base: Floats, rows: Indices, deltas: Floats) -> tuple[Floats, Floats]:
    """Return the neighbours' sum-scale gradients at f + delta_i, apart from the base model's own gradient.

    With each comes how far rounding can take it: every term goes through fewer than n additions, whatever their order,
    two slopes and their difference take their own, and a margin moves by its roundings; the row's own part, too.
    """
    X, y = problem.X, problem.y
    n, d = X.shape
    own = at_base[rows, None] * X[rows] + (problem.l2 * problem.f if problem.regulariser == "mean" else 0.0)
    margins = (X @ problem.f)[:, None] + X @ deltas.T
    change = problem.loss.slope(y[:, None] * margins) * y[:, None] - at_base[:, None]
    change[rows, np.arange(len(rows))] = 0.0
    sizes, lengths = np.linalg.norm(deltas, axis=1), np.linalg.norm(X, axis=1)
    ulps = problem.loss.slope_ulps
    noise = (n + ulps + 4) * (lengths @ np.abs(change)) + 2 * ulps * (lengths @ np.abs(at_base))
    noise += 4 * problem.weight * sizes + (ulps + 4) * np.linalg.norm(own, axis=1)
    noise += problem.loss.most_curved * (d + 1) * (lengths @ lengths) * (3 * problem.size + sizes)
    return as_floats((X.T @ change).T + problem.weight * deltas - own), as_floats(ROUNDING * noise)
