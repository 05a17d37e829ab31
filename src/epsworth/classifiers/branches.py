"""What stands before the members of an ensemble: each has its own steps, and all see the same records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.classifiers.columns import Columns
from epsworth.classifiers.preprocessing import Preprocessing


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


def after(first: Sequence[Any], before: Preprocessing) -> Preprocessing:
    """Return preprocessing with steps put in front, whose effect its columns tell already."""
    return replace(before, steps=(*first, *before.steps))


def side_by_side(parts: Sequence[Preprocessing]) -> Preprocessing:
    """Return one preprocessing that hands on the columns of all; the records' own where none has steps."""
    if not any(part.steps for part in parts):
        return parts[0]
    columns = Columns.joined([part.columns for part in parts], parts[0].columns.uses.shape[1])
    return Preprocessing((Branches(tuple(parts)),), columns)
