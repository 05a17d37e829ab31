"""What becomes of a table's rows: on a device nothing is refused; of an experiment's table bad rows are named."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.headers import shown_names
from epsworth.learner.coins import Ints
from epsworth.learner.config import checked_labels
from epsworth.learner.door import positions
from epsworth.learner.entries import names_of, number_of, positions_of, table_of
from epsworth.learner.tables.columns import Category, Column, Records
from epsworth.learner.tables.config import TableConfig
from epsworth.values import numbers


def admitted(config: TableConfig, X: ArrayLike, y: Any) -> Records:
    """Return the users as their reports will state them: a value that cannot be used is missing, a label none.

    Shapes and columns, which no value decides, are still refused.
    """
    with np.errstate(all="ignore"):
        return _records(config, X, y)


def checked(config: TableConfig, X: ArrayLike, y: Any) -> Records:
    """Return the users of an experiment.

    Raises
    ------
    ValueError
        For a missing value in a column that is not declared to have any, a value or a label that is not declared.
        Messages name rows and columns, never values.
    """
    found = admitted(config, X, y)
    for j, column in enumerate(config.columns):
        if not column.missing and not found.known[:, j].all():
            row = int(np.argmin(found.known[:, j]))
            raise ValueError(
                f"row {row}, {column.name}: the value is missing or not declared; declare it, or missing=True"
            )
    checked_labels(config.classes, found.label)
    return found


def points(config: TableConfig, X: ArrayLike) -> Records:
    """Return the rows of a table without labels."""
    columns = _columns(config, X)
    return admitted(config, X, np.full(len(columns[0]), config.classes[0]))


def _records(config: TableConfig, X: ArrayLike, y: Any) -> Records:
    columns = _columns(config, X)
    label = positions(config, y, len(columns[0]))
    told = [_coded(column, own) for column, own in zip(config.columns, columns, strict=True)]
    return Records(np.column_stack([one for one, _ in told]), np.column_stack([one for _, one in told]), label)


def _coded(column: Column, values: NDArray[Any]) -> tuple[Ints, NDArray[np.bool_]]:
    """Return places or positions, and where there is a value at all; where there is none the place is 0."""
    if isinstance(column, Category):
        found = positions_of(column.known, values)
        return np.maximum(found, 0), found >= 0
    natural = numbers(values, number_of)
    return column.place(natural), ~np.isnan(natural)


def _columns(config: TableConfig, X: Any) -> list[NDArray[Any]]:
    """Return the columns, in the configuration's order, of a frame or of rows."""
    names, given = list(config.names), names_of(X)
    if given is not None and given != names:
        raise ValueError(
            f"{shown_names(given, 'X has the columns')}, but the configuration's are {', '.join(names)}; "
            "select them in this order"
        )
    return table_of(X, len(names), ", ".join(names))
