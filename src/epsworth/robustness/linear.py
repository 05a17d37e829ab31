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
from epsworth.engines.linear import LINEAR
from epsworth.robustness.question import EPS, Asked, Found, Inside, Witness


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
    """Read the scores of a linear classifier or of nearest centroids; None for other kinds."""
    kind = type(estimator).__name__
    if np.ndim(getattr(estimator, "classes_", [[]])) != 1:
        return None
    if kind == "NearestCentroid" and estimator.metric == "euclidean":
        return _centroids(estimator)
    if kind not in LINEAR or not hasattr(estimator, "coef_"):
        return None
    weights = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
    constants = np.zeros(len(weights)) + np.asarray(estimator.intercept_, dtype=np.float64)
    if len(weights) == 1:  # the second class wins where the score is positive
        weights, constants = np.vstack([0 * weights, weights]), np.concatenate([[0.0], constants])
    return LinearScores(weights, constants, lambda seen: np.abs(weights) @ seen + np.abs(constants))


def _centroids(estimator: Any) -> LinearScores:
    """Expand -|u - m|^2 and drop |u|^2; scikit-learn divides by the spread where the priors differ."""
    centroids = np.asarray(estimator.centroids_, dtype=np.float64)
    spread, bonus = np.ones(centroids.shape[1]), np.zeros(len(centroids))
    priors = getattr(estimator, "class_prior_", None)
    if priors is not None and not np.isclose(priors, 1 / len(centroids)).all():
        within = estimator.within_class_std_dev_
        spread, bonus = np.where(within != 0, within, 1.0), 2 * np.log(priors)
    scaled = centroids / spread
    constants = bonus - (scaled**2).sum(axis=1)

    def sizes(seen: Floats) -> Floats:
        return np.asarray(((seen / spread + np.abs(scaled)) ** 2).sum(axis=1) + np.abs(bonus))

    return LinearScores(2 * scaled / spread, constants, sizes)


def _certain(
    scores: LinearScores, inside: Inside, pair: tuple[int, int], lead: float, dual: float, distance: float
) -> float:
    """Return a distance within which the rival stays behind, whatever both scores are rounded to.

    The rounding grows with the ball, so a boundary at an absurd distance may only be excluded in a smaller one.
    """
    best = 0.0
    for reach in distance * np.geomspace(1, 1e-16, 9):
        sizes = scores.sizes(inside.sizes(reach))
        slack = 4 * (inside.row.size + 8) * EPS * float(sizes[list(pair)].sum())  # of both scores, here and there
        best = max(best, min(float(reach), (lead - slack) / dual * (1 - (inside.moved.size + 8) * EPS)))
    return best


def linear_radius(asked: Asked, inside: Inside) -> Found | None:
    """Return the distance to the nearest hyperplane, rounded outwards; None if the model is not linear."""
    scores = linear_scores(inside.estimator)
    if scores is None:
        return None
    own = list(inside.estimator.classes_).index(asked.label)
    values = scores(inside.seen[np.newaxis])[0]
    slopes = (scores.weights - scores.weights[own])[:, inside.moved] * inside.slopes
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
