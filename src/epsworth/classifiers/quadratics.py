"""What can be seen inside classifiers whose scores are quadratic: the label is the class of the largest one.

Gaussian naive Bayes, quadratic discriminant analysis, the components of a Gaussian mixture, and nearest
centroids or k-means centres, whose scores share their curvature (Zheng & Hu 2025, appendix C.1.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats, as_floats
from epsworth.classifiers.reading import known_labels, library_class


@dataclass(frozen=True, eq=False)
class QuadraticScores:
    """Score k is ``-|roots[k] (seen - means[k])|^2 / 2 + constants[k]``.

    Attributes
    ----------
    roots : tuple of ndarray, shape ``(rows, d)`` each
        One and the same array where all classes share their curvature.
    means : ndarray, shape ``(classes, d)``
    constants, terms : ndarray, shape ``(classes,)``
        ``terms`` is the sum of the absolute terms that a constant is the sum of, for rounding errors.
    classes : ndarray
        Labels.
    unit : float
        Relative rounding error of the estimator's arithmetic: of single precision where it was fitted in it.
    """

    roots: tuple[Floats, ...]
    means: Floats
    constants: Floats
    terms: Floats
    classes: NDArray[Any]
    unit: float

    @property
    def shared(self) -> bool:
        """Whether all classes share their curvature, so that they are parted by hyperplanes."""
        return all(root is self.roots[0] for root in self.roots)

    def __call__(self, seen: Floats) -> Floats:
        """Return the scores of rows, shape ``(n, classes)``."""
        parts = [
            c - 0.5 * (((seen - m) @ r.T) ** 2).sum(axis=1)
            for r, m, c in zip(self.roots, self.means, self.constants, strict=True)
        ]
        return np.stack(parts, axis=1)

    def sizes(self, seen: Floats) -> Floats:
        """Return the absolute terms of the scores, shape ``(classes,)``, where no value exceeds ``seen`` in size."""
        squares = [((np.abs(r) @ (seen + np.abs(m))) ** 2).sum() for r, m in zip(self.roots, self.means, strict=True)]
        return np.asarray(0.5 * np.array(squares) + self.terms)


Parts = tuple[Sequence[Floats], Any, Floats, Floats]  # roots, means, constants, terms


def quadratic_scores(estimator: Any) -> QuadraticScores | None:
    """Read the scores of a supported estimator; None for other kinds."""
    reader, classes = READERS.get(library_class(estimator) or ""), known_labels(estimator)
    parts = None if reader is None or classes is None else reader(estimator)
    if parts is None or classes is None or not np.isfinite(parts[2]).all():  # a class of weight 0
        return None
    means, constants, terms = map(as_floats, parts[1:])
    return QuadraticScores(tuple(parts[0]), means, constants, terms, classes, _unit(estimator))


def _unit(estimator: Any) -> float:
    """Return the coarsest rounding among the fitted arrays."""
    fitted = [v for v in vars(estimator).values() if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    return float(max(np.finfo(array.dtype).eps for array in fitted))


def _naive_bayes(estimator: Any) -> Parts:
    variances, priors = as_floats(estimator.var_), as_floats(estimator.class_prior_)
    logs = np.column_stack([-0.5 * np.log(2 * np.pi * variances), _log(priors)])
    return [np.diag(v**-0.5) for v in variances], estimator.theta_, logs.sum(axis=1), np.abs(logs).sum(axis=1)


def _discriminant(estimator: Any) -> Parts:
    pairs = [(as_floats(r), as_floats(s)) for r, s in zip(estimator.rotations_, estimator.scalings_, strict=True)]
    logs = [-0.5 * np.log(s) for _, s in pairs]
    priors = _log(as_floats(estimator.priors_))
    constants = np.array([each.sum() for each in logs]) + priors
    terms = np.array([np.abs(each).sum() for each in logs]) + np.abs(priors)
    return [(r * s**-0.5).T for r, s in pairs], estimator.means_, constants, terms


def _mixture(estimator: Any) -> Parts:
    """Weighted densities of the components; their factors of the precision come in four shapes."""
    means, factors = as_floats(estimator.means_), as_floats(estimator.precisions_cholesky_)
    count, width = means.shape
    if estimator.covariance_type == "tied":
        roots = [factors.T] * count
    elif estimator.covariance_type == "full":
        roots = [factor.T for factor in factors]
    else:  # one factor per column, or one for all
        roots = [np.diag(np.broadcast_to(factor, width)) for factor in factors]
    logs = np.log([np.diag(root) for root in roots])
    weights, norm = _log(as_floats(estimator.weights_)), 0.5 * width * np.log(2 * np.pi)
    return roots, means, logs.sum(axis=1) + weights - norm, np.abs(logs).sum(axis=1) + np.abs(weights) + norm


def _centres(estimator: Any) -> Parts:
    centres = as_floats(estimator.cluster_centers_)
    zero = np.zeros(len(centres))
    return [np.eye(centres.shape[1])] * len(centres), centres, zero, zero


def _centroids(estimator: Any) -> Parts | None:
    """Scikit-learn divides by the spread within the classes where the priors differ."""
    if estimator.metric != "euclidean":
        return None
    centroids = as_floats(estimator.centroids_)
    root, bonus = np.eye(centroids.shape[1]), np.zeros(len(centroids))
    priors = getattr(estimator, "class_prior_", None)
    if priors is not None and not np.isclose(priors, 1 / len(centroids)).all():
        within = as_floats(estimator.within_class_std_dev_)
        root, bonus = np.diag(1 / np.where(within != 0, within, 1.0)), _log(as_floats(priors))
    return [root] * len(centroids), centroids, bonus, np.abs(bonus)


def _log(shares: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(shares))


READERS: dict[str, Callable[[Any], Parts | None]] = {
    "GaussianNB": _naive_bayes,
    "QuadraticDiscriminantAnalysis": _discriminant,
    "GaussianMixture": _mixture,
    "KMeans": _centres,
    "MiniBatchKMeans": _centres,
    "NearestCentroid": _centroids,
}
