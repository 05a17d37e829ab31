"""K-Means and PCA in canonical form.

Differences between worlds that mean nothing are taken away before noise is measured: centroids start at the pool's and
are matched to them one to one, axes are rotated among themselves to lie nearest to the pool's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from epsworth.arrays import Floats, as_floats
from epsworth.pac.mechanism import Labels, Mechanism, covariance_of, fixed, turned, with_products
from epsworth.records import Indices


def procrustes(A: ArrayLike, B: ArrayLike) -> Floats:
    """Return the orthogonal matrix M that brings ``M @ B`` nearest to ``A`` (Frobenius norm).

    Parameters
    ----------
    A, B : array_like of shape ``(k, d)``
        Two bases, one vector per row.

    Raises
    ------
    ValueError
        For anything but two matrices of one shape.

    Examples
    --------
    >>> from epsworth.pac import procrustes
    >>> procrustes([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    array([[0., 1.],
           [1., 0.]])

    References
    ----------
    Schoenemann 1966.  Claim 1 of Sridhar, Xiao & Devadas 2024 truncates V_A V_B^T instead, which is in general
    not orthogonal; its polar factor, between the left factors, would be right.
    """
    a, b = as_floats(A), as_floats(B)
    if a.ndim != 2 or a.shape != b.shape:
        raise ValueError(f"A and B must be two matrices of one shape, got {a.shape} and {b.shape}")
    left, _, right = np.linalg.svd(a @ b.T)
    return np.asarray(left @ right)


def polar(matrix: Floats) -> Floats:
    """Return the nearest matrix with orthonormal rows."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


def matching(reference: ArrayLike, rows: ArrayLike) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the order that brings ``rows[order]`` nearest to the reference (sum of squared distances)."""
    _, order = linear_sum_assignment(cdist(as_floats(reference), as_floats(rows), "sqeuclidean"))
    return np.asarray(order, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class KMeansMechanism(Mechanism):
    """Centroids in the order of the pool's own.

    Without the common start and the one-to-one match, clusters swap between worlds, and the noise pays for it
    (on the Dry Bean data by a factor of 300 in variance).
    """

    template: Any

    @classmethod
    def prepare(cls, estimator: Any, X: Floats, y: Labels | None) -> KMeansMechanism:
        """Cluster the pool; with as many classes as clusters, cluster k is the one that is mostly class k."""
        from sklearn.base import clone

        pool = fixed(estimator).fit(X)
        centroids = pool.cluster_centers_
        if y is not None:
            centroids = centroids[_by_class(pool.labels_, y, len(centroids))]
        template = clone(pool).set_params(init=centroids, n_init=1)
        return cls(centroids.reshape(-1), template)

    @property
    def _shape(self) -> tuple[int, int]:
        clusters = int(self.template.n_clusters)
        return clusters, len(self.reference) // clusters

    @property
    def names(self) -> tuple[str, ...]:
        """One number per cluster and feature."""
        clusters, features = self._shape
        return tuple(f"centroid[{k}, {f}]" for k in range(clusters) for f in range(features))

    def output(self, X: Floats, y: Labels | None) -> Floats:
        """Cluster these rows from the pool's centroids; match."""
        from sklearn.base import clone

        found = clone(self.template).fit(X).cluster_centers_
        return np.asarray(found[matching(self.reference.reshape(self._shape), found)].reshape(-1))

    def rebuild(self, vector: Floats) -> Any:
        """Return a K-Means whose every attribute comes from the released centroids."""
        from sklearn.base import clone

        centroids = vector.reshape(self._shape)
        model = clone(self.template).set_params(init=centroids).fit(centroids)
        model.cluster_centers_ = np.array(centroids)
        return model


def _by_class(clusters: Indices, y: Labels, count: int) -> Indices:
    """Return which cluster stands for each class, or the order as it is where their numbers differ."""
    from scipy.optimize import linear_sum_assignment

    classes, code = np.unique(y, return_inverse=True)
    if len(classes) != count:
        return np.arange(count)
    together = np.zeros((count, count))
    np.add.at(together, (code.reshape(-1), clusters), 1)
    return np.asarray(linear_sum_assignment(-together)[1], dtype=np.intp)


WIDEST = 89  # columns: their products are 4005


@dataclass(frozen=True, eq=False)
class PCAMechanism(Mechanism):
    """The spanned subspace matters, not its basis; the released model uses the *pool's* mean.

    After the rotation the axes are no longer sorted by variance, and explained variances are not released.
    """

    template: Any
    mean: Floats
    axes: Floats | None

    @classmethod
    def prepare(cls, estimator: Any, X: Floats, y: Labels | None) -> PCAMechanism:
        """Fit the pool."""
        if estimator.whiten:
            raise ValueError("PCA(whiten=True) needs the secret's variances, which are not released; take whiten=False")
        if isinstance(estimator.n_components, bool) or not isinstance(estimator.n_components, (int, np.integer)):
            raise ValueError(
                f"PCA: n_components must be a whole number, got {estimator.n_components!r}: a number of axes that "
                "depends on the data would itself be a release"
            )
        if not 1 <= estimator.n_components <= min(X.shape):
            raise ValueError(
                f"PCA: n_components must lie between 1 and the number of columns (and rows), {min(X.shape)}, got "
                f"{estimator.n_components!r}"
            )
        template = fixed(estimator)
        if template.svd_solver == "auto":
            template.set_params(svd_solver="full")  # "auto" may choose a randomised one
        pool = template.fit(X)
        exactly = template.svd_solver in ("full", "covariance_eigh") and X.shape[1] <= WIDEST
        axes = np.linalg.svd(np.linalg.qr(X - X.mean(axis=0), mode="r"))[2].T if exactly else None
        return cls(pool.components_.reshape(-1), template, X.mean(axis=0), axes)

    @property
    def names(self) -> tuple[str, ...]:
        """Axes, then features."""
        features = len(self.mean)
        return tuple(f"component[{i // features}, {i % features}]" for i in range(len(self.reference)))

    def output(self, X: Floats, y: Labels | None) -> Floats:
        """Fit these rows; rotate."""
        from sklearn.base import clone

        return self._rotated(clone(self.template).fit(X).components_)

    def moments(self, X: Floats, y: Labels | None) -> Floats | None:
        """Return coordinates along the pool's own axes, and their products."""
        return None if self.axes is None else with_products(turned(X - self.mean, self.axes))

    def from_moments(self, means: Floats, count: int) -> Floats:
        """Turn the leading eigenvectors of the covariance back; rotate."""
        components = len(self.reference) // len(self.mean)
        if self.axes is None or count < components:
            raise ValueError("fewer rows than axes")
        covariance = covariance_of(means, len(self.mean))[1]
        return self._rotated((self.axes @ np.linalg.eigh(covariance)[1][:, ::-1][:, :components]).T)

    def _rotated(self, axes: Floats) -> Floats:
        return np.asarray((procrustes(self.reference.reshape(axes.shape), axes) @ axes).reshape(-1))

    def rebuild(self, vector: Floats) -> Any:
        """Return a PCA with the nearest orthonormal axes."""
        from sklearn.base import clone

        model = clone(self.template)
        model.components_ = polar(vector.reshape(-1, len(self.mean)))
        model.mean_, model.n_features_in_ = self.mean.copy(), len(self.mean)
        model.n_components_ = len(model.components_)
        return model
