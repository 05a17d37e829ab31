"""Regularised linear models in the unit ball: checks of the data, and the exact minimiser.

The objective is ``J(f) = mean_i l(y_i f.x_i) + l2/2 |f|^2`` (Chaudhuri, Monteleoni & Sarwate 2011).  A penalty is the
weight ``l2`` of all coefficients, or an array of one each: 0 for an intercept that is free.  Coefficients have shape
``(d,)``, or ``(d, K - 1)`` for K classes (`Softmax`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats, as_floats, slices
from epsworth.exposure.glm import ExposureError, Loss, RowLoss, Softmax
from epsworth.exposure.inputs import Classes, check_classes, check_count, numbers, positives, weight_of
from epsworth.exposure.sparse import SparseRows, is_sparse, sparse_rows
from epsworth.numerals import short
from epsworth.values import is_missing, label_array

Rows = Floats | SparseRows
Penalty = float | Floats
Kind = TypeVar("Kind", Floats, SparseRows)

NORM_SLACK = 1e-6  # rows this much longer than 1 were meant to have length 1: scaled in single precision, say
NORM_ROUNDINGS = 16  # of a row scaled in less than double precision
LEAST_L2, MOST_L2 = 1e-10, 1e12  # in between, fits reach GRADIENT_TOLERANCE with room to spare whatever the rows
GRADIENT_TOLERANCE = 1e-12  # guaranteed |grad J| at what `fit_base` returns; charged to the sensitivity of a release
UNIT = 1.01 * 2.0**-53  # of one rounding, relative; k of them: (1 + u)^k - 1 <= 1.01 k u, as long as k u <= 0.01
MOST_COEFFICIENT = 1e50
BLOCK = 65_536  # rows handled at once
MOST_STEPS = 200
SAMPLED, ENOUGH = 1 << 18, 1e-5  # rows of a large table that are fitted first, to such a gradient
NO_MORE = 1e-16  # gradient of a large table: what rounding may hide of it is far larger


def check_data(X: ArrayLike, y: ArrayLike, classes: Classes | None = None) -> tuple[Floats, Floats]:
    """Return rows in the unit ball and labels -1/+1 as floats, or say what is wrong with them.

    Rows that rounding takes out of the ball are put back on its surface.  Without declared classes the larger of two
    label values is +1; with them, data of one class are as good as any.
    """
    rows = check_rows(check_table(X), X)
    return rows, _labels(y, len(rows), classes)


def check_any(X: Any, y: ArrayLike, classes: Classes | None = None) -> tuple[Rows, Floats]:
    """Return what `check_data` does, for sparse tables, too: they stay sparse."""
    rows = any_rows(X)
    return rows, _labels(y, len(rows), classes)


def any_rows(X: Any) -> Rows:
    """Return the rows of a table of either kind."""
    return check_rows(sparse_rows(X), X) if is_sparse(X) else check_rows(check_table(X), X)


def check_rows(rows: Kind, X: Any) -> Kind:
    """Return rows in the unit ball; ``X`` is what they were made of."""
    if len(rows) < 2:
        raise ExposureError(f"X has {len(rows)} rows; neighbours differ in one row, so give at least 2")
    lengths = lengths_of(rows)
    if not np.isfinite(lengths).all() and not (known := _all_finite(rows)).all():
        raise ExposureError(f"X, row {int(known.argmin())} holds a missing or infinite value; fill or drop it first")
    slack = max(NORM_SLACK, NORM_ROUNDINGS * _resolution(X))
    if lengths.max() > 1 + slack:
        bad = int(lengths.argmax())
        raise ExposureError(
            f"X, row {bad} lies outside the unit ball (its norm is above 1); divide all rows by a public bound"
        )
    return _scaled(rows, lengths)


def _all_finite(rows: Rows) -> Bools:
    if isinstance(rows, SparseRows):
        known = np.ones(len(rows), dtype=np.bool_)
        for slot in rows.slots:
            known &= np.isfinite(slot.values)
        return known
    return np.array(np.isfinite(rows).all(axis=1))


def check_table(X: ArrayLike) -> Floats:
    """Return a table of numbers of shape ``(rows, features)``; what is refused depends on its type and shape only."""
    if is_sparse(X):
        raise ExposureError("X is a sparse table, for which this takes too much; give X.toarray(), or ask `window`")
    rows = numbers(X, "X")
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ExposureError(f"X must be a table of shape (rows, features), got shape {rows.shape}; reshape it")
    return rows


def into_ball(rows: Floats) -> Floats:
    """Return each row mapped into the unit ball, whatever it holds: none is refused.

    Longer rows are shortened to length 1; a row with a missing or infinite value becomes a row of zeros, which pulls
    on no model.  What becomes of a row depends on that row alone, so neighbours stay neighbours.
    """
    known = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    return _scaled(as_floats(known), lengths_of(known))


def lengths_of(rows: Rows) -> Floats:
    """Return the norm of every row."""
    with np.errstate(over="ignore", invalid="ignore"):  # a row too long to measure is shortened to zeros
        return as_floats(np.sqrt(rows.squares) if isinstance(rows, SparseRows) else np.linalg.norm(rows, axis=1))


def _scaled(rows: Kind, lengths: Floats) -> Kind:
    """Return the rows with those longer than 1 shortened to it."""
    if not (lengths > 1).any():
        return rows
    if isinstance(rows, SparseRows):
        return rows.scaled(np.maximum(lengths, 1.0))
    return as_floats(rows / np.maximum(lengths, 1.0)[:, None])


def _resolution(X: ArrayLike) -> float:
    """Return the rounding unit of the numbers that rows were scaled in."""
    kind = getattr(X, "dtype", None)
    return float(np.finfo(kind).eps) if isinstance(kind, np.dtype) and kind.kind == "f" else 0.0


def _labels(y: ArrayLike, count: int, classes: Classes | None) -> Floats:
    """Return -1/+1 for two values, or for declared classes."""
    if classes is not None:
        return _declared_signs(y, count, check_classes(classes))
    values, labels = numbered_classes(y, count)
    if len(values) != 2:
        raise ExposureError(
            f"y must hold two different labels, got {len(values)}; give a binary target (`moves` takes "
            "loss='multinomial')"
        )
    return 2 * labels - 1


def numbered_classes(y: ArrayLike, count: int) -> tuple[NDArray[Any], Floats]:
    """Return the different labels, and the number of each row's among them."""
    exact = label_array(y, "y")  # doubles make one of 2**53 and 2**53 + 1
    check_count(exact.shape, count)
    known = _known(y, exact)
    if not known.all():
        raise ExposureError(f"y, row {int(known.argmin())} has no label; fill or drop it first")
    values, places = np.unique(exact, return_inverse=True)
    if len(values) < 2:
        raise ExposureError("y must hold two different labels, got 1; give a binary target, or declare its classes")
    return values, as_floats(places.reshape(-1))


