"""Models with an L1 penalty (lasso, elastic net): the fit, and how far each row moves it where a certificate exists.

While the signs of the coefficients stay, and those that are zero stay zero, the model is a smooth one on fewer columns.
Certificates for that one say where its minimiser without a row lies; where no sign changes in the whole ball, and the
gradient of no other column reaches the penalty, that is the minimiser with the penalty, too (docs/theory/exposure.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from epsworth.arrays import Bools, Floats, as_floats, slices
from epsworth.exposure.fitting import (
    GRADIENT_TOLERANCE,
    Penalty,
    Rows,
    add_to_diagonal,
    dense,
    gradient,
    minimise,
    weighted_gram,
)
from epsworth.exposure.glm import ExposureError, Loss
from epsworth.exposure.left_out import PAIRS, ROUNDING, Problem, furthest_first, least_eigenvalue, newton
from epsworth.exposure.sparse import SparseRows
from epsworth.records import Indices
from epsworth.rounding import up

MOST_STEPS, SWEEPS = 100, 1000
NEAR = 1e-6  # of the gradient, relative to the penalty: from here on Newton's steps on the columns in use
BLUR = 1e-14  # of J, relative: what rounding may hide
AFFORDABLE = 10**10  # numbers that are read to fit the model again without rows that change a sign


def fit_lasso(X: Rows, y: Floats, l2: Penalty, l1: Floats, loss: Loss, start: Floats | None = None) -> Floats:
    """Return the minimiser of the mean loss with ``l2 |f|^2 / 2 + l1 |f|``: proximal Newton steps, then Newton's."""
    f = np.zeros(X.shape[1]) if start is None else start

    def objective(f: Floats) -> float:
        return float(loss.values(y, X @ f).mean() + 0.5 * np.vdot(l2 * f, f) + l1 @ np.abs(f))

    near, signs, kept = max(NEAR * float(l1.max()), GRADIENT_TOLERANCE), np.sign(f), -1
    for _ in range(MOST_STEPS):
        slope = gradient(X, y, f, l2, loss)
        kept, signs = kept + 1 if np.array_equal(np.sign(f), signs) else 0, np.sign(f)
        if kept == 1 or np.linalg.norm(_left(f, slope, l1)) <= near:
            found = _polished(X, y, f, l2, l1, loss)
            if np.linalg.norm(_left(found, gradient(X, y, found, l2, loss), l1)) <= GRADIENT_TOLERANCE:
                return found
        hessian = weighted_gram(X, loss.curvatures(y, X @ f)) / len(X)
        add_to_diagonal(hessian, l2, f.shape)
        step = _lowest(hessian, slope, f, l1, 0.1 * near) - f
        here, fall, share = objective(f), float(slope @ step + l1 @ (np.abs(f + step) - np.abs(f))), 1.0
        blur = BLUR * here  # a smaller fall does not show: the parabola knows better
        while share > 1e-10 and objective(as_floats(f + share * step)) > here + 1e-4 * share * fall + blur:
            share /= 2
        f = as_floats(f + share * step)
    raise ExposureError(
        f"the fit with l1 = {l1.max():g} and l2 = {np.max(l2):g} does not settle: columns are nearly combinations of "
        "others; take a hundred times that l1, or a larger l2"
    )


def _left(f: Floats, slope: Floats, l1: Floats) -> Floats:
    """Return the smallest subgradient."""
    return as_floats(np.where(f != 0, slope + l1 * np.sign(f), np.sign(slope) * np.maximum(np.abs(slope) - l1, 0)))


def _polished(X: Rows, y: Floats, f: Floats, l2: Penalty, l1: Floats, loss: Loss) -> Floats:
    """Return the minimiser on the columns in use, their signs as they are."""
    used, found = _used(f, l1), np.zeros_like(f)
    if used.any():
        weights, tilt = np.broadcast_to(l2, f.shape)[used], (l1 * np.sign(f))[used]
        try:
            with np.errstate(all="ignore"):  # with signs that are not the minimiser's there may be none
                found[used], *_ = minimise(_columns(X, used), y, weights, loss, f[used], tilt=tilt)
        except np.linalg.LinAlgError:  # columns that are alike
            return f
    return found


def _columns(X: Rows, chosen: Bools) -> Rows:
    return X.columns(chosen) if isinstance(X, SparseRows) else X[:, chosen]


def _used(f: Floats, l1: Floats) -> Bools:
    return np.array((f != 0) | (l1 == 0))


