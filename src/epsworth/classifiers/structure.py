"""The inside of a model: sums of trees, linear scores, quadratic scores, or a network.

What a model is made of is opened layer by layer, and every layer must be the library's own (`reading`): pipelines,
searches for parameters, ensembles (see `ensembles`), and at the end what answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from epsworth.classifiers.boosters import additive_model, catboost_model, lightgbm_model, width_of, xgboost_model
from epsworth.classifiers.ensembles import ENSEMBLES, Member
from epsworth.classifiers.frameworks import is_module, module_network
from epsworth.classifiers.networks import Network, perceptron
from epsworth.classifiers.onnx_models import is_onnx, onnx_network, onnx_trees
from epsworth.classifiers.pipeline import NOTHING, Preprocessing
from epsworth.classifiers.quadratics import QuadraticScores, quadratic_scores
from epsworth.classifiers.reading import UNREADABLE, Unsupported, delegate, library_class, opened, read_once, steps_of
from epsworth.classifiers.thresholds import SINGLE_ROUNDING, Logistic, Response, Scored, Shares, Sums, scored
from epsworth.classifiers.transformers import Columns, all_stepped
from epsworth.classifiers.trees import (
    FORESTS,
    NO_TREES,
    TREES,
    TreeModel,
    forest_model,
    gradient_boosting_model,
    histogram_boosting_model,
)

MOST_SIZE = 2.0**1000  # of a sum of leaves
TOO_LARGE = "its leaves, or thresholds, hold numbers that doubles cannot add up, or compare"
NO_QUADRATIC = "the classifier has no quadratic scores that can be read, or a part of it answers by code of its own"
NO_NETWORK = "the classifier is not a network that can be looked into (MLPClassifier, torch.nn.Sequential)"


@dataclass(frozen=True, eq=False)
class Structure:
    """What can be read inside a model, each form once, when it is first asked for.

    Every form raises `Unsupported` with what stands in the way where the model does not have it.
    """

    model: Any
    _forms: dict[Callable[[Any], Any], Any] = field(default_factory=dict, init=False, repr=False)

    def __reduce__(self) -> Any:
        """Return what another process reads it from."""
        return Structure, (self.model,)

    @property
    def trees(self) -> TreeModel:
        """A sum of trees, and what stands before them."""
        return read_once(self._forms, read_trees, self.model)

    @property
    def linear(self) -> Scored:
        """An estimator that answers by its scores, the steps before it, and how labels follow from these."""
        return read_once(self._forms, scored, self.model)

    @property
    def quadratic(self) -> tuple[QuadraticScores, list[Any]]:
        """Quadratic scores, and the steps before them."""
        return read_once(self._forms, read_quadratic, self.model)

    @property
    def network(self) -> tuple[Network, list[Any]]:
        """Linear layers and activations, and the steps before them."""
        return read_once(self._forms, read_network, self.model)


def read_trees(model: Any) -> TreeModel:
    """Return the inside of a supported tree model, or what stands in the way.

    Supported: decision trees, random forests, extra trees, gradient boosting (with a constant start),
    histogram gradient boosting, XGBoost, LightGBM, CatBoost and EBMs (see `boosters`); each also behind steps that can
    be seen through (see `transformers`), and in ensembles (see `ensembles`).  And those of an ONNX model.
    """
    if is_onnx(model):
        trees = onnx_trees(model)
    elif width := width_of(model):
        trees = read_member(model, Columns.of_records(width)).trees
        names = getattr(model, "feature_names_in_", None)
        features = None if names is None else tuple(map(str, names))
        trees = replace(trees, before=replace(trees.before, features=features) if trees.before.steps else NOTHING)
    else:
        raise Unsupported(NO_TREES)
    if not trees.size < MOST_SIZE or np.isnan(trees.threshold).any():  # NaN is no size
        raise Unsupported(TOO_LARGE)
    return trees


def read_member(model: Any, columns: Columns) -> Member:
    """Read a model that is given columns, or say what stands in the way."""
    kind = library_class(model)
    if kind is None:
        raise Unsupported(f"the {type(model).__name__} answers by code of its own")
    if kind == "Pipeline":
        last, steps = steps_of(model, nested=False)
        return read_member(last, all_stepped(steps, columns)).behind(steps)
    if (inner := delegate(model)) is not None:
        return read_member(inner, columns)
    if kind == "XGBRFClassifier":
        raise Unsupported("the XGBRFClassifier is not read; an XGBClassifier of one round with num_parallel_tree is")
    if kind not in ENSEMBLES and kind not in READERS:
        raise Unsupported(f"{NO_TREES}: {kind} is none")
    labels = getattr(model, "classes_", None)
    if not isinstance(labels, np.ndarray) or labels.ndim != 1 or len(set(labels.tolist())) < labels.size:
        raise Unsupported(f"the {kind} has no list of different labels")
    if kind in ENSEMBLES:
        try:
            ensemble = ENSEMBLES[kind](model, columns, read_member)
        except UNREADABLE:
            raise Unsupported(f"the {kind} does not hold what it should") from None
        return replace(ensemble, trees=replace(ensemble.trees, counts=False))  # its sums are others than its members'
    trees = READERS[kind](model, columns) if kind in WITH_CATEGORIES else READERS[kind](model)
    if trees is None:
        raise Unsupported(f"what this {kind} holds is not understood: it has parts, options or answers of another kind")
    trees = trees if trees.before.steps else replace(trees, before=Preprocessing((), columns))
    probabilities, scores = _responses(kind, model, trees)
    return Member(trees=trees, probabilities=probabilities, scores=scores)


def _responses(kind: str, model: Any, trees: TreeModel) -> tuple[Response | None, Response | None]:
    """Return what ``predict_proba`` and ``decision_function`` answer, from the sums of the trees."""
    if READERS[kind] is forest_model:
        return Shares(len(trees.roots)), None
    if kind == "XGBClassifier":
        return Logistic(room=SINGLE_ROUNDING), None
    if kind == "LGBMClassifier":  # its random forests average before they take probabilities
        return (None if model.get_params().get("boosting_type") == "rf" else Logistic()), None
    if kind == "CatBoostClassifier":
        one_against_all = model.get_all_params()["loss_function"] == "MultiClassOneVsAll"
        return (None if one_against_all else Logistic()), None
    steep = kind == "GradientBoostingClassifier" and model.loss == "exponential"
    return Logistic(slope=2.0 if steep else 1.0), Sums()


def read_quadratic(model: Any) -> tuple[QuadraticScores, list[Any]]:
    """Return the quadratic scores of a supported estimator and the steps before it, or why there are none."""
    parts = opened(model)
    scores = None if parts is None else quadratic_scores(parts.estimator)
    if parts is None or scores is None:
        raise Unsupported(NO_QUADRATIC)
    return scores, parts.steps


def read_network(model: Any) -> tuple[Network, list[Any]]:
    """Return the inside of a supported network and the steps that stand before it, or why there is none.

    Supported: ``MLPClassifier``, also at the end of a pipeline, ``torch.nn.Sequential``, and the linear layers and
    activations of an ONNX model.
    """
    if is_module(model):
        return module_network(model), []
    if is_onnx(model):
        return onnx_network(model), []
    parts = opened(model)
    if parts is None or parts.kind != "MLPClassifier":
        raise Unsupported(NO_NETWORK)
    return perceptron(parts.estimator), parts.steps


WITH_CATEGORIES = ("HistGradientBoostingClassifier", "XGBClassifier", "LGBMClassifier")
READERS: dict[str, Callable[..., TreeModel | None]] = {
    **dict.fromkeys((*TREES, *FORESTS), forest_model),
    "GradientBoostingClassifier": gradient_boosting_model,
    "HistGradientBoostingClassifier": histogram_boosting_model,
    "XGBClassifier": xgboost_model,
    "LGBMClassifier": lightgbm_model,
    "CatBoostClassifier": catboost_model,
    "ExplainableBoostingClassifier": additive_model,
}
