"""Scores: what each bin says for each label, added up by naive Bayes, or with weights learnt from pairs of columns.

`TableClassifier` gives every row the label of the largest score.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.learner.coins import Ints
from epsworth.learner.encoding import class_array
from epsworth.learner.tables.columns import Category, Knots, binned
from epsworth.learner.tables.config import TableConfig
from epsworth.learner.tables.estimates import Joint, Values

FLOOR = 0.1  # of P(bin), below which no density of a label falls
LEAST_SHARE = 0.2  # of an even bin's mass
FLAT = 1e-3  # a column whose scores differ by less says nothing
UNIT = 2.0**32  # published scores are whole numbers of this fraction
LEAST_TOTAL, LEAST_WITHIN = 0.03, 0.05  # eigenvalues of correlations, over all and within a label
RIDGE = (0.05, 10.0)
MOST_CORRELATION = 0.98
LEAST_SPREAD = 1e-12
MOST_WEIGHT = 16.0  # of a column's scores, which naive Bayes takes once
NO_CERTIFICATE = (
    "scores of a table are shrunk and no certificate covers them; certify score bands with users of their own: "
    "see epsworth learn audit, or ScoreAudit"
)


@dataclass(frozen=True, eq=False)
class Additive:
    """A classifier: an intercept per label, a score per bin and label of every column, and for missing values."""

    intercept: Floats
    tables: tuple[Floats, ...]
    missing: Floats
    prior: Floats

    def scores(self, bins: Ints, known: Bools) -> Floats:
        """Return the scores ``(n, classes)`` of bins ``(n, d)``."""
        found = np.tile(self.intercept, (len(bins), 1))
        for j, table in enumerate(self.tables):
            found += np.where(known[:, j, None], table[bins[:, j]], self.missing[j])
        return as_floats(found)


def naive_bayes(found: Joint) -> Additive:
    """Return log prior + the sum over columns of log P(bin | label) / P(bin), and of being missing."""
    tables = []
    here, away = _presence(found)
    for table, said in zip(found.tables, here, strict=True):
        score = log_ratios(table, found.prior)
        tables.append(as_floats((score if np.ptp(score, axis=0).max() > FLAT else 0 * score) + said))
    prior = as_floats(np.log(found.prior))
    return Additive(prior, tuple(tables), away, prior)


def _presence(found: Joint) -> tuple[Floats, Floats]:
    told = [
        (np.zeros_like(found.prior),) * 2 if present is None else _kept_and_lost(present, found.prior)
        for present in found.present
    ]
    return as_floats(np.stack([here for here, _ in told])), as_floats(np.stack([away for _, away in told]))


def log_ratios(table: Floats, prior: Floats) -> Floats:
    """Return log P(bin | label) / P(bin) ``(bins, classes)`` of an estimated table."""
    mass = np.clip(table.sum(axis=1), LEAST_SHARE / len(table), None)
    mass = mass / mass.sum()
    density = np.maximum(np.clip(table, 0, None) / prior, FLOOR * mass[:, None])
    return as_floats(np.log(density / density.sum(axis=0) / mass[:, None]))


def _kept_and_lost(present: Floats, prior: Floats) -> tuple[Floats, Floats]:
    here = np.clip(present / prior, 0, 1)
    told = []
    for chance in (here, 1 - here):
        whole = max(float(chance @ prior), 1e-9)
        told.append(as_floats(np.log(np.maximum(chance, FLOOR * whole) / whole)))
    return told[0], told[1]


@dataclass(frozen=True, eq=False)
class Alive:
    """The columns that say something about two labels, and what is published of them for the round of weights."""

    columns: tuple[int, ...]
    scores: tuple[tuple[int, ...], ...]

    @property
    def shares(self) -> list[Floats]:
        """Each column's scores over the largest of them in size: within [-1, 1]."""
        return [as_floats(np.array(score) / max(1, max(score), -min(score))) for score in self.scores]


@dataclass(frozen=True)
class Binary:
    """A published classifier of two labels, all in whole numbers / 2^32: label 1 where the sum is not negative."""

    intercept: int
    tables: tuple[tuple[int, ...], ...]
    missing: tuple[int, ...]

    @classmethod
    def of(cls, model: Additive) -> Binary:
        """Return a classifier's differences, rounded."""
        tables = tuple(_published(score) for score in differences(model))
        start = float(model.intercept[1] - model.intercept[0])
        return cls(_published(np.array([start]))[0], tables, _published(model.missing[:, 1] - model.missing[:, 0]))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"intercept": self.intercept, "tables": [list(t) for t in self.tables], "missing": list(self.missing)}

    def numbers(self, bins: Ints, known: Bools) -> Ints:
        """Return the number of the label ``(n,)``."""
        return np.asarray(self.totals(bins, known) >= 0, dtype=np.int64)

    def totals(self, bins: Ints, known: Bools) -> Ints:
        """Return the scores of label 1 less those of label 0 ``(n,)``, in units of 2^-32."""
        total = np.full(len(bins), self.intercept, dtype=np.int64)
        for j, table in enumerate(self.tables):
            total += np.where(known[:, j], np.array(table)[bins[:, j]], self.missing[j])
        return total


