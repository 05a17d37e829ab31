"""Checks that the doors of this part share: numbers, whole numbers, generators, declared classes; a sentence each.

No sentence shows a value of the data: what is named is the argument, its shape, its type, or a row's number.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth import arrays, numerals
from epsworth.arrays import Bools, Floats, as_floats
from epsworth.exposure.glm import ExposureError
from epsworth.numerals import short
from epsworth.results import Result
from epsworth.values import NUMBERS as NUMERIC
from epsworth.values import Categories, spelling

Classes = tuple[Any, Any]  # two labels, declared in public: (the one that is -1, the one that is +1)
TEXTS, NUMBERS = "US", "biuf"
WORDED, NUMBERED = "str(?!uct)|large_string|utf8|categorical|enum", r"u?int[0-9]|float|double|half|bool|decimal"
WIDTHS = {"float16|half": "f2", r"float32|float($|\[)": "f4", "float64|double": "f8"}  # by what libraries call them
NOT_PRIVATE = "computed from raw data: not private"

positive = partial(numerals.positive, error=ExposureError)
share = partial(numerals.share, error=ExposureError)


def numbers(values: ArrayLike, name: str) -> Floats:
    """Return an array of floats; what is masked counts as missing (NaN)."""
    try:
        if isinstance(values, np.ma.MaskedArray):
            return as_floats(np.ma.filled(values.astype(np.float64), np.nan))
        if np.iscomplexobj(values):
            raise TypeError
        return as_floats(values)
    except (TypeError, ValueError, OverflowError):
        raise ExposureError(f"{name} must be numbers; encode categories first (see epsworth.exposure.encode)") from None


def entries(X: Any) -> Floats:
    """Return a table of floats for a release: what is no number counts as missing (NaN), entry by entry.

    What is refused depends on the declared types of columns (texts, dates, categories, complex numbers) and on shapes.
    """
    kinds = [X.dtype] if hasattr(X, "dtype") else list(getattr(X, "dtypes", ()))
    odd = next((kind for kind in kinds if _no_number(kind)), None)
    if odd is not None:
        raise ExposureError(f"X has a column of type {odd}, must be numbers; encode it first (exposure.encode)")
    with np.errstate(all="ignore"):
        if kinds and all(isinstance(kind, np.dtype) and kind.kind in NUMBERS for kind in kinds):
            return as_floats(_table(numbers(X, "X")))
        return _by_entry(X if isinstance(X, (list, tuple)) else _table(_objects(X)))


def _by_entry(rows: Any) -> Floats:
    widths = {len(row) if _is_row(row) else -1 for row in rows}
    if len(widths) != 1 or widths & {-1, 0}:
        raise ExposureError("X must be a table of shape (rows, features): rows of one length; reshape it")
    return np.array([[_usable(entry) for entry in row] for row in rows], dtype=np.float64)


def _table(found: NDArray[Any]) -> NDArray[Any]:
    if found.ndim != 2 or found.shape[1] == 0:
        raise ExposureError(f"X must be a table of shape (rows, features), got shape {found.shape}; reshape it")
    return found


def _usable(entry: Any) -> float:
    """Return an entry as a double; NaN for what is none, whatever it is."""
    try:
        return math.nan if isinstance(entry, np.ndarray) else float(entry)
    except Exception:  # any value's own code may fail in any way, and a failure would tell of it
        return math.nan


def _no_number(kind: Any) -> bool:
    words = ("str", "string", "large_string", "category", "categorical", "enum", "date", "time", "duration", "utf8")
    return getattr(kind, "kind", "O") in TEXTS + "mMcV" or str(kind).lower().startswith(words)


def _objects(X: Any) -> NDArray[Any]:
    """Return entries as objects; what is masked is missing."""
    if isinstance(X, np.ma.MaskedArray):
        found = np.array(X.data, dtype=object)
        found[np.ma.getmaskarray(X)] = math.nan
    else:
        found = np.asarray(X, dtype=object)
    return found


def _is_row(row: Any) -> bool:
    return isinstance(row, (list, tuple)) or getattr(row, "ndim", 0) == 1


def finite(values: ArrayLike, name: str, shape: tuple[int | None, ...] | None = None) -> Floats:
    """Return an array without missing or infinite values, of a shape whose open sides are None."""
    found = numbers(values, name)
    if shape is not None and not (
        found.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, found.shape, strict=True))
    ):
        sides = ", ".join("any" if side is None else str(side) for side in shape)
        raise ExposureError(f"{name} must have shape ({sides}), got {found.shape}; reshape it")
    if not np.isfinite(found).all():
        raise ExposureError(f"{name} holds a missing or infinite value; give finite numbers")
    return found


def whole(name: str, value: Any, least: int, most: int = 10**18) -> int:
    """Return a whole number between two bounds."""
    try:
        found = operator.index(value)
    except TypeError:
        found = least - 1
    if isinstance(value, (bool, np.bool_)) or not least <= found <= most:
        upper = f" and at most {most:,}" if found > most else ""
        raise ExposureError(f"{name} must be a whole number of at least {least}{upper}, got {short(value)}")
    return found


def number(value: Any) -> float:
    """Return a number as a float; NaN for what is none, which fails every comparison."""
    try:
        return math.nan if isinstance(value, (str, bytes, bytearray)) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def weight_of(value: Any) -> float:
    """Return a penalty's weight as a float; NaN for a truth, too."""
    return math.nan if isinstance(value, (bool, np.bool_)) else number(value)


