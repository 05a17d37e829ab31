"""Classifiers whose labels follow from sums of trees: single models, and compositions of them.

What a model is made of is opened layer by layer, and every layer must be the library's own (`genuine`): pipelines,
searches for parameters, ensembles (see `ensembles`), and at the end trees (see `sklearn_trees` and `boosters`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from epsworth.classifiers.boosters import additive_model, catboost_model, lightgbm_model, width_of, xgboost_model
from epsworth.classifiers.ensembles import ENSEMBLES, NO_TREES, Member
from epsworth.classifiers.frameworks import is_module, module_network
from epsworth.classifiers.link_functions import SINGLE_ROUNDING, Logistic, Response, Shares, Sums
from epsworth.classifiers.networks import Network, perceptron
from epsworth.classifiers.onnx_models import is_onnx
from epsworth.classifiers.onnx_reading import onnx_network, onnx_trees
from epsworth.classifiers.pipeline import NOTHING, Preprocessing
from epsworth.classifiers.reading import UNREADABLE, Unsupported, delegate, library_class, opened, steps_of
from epsworth.classifiers.sklearn_trees import forest_model, gradient_boosting_model, histogram_boosting_model
from epsworth.classifiers.transformers import Columns, all_stepped
from epsworth.classifiers.trees import TreeModel

MOST_SIZE = 2.0**1000  # of a sum of leaves
TOO_LARGE = "its leaves, or thresholds, hold numbers that doubles cannot add up, or compare"


def tree_model(model: Any) -> TreeModel | None:
    """Return the inside of a supported tree model, or None (`tree_reading` says why)."""
    try:
        return tree_reading(model)
    except Unsupported:
        return None


def tree_reading(model: Any) -> TreeModel:
    """Return the inside of a supported tree model, or what stands in the way.

    Supported: decision trees, random forests, extra trees, gradient boosting (with a constant start),
    histogram gradient boosting, XGBoost and LightGBM (see `boosters`); each also behind steps that can be seen through
    (see `preprocessing`), and in ensembles (see `ensembles`).  And the trees of an ONNX model (see `onnx_reading`).
    """
    if is_onnx(model):
        found = onnx_trees(model)
        if found is None or not _adds_up(found):
            raise Unsupported(NO_TREES if found is None else TOO_LARGE)
        return found
    names = getattr(model, "feature_names_in_", None)
    if not (width := width_of(model)):
        raise Unsupported(NO_TREES)
    one = member(model, Columns.of_records(width))
    if not _adds_up(one.trees):
        raise Unsupported(TOO_LARGE)
    features = None if names is None else tuple(map(str, names))
    before = replace(one.trees.before, features=features) if one.trees.before.steps else NOTHING
    return replace(one.trees, before=before)


def _adds_up(trees: TreeModel) -> bool:
    """Tell whether leaves are numbers that doubles can add up, and thresholds numbers, too."""
    return trees.size < MOST_SIZE and not bool(np.isnan(trees.threshold).any())


def member(model: Any, given: Columns) -> Member:
    """Read a model that is given columns, or say what stands in the way."""
    kind = library_class(model)
    if kind is None:
        raise Unsupported(f"the {type(model).__name__} answers by code of its own")
    if kind == "Pipeline":
        return _pipeline(model, given)
    if (inner := delegate(model)) is not None:
        return member(inner, given)
    if kind == "XGBRFClassifier":
        raise Unsupported("the XGBRFClassifier is not read; an XGBClassifier of one round with num_parallel_tree is")
    if kind not in ENSEMBLES and kind not in READERS:
        raise Unsupported(f"{NO_TREES}: {kind} is none")
    labels = getattr(model, "classes_", None)
    if not isinstance(labels, np.ndarray) or labels.ndim != 1 or len(set(labels.tolist())) < labels.size:
        raise Unsupported(f"the {kind} has no list of different labels")
    if kind in ENSEMBLES:
        try:
            found = ENSEMBLES[kind](model, given, member)
        except UNREADABLE:
            raise Unsupported(f"the {kind} does not hold what it should") from None
        return replace(found, trees=replace(found.trees, counts=False))  # its sums are others than its members'
    trees = READERS[kind](model, given) if kind in WITH_CATEGORIES else READERS[kind](model)
    if trees is None:
        raise Unsupported(f"what this {kind} holds is not understood: it has parts, options or answers of another kind")
    trees = trees if trees.before.steps else replace(trees, before=Preprocessing((), given))
    probabilities, scores = _responses(kind, model, trees)
    return Member(trees=trees, probabilities=probabilities, scores=scores)


def _pipeline(model: Any, given: Columns) -> Member:
    last, steps = steps_of(model, nested=False)
    handed = all_stepped(steps, given)
    return member(last, handed).behind(steps)


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


WITH_CATEGORIES = ("HistGradientBoostingClassifier", "XGBClassifier", "LGBMClassifier")
READERS: dict[str, Callable[..., TreeModel | None]] = {
    "DecisionTreeClassifier": forest_model,
    "ExtraTreeClassifier": forest_model,
    "RandomForestClassifier": forest_model,
    "ExtraTreesClassifier": forest_model,
    "GradientBoostingClassifier": gradient_boosting_model,
    "HistGradientBoostingClassifier": histogram_boosting_model,
    "XGBClassifier": xgboost_model,
    "LGBMClassifier": lightgbm_model,
    "CatBoostClassifier": catboost_model,
    "ExplainableBoostingClassifier": additive_model,
}


def network_behind(model: Any) -> tuple[Network, list[Any]]:
    """Return the inside of a supported network and the steps that stand before it, or why there is none.

    Supported: ``MLPClassifier``, also at the end of a pipeline, ``torch.nn.Sequential``, and the linear layers and
    activations of an ONNX model.
    """
    if is_module(model) or is_onnx(model):
        found = module_network(model) if is_module(model) else onnx_network(model)
        return found, []
    parts = opened(model)
    if parts is None or parts[1] != "MLPClassifier":
        raise Unsupported(
            "the classifier is not a network that can be looked into (MLPClassifier, torch.nn.Sequential)"
        )
    return perceptron(parts[0]), parts[2]


def network_model(estimator: Any) -> Network:
    """Return the inside of a supported network that sees records themselves, or why there is none."""
    found = network_behind(estimator)
    if found[1]:
        raise Unsupported("steps stand before the network")
    return found[0]
