"""Linear models: coefficients and intercepts, without what changes no answer."""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.pac.adapters.adapter import Labels, Mechanism, fixed


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
        blank = _fitted_to_nothing(template, classes, X.shape[1])
        empty = cls(np.zeros(0), template, classes, labels_only, blank)
        return replace(empty, reference=empty.output(X, y))

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
            raise ValueError("a world lacks a class")
        coefficients = np.atleast_2d(as_floats(model.coef_))
        intercepts = np.broadcast_to(as_floats(model.intercept_), len(coefficients))
        rows = np.column_stack([coefficients, intercepts])
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


def _fitted_to_nothing(template: Any, classes: Labels | None, features: int) -> Any:
    """Return a model fitted to rows that are not data: all of its other attributes are public."""
    from sklearn.base import clone

    labels = np.array([0.0, 1.0]) if classes is None else classes
    rows = np.linspace(-1, 1, len(labels))[:, np.newaxis] * np.ones(features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether this fit converges is nobody's concern
        return clone(template).fit(rows, labels)
