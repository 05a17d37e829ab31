"""One value of a record: a number, a word, a gap, or something else, told by its exact type alone.

Total functions: nothing is raised or warned of, and no value's own code is asked what it is.  What a sensitive value is
must not show in whether a record is refused, nor in what is said of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats

_OF_NUMPY = frozenset(np.sctypeDict.values())
NUMBERS = frozenset({int, float, Decimal, Fraction}) | {
    kind for kind in _OF_NUMPY if issubclass(kind, (np.integer, np.floating)) and not issubclass(kind, np.timedelta64)
}
WORDS = NUMBERS | {str, bool, np.str_, np.bool_}
GAPS = frozenset({"NoneType", "NAType", "NaTType"})  # pandas' among them
MISSING = ("", "NA", "N/A", "NaN", "nan", "null")  # texts of CSV that are gaps, unless a category is spelt so
UNDECLARED = object()
DIGITS = 300  # of a whole number: more are no category, and beyond 308 no double
TRUTHS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
PLAIN = "fiu"  # kinds of arrays whose values are numbers all
NUMBER = re.compile(r"[ \t]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*")
OR_INFINITE = re.compile(rf"{NUMBER.pattern}|[ \t]*[+-]?(?i:inf|infinity)[ \t]*")  # where nobody declares a range
NO_NUMBER = "the value is not a number; repair the row, or declare the column's categories"


def is_missing(value: Any) -> bool:
    """Tell None, NaN and the missing values of data frames from all others.

    Examples
    --------
    >>> [is_missing(value) for value in (None, float("nan"), np.datetime64("NaT"), Decimal("sNaN"), "", [float("nan")])]
    [True, True, True, True, False, False]
    """
    kind = type(value)
    if kind is Decimal:
        return bool(value.is_nan())  # a signalling one raises where it is compared
    if kind in (np.datetime64, np.timedelta64):
        return bool(np.isnat(value))
    return kind.__name__ in GAPS or (kind in NUMBERS and bool(value != value))


def number(value: Any) -> float:
    """Return a number as a double, infinite where it is too large for one, and NaN for everything else.

    Examples
    --------
    >>> [number(value) for value in (3, Decimal("0.5"), 10**400, "3", True, [3], Decimal("sNaN"))]
    [3.0, 0.5, inf, nan, nan, nan, nan]
    """
    if type(value) not in NUMBERS:
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    except ValueError:  # a signalling NaN
        return float("nan")


def spelt_number(value: Any, spelt: re.Pattern[str] = NUMBER) -> float:
    """Return a number as a table may hold it: a text may spell one, and no truth is one.

    Examples
    --------
    >>> [spelt_number(value) for value in (3, " 3.5 ", b"4", True, "1e400", "nan", "3 years", None)]
    [3.0, 3.5, 4.0, nan, inf, nan, nan, nan]
    """
    kind = type(value)
    if kind in (bytes, np.bytes_):
        value, kind = value.decode("latin-1"), str
    if kind in (str, np.str_):
        return float(value) if spelt.fullmatch(value) else float("nan")
    return number(value)


def whole_number(digits: str) -> int | float:
    """Read a whole number, one of very many digits as a double."""
    return int(digits) if len(digits) <= DIGITS else float(digits)


def numbers(values: Any, read: Callable[[Any], float] = spelt_number) -> Floats:
    """Return values as doubles, NaN for all that are no numbers.

    Parameters
    ----------
    values : array of shape ``(n,)``, or iterable of any values
    read : callable
        How a single value is read where they are not numbers all.
    """
    with np.errstate(all="ignore"):  # of signalling NaNs, of what is too large or small
        if isinstance(values, np.ndarray) and values.dtype.kind in PLAIN:
            return values.astype(np.float64)
        return np.array([read(value) for value in items(values)], dtype=np.float64)


def items(values: Any) -> Iterable[Any]:
    """Return the values of an array, or any others as they are."""
    if not isinstance(values, np.ndarray):
        found: Iterable[Any] = values
        return found
    return list(values) if values.dtype.kind in "mM" else values.tolist()  # some times would become whole numbers


class Categories:
    """Declared categories, as the texts of a CSV spell them.

    Examples
    --------
    >>> codes = Categories(["NA", "01001", 7, True])
    >>> [codes.read(text) for text in ("NA", "01001", "7.0", "true", "null")]
    ['NA', '01001', 7, True, None]
    >>> codes.read("1001") is UNDECLARED
    True
    """

    def __init__(self, categories: Sequence[Any]) -> None:
        self._texts = {spelling(value): value for value in categories}
        self._texts |= {str(value): value for value in categories if isinstance(value, bool)}  # True, as Python has it
        self._numbers = {float(value): value for value in categories if isinstance(value, (int, float))}

    def read(self, text: str) -> Any:
        """Return the category that a text spells; None for a gap, `UNDECLARED` for any other text."""
        if text in self._texts:
            return self._texts[text]
        if text in MISSING:
            return None
        found = TRUTHS[text] if text in TRUTHS else spelt_number(text)  # 1.0, and a truth, stand for the category 1
        return self._numbers.get(found, UNDECLARED)


def spelling(value: Any) -> str:
    """Return the text of CSV that stands for a category."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def written(value: Any) -> Any:
    """Return a number as people write it, 35 for 35.0; any other value as it is.

    Examples
    --------
    >>> written(35.0), written(0.1), written("nurse")
    ('35', '0.1', 'nurse')
    """
    return f"{value:.15g}" if isinstance(value, float) else value


