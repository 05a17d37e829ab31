"""PCA: the principal axes, rotated among themselves to lie nearest to the pool's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.pac.adapters.adapter import Labels, Mechanism, covariance_of, fixed, turned, with_products
from epsworth.pac.alignment import polar, procrustes

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
