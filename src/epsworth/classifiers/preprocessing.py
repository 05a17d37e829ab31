"""What stands before the estimator of a composition: which columns it sees, and how these follow from a record's.

A step is a rule of `RULES`: from what is known of the columns that it is given to what is known of those that it hands
on.  Nothing is computed twice: what the estimator sees is always what the fitted steps' own ``transform`` returns, and
the rules only tell which engine may rely on which columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.genuine import kind_of
from epsworth.classifiers.scalers import AFFINE, ignoring_names, per_column, plain

Order = NDArray[np.int8]
Through = Callable[[int, Floats], NDArray[Any]]
"""From a column of records and values of it to what the steps hand on, the other columns held at some record's."""
Guess = tuple[Floats, Floats, Floats]  # values, how far off they may be, and sizes beyond which nothing can lie
LARGEST = float(np.finfo(float).max) / 4  # that of natural values at which models are asked


@dataclass(frozen=True, eq=False)
class Columns:
    """What is known of columns that are functions of a record's own.

    Attributes
    ----------
    uses : ndarray of bool, shape ``(width, d)``
        On which of the record's columns each one depends.
    order : ndarray of int8, shape ``(width,)``
        For one that depends on a single column: 1 where it never falls as that rises, -1 where it never rises, 0 where
        neither is known.
    slopes : ndarray, shape ``(width, d)``
        Change per unit of the record's columns; NaN where one is not an affine function of what it depends on.
    terms, constants : ndarray, shapes ``(width, d)`` and ``(width,)``
        An affine column is computed in steps whose absolute terms are at most ``terms @ |record| + constants``: what
        all its rounding errors are relative to.
    names : tuple of str, optional
        Names of the columns, where they are handed on as a data frame.
    """

    uses: Bools
    order: Order
    slopes: Floats
    terms: Floats
    constants: Floats
    names: tuple[str, ...] | None = None

    @classmethod
    def of_records(cls, width: int, names: Sequence[str] | None = None) -> Self:
        """Return a record's own columns."""
        one = np.eye(width)
        named = None if names is None else tuple(names)
        return cls(one > 0, np.ones(width, dtype=np.int8), one, one, np.zeros(width), named)

    def __len__(self) -> int:
        return len(self.uses)

    def scaled(self, scale: Floats, shift: Floats) -> Columns:
        """Return ``scale * column + shift``; a factor that is not finite leaves nothing known but the dependence."""
        known = np.isfinite(scale) & np.isfinite(shift)
        factor = np.where(known, scale, np.nan)[:, np.newaxis]
        with np.errstate(invalid="ignore"):
            return replace(
                self,
                order=np.where(known, np.sign(np.where(known, scale, 0)) * self.order, 0).astype(np.int8),
                slopes=np.where(self.uses, factor * self.slopes, 0.0),
                terms=np.where(self.uses, np.abs(factor) * self.terms, 0.0),
                constants=np.where(known, np.abs(scale) * self.constants + np.abs(shift), np.nan),
            )

    def bent(self, order: int = 1) -> Columns:
        """Return functions of single columns that never fall (1), never rise (-1), or of which neither is known (0)."""
        return replace(
            self, order=(order * self.order).astype(np.int8), slopes=np.where(self.uses, np.nan, 0.0),
            terms=np.where(self.uses, np.nan, 0.0), constants=np.full(len(self), np.nan),
        )  # fmt: skip

    def alone(self, position: int) -> NDArray[np.intp]:
        """Return the columns that depend on a record's column, and on nothing else."""
        return np.flatnonzero(self.uses[:, position] & (self.uses.sum(axis=1) == 1))


Rule = Callable[[Any, Columns], Columns | str]
"""From a fitted step and the columns that it is given to those that it hands on, or why they are not known."""


def _scaler(step: Any, given: Columns) -> Columns | str:
    found = given.scaled(*(np.asarray(part, dtype=np.float64) for part in per_column(step, len(given))))
    return replace(found if plain(step) else replace(found.bent(), order=found.order), names=None)


RULES: dict[str, Rule] = dict.fromkeys(AFFINE, _scaler)


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """The steps before an estimator, and what is known of the columns that it sees.

    Attributes
    ----------
    steps : tuple
        Fitted transformers, applied in order.
    columns : Columns
    """

    steps: tuple[Any, ...]
    columns: Columns

    def __call__(self, records: Any) -> NDArray[Any]:
        """Return what the estimator sees of records in their native container, shape ``(n, width)``."""
        with ignoring_names():
            for step in self.steps:
                records = step.transform(records)
        return np.asarray(records.toarray() if hasattr(records, "toarray") else records)

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

    def affine(self, positions: Sequence[int]) -> Bools | None:
        """Return which columns depend on a record's columns at positions; None where one of them does not affinely."""
        touched = np.asarray(self.columns.uses[:, list(positions)].any(axis=1))
        return touched if np.isfinite(self.columns.slopes[touched]).all() else None

    def obstacle(self, positions: Sequence[int]) -> str | None:
        """Return why thresholds on the record's columns at positions cannot be located; None where they can.

        Each must alone feed the columns that depend on it, and each of these must keep or reverse its order.
        """
        for position in positions:
            fed = np.flatnonzero(self.columns.uses[:, position])
            if not np.isin(fed, self.columns.alone(position)).all():
                return "a step mixes a sensitive feature with other columns"
            if (self.columns.order[fed] == 0).any():
                return "a step keeps no order of a sensitive feature"
        return None


NOTHING = Preprocessing((), Columns.of_records(0))
"""Before an estimator that sees the records themselves, however many columns they have."""


def preprocessing_before(model: Any, steps: Sequence[Any]) -> Preprocessing | str:
    """Read the steps of a fitted model before its estimator, or say which of them stands in the way."""
    if not steps:
        return NOTHING
    names = getattr(model, "feature_names_in_", None)
    found = Columns.of_records(model.n_features_in_, None if names is None else [*map(str, names)])
    for step in steps:
        handed = stepped(step, found)
        if isinstance(handed, str):
            return handed
        found = handed
    return Preprocessing(tuple(steps), found)


def stepped(step: Any, given: Columns) -> Columns | str:
    """Return what a fitted step makes of columns, or why that is not known."""
    kind = kind_of(step)
    if kind is None:
        return f"the step {type(step).__name__} answers by code of its own"
    rule = RULES.get(kind)
    if rule is None:
        return f"the step {kind} is not one that can be seen through"
    try:
        return rule(step, given)
    except (AttributeError, TypeError, ValueError, IndexError):  # fitted by another version, or not fitted
        return f"the step {kind} does not hold what it should"
