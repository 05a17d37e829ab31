"""Linear models: coefficients and intercepts, in canonical form."""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.pac.mechanism import Labels, Mechanism, covariance_of, fixed, turned, with_products
from epsworth.pac.unsupervised import WIDEST


@dataclass(frozen=True, eq=False)
class LinearMechanism(Mechanism):
    """One row (coefficients, intercept) per class; one row for two classes and for regression.

    ``labels_only``: the arg max stays when the mean row is taken away and all is divided by one number, so both are
    done; margins and probabilities are then those of the scaled model.
    """

    template: Any
    classes: Labels | None
    labels_only: bool
    blank: Any

    @classmethod
    def prepare(cls, estimator: Any, X: Floats, y: Labels | None) -> LinearMechanism:
        """Fit the pool.  Classifiers that offer probabilities keep their scale."""
        from sklearn.base import is_classifier

        if y is None:
            raise ValueError(f"{type(estimator).__name__} learns from labels; give y")
        if y.ndim != 1:
            raise ValueError(f"y must have one value per row, got shape {y.shape}")
        template = fixed(estimator)
        classes = np.unique(y) if is_classifier(template) else None
        if classes is not None and len(classes) < 2:
            raise ValueError("y holds a single class; a classifier needs two")
        labels_only = classes is not None and not hasattr(template, "predict_proba")
        blank = blank_of(template, classes, X.shape[1])
        empty = cls(np.zeros(0), template, classes, labels_only, blank)
        found = replace(empty, reference=empty.output(X, y))
        return LeastSquares.of(found, X, y) or found

    @property
    def _rows(self) -> int:
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    @property
    def _softmax(self) -> bool:
        """Whether probabilities depend on differences of the classes' scores only; one-versus-rest ones do not."""
        given = self.template.get_params()
        return bool(given.get("solver") != "liblinear" and given.get("multi_class") != "ovr")

    @property
    def names(self) -> tuple[str, ...]:
        """Coefficients, then the intercept, row by row."""
        features = len(self.reference) // self._rows - 1
        return tuple(
            f"coef[{k}, {f}]" if f < features else f"intercept[{k}]"
            for k in range(self._rows)
            for f in range(features + 1)
        )

    def output(self, X: Floats, y: Labels | None) -> Floats:
        """Fit these rows; center the classes, and scale to norm one where only labels matter."""
        from sklearn.base import clone

        model = clone(self.template).fit(X, y)
        if self.classes is not None and not np.array_equal(model.classes_, self.classes):
            raise ValueError("a world lacks a class, or the library takes two labels for one; recode them")
        coefficients = np.atleast_2d(as_floats(model.coef_))
        intercepts = np.broadcast_to(as_floats(model.intercept_), len(coefficients))
        return self._canonical(np.column_stack([coefficients, intercepts]))

    def _canonical(self, rows: Floats) -> Floats:
        if len(rows) > 1 and (self.labels_only or self._softmax):
            rows = rows - rows.mean(axis=0)
        if self.labels_only:
            rows = rows / np.linalg.norm(rows)
        return np.asarray(rows.reshape(-1))

    def rebuild(self, vector: Floats) -> Any:
        """Return a fitted model: a blank one, given the released numbers."""
        rows = vector.reshape(self._rows, -1)
        model = deepcopy(self.blank)
        if self.classes is None:
            model.coef_, model.intercept_ = rows[0, :-1].copy(), float(rows[0, -1])
        else:
            model.coef_, model.intercept_ = rows[:, :-1].copy(), rows[:, -1].copy()
        return model


@dataclass(frozen=True, eq=False)
class LeastSquares(LinearMechanism):
    """Least squares, with a penalty or without: means and products decide.

    Columns are turned into ones that are uncorrelated in the pool, so that normal equations lose no digits: those of
    a world are near the identity.  Where they are not, the model itself is fitted.
    """

    alpha: float
    centre: Floats
    axes: Floats
    target: Floats

    @classmethod
    def of(cls, found: LinearMechanism, X: Floats, y: Labels) -> LeastSquares | None:
        """Return the mechanism with moments, or None where only a fit will do."""
        template, given = found.template, found.template.get_params()
        name, alpha = type(template).__name__, given.get("alpha", 0.0)
        plain = given["fit_intercept"] and not given.get("positive") and given.get("class_weight") is None
        solved = given.get("solver", "auto") in ("auto", "cholesky", "svd")
        single = np.ndim(alpha) == 0 and np.isfinite(alpha) and alpha >= 0
        if name not in SQUARES or not (plain and solved and single) or X.shape[1] > WIDEST or len(X) < 4 * X.shape[1]:
            return None
        scale = X.std(axis=0)
        if not (scale > 0).all() or not np.isfinite(scale).all():
            return None
        centre = X.mean(axis=0)
        penalty = np.diag(np.sqrt(float(alpha)) / scale)
        _, roots, axes = np.linalg.svd(np.vstack([np.linalg.qr((X - centre) / scale, mode="r"), penalty]))
        if roots[-1] <= NEARLY * roots[0]:
            return None
        turned_back = (axes.T / scale[:, np.newaxis]) / roots * np.sqrt(len(X))
        same = {one.name: getattr(found, one.name) for one in fields(found)}
        empty = cls(**same, alpha=float(alpha), centre=centre, axes=turned_back, target=np.zeros(1))
        try:
            target = empty._targets(y).mean(axis=0)
        except (TypeError, ValueError):
            return None
        return replace(empty, target=target)

    def _targets(self, y: Labels) -> Floats:
        if self.classes is None:
            return as_floats(y).reshape(-1, 1)
        classes = self.classes[1:] if len(self.classes) == 2 else self.classes
        return np.where(y[:, np.newaxis] == classes, 1.0, -1.0)

    def moments(self, X: Floats, y: Labels | None) -> Floats | None:
        """Return uncorrelated columns, targets, and the products of the former with both."""
        if y is None:
            return None
        Z, T = turned(X - self.centre, self.axes), self._targets(y) - self.target
        return np.hstack([with_products(Z), T, *(Z * T[:, [q]] for q in range(T.shape[1]))])

    def from_moments(self, means: Floats, count: int) -> Floats | None:
        """Solve the normal equations."""
        d, q = len(self.centre), len(self.target)
        squares = d + d * (d + 1) // 2
        mean, gram = covariance_of(means[:squares], d)
        target, both = means[squares : squares + q], means[squares + q :].reshape(q, d)
        gram = gram + self.alpha / count * (self.axes.T @ self.axes)
        if np.linalg.eigvalsh(gram)[0] < WELL:
            return None
        solved = np.linalg.solve(gram, (both - np.outer(target, mean)).T)
        coefficients = (self.axes @ solved).T
        intercepts = self.target + target - mean @ solved - coefficients @ self.centre
        return self._canonical(np.column_stack([coefficients, intercepts]))


SQUARES = ("LinearRegression", "Ridge", "RidgeClassifier")
NEARLY = 1e-6  # columns of the pool are combinations of others: the model itself is fitted
WELL = 0.05  # least eigenvalue of normal equations, of the pool's, that are solved


def blank_of(template: Any, classes: Labels | None, features: int) -> Any:
    """Return a model fitted to rows that are not data: all of its other attributes are public."""
    from sklearn.base import clone

    labels = np.array([0.0, 1.0]) if classes is None else classes
    rows = np.linspace(-1, 1, len(labels))[:, np.newaxis] * np.ones(features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether this fit converges is nobody's concern
        return clone(template).fit(rows, labels)
