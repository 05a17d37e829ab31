"""K-Means: the centroids, started from the pool's and matched to them one to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.pac.adapters.adapter import Labels, Mechanism, fixed
from epsworth.pac.alignment import matching
from epsworth.records import Indices


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
