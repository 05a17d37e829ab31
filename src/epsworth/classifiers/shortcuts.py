"""What the steps hand on as one column of a record moves, without preparing the columns that stay.

A branch of a ColumnTransformer takes the columns that it was fitted on, as numbers; the others' results are those of the
record.  The branch is the fitted step itself, and must hand on, bit by bit, what all steps do: else all steps are run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.classifiers.genuine import kind_of
from epsworth.classifiers.preprocessing import Preprocessing, Through
from epsworth.classifiers.scalers import ignoring_names
from epsworth.records import Records

SIZES = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 31)])  # of values at which both ways are compared


@dataclass(eq=False)
class ShortCuts:
    """From a column of records and values of it to what the steps hand on, the other columns being the first record's."""

    before: Preprocessing
    records: Records
    found: dict[int, Through] = field(default_factory=dict)

    def __call__(self, position: int, values: Floats) -> NDArray[Any]:
        """Return what is handed on, shape ``(len(values), width)``."""
        if position not in self.found:
            self.found[position] = self._shortest(position)
        return self.found[position](position, values)

    def _whole(self, position: int, values: Floats) -> NDArray[Any]:
        return self.before(self.records.take(np.zeros(len(values), dtype=np.intp), {position: values}))

    def _shortest(self, position: int) -> Through:
        probes = np.concatenate([-SIZES[:0:-1], SIZES])
        try:
            short = self._branch(position)
            same = short is not None and np.array_equal(short(position, probes), self._whole(position, probes))
        except Exception:  # a step that takes frames only, texts in the branch: whatever it is, all steps are run
            return self._whole
        return short if short is not None and same else self._whole

    def _branch(self, position: int) -> Through | None:
        """Return the way through the one branch that a column takes; None where it takes several, or there are none."""
        first, *others = self.before.steps
        if kind_of(first) != "ColumnTransformer" or others:
            return None
        places = {name: list(at) for name, at in first._transformer_to_input_indices.items()}
        taking = [
            (inner, places[name], first.output_indices_[name])
            for name, inner, _ in first.transformers_
            if position in places[name] and not isinstance(inner, str)
        ]
        if len(taking) != 1:
            return None
        inner, columns, place = taking[0]
        own = np.array([float(self.records.column(c)[0]) for c in columns])
        row = self._whole(position, np.zeros(1))[0].astype(np.float64)

        def through(position: int, values: Floats) -> NDArray[Any]:
            block = np.repeat(own[np.newaxis], len(values), axis=0)
            block[:, columns.index(position)] = values
            with ignoring_names():
                found = inner.transform(block)
            handed = np.repeat(row[np.newaxis], len(values), axis=0)
            handed[:, place] = found.toarray() if hasattr(found, "toarray") else found
            return handed

        return through
