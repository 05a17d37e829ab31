"""What scikit-learn's transformers make of columns: what each depends on, in which order, with which slope.

A rule may only claim what holds for the numbers that ``transform`` computes, rounding and all: an order is claimed
where comparisons, additions, multiplications and casts follow each other, each of which keeps or reverses the order of
doubles, and not where a library's power, logarithm or interpolation might be off by a unit at the wrong place.  What is
not known to keep an order is claimed to depend on its columns, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.reading import UNREADABLE, Unsupported, ignoring_names, library_class, steps_of

AFFINE = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
SWITCHES = {  # of scalers, which every transform asks: whether they scale, and centre, and by what
    "StandardScaler": ("with_std", "with_mean", "mean_"),
    "RobustScaler": ("with_scaling", "with_centering", "center_"),
}
INNER = "transformers_", "steps", "transformer_list"  # where steps hold further ones, each the second of a tuple
BY_SUMS = ("PCA", "TruncatedSVD", "Normalizer")  # a row alone may be added up in another order than among others


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
    order: NDArray[np.int8]
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
    def stack(cls, parts: Iterable[Columns], width: int) -> Self:
        """Return the columns of several parts side by side, of records of a width."""
        parts = [cls.of_records(width).take(np.arange(0)), *parts]
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def __len__(self) -> int:
        return len(self.uses)

    def take(self, which: Any) -> Columns:
        """Return some of the columns, by positions (which may repeat) or a mask."""
        return Columns(
            self.uses[which], self.order[which], self.slopes[which], self.terms[which], self.constants[which],
            self.lost[which],
        )  # fmt: skip

    def scaled(self, scale: ArrayLike, shift: ArrayLike = 0.0) -> Columns:
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

    def bent(self, order: ArrayLike) -> Columns:
        """Return functions of single columns that never fall (1), never rise (-1), or of which neither is known (0)."""
        unknown = np.where(self.uses, np.nan, 0.0)
        return replace(
            self, order=(np.asarray(order) * self.order).astype(np.int8), slopes=unknown, terms=unknown,
            constants=np.full(len(self), np.nan),
        )  # fmt: skip

    def filled(self, values: Sequence[Any]) -> Columns:
        """Return the same columns, in which a value may stand for what is missing: sizes hold for that, too."""
        sizes = [abs(value) if isinstance(value, (float, int, np.number)) else 0.0 for value in values]
        return replace(self, constants=self.constants + np.nan_to_num(np.array(sizes, dtype=np.float64)))

    def bounded(self, size: float) -> Columns:
        """Return any functions of single columns that are exact, and no larger than a size."""
        return replace(self.bent(0), terms=np.zeros(self.terms.shape), constants=np.full(len(self), size))

    def constant(self, size: float) -> Columns:
        """Return functions of single columns that do not change, of a size."""
        nothing = np.zeros(self.slopes.shape)
        return replace(self.bounded(size), order=np.ones(len(self), dtype=np.int8), slopes=nothing, terms=nothing)

    def mixed(self, matrix: Floats, shift: ArrayLike) -> Columns:
        """Return ``matrix @ columns + shift``; what a zero of the matrix stands before is not used."""
        used = (matrix != 0).astype(np.intp)
        bent, unsized = (used @ np.isnan(part).astype(np.intp) > 0 for part in (self.slopes, self.terms))
        slopes, terms = (np.nan_to_num(part, nan=0.0) for part in (self.slopes, self.terms))
        constants = np.where(used, np.abs(matrix) * self.constants, 0.0).sum(axis=1) + np.abs(shift)
        return Columns(
            used @ self.uses.astype(np.intp) > 0, np.zeros(len(matrix), dtype=np.int8),
            np.where(bent, np.nan, matrix @ slopes), np.where(unsized, np.nan, np.abs(matrix) @ terms), constants,
            np.full(len(matrix), ""),
        )  # fmt: skip

    def blended(self, width: int) -> Columns:
        """Return as many functions of all columns together, of which no more is known."""
        uses = np.repeat(np.atleast_2d(self.uses.any(axis=0)), width, axis=0)
        unknown = np.where(uses, np.nan, 0.0)
        order, constants = np.zeros(width, dtype=np.int8), np.full(width, np.nan)
        return Columns(uses, order, unknown, unknown, constants, np.full(width, ""))

    def behind(self, step: str) -> Columns:
        """Return the columns with a step's name at those that lost their order in it."""
        here = (self.order == 0) & (self.lost == "") & self.uses.any(axis=1)
        return replace(self, lost=np.where(here, step, self.lost))

    def depending_only_on(self, position: int) -> NDArray[np.intp]:
        """Return the columns that depend on a record's column, and on nothing else."""
        return np.flatnonzero(self.uses[:, position] & (self.uses.sum(axis=1) == 1))


