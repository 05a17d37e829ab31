"""Radius of linear and quadratic classifiers: the distance to a hyperplane, or to a quadric.

*Linear.*  The label changes only where some score reaches the own one, so the distance is the least over the other
classes k of (s_own - s_k) / |w_own - w_k|_*: the dual norm of 2 is 2, that of inf is 1.

*Gaussian naive Bayes, quadratic discriminants, Gaussian mixtures.*  It changes where q(t) = t'At + b't + c >= 0, t the
offset from the record.  Norm 2: Lagrangian duality has no gap for one quadratic constraint (S-lemma), and *every*
multiplier gives a lower bound, so rounding cannot break it.  Norm inf: closed form along the axes where A is
diagonal, else boxes that are proven free of flips.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.quadratics import QuadraticScores, quadratic_scores
from epsworth.classifiers.reading import dense, known_labels, library_class
from epsworth.classifiers.thresholds import LINEAR
from epsworth.rounding import UNIT, down, underflows
from epsworth.utility.radius.question import Inside, RadiusQuestion, RadiusResult, Witness, euclidean
from epsworth.utility.radius.trees import free_radius


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Score k is ``weights[k] . seen + constants[k]``.

    ``sizes(seen)`` bounds the absolute terms that the estimator adds up, for its rounding errors.
    """

    weights: Floats
    constants: Floats
    sizes: Callable[[Floats], Floats]

    def __call__(self, seen: Floats) -> Floats:
        """Return the scores of rows, shape ``(n, classes)``."""
        return np.asarray(seen @ self.weights.T + self.constants)


def linear_scores(estimator: Any) -> LinearScores | None:
    """Read the scores of a linear classifier, or of one whose classes share their curvature; None for other kinds."""
    if known_labels(estimator) is None:
        return None
    if library_class(estimator) not in LINEAR or not hasattr(estimator, "coef_"):
        return _without_curvature(estimator)
    weights = np.atleast_2d(dense(estimator.coef_))
    constants = np.zeros(len(weights)) + np.asarray(estimator.intercept_, dtype=np.float64)
    if len(weights) == 1:  # the second class wins where the score is positive
        weights, constants = np.vstack([0 * weights, weights]), np.concatenate([[0.0], constants])
    return LinearScores(weights, constants, lambda seen: np.abs(weights) @ seen + np.abs(constants))


def _without_curvature(estimator: Any) -> LinearScores | None:
    """Expand -|r(u - m)|^2 / 2 and drop |r u|^2 / 2, which all classes share: centroids, centres, tied covariances."""
    scores = quadratic_scores(estimator)
    if scores is None or not scores.shared:
        return None
    scaled = scores.means @ scores.roots[0].T
    return LinearScores(
        scaled @ scores.roots[0],
        scores.constants - 0.5 * (scaled**2).sum(axis=1),
        lambda seen: 2 * scores.unit / UNIT * scores.sizes(seen),
    )


def _certain(
    scores: LinearScores, inside: Inside, pair: tuple[int, int], lead: float, dual: float, distance: float
) -> float:
    """Return a distance within which the rival stays behind, whatever both scores are rounded to.

    The rounding grows with the ball, so a boundary at an absurd distance may only be excluded in a smaller one.  In
    units: a score of d terms is off by d + 6 of their sizes and by what the steps before it are off by.  Both scores
    are off so here, as we read them, and there, as they are answered: 4 pays for both, and for the slopes twice.  The
    dual norm is off by 2 s + 6 of itself.
    """
    best = 0.0
    for reach in distance * np.geomspace(1, 1e-16, 9):
        sizes = scores.sizes(inside.sizes(reach))
        slack = 4 * (inside.additions + 8) * UNIT * float(sizes[list(pair)].sum())
        best = max(best, min(float(reach), down((lead - slack) / dual, ulps=2 * inside.slopes.shape[1] + 8)))
    return best


def linear_radius(question: RadiusQuestion, inside: Inside) -> RadiusResult | None:
    """Return the distance to the nearest hyperplane, rounded outwards; None if the model is not linear."""
    scores = linear_scores(inside.estimator)
    if scores is None:
        return None
    own = inside.own
    if underflows(scores.weights, inside.slopes):
        return None
    values = scores(inside.seen[np.newaxis])[0]
    slopes = (scores.weights - scores.weights[own]) @ inside.slopes
    dual = np.abs(slopes).sum(axis=1) if math.isinf(question.norm) else euclidean(slopes)
    rivals = np.flatnonzero((np.arange(len(values)) != own) & (dual > 0))
    lower, offsets = math.inf, []
    for k in rivals:
        distance = max(values[own] - values[k], 0.0) / dual[k]
        lower = min(lower, _certain(scores, inside, (own, int(k)), values[own] - values[k], float(dual[k]), distance))
        direction = np.sign(slopes[k]) if math.isinf(question.norm) else slopes[k] / dual[k]
        offsets.append(direction * max(distance, np.finfo(float).tiny))
    witness: Witness | None = question.behind(np.array(offsets)) if offsets else None
    if not question.agrees(inside, scores, lower):
        return None
    return RadiusResult(lower, witness, "linear")


