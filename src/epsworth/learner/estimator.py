"""`LDPClassifier`: the whole way from data to labels as a scikit-learn estimator, for experiments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y

from epsworth.arrays import Floats
from epsworth.headers import shown_names
from epsworth.learner.aggregation import simulate
from epsworth.learner.certificates import Adjust, Certificates, Certifying, Fakes, Holder
from epsworth.learner.config import LatticeConfig, Outside, checked_box, checked_classes
from epsworth.learner.encoding import array_of
from epsworth.learner.mechanisms import suited
from epsworth.learner.model import Classifier, Smoothing
from epsworth.learner.tables.columns import Category, Number
from epsworth.learner.tables.config import MOST_BY_CELLS, TableConfig
from epsworth.learner.tables.learner import learn_table
from epsworth.learner.tables.scores import NO_CERTIFICATE, TableClassifier
from epsworth.mechanisms.rational import Exact
from epsworth.refusals import alone


class LDPClassifier(ClassifierMixin, BaseEstimator, Certifying):  # type: ignore[misc]  # scikit-learn has no types
    """Learn as a server would from one epsilon-LDP report per row.

    ``fit`` sees the raw rows and simulates their reports: it answers "what would it be worth", and is itself no
    release.  In production clients run `Client`, and the server `Aggregator` and `Classifier.from_aggregate`.

    Parameters
    ----------
    epsilon : number or text
        Privacy parameter of one user's report of the whole record, label included.
    bounds : (low, high), or one pair per feature, or a list of Number and Category
        Public ranges; or the columns of a table of any kind, which is then learnt by `TableLearner`.
    mechanism : str
        A name in `MECHANISMS`, or "auto": cells of up to four features, a table of more.
    m, smoothing, classes, outside
        As for `LatticeConfig` and `Classifier`; by default cells by the rule, and the labels of ``y``.
    random_state : int, Generator, RandomState or None
        Randomness of the simulation.

    Attributes
    ----------
    classifier_, config_
        The `Classifier` or `TableClassifier`, and its configuration.
    classes_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from epsworth.learner import LDPClassifier
    >>> X, y = make_moons(20_000, noise=0.3, random_state=0)
    >>> model = LDPClassifier(epsilon=1, bounds=[(-2, 3), (-1.5, 2)], random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    def __init__(
        self,
        epsilon: Exact = 1.0,
        bounds: Any = (0.0, 1.0),
        mechanism: str = "auto",
        *,
        m: int | None = None,
        smoothing: Smoothing = "sure",
        classes: Any = None,
        outside: Outside = "clip",
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.mechanism = mechanism
        self.m = m
        self.smoothing = smoothing
        self.classes = classes
        self.outside = outside
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> LDPClassifier:
        """Simulate the reports of all rows and read the labels off their sums."""
        names = _names(X)
        with _nothing_shown():
            _, labels = check_X_y(X, y, **self._kinds)
        points = array_of(X)
        check_classification_targets(labels)
        declared = labels if self.classes is None else checked_classes(self.classes)
        found = np.unique(np.asarray(declared))  # sorted: scikit-learn's scorers take the second for the positive one
        if len(found) < 2:
            raise ValueError("y holds one class; at least two classes are needed to learn")
        self.config_ = self._config(points.shape, tuple(found.tolist()), names)
        source = _generator(self.random_state)
        if isinstance(self.config_, TableConfig):
            self.classifier_: Classifier | TableClassifier = learn_table(self.config_, points, labels, source)
        else:
            aggregate = simulate(self.config_, points, labels, source)
            self.classifier_ = Classifier.from_aggregate(aggregate, self.smoothing)
        self.classes_ = found
        self.n_features_in_ = points.shape[1]
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    @property
    def _declared(self) -> bool:
        given = self.bounds
        return isinstance(given, (list, tuple)) and any(isinstance(one, (Number, Category)) for one in given)

    @property
    def _kinds(self) -> dict[str, Any]:
        return {"dtype": None, "ensure_all_finite": False} if self._declared else {"dtype": np.float64}

    def _config(
        self, shape: tuple[int, int], classes: tuple[Any, ...], names: list[str]
    ) -> LatticeConfig | TableConfig:
        """Choose the mechanism and the number of cells from public numbers: users, features, classes, epsilon."""
        users, d = shape
        if self._declared:
            self._check_declared(d, names)
            return TableConfig(self.bounds, classes, self.epsilon, users)
        if self.mechanism == "auto" and self.m is None and d > MOST_BY_CELLS:
            if self.outside != "clip":
                raise ValueError(f"outside={self.outside!r} is for cells; a table moves values to the nearer end")
            pairs = checked_box(self.bounds, d)
            own = names or [f"x{i}" for i in range(d)]
            columns = [Number(name, low, high) for name, (low, high) in zip(own, pairs, strict=True)]
            return TableConfig(columns, classes, self.epsilon, users)
        name, m = self.mechanism, self.m
        if m is None:
            name, m = suited(name, self.epsilon, d, len(classes), users)
        return LatticeConfig(self.bounds, m, d, classes, name, self.epsilon, self.outside, names)

    def _check_declared(self, d: int, names: list[str]) -> None:
        """Refuse what a table of declared columns does not know."""
        if len(self.bounds) != d:
            raise ValueError(f"bounds declare {len(self.bounds)} columns, but X has {d}; declare each once")
        own = [column.name for column in self.bounds if isinstance(column, (Number, Category))]
        if names and own != names:
            raise ValueError(f"{shown_names(names, 'X has the columns')}, but bounds declare {', '.join(own)}; reorder")
        for field, usual in (("mechanism", "auto"), ("m", None), ("outside", "clip")):
            if (given := getattr(self, field)) != usual:
                raise ValueError(f"{field}={given!r} is for cells; leave it out where bounds are columns of a table")

    def predict(self, X: ArrayLike) -> Any:
        """Return one label per row."""
        points = self._points(X)
        return self.classes_[self.classifier_.numbers(points)]

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return scores: ``(n,)`` for two classes, else ``(n, classes)``."""
        points = self._points(X)
        return self.classifier_.decision_function(points)

    def certificate(
        self, X: ArrayLike, *, fakes: Fakes, confidence: float | Fraction = 0.95, adjust: Adjust = "bonferroni",
        holder: Holder | None = None,
    ) -> Certificates:  # fmt: skip
        """Certify the label of each row's cell; see `Classifier.certificate`."""
        points, found = self._points(X), self.classifier_
        if isinstance(found, TableClassifier):
            raise ValueError(NO_CERTIFICATE)
        return found.certificate(points, confidence=confidence, adjust=adjust, holder=holder, fakes=fakes)

    def _points(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        names = _names(X)
        known = list(getattr(self, "feature_names_in_", names))
        if names and known != names:
            raise ValueError("The feature names should match those that were passed during fit; reorder the columns")
        with _nothing_shown():
            check_array(X, **self._kinds)
        points = array_of(X)
        if points.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {points.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input; give the columns it was fitted on"
            )
        return points


@contextmanager
def _nothing_shown() -> Iterator[None]:
    """Replace the sentence that shows a text of the table; leave all others, which callers of scikit-learn know."""
    with alone():
        try:
            yield
        except ValueError as error:
            if "could not convert" not in str(error):
                raise
            raise ValueError("X must hold numbers alone; recode texts") from None


def _names(X: Any) -> list[str]:
    columns = getattr(X, "columns", None)
    named = columns is not None and len(columns) > 0 and all(isinstance(name, str) for name in columns)
    return list(columns) if named and columns is not None else []


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