def _known(y: ArrayLike, exact: NDArray[Any]) -> Bools:
    """Tell which labels there are: all are texts, or all are numbers, but for gaps."""
    if exact.dtype.kind == "U":
        return np.ones(len(exact), dtype=np.bool_)
    if exact.dtype == object and any(isinstance(label, str) for label in exact):
        gaps = [is_missing(label) for label in exact]
        if all(gap or isinstance(label, str) for gap, label in zip(gaps, exact, strict=True)):
            return ~np.array(gaps)
        raise ExposureError("y must hold texts alone, or numbers alone; recode one of them")
    return np.isfinite(numbers(y, "y"))


def _declared_signs(y: ArrayLike, count: int, classes: Classes) -> Floats:
    """Return -1/+1 for the declared classes; for analysis, so that a label outside them is worth a sentence."""
    plus = positives(y, count, classes)
    known = plus | positives(y, count, (classes[1], classes[0]))
    if not known.all():
        raise ExposureError(f"y, row {int(known.argmin())} holds neither of the declared classes {classes!r}")
    return as_floats(np.where(plus, 1.0, -1.0))


def check_l2(l2: float) -> float:
    """Return the regulariser's weight, or refuse one that bounds nothing or drowns in rounding."""
    weight = weight_of(l2)
    if not (math.isfinite(weight) and weight > 0):
        raise ExposureError(
            f"l2 must be positive and finite, got {short(l2)}; without it one row can move the model any distance"
        )
    if not LEAST_L2 <= weight <= MOST_L2:
        raise ExposureError(
            f"l2 must lie between {LEAST_L2:g} and {MOST_L2:g}, got {short(l2)}; beyond, rounding decides"
        )
    return weight


def dense(X: Rows) -> Floats:
    """Return rows with their zeros."""
    return X.dense() if isinstance(X, SparseRows) else X