def generator(rng: Any) -> np.random.Generator:
    """Return the generator of a simulation, or say how to make one."""
    try:
        return arrays.generator(rng)
    except TypeError as error:
        raise ExposureError(str(error)) from None


class NotPrivate(Result):
    """A result computed from raw data, which says so."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON-able values (what is infinite as None), and that they are not private."""
        return {"notice": NOT_PRIVATE} | super().to_dict()


def check_classes(classes: Any) -> Classes:
    """Return two different labels, both numbers or both texts."""
    pair = tuple(classes) if isinstance(classes, (tuple, list, np.ndarray)) else ()
    texts = all(isinstance(label, str) for label in pair)
    if len(pair) != 2 or not (texts or all(math.isfinite(number(label)) for label in pair)) or pair[0] == pair[1]:
        raise ExposureError(
            "classes must be two different labels (first -1, then +1), both numbers or both texts, got "
            f"{short(classes)}"
        )
    return pair[0], pair[1]


def check_count(shape: Iterable[int], count: int) -> None:
    """Refuse labels that are not one for each row."""
    if tuple(shape) != (count,):
        raise ExposureError(f"y must hold one label per row, shape ({count},), got shape {tuple(shape)}")


def positives(y: Any, count: int, classes: Classes) -> Bools:
    """Return which labels are the second class; every other label, a missing one too, counts as the first.

    What is refused depends on the declared type and the shape of ``y`` only, whatever holds it.  A list, or a column of
    objects, declares no type: there a text counts as the number that it spells, and a number as its text.
    """
    check_count((len(y),) if isinstance(y, (list, tuple)) else getattr(y, "shape", np.shape(y)), count)
    kind, texts = _declared(y), isinstance(classes[1], str)
    if kind and (not re.match(f"{WORDED}|{NUMBERED}", kind) or bool(re.match(WORDED, kind)) != texts):
        raise ExposureError(f"y is of type {kind}, the declared classes are {classes!r}; declare those of y")
    first, wanted = (label.item() if isinstance(label, np.generic) else label for label in classes)
    if (width := next((width for name, width in WIDTHS.items() if kind and re.match(name, kind)), None)) is not None:
        with np.errstate(all="ignore"):
            first, wanted = (float(np.dtype(width).type(label)) for label in (first, wanted))
        if first == wanted:
            raise ExposureError(f"y is of type {kind}, to which the declared classes {classes!r} are one; recode them")
    same = partial(_same, wanted=wanted, codes=None if kind else Categories([first, wanted]))
    return np.fromiter(map(same, _listed(y)), dtype=np.bool_, count=count)


def _declared(y: Any) -> str:
    """Return the name of the type that a column declares, of its categories where it has such; empty where none."""
    kind = getattr(y, "dtype", getattr(y, "type", None))
    kind = getattr(getattr(kind, "categories", None), "dtype", kind)
    kind = getattr(kind, "value_type", kind) if str(kind).startswith("dictionary") else kind
    name = str(getattr(kind, "name", kind)).lower().removeprefix("sparse[")
    return "" if name in ("none", "object", "null") else name


def _listed(y: Any) -> Any:
    """Return labels one by one, as values of Python; what is masked is None."""
    for name in ("to_pylist", "tolist", "to_list"):  # of Arrow, of NumPy and pandas, of polars
        if hasattr(y, name):
            return getattr(y, name)()
    return y if isinstance(y, (list, tuple)) else np.asarray(y, dtype=object).tolist()


def _same(label: Any, wanted: Any, codes: Categories | None) -> bool:
    """Tell whether a label is the wanted one; a text, or a number, of no declared type by what it spells, too."""
    try:
        if isinstance(label, (np.float64, np.integer, np.bool_)):
            label = label.item()  # which compares whole numbers exactly
        if isinstance(label, Decimal) and isinstance(wanted, float):
            label = float(label)
        if codes is not None and isinstance(label, str) != isinstance(wanted, str):
            whole = type(label) in NUMERIC and label % 1 == 0
            told = {str(label), spelling(label), *([str(int(label))] if whole else [])}
            return any(codes.read(text) == wanted for text in told)
        return bool(label == wanted)
    except Exception:  # a missing value of some libraries equals nothing; other values fail in other ways
        return False
