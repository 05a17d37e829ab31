"""What a fitted model takes its columns for: texts, or the categories that its encoders were fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epsworth.classifiers.classifier import Classifier
from epsworth.classifiers.onnx_models import OnnxAnswer
from epsworth.classifiers.reading import UNREADABLE
from epsworth.classifiers.scalers import delegate

Kinds = dict[str, "str | tuple[Any, ...]"]
KEEPS_COLUMNS = ("SimpleImputer", "FunctionTransformer")  # ahead of an encoder
TEXTS = "tensor(string)"


def declared_inputs(classifier: Classifier) -> Kinds:
    """Return what columns are by name, where the model says so: "text", or a tuple of categories.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsworth import as_classifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> model = make_pipeline(OneHotEncoder(), LogisticRegression())
    >>> declared_inputs(as_classifier(model.fit(pd.DataFrame({"zip": ["01001", "94110"]}), [0, 1])))
    {'zip': ('01001', '94110')}
    """
    if (declared := getattr(classifier.model, "declared_columns", None)) is not None:
        return dict(declared)
    if isinstance(classifier.answer, OnnxAnswer):
        return _of_graph(classifier)
    if classifier.levels:
        return dict(classifier.levels)
    try:
        found = _of_step(classifier.model, list(classifier.features or ()))
    except UNREADABLE:  # fitted by another version, or not the library's own
        return {}
    return {name: kind for name, kind in found.items() if any(isinstance(one, (str, bool)) for one in kind)}


def _of_graph(classifier: Classifier) -> Kinds:
    """Return the inputs of texts; one input of several columns has texts in all of them."""
    inputs = classifier.answer.inputs  # type: ignore[attr-defined]  # checked
    if len(inputs) > 1:
        return {one.name: "text" for one in inputs if one.type == TEXTS}
    return {}


def _of_step(step: Any, names: Sequence[str]) -> Kinds:
    """Return the categories of the encoders among a step's own, by the names of the columns that it is given."""
    if (inner := delegate(step)) is not None:
        return _of_step(inner, names)
    if isinstance(getattr(step, "steps", None), list):
        return _of_steps([one for _, one in step.steps], names)
    for attribute in ("transformers_", "transformer_list"):
        if (parts := getattr(step, attribute, None)) is not None:
            return _joined(_of_step(part[1], _named(part[2], names) if len(part) > 2 else names) for part in parts)
    if (held := getattr(step, "_preprocessor", None)) is not None:  # of gradient boosting by histograms
        return _of_step(held, names)
    categories = getattr(step, "categories_", None)
    if categories is None or len(categories) != len(names):
        return {}
    return {name: tuple(np.asarray(own).tolist()) for name, own in zip(names, categories, strict=True)}


def _of_steps(steps: Sequence[Any], names: Sequence[str]) -> Kinds:
    """Return what the first step tells that does more than to fill gaps."""
    for step in steps:
        if step is not None and step != "passthrough" and type(step).__name__ not in KEEPS_COLUMNS:
            return _of_step(step, names)
    return {}


def _joined(parts: Any) -> Kinds:
    found: dict[str, tuple[Any, ...]] = {}
    for part in parts:
        for name, kind in part.items():
            found[name] = tuple(dict.fromkeys([*found.get(name, ()), *kind]))
    return dict(found)


def _named(columns: Any, names: Sequence[str]) -> list[str]:
    """Return the names of the columns that a transformer is given: by name, number, slice or mask."""
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, slice):
        return list(names[columns])
    found = np.asarray(columns)
    if found.dtype.kind in "US" or found.dtype == object:
        return list(map(str, found.tolist()))
    return [names[int(one)] for one in (np.flatnonzero(found) if found.dtype == bool else np.atleast_1d(found))]
