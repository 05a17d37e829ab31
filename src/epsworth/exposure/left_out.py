"""What the models of all data sets that lack one row share, and how a few of them are improved, or trained anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from epsworth.arrays import Floats, as_floats, slices
from epsworth.exposure.fitting import (
    BLOCK,
    UNIT,
    Penalty,
    Rows,
    add_to_diagonal,
    careful_gradient,
    dense,
    lengths_of,
    minimise,
    roundings,
    sizes,
    summed_curvatures,
    weighted_gram,
)
from epsworth.exposure.glm import ExposureError, RowLoss
from epsworth.exposure.inputs import NOT_PRIVATE
from epsworth.exposure.sparse import SparseRows
from epsworth.keeping import Arrays, Keeping
from epsworth.numerals import short
from epsworth.parallel import in_order
from epsworth.records import Indices
from epsworth.rounding import show_up, up

Regulariser = Literal["mean", "sum"]
Block = tuple[Indices, Floats, Floats]  # rows, where they are believed to move the model, how far off that is

# What Taylor's remainder and a computed residual leave out.  Let g be the base model's gradient as computed.  The exact
# one is within ROUNDING roundings(..) of it, so that the neighbour's (n times the mean, less one row) is within n + 1
# times that, and strong convexity turns it into a distance: divide by the weight.  On top, f + delta as the user adds
# them is a rounded vector: ROUNDING (|f| + |delta|), twice since delta itself is stored.  A linear solve is judged by
# what it leaves (Higham 2002, section 7.1): the Hessian's least eigenvalue is no smaller than the weight.
ROUNDING = UNIT
CHORD_STEPS, PATIENT_STEPS = 12, 60  # the latter where rows are not fitted again one by one
PAIRS = 4_000_000  # (kept row, removed row) pairs whose margins are held at once


NO_INVERSE = "the fit has no inverse to double precision; take a larger l2, or drop columns that are alike"
SHADE = 1 + 2.0**-40  # keeps a row that is alone in its direction from dividing by zero


def check_regulariser(regulariser: str) -> None:
    """Refuse a word other than the two."""
    if not isinstance(regulariser, str) or regulariser not in ("mean", "sum"):
        raise ExposureError(f"regulariser must be mean or sum, got {short(regulariser)}")


def furthest(distances: Floats, errors: Floats) -> str:
    """Return which row moves the model furthest, in words."""
    far = int(distances.argmax())
    if not np.isfinite(distances[far]):
        return (
            f"{len(distances)} rows: without row {far} there is no model, since one label is left and the intercept is "
            f"free ({NOT_PRIVATE})"
        )
    return (
        f"{len(distances)} rows: without row {far} the model moves furthest, by "
        f"{show_up(float(distances[far]), 3)} within {show_up(float(errors[far]), 2)} ({NOT_PRIVATE})"
    )


@dataclass(frozen=True, eq=False)
class Problem:
    """The data set with what every neighbour shares: the sum-scale Hessian and its inverse at the base model.

    Steps, pulls and Hessians are those of the coefficients one after the other, outputs of a column side by side.
    """

    X: Rows
    y: Floats
    f: Floats
    l2: Penalty
    loss: RowLoss
    regulariser: Regulariser
    tilt: Floats | float = 0.0  # beside the mean loss's gradient: of an L1 penalty whose signs are fixed

    @cached_property
    def lengths(self) -> Floats:
        """Norms of the rows."""
        return lengths_of(self.X)

    @property
    def longest(self) -> float:
        """A step of length 1 changes what counts of a row's outputs by no more."""
        return self.loss.stretch * up(float(self.lengths.max()), ulps=self.X.shape[1] + 4)

    @property
    def block(self) -> int:
        """Rows whose steps are held at once."""
        return BLOCK if self.f.ndim == 1 else max(1, PAIRS // self.f.size)

    def rows(self, some: slice | Indices) -> Floats:
        """Return some rows with their zeros."""
        return dense(self.X[some])

    @property
    def weight(self) -> Penalty:
        """Weight of |f|^2/2 beside the *summed* loss of the neighbour."""
        return self.l2 * (len(self.X) - (self.regulariser == "mean"))

    @property
    def convexity(self) -> float:
        """The neighbour's strong convexity, whatever the rows."""
        return float(np.min(self.weight))

    @property
    def size(self) -> float:
        """Norm of the base model."""
        return float(np.linalg.norm(self.f))

    @cached_property
    def outputs(self) -> Floats:
        """The base model's values."""
        return as_floats(self.X @ self.f)

    @cached_property
    def slopes(self) -> Floats:
        """Each row's gradient in its outputs."""
        return self.loss.slopes(self.y, self.outputs)

    def curvatures(self, some: slice | Indices = slice(None)) -> Floats:
        """Return the second derivatives of some rows in their outputs."""
        return self.loss.curvatures(self.y[some], self.outputs[some])

    @property
    def shared_pull(self) -> Floats:
        """The part of `pulls` that all rows have: of the penalty as much leaves with each."""
        return as_floats((self.l2 * self.f + self.tilt if self.regulariser == "mean" else 0 * self.f).reshape(-1))

    def pulls(self, some: slice | Indices = slice(None)) -> Floats:
        """Return v_i: minus the neighbour's sum-scale gradient at the base model."""
        return as_floats(_lifted(self.rows(some), self.slopes[some]) + self.shared_pull)

    def gram(self, weights: Floats | None = None) -> Floats:
        """Return the sum of all rows' second derivatives, weighted."""
        return summed_curvatures(self.X, self.y, self.outputs, self.loss, weights)

    def hessian(self) -> Floats:
        """Return the second derivative of the neighbours' sums, each with the row that is to leave."""
        found = self.gram()
        add_to_diagonal(found, self.weight, self.f.shape)
        return found

    def inverse(self) -> Floats:
        """Return the inverse of `hessian`."""
        return inverse_of(self.hessian())

    def hessian_roundings(self) -> float:
        """Return how many units of rounding, times a step's length, a computed Hessian times the step can be off by.

        A curvature is off by twice a slope's units of itself and of the squared slope, and by what its outputs, off by
        ``(d + 1) |x| |f|``, move it; a product of two sums takes one for each of its n + 2 d terms and factors (of n
        only those that are added one after the other).
        """
        (n, d), squares, loss = self.X.shape, self.lengths**2, self.loss
        added = min(n, self.X.crossings) if isinstance(self.X, SparseRows) else n
        bend = loss.traces(self.y, self.outputs) @ squares
        steep = sizes(self.slopes) ** 2 @ squares
        moved = loss.third * (d + 1 + loss.output_ulps) * self.size * float((squares**1.5).sum())
        added += 2 * self.f.size + 12
        return float(added * (bend + np.max(self.weight)) + 2 * loss.slope_ulps * (bend + steep) + moved)

    @cached_property
    def own_gradient(self) -> float:
        """A bound on the base model's own gradient, on the sum scale (zero at the exact minimiser)."""
        n = len(self.X)
        left = float(np.linalg.norm(careful_gradient(self.X, self.y, self.f, self.l2, self.loss) + self.tilt))
        tilted = 2 * float(np.linalg.norm(self.tilt))
        return n * left + (n + 1) * ROUNDING * (self.roundings() + tilted)

    def unexplained(self) -> float:
        """Return how much `own_gradient` can add to any error, by strong convexity."""
        return self.own_gradient / self.convexity

    def roundings(self) -> float:
        """Return how many units of rounding the base model's gradient can be off by."""
        return roundings(self.X, self.y, self.f, self.l2, self.loss)

    def rounded(self, deltas: Floats) -> Floats:
        """Return how far ``f + deltas`` is off as it is stored and added."""
        return as_floats(2 * ROUNDING * (self.size + np.linalg.norm(deltas, axis=1)))

    def forms(self, rows: Floats, inverse: Floats) -> Floats:
        """Return ``A inverse A^T`` of rows, where A takes steps to changes of a row's outputs."""
        if self.f.ndim == 1:
            return as_floats(np.einsum("ij,ij->i", rows @ inverse, rows))
        (d, k), m = self.f.shape, len(rows)
        found, parts = np.empty((m, k, k)), inverse.reshape(d, k, d, k)
        for one in range(k):
            for other in range(one, k):
                found[:, one, other] = np.einsum("ij,ij->i", rows @ parts[:, one, :, other], rows)
                found[:, other, one] = found[:, one, other]
        return found

    def solved(self, hessian: Floats, inverse: Floats, rows: slice, right: Floats) -> tuple[Floats, Floats]:
        """Return what `solve` does, and the length of what it leaves of ``right``."""
        X, found = self.rows(rows), self.solve(inverse, rows, right)
        own = _lifted(X, _times(self.curvatures(rows), self.changes(X, found)))
        return found, as_floats(np.linalg.norm(right - found @ hessian + own, axis=1))

    def changes(self, rows: Floats, steps: Floats) -> Floats:
        """Return how a step of each row changes the row's outputs."""
        if self.f.ndim == 1:
            return as_floats(np.einsum("ij,ij->i", rows, steps))
        return as_floats(np.einsum("ij,ijk->ik", rows, steps.reshape(-1, *self.f.shape)))

    def solve(self, inverse: Floats, rows: slice | Indices, right: Floats) -> Floats:
        """Return (K - h_i x_i x_i^T)^-1 right_i for each row, by Sherman & Morrison (Woodbury for several outputs)."""
        X, h = self.rows(rows), self.curvatures(rows)
        found = as_floats(right @ inverse)
        if self.f.ndim == 1:
            towards = X @ inverse
            with np.errstate(invalid="ignore"):
                least = self.convexity / (self.convexity + h * np.einsum("ij,ij->i", X, X))  # of 1 - leverage, if exact
            room = np.maximum(1 - h * np.einsum("ij,ij->i", towards, X), np.fmax(least, SHADE - 1))
            found += (h * np.einsum("ij,ij->i", X, found) / room)[:, None] * towards
            return as_floats(found)
        room = SHADE * np.eye(h.shape[1]) - h @ self.forms(X, inverse)
        back = np.linalg.solve(room, _times(h, self.changes(X, found))[:, :, np.newaxis])[:, :, 0]
        return found + as_floats(_lifted(X, as_floats(back)) @ inverse)


def _lifted(rows: Floats, slopes: Floats) -> Floats:
    """Return gradients in the coefficients of gradients in each row's outputs."""
    if slopes.ndim == 1:
        return as_floats(slopes[:, None] * rows)
    return as_floats((rows[:, :, np.newaxis] * slopes[:, np.newaxis, :]).reshape(len(rows), -1))


def _times(curvatures: Floats, changes: Floats) -> Floats:
    return as_floats(curvatures * changes if changes.ndim == 1 else np.einsum("ikl,il->ik", curvatures, changes))


@dataclass(frozen=True, eq=False)
class Curvature:
    """What a neighbour's Hessian is at least, and how far its rows reach, from the Hessian that all neighbours share.

    Attributes
    ----------
    least : ndarray of shape ``(n,)``
        No eigenvalue of a neighbour's Hessian is smaller.
    reach : ndarray of shape ``(n,)``
        No row that stays is longer in the norm of the inverse of that Hessian: a step of length 1 in its norm changes
        the row's output, or the range of its scores, by no more.
    longest : float
        .. and a step of length 1 changes no row's by more.
    room : ndarray of shape ``(n,)``
        What a row leaves of the Hessian in its own direction.
    width : int
        Coefficients.
    """

    least: Floats
    reach: Floats
    longest: float
    room: Floats
    width: int

    @classmethod
    def of(cls, problem: Problem, forms: Floats, leverages: Floats, least: float, off: float) -> Curvature:
        """Return the bounds, for a Hessian that is off by ``off`` at most.

        ``forms`` are no smaller than the squared reach of rows in the norm of its inverse, ``leverages`` than a row's
        share of it, ``least`` no larger than its least eigenvalue.
        """
        second, first = np.partition(forms, -2)[-2:]
        with np.errstate(divide="ignore", invalid="ignore"):  # where nothing is known
            room = np.maximum(1 - up(leverages + np.divide(off, least), ulps=4), 0.0)
            smallest = np.maximum(problem.convexity, room * least) * (1 - 8 * ROUNDING)
            leant = np.where(forms == first, second, first) / room
            reach = np.sqrt(np.fmin(leant, problem.longest**2 / smallest))
        return cls(as_floats(smallest), up(as_floats(reach), ulps=8), problem.longest, as_floats(room), problem.f.size)

    def off_by(self, rows: slice, moved: Floats, shift: Floats, typical: Floats, left: Floats | float) -> Floats:
        """Return how far off Newton's steps are, by self-concordance; ``inf`` for no bound.

        Losses with ``|l'''| <= l''`` (Bach 2010) lose at most a factor ``e`` of curvature per unit of margin.  Let H be
        a neighbour's Hessian at the base model, s a bound on ``|x . delta|`` over its rows, R one on ``|x|`` in the
        norm of H^-1, and rho one on the gradient at ``f + delta``, in that norm: what Taylor's remainder and the
        linear solve leave, and the base model's own.  With ``q = R rho e^s < 1`` the minimiser lies within
        ``rho e^s / ((1 - q) sqrt(least))`` (derived in docs/theory/exposure.md).

        Parameters
        ----------
        moved, shift, typical : ndarray
            The steps' length in the norm of H, s, and s or its root mean square weighted by curvature.
        left : ndarray or float
            The gradient that is not explained.
        """
        reach, stiff, d = self.reach[rows], np.sqrt(self.least[rows]), self.width
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            bent = np.exp(shift)
            decrement = typical * (2 + bent) / 6 * moved + left / stiff
            share = up(as_floats(reach * decrement * bent), ulps=8 * d + 64)  # q
            found = np.where(share < 0.5, decrement * bent / (stiff * (1 - share)), np.inf)
        return up(as_floats(found), ulps=8 * d + 64)


@dataclass(frozen=True, eq=False)
class SelfConcordance:
    """Certificates by self-concordance for steps that are at hand (`Curvature.off_by`).

    ``spread``: the sum of ``h |x|^2 x x^T``, with ``|x|`` (a row's reach) in the norm of the shared inverse; in any
    direction of length 1 it is off by at most ``spread_off``.
    """

    bounds: Curvature
    spread: Floats
    spread_off: float

    @classmethod
    def of(cls, problem: Problem, hessian: Floats, inverse: Floats, off: float) -> SelfConcordance:
        """Return the bounds for a Hessian that is off by ``off`` at most, and what was computed as its inverse."""
        n, d, size = len(problem.X), problem.f.size, float(np.linalg.norm(inverse))
        least = least_eigenvalue(hessian.copy(), float(np.linalg.eigvalsh(hessian)[0]), off, problem.convexity)
        apart = float(np.linalg.norm(np.eye(d) - inverse @ hessian))  # from the exact inverse, times the Hessian
        apart += size * ((d + 4) * ROUNDING * float(np.linalg.norm(hessian)) + off)
        loss, squares = problem.loss, problem.lengths**2
        with np.errstate(divide="ignore"):
            form_offs = squares * (np.divide(apart, least) + (2 * d + 4 + loss.output_ulps**2) * ROUNDING * size)
        forms, leverages = np.empty(n), np.empty(n)
        for part in slices(n, problem.block):
            own, bent = problem.forms(problem.rows(part), inverse), problem.curvatures(part)
            reaches = np.maximum(loss.reaches(own), 0) + loss.stretch**2 * form_offs[part]
            forms[part] = up(as_floats(reaches), ulps=d + 16)
            if own.ndim == 1:
                leverages[part] = bent * forms[part]
            else:  # the root of the sum of squared eigenvalues is no smaller than the largest
                shares = bent @ own
                blur = 16 * len(problem.f.T) * ROUNDING * np.einsum("ikl,ikl->i", shares, shares)
                leverages[part] = np.sqrt(np.abs(np.einsum("ikl,ilk->i", shares, shares)) + blur)
                leverages[part] = up(leverages[part] + loss.most_curved * form_offs[part], ulps=8 * d + 64)
        bends = loss.traces(problem.y, problem.outputs)
        with np.errstate(invalid="ignore"):  # where nothing is known
            spread_off = (n + 3 * d + 24) * ROUNDING * float(bends * forms @ squares) + off * float(forms.max())
            return cls(Curvature.of(problem, forms, leverages, least, off), problem.gram(forms), spread_off)

    def errors(self, rows: slice, deltas: Floats, pulls: Floats, left: Floats, own: float) -> Floats:
        """Return how far off moves are, whose linear equations are solved within ``left``; ``inf`` for no bound.

        ``own`` bounds the base model's own gradient, on the sum scale.
        """
        d, sizes = deltas.shape[1], np.linalg.norm(deltas, axis=1)
        energy = np.abs(np.einsum("ij,ij->i", deltas, pulls))
        energy += sizes * (left + (d + 4) * ROUNDING * np.linalg.norm(pulls, axis=1))
        moved = np.sqrt(energy)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            fourth = np.abs(np.einsum("ij,ij->i", deltas @ self.spread, deltas)) + self.spread_off * sizes**2
            shift = np.minimum(self.bounds.longest * sizes, self.bounds.reach[rows] * moved)
            typical = np.fmin(shift, np.sqrt(fourth / self.bounds.room[rows]))
        return self.bounds.off_by(rows, as_floats(moved), as_floats(shift), as_floats(typical), left + own)


def newton(problem: Problem) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield Newton's steps of the rows, part by part, and how far off they are."""
    hessian, loss = problem.hessian(), problem.loss
    inverse = inverse_of(hessian)
    lengths, k = problem.lengths, problem.f.size // problem.X.shape[1]
    bend = weighted_gram(problem.X, lengths)
    per_length = ROUNDING * problem.hessian_roundings()
    per_square = ROUNDING * (len(lengths) + 2 * problem.X.shape[1] + 8) * float((lengths**3).sum())
    concordance = SelfConcordance.of(problem, hessian, inverse, per_length) if loss.self_concordant else None
    own = problem.own_gradient
    for part in slices(len(lengths), problem.block):
        pulls = problem.pulls(part)
        steps, left = problem.solved(hessian, inverse, part, pulls)
        size = np.linalg.norm(steps, axis=1)
        moved = per_square * size**2
        for one in range(k):
            moved += np.einsum("ij,ij->i", steps[:, one::k] @ bend, steps[:, one::k])
        left += 4 * ROUNDING * np.linalg.norm(pulls, axis=1) + per_length * size
        with np.errstate(divide="ignore"):
            errors = np.divide(0.5 * loss.third * moved + left + own, problem.convexity)
        if concordance is not None:
            errors = np.minimum(errors, concordance.errors(part, steps, pulls, left, own))
        yield part, steps, as_floats(errors + problem.rounded(steps))


def inverse_of(hessian: Floats) -> Floats:
    """Return the inverse of a Hessian."""
    try:
        return as_floats(np.linalg.inv(hessian))
    except np.linalg.LinAlgError:
        raise ExposureError(NO_INVERSE) from None


def least_eigenvalue(hessian: Floats, guess: float, off: float, known: float) -> float:
    """Return a lower bound on the least eigenvalue of a matrix that is known within ``off``; it is overwritten.

    Cholesky's factors are exact for a matrix within ``(d + 2) u`` times the trace (Rump 2006), whatever eigenvalues
    were computed: where it succeeds after a shift, the least eigenvalue is the shift or more, up to that.
    """
    from scipy.linalg import LinAlgError, cholesky

    d = len(hessian)
    slack = (d + 8) * ROUNDING * float(np.trace(hessian))
    shift = guess - 4 * slack
    if shift - slack - off <= known:
        return known
    hessian.flat[:: d + 1] -= shift
    try:
        cholesky(hessian.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return known
    return shift - slack - off


def furthest_first(rows: Indices, distances: Floats, errors: Floats) -> Indices:
    """Return some rows, first those that may move the model furthest."""
    return rows[np.argsort(-(distances + errors)[rows], kind="stable")]


def refined(
    problem: Problem, inverse: Floats, rows: Indices, deltas: Floats, errors: Floats, tol: float,
    n_jobs: int | None, kept: Keeping | None, told: Callable[[float], None] | None,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return better steps of some rows and how far off they are: by chord steps against the exact residual.

    Where those stall rows are left out one by one and the model is fitted again, unless the table is sparse: large.
    """
    parts = list(slices(len(rows), max(1, PAIRS // min(len(problem.X), BLOCK))))
    chords, given = Chords(problem, inverse, tol), [(rows[part], deltas[part], errors[part]) for part in parts]
    deltas, errors = deltas.copy(), errors.copy()
    for part, (better, off) in zip(parts, in_order(chords, given, n_jobs=n_jobs, kept=kept), strict=True):
        deltas[part], errors[part] = better, off
        if told is not None:
            told(part.stop / (len(rows) + 1))
    floor = problem.unexplained()
    poor = np.flatnonzero(errors > np.maximum(100 * floor, tol * np.linalg.norm(deltas, axis=1)))
    if not isinstance(problem.X, SparseRows):
        starts = [(int(rows[i]), problem.f + deltas[i]) for i in poor]
        anew = in_order(Retraining(problem), starts, n_jobs=n_jobs, kept=kept)
        for i, (found, error) in zip(poor, anew, strict=True):
            deltas[i], errors[i] = found, error
    return deltas, as_floats(errors + floor + problem.rounded(deltas))


@dataclass(frozen=True, eq=False)
class Chords:
    """Chord steps for a block of rows: what does not depend on who takes them, or on the other blocks."""

    problem: Problem
    inverse: Floats
    tol: float

    def __call__(self, block: Block) -> tuple[Floats, Floats]:
        """Return better points of some rows, and how far off they can be."""
        (some, found, _), problem = block, self.problem
        residual, noise = _residual(problem, some, found)
        patient = isinstance(problem.X, SparseRows)
        for _ in range(PATIENT_STEPS if patient else CHORD_STEPS):
            size = np.linalg.norm(residual, axis=1)
            proposed = found - problem.solve(self.inverse, some, residual)
            after, blur = _residual(problem, some, proposed)
            falls = np.linalg.norm(after, axis=1) < size
            found = np.where(falls[:, np.newaxis], proposed, found)
            residual, noise = np.where(falls[:, np.newaxis], after, residual), np.where(falls, blur, noise)
            left = np.linalg.norm(residual, axis=1)
            enough = 0.9 * self.tol * problem.convexity * np.linalg.norm(found, axis=1)
            if not (left < (0.9 if patient else 0.5) * size).any() or (left <= enough).all():
                break
        return found, as_floats((np.linalg.norm(residual, axis=1) + noise) / problem.convexity)  # strong convexity

    def arrays(self, found: tuple[Floats, Floats]) -> Arrays:
        """Return what is kept of a block."""
        return {"deltas": found[0], "errors": found[1]}

    def read(self, block: Block, arrays: Arrays) -> tuple[Floats, Floats]:
        """Return what was kept of a block."""
        return arrays["deltas"], arrays["errors"]


@dataclass(frozen=True, eq=False)
class Retraining:
    """Fits without one row, from where chord steps stalled."""

    problem: Problem

    def __call__(self, row: tuple[int, Floats]) -> tuple[Floats, float]:
        """Return how far the model moves without a row, and how far off that is."""
        (row_number, start), problem = row, self.problem
        kept = np.flatnonzero(np.arange(len(problem.X)) != row_number)
        X, y, loss, l2 = problem.X[kept], problem.y[kept], problem.loss, problem.convexity / len(kept)
        found, *_ = minimise(X, y, l2, loss, start)
        size = float(np.linalg.norm(careful_gradient(X, y, found, l2, loss)))
        return as_floats(found - problem.f), (size + ROUNDING * roundings(X, y, found, l2, loss)) / l2

    def arrays(self, found: tuple[Floats, float]) -> Arrays:
        """Return what is kept of a row."""
        return {"delta": found[0], "error": np.array(found[1])}

    def read(self, row: tuple[int, Floats], arrays: Arrays) -> tuple[Floats, float]:
        """Return what was kept of a row."""
        return arrays["delta"], float(arrays["error"])


def _residual(problem: Problem, rows: Indices, deltas: Floats) -> tuple[Floats, Floats]:
    """Return the neighbours' sum-scale gradients at f + delta_i, apart from the base model's own gradient.

    With each comes how far rounding can take it: every term goes through fewer than n additions, whatever their order,
    two slopes and their difference take their own, and a margin moves by its roundings; the row's own part, too.
    """
    X, y, at_base, (n, d) = problem.X, problem.y, problem.slopes, problem.X.shape
    own = problem.pulls(rows)
    far, lengths, ulps = np.linalg.norm(deltas, axis=1), problem.lengths, problem.loss.slope_ulps
    residual, noise = problem.weight * deltas - own, 2 * ulps * (lengths @ np.abs(at_base))
    for part in slices(n, BLOCK):
        outputs = problem.outputs[part, None] + X[part] @ deltas.T
        change = problem.loss.slopes(y[part, None], outputs) - at_base[part, None]
        here = np.flatnonzero((rows >= part.start) & (rows < part.stop))
        change[rows[here] - part.start, here] = 0.0
        residual += (X[part].T @ change).T
        noise = noise + (n + ulps + 4) * (lengths[part] @ np.abs(change))
    noise += 4 * problem.convexity * far + (ulps + 4) * np.linalg.norm(own, axis=1)
    noise += problem.loss.most_curved * (d + 1) * (lengths @ lengths) * (3 * problem.size + far)
    return as_floats(residual), as_floats(ROUNDING * noise)
