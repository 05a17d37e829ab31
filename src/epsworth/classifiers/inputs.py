"""What a fitted model takes its columns for: texts, or the categories that its encoders were fitted on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from epsworth.classifiers.classifier import Classifier
from epsworth.classifiers.onnx_models import OnnxAnswer
from epsworth.classifiers.reading import UNREADABLE
from epsworth.classifiers.scalers import delegate

Kinds = dict[str, "str | tuple[Any, ...]"]
Names = Sequence[str | None]
KEEPS_COLUMNS = (  # hand on every column, and no other
    "SimpleImputer", "FunctionTransformer", "StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "str",
)  # fmt: skip
HOLDERS = ("estimator_", "_preprocessor", "estimators_", "calibrated_classifiers_")
TEXTS = "tensor(string)"


def declared_inputs(classifier: Classifier, names: Sequence[str]) -> Kinds:
    """Return what columns are by name, where the model says so: "text", or a tuple of categories.

    Parameters
    ----------
    names : sequence of str
        The table's columns: in their order those of a model that knows no names.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsworth import as_classifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> model = make_pipeline(OneHotEncoder(), LogisticRegression())
    >>> declared_inputs(as_classifier(model.fit(pd.DataFrame({"zip": ["01001", "94110"]}), [0, 1])), ["zip"])
    {'zip': ('01001', '94110')}
    """
    if (declared := getattr(classifier.model, "declared_columns", None)) is not None:
        return dict(declared)
    if isinstance(classifier.answer, OnnxAnswer):
        inputs = classifier.answer.inputs
        alone = [name for name in names if len(inputs) == 1 and inputs[0].type == TEXTS]
        return dict.fromkeys(alone or [one.name for one in inputs if one.type == TEXTS], "text")
    if classifier.levels:
        return dict(classifier.levels)
    try:
        return _of_step(classifier.model, classifier.features or names)
    except UNREADABLE:  # fitted by another version, or not the library's own
        return {}


def _of_step(step: Any, names: Names) -> Kinds:
    """Return the categories of the encoders within a fitted step, by the names of the columns that it is given."""
    if isinstance(getattr(step, "steps", None), list):
        return _of_steps([one for _, one in step.steps], names)
    for attribute in ("transformers_", "transformer_list"):
        if (parts := getattr(step, attribute, None)) is not None:
            return _joined(_of_step(part[1], _named(part[2], names) if len(part) > 2 else names) for part in parts)
    categories = getattr(step, "categories_", None)
    if categories is not None and len(categories) == len(names):
        found = {name: tuple(np.asarray(own).tolist()) for name, own in zip(names, categories, strict=True)}
        return {name: kind for name, kind in found.items() if name is not None}
    return _joined(_of_step(inner, own) for inner, own in _held(step, names))


def _held(step: Any, names: Names) -> Iterator[tuple[Any, Names]]:
    """Yield the models that answer for an estimator, and the columns that each is given."""
    if (inner := delegate(step)) is not None:
        yield inner, names
    for attribute in HOLDERS:
        held = getattr(step, attribute, None)
        for place, one in enumerate(held if isinstance(held, list) else [] if held is None else [held]):
            inner = getattr(one, "estimator", one) if attribute == "calibrated_classifiers_" else one
            some = getattr(step, "estimators_features_", None)
            yield inner, names if some is None else [names[int(at)] for at in some[place]]


def _of_steps(steps: Sequence[Any], names: Names) -> Kinds:
    """Return what the steps of a pipeline tell, as long as it is known which columns reach them."""
    found: Kinds = {}
    for step in steps:
        if step is not None and step != "passthrough":
            found |= {name: kind for name, kind in _of_step(step, names).items() if name not in found}
            names = _handed_on(step, names)
    return found


def _handed_on(step: Any, names: Names) -> Names:
    """Return the names of the columns that a step hands on; None for those that it made of others."""
    if type(step).__name__ in KEEPS_COLUMNS or not hasattr(step, "transform"):
        return names
    if (parts := getattr(step, "transformers_", None)) is not None:
        return [one for _, part, columns in parts if part != "drop" for one in _handed_on(part, _named(columns, names))]
    if isinstance(getattr(step, "steps", None), list):
        for _, one in step.steps:
            names = _handed_on(one, names)
        return names
    return [None] * len(step.get_feature_names_out())


def _joined(parts: Any) -> Kinds:
    found: dict[str, tuple[Any, ...]] = {}
    for part in parts:
        for name, kind in part.items():
            found[name] = tuple(dict.fromkeys([*found.get(name, ()), *kind]))
    return dict(found)


def _named(columns: Any, names: Names) -> list[str | None]:
    """Return the names of the columns that a transformer is given: by name, number, slice or mask."""
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, slice):
        return list(names[columns])
    found = np.asarray(columns)
    if found.dtype.kind in "US" or found.dtype == object:
        return list(map(str, found.tolist()))
    return [names[int(one)] for one in (np.flatnonzero(found) if found.dtype == bool else np.atleast_1d(found))]