def check_coefficients(f: ArrayLike, d: int) -> Floats:
    """Return coefficients of the right shape."""
    found = numbers(f, "f")
    if found.shape != (d,) or not np.isfinite(found).all():
        raise ExposureError(f"f must hold {d} finite coefficients, one per column of X, got shape {found.shape}")
    return check_size(found)


def check_size(f: Floats) -> Floats:
    """Return coefficients, or refuse such as no fit has, whose squares and cubes overflow."""
    if np.abs(f).max() > MOST_COEFFICIENT:
        raise ExposureError(f"f must hold coefficients of a fit, none above {MOST_COEFFICIENT:g} in size; fit it anew")
    return f


def weighted_gram(X: Rows, weights: Floats) -> Floats:
    """Return ``sum_i w_i x_i x_i^T`` without a second copy of the table; of matrices w_i their Kronecker products."""
    if weights.ndim == 3:
        d, k = X.shape[1], weights.shape[1]
        whole = np.empty((d, k, d, k))
        for one in range(k):
            for other in range(one, k):
                whole[:, one, :, other] = weighted_gram(X, np.ascontiguousarray(weights[:, one, other]))
                whole[:, other, :, one] = whole[:, one, :, other].T
        return whole.reshape(d * k, d * k)
    if isinstance(X, SparseRows):
        return X.gram(weights)
    total = np.zeros((X.shape[1], X.shape[1]))
    for part in slices(len(X), BLOCK):
        total += X[part].T @ (weights[part, None] * X[part])
    return total


def summed_curvatures(X: Rows, y: Floats, outputs: Floats, loss: RowLoss, weights: Floats | None = None) -> Floats:
    """Return the second derivative of the summed loss in the coefficients, rows weighted."""
    if outputs.ndim == 1:
        bent = loss.curvatures(y, outputs)
        return weighted_gram(X, bent if weights is None else bent * weights)
    total = np.zeros((X.shape[1] * outputs.shape[1],) * 2)
    for part in slices(len(X), BLOCK):
        bent = loss.curvatures(y[part], outputs[part])
        total += weighted_gram(X[part], bent if weights is None else bent * weights[part, np.newaxis, np.newaxis])
    return total


def gradient(X: Rows, y: Floats, f: Floats, l2: Penalty, loss: RowLoss) -> Floats:
    """Return the gradient of J at f."""
    return as_floats(X.T @ loss.slopes(y, X @ f) / len(X) + l2 * f)


def careful_gradient(X: Rows, y: Floats, f: Floats, l2: Penalty, loss: RowLoss) -> Floats:
    """Return the same, summed pairwise (numpy's sum along one column): for certificates, see `roundings`."""
    if isinstance(X, SparseRows):  # whose sums are blocks of their own
        return gradient(X, y, f, l2, loss)
    slopes = loss.slopes(y, X @ f).reshape(len(X), -1).T
    sums = [float((own * column).sum()) for column in X.T for own in slopes]
    return as_floats(np.array(sums).reshape(f.shape) / len(X) + l2 * f)


def additions(n: int) -> float:
    """Return how many additions a term of numpy's pairwise sum goes through: eight accumulators, blocks of 128."""
    return min(n, 10 + n / 8) if n <= 128 else 20 + math.log2(n)


def roundings(X: Rows, y: Floats, f: Floats, l2: Penalty, loss: RowLoss) -> float:
    """Return how many units of rounding `careful_gradient` can be off by.

    An output of a row x is a sum of d products, off by ``(d + 1) |x| |f|`` units, and moves the slope by at most
    ``most_curved`` times that; the slope itself and its product with the row are good to ``slope_ulps`` units; a sum
    adds one unit per addition that a term goes through.  The regulariser's part takes 4.
    """
    lengths, size = lengths_of(X), float(np.linalg.norm(f))
    margins = loss.most_curved * (X.shape[1] + 1 + loss.output_ulps) * size * lengths
    summed = X.additions if isinstance(X, SparseRows) else additions(len(X))
    slopes = (loss.slope_ulps + summed) * sizes(loss.slopes(y, X @ f))
    return float((lengths * (margins + slopes)).mean()) + 4 * float(np.max(l2)) * size


def sizes(rows: Floats) -> Floats:
    """Return the length of every row's numbers: one, or several."""
    return as_floats(np.abs(rows) if rows.ndim == 1 else np.linalg.norm(rows, axis=1))


