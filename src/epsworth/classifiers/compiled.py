"""Arrays that scikit-learn's compiled code takes for each other's size: a file's are compared before anything is asked.

Boosting adds a tree's answer to a column of scores that it does not look for, histograms look categories up in a table
of the columns that arrive, and libsvm reads as many coefficients as the classes say that there are.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np


class WalkError(ValueError):
    """Numbers that lead compiled code out of its memory."""


def check_agreement(part: Any) -> None:
    """Refuse a part of a loaded model whose arrays do not have the sizes that compiled code takes for granted."""
    from scipy.sparse import issparse
    from sklearn.ensemble._gb import BaseGradientBoosting
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
    from sklearn.svm._base import BaseLibSVM

    checks = (  # an estimator that lacks the named attribute was not fitted, and answers nothing
        (BaseGradientBoosting, "estimators_", _boosting),
        (BaseHistGradientBoosting, "_predictors", _histograms),
        (BaseLibSVM, "support_vectors_", _vectors),
    )
    try:
        if issparse(part):
            check_format = getattr(part, "check_format", None)  # of compressed rows and columns; others are Python's
            if check_format is not None:
                check_format(full_check=True)
        for kind, fitted, check in checks:
            if isinstance(part, kind) and fitted in vars(part):
                check(part)
    except WalkError:
        raise
    except Exception as error:  # an attribute that is missing, or something else than fit leaves there
        what = type(part).__name__
        raise _apart(f"those of {what} are not what its fit leaves behind ({type(error).__name__})") from None


def _boosting(model: Any) -> None:
    """Check gradient boosting: one column of trees per score, each tree with one value per node."""
    from sklearn.base import is_classifier
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.ensemble._gb import _init_raw_predictions
    from sklearn.tree import DecisionTreeRegressor

    trees, scores = model.estimators_, model.n_trees_per_iteration_
    classes = len(model.classes_) if is_classifier(model) else 1
    if not (trees.ndim == 2 and len(trees) and trees.shape[1] == scores == (classes if classes > 2 else 1)):
        raise _apart("boosting has not one column of trees per score")
    for tree in trees.ravel().tolist():
        own = type(tree) is DecisionTreeRegressor and tree.n_features_in_ == model.n_features_in_
        if not (own and tree.tree_.n_outputs == tree.tree_.max_n_classes == 1):
            raise _apart("a tree of boosting answers more than one number, or takes other columns")
    if isinstance(model.init_, str) and model.init_ == "zero":
        return
    if type(model.init_) not in (DummyClassifier, DummyRegressor):
        raise _apart("boosting starts from a model of its own, whose scores cannot be counted")
    start = _init_raw_predictions(np.zeros((2, 1)), model.init_, model._loss, is_classifier(model))
    if start.shape != (2, scores):
        raise _apart("boosting starts from another number of scores than it has trees for")


def _histograms(model: Any) -> None:
    """Check histogram boosting: a table of all columns, in which those that trees ask categories of have categories."""
    from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

    width, mapper = model.n_features_in_, model._bin_mapper
    if model._preprocessor is not None and not _keeps_columns(model._preprocessor, width):
        raise _apart("histogram boosting prepares columns in a way of its own, so that they cannot be counted")
    kinds = mapper.is_categorical_
    if type(mapper) is not _BinMapper or kinds.dtype not in (bool, np.uint8) or kinds.shape != (width,):
        raise _apart("histogram boosting does not say of each column whether it holds categories")
    for tree in (tree for trees in model._predictors for tree in trees):
        nodes = tree.nodes
        asks = nodes["is_categorical"].astype(bool) & ~nodes["is_leaf"].astype(bool)
        if not kinds[nodes["feature_idx"][asks]].all():
            raise _apart("a tree asks for a category of a column that has none")


def _keeps_columns(steps: Any, width: int) -> bool:
    """Tell whether columns are prepared as scikit-learn does it: categories encoded and moved to the front."""
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
    from sklearn.utils import check_array

    if (
        type(steps) is not ColumnTransformer
        or vars(steps).get("_name_to_fitted_passthrough")
        or steps.n_features_in_ != width
    ):
        return False
    names, kinds, masks = zip(*steps.transformers_[:2], strict=True)
    if any(other[:2] != ("remainder", "drop") for other in steps.transformers_[2:]):
        return False
    if names != ("encoder", "numerical") or [type(kind) for kind in kinds] != [OrdinalEncoder, FunctionTransformer]:
        return False
    function, (first, second) = kinds[1].func, (np.asarray(mask) for mask in masks)
    places = [steps._transformer_to_input_indices[name] for name in names]
    return (
        type(function) is partial
        and function.func is check_array
        and first.dtype == second.dtype == bool
        and first.shape == (width,)
        and np.array_equal(first, ~second)
        and np.array_equal(places[0], np.flatnonzero(first))
        and np.array_equal(places[1], np.flatnonzero(second))
    )


def _vectors(model: Any) -> None:
    """Check a support vector machine: as many coefficients and counts as vectors and classes."""
    from scipy.sparse import issparse

    vectors, counts, records = model.support_vectors_, np.asarray(model._n_support), np.asarray(model.support_)
    sparse, found, classes = bool(model._sparse), len(records), len(counts)
    pairs = classes * (classes - 1) // 2
    weights = model._dual_coef_
    alike = issparse(vectors) == issparse(weights) == sparse and weights.shape == (classes - 1, found)
    full = not sparse or len(weights.data) == (classes - 1) * found
    given = model.kernel == "precomputed" or callable(model.kernel)
    wide = vectors.shape == (found, 0 if given and not sparse else model.n_features_in_)
    if not (found and classes >= 2 and counts.ndim == records.ndim == 1 and alike and full and (wide or given)):
        raise _apart("support vectors and their coefficients differ in number")
    if vectors.shape[0] != found and not (given and vectors.size == 0):
        raise _apart("support vectors and their records differ in number")
    if model._impl in ("c_svc", "nu_svc") and not ((counts >= 0).all() and counts.sum(dtype=np.int64) == found):
        raise _apart("classes state other numbers of support vectors than there are")
    if not ((records >= 0) & (records < model.shape_fit_[0])).all():
        raise _apart("a support vector is none of the records")
    if np.shape(model._intercept_) != (pairs,) or not {np.shape(model._probA), np.shape(model._probB)} <= {
        (0,),
        (pairs,),
    }:
        raise _apart("a support vector machine has not one intercept per pair of classes")


def _apart(what: str) -> WalkError:
    return WalkError(f"holds numbers that do not fit together: {what}; save the model again")
