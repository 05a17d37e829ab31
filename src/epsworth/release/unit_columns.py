"""The column that says whose a row is: its values as they are counted, missing ones refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from epsworth.release.columns import Indices
from epsworth.release.units import IdError
from epsworth.values import MISSING, is_missing

if TYPE_CHECKING:
    from epsworth.csv_text import Texts

Units = Indices | list[str | int]
Count = Callable[[Units], None]
MOST = 2**63


def units_of_texts(texts: Texts, name: str, first: int) -> Units:
    """Return a CSV column's units: numbers where all are whole and written as such, else the texts."""
    numbers = texts.whole_numbers()
    if numbers is not None:
        return numbers
    told = texts.tell()
    missing = set(MISSING)
    for row, text in enumerate(told, start=first):
        if text.strip() in missing:
            raise _missing(row, name)
        if text != text.strip():
            raise ValueError(f"row {row}, {name}: the unit begins or ends with a blank; write it without")
    return list(told)


def units_of_values(values: Iterable[Any], name: str, first: int) -> Units:
    """Return the units of any values: whole numbers and texts; others are no names."""
    found: list[str | int] = []
    for row, value in enumerate(values, start=first):
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            if is_missing(value):
                raise _missing(row, name)
            raise ValueError(f"row {row}, {name}: the unit is neither a whole number nor a text; recode it")
        if isinstance(value, str) and not value.strip():
            raise _missing(row, name)
        if isinstance(value, str) and value != value.strip():
            raise ValueError(f"row {row}, {name}: the unit begins or ends with a blank; write it without")
        found.append(value)
    if all(isinstance(value, int) and -MOST <= value < MOST for value in found):
        return np.array(found, dtype=np.int64)
    return found


def count_units(count: Count, units: Units, name: str, first: int) -> None:
    """Count the units of a part; where one is refused, its row is that of the whole table."""
    try:
        count(units)
    except IdError as error:
        raise ValueError(f"row {first + error.row}, {name}: the unit {error.why}") from None


def check_unit(unit: str | None, names: Iterable[str]) -> None:
    """Refuse a table without the column that says whose a row is."""
    if unit is not None and unit not in names:
        raise ValueError(f"the table lacks the column {unit!r}, which says whose a row is; name another unit")


def _missing(row: int, name: str) -> ValueError:
    return ValueError(f"row {row}, {name}: the unit is missing, so nobody knows whom to charge; repair the row")
