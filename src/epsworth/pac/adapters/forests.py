"""The fixed forest: thresholds *and* leaf masses leave, so both are noised (the published code leaves labels bare)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.pac.adapters.adapter import Labels, Mechanism, fixed


@dataclass(frozen=True, eq=False)
class ForestMechanism(Mechanism):
    """All thresholds, then the class masses of all leaves; features of the trees are fixed and public."""

    template: Any
    classes: Labels
    columns: int

    @classmethod
    def prepare(cls, estimator: Any, X: Floats, y: Labels | None) -> ForestMechanism:
        """Grow the pool's forest."""
        if y is None:
            raise ValueError("FixedForest learns from labels; give y")
        template = fixed(estimator)
        pool = template.fit(X, y)
        return cls(_read(pool), template, pool.classes_, X.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """Thresholds level by level, then leaves."""
        trees, nodes = self.template.thresholds_.shape
        leaves = self.template.masses_.shape[1]
        return (
            *(f"threshold[{t}, {i}]" for t in range(trees) for i in range(nodes)),
            *(f"mass[{t}, {i}, {k}]" for t in range(trees) for i in range(leaves) for k in range(len(self.classes))),
        )

    def output(self, X: Floats, y: Labels | None) -> Floats:
        """Grow these rows' forest."""
        from sklearn.base import clone

        model = clone(self.template).fit(X, y)
        if not np.array_equal(model.classes_, self.classes):
            raise ValueError("a world lacks a class, or the library takes two labels for one; recode them")
        return _read(model)

    def rebuild(self, vector: Floats) -> Any:
        """Return a forest with the released thresholds, clipped to [0, 1], and the released masses."""
        from sklearn.base import clone

        model, pool = clone(self.template), self.template
        model.n_features_in_, model.classes_, model.features_ = self.columns, self.classes.copy(), pool.features_.copy()
        size = pool.thresholds_.size
        model.thresholds_ = np.clip(vector[:size], 0, 1).reshape(pool.thresholds_.shape)
        model.masses_ = vector[size:].reshape(pool.masses_.shape).copy()
        return model


def _read(forest: Any) -> Floats:
    return np.concatenate([forest.thresholds_.reshape(-1), forest.masses_.reshape(-1)])