def stepped(step: Any, columns: Columns, width: int | None = None) -> Columns:
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
    name, rule = type(step).__name__, RULES.get(library_class(step) or "")
    try:
        result = None if rule is None else rule(step, columns)
        if result is None:
            result = columns.blended(len(step.get_feature_names_out()) if width is None else width)
    except UNREADABLE:  # or not fitted
        raise Unsupported(f"the step {name} does not hold what it should") from None
    if width is not None and len(result) != width:
        raise Unsupported(f"the step {name} hands on another number of columns than it should")
    return result.behind(name)


def all_stepped(steps: Iterable[Any], columns: Columns) -> Columns:
    """Return what fitted steps make of columns, one after the other."""
    for step in steps:
        columns = stepped(step, columns)
    return columns


def parts_of(step: Any) -> list[Any]:
    """Return the steps that a step holds."""
    parts = [part[1] for name in INNER for part in getattr(step, name, None) or ()]
    return [part for part in parts if part is not None and not isinstance(part, str)]


def row_by_row(step: Any) -> bool:
    """Tell whether a step takes each row by itself to the last bit, all of its code being the library's."""
    kind = library_class(step)
    by_itself = kind not in BY_SUMS and (kind != "FunctionTransformer" or step.func is None or _elementwise(step))
    return kind in RULES and by_itself and all(map(row_by_row, parts_of(step)))


def per_column(scaler: Any, width: int) -> tuple[Floats, Floats]:
    """Return the scale and the shift of a fitted scaler (one of `AFFINE`), shapes ``(width,)``."""
    kind, ones = library_class(scaler), np.ones(width)
    if kind == "MinMaxScaler":
        return scaler.scale_ * ones, scaler.min_ * ones
    scales, centres, centre = SWITCHES.get(kind or "", ("", "", ""))
    spread = scaler.scale_ if getattr(scaler, scales, True) else None
    factor = ones if spread is None else ones / np.asarray(spread)
    middle = getattr(scaler, centre, None) if getattr(scaler, centres, False) else None
    return factor, 0 * ones if middle is None else -factor * middle


def _scaler(step: Any, columns: Columns) -> Columns:
    result = columns.scaled(*per_column(step, len(columns)))
    return columns.bent(result.order * columns.order) if getattr(step, "clip", False) else result


def _function(step: Any, columns: Columns) -> Columns | None:
    """Return the columns themselves, or functions of single ones where a ufunc (``np.log1p``) is applied."""
    if step.func is None:
        return columns
    return columns.bent(0) if _elementwise(step) else None


def _elementwise(step: Any) -> bool:
    function = step.func
    if not isinstance(function, np.ufunc) or function.signature is not None or step.kw_args:
        return False
    native = any("O" not in kinds for kinds in function.types)  # else somebody's own Python
    return native and (function.nin, function.nout) == (1, 1)


def _imputer(step: Any, columns: Columns) -> Columns:
    """Return the columns that are not empty; a number that stands for a gap (0, -1) breaks the order."""
    values = columns.filled(step.statistics_) if _means_nothing(step.missing_values) else columns.bent(0)
    if not step.keep_empty_features:
        values = values.take(np.array([not _is_nan(value) for value in step.statistics_], dtype=bool))
    if not step.add_indicator:
        return values
    return Columns.stack([values, _indicator(step.indicator_, columns)], columns.uses.shape[1])


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _means_nothing(missing: Any) -> bool:
    """Tell whether what an imputer takes for a gap is no number that may be released."""
    return missing is None or _is_nan(missing) or type(missing).__name__ == "NAType"


def _indicator(step: Any, columns: Columns) -> Columns:
    """Return indicators of gaps: constant wherever there is none."""
    own = columns.take(np.asarray(step.features_, dtype=np.intp))
    return own.constant(1.0) if _means_nothing(step.missing_values) else own.bent(0)


def _repeated(columns: Columns, times: Any) -> Columns:
    return columns.take(np.repeat(np.arange(len(columns)), np.asarray(times, dtype=np.intp)))


def _bins(step: Any, columns: Columns) -> Columns:
    """Return places of bins, or an indicator of each: the first one's falls, the last one's rises."""
    if step.encode == "ordinal":
        return columns.bent(1)
    orders = [np.concatenate([[-1], np.zeros(max(k - 2, 0)), [1]]) if k > 1 else np.ones(1) for k in step.n_bins_]
    return _repeated(columns, step.n_bins_).bent(np.concatenate(orders))


def _target_encoder(step: Any, columns: Columns) -> Columns:
    return _repeated(columns, len(step.classes_) if step.target_type_ == "multiclass" else 1).bent(0)


