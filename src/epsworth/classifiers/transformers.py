"""What transformers make of columns: what each depends on, in which order, with which slope; category levels.

A rule may only claim what holds for the numbers that ``transform`` computes, rounding and all: an order is claimed
where comparisons, additions, multiplications and casts follow each other, each of which keeps or reverses the order of
doubles, and not where a library's power, logarithm or interpolation might be off by a unit at the wrong place.  What is
not known to keep an order is claimed to depend on its columns, and no more.

*Levels.*  LightGBM and XGBoost (3.1 or later) number a column's levels in the order of the data frame that they were
fitted on, and keep them.  A value is the level that equals it, whatever the kind of the table and the order of its own
categories; so is a number that a reader made of a level's text, or a text of a number.  Unknown levels are missing to
LightGBM, and refused by XGBoost, as their own ``predict`` has it.  In arrays, numbers are codes already.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.reading import (
    UNREADABLE,
    ClassifierError,
    Predict,
    Unsupported,
    ignoring_names,
    library_class,
    steps_of,
)
from epsworth.frames import as_frame, is_categorical
from epsworth.values import GAPS

if TYPE_CHECKING:
    import narwhals as nw


XGBOOST = ("XGBClassifier", "XGBRFClassifier")
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TRUTHS = {"true": True, "false": False}

CUT = "are cut: XGBoost counts letters beyond ASCII wrongly when fitted on pandas; fit it on a polars or Arrow table"

Levels = tuple[Any, ...]


class Codes(dict[Any, float]):
    """From values of a column to the codes of its levels, NaN where there is none; each value is looked at once."""

    def __init__(self, name: str, levels: Levels, second: Levels = (), *, closed: bool) -> None:
        super().__init__()
        for code, level in [*enumerate(levels), *enumerate(second)]:
            if level is not None and self.setdefault(level, float(code)) != code:
                raise ClassifierError(f"the levels of the column {name!r} in the model {CUT}")
        self.name, self.closed, self.cut = name, closed, bool(second) or None in levels
        self.numbers = {level: code for level, code in self.items() if not isinstance(level, str)}
        self.texts: dict[Any, list[str]] = {}
        for text in self.keys() - self.numbers.keys():
            if (number := _as_read(text)) is not None:
                self.texts.setdefault(number, []).append(text)

    def __missing__(self, value: Any) -> float:
        """Return the code of a value that equals no level."""
        if type(value).__name__ in GAPS or value != value:
            return np.nan
        code = self.numbers.get(_as_read(value)) if isinstance(value, str) else self._of_number(value)
        if code is None and self.closed:
            raise ClassifierError(
                f"the column {self.name!r} holds a level that the model was not fitted on, which XGBoost refuses; "
                f"{f'or its levels {CUT}' if self.cut else 'leave such records out, or fit the model on all levels'}"
            )
        return self.setdefault(value, np.nan if code is None else code)

    def _of_number(self, value: Any) -> float | None:
        """Return the code of the level whose text was read as a number; refuse where that text is not known."""
        same = self.texts.get(value, [])
        if len(same) == 1 and same[0].lower() in {str(value).lower(), f"{value:.0f}", f"{value:.1f}"}:
            return self[same[0]]
        if same or not (self.texts or self.numbers):
            raise ClassifierError(
                f"the column {self.name!r} holds numbers where the model knows texts; give the texts of its levels, as "
                "they were when it was fitted"
            )
        return None


def _as_read(text: str) -> int | float | bool | None:
    """Return the number or truth value that readers of tables make of a text; None where they leave it."""
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else _TRUTHS.get(text.lower())


@dataclass(frozen=True, eq=False)
class CategoryEncoder:
    """A step from tables to numbers, codes of levels among them.

    Attributes
    ----------
    names : tuple of str
        The columns that the model was fitted on, in order.
    levels : mapping
        Those of its columns of categories.
    second : mapping
        Other readings of what a model keeps of some of these.
    closed : bool
        Whether unknown levels are refused; else they are missing.
    unplaced : sequence of tuple
        Levels of columns that a model does not name: a table's own columns of categories have them, in order.
    doubtful : sequence of str
        Which columns these may be.
    """

    names: tuple[str, ...]
    levels: Mapping[str, Levels] = field(default_factory=dict)
    second: Mapping[str, Levels] = field(default_factory=dict)
    closed: bool = False
    unplaced: Sequence[Levels] = ()
    doubtful: Sequence[str] = ()
    _codes: dict[tuple[str, Levels], Codes] = field(default_factory=dict, init=False)

    def transform(self, records: Any) -> Floats:
        """Return the numbers and codes of records in their native container."""
        if getattr(records, "columns", getattr(records, "column_names", None)) is None:
            array = np.asarray(records)
            if array.dtype.kind in "fiub":
                return array.astype(np.float64)  # codes already
            return np.column_stack([self._of_objects(n, c) for n, c in zip(self.names, array.T, strict=True)])
        frame = as_frame(records)
        named = set(self.names) <= set(frame.columns)
        columns = [frame.get_column(name) for name in (self.names if named else frame.columns)]
        own = [name for name, column in zip(self.names, columns, strict=True) if is_categorical(column)]
        levels = self._placed(own)
        return np.column_stack(
            [
                self._codes_of(name, self._whole(name, levels[name], column), column.to_list())
                if name in levels
                else _numbers(name, column)
                for name, column in zip(self.names, columns, strict=True)
            ]
        )

    @property
    def codes(self) -> Bools:
        """Which columns hold codes of levels, or may."""
        return np.array([name in self.levels or name in self.doubtful for name in self.names], dtype=bool)

    def _placed(self, own: Sequence[str]) -> Mapping[str, Levels]:
        """Return the columns' levels, given a table's own columns of categories."""
        if len(self.unplaced) not in (0, len(own)):
            raise ClassifierError(
                f"the model was fitted on {len(self.unplaced)} columns of categories and does not say on which, and "
                f"the table has {len(own)}; give a data frame in which just these are categories"
            )
        return dict(zip(own, self.unplaced, strict=True)) if self.unplaced else self.levels

    def _whole(self, name: str, levels: Levels, column: nw.Series[Any]) -> Levels:
        """Return levels; where some are cut, a column's own categories if these are the others in the same order."""
        known = self.second.get(name, levels)
        kind = getattr(column.to_native(), "dtype", None)
        own = tuple(getattr(kind, "categories", ())) if None in known else ()
        same = len(own) == len(known) and all(level in (None, given) for level, given in zip(known, own, strict=True))
        return own if same and set(own) != set(levels) else levels

    def _codes_of(self, name: str, levels: Levels, values: Sequence[Any]) -> Floats:
        if (name, levels) not in self._codes:
            self._codes[name, levels] = Codes(name, levels, self.second.get(name, ()), closed=self.closed)
        codes = self._codes[name, levels]
        return np.array([codes[value] for value in values], dtype=np.float64)

    def _of_objects(self, name: str, values: NDArray[Any]) -> Floats:
        """Return a column of an array in which texts stand: those of categories are levels, numbers are codes."""
        column = values.astype(object)
        texts = np.array([isinstance(value, str) for value in column])
        if name in self.levels and texts.any():
            column[texts] = self._codes_of(name, self.levels[name], column[texts].tolist())
        return _as_numbers(name, column)


