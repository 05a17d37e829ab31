"""One column that a tailored policy sees: whatever it holds to places, and places to the natural values that leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools
from epsworth.release.copies import Indices
from epsworth.release.grids import NUMBERS, PLAIN, Grid
from epsworth.space import Feature

if TYPE_CHECKING:
    import narwhals as nw

    from epsworth.release.policy import Policy


class Placed:
    """A column on its grid, as `Column` is one under a rule; nothing that it holds is ever refused."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    @property
    def feature(self) -> Feature:
        """Its public range or categories."""
        return self.grid.feature

    @property
    def values(self) -> NDArray[Any]:
        """The natural values by place."""
        return self.grid.values

    def places(self, column: Any) -> Indices:
        """Return the places of natural values, whatever they are."""
        return self.grid.places(column)

    def released(self, drawn: Indices, keep: Bools | None, policy: Policy) -> NDArray[Any]:
        """Return natural values; every record releases them."""
        values: NDArray[Any] = self.values[np.asarray(drawn)]
        return values


def series_places(column: Placed, series: nw.Series[Any]) -> Indices:
    """Return a series' places; one of numbers as a whole, texts once each, anything else value by value.

    Nothing else is looked up by what it equals: a truth equals a number, and has another place.
    """
    import narwhals as nw

    if series.dtype in (nw.Decimal, nw.Int128, nw.UInt128):  # which NumPy does not have
        series = series.cast(nw.Float64)
    kind = series.dtype
    if column.feature.categories is None and kind.is_numeric():
        return column.places(np.asarray(series.to_numpy()))
    values = _values(series)
    texts = list(dict.fromkeys(value for value in values if type(value) is str))
    known = dict(zip(texts, column.places(texts).tolist(), strict=True))
    others = iter(column.places([value for value in values if type(value) is not str]).tolist())
    return np.array([known[v] if type(v) is str else next(others) for v in values], dtype=np.int64)


def _values(series: nw.Series[Any]) -> list[Any]:
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


def all_numbers(table: NDArray[Any]) -> bool:
    """Tell whether all values of an array are numbers that doubles hold; truths and texts are none."""
    if table.dtype.kind in PLAIN:
        return True
    try:
        return all(type(v) in NUMBERS and (float(v) == v or v != v) for v in table.flat)
    except (ValueError, ArithmeticError):
        return False