def _lowest(hessian: Floats, slope: Floats, f: Floats, l1: Floats, near: float) -> Floats:
    """Return the minimiser of the parabola at f and the L1 penalty, by coordinate descent in steps down to ``near``."""
    found, slope, bends = f.copy(), slope.copy(), np.diagonal(hessian).tolist()
    for sweep in range(SWEEPS):
        moved = 0.0
        for k in range(len(f)) if sweep % 10 == 0 else np.flatnonzero(_used(found, l1)).tolist():
            if bends[k] > 0:
                towards = bends[k] * found[k] - slope[k]
                change = math.copysign(max(abs(towards) - l1[k], 0.0), towards) / bends[k] - found[k]
                if not change:
                    continue
                slope += change * hessian[k]
                found[k] += change
                moved = max(moved, abs(change) * math.sqrt(bends[k]))
        if moved <= near and sweep % 10 == 0:
            break
    return found


def moves_of_lasso(whole: Problem, l1: Floats) -> tuple[Floats, Floats]:
    """Return how far each row moves the model, and how far off that is at most; ``inf``: there is no certificate.

    Rows without which a sign may change are left out one by one, as many as are affordable; for others there is strong
    convexity alone.
    """
    X, y, f, l2, loss = whole.X, whole.y, whole.f, whole.l2, whole.loss
    assert isinstance(loss, Loss)
    (n, d), base_off = X.shape, settled(whole, l1)
    mass = n - (whole.regulariser == "mean")
    unused, problem = _Unused.of(whole, mass * l1), _in_use(whole, l1)
    penalised = l1[_used(f, l1)]
    blocks = newton(problem) if len(penalised) else [(slice(0, n), np.zeros((n, 0)), np.zeros(n))]
    distances, errors, certain = np.empty(n), np.empty(n), np.zeros(n, dtype=np.bool_)
    for part, steps, off in blocks:
        distances[part], errors[part] = np.linalg.norm(steps, axis=1), off
        if math.isfinite(base_off):
            kept = _same_signs(problem.f + steps, problem.f, off, penalised)
            certain[part] = kept & unused.stay(problem, part, steps, off)
    open_rows = np.flatnonzero(~certain)
    most = _by_convexity(whole, l1, mass, unused.blur, open_rows)
    distances[open_rows], errors[open_rows] = np.where(np.isfinite(most), most, distances[open_rows]), most
    of_fit = n * len(X.slots) ** 2 + d**2 if isinstance(X, SparseRows) else n * d**2
    worst = furthest_first(open_rows, distances, errors)[: AFFORDABLE // of_fit]
    for i in worst.tolist() if math.isfinite(base_off) else ():
        rest, scale = np.delete(np.arange(n), i), mass / (n - 1)
        try:
            found = fit_lasso(X[rest], y[rest], l2 * scale, l1 * scale, loss, f)
        except ExposureError:
            continue
        within = settled(Problem(X[rest], y[rest], found, l2 * scale, loss, "sum"), l1 * scale) + base_off
        within += 4 * ROUNDING * float(np.linalg.norm(f) + np.linalg.norm(found))
        if within < errors[i]:
            distances[i], errors[i] = np.linalg.norm(found - f), within
    return distances, errors


def settled(whole: Problem, l1: Floats) -> float:
    """Return how far from f the exact minimiser is at most, which has f's signs; ``inf``: no such thing is certain."""
    unused, problem, ball = _Unused.of(whole, len(whole.X) * l1), _in_use(whole, l1), 0.0
    if len(problem.f):
        hessian, off, own = problem.hessian(), ROUNDING * problem.hessian_roundings(), problem.own_gradient
        least = least_eigenvalue(hessian.copy(), float(np.linalg.eigvalsh(hessian)[0]), off, problem.convexity)
        if not problem.longest * own < 0.5 * least:
            return math.inf
        ball = up(own / (least * (1 - problem.longest * own / least)), ulps=64)
        if not _same_signs(problem.f, problem.f, np.array(ball), l1[_used(whole.f, l1)]).all():
            return math.inf
    moved = whole.loss.most_curved * ball * np.sqrt(unused.squares) * float(np.linalg.norm(whole.lengths))
    return ball if (np.abs(unused.sums) + moved + unused.blur < unused.allowed).all() else math.inf


def _in_use(whole: Problem, l1: Floats) -> Problem:
    """Return the smooth problem on the columns in use, its signs as they are."""
    f, used = whole.f, _used(whole.f, l1)
    weights, tilt = np.broadcast_to(whole.l2, f.shape)[used], (l1 * np.sign(f))[used]
    return replace(whole, X=_columns(whole.X, used), f=f[used], l2=weights, tilt=tilt)


def _same_signs(near: Floats, f: Floats, off: Floats, l1: Floats) -> Bools:
    """Tell where all that lies within ``off`` of a point has the signs of f, in coefficients with a penalty."""
    inside = near * np.sign(f) > np.expand_dims(off, -1) * (1 + 4 * ROUNDING)
    return np.array((inside | (l1 == 0)).all(axis=-1))


@dataclass(frozen=True, eq=False)
class _Unused:
    """Columns whose coefficients are zero: their part of the summed gradient, and how much the penalty allows.

    ``squares``: of the columns' lengths; ``blur``: what rounding takes a computed sum off by.
    """

    whole: Problem
    used: Bools
    columns: Rows
    sums: Floats
    allowed: Floats
    squares: Floats
    blur: float

    @classmethod
    def of(cls, whole: Problem, allowed: Floats) -> _Unused:
        n, used = len(whole.X), _used(whole.f, allowed)
        columns = _columns(whole.X, ~used)
        blur = (n + 1) * whole.roundings() + 2 * n * float(whole.lengths @ np.abs(whole.slopes)) + 4 * allowed.max()
        sums, squares = as_floats(columns.T @ whole.slopes), _squares(columns, np.ones(n))
        return cls(whole, used, columns, sums, allowed[~used], squares, ROUNDING * blur)

    @cached_property
    def grams(self) -> tuple[Floats, Floats]:
        """Curvatures of the summed loss: of columns that are zero and those in use, and of those in use."""
        gram = self.whole.gram()
        return gram[np.ix_(~self.used, self.used)], gram[np.ix_(self.used, self.used)]

    @cached_property
    def reach(self) -> Floats:
        """Lengths of the columns, rows weighted by their curvature."""
        return as_floats(np.sqrt(_squares(self.columns, self.whole.curvatures())))

    @cached_property
    def per_length(self) -> float:
        """What rounding takes a computed sum off by, per unit of a step."""
        return 2 * ROUNDING * self.whole.hessian_roundings()

    def stay(self, problem: Problem, part: slice, steps: Floats, off: Floats) -> Bools:
        """Tell for which rows no gradient reaches the penalty within ``off`` of a step.

        The gradient is the one at the base model without the row, what the step changes by the curvatures there, and a
        remainder of at most ``(2 + e^s) / 6`` times s, the step's length in the norm of the sum, and the column's.
        """
        cross, gram = self.grams
        own = problem.slopes[part] + problem.curvatures(part) * problem.changes(problem.rows(part), steps)
        size = np.linalg.norm(steps, axis=1)
        blur = self.per_length * (size + off)
        moved = np.sqrt(np.abs(np.einsum("ij,ij->i", steps @ gram, steps)) + blur * size)
        most = math.sqrt(float(np.linalg.norm(gram))) * off  # of what is not the step
        with np.errstate(over="ignore", invalid="ignore"):
            shift = problem.longest * (size + off)
            remainder = 1.0001 * ((2 + np.exp(shift)) / 6 * shift * (moved + most) + most)
        kept = np.empty(len(steps), dtype=np.bool_)
        for some in slices(len(steps), max(1, PAIRS // max(1, len(self.sums)))):
            rows = dense(self.columns[part.start + some.start : part.start + some.stop])
            sums = np.abs(self.sums + steps[some] @ cross.T - own[some, np.newaxis] * rows)
            with np.errstate(invalid="ignore"):
                sums += self.reach * remainder[some, np.newaxis] + (self.blur + blur)[some, np.newaxis]
            kept[some] = (sums < self.allowed).all(axis=1)
        return kept


def _squares(columns: Rows, weights: Floats) -> Floats:
    """Return the squared lengths of columns, rows weighted."""
    return as_floats((columns.squared() if isinstance(columns, SparseRows) else columns**2).T @ weights)


def _by_convexity(whole: Problem, l1: Floats, mass: int, blur: float, rows: Indices) -> Floats:
    """Return half of what rows move the model by at most: the subgradient that leaves with each, over the convexity."""
    (n, d), most = whole.X.shape, np.full(len(rows), np.inf)
    if not whole.convexity:
        return most
    shared = whole.X.T @ whole.slopes / n if mass < n else 0.0
    slope = gradient(whole.X, whole.y, whole.f, whole.l2, whole.loss)
    left = n * float(np.linalg.norm(_left(whole.f, slope, l1))) + 2 * blur
    for part in slices(len(rows), max(1, PAIRS // d)):
        pulls = whole.slopes[rows[part], np.newaxis] * whole.rows(rows[part]) - shared
        most[part] = (np.linalg.norm(pulls, axis=1) + 2 * left) / (2 * mass * np.min(whole.l2))
    return most