def _numbers(name: str, column: nw.Series[Any]) -> Floats:
    """Return a column of a frame that holds numbers, of whatever kind."""
    if column.dtype.is_numeric() or column.dtype.is_boolean():
        import narwhals as nw

        return np.asarray(column.cast(nw.Float64()).to_numpy(), dtype=np.float64)
    return _as_numbers(name, [""] if is_categorical(column) else column.to_list())  # whose codes are not its values


def _as_numbers(name: str, values: Iterable[Any]) -> Floats:
    """Return objects as numbers, NaN where there is none; refuse all others."""
    numbers = [np.nan if type(value).__name__ in GAPS else value for value in values]
    try:
        if not any(isinstance(value, (str, bytes)) for value in numbers):
            return np.array(list(map(float, numbers)), dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise ClassifierError(f"the column {name!r} does not hold numbers, which the model takes there")


def encoder_of(model: Any) -> CategoryEncoder | None:
    """Return the step from tables to what a booster takes; None where it does not say which levels it was fitted on."""
    kind = library_class(model)
    try:
        if kind in XGBOOST:
            return _xgboost_encoder(model)
        return _lightgbm_encoder(model) if kind == "LGBMClassifier" else None
    except UNREADABLE:
        return None


def _xgboost_encoder(model: Any) -> CategoryEncoder | None:
    """Return the step before an XGBoost classifier that was fitted on a data frame with categories."""
    booster = model.get_booster()
    if "c" not in (booster.feature_types or ()):
        return None
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    trees = learner["gradient_booster"]
    columns = trees.get("gbtree", trees).get("model", {}).get("cats", {}).get("enc", ())
    readings = [
        _texts(bytes(value % 256 for value in column["values"]), column["offsets"])
        if "offsets" in column
        else (tuple(column["values"]), ())
        for column in columns
    ]
    names = tuple(learner["feature_names"] or (f"x{i}" for i in range(len(readings))))
    first, second = ({n: own[i] for n, own in zip(names, readings, strict=bool(readings)) if own[i]} for i in (0, 1))
    return CategoryEncoder(names, first, second, closed=True) if first else None


def _texts(letters: bytes, ends: Sequence[int]) -> tuple[Levels, Levels]:
    """Return the texts between ends: as counts of bytes, and as counts of letters where these differ.

    XGBoost 3.1 and 3.2 count letters when they are fitted on pandas, and keep as many bytes: the last levels are then
    cut, and None here.
    """
    text = letters.decode(errors="ignore")
    by_letter = tuple(text[start:end] if end <= len(text) else None for start, end in itertools.pairwise(ends))
    if letters.isascii():
        return by_letter, ()
    try:
        return tuple(letters[start:end].decode() for start, end in itertools.pairwise(ends)), by_letter
    except UnicodeDecodeError:
        return by_letter, ()


def _lightgbm_encoder(model: Any) -> CategoryEncoder | None:
    """Return the step before a LightGBM classifier that was fitted on a data frame with categories.

    The model keeps the levels of such columns one after the other.  Which columns these were follows from those that
    it takes for categories; where it was told others, or orders of levels count as numbers, from the codes that it saw.
    """
    known = [tuple(levels) for levels in model.booster_.pandas_categorical or ()]
    if not known:
        return None
    text, names = model.booster_.model_to_string(num_iteration=1), tuple(model.booster_.feature_name())
    infos = re.findall(r"^feature_infos=(.*)$", text, re.MULTILINE)[0].split()
    named = re.findall(r"^\[categorical_feature: ([0-9,]+)\]$", text, re.MULTILINE)
    places = list(map(int, named[0].split(","))) if named else []
    if len(places) != len(known) or not all(map(_may_hold, [infos[at] for at in places], map(len, known))):
        places, last = _first_fit(infos, known), _first_fit(infos[::-1], known[::-1])
        if places != [len(infos) - 1 - at for at in last[::-1]]:  # several choices fit
            longest = max(map(len, known))
            doubtful = [name for name, info in zip(names, infos, strict=True) if _may_hold(info, longest)]
            return CategoryEncoder(names, unplaced=known, doubtful=doubtful)
    return CategoryEncoder(names, {names[at]: levels for at, levels in zip(places, known, strict=True)})


def _first_fit(infos: Sequence[str], known: Sequence[Levels]) -> list[int]:
    """Return the first columns in which levels may stand, in order."""
    places: list[int] = []
    for at, info in enumerate(infos):
        if len(places) < len(known) and _may_hold(info, len(known[len(places)])):
            places.append(at)
    return places


def _may_hold(info: str, count: int) -> bool:
    """Tell whether what LightGBM noted of a column, its values or their range, may be codes of so many levels."""
    seen = [] if info == "none" else list(map(float, info.strip("[]").split(":")))
    return all(value.is_integer() and -1 <= value < count for value in seen)


@dataclass(frozen=True, eq=False)
class EncodedPredict(Predict):
    """Ask a booster's own ``predict`` about the codes of a table."""

    encoder: CategoryEncoder

    def __call__(self, records: Any) -> Any:
        """Return what the model predicts."""
        return super().__call__(self.encoder.transform(records))


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