TOLERANCE = 1e-7  # relative gap at which the search over boxes stops
BACK = (0.0, 2.0**-45, 2.0**-30)  # steps back from a multiplier at which 1 - v l cancels
STARTS, DESCENTS = 32, 80  # local searches for the nearest point, and their steps


@dataclass(frozen=True, eq=False)
class Quadric:
    """q(t) = t'At + b't + c, negative at t = 0; a flip to this rival needs q(t) >= 0."""

    curvature: Floats
    slope: Floats
    gap: float

    def __call__(self, offsets: Floats) -> Floats:
        """Return q of offsets, along the last axis."""
        return np.asarray(((offsets @ self.curvature) * offsets).sum(axis=-1) + offsets @ self.slope + self.gap)

    def raised(self, slack: float, curved: float) -> Quadric:
        """Return a quadric above this one, by ``slack + curved |t|^2``."""
        return Quadric(self.curvature + curved * np.eye(len(self.slope)), self.slope, self.gap + slack)

    def along(self, directions: Floats) -> Floats:
        """Return the smallest r >= 0 with q(r d) >= 0 per direction, or infinity."""
        a = ((directions @ self.curvature) * directions).sum(axis=-1)
        b, c = directions @ self.slope, min(self.gap, 0.0)
        root = np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))
        # of the two roots the one nearer to 0 on the right: 2c / (-b - root), free of cancellation for b > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            near = np.where(b >= 0, -2 * c / (b + root), (-b + root) / (2 * a))
        reached = (b * b - 4 * a * c >= 0) & ((b > 0) | (a > 0)) & np.isfinite(near) & (near >= 0)
        return np.where(reached, near, np.inf)


@dataclass(frozen=True, eq=False)
class Nearest:
    """A certified lower bound on the distance to a quadric, and points near the nearest one."""

    lower: float
    offsets: Floats


def nearest_euclidean(quadric: Quadric) -> Nearest:
    """Bound the Euclidean distance to ``q >= 0`` by the secular equation.

    In the eigenbasis the Lagrangian is least at y_i = v b_i / (2 (1 - v l_i)) for a multiplier
    0 <= v < 1/max(l), and g(v) = -v c - sum v^2 b_i^2 / (4 (1 - v l_i)) <= distance^2 for all of them.
    g is concave with slope -q(y(v)), so bisection on the sign of q finds its top.
    """
    values, basis = np.linalg.eigh(quadric.curvature)
    slopes, gap = basis.T @ quadric.slope, quadric.gap
    top = float(values[-1])

    def point(v: float) -> Floats:
        return np.asarray(v * slopes / (2 * (1 - v * values)))

    def constraint(v: float) -> float:
        y = point(v)
        return float((values * y * y + slopes * y).sum() + gap)

    def squared(v: float) -> float:
        """Return g(v), less its rounding: n + 6 units of a part, and what 1 - v l cancels, twice over."""
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(slopes == 0, 0.0, v * v * slopes**2 / (4 * (1 - v * values)))
            lost = UNIT * (1 + np.abs(v * values)) / (1 - v * values)  # of itself; a quarter is too much
            off = 2 * parts * ((values.size + 6) * UNIT + lost)
        rounding = np.where(lost < 0.25, off, np.where(parts > 0, np.inf, 0))
        return -v * gap - float(parts.sum()) - float(rounding.sum() - 4 * UNIT * v * gap)

    if gap >= 0:
        return Nearest(0.0, quadric.slope[np.newaxis] * np.finfo(float).tiny)  # on the boundary: any step outwards
    low, high = 0.0, (1 / top if top > 0 else 1.0)
    while top <= 0 and constraint(high) < 0 and high < 1e200:
        low, high = high, high * 2
    if top <= 0 and constraint(high) < 0:
        return Nearest(math.inf, np.empty((0, len(values))))  # q < 0 everywhere
    for _ in range(2000):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if constraint(middle) < 0 else (low, middle)
    best = max(squared(low * (1 - back)) for back in BACK)
    return Nearest(down(math.sqrt(max(best, 0.0)), ulps=2), _completed(point(low), values, slopes, gap) @ basis.T)


