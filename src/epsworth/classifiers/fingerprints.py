"""Fingerprints: which classifier a policy's copy was made of, by its answers, which every kind of model has.

A model's bytes change with the version that wrote them, and a service shows none.  The answers at fixed records of
public ranges stay what they are when a model is saved, loaded or served elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.classifiers.classifier import Classifier, as_classifier
from epsworth.classifiers.reading import Labels
from epsworth.extras import needed
from epsworth.records import Records
from epsworth.space import Feature

ASKED = 512  # records; a power of two, where the sequence is most even


def fingerprint(model: Any, features: Sequence[Feature], like: Records | None = None) -> str:
    """Return SHA-256 of a classifier's answers at 512 fixed records, spread evenly over public ranges.

    Two fingerprints that differ come from classifiers that answer differently.  Equal ones say no more than that the
    answers at these records agree: a model that was retrained and changed elsewhere alone, as where the ranges are
    wide and most of their labels are one, has the same.

    Parameters
    ----------
    model : anything that `as_classifier` takes
    features : sequence of Feature
        Public ranges of all columns that it reads, in its order where it has no names.
    like : Records, optional
        In whose kind of table it is asked.  Without them in an array or a frame of polars, and where it takes none, in
        one of pandas with categories: the answers are the same, or they are errors.

    Raises
    ------
    ValueError
        If the classifier reads other columns.

    Examples
    --------
    >>> one, other = Feature("x0", 0, 1), Feature("x0", 0, 2)
    >>> fingerprint(lambda X: X[:, 0] > 0.5, [one]) == fingerprint(lambda X: 2 * X[:, 0] > 1, [one])
    True
    >>> fingerprint(lambda X: X[:, 0] > 0.5, [one]) == fingerprint(lambda X: X[:, 0] > 0.5, [other])
    False
    """
    classifier = as_classifier(model)
    ranges = {feature.name: feature for feature in features}
    names = tuple(ranges) if classifier.features is None else classifier.features
    lacking = [name for name in names if name not in ranges]
    if lacking or (classifier.features is None and classifier.count not in (None, len(names))):
        says = f"{lacking[0]!r}" if lacking else f"{classifier.count} columns, where {len(names)} are declared"
        raise ValueError(f"the classifier reads {says}, of which no range is declared; it cannot be compared")
    columns = dict(zip(names, _columns([ranges[name] for name in names]), strict=True))
    if like is not None:
        table = like.take(np.zeros(ASKED, dtype=np.intp), {like.names.index(name): v for name, v in columns.items()})
        return fingerprint_of_answers(classifier.labels(table))
    try:
        return fingerprint_of_answers(classifier.labels(_table(classifier, columns)))
    except Exception:
        if "pandas" not in sys.modules and find_spec("pandas") is None:
            raise
        return fingerprint_of_answers(classifier.labels(_with_categories(columns, features)))


def fingerprint_of_answers(answers: Labels) -> str:
    """Return SHA-256 of labels in their order; a number is one number whatever its type.

    Examples
    --------
    >>> a = fingerprint_of_answers(np.array([0, 1]))
    >>> a == fingerprint_of_answers(np.array([0.0, 1.0])), a == fingerprint_of_answers(np.array(["0", "1"]))
    (True, False)
    """
    text = json.dumps([_written(label) for label in np.asarray(answers).tolist()], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _written(label: Any) -> Any:
    if isinstance(label, (bool, str)):
        return label
    if isinstance(label, (int, float)):
        return [str(int(label)) if label == int(label) else repr(float(label))]
    return [type(label).__name__, str(label)]


def _table(classifier: Classifier, columns: dict[str, NDArray[Any]]) -> Any:
    """Return the fixed records as the classifier takes them: a frame where columns have names, else an array."""
    nameless = classifier.count is not None or list(columns) == [f"x{i}" for i in range(len(columns))]
    if classifier.features is None and nameless:
        texts = any(column.dtype.kind not in "fiub" for column in columns.values())
        return np.column_stack([column.astype(object) if texts else column for column in columns.values()])
    pl = needed("polars", "files", "asking a classifier of named columns about fixed records")
    return pl.DataFrame({name: column.tolist() for name, column in columns.items()})


def _with_categories(columns: dict[str, NDArray[Any]], features: Sequence[Feature]) -> Any:
    """Return a frame of pandas whose words are categories, for models that go by their codes."""
    import pandas as pd

    kinds = {feature.name: list(feature.categories) for feature in features if feature.categories is not None}
    return pd.DataFrame(
        {n: pd.Categorical(v.tolist(), categories=kinds[n]) if n in kinds else v for n, v in columns.items()}
    )


def _columns(features: Sequence[Feature]) -> list[NDArray[Any]]:
    """Return natural values at the points of Sobol's sequence, which no version or machine computes otherwise."""
    from scipy.stats.qmc import Sobol

    unit = Sobol(len(features), scramble=False).random(ASKED)
    return [_column(feature, unit[:, i]) for i, feature in enumerate(features)]


def _column(feature: Feature, unit: Floats) -> NDArray[Any]:
    levels = feature.levels
    if levels is None:
        return feature.from_unit(unit)
    place = np.minimum((unit * levels).astype(np.int64), levels - 1)
    return feature.from_unit(place / max(1, levels - 1), points=levels if feature.categories is None else None)
