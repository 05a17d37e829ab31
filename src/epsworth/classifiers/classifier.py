"""`as_classifier`: anything that answers records with labels."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from epsworth.classifiers.answers import AnswerHistory, ClassifierError, Labels
from epsworth.classifiers.boosters import booster_classifier
from epsworth.classifiers.frameworks import (
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
from epsworth.classifiers.levels import EncodedPredict, encoder_of
from epsworth.classifiers.onnx_models import is_onnx, onnx_answer
from epsworth.classifiers.reading import COMPONENTS, Predict, known_labels, library_class, steps_of
from epsworth.classifiers.sklearn_trees import FORESTS, TREES, forest_answer
from epsworth.classifiers.structure import Structure

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