def _completed(y: Floats, values: Floats, slopes: Floats, gap: float) -> Floats:
    """Move a point along one eigenvector until q = 0, both ways; this is the hard case's missing part.

    In the hard case (no slope along the top eigenvector) no multiplier reaches the quadric by itself.
    """
    i = int(np.argmax(values)) if values[-1] > 0 else int(np.argmax(np.abs(slopes + 2 * values * y)))
    value, slope = values[i], slopes[i] + 2 * values[i] * y[i]
    rest = min(float((values * y * y + slopes * y).sum() + gap), 0.0)
    usable = (value != 0 or slope != 0) and bool(np.isfinite([value, slope, rest, rest / (value or slope)]).all())
    roots = np.roots([value, slope, rest]) if usable else np.empty(0)
    steps = roots[np.abs(roots.imag) <= 1e-9 * (1 + np.abs(roots))].real
    result = np.repeat(y[np.newaxis], max(len(steps), 1), axis=0)
    result[: len(steps), i] += steps
    return result


def nearest_along_axes(quadric: Quadric) -> Nearest:
    """Bound the distance in norm inf where A is diagonal: the top of q over a box is a sum over the axes."""
    a, b = np.diag(quadric.curvature), quadric.slope

    def corner(r: float) -> Floats:
        ends = np.where(b >= 0, r, -r)
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = np.where(a < 0, -b / (2 * a), ends)
        return np.where(np.abs(middle) < r, middle, ends)

    low, high = 0.0, 1.0
    while quadric(corner(high)) < 0:
        low, high = high, high * 2
        if high > 1e200:
            return Nearest(math.inf, np.empty((0, len(b))))
    for _ in range(2000):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if quadric(corner(middle)) < 0 else (low, middle)
    return Nearest(low, corner(high)[np.newaxis])


def nearest_in_boxes(quadric: Quadric, budget: float, proven: Callable[[float], None] = lambda radius: None) -> Nearest:
    """Bound the distance in norm inf: local search from above, boxes without flips from below.

    Around the middle m of a box of half-widths h, q <= q(m) + |grad q(m)| . h + the least of
    h'|A|h (diagonal only where positive) and max(l, 0) |h|^2.
    """
    offset = _local_search(quadric)
    if offset is None:  # q < 0 everywhere, or so it seems: the Euclidean bound is valid too
        lower = nearest_euclidean(quadric).lower / math.sqrt(len(quadric.slope))
        return Nearest(lower, np.empty((0, len(quadric.slope))))
    top = max(float(np.linalg.eigvalsh(quadric.curvature)[-1]), 0.0)
    sizes = np.abs(quadric.curvature)
    np.fill_diagonal(sizes, np.maximum(np.diag(quadric.curvature), 0.0))

    def free(low: Floats, high: Floats) -> Bools:
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        gradient = np.abs(2 * middle @ quadric.curvature + quadric.slope)
        bend = np.minimum(((half @ sizes) * half).sum(axis=1), top * (half * half).sum(axis=1))
        return np.asarray(quadric(middle) + (gradient * half).sum(axis=1) + bend < 0)

    reach = float(np.abs(offset).max()) * (1 - TOLERANCE)
    return Nearest(free_radius(free, len(offset), reach, budget, proven), offset[np.newaxis])


def _local_search(quadric: Quadric) -> Floats | None:
    """Walk from many directions towards the nearest point in norm inf; None where no ray meets ``q >= 0``."""
    s = len(quadric.slope)
    rng = np.random.default_rng(0)
    starts = [
        np.sign(rng.uniform(-1, 1, (256, s))),
        rng.uniform(-1, 1, (256, s)),
        np.sign([quadric.slope, -quadric.slope]),
    ]
    vectors = np.linalg.eigh(quadric.curvature)[1].T
    at = np.concatenate([*starts, vectors, -vectors, nearest_euclidean(quadric).offsets])
    at = at[np.abs(at).max(axis=1) > 0]
    at = at / np.abs(at).max(axis=1, keepdims=True)
    reached = quadric.along(at)
    order = np.argsort(reached)[:STARTS]
    at, reached = at[order], reached[order]
    at, reached = at[np.isfinite(reached)], reached[np.isfinite(reached)]
    if not len(at):
        return None
    steps = np.geomspace(1e-9, 10, 21)[:, np.newaxis]
    for _ in range(DESCENTS):
        uphill = 2 * (at * reached[:, np.newaxis]) @ quadric.curvature + quadric.slope
        uphill /= np.maximum(np.abs(uphill).max(axis=1, keepdims=True), np.finfo(float).tiny)
        tried = np.clip(at[:, np.newaxis] + steps * uphill[:, np.newaxis], -1, 1)
        tried /= np.maximum(np.abs(tried).max(axis=2, keepdims=True), np.finfo(float).tiny)
        result = quadric.along(tried)
        best, rows = result.argmin(axis=1), np.arange(len(at))
        better = result[rows, best] < reached
        if not better.any():
            break
        at[better], reached[better] = tried[rows, best][better], result[rows, best][better]
    best_start = int(np.argmin(reached))
    return np.asarray(at[best_start] * reached[best_start])