def _published(score: Floats) -> tuple[int, ...]:
    return tuple(np.round(score * UNIT).astype(np.int64).tolist())


def differences(model: Additive) -> list[Floats]:
    """Return each column's score of label 1 less that of label 0."""
    return [as_floats(table[:, 1] - table[:, 0]) for table in model.tables]


def alive(model: Additive, found: Joint) -> Alive:
    """Return the columns whose scores differ, with their centred scores."""
    own = differences(model)
    kept = [j for j, score in enumerate(own) if np.ptp(score) > FLAT]
    scores = []
    for j in kept:
        centred = own[j] - _masses(found.tables[j]).sum(axis=1) @ own[j]
        scores.append(_published(centred))
    return Alive(tuple(kept), tuple(scores))


def weighted(model: Additive, found: Joint, own: Alive, values: Values) -> tuple[Additive, float]:
    """Return the classifier with a weight per column, and the ridge: from naive Bayes to Fisher's discriminant."""
    if len(own.columns) < 2:
        return model, np.inf
    within, delta, mean, rho = _moments(model, found, own, values)
    weight = _nonnegative(within, delta, rho)
    full = np.zeros(len(model.tables))
    full[list(own.columns)] = weight
    odds, middle = float(model.intercept[1] - model.intercept[0]), 0.0
    if 0.5 <= rho < 1:  # the threshold of two normal laws
        low, high = float(weight @ mean[:, 0]), float(weight @ mean[:, 1])
        odds *= float(weight @ within @ weight) / max(high - low, 1e-9)
        middle = (low + high) / 2
    here, away = _presence(found)  # of which the products tell nothing: as in naive Bayes
    tables = tuple(as_floats(w * (table - h) + h) for w, table, h in zip(full, model.tables, here, strict=True))
    return Additive(as_floats([0.0, odds - middle]), tables, away, as_floats([0.0, odds])), rho


def _moments(model: Additive, found: Joint, own: Alive, values: Values) -> tuple[Floats, Floats, Floats, float]:
    told, k = differences(model), len(own.columns)
    tables = [_masses(found.tables[j]) for j in own.columns]
    score = [told[j] for j in own.columns]
    mean = np.array(
        [[table[:, c] @ s / table[:, c].sum() for c in (0, 1)] for table, s in zip(tables, score, strict=True)]
    )
    spread = np.array(
        [table.sum(axis=1) @ (s - table.sum(axis=1) @ s) ** 2 for table, s in zip(tables, score, strict=True)]
    )
    size = np.array([max(max(s), -min(s)) / UNIT for s in own.scores])
    first, second = np.triu_indices(k, 1)
    spread = np.maximum(spread, LEAST_SPREAD)
    unit = size[first] * size[second] / np.sqrt(spread[first] * spread[second])
    r, variance = values.value * unit, values.variance * unit**2
    rho = float(np.clip(np.median(variance) * k / 3, *RIDGE))
    total = np.eye(k)
    total[first, second] = total[second, first] = correlations(r, variance)
    total = _floored(total, LEAST_TOTAL) * np.sqrt(np.outer(spread, spread))
    delta = mean[:, 1] - mean[:, 0]
    within = total - found.prior[0] * found.prior[1] * np.outer(delta, delta)
    scale = np.sqrt(np.outer(*[np.maximum(np.diag(within), 1e-9)] * 2))
    return as_floats(_floored(within / scale, LEAST_WITHIN) * scale), as_floats(delta), as_floats(mean), rho


def correlations(r: Floats, variance: Floats) -> Floats:
    """Return noisy correlations shrunk towards their mean, weighted by precision."""
    with np.errstate(divide="ignore"):
        precision = np.where(np.isfinite(variance), 1 / variance, 0.0)
    middle = float(np.clip((r * precision).sum() / max(precision.sum(), 1e-30), 0, 0.95))
    rest = np.where(np.isfinite(variance), (r - middle) ** 2 - variance, 0.0)
    spread = max(0.0, float((rest * precision).sum() / max(precision.sum(), 1e-30)))
    with np.errstate(invalid="ignore"):
        kept = np.where(np.isfinite(variance), (r - middle) * spread / (spread + variance), 0.0)
    return as_floats(np.clip(middle + kept, -MOST_CORRELATION, MOST_CORRELATION))


def _nonnegative(within: Floats, delta: Floats, rho: float) -> Floats:
    from scipy.optimize import nnls

    own = np.maximum(np.diag(within), 1e-9)
    root = np.linalg.cholesky(within + (rho + 1e-9) * np.diag(own))
    return as_floats(np.minimum(nnls(root.T, np.linalg.solve(root, delta + rho * own))[0], MOST_WEIGHT))


def _floored(matrix: Floats, least: float) -> Floats:
    value, vector = np.linalg.eigh(matrix)
    return as_floats((vector * np.maximum(value, least)) @ vector.T)


def _masses(table: Floats) -> Floats:
    found = np.clip(table, 1e-9, None)
    return as_floats(found / found.sum())


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
