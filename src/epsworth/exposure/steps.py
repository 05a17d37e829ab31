"""How far each row moves the model, without where to: of sparse tables all leave-one-out models would fill a disk.

There Newton's step for a row x is ``alpha K^-1 x + K^-1 p``, p being what all rows pull (Sherman & Morrison), so its
length, its energy and the way to the neighbour's minimiser follow from the forms ``x^T K^-1 x`` and ``x^T K^-2 x``: as
many sums as a row has pairs of entries, instead of a product with the whole matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats, slices
from epsworth.exposure.fitting import BLOCK
from epsworth.exposure.glm import ExposureError, Loss
from epsworth.exposure.inputs import Classes, NotPrivate
from epsworth.exposure.lasso import moves_of_lasso
from epsworth.exposure.left_out import (
    NO_INVERSE,
    ROUNDING,
    SHADE,
    Curvature,
    Problem,
    Regulariser,
    check_regulariser,
    furthest,
    furthest_first,
    least_eigenvalue,
    newton,
    refined,
)
from epsworth.exposure.models import Design, coordinates
from epsworth.exposure.sparse import PANEL, SparseRows
from epsworth.keeping import Keeping
from epsworth.rounding import down, up

NEAR, RESTARTS = 1e-7, 50  # of the search for an eigenvalue: how close, relative, and how long


@dataclass(frozen=True, eq=False)
class Moves(NotPrivate):
    """How far the model moves where one row is left out; `Neighbours` says where to, too.

    Attributes
    ----------
    base : ndarray
        The model of the whole data set, as `fit_base` returned it.
    distances, errors : ndarray of shape ``(n,)``
        How far each row moves the model, and a bound on how far off that is; ``inf`` where nothing is certain: under
        L1, and beside a free intercept where the table or ``l2`` is small.  Both are where there is no model without
        the row: its label is the last of its kind, and the intercept is free.
    regulariser, loss : str
        What stays fixed when a row leaves; the loss.
    l2, l1 : float
        Weights of the regulariser.
    fit_intercept : bool
        Whether the model's last column is an intercept that is not regularised.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from epsworth.exposure import fit_base, moves
    >>> X, y = csr_array([[0.8, 0.0], [0.0, 0.6], [0.5, -0.5]]), ["no", "yes", "no"]
    >>> print(moves(X, y, fit_base(X, y, 1.0), 1.0))
    3 rows: without row 0 the model moves furthest, by 0.118 within 0.00052 (computed from raw data: not private)
    """

    base: Floats
    distances: Floats
    errors: Floats
    regulariser: Regulariser
    loss: str
    l2: float
    fit_intercept: bool = False
    l1: float = 0.0

    @property
    def lower(self) -> Floats:
        """No row moves the model by less; ``inf`` where there is no model without it."""
        with np.errstate(invalid="ignore"):
            least = np.maximum(down(as_floats(self.distances - self.errors)), 0)
        return as_floats(np.where(np.isinf(self.distances), np.inf, least))

    @property
    def upper(self) -> Floats:
        """No row moves the model by more; ``inf`` where nothing is certain."""
        return up(as_floats(self.distances + self.errors))

    def __len__(self) -> int:
        return len(self.distances)

    def __str__(self) -> str:
        return furthest(self.distances, self.errors)


def moves(
    X: Any,
    y: ArrayLike,
    f: ArrayLike,
    l2: float,
    *,
    regulariser: Regulariser = "mean",
    loss: str = "logistic",
    classes: Classes | None = None,
    fit_intercept: bool = False,
    l1: float = 0.0,
) -> Moves:
    """Return how far every row moves the model, and how far off that can be; not private.

    Claim: ``| |A(x without row i) - A(x)| - distances[i] | <= errors[i]`` for every row, where A is the exact
    minimiser, its intercept included; of several classes the one whose intercepts sum to 0.  Time O(n k^2 + d^3) and
    memory O(n k + d^2) for k entries a row of a sparse table, O(n d^2 + d^3) and O(n d) for others, d being the number
    of coefficients.  It says who is exposed, and makes nothing private: noise needs a sensitivity, see `release`.

    Parameters
    ----------
    X : array_like, sparse matrix or array of SciPy, or `SparseRows`, of shape ``(n, d)``
        Rows in the unit ball.
    y : array_like of shape ``(n,)``
        Two different labels, numbers or texts; with the loss ``multinomial`` two or more.
    f : array_like
        The base model, from `fit_base`, or from scikit-learn: ``coef_`` beside ``intercept_``.
    l2, regulariser, classes
        As in `loo`.
    loss, fit_intercept, l1
        As in `fit_base`.  With a free intercept there is no strong convexity: errors are ``inf`` where the model may
        move too far for a proof, in small tables and with a small ``l2``.  With ``l1`` there is a certificate where no
        coefficient changes its sign, or can be shown to leave zero; rows where one does are fitted again, as many as
        are affordable, and for the others there is the bound by strong convexity alone, ``inf`` where ``l2`` is 0.

    Examples
    --------
    >>> from epsworth.exposure import fit_base, loo, moves
    >>> X, y = [[0.6, 0.0], [0.0, 0.6], [0.5, -0.5], [0.2, 0.1]], [1, -1, 1, -1]
    >>> moves(X, y, fit_base(X, y, 1.0), 1.0).distances.round(3), loo(X, y, fit_base(X, y, 1.0), 1.0).distances.round(3)
    (array([0.077, 0.059, 0.051, 0.071]), array([0.077, 0.059, 0.051, 0.071]))
    >>> moves(X, y, fit_base(X, y, 1.0, fit_intercept=True), 1.0, fit_intercept=True).distances.round(3)
    array([0.649, 0.656, 0.654, 0.66 ])
    """
    check_regulariser(regulariser)
    design = Design.of(X, y, l2, l1, loss, classes, fit_intercept)
    rows, labels, base = design.rows, design.labels, coordinates(f, design.rows.shape[1], design.loss)
    problem = Problem(rows, labels, base, design.l2, design.loss, regulariser)
    if design.l1 is not None:
        distances, errors = moves_of_lasso(problem, design.l1)
    elif isinstance(rows, SparseRows) and isinstance(design.loss, Loss):
        distances, errors = _Steps.of(problem).lengths()
    else:
        distances, errors = np.empty(len(rows)), np.empty(len(rows))
        for part, steps, off in newton(problem):
            distances[part], errors[part] = np.linalg.norm(steps, axis=1), off
    errors = up(errors, ulps=base.size + 16)
    if fit_intercept:
        _, kind, count = np.unique(labels, return_inverse=True, return_counts=True)
        gone = (count == 1)[kind.reshape(-1)]
        distances[gone] = errors[gone] = np.inf
    return Moves(as_floats(f), distances, errors, regulariser, loss, float(l2), bool(fit_intercept), float(l1))


def moved(
    X: SparseRows,
    y: Floats,
    f: Floats,
    l2: float,
    loss: Loss,
    regulariser: Regulariser,
    *,
    tol: float = 0.0,
    top: int = 0,
    n_jobs: int | None = None,
    kept: Keeping | None = None,
    told: Callable[[float], None] | None = None,
) -> Moves:
    """Return what `moves` does; the ``top`` rows that may move the model furthest are refined to ``tol``."""
    problem = Problem(X, y, f, l2, loss, regulariser)
    steps = _Steps.of(problem)
    distances, errors = steps.lengths()
    poor = furthest_first(np.flatnonzero(errors > tol * distances), distances, errors)[:top]
    if len(poor):
        start = problem.solve(steps.inverse, poor, problem.pulls(poor))
        better, off = refined(problem, steps.inverse, poor, start, errors[poor], tol, n_jobs, kept, told)
        closer = off < errors[poor]
        distances[poor] = np.where(closer, np.linalg.norm(better, axis=1), distances[poor])
        errors[poor] = np.where(closer, off, errors[poor])
    return Moves(f, distances, up(errors, ulps=X.shape[1] + 16), regulariser, loss.name, l2)


@dataclass(frozen=True, eq=False)
class _Steps:
    """Newton's steps of all rows, by the inverse B of the Hessian K that all neighbours share.

    With ``I - B K`` no larger than ``apart``, ``K^-1 v`` is within ``rho |B v|`` of ``B v``, rho = apart / (1 - apart).
    An entry of ``B^2`` is no larger than the root of two diagonal ones, and one of B than their fourth root: so much
    bounds what sums over a row's pairs of entries round.

    ``off`` bounds how far the computed Hessian is off, ``least`` is no larger than its least eigenvalue, ``size`` is
    the norm of B, ``w = B p`` for what all rows pull, ``z = B w``.
    """

    problem: Problem
    inverse: Floats
    squared: Floats
    rho: float
    off: float
    least: float
    size: float
    w: Floats
    z: Floats

    @classmethod
    def of(cls, problem: Problem) -> _Steps:
        off = ROUNDING * problem.hessian_roundings()
        hessian = problem.hessian()
        inverse = _inverse(hessian)
        size, d = float(np.linalg.norm(inverse)), len(hessian)
        apart = _left(hessian, inverse) + size * ((d + 4) * ROUNDING * float(np.linalg.norm(hessian)) + off)
        least = least_eigenvalue(hessian, _largest(inverse) ** -1 * (1 - 10 * NEAR), off, problem.convexity)
        del hessian  # as large as what follows
        w = as_floats(inverse @ problem.shared_pull)
        rho = apart / (1 - apart) if apart < 0.5 else math.inf
        return cls(problem, inverse, _square(inverse), rho, off, least, size, w, as_floats(inverse @ w))

    def lengths(self) -> tuple[Floats, Floats]:
        """Return how long the steps are, and how far the minimisers' distances are off that."""
        problem, X = self.problem, self.problem.X
        assert isinstance(X, SparseRows)
        if math.isinf(self.rho):
            return np.zeros(len(X)), np.full(len(X), np.inf)
        own = problem.own_gradient  # first, since it takes as much again for a moment
        first, second = X.forms(self.inverse, self.squared)
        parts = list(slices(len(X), BLOCK))
        offs = [self._form_offs(part, second[part]) for part in parts]
        upper = up(np.maximum(first, 0) + np.concatenate([off for off, _ in offs]), ulps=4)
        bounds = Curvature.of(problem, upper, as_floats(problem.curvatures() * upper), self.least, self.off)
        del upper
        distances, errors = np.empty(len(X)), np.empty(len(X))
        for part, (a_off, b_off) in zip(parts, offs, strict=True):
            forms = first[part], a_off, second[part], b_off
            distances[part], errors[part] = self._certified(part, forms, bounds, own)
        return distances, errors

    def _form_offs(self, part: slice, second: Floats) -> tuple[Floats, Floats]:
        """Return how far ``x^T B x`` is off ``x^T K^-1 x``, and ``second`` off ``|B x|^2``, of some rows."""
        X, d = self.problem.X[part], len(self.w)
        assert isinstance(X, SparseRows)
        sizes, diagonal = X.absolute(), np.sqrt(np.diagonal(self.squared))
        terms = len(X.slots) ** 2 + 8
        square_off = (terms + d) * ROUNDING * (sizes @ diagonal) ** 2
        reach = np.sqrt(np.maximum(second, 0) + square_off)
        off = self.rho * self.problem.lengths[part] * reach + terms * ROUNDING * (sizes @ np.sqrt(diagonal)) ** 2
        return as_floats(off), as_floats(square_off)

    def _certified(
        self, part: slice, forms: tuple[Floats, ...], bounds: Curvature, own: float
    ) -> tuple[Floats, Floats]:
        """Return lengths and errors of some rows: the pieces of a step, each with how far it is off."""
        problem, loss, (n, d) = self.problem, self.problem.loss, self.problem.X.shape
        X, length, size = problem.X[part], problem.lengths[part], problem.size
        assert isinstance(X, SparseRows)
        k, shared = len(X.slots) + 2, problem.shared_pull
        p_size = float(np.linalg.norm(shared))
        a, a_off, b, b_off = forms
        w_size, far = float(np.linalg.norm(self.w)), np.sqrt(np.maximum(b, 0) + b_off)  # far >= |B x|
        w_off = self.rho * w_size + (d + 3) * ROUNDING * self.size * p_size * (1 + self.rho)
        c, e = X @ self.w, X @ self.z
        c_off = length * (w_off + k * ROUNDING * w_size)
        e_off = length * ROUNDING * ((d + 2) * self.size * w_size + k * float(np.linalg.norm(self.z)))
        margin_off = k * ROUNDING * length * size
        s, h = problem.slopes[part], problem.curvatures(part)
        s_off = loss.slope_ulps * ROUNDING * np.abs(s) + loss.most_curved * margin_off
        h_off = 2 * loss.slope_ulps * ROUNDING * (h + s**2) + loss.third * margin_off
        room = np.maximum(1 - h * a, self._least_room(h * length**2, bounds.room[part]))
        least = self._least_room(up(as_floats((h + h_off) * length**2), ulps=8 + d), bounds.room[part])
        least = np.maximum(1 - up(as_floats((h + h_off) * (a + a_off)), ulps=8), least) * (1 - 8 * ROUNDING)
        alpha = (s + h * c) / room
        alpha_off = (s_off + h_off * np.abs(c) + (h + h_off) * c_off) / least + 8 * ROUNDING * np.abs(alpha)
        alpha_off += np.abs(alpha) * (h_off * (a + a_off) + h * a_off) / least
        size_of_alpha = np.abs(alpha)
        # the length of alpha B x + w, then of the step itself
        terms = (alpha**2 * b, 2 * alpha * e, np.full(len(X), w_size**2))
        square = terms[0] + terms[1] + terms[2]
        gross = np.abs(terms[0]) + np.abs(terms[1]) + terms[2]
        square_off = alpha**2 * b_off + 2 * size_of_alpha * e_off + (d + 8) * ROUNDING * gross
        steps = np.sqrt(np.maximum(square, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.fmin(square_off / steps, np.sqrt(square_off))
        off = off + far * (alpha_off * (1 + self.rho) + size_of_alpha * self.rho) + w_off
        most = steps + off
        # its length in the norm of the Hessian
        pull, across = np.abs(s) + s_off, np.abs(c) + c_off
        energy = s * (alpha * a + c) + alpha * c + float(shared @ self.w)
        energy_off = s_off * (size_of_alpha * a + np.abs(c))
        energy_off += pull * (alpha_off * (a + a_off) + size_of_alpha * a_off + c_off)
        energy_off += alpha_off * across + size_of_alpha * c_off + p_size * (w_off + (d + 2) * ROUNDING * w_size)
        energy_off += 16 * ROUNDING * (pull * (size_of_alpha * a + across) + size_of_alpha * across)
        moved = np.sqrt(np.abs(energy) + energy_off)
        shift = as_floats(np.minimum(bounds.longest * most, bounds.reach[part] * moved))
        with np.errstate(divide="ignore"):
            errors = np.divide(0.5 * loss.third * n * bounds.longest**3 * most**2 + own, problem.convexity)
        if loss.self_concordant:
            errors = np.minimum(errors, bounds.off_by(part, as_floats(moved), shift, shift, own))
        return as_floats(steps), as_floats(errors + off)

    def _least_room(self, bent: Floats, known: Floats) -> Floats:
        """Return what a row, of so much curvature, leaves at least of the Hessian in its own direction."""
        convexity = self.problem.convexity
        return as_floats(convexity / (convexity + bent) if convexity else np.maximum(known, SHADE - 1))


def _inverse(matrix: Floats) -> Floats:
    """Return the inverse of a symmetric matrix, symmetric to the bit."""
    from scipy.linalg.lapack import dpotrf, dpotri

    found, failed = dpotrf(matrix.copy().T, lower=1, overwrite_a=1)  # a matrix in Fortran's order is worked on in place
    if not failed:
        found, failed = dpotri(found, lower=1, overwrite_c=1)
    if failed:
        raise ExposureError(NO_INVERSE)
    return _mirrored(found)


def _square(matrix: Floats) -> Floats:
    """Return a symmetric matrix times itself."""
    from scipy.linalg.blas import dsyrk

    return _mirrored(dsyrk(1.0, matrix.T, lower=1))


def _mirrored(lower: Floats) -> Floats:
    """Return a symmetric matrix of which the lower half is given; it is overwritten."""
    for first in range(0, len(lower), PANEL):
        here, rest = slice(first, first + PANEL), slice(first + PANEL, None)
        lower[here, rest] = lower[rest, here].T
        corner = np.tril(lower[here, here])
        lower[here, here] = corner + np.tril(corner, -1).T
    return as_floats(lower.T)


def _left(matrix: Floats, inverse: Floats) -> float:
    """Return the norm of the identity less their product, as computed."""
    total = 0.0
    for first in range(0, len(matrix), PANEL):
        part = inverse[first : first + PANEL] @ matrix
        part[np.arange(len(part)), np.arange(first, first + len(part))] -= 1
        total += float(np.sum(part * part))
    return math.sqrt(total)


def _largest(matrix: Floats) -> float:
    """Return the largest eigenvalue of a positive definite matrix, about; its norm, no smaller, where that is slow."""
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    if len(matrix) < 3:
        return float(np.linalg.eigvalsh(matrix)[-1])
    start = np.ones(len(matrix))
    try:
        found = eigsh(matrix, k=1, which="LA", v0=start, tol=NEAR, maxiter=RESTARTS, return_eigenvectors=False)
    except ArpackNoConvergence:  # many are nearly as large
        return float(np.linalg.norm(matrix))
    return float(found[0])