def quadratic_radius(question: RadiusQuestion, inside: Inside, budget: float) -> RadiusResult | None:
    """Return two-sided bounds on the distance to the nearest quadric; None if the model has none."""
    scores = quadratic_scores(inside.estimator)
    if scores is None:
        return None
    own = inside.own
    forms = [_form(scores, inside, k) for k in range(len(scores.roots))]
    sizes = np.array([_sizes(scores, inside, k) for k in range(len(forms))])
    quadrics, raised = [], []
    for k in range(len(forms)):
        if k == own:
            continue
        (a, b, c), (a_own, b_own, c_own) = forms[k], forms[own]
        quadrics.append(Quadric(a - a_own, b - b_own, c - c_own))
        # of both scores, there (3 d + 15 units: see `epsworth.utility.engines.quadratic`) and here, where the quadric
        # is read (3 d + 16), turned into its eigenbasis and evaluated (d each), and of the steps before them
        rounding = 8 * (inside.additions + 8) * scores.unit * (sizes[k] + sizes[own])
        raised.append(quadrics[-1].raised(*rounding.tolist()))
    width = 1.0 if question.norm == 2 else math.sqrt(len(question.point))
    lowers = np.array([nearest_euclidean(one).lower / width * (1 - 4 * UNIT) for one in raised])  # at once
    offsets = [np.empty((0, len(question.point))), *(_nearest(one, question.norm, 0).offsets for one in quadrics)]
    witness, lower = question.behind(np.concatenate(offsets)), float(lowers.min(initial=math.inf))
    if not question.agrees(inside, scores, lower if witness is None else witness.distance):
        return None
    question.run.proves("quadratic", lower)
    question.run.found(witness)
    for i in np.argsort(lowers, kind="stable"):

        def proven(radius: float, i: int = int(i)) -> None:
            lowers[i] = max(lowers[i], radius)
            question.run.proven(float(lowers.min()))
            if not question.run.deadline.free:
                question.run.deadline.check()

        certain = _nearest(raised[i], question.norm, budget, proven)
        proven(certain.lower)
        offsets.append(certain.offsets)
    lower = float(lowers.min(initial=math.inf))
    return RadiusResult(lower, question.behind(np.concatenate(offsets)), "quadratic")


def _form(scores: QuadraticScores, inside: Inside, k: int) -> tuple[Floats, Floats, float]:
    """Return curvature, slope and value at the record of score k, in natural offsets of the moved features."""
    root = scores.roots[k]
    at, moved = root @ (inside.seen - scores.means[k]), root @ inside.slopes
    return -0.5 * moved.T @ moved, -moved.T @ at, float(scores.constants[k] - 0.5 * at @ at)


def _sizes(scores: QuadraticScores, inside: Inside, k: int) -> tuple[float, float]:
    """Bound the absolute terms of score k by ``a + b |t|^2``, for rounding errors: (u + v)^2 <= 2 u^2 + 2 v^2."""
    root = np.abs(scores.roots[k])
    here = ((root @ (inside.sizes(0.0) + np.abs(scores.means[k]))) ** 2).sum()
    per_unit = ((root @ inside.view.terms.sum(axis=1)) ** 2).sum()
    return float(2 * here + scores.terms[k]), float(2 * per_unit)


def _nearest(
    quadric: Quadric, norm: float, budget: float, proven: Callable[[float], None] = lambda radius: None
) -> Nearest:
    if norm == 2:
        return nearest_euclidean(quadric)
    if not np.any(quadric.curvature - np.diag(np.diag(quadric.curvature))):
        return nearest_along_axes(quadric)
    return nearest_in_boxes(quadric, budget, proven)
