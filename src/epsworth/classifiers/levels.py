"""Category levels: tables as boosters take them, where each value of a category is the code of its level.

LightGBM and XGBoost (3.1 or later) number a column's levels in the order of the data frame that they were fitted on,
and keep them.  A value is the level that equals it, whatever the kind of the table and the order of its own categories;
so is a number that a reader made of a level's text, or a text of a number.  Unknown levels are missing to LightGBM, and
refused by XGBoost, as their own ``predict`` has it.  In arrays, numbers are codes already.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.answers import ClassifierError
from epsworth.classifiers.reading import UNREADABLE, Predict, library_class
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
