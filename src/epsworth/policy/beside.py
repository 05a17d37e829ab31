"""What travels beside the columns of a table - an index, notes, a file's metadata - and must not tell their values."""

from __future__ import annotations

import json
from collections.abc import Container, Hashable, Mapping
from typing import Any


def check_beside(features: Container[Hashable], table: Any) -> None:
    """Refuse a table whose index is named like a feature: it would pass through with the raw values.

    Parameters
    ----------
    features : container of names
        Of the perturbed columns.
    table : pandas, polars or arrow table
    """
    index = getattr(table, "index", None)
    for name in getattr(index, "names", None) or ():
        _check_level(features, name)
    metadata = getattr(getattr(table, "schema", None), "metadata", None)  # of arrow: it may come from pandas
    if isinstance(metadata, Mapping):
        check_metadata(features, metadata.get(b"pandas"))


def check_index(passed: Container[Hashable], table: Any, *, numbered: bool = False) -> None:
    """Refuse a table whose index could carry values of a column that is not passed: it travels with the rows.

    Parameters
    ----------
    passed : container of names
        Of the columns that are sent as they are.
    table : pandas, polars or arrow table
    numbered : bool
        Whether numbers without a name, such as those of rows that were chosen, will be counted anew.
    """
    index: Any = getattr(table, "index", None)
    names = list(getattr(index, "names", None) or ())
    counted = type(index).__name__ == "RangeIndex" and names == [None] and (index.start, index.step) == (0, 1)
    counted = counted or (numbered and names == [None] and getattr(getattr(index, "dtype", None), "kind", "") in "iu")
    if index is not None and not counted and not all(isinstance(n, Hashable) and n in passed for n in names):
        raise ValueError(
            "the table has an index that is no plain count of its rows and is not among pass.columns; drop it with "
            "reset_index(drop=True)"
        )


def check_metadata(features: Container[Hashable], pandas: str | bytes | None) -> None:
    """Refuse a table whose pandas metadata name an index like a feature, stored as a column of another name."""
    try:
        notes = json.loads(pandas or "{}")
        columns = notes.get("columns", ())
        levels = [entry["name"] for entry in columns if entry.get("field_name", entry["name"]) != entry["name"]]
        levels += [entry.get("name") for entry in notes.get("index_columns", ()) if isinstance(entry, dict)]
    except (ValueError, AttributeError, KeyError, TypeError):
        return  # written by somebody else
    for name in levels:
        _check_level(features, name)


def _check_level(features: Container[Hashable], name: object) -> None:
    if isinstance(name, Hashable) and name is not None and name in features:
        raise ValueError(
            f"the table's index is named {name!r} like a feature that the policy perturbs, and would pass through as "
            "it is; drop it, for example with reset_index(drop=True)"
        )


def without_notes(table: Any) -> Any:
    """Return a released table without its input's notes: row numbers, ``attrs``, ``columns.name``, arrow's metadata."""
    if getattr(table, "attrs", None):
        table.attrs = {}
    if list(getattr(getattr(table, "index", None), "names", ())) == [None]:
        table = table.reset_index(drop=True)  # which rows were chosen is nobody's business
    columns: Any = getattr(table, "columns", None)
    if any(name is not None for name in getattr(columns, "names", None) or ()):
        table.columns = columns.set_names([None] * len(columns.names))
    schema: Any = getattr(table, "schema", None)
    if not hasattr(schema, "remove_metadata"):
        return table
    plain = schema.remove_metadata()
    for place, field in enumerate(schema):
        if field.metadata:
            plain = plain.set(place, field.remove_metadata())
    return table.from_arrays(table.columns, schema=plain)
