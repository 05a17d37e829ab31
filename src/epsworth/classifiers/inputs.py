"""What a fitted model takes its columns for: numbers, texts, or the categories that its encoders were fitted on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from epsworth.classifiers.classifier import Classifier
from epsworth.classifiers.frameworks import KerasPredict, SkorchPredict, TorchPredict
from epsworth.classifiers.levels import XGBOOST, EncodedPredict
from epsworth.classifiers.onnx_models import OnnxPredict
from epsworth.classifiers.reading import UNREADABLE, delegate, library_class, steps_of
from epsworth.classifiers.sklearn_trees import FORESTS
from epsworth.records import Records, as_records
from epsworth.space import Feature
from epsworth.tables import COMPUTED
from epsworth.values import TRUTHS

Kinds = dict[str, "str | tuple[Any, ...]"]
Names = Sequence[str | None]
KEEPS_COLUMNS = (  # hand on every column, and no other
    "SimpleImputer", "FunctionTransformer", "StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "str",
)  # fmt: skip
HOLDERS = ("estimator_", "_preprocessor", "estimators_", "calibrated_classifiers_")
ENSEMBLES_OF_TREES = (*FORESTS, "GradientBoostingClassifier")  # which take numbers, as their trees do
NUMBERS_ALONE = (TorchPredict, KerasPredict, SkorchPredict)
TEXTS = "tensor(string)"


def declared_inputs(classifier: Classifier, names: Sequence[str]) -> Kinds:
    """Return what columns are by name, where the model says so: "text", "number or truth", or a tuple of categories.

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
    if isinstance(classifier.answer, OnnxPredict):
        inputs = {one.name: "text" if one.type == TEXTS else COMPUTED for one in classifier.answer.inputs}
        return dict.fromkeys(names, *inputs.values()) if len(inputs) == 1 else dict(inputs)
    if isinstance(classifier.answer, EncodedPredict):
        return dict(classifier.levels)
    if isinstance(classifier.answer, NUMBERS_ALONE):
        return dict.fromkeys(names, COMPUTED)
    try:
        return _of_step(classifier.model, classifier.features or names)
    except UNREADABLE:  # fitted by another version, or not the library's own
        return {}


