"""What stands before the estimator of a composition: which columns it sees, and how these follow from a record's.

A step is a rule (`transformers.RULES`): from what is known of the columns that it is given to what is known of those
that it hands on.  Nothing is computed twice: what the estimator sees is always what the fitted steps' own ``transform``
returns, and the rules only tell which engine may rely on which columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.columns import Columns
from epsworth.classifiers.scalers import ignoring_names
from epsworth.classifiers.transformers import all_stepped, row_by_row

Through = Callable[[int, Floats], NDArray[Any]]
"""From a column of records and values of it to what the steps hand on, the other columns held at some record's."""
Guess = tuple[Floats, Floats, Floats]  # values, how far off they may be, and sizes beyond which nothing can lie
CLOSE = 1e-6  # by which a row handed on alone may differ from the same row among others
LARGEST = float(np.finfo(float).max) / 4  # that of natural values at which models are asked


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """The steps before an estimator, and what is known of the columns that it sees.

    Attributes
    ----------
    steps : tuple
        Fitted transformers, applied in order.
    columns : Columns
    features : tuple of str, optional
        Names of the record's columns.
    """

    steps: tuple[Any, ...]
    columns: Columns
    features: tuple[str, ...] | None = None

    def handed_on(self, records: Any) -> Any:
        """Return what the estimator is given of records in their native container: an array, a matrix or a frame."""
        with ignoring_names():
            for step in self.steps:
                records = step.transform(records)
        return records

    def __call__(self, records: Any) -> NDArray[Any]:
        """Return what the estimator sees of records in their native container, shape ``(n, width)``."""
        return as_array(self.handed_on(records))

    def row_by_row(self, given: Floats, alone: Callable[[int], Any]) -> bool:
        """Tell whether some rows are handed on alone as they were among others, but for rounding.

        Steps that are the library's throughout are not asked: they take each row by itself.

        Parameters
        ----------
        given : ndarray
            What was handed on of all rows together.
        alone : callable
            From a row's number to that row, in its native container.
        """
        if all(map(row_by_row, self.steps)):
            return True
        rows = sorted({0, len(given) // 2, len(given) - 1})
        found = np.concatenate([self(alone(row)).astype(np.float64) for row in rows])
        return np.allclose(found, given[rows], rtol=CLOSE, atol=CLOSE, equal_nan=True)

    def fed_by(self, position: int) -> NDArray[np.intp]:
        """Return the columns that depend on a record's column and on nothing else."""
        return self.columns.alone(position) if self.steps else np.array([position])

    def falls(self, columns: NDArray[np.intp]) -> Bools:
        """Tell which of the columns fall as the record's own one rises."""
        return self.columns.order[columns] < 0 if self.steps else np.zeros(len(columns), dtype=bool)

    def own(self, position: int, columns: NDArray[np.intp], natural: Floats, through: Through) -> NDArray[Any]:
        """Return natural values of a record's column as they are handed on, each in a column of its own."""
        return through(position, natural)[np.arange(len(natural)), columns] if self.steps else natural

    def guessed(self, position: int, columns: NDArray[np.intp], seen: Floats, through: Through) -> Guess:
        """Guess which natural values are handed on as those seen, where columns are affine; else say nothing."""
        slope, shift = np.ones(len(columns)), np.zeros(len(columns))
        if self.steps:
            slope = np.abs(self.columns.slopes[columns, position])
            shift = through(position, np.zeros(1))[0, columns].astype(np.float64)
        sign = np.where(self.falls(columns), -1.0, 1.0)
        with np.errstate(over="ignore"):
            guess = np.clip(sign * (seen - shift) / slope, -LARGEST, LARGEST)
            room = 1e-6 * (np.abs(guess) + np.abs(shift) / slope)  # a float32 is off by less than 1e-7
            far = np.minimum(4 * (np.abs(guess) + (1 + np.abs(shift)) / slope), LARGEST)
        bent = np.isnan(slope)
        return np.where(bent, 0.0, guess), np.where(bent, np.inf, room), np.where(bent, LARGEST, far)

    def obstacle(self, positions: Sequence[int]) -> str | None:
        """Return why thresholds on the record's columns at positions cannot be located; None where they can.

        Each must alone feed the columns that depend on it, and each of these must keep or reverse its order.
        """
        for position in positions:
            fed = np.flatnonzero(self.columns.uses[:, position])
            mixed = ~np.isin(fed, self.columns.alone(position))
            lost = mixed | (self.columns.order[fed] == 0)
            if lost.any():
                step = self.columns.lost[fed[lost][0]] or "a step"
                feature = f" {self.features[position]!r}" if self.features else ""
                if mixed[lost][0]:
                    return (
                        f"{step} mixes the sensitive feature{feature} with other columns; give it a branch of its own"
                    )
                return (
                    f"{step} keeps no order of the sensitive feature{feature}; exact are scalers, imputers, uniform "
                    "quantiles and ordinal bins"
                )
        return None


def as_array(handed: Any) -> NDArray[Any]:
    """Return what is handed on as an array, whatever held it."""
    return np.asarray(handed.toarray() if hasattr(handed, "toarray") else handed)


NOTHING = Preprocessing((), Columns.of_records(0))
"""Before an estimator that sees the records themselves, however many columns they have."""


def preprocessing_before(model: Any, steps: Sequence[Any]) -> Preprocessing:
    """Read the steps of a fitted model before its estimator, or say which of them stands in the way."""
    if not steps:
        return NOTHING
    found = all_stepped(steps, Columns.of_records(model.n_features_in_))
    names = getattr(model, "feature_names_in_", None)
    features = None if names is None else tuple(map(str, names))
    return Preprocessing(tuple(steps), found, features)
