"""A forest of fixed structure, whose thresholds can be compared between worlds.

Thresholds *and* leaf masses leave, so that both are noised (the published code leaves labels bare).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from epsworth.arrays import Floats
from epsworth.pac.mechanism import Labels, Mechanism, fixed
from epsworth.records import Indices

FINEST = 1e-4  # step of the grid: every node keeps a count for each of its points


class FixedForest(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Complete trees of one depth, each with its own fixed list of features, one per level.

    Features must lie on [0, 1] (public ranges).  A node with feature f and threshold v sends ``x[f] < v`` left; v is
    the grid point 0, p, .., 1 that minimises ``(1 - w2) ((1 - w1) H(v) + w1 mean(H at the neighbours)) + w2 v``, H
    being the weighted entropy of the two sides in nats; ties and empty nodes take the smallest v.

    Parameters
    ----------
    n_trees, depth : int
        Size of the forest.
    p : float
        Step of the grid; 1/p must be whole.
    w1, w2 : float
        Weight of the neighbours, and of the penalty that pulls thresholds nobody needs to 0; in [0, 1].
    random_state : int
        Chooses the features of every tree, never looking at data.
    features : list of lists of int, optional
        The features of every tree, instead of chosen ones.

    Attributes
    ----------
    thresholds_ : ndarray, shape ``(n_trees, 2**depth - 1)``
        Level by level.
    masses_ : ndarray, shape ``(n_trees, 2**depth, classes)``
        Share of all rows that reach the leaf and have the class.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.pac import FixedForest
    >>> X = np.random.default_rng(0).random((500, 2))
    >>> forest = FixedForest(n_trees=1, depth=1, features=[[0]]).fit(X, X[:, 0] > 0.5)
    >>> forest.thresholds_.round(2)
    array([[0.5]])
    >>> forest.predict([[0.2, 0.9], [0.8, 0.1]]).tolist()
    [False, True]

    References
    ----------
    Sridhar, Xiao & Devadas 2024, section 5.4; with the normalised entropy and the mean over existing neighbours of
    their code instead of the sums in their text, which would make the penalty depend on the number of rows.
    """

    def __init__(
        self,
        n_trees: int = 3,
        depth: int = 3,
        p: float = 0.05,
        w1: float = 0.2,
        w2: float = 0.2,
        random_state: int | None = 0,
        features: list[list[int]] | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.depth = depth
        self.p = p
        self.w1 = w1
        self.w2 = w2
        self.random_state = random_state
        self.features = features

    def fit(self, X: ArrayLike, y: ArrayLike) -> FixedForest:
        """Choose the thresholds and count the leaves."""
        grid = self._grid()
        for name in ("n_trees", "depth"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"FixedForest: {name} must be a whole number of at least 1, got {value!r}")
        table, labels = validate_data(self, X, y, dtype=np.float64)
        if table.min() < 0 or table.max() > 1:
            raise ValueError("FixedForest: features must lie on [0, 1]; scale them by public ranges first")
        self.classes_, code = np.unique(labels, return_inverse=True)
        self.features_ = self._choose_features(table.shape[1])
        position = np.searchsorted(grid, table, side="right")  # x < grid[j] iff position <= j
        grown = [self._grow(position[:, chosen], code.reshape(-1), grid) for chosen in self.features_]
        self.thresholds_ = np.stack([thresholds for thresholds, _ in grown])
        self.masses_ = np.stack([masses for _, masses in grown])
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the majority vote; each tree votes for the heaviest class of the leaf."""
        check_is_fitted(self, "thresholds_")
        table: Floats = validate_data(self, X, reset=False, dtype=np.float64)
        votes = np.zeros((len(table), len(self.classes_)), dtype=np.intp)
        rows = np.arange(len(table))
        for chosen, thresholds, masses in zip(self.features_, self.thresholds_, self.masses_, strict=True):
            node = np.zeros(len(table), dtype=np.intp)
            for feature in chosen:
                node = 2 * node + 1 + (table[:, feature] >= thresholds[node])
            votes[rows, masses.argmax(axis=1)[node - len(thresholds)]] += 1
        return np.asarray(self.classes_[votes.argmax(axis=1)])

    def _choose_features(self, count: int) -> Indices:
        if self.features is not None:
            chosen = np.asarray(self.features, dtype=np.intp)
            if chosen.shape != (self.n_trees, self.depth) or chosen.min() < 0 or chosen.max() >= count:
                raise ValueError(f"features must be {self.n_trees} lists of {self.depth} columns below {count}")
            return chosen
        if self.depth > count:
            raise ValueError(f"depth {self.depth} needs as many features, and the table has {count}")
        rng = np.random.default_rng(self.random_state)
        return np.stack([rng.permutation(count)[: self.depth] for _ in range(self.n_trees)])

    def _grid(self) -> Floats:
        for name in ("p", "w1", "w2"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
                raise ValueError(f"FixedForest: {name} must be a number in [0, 1], got {value!r}")
        steps = round(1 / self.p) if self.p >= FINEST else 0
        if steps < 1 or abs(steps * self.p - 1) > 1e-9:
            raise ValueError(f"FixedForest: p must be 1 over a whole number up to {1 / FINEST:g}, got {self.p!r}")
        return np.arange(steps + 1) / steps

    def _grow(self, position: Indices, code: Indices, grid: Floats) -> tuple[Floats, Floats]:
        """Return thresholds and leaf masses of one tree; one histogram per level serves all of its nodes."""
        classes, cells = len(self.classes_), len(grid) + 1
        node, thresholds = np.zeros(len(code), dtype=np.intp), []
        for level in range(self.depth):
            at = position[:, level]
            flat = (node * cells + at) * classes + code
            counts = np.bincount(flat, minlength=2**level * cells * classes).reshape(2**level, cells, classes)
            best = split_scores(counts, grid, self.w1, self.w2).argmin(axis=1)  # the first of equals: the smallest v
            thresholds.append(grid[best])
            node = 2 * node + (at > best[node])
        leaves = np.bincount(node * classes + code, minlength=2**self.depth * classes)
        return np.concatenate(thresholds), leaves.reshape(-1, classes) / len(code)


def split_scores(counts: NDArray[np.intp], grid: Floats, w1: float, w2: float) -> Floats:
    """Return the score of every grid point as a threshold, shape ``(nodes, grid)``.

    Parameters
    ----------
    counts : ndarray of int, shape ``(nodes, len(grid) + 1, classes)``
        Rows of the node by (number of grid points at or below the value, class).
    """
    left = counts.cumsum(axis=1)
    whole = left[:, -1:, :]
    left = left[:, :-1, :]  # position <= j, for every grid point j
    rows = np.maximum(whole.sum(axis=2), 1)
    entropy = (_surprise(left) + _surprise(whole - left)) / rows
    near, neighbours = np.zeros_like(entropy), np.zeros(len(grid))
    near[:, 1:] += entropy[:, :-1]
    near[:, :-1] += entropy[:, 1:]
    neighbours[1:] += 1
    neighbours[:-1] += 1
    return np.asarray((1 - w2) * ((1 - w1) * entropy + w1 * near / neighbours) + w2 * grid)


def _surprise(counts: NDArray[np.intp]) -> Floats:
    """Return n times the entropy of counts that sum to n: n ln n - sum c ln c."""
    total = counts.sum(axis=-1)
    return np.asarray(xlogy(total, total) - xlogy(counts, counts).sum(axis=-1))


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