def gradient_rounding(d: int, size: float, loss: Loss) -> float:
    """Return a bound on `careful_gradient`'s error at every minimiser of norm ``size`` of at most 2^60 rows.

    There the slopes, and with them ``l2 size``, are at most ``1 + size``.
    """
    return UNIT * ((loss.slope_ulps + additions(2**60) + 4) * (1 + size) + (d + 1) * size)


Solver = Callable[[Floats], Floats]


def minimise(
    X: Rows,
    y: Floats,
    l2: Penalty,
    loss: RowLoss,
    start: Floats,
    solve: Solver | None = None,
    enough: float = 0.0,
    tilt: Floats | float = 0.0,
    slow: float = 0.1,
) -> tuple[Floats, float, Solver | None]:
    """Return the minimiser of J to rounding level, by damped Newton steps, the gradient's norm there, and a solver.

    A solver divides by a Hessian: it serves as long as its steps make the gradient smaller than ``slow`` times what it
    was.  ``enough`` is a norm of the gradient at which to stop, ``tilt`` a constant added to it.
    """

    def objective(f: Floats) -> float:
        return float(loss.values(y, X @ f).mean() + 0.5 * np.vdot(l2 * f, f) + np.sum(tilt * f))

    f, slope = start, gradient(X, y, start, l2, loss) + tilt
    size = float(np.linalg.norm(slope))
    for _ in range(MOST_STEPS):
        solve = solve or _solver(X, y, f, l2, loss)
        step = solve(slope)
        full = gradient(X, y, f - step, l2, loss) + tilt
        share = 1.0
        if np.linalg.norm(full) > 0.5 * size and size > GRADIENT_TOLERANCE:  # far away: halve until J falls enough
            here, fall = objective(f), float(np.vdot(slope, step))
            while objective(f - share * step) > here - 1e-4 * share * fall and share > 1e-10:
                share /= 2
            full = full if share == 1 else gradient(X, y, f - share * step, l2, loss) + tilt
        following = float(np.linalg.norm(full))
        if following >= size and size <= GRADIENT_TOLERANCE:
            break  # rounding level: the last point is the best
        f, slope = f - share * step, full
        size, former = following, size
        if size <= enough:
            break
        solve = solve if size <= max(slow * former, GRADIENT_TOLERANCE) else None
    return f, size, solve


def _solver(X: Rows, y: Floats, f: Floats, l2: Penalty, loss: RowLoss) -> Solver:
    """Return what divides by the Hessian at f."""
    from scipy.linalg import cho_factor, cho_solve

    hessian = summed_curvatures(X, y, X @ f, loss)
    hessian /= len(X)
    add_to_diagonal(hessian, l2, f.shape)
    factor = cho_factor(hessian.T, lower=True, overwrite_a=True, check_finite=False)
    return lambda slope: as_floats(cho_solve(factor, slope.reshape(-1), check_finite=False).reshape(f.shape))


def add_to_diagonal(matrix: Floats, penalty: Penalty, shape: tuple[int, ...]) -> None:
    """Add the penalty's part to a Hessian of coefficients of a shape."""
    matrix.flat[:: len(matrix) + 1] += np.broadcast_to(penalty, shape).reshape(-1)


def fit(rows: Rows, labels: Floats, l2: Penalty, loss: RowLoss, tolerance: float = GRADIENT_TOLERANCE) -> Floats:
    """Return the minimiser for rows and labels that were checked."""
    shape = (rows.shape[1], loss.classes - 1) if isinstance(loss, Softmax) else (rows.shape[1],)
    found, solve = np.zeros(shape), None
    if isinstance(rows, SparseRows) and len(rows) > SAMPLED:  # a sample tells most of it, and its Hessian is cheap
        some = slice(None, None, -(-len(rows) // SAMPLED))
        found, _, solve = minimise(rows[some], labels[some], l2, loss, found, enough=ENOUGH, slow=0.5)
    found, *_ = minimise(rows, labels, l2, loss, found, solve, NO_MORE if solve else 0.0)
    size = float(np.linalg.norm(careful_gradient(rows, labels, found, l2, loss)))
    if size > tolerance:
        raise ExposureError(f"the fit stops above a gradient of {tolerance:g}; take a larger l2 than {np.max(l2):g}")
    return found
