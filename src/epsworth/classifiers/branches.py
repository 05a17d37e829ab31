"""What stands before the members of an ensemble: each has its own steps, and all see the same records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.classifiers.preprocessing import Columns, Preprocessing

KNOWN = tuple(field.name for field in fields(Columns) if field.name != "names")  # of each column


@dataclass(frozen=True, eq=False)
class Branches:
    """Preprocessings of the same records as one step: their columns side by side."""

    parts: tuple[Preprocessing, ...]

    def transform(self, records: Any) -> NDArray[Any]:
        """Return the columns of all."""
        return np.column_stack([part(records) for part in self.parts])


@dataclass(frozen=True, eq=False)
class Chosen:
    """Some columns, in an order of their own, as one step."""

    columns: NDArray[np.intp]

    def transform(self, records: Any) -> NDArray[Any]:
        """Return these columns."""
        return np.asarray(np.asarray(records)[:, self.columns])


def chosen(given: Columns, columns: NDArray[np.intp]) -> Columns:
    """Return what is known of some columns, which are handed on without names."""
    return Columns(**{name: getattr(given, name)[columns] for name in KNOWN})


def after(first: Sequence[Any], before: Preprocessing) -> Preprocessing:
    """Return preprocessing with steps put in front, whose effect its columns tell already."""
    return replace(before, steps=(*first, *before.steps))


def side_by_side(parts: Sequence[Preprocessing]) -> Preprocessing:
    """Return one preprocessing that hands on the columns of all; the records' own where none has steps."""
    if not any(part.steps for part in parts):
        return parts[0]
    joined = {name: np.concatenate([getattr(part.columns, name) for part in parts]) for name in KNOWN}
    return Preprocessing((Branches(tuple(parts)),), Columns(**joined))
