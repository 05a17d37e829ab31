"""What is known of columns that are functions of a record's own: what they depend on, and in which way.

The rules of scikit-learn's transformers: what each makes of the columns that it is given.

A rule may only claim what holds for the numbers that ``transform`` computes, rounding and all: an order is claimed
where comparisons, additions, multiplications and casts follow each other, each of which keeps or reverses the order of
doubles, and not where a library's power, logarithm or interpolation might be off by a unit at the wrong place.  What is
not known to keep an order is claimed to depend on its columns, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.reading import UNREADABLE, Unsupported, ignoring_names, library_class, steps_of

Order = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Columns:
    """What is known of columns that are functions of a record's own, wherever these hold numbers or texts, not gaps.

    Attributes
    ----------
    uses : ndarray of bool, shape ``(width, d)``
        On which of the record's columns each one depends.
    order : ndarray of int8, shape ``(width,)``
        For one that depends on a single column: 1 where it never falls as that rises, -1 where it never rises, 0 where
        neither is known.
    slopes : ndarray, shape ``(width, d)``
        Change per unit of the record's columns; NaN where one is not an affine function of what it depends on.
    terms, constants : ndarray, shapes ``(width, d)`` and ``(width,)``
        An affine column is computed in steps whose absolute terms are at most ``terms @ |record| + constants``: what
        all its rounding errors are relative to.
    lost : ndarray of str, shape ``(width,)``
        The kind of the first step behind which a column has no order; empty where it has one.
    """

    uses: Bools
    order: Order
    slopes: Floats
    terms: Floats
    constants: Floats
    lost: NDArray[np.str_]

    @classmethod
    def of_records(cls, width: int) -> Self:
        """Return a record's own columns."""
        one = np.eye(width)
        return cls(one > 0, np.ones(width, dtype=np.int8), one, one, np.zeros(width), np.full(width, ""))

    @classmethod
    def joined(cls, parts: Sequence[Columns], width: int) -> Self:
        """Return the columns of several parts side by side, of records of a width."""
        parts = [cls.of_records(width).taken(np.arange(0)), *parts]
        fields = ("uses", "order", "slopes", "terms", "constants", "lost")
        return cls(*(np.concatenate([getattr(part, field) for part in parts]) for field in fields))

    def __len__(self) -> int:
        return len(self.uses)

    def taken(self, which: Any) -> Columns:
        """Return some of the columns, by positions (which may repeat) or a mask."""
        return Columns(
            self.uses[which], self.order[which], self.slopes[which], self.terms[which], self.constants[which],
            self.lost[which],
        )  # fmt: skip

    def scaled(self, scale: ArrayLike, shift: ArrayLike) -> Columns:
        """Return ``scale * column + shift``; a factor that is not finite leaves nothing known but the dependence."""
        scale, shift = (np.broadcast_to(np.asarray(part, dtype=np.float64), len(self)) for part in (scale, shift))
        known = np.isfinite(scale) & np.isfinite(shift)
        factor = np.where(known, scale, np.nan)[:, np.newaxis]
        with np.errstate(invalid="ignore"):
            return replace(
                self,
                order=np.where(known, np.sign(np.where(known, scale, 0)) * self.order, 0).astype(np.int8),
                slopes=np.where(self.uses, factor * self.slopes, 0.0),
                terms=np.where(self.uses, np.abs(factor) * self.terms, 0.0),
                constants=np.where(known, np.abs(scale) * self.constants + np.abs(shift), np.nan),
            )

    def bent(self, order: ArrayLike = 1) -> Columns:
        """Return functions of single columns that never fall (1), never rise (-1), or of which neither is known (0)."""
        return replace(
            self, order=(np.asarray(order) * self.order).astype(np.int8), slopes=np.where(self.uses, np.nan, 0.0),
            terms=np.where(self.uses, np.nan, 0.0), constants=np.full(len(self), np.nan),
        )  # fmt: skip

    def filled(self, values: Sequence[Any]) -> Columns:
        """Return the same columns, in which a value may stand for what is missing: sizes hold for that, too."""
        sizes = [abs(value) if isinstance(value, (float, int, np.number)) else 0.0 for value in values]
        return replace(self, constants=self.constants + np.nan_to_num(np.array(sizes, dtype=np.float64)))

    def bounded(self, size: float) -> Columns:
        """Return any functions of single columns that are exact, and no larger than a size."""
        found = self.bent(0)
        return replace(found, terms=np.zeros(found.terms.shape), constants=np.full(len(self), size))

    def constant(self, size: float) -> Columns:
        """Return functions of single columns that do not change, of a size."""
        nothing = np.zeros(self.slopes.shape)
        order = np.ones(len(self), dtype=np.int8)
        return replace(self, order=order, slopes=nothing, terms=nothing, constants=np.full(len(self), size))

    def mixed(self, matrix: Floats, shift: ArrayLike) -> Columns:
        """Return ``matrix @ columns + shift``; what a zero of the matrix stands before is not used."""
        used: Bools = np.asarray(matrix != 0)
        uses = (used.astype(np.intp) @ self.uses.astype(np.intp)) > 0
        bent = (used.astype(np.intp) @ np.where(np.isnan(self.slopes), 1, 0)) > 0
        unsized = (used.astype(np.intp) @ np.where(np.isnan(self.terms), 1, 0)) > 0
        slopes, terms = (np.nan_to_num(part, nan=0.0) for part in (self.slopes, self.terms))
        constants = np.where(used, np.abs(matrix) * self.constants, 0.0).sum(axis=1) + np.abs(shift)
        return Columns(
            uses, np.zeros(len(uses), dtype=np.int8), np.where(bent, np.nan, matrix @ slopes),
            np.where(unsized, np.nan, np.abs(matrix) @ terms), constants, np.full(len(uses), ""),
        )  # fmt: skip

    def blended(self, width: int) -> Columns:
        """Return as many functions of all columns together, of which no more is known."""
        uses = np.repeat(np.atleast_2d(self.uses.any(axis=0)), width, axis=0)
        return Columns(
            uses, np.zeros(width, dtype=np.int8), np.where(uses, np.nan, 0.0), np.where(uses, np.nan, 0.0),
            np.full(width, np.nan), np.full(width, ""),
        )  # fmt: skip

    def behind(self, step: str) -> Columns:
        """Return the columns with a step's name at those that lost their order in it."""
        here = (self.order == 0) & (self.lost == "") & self.uses.any(axis=1)
        return replace(self, lost=np.where(here, step, self.lost))

    def alone(self, position: int) -> NDArray[np.intp]:
        """Return the columns that depend on a record's column, and on nothing else."""
        return np.flatnonzero(self.uses[:, position] & (self.uses.sum(axis=1) == 1))


AFFINE = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")


def plain(step: Any) -> bool:
    """Tell whether a per-column scaler is affine: one that clips is not."""
    return not getattr(step, "clip", False)


def per_column(scaler: Any, width: int) -> tuple[Floats, Floats]:
    """Return the scale and the shift of a fitted scaler (one of `AFFINE`), shapes ``(width,)``."""
    kind, ones = library_class(scaler), np.ones(width)
    if kind == "MinMaxScaler":
        return scaler.scale_ * ones, scaler.min_ * ones
    used = {"StandardScaler": "with_std", "RobustScaler": "with_scaling"}.get(kind or "")  # asked by every transform
    spread = getattr(scaler, "scale_", None) if used is None or getattr(scaler, used) else None
    factor = ones if spread is None else ones / np.asarray(spread)
    centre = getattr(scaler, {"StandardScaler": "mean_", "RobustScaler": "center_"}.get(kind or "", ""), None)
    centred = getattr(
        scaler, {"StandardScaler": "with_mean", "RobustScaler": "with_centering"}.get(kind or "", ""), False
    )
    return factor, -factor * centre if centred and centre is not None else 0 * ones


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
    rule = RULES.get(library_class(step) or "")
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
    kind = library_class(step)
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
