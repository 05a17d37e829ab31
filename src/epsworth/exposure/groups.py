"""What the most exposed rows have in common: values of columns that are more frequent among them than among all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import as_floats
from epsworth.exposure.glm import ExposureError
from epsworth.exposure.inputs import NotPrivate, finite, numbers, share, whole
from epsworth.exposure.tables import Column, columns_of

BINS = 10  # ranges of a column of numbers, with as many rows each
LEAST_SHARE, LEAST_LIFT = 0.1, 1.5  # of the exposed rows, and over the share of all rows: what is worth a word


@dataclass(frozen=True)
class Group(NotPrivate):
    """A value, or a range of numbers, of a column.

    Attributes
    ----------
    column, value : str
        What the rows have in common.
    of_exposed, of_all : float
        Its share of the most exposed rows, and of all rows.

    Examples
    --------
    >>> from epsworth.exposure import Group
    >>> print(Group("job", "smith", 0.8, 0.1))
    job = smith: 80 % of the most exposed rows, 10 % of all
    """

    column: str
    value: str
    of_exposed: float
    of_all: float

    def __str__(self) -> str:
        return f"{self.column} = {self.value}: {_percent(self.of_exposed)} of the most exposed rows, " + (
            f"{_percent(self.of_all)} of all"
        )


def exposed_groups(
    table: Any, exposure: ArrayLike, *, without: str | None = None, part: float = 0.05, most: int = 5
) -> list[Group]:
    """Return what the most exposed rows of a table have in common, the most telling first; not private.

    Parameters
    ----------
    table : data frame or path
        As in `encode`.
    exposure : array_like of shape ``(n,)``
        Of each row, from `Window.exposure`, `Moves.distances` or `Memorisation.estimates`.
    without : str, optional
        A column that is left out.
    part : float
        Share of the rows that counts as the most exposed.
    most : int
        How many groups to return.

    Raises
    ------
    ExposureError
        For exposures of another number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from epsworth.exposure import exposed_groups
    >>> table = pl.DataFrame({"job": ["clerk"] * 90 + ["smith"] * 10, "age": list(range(100))})
    >>> for group in exposed_groups(table, np.r_[np.zeros(90), np.ones(10)]):
    ...     print(group)
    age = 90 to 99: 100 % of the most exposed rows, 10 % of all
    job = smith: 100 % of the most exposed rows, 10 % of all
    """
    part, most, largest = share("part", part), whole("most", most, 0), np.finfo(np.float64).max
    of_row = finite(np.minimum(numbers(exposure, "exposure"), largest), "exposure", (None,))  # inf: no model without it
    top = np.argsort(-of_row, kind="stable")[: math.ceil(part * len(of_row))]
    found: list[tuple[float, Group]] = []
    for name, column in columns_of(table).items():
        if name == without:
            continue
        codes, titles = _binned(column(), name)
        if len(codes) != len(of_row):
            raise ExposureError(f"exposure must have one number for each of {len(codes)} rows, got {len(of_row)}")
        exposed, all_ = (np.bincount(some, minlength=len(titles)) / len(some) for some in (codes[top], codes))
        for code in np.flatnonzero((exposed >= LEAST_SHARE) & (exposed >= LEAST_LIFT * all_)).tolist():
            telling = float(exposed[code] * np.log(exposed[code] / all_[code]))
            found.append((-telling, Group(name, titles[code], float(exposed[code]), float(all_[code]))))
    return [group for _, group in sorted(found, key=lambda one: (one[0], one[1].column))[:most]]


def _binned(column: Column, name: str) -> tuple[NDArray[Any], list[str]]:
    """Return a number for each row, and what the numbers stand for: texts, or ranges with about as many rows each."""
    if not column.counts:
        codes, kinds = column.coded(f"column {name!r}")
        return codes, ["(missing)" if kind[1] is None else str(kind[1]) for kind in kinds]
    values = as_floats(column.values)
    known = values[np.isfinite(values)]
    steps = np.linspace(0, 1, BINS, endpoint=False)
    ends = np.unique(np.quantile(known, steps, method="higher")) if len(known) else np.zeros(1)
    codes = np.where(np.isfinite(values), np.clip(np.searchsorted(ends, values, side="right") - 1, 0, None), len(ends))
    ranges = []
    for code, low in enumerate(ends.tolist()):
        inside = known[(known >= low) & (known < (ends[code + 1] if code + 1 < len(ends) else math.inf))]
        high = float(inside.max()) if len(inside) else low
        ranges.append(f"{low:g}" if high == low else f"{low:g} to {high:g}")
    return codes, [*ranges, "(missing)"]


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"
