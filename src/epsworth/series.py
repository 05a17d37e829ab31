"""Columns of data frames, read value by value whatever they hold; where all are numbers, at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats, Indices
from epsworth.values import PLAIN, WORDS, numbers, plain_array

if TYPE_CHECKING:
    import narwhals as nw

    from epsworth.space import Feature

NAME = "values"  # some functions of engines take a name such as ^a.*$ for a pattern
Codes = Callable[[Any], Indices]


def series_numbers(series: nw.Series[Any], read: Callable[[Any], float]) -> Floats:
    """Return a series as doubles, NaN for all that are no numbers (see `values.numbers`)."""
    if series.dtype.is_numeric() and (found := _numpy(series)).dtype.kind in PLAIN:
        return numbers(found, read)
    return numbers(series_values(series), read)


def _numpy(series: nw.Series[Any]) -> NDArray[Any]:
    """Return numbers as an array; one of objects for decimals and integers that NumPy does not have."""
    try:
        return np.asarray(series.to_numpy())
    except Exception:
        return np.empty(0, dtype=object)


def series_array(series: nw.Series[Any]) -> NDArray[Any]:
    """Return a series as an array: numbers of any kind and truths as such, texts and all others as objects.

    Gaps are NaN among numbers, else None.  What a column of objects holds counts, not that it is one.
    """
    import narwhals as nw

    kind = series.dtype
    if kind.is_numeric():
        found = np.empty(0, object) if isinstance(kind, nw.Decimal) else _numpy(series)
        return found if found.dtype.kind in PLAIN else plain_array(series_values(series))
    if kind.is_temporal():
        return np.asarray(series.to_numpy())
    if kind == nw.Boolean and not series.is_null().any():
        return np.asarray(series.to_numpy(), dtype=np.bool_)
    return plain_array(series_values(series))


def series_codes(series: nw.Series[Any], codes: Codes) -> Indices:
    """Return the code of every value of a series; ``codes`` looks up a list of values, whatever they are.

    Values of one type are looked up once each.  Those of mixed types are not: a truth equals a number, and may have
    another code.
    """
    values = series_values(series)
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) > 1 or not kinds <= WORDS:
        return codes(values)
    different = list(dict.fromkeys(values))
    known = dict(zip(different, codes(different).tolist(), strict=True))
    return np.array([known[value] for value in values], dtype=np.int64)


def series_values(series: nw.Series[Any]) -> list[Any]:
    """Return a series' values; None for gaps, and a container for all that Python may be unable to hold.

    Libraries raise, in words of their own, where a time is out of Python's range or a text no text.
    """
    import narwhals as nw

    kind = series.dtype
    if not (kind.is_numeric() or kind in (nw.Boolean, nw.String, nw.Categorical, nw.Enum, nw.Object, nw.Unknown)):
        return [None if gap else [] for gap in series.is_null().to_list()]
    try:
        return series.to_list()
    except Exception:
        return [_value(series[i : i + 1]) for i in range(len(series))]


def _value(series: nw.Series[Any]) -> Any:
    try:
        return series.to_list()[0]
    except Exception:  # which would say what the value is like
        return []


def numbers_series(numbers: NDArray[Any], backend: Any) -> nw.Series[Any]:
    """Return doubles, of which NaN is a gap, or whole numbers as a series of a library's own."""
    import narwhals as nw

    if numbers.dtype.kind == "i":
        return nw.new_series(NAME, numbers, dtype=nw.Int64(), backend=backend)

    values = [None if v != v else v for v in numbers.tolist()] if np.isnan(numbers).any() else numbers
    return nw.new_series(NAME, values, dtype=nw.Float64(), backend=backend)


def words_series(feature: Feature, backend: Any, *, gaps: bool) -> nw.Series[Any]:
    """Return a feature's categories, and a gap behind them, as a series: its type is a matter of the policy alone.

    Raises
    ------
    ValueError
        If the library cannot hold them in one column.
    """
    import narwhals as nw

    words = list(feature.categories or ())
    if not any(isinstance(word, (str, bool)) for word in words) and any(isinstance(word, float) for word in words):
        words = [float(word) for word in words]
    try:
        found = nw.new_series(NAME, [*words, None] if gaps else words, backend=backend)
        same = found.to_list()[: len(words)] == words
    except Exception:  # in words of the library, which show a category
        same = False
    if not same:
        raise ValueError(
            f"features.{feature.name}.categories: this kind of table cannot hold them all in one column; declare texts "
            "alone, truths alone or numbers of 64 bits alone"
        )
    return found
