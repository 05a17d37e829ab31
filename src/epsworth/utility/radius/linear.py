"""Exact radius of linear classifiers: the distance to a hyperplane, by the dual norm.

The label changes only where some score reaches the own one, so the distance is the least over the other
classes k of (s_own - s_k) / |w_own - w_k|_*: the dual norm of 2 is 2, that of inf is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.classifiers.quadratics import quadratic_scores
from epsworth.classifiers.reading import dense, known_labels, library_class
from epsworth.classifiers.thresholds import LINEAR
from epsworth.rounding import UNIT, down
from epsworth.utility.radius.bracket import Witness
from epsworth.utility.radius.question import Asked, Found, Inside


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


def linear_radius(asked: Asked, inside: Inside) -> Found | None:
    """Return the distance to the nearest hyperplane, rounded outwards; None if the model is not linear."""
    scores = linear_scores(inside.estimator)
    if scores is None:
        return None
    own = inside.own
    values = scores(inside.seen[np.newaxis])[0]
    slopes = (scores.weights - scores.weights[own]) @ inside.slopes
    dual = np.abs(slopes).sum(axis=1) if math.isinf(asked.norm) else np.linalg.norm(slopes, axis=1)
    rivals = np.flatnonzero((np.arange(len(values)) != own) & (dual > 0))
    lower, offsets = math.inf, []
    for k in rivals:
        distance = max(values[own] - values[k], 0.0) / dual[k]
        lower = min(lower, _certain(scores, inside, (own, int(k)), values[own] - values[k], float(dual[k]), distance))
        direction = np.sign(slopes[k]) if math.isinf(asked.norm) else slopes[k] / dual[k]
        offsets.append(direction * max(distance, np.finfo(float).tiny))
    witness: Witness | None = asked.behind(np.array(offsets)) if offsets else None
    if not asked.agrees(inside, scores, lower):
        return None
    return Found(lower, witness, "linear")
