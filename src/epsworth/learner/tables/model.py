"""`TableClassifier`: labels from the sums of all rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import Ints
from epsworth.learner.encoding import class_array
from epsworth.learner.tables.columns import Category, Knots, binned
from epsworth.learner.tables.config import TableConfig
from epsworth.learner.tables.scores import Additive

NO_CERTIFICATE = (
    "scores of a table are shrunk and no certificate covers them; certify score bands with users of their own: "
    "see epsworth learn audit, or ScoreAudit"
)


class TableClassifier:
    """What was learnt of a table: a deterministic function from rows to labels.

    A missing value says what its being missing says, where that was asked; otherwise nothing.

    Parameters
    ----------
    config : TableConfig
    knots : tuple
        Of every number's map; None for categories, or where none was asked for.
    model : Additive
        Scores per bin and label.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import Number, TableConfig, learn_table
    >>> X = np.random.default_rng(0).uniform(size=(10_000, 5))
    >>> config = TableConfig([Number(name, 0, 1) for name in "abcde"], ("low", "high"), epsilon=3, users=10_000)
    >>> model = learn_table(config, X, np.where(X[:, 0] > 0.5, "high", "low"), 1)  # or TableLearner.classifier()
    >>> model.predict([[0.9, 0.5, 0.5, 0.5, 0.5], [0.1, 0.5, 0.5, 0.5, 0.5]]).tolist()
    ['high', 'low']
    """

    def __init__(self, config: TableConfig, knots: tuple[Knots | None, ...] | None, model: Additive) -> None:
        self.config, self.knots, self.model = config, knots, model
        self.classes_: NDArray[Any] = class_array(config.classes)
        self.n_features_in_ = len(config.columns)
        self.feature_names_in_ = np.array(config.names, dtype=object)

    @property
    def declared_columns(self) -> dict[str, str | tuple[Any, ...]]:
        """What the columns hold, as a reader of tables takes it: categories, or numbers, of which others are gaps."""
        return {one.name: one.values if isinstance(one, Category) else "entry" for one in self.config.columns}

    def scores(self, X: ArrayLike) -> Floats:
        """Return a score per label ``(n, classes)``; the largest one decides."""
        records = self.config.points(X)
        return self.scoring.scores(binned(self.config.columns, records.place, self.knots), records.known)

    @property
    def scoring(self) -> Additive:
        """What scores are made of: without the labels' commonness, where these are taken to be as common."""
        if self.config.prior != "balanced":
            return self.model
        return replace(self.model, intercept=as_floats(self.model.intercept - self.model.prior))

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return scores: for two classes ``(n,)``, positive for the second one; else ``(n, classes)``."""
        found = self.scores(X)
        if found.shape[1] > 2:
            return found
        margin = found[:, 1] - found[:, 0]
        return np.where(margin == 0, np.finfo(float).tiny, margin)

    def numbers(self, X: ArrayLike) -> Ints:
        """Return the position of each label among the classes ``(n,)``."""
        found = self.decision_function(X)
        return np.asarray(found > 0 if found.ndim == 1 else found.argmax(axis=1), dtype=np.int64)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return one label per row ``(n,)``."""
        return np.asarray(self.classes_[self.numbers(X)])

    def certificate(self, X: ArrayLike, **asked: object) -> NoReturn:
        """Refuse: no theorem covers shrunk scores; the error names the audit."""
        raise ValueError(NO_CERTIFICATE)