def columns_read(classifier: Classifier, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that a model needs; those that its first step drops, names and ids mostly, it does not.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsworth import as_classifier
    >>> from sklearn.compose import ColumnTransformer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> people = pd.DataFrame({"name": ["Ada", "Bob"], "age": [31, 62]})
    >>> model = make_pipeline(ColumnTransformer([("numbers", "passthrough", ["age"])]), LogisticRegression())
    >>> columns_read(as_classifier(model.fit(people, [0, 1])), list(people))
    ('age',)
    """
    last, before = steps_of(classifier.model)
    step = before[0] if before else last
    while library_class(step) == "Pipeline":
        step = step.steps[0][1]
    if library_class(step) != "ColumnTransformer":
        return tuple(names)
    read = {one for _, part, columns in step.transformers_ if part != "drop" for one in _named(columns, names)}
    return tuple(name for name in names if name in read)


def table_of(classifier: Classifier, X: Any, declared: Iterable[Feature] = ()) -> Records:
    """Return a table as a model's records: of columns that it takes for numbers, the numbers, whatever holds them.

    Parameters
    ----------
    declared : iterable of Feature
        What goes before what the model takes: a declared text stays one.

    Raises
    ------
    ValueError
        For what is no number there, by row.
    """
    records = as_records(X, features=classifier.features, count=classifier.count)
    texts = {one.name: one for one in declared if any(isinstance(value, str) for value in one.categories or ())}
    kinds = declared_inputs(classifier, records.names)
    for name, one in texts.items():
        if kinds.get(name) == COMPUTED and set(one.categories or ()) <= set(TRUTHS):
            raise ValueError(
                f"features.{name}: its categories are the texts {', '.join(map(repr, one.categories or ()))}, and the "
                "model takes truths; declare false and true, without quotes"
            )
    return records.computed([name for name in records.names if kinds.get(name) == COMPUTED and name not in texts])


def _of_step(step: Any, names: Names) -> Kinds:
    """Return what a fitted step takes the columns for, by the names of those that it is given."""
    if isinstance(getattr(step, "steps", None), list):
        return _of_steps([one for _, one in step.steps], names)
    for attribute in ("transformers_", "transformer_list"):
        if (parts := getattr(step, attribute, None)) is not None:
            return _merged(_of_step(part[1], _named(part[2], names) if len(part) > 2 else names) for part in parts)
    categories = getattr(step, "categories_", None)
    if categories is not None and len(categories) == len(names):
        known = {name: tuple(np.asarray(own).tolist()) for name, own in zip(names, categories, strict=True)}
        return {name: kind for name, kind in known.items() if name is not None}
    numbers: Kinds = dict.fromkeys(_numbers_alone(step, names), COMPUTED)
    if library_class(step) in ENSEMBLES_OF_TREES:
        return numbers
    return numbers | _merged(_of_step(inner, own) for inner, own in _inner_models(step, names))


def _numbers_alone(step: Any, names: Names) -> list[str]:
    """Return the columns, where all that a fitted step of a library's own takes are numbers."""
    kind = library_class(step)
    if kind is None or kind in KEEPS_COLUMNS or getattr(step, "n_features_in_", None) != len(names):
        return []
    if kind == "CatBoostClassifier":
        indices = step.get_cat_feature_indices(), step.get_text_feature_indices(), step.get_embedding_feature_indices()
        others = set().union(*indices)
        return [name for at, name in enumerate(names) if at not in others and name is not None]
    if kind == "LGBMClassifier":
        alone = not step.booster_.pandas_categorical
    elif kind in XGBOOST:
        alone = "c" not in (step.get_booster().feature_types or ())
    else:
        holds = hasattr(step, "estimator_") or (hasattr(step, "estimators_") and kind not in ENSEMBLES_OF_TREES)
        tags = step.__sklearn_tags__()
        alone = not (tags.no_validation or tags.input_tags.string or tags.input_tags.dict or holds)
    return [name for name in names if alone and name is not None]


def _inner_models(step: Any, names: Names) -> Iterator[tuple[Any, Names]]:
    """Yield the models that answer for an estimator, and the columns that each is given."""
    if (inner := delegate(step)) is not None:
        yield inner, names
    selected = np.flatnonzero(step.support_) if hasattr(step, "support_") else range(len(names))
    own_features = getattr(step, "estimators_features_", None)
    for attribute in HOLDERS:
        models = getattr(step, attribute, None)
        models = models.ravel().tolist() if isinstance(models, np.ndarray) else models
        for place, one in enumerate(
            models if isinstance(models, (list, tuple)) else [] if models is None else [models]
        ):
            inner = getattr(one, "estimator", one) if attribute == "calibrated_classifiers_" else one
            yield inner, [names[int(at)] for at in (selected if own_features is None else own_features[place])]


def _of_steps(steps: Sequence[Any], names: Names) -> Kinds:
    """Return what the steps of a pipeline tell, as long as it is known which columns reach them."""
    kinds: Kinds = {}
    for step in steps:
        if step is not None and step != "passthrough":
            kinds = _of_step(step, names) | kinds
            names = _handed_on(step, names)
    return kinds


def _handed_on(step: Any, names: Names) -> Names:
    """Return the names of the columns that a step hands on; None for those that it made of others."""
    if getattr(step, "func", None) is not None:  # a function may make numbers of texts
        return [None] * len(names)
    if type(step).__name__ in KEEPS_COLUMNS or not hasattr(step, "transform"):
        return names
    if (parts := getattr(step, "transformers_", None)) is not None:
        return [one for _, part, columns in parts if part != "drop" for one in _handed_on(part, _named(columns, names))]
    if isinstance(getattr(step, "steps", None), list):
        for _, one in step.steps:
            names = _handed_on(one, names)
        return names
    return [None] * len(step.get_feature_names_out())


def _merged(parts: Any) -> Kinds:
    kinds: Kinds = {}
    for part in parts:
        for name, kind in part.items():
            own = kinds.get(name, COMPUTED)
            kinds[name] = own if kind == COMPUTED else kind if own == COMPUTED else tuple(dict.fromkeys([*own, *kind]))
    return kinds


def _named(columns: Any, names: Names) -> list[str | None]:
    """Return the names of the columns that a transformer is given: by name, number, slice or mask."""
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, slice):
        return list(names[columns])
    array = np.asarray(columns)
    if array.dtype.kind in "US" or array.dtype == object:
        return list(map(str, array.tolist()))
    return [names[int(one)] for one in (np.flatnonzero(array) if array.dtype == bool else np.atleast_1d(array))]
