"""The rules of scikit-learn's transformers: what each makes of the columns that it is given.

A rule may only claim what holds for the numbers that ``transform`` computes, rounding and all: an order is claimed
where comparisons, additions, multiplications and casts follow each other, each of which keeps or reverses the order of
doubles, and not where a library's power, logarithm or interpolation might be off by a unit at the wrong place.  What is
not known to keep an order is claimed to depend on its columns, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.classifiers.columns import Columns
from epsworth.classifiers.genuine import kind_of
from epsworth.classifiers.reading import UNREADABLE, Unsupported
from epsworth.classifiers.scalers import AFFINE, ignoring_names, per_column, plain, steps_of

Rule = Callable[[Any, Columns], Columns | None]
"""From a fitted step and the columns that it is given to those that it hands on; None: they may be any functions."""

INNER = "transformers_", "steps", "transformer_list"  # where steps hold further ones, each the second of a tuple

BY_SUMS = ("PCA", "TruncatedSVD", "Normalizer")  # a row alone may be added up in another order than among others


def stepped(step: Any, given: Columns, width: int | None = None) -> Columns:
    """Return what a fitted step makes of columns, or why that is not known.

    Parameters
    ----------
    width : int, optional
        How many columns it hands on, where whoever holds the step knows that.

    Notes
    -----
    A step without a rule, and one that answers by code of its own, may be any function of all that it is given: that
    is no obstacle where it is given public columns only.
    """
    rule = RULES.get(kind_of(step) or "")
    try:
        found = None if rule is None else rule(step, given)
        if found is None:
            found = given.blended(len(step.get_feature_names_out()) if width is None else width)
    except UNREADABLE:  # or not fitted
        raise Unsupported(f"the step {type(step).__name__} does not hold what it should") from None
    if width is not None and len(found) != width:
        raise Unsupported(f"the step {type(step).__name__} hands on another number of columns than it should")
    return found.behind(type(step).__name__)


def all_stepped(steps: Sequence[Any], given: Columns) -> Columns:
    """Return what fitted steps make of columns, one after the other."""
    for step in steps:
        given = stepped(step, given)
    return given


def parts_of(step: Any) -> list[Any]:
    """Return the steps that a step holds."""
    parts = [part[1] for name in INNER for part in getattr(step, name, None) or ()]
    return [part for part in parts if part is not None and not isinstance(part, str)]


def row_by_row(step: Any) -> bool:
    """Tell whether a step takes each row by itself to the last bit, all of its code being the library's."""
    kind = kind_of(step)
    alone = kind not in BY_SUMS and (kind != "FunctionTransformer" or step.func is None or _elementwise(step))
    return kind in RULES and alone and all(row_by_row(part) for part in parts_of(step))


def _scaler(step: Any, given: Columns) -> Columns:
    found = given.scaled(*per_column(step, len(given)))
    return found if plain(step) else given.bent(found.order * given.order)


def _function(step: Any, given: Columns) -> Columns | None:
    """Return the columns themselves, or functions of single ones where a ufunc (``np.log1p``) is applied."""
    if step.func is None:
        return given
    return given.bent(0) if _elementwise(step) else None


def _elementwise(step: Any) -> bool:
    function = step.func
    if not isinstance(function, np.ufunc) or function.signature is not None or step.kw_args:
        return False
    native = any("O" not in kinds for kinds in function.types)  # else somebody's own Python
    return native and (function.nin, function.nout) == (1, 1)


def _imputer(step: Any, given: Columns) -> Columns:
    """Return the columns that are not empty; a number that stands for a gap (0, -1) breaks the order."""
    empty = np.array([_is_nan(value) for value in step.statistics_], dtype=bool)
    values = given.filled(step.statistics_) if _stands_for_nothing(step.missing_values) else given.bent(0)
    found = values if step.keep_empty_features else values.taken(~empty)
    if not step.add_indicator:
        return found
    return Columns.joined([found, _indicator(step.indicator_, given)], given.uses.shape[1])


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _stands_for_nothing(missing: Any) -> bool:
    """Tell whether what an imputer takes for a gap is no number that may be released."""
    return missing is None or _is_nan(missing) or type(missing).__name__ == "NAType"


def _indicator(step: Any, given: Columns) -> Columns:
    """Return indicators of gaps: constant wherever there is none."""
    chosen = given.taken(np.asarray(step.features_, dtype=np.intp))
    return chosen.constant(1.0) if _stands_for_nothing(step.missing_values) else chosen.bent(0)


def _bins(step: Any, given: Columns) -> Columns:
    """Return places of bins, or an indicator of each: the first one's falls, the last one's rises."""
    if step.encode == "ordinal":
        return given.bent()
    counts = np.asarray(step.n_bins_, dtype=np.intp)
    orders = [np.concatenate([[-1], np.zeros(max(k - 2, 0)), [1]]) if k > 1 else np.ones(1) for k in counts]
    return given.taken(np.repeat(np.arange(len(given)), counts)).bent(np.concatenate(orders))


def _one_hot(step: Any, given: Columns) -> Columns:
    return given.taken(np.repeat(np.arange(len(given)), np.asarray(step._n_features_outs, dtype=np.intp))).bounded(1.0)


def _target_encoder(step: Any, given: Columns) -> Columns:
    times = len(step.classes_) if step.target_type_ == "multiclass" else 1
    return given.taken(np.repeat(np.arange(len(given)), times)).bent(0)


