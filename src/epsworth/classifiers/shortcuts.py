"""What the steps hand on as one column of a record moves, without preparing the columns that stay.

A branch of a ColumnTransformer takes the columns that it was fitted on, as numbers; the others' results are those of
the record.  The branch is the fitted step itself, and must hand on, bit by bit, what all steps do: else all are run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.classifiers.genuine import kind_of
from epsworth.classifiers.preprocessing import Preprocessing, as_array
from epsworth.classifiers.scalers import ignoring_names
from epsworth.records import Records

SIZES = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 31)])  # of values at which both ways are compared
PROBES = np.concatenate([-SIZES[:0:-1], SIZES])


@dataclass(frozen=True, eq=False)
class Branch:
    """The one branch of a ColumnTransformer that takes a column: for values of that it hands on part of a row.

    Attributes
    ----------
    step : fitted transformer
    own : ndarray
        What the record gives to the branch.
    at : int
        The place of the column in it.
    row : ndarray
        What all steps hand on of the record.
    place : slice
        The part of it that the branch hands on.
    """

    step: Any
    own: Floats
    at: int
    row: Floats
    place: slice

    def __call__(self, values: Floats) -> NDArray[Any]:
        """Return what is handed on, shape ``(len(values), width)``."""
        block = np.repeat(self.own[np.newaxis], len(values), axis=0)
        block[:, self.at] = values
        with ignoring_names():
            found = self.step.transform(block)
        handed = np.repeat(self.row[np.newaxis], len(values), axis=0)
        handed[:, self.place] = as_array(found)
        return handed


@dataclass(frozen=True, eq=False)
class ShortCuts:
    """From a column of records and values of it to what is handed on, the other columns being the first record's."""

    before: Preprocessing
    records: Records
    branches: dict[int, Branch]

    @classmethod
    def found(cls, before: Preprocessing, records: Records, own: Mapping[int, Floats]) -> tuple[Any, Self]:
        """Return what is handed on of every record, and the branches that hand on the same bits as all steps do.

        Parameters
        ----------
        own : mapping
            Of columns that move, the records' values as they are released; a table's own precision may be another.
        """
        n, branches = len(records), dict[int, Branch]()
        probed = list(own) if len(before.steps) == 1 and kind_of(before.steps[0]) == "ColumnTransformer" else []
        values = {
            position: np.concatenate([column, *(np.where(position == p, PROBES, column[0]) for p in probed)])
            for position, column in own.items()
        }
        rows = np.concatenate([np.arange(n), np.zeros(len(probed) * len(PROBES), dtype=np.intp)])
        handed = before.handed_on(records.take(rows, values))  # at once: frames take their time for each call
        if not hasattr(handed, "toarray"):
            handed = np.asarray(handed)
        for position, start in zip(probed, range(n, len(rows), len(PROBES)), strict=True):
            part = as_array(handed[start : start + len(PROBES)])
            branch = _branch(before.steps[0], records, own, position, part[len(PROBES) // 2])
            if branch is not None and _same(branch, part):
                branches[position] = branch
        return handed[:n], cls(before, records, branches)

    def all_steps(self, moved: dict[int, Floats]) -> NDArray[Any]:
        """Return what all steps hand on of copies of the first record with some columns replaced."""
        size = len(next(iter(moved.values())))
        return self.before(self.records.take(np.zeros(size, dtype=np.intp), moved))

    def __call__(self, position: int, values: Floats) -> NDArray[Any]:
        """Return what is handed on, shape ``(len(values), width)``."""
        branch = self.branches.get(position)
        return self.all_steps({position: values}) if branch is None else branch(values)


def _branch(
    step: Any, records: Records, moved: Mapping[int, Floats], position: int, row: NDArray[Any]
) -> Branch | None:
    """Return the branch that a column takes; None where it takes several, or one twice, or is handed on as it is."""
    taken = {name: [int(at) for at in places] for name, places in step._transformer_to_input_indices.items()}
    taking = [(name, inner) for name, inner, _ in step.transformers_ if position in taken[name]]
    if len(taking) != 1 or isinstance(taking[0][1], str) or taken[taking[0][0]].count(position) != 1:
        return None
    name, inner = taking[0]
    try:
        own = np.array([float(moved.get(column, records.column(column))[0]) for column in taken[name]])
        return Branch(inner, own, taken[name].index(position), row.astype(np.float64), step.output_indices_[name])
    except (TypeError, ValueError):  # texts among the columns
        return None


def _same(branch: Branch, handed: NDArray[Any]) -> bool:
    """Tell whether a branch hands on what all steps do."""
    try:
        return np.array_equal(branch(PROBES), handed)
    except Exception:  # a step that takes frames only, a function of its own: whatever it is, all steps are run
        return False