def _quantiles(step: Any, columns: Columns) -> Columns:
    """Tell that uniform quantiles never fall, where they do not at their knots.

    Between two knots ``np.interp`` computes ``slope * (x - knot) + value``, which doubles keep in order; its end may
    lie a last bit beyond the next knot's value, so the doubles beside all knots are asked about.
    """
    knots, values = np.asarray(step.quantiles_, dtype=np.float64), np.asarray(step.references_, dtype=np.float64)
    if step.output_distribution != "uniform" or step.ignore_implicit_zeros or (np.diff(values) < 0).any():
        return columns.bent(0)
    near = np.sort(np.concatenate([np.nextafter(knots, -np.inf), knots, np.nextafter(knots, np.inf)]), axis=0)
    with ignoring_names():
        answers = np.asarray(step.transform(near))
    return columns.bent((np.diff(knots, axis=0) >= 0).all(axis=0) & (np.diff(answers, axis=0) >= 0).all(axis=0))


def _components(step: Any, columns: Columns) -> Columns:
    """Return principal components: products with the record, less those with the mean, scaled where whitened."""
    matrix = np.asarray(step.components_, dtype=np.float64)
    mean = getattr(step, "mean_", None)
    shift: Floats = np.abs(matrix) @ np.abs(np.zeros(matrix.shape[1]) if mean is None else mean.astype(np.float64))
    if getattr(step, "whiten", False):
        spread = np.sqrt(step.explained_variance_)  # in the precision in which it was fitted, as the step does
        scale = 1 / np.maximum(spread, np.finfo(spread.dtype).eps).astype(np.float64)
        matrix, shift = matrix * scale[:, np.newaxis], shift * scale
    return columns.mixed(matrix, shift)


def _polynomials(step: Any, columns: Columns) -> Columns:
    """Return the columns themselves, a constant, and products of which no more is known than what they depend on."""
    parts = []
    for powers in np.asarray(step.powers_):
        used = columns.take(powers > 0)
        if powers.sum() == 0:
            parts.append(columns.mixed(np.zeros((1, len(columns))), 1.0))
        else:
            parts.append(used if powers.sum() == 1 else used.blended(1))
    return Columns.stack(parts, columns.uses.shape[1])


def _pipeline(step: Any, columns: Columns) -> Columns:
    last, before = steps_of(step)
    return all_stepped([*before, *([] if last is None or isinstance(last, str) else [last])], columns)


def _weighted(step: Any, name: str, inner: Any, columns: Columns, width: int | None = None) -> Columns:
    """Return what a branch makes of its columns, which pass where it is a text, times its weight if it has one."""
    result = columns if isinstance(inner, str) else stepped(inner, columns, width)
    weight = (step.transformer_weights or {}).get(name)
    return result if weight is None else result.scaled(weight)


def _union(step: Any, columns: Columns) -> Columns:
    branches = [(name, inner) for name, inner in step.transformer_list if not isinstance(inner, str) or inner != "drop"]
    return Columns.stack([_weighted(step, *branch, columns) for branch in branches], columns.uses.shape[1])


def _by_columns(step: Any, columns: Columns) -> Columns:
    """Return what the branches hand on, side by side, in the places that the fitted step notes."""
    parts: list[tuple[int, Columns]] = []
    for name, inner, _ in step.transformers_:
        place = step.output_indices_[name]
        own = columns.take(np.asarray(step._transformer_to_input_indices[name], dtype=np.intp))
        if place.stop > place.start and not (isinstance(inner, str) and inner == "drop"):
            parts.append((place.start, _weighted(step, name, inner, own, place.stop - place.start)))
    return Columns.stack([part for _, part in sorted(parts, key=lambda part: part[0])], columns.uses.shape[1])


SELECTORS = (
    *("SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe", "GenericUnivariateSelect"),
    *("VarianceThreshold", "SelectFromModel", "RFE", "RFECV", "SequentialFeatureSelector"),
)
RULES: dict[str, Callable[[Any, Columns], Columns | None]] = {
    **dict.fromkeys(AFFINE, _scaler),
    **dict.fromkeys(("OrdinalEncoder", "PowerTransformer"), lambda step, columns: columns.bent(0)),
    **dict.fromkeys(SELECTORS, lambda step, columns: columns.take(np.asarray(step.get_support(), dtype=bool))),
    **dict.fromkeys(("PCA", "TruncatedSVD"), _components),
    "ColumnTransformer": _by_columns,
    "Pipeline": _pipeline,
    "FeatureUnion": _union,
    "FunctionTransformer": _function,
    "SimpleImputer": _imputer,
    "MissingIndicator": _indicator,
    "Binarizer": lambda step, columns: columns.bent(1),
    "KBinsDiscretizer": _bins,
    "QuantileTransformer": _quantiles,
    "OneHotEncoder": lambda step, columns: _repeated(columns, step._n_features_outs).bounded(1.0),
    "TargetEncoder": _target_encoder,
    "SplineTransformer": lambda step, columns: _repeated(columns, step.n_features_out_ // len(columns)).bent(0),
    "Normalizer": lambda step, columns: columns.blended(len(columns)),
    "PolynomialFeatures": _polynomials,
}
"""From a fitted step and the columns that it is given to those that it hands on; None: they may be any functions."""
