"""Names of released numbers by the columns that they belong to."""

from __future__ import annotations

import re
from collections.abc import Sequence

_OF_A_COLUMN = re.compile(r"(mean|centroid|component|coef)\[(?:(\d+), )?(\d+)\]")  # the last place is a column's


def by_columns(names: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the names of an algorithm's released numbers, with columns in place of their positions.

    Parameters
    ----------
    names : sequence of str
        As the mechanism of a named algorithm gives them.
    columns : sequence of str
        Columns of the pool, in their order.

    Examples
    --------
    >>> by_columns(["centroid[2, 1]", "mean[0]", "intercept[0]"], ["age", "bmi"])
    ('centroid[2, bmi]', 'mean[age]', 'intercept[0]')
    """

    def named(name: str) -> str:
        found = _OF_A_COLUMN.fullmatch(name)
        if found is None:
            return name
        what, row, place = found.groups()
        column = columns[int(place)]
        return f"{what}[{column}]" if row is None else f"{what}[{row}, {column}]"

    return tuple(map(named, names))
