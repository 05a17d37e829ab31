"""`as_classifier`: anything that answers records with labels, and what it takes its columns for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from epsworth.classifiers.boosters import booster_classifier
from epsworth.classifiers.frameworks import (
    KerasPredict,
    SkorchPredict,
    TorchPredict,
    argmax_module,
    check_module,
    exported_answer,
    is_exported,
    is_keras,
    is_module,
    is_skorch,
    keras_answer,
    known_shape,
)
from epsworth.classifiers.onnx_models import OnnxPredict, is_onnx, onnx_answer
from epsworth.classifiers.reading import (
    COMPONENTS,
    UNREADABLE,
    AnswerHistory,
    ClassifierError,
    Labels,
    Predict,
    delegate,
    known_labels,
    library_class,
    steps_of,
)
from epsworth.classifiers.structure import Structure
from epsworth.classifiers.transformers import XGBOOST, EncodedPredict, encoder_of
from epsworth.classifiers.trees import FORESTS, TREES, forest_answer
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


NUMBERS = ("coef_", "intercept_", "theta_", "var_", "means_", "centroids_", "cluster_centers_", "mean_", "scale_")


@dataclass(frozen=True)
class Classifier:
    """A deterministic function from records to labels.

    Attributes
    ----------
    name : str
        For reports.
    answer : callable
        Takes records in their native container (array or frame), returns one label per record.
    features : tuple of str, optional
        Names of the features it was fitted on, in order.
    count : int, optional
        How many features it expects.
    classes : tuple, optional
        The labels that it can give, where they are known.
    model : object, optional
        The estimator itself; None for a plain function.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from epsworth import as_classifier
    >>> X = np.array([[20.0, 0.0], [70.0, 1.0]])
    >>> asked = as_classifier(LogisticRegression().fit(X, ["low", "high"]))
    >>> asked.name, asked.count, asked.classes
    ('LogisticRegression', 2, ('high', 'low'))
    >>> asked.labels(X).tolist()
    ['low', 'high']
    """

    name: str
    answer: Callable[[Any], Any]
    features: tuple[str, ...] | None = None
    count: int | None = None
    classes: tuple[Any, ...] | None = None
    model: Any = None
    history: AnswerHistory = field(default_factory=AnswerHistory, init=False, repr=False, compare=False)

    @property
    def inside(self) -> Any:
        """The model, for engines that look inside; None where something else than the model itself answers."""
        asks = isinstance(self.answer, (Predict, TorchPredict)) and self.answer.model is self.model
        return self.model if asks else None

    @cached_property
    def structure(self) -> Structure:
        """What can be read inside the model: each form once, whoever asks, until the next question."""
        return Structure(self.inside)

    @property
    def levels(self) -> Mapping[str, tuple[Any, ...]]:
        """The levels that it was fitted on, of columns that it takes for categories; none where it names none."""
        return self.answer.encoder.levels if isinstance(self.answer, EncodedPredict) else {}

    def labels(self, records: Any) -> Labels:
        """Return one label per record, shape ``(n,)``; refuse answers of another shape or missing ones."""
        n = len(records)
        labels = np.asarray(self.answer(records))
        column = labels.shape == (n, 1)
        if column:
            labels = labels[:, 0]
        if labels.shape != (n,):
            raise ClassifierError(
                f"{self.name} answered {n} records with shape {labels.shape}; "
                "it must return one label per record (class labels, not probabilities)"
            )
        if labels.dtype.kind in "fO" and (labels != labels).any():  # NaN differs from itself
            raise ClassifierError(f"{self.name} answered NaN instead of a label")
        if labels.dtype == object and (labels == None).any():  # noqa: E711  elementwise
            raise ClassifierError(f"{self.name} answered None instead of a label")
        if not isinstance(self.answer, TorchPredict):  # which answers places of logits, and checks these
            self.history.check(self.name, labels, self.classes, column=column)
        return labels


def as_classifier(model: Any) -> Classifier:
    """Wrap a model so that the engines can query it.

    Parameters
    ----------
    model : fitted scikit-learn classifier or pipeline, booster, PyTorch module, ONNX model, callable, or Classifier
        Anything with ``predict`` (checked to be a fitted classifier where scikit-learn can tell), a function
        ``records -> labels``, or a ``torch.nn.Module`` in evaluation mode that returns logits: the label is the
        largest one's index, or with a single logit 1 where that is positive and else 0; so are TorchScript,
        ``torch.export`` and skorch answered.  An ``onnx.ModelProto`` or ``onnxruntime.InferenceSession`` answers by
        its output of labels (see `onnx_models`), a Keras model by its last layer (see `other_networks`), a ``Booster``
        of XGBoost or LightGBM labels 0, 1, .. where its objective says what these are (logistic, softmax).  It must be
        deterministic, and answer labels: what looks like scores is refused (see `answers`).
        Clusterings and mixtures that predict are taken for classifiers whose labels are the numbers of their
        clusters or components.

    Returns
    -------
    Classifier

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth import as_classifier
    >>> as_classifier(lambda X: X[:, 0] > 0.5).labels(np.array([[0.2], [0.9]])).tolist()
    [False, True]
    """
    if isinstance(model, Classifier):
        vars(model).pop("structure", None)  # the model may have been fitted again since
        return model
    if isinstance(model, type):
        raise TypeError(f"the model is the class {model.__name__}, not an instance; fit one first")
    if (network := _from_network(model)) is not None:
        return network
    if library_class(model) == "Booster":
        return _from_estimator(booster_classifier(model))
    if hasattr(model, "predict"):
        return _from_estimator(model)
    if callable(model):
        return Classifier(getattr(model, "__name__", type(model).__name__), model)
    if getattr(model, "refit", True) is False:  # a search, which kept none of the models that it tried
        raise TypeError(
            f"the model is a {type(model).__name__} of refit=False, which holds no classifier; "
            "search with refit=True, or fit the estimator by the best_params_ and give that"
        )
    if hasattr(model, "shape") or isinstance(model, (Mapping, list, tuple)):
        raise TypeError(
            f"the model is a {type(model).__name__}, which looks like a table; give the classifier, then the table"
        )
    raise TypeError(
        f"the model is a {type(model).__name__}, which has no predict and is not a function; "
        "give a fitted classifier or a function from records to labels"
    )


def _from_network(model: Any) -> Classifier | None:
    """Wrap a network, or a graph, whose outputs are scores; None for other models."""
    name = type(model).__name__
    if is_keras(model):
        answer, features, labels = keras_answer(model)
        return Classifier(f"Keras {name}", answer, count=features, classes=tuple(range(labels)), model=model)
    if is_module(model):
        check_module(model)
        count, classes = known_shape(model)
        return Classifier(f"torch {name}", TorchPredict(model), count=count, classes=classes, model=model)
    if is_exported(model):
        exported = exported_answer(model)
        return Classifier(f"torch {name}", exported, model=exported.model)
    if is_skorch(model) and hasattr(model, "module_"):
        module = argmax_module(model)
        if module is None:
            return Classifier(f"skorch {name}", SkorchPredict(model), classes=tuple(range(len(model.classes_))))
        check_module(module)
        count, classes = known_shape(module)
        return Classifier(f"skorch {name}", TorchPredict(module), count=count, classes=classes, model=module)
    if is_onnx(model):
        graph = onnx_answer(model)
        inputs = graph.inputs
        names = tuple(one.name for one in inputs) if len(inputs) > 1 else None
        width = inputs[0].shape[1] if names is None and len(inputs[0].shape) == 2 else None
        count = len(inputs) if names else width if isinstance(width, int) else None
        return Classifier("ONNX model", graph, names, count, graph.output.classes, model)
    return None


def _from_estimator(model: Any) -> Classifier:
    last, steps = steps_of(model)
    if "sklearn" in sys.modules:  # an estimator cannot exist without it
        from sklearn.base import BaseEstimator

        if isinstance(model, BaseEstimator):
            _check_estimator(model, last, steps)
    features, classes = getattr(model, "feature_names_in_", None), known_labels(model)
    step, numbers = None if steps else encoder_of(last), getattr(last, "labels_", None)
    wrapped = Classifier(
        " + ".join([type(part).__name__ for part in (*steps, last)]),
        EncodedPredict(model, step) if step else forest_answer(model),
        features=None if features is None else tuple(map(str, features)),
        count=getattr(model, "n_features_in_", None) or None,  # 0 of a CatBoost file
        classes=None if classes is None else tuple(classes.tolist()),
        model=model,
    )
    wrapped.history.numbering = isinstance(numbers, np.ndarray) and numbers.ndim == 1 and numbers.dtype.kind in "iu"
    return wrapped


def _check_estimator(model: Any, last: Any, steps: list[Any]) -> None:
    """Refuse an estimator of scikit-learn that is no fitted, deterministic classifier of numbers."""
    from sklearn.base import ClusterMixin, DensityMixin, is_classifier
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    name, kind = type(model).__name__, library_class(last) or ""
    if not (is_classifier(model) or isinstance(last, (ClusterMixin, DensityMixin))):
        raise TypeError(f"{name} is not a classifier; give one that predicts labels")
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise ValueError(f"the {name} is not fitted; call fit first") from None
    if COMPONENTS.get(kind) == "cluster_centers_" and last.cluster_centers_.dtype != np.float64:
        raise ValueError(  # k-means compares its centres with nothing else
            f"the {kind} was fitted in single precision and cannot answer records in double precision, "
            "which perturbed values are; fit it on table.astype(float)"
        )
    for part in (*steps, last):
        for attribute in NUMBERS:  # as a file may hold anything
            value = getattr(part, "__dict__", {}).get(attribute)
            if isinstance(value, np.ndarray) and value.dtype.kind not in "fiu":
                raise ValueError(
                    f"the {attribute} of the {type(part).__name__} does not hold numbers but is of kind {value.dtype}; "
                    "fit the model again"
                )
    if _draws_labels(model):
        raise ValueError(
            f"the {name} draws its labels at random (a DummyClassifier of strategy 'uniform' or 'stratified'); "
            "give a deterministic classifier"
        )


def _draws_labels(model: Any) -> bool:
    """Tell whether an estimator, or a fitted part of it, answers by chance."""
    from sklearn.base import BaseEstimator
    from sklearn.dummy import DummyClassifier

    waiting, seen = [model], set[int]()
    while waiting:
        part = waiting.pop()
        if isinstance(part, (list, tuple)):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, np.ndarray) and part.dtype == object:
            waiting += part.ravel().tolist()
        elif isinstance(part, BaseEstimator) and id(part) not in seen:
            seen.add(id(part))
            dummy = isinstance(part, DummyClassifier) and hasattr(part, "classes_")
            if dummy and part.strategy in ("uniform", "stratified"):
                return True
            if library_class(part) not in (*TREES, *FORESTS):  # which hold no other estimators
                waiting += vars(part).values()
    return False
