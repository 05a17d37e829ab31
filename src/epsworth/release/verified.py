"""What a table may hold where a policy perturbs, and what it must hold afterwards."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.values import is_missing

if TYPE_CHECKING:
    import narwhals as nw

    from epsworth.arrays import Bools
    from epsworth.release.columns import Column, Indices
    from epsworth.release.placed import Placed
    from epsworth.release.policy import Policy

LIBRARIES = ("builtins", "numpy", "decimal", "fractions", "datetime", "pandas")  # whose types hold one value
PLAIN = (str, bool, np.bool_, numbers.Real, np.number)  # decimals are looked at apart: they are registered as no reals


def check_plain(name: str, values: Iterable[Any]) -> None:
    """Refuse a column of objects that are not texts, numbers, truths or missing; the message shows no value."""
    for kind in {type(value) for value in values if not is_missing(value)}:
        if kind.__module__.partition(".")[0] not in LIBRARIES:
            raise ValueError(
                f"{name}: the column holds values of a type of somebody's own, which may carry more than one number or "
                "word; give plain ones"
            )
        if not (issubclass(kind, PLAIN) or kind.__name__ == "Decimal") or issubclass(kind, np.complexfloating):
            raise ValueError(
                f"{name}: the column holds something that is not a number or a word; give one number or word per record"
            )


def check_released(
    column: Column | Placed, drawn: Indices, keep: Bools | None, policy: Policy, released: nw.Series[Any] | NDArray[Any]
) -> None:
    """Check after a draw that every record has a value of the policy's public table, and no other; else nothing leaves.

    Raises
    ------
    ArithmeticError
        A fault of the program, never of the table.
    """
    name, places = column.feature.name, np.asarray(drawn)
    if len(released) != places.size:
        raise ArithmeticError(
            f"{name}: {len(released)} values were drawn for {places.size} records; nothing is released"
        )
    inside = not places.size or (places.min() >= 0 and places.max() < len(column.values))
    if not inside or not _public(column, places, keep, policy, released):
        raise ArithmeticError(f"{name}: what was drawn is not in the policy's public table; nothing is released")


def _public(
    column: Column | Placed,
    places: Indices,
    keep: Bools | None,
    policy: Policy,
    released: nw.Series[Any] | NDArray[Any],
) -> bool:
    """Compare numbers with what was looked up, row by row; words with the declared ones."""
    if column.feature.categories is None:
        found = released if isinstance(released, np.ndarray) else released.to_numpy()
        told = column.released(places, keep, policy)
        return np.array_equal(found.astype(np.float64), told.astype(np.float64), equal_nan=True)
    values = released.tolist() if isinstance(released, np.ndarray) else released.unique().to_list()
    return all(value in column.feature.categories for value in set(values) if not is_missing(value))