def _splines(step: Any, given: Columns) -> Columns:
    return given.taken(np.repeat(np.arange(len(given)), step.n_features_out_ // len(given))).bent(0)


def _each(step: Any, given: Columns) -> Columns:
    return given.bent(0)


def _quantiles(step: Any, given: Columns) -> Columns:
    """Tell that uniform quantiles never fall, where they do not at their knots.

    Between two knots ``np.interp`` computes ``slope * (x - knot) + value``, which doubles keep in order; its end may
    lie a last bit beyond the next knot's value, so the doubles beside all knots are asked about.
    """
    knots, values = np.asarray(step.quantiles_, dtype=np.float64), np.asarray(step.references_, dtype=np.float64)
    if step.output_distribution != "uniform" or step.ignore_implicit_zeros or (np.diff(values) < 0).any():
        return given.bent(0)
    near = np.sort(np.concatenate([np.nextafter(knots, -np.inf), knots, np.nextafter(knots, np.inf)]), axis=0)
    with ignoring_names():
        found = np.asarray(step.transform(near))
    sorted_, rises = (np.diff(knots, axis=0) >= 0).all(axis=0), (np.diff(found, axis=0) >= 0).all(axis=0)
    return given.bent(sorted_ & rises)


def _binarizer(step: Any, given: Columns) -> Columns:
    return given.bent()


def _mixing(step: Any, given: Columns) -> Columns:
    return given.blended(len(given))


def _selector(step: Any, given: Columns) -> Columns:
    return given.taken(np.asarray(step.get_support(), dtype=bool))


def _components(step: Any, given: Columns) -> Columns:
    """Return principal components: products with the record, less those with the mean, scaled where whitened."""
    matrix = np.asarray(step.components_, dtype=np.float64)
    mean = getattr(step, "mean_", None)
    mean = np.zeros(matrix.shape[1]) if mean is None else np.asarray(mean, dtype=np.float64)
    shift: Floats = np.abs(matrix) @ np.abs(mean)
    if getattr(step, "whiten", False):
        spread = np.sqrt(step.explained_variance_)  # in the precision in which it was fitted, as the step does
        scale = 1 / np.maximum(spread, np.finfo(spread.dtype).eps).astype(np.float64)
        matrix, shift = matrix * scale[:, np.newaxis], shift * scale
    return given.mixed(matrix, shift)


def _polynomials(step: Any, given: Columns) -> Columns:
    """Return the columns themselves, a constant, and products of which no more is known than what they depend on."""
    parts = []
    for powers in np.asarray(step.powers_):
        used = given.taken(powers > 0)
        if powers.sum() == 0:
            parts.append(given.mixed(np.zeros((1, len(given))), 1.0))
        else:
            parts.append(used if powers.sum() == 1 else used.blended(1))
    return Columns.joined(parts, given.uses.shape[1])


def _pipeline(step: Any, given: Columns) -> Columns:
    last, before = steps_of(step)
    steps = [*before, *([] if last is None or isinstance(last, str) else [last])]
    return all_stepped(steps, given)


def _union(step: Any, given: Columns) -> Columns:
    parts, weights = [], step.transformer_weights or {}
    for name, inner in step.transformer_list:
        if isinstance(inner, str) and inner == "drop":
            continue
        found = given if isinstance(inner, str) else stepped(inner, given)
        parts.append(found if weights.get(name) is None else found.scaled(weights[name], 0.0))
    return Columns.joined(parts, given.uses.shape[1])


def _by_columns(step: Any, given: Columns) -> Columns:
    """Return what the branches hand on, side by side, in the places that the fitted step notes."""
    width, weights = given.uses.shape[1], step.transformer_weights or {}
    parts: list[tuple[slice, Columns]] = []
    for name, inner, _ in step.transformers_:
        place = step.output_indices_[name]
        chosen = given.taken(np.asarray(step._transformer_to_input_indices[name], dtype=np.intp))
        if place.stop == place.start or (isinstance(inner, str) and inner == "drop"):
            continue
        count = place.stop - place.start
        found = chosen if isinstance(inner, str) else stepped(inner, chosen, count)
        parts.append((place, found if weights.get(name) is None else found.scaled(weights[name], 0.0)))
    ordered = [found for _, found in sorted(parts, key=lambda part: part[0].start)]
    return Columns.joined(ordered, width)


ELEMENTWISE = ("OrdinalEncoder", "PowerTransformer")
SELECTORS = (
    *("SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe", "GenericUnivariateSelect"),
    *("VarianceThreshold", "SelectFromModel", "RFE", "RFECV", "SequentialFeatureSelector"),
)
RULES: dict[str, Rule] = {
    **dict.fromkeys(AFFINE, _scaler),
    **dict.fromkeys(ELEMENTWISE, _each),
    **dict.fromkeys(SELECTORS, _selector),
    **dict.fromkeys(("PCA", "TruncatedSVD"), _components),
    "ColumnTransformer": _by_columns,
    "Pipeline": _pipeline,
    "FeatureUnion": _union,
    "FunctionTransformer": _function,
    "SimpleImputer": _imputer,
    "MissingIndicator": _indicator,
    "Binarizer": _binarizer,
    "KBinsDiscretizer": _bins,
    "QuantileTransformer": _quantiles,
    "OneHotEncoder": _one_hot,
    "TargetEncoder": _target_encoder,
    "SplineTransformer": _splines,
    "Normalizer": _mixing,
    "PolynomialFeatures": _polynomials,
}