def label_array(values: Any, name: str = "labels") -> NDArray[Any]:
    r"""Return labels as an array of their own kind, whatever holds them; refuse two that it makes one, by no value.

    An array is of the kind that it says.  All else is read value by value, as `plain_array` does, doubles staying such:
    NumPy would make one text of 1 and "1", and of "a" and "a\0".

    Examples
    --------
    >>> label_array([2**53, 2**53 + 1, 1.0]).tolist(), label_array((1, "1")).tolist(), label_array([0.0, 1.0]).tolist()
    ([9007199254740992, 9007199254740993, 1], [1, '1'], [0.0, 1.0])
    >>> label_array([0, 2**70, 2**70 + 1])
    Traceback (most recent call last):
        ...
    ValueError: two labels are one number of double precision; recode them
    """
    try:
        given = np.asarray(values, dtype=object if isinstance(values, (list, tuple)) else None)
        given = given if isinstance(values, np.ndarray) or given.dtype.kind != "U" else np.asarray(values, dtype=object)
    except Exception:  # numbers of a type that NumPy does not have
        given = np.array(list(values), dtype=object)
    if given.dtype != object:
        return given
    labels = given.reshape(-1).tolist()
    if any(isinstance(value, (list, tuple, dict, set, np.ndarray)) for value in labels):
        raise ValueError(f"{name} must be single values, one each, got lists or rows of unequal lengths; flatten them")
    found = plain_array(labels)
    if found.dtype.kind in "if" and all(isinstance(value, (float, np.floating)) for value in labels):
        found = found.astype(np.float64)
    elif found.dtype.kind == "f" and all(
        isinstance(value, (int, np.integer)) and 0 <= value < 2**64 for value in labels
    ):
        found = np.array(list(map(int, labels)), dtype=np.uint64)
    if found.dtype.kind == "f":
        told = {value for value in labels if not is_missing(value)}
        if len(told) > len(set(found[~np.isnan(found)].tolist())):
            raise ValueError("two labels are one number of double precision; recode them")
    return found.reshape(given.shape)


def plain_array(values: Iterable[Any]) -> NDArray[Any]:
    """Return values of one kind as an array of it: numbers (NaN for gaps), truths, else objects (None for gaps).

    Whole numbers of 64 bits stay whole where there are no gaps: doubles make one of 2**53 and 2**53 + 1.

    Examples
    --------
    >>> plain_array([1, Decimal("2.5"), None]).tolist(), plain_array(["a", float("nan")]).tolist()
    ([1.0, 2.5, nan], ['a', None])
    >>> plain_array([2**53, Decimal(2**53 + 1)]).tolist()
    [9007199254740992, 9007199254740993]
    """
    found: list[Any] = [None if is_missing(value) else value for value in values]
    kinds = {type(value) for value in found} - {type(None)}
    if kinds and kinds <= NUMBERS:
        doubles = numbers(found, number)
        if None in found or not (np.abs(doubles) < 2.0**63).all() or any(value % 1 for value in found):
            return doubles
        return np.array([int(value) for value in found], dtype=np.int64)
    if kinds and kinds <= {bool, np.bool_} and None not in found:
        return np.array(found, dtype=np.bool_)
    column = np.empty(len(found), dtype=object)
    column[:] = found
    return column
