"""The case studies of Zheng & Hu 2025 (section 7): tables, models, records, boxes, and what is asked about them.

Stroke: record 4 (age 79, bmi 24), sensitive age and bmi.  Bank: record 0 with the age changed to 22, sensitive age and
salary; (epsilon, 0.1) per record through the privacy indicator.  Classifiers: logistic regression and a forest of 100
trees, scikit-learn defaults, 80/20 stratified split, seed 42.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from epsworth.arrays import Floats
from epsworth.extras import needed
from epsworth.mechanisms import Mechanism, PrivacyIndicator, family
from epsworth.records import Indices
from epsworth.utility.curves import Curves
from epsworth.utility.stability import stability

if TYPE_CHECKING:
    import polars as pl

EPSILONS = np.arange(1.0, 9.0)
DRAWS = 2_000
MODELS = ("LR", "RF")
Box = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Study:
    """One data set of the paper; ``boxes`` are the hyperrectangles it prints for its two classifiers."""

    file: str
    target: str
    sensitive: tuple[str, str]
    row: int
    changes: tuple[tuple[str, float], ...]
    boxes: tuple[tuple[str, Box], ...]
    mechanisms: tuple[str, ...]
    reveal: float

    def box(self, model: str) -> Box | None:
        """Return the box printed for a classifier."""
        return dict(self.boxes).get(model)


STROKE = Study(
    "stroke_paper_inputs.csv.gz",
    "stroke",
    ("age", "bmi"),
    4,
    (),
    (("LR", ((0.63, 1.0), (0.0, 1.0))), ("RF", ((0.50, 1.0), (0.0, 0.62)))),
    ("laplace_clipped", "pm", "sw", "exponential", "exponential_tight", "krr"),
    0.0,
)
BANK = Study(
    "bank_paper_inputs.csv.gz",
    "Exited",
    ("Age", "EstimatedSalary"),
    0,
    (("Age", 0.22),),
    (("LR", ((0.0, 0.72), (0.0, 1.0))),),
    (
        "laplace_clipped:indicator=0.1",
        "pm:indicator=0.1",
        "sw:indicator=0.1",
        "exponential:indicator=0.1",
        "krr:indicator=0.1",
        f"gaussian_clipped:delta={1 - math.sqrt(0.9)!r},calibration=theorem4",
    ),
    0.1,
)


@dataclass(frozen=True)
class Fitted:
    """A classifier of a study, the whole table, and which rows were held out."""

    model: Any
    table: pl.DataFrame
    test: Indices
    accuracy: float

    def record(self, study: Study, row: int | None = None) -> pl.DataFrame:
        """Return the record that the paper looks at, or another one."""
        if row is not None:
            return self.table[row]
        pl = needed("polars", "files", "reading the papers' tables")
        return self.table[study.row].with_columns(**{name: pl.lit(value) for name, value in study.changes})


@lru_cache(maxsize=4)
def fitted(folder: Path, study: Study, model: str) -> Fitted:
    """Fit one of the two classifiers as the paper does."""
    pl = needed("polars", "files", "reading the papers' tables")
    table = pl.read_csv(folder / study.file)
    y, X = table[study.target].to_numpy(), table.drop(study.target)
    # a few bmi exceed the paper's scale of 50: clip them, as a client with a declared range would
    X = X.with_columns(pl.col(name).clip(0, 1) for name in study.sensitive)
    train, test = train_test_split(np.arange(len(X)), test_size=0.2, stratify=y, random_state=42)
    estimator = (
        LogisticRegression(random_state=42, max_iter=1000) if model == "LR" else RandomForestClassifier(random_state=42)
    )
    estimator.fit(X[train], y[train])
    accuracy = float((estimator.predict(X[test]) == y[test]).mean())
    return Fitted(estimator, X, test, accuracy)


def ask(model: Any, X: Any, study: Study, **settings: Any) -> Curves:
    """Bound the stability of records under the study's mechanisms at epsilon 1 to 8 per feature."""
    return stability(
        model,
        X,
        sensitive=study.sensitive,
        mechanisms=study.mechanisms,
        per="feature",
        epsilons=EPSILONS,
        rng=0,
        **settings,
    )


def published(words: str, epsilon: float, values: Sequence[float], box: Box) -> float:
    """Return the mass of a box, as the paper states it (its factor (1 - omega)(1 - tau) dropped, as in its figures)."""
    built = family(words).build(epsilon)
    inner, reveal = (built.mechanism, built.delta) if isinstance(built, PrivacyIndicator) else (built, 0.0)
    assert isinstance(inner, Mechanism)
    mass = math.prod(float(inner.law(x).mass(*side)) for x, side in zip(values, box, strict=True))
    return reveal + (1 - reveal) * mass


def empirical(model: Any, record: pl.DataFrame, study: Study, draws: int = DRAWS) -> Floats:
    """Return the shares of draws that keep the label, by mechanism and epsilon: the paper's empirical utility."""
    row, at = record.to_numpy()[0].astype(float), [record.columns.index(name) for name in study.sensitive]
    return shares(
        lambda rows: model.predict(type(record)(rows, schema=record.columns)), row, at, study.mechanisms, draws
    )


def shares(labels: Any, row: Floats, at: Sequence[int], mechanisms: Sequence[str], draws: int = DRAWS) -> Floats:
    """Return the shares of draws that keep the label of a row, perturbed at some positions; one coin per draw."""
    rng, own = np.random.default_rng(0), labels(row[np.newaxis])[0]
    found = []
    for words in mechanisms:
        for epsilon in EPSILONS:
            built = family(words).build(float(epsilon))
            inner, reveal = (built.mechanism, built.delta) if isinstance(built, PrivacyIndicator) else (built, 0.0)
            assert isinstance(inner, Mechanism)
            rows = np.repeat(row[np.newaxis], draws, axis=0)
            perturbed = rng.random(draws) >= reveal
            rows[np.ix_(perturbed, np.asarray(at))] = inner.law(row[list(at)]).sample(draws, rng)[perturbed]
            found.append(float((labels(rows) == own).mean()))
    return np.array(found).reshape(len(mechanisms), len(EPSILONS))
