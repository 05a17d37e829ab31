"""Pipelines: what their steps hand on, what moves when one column does, and the estimator's view of that.

Nothing is computed twice: what the estimator sees is always what the fitted steps' own ``transform`` returns, and the
rules of `transformers` only tell which engine may rely on which columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.reading import Unsupported, ignoring_names, library_class
from epsworth.classifiers.transformers import Columns, all_stepped, parts_of, row_by_row
from epsworth.records import Records

Through = Callable[[int, Floats], NDArray[Any]]
"""From a column of records and values of it to what the steps hand on, the other columns held at some record's."""
Guess = tuple[Floats, Floats, Floats]  # values, how far off they may be, and sizes beyond which nothing can lie
CLOSE = 1e-6  # by which a row handed on alone may differ from the same row among others
LARGEST = float(np.finfo(float).max) / 4  # that of natural values at which models are asked
SIZES = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 31)])  # of values at which a branch and all steps are compared
PROBES = np.concatenate([-SIZES[:0:-1], SIZES])
ROUNDINGS = 4  # of a step in each column, besides the additions of one that mixes columns
MISSING = "the estimator sees missing or infinite values"
BY_BATCH = "a step hands on other values of a record alone than among others: its answer depends on the batch"


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
            What was handed on of all rows at once.
        alone : callable
            From a row's number to that row, in its native container.
        """
        if all(map(row_by_row, self.steps)):
            return True
        rows = sorted({0, len(given) // 2, len(given) - 1})
        single = np.concatenate([self(alone(row)).astype(np.float64) for row in rows])
        return np.allclose(single, given[rows], rtol=CLOSE, atol=CLOSE, equal_nan=True)

    def fed_by(self, position: int) -> NDArray[np.intp]:
        """Return the columns that depend on a record's column and on nothing else."""
        return self.columns.depending_only_on(position) if self.steps else np.array([position])

    def falls(self, columns: NDArray[np.intp]) -> Bools:
        """Tell which of the columns fall as the record's own one rises."""
        return self.columns.order[columns] < 0 if self.steps else np.zeros(len(columns), dtype=bool)

    def own(self, position: int, columns: NDArray[np.intp], natural: Floats, through: Through) -> NDArray[Any]:
        """Return natural values of a record's column as the steps hand them on, each in a column of its own."""
        return through(position, natural)[np.arange(len(natural)), columns]

    def guessed(self, position: int, columns: NDArray[np.intp], seen: Floats, through: Through) -> Guess:
        """Guess which natural values are handed on as those seen, where columns are affine; else say nothing."""
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
            mixed = ~np.isin(fed, self.columns.depending_only_on(position))
            lost = mixed | (self.columns.order[fed] == 0)
            if lost.any():
                step = self.columns.lost[fed[lost][0]] or "a step"
                feature = "the sensitive feature" + (f" {self.features[position]!r}" if self.features else "")
                if mixed[lost][0]:
                    return f"{step} mixes {feature} with other columns; give it a branch of its own"
                exact = "exact are scalers, imputers, uniform quantiles and ordinal bins"
                return f"{step} keeps no order of {feature}; {exact}"
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
    names = getattr(model, "feature_names_in_", None)
    columns = all_stepped(steps, Columns.of_records(model.n_features_in_))
    return Preprocessing(tuple(steps), columns, None if names is None else tuple(map(str, names)))


@dataclass(frozen=True, eq=False)
class ParallelSteps:
    """Preprocessings of the same records as one step: their columns side by side."""

    parts: tuple[Preprocessing, ...]

    def transform(self, records: Any) -> NDArray[Any]:
        """Return the columns of all."""
        return np.column_stack([part(records) for part in self.parts])


@dataclass(frozen=True, eq=False)
class Selection:
    """Some columns of an array, in an order of their own, as one step."""

    columns: NDArray[np.intp]

    def transform(self, records: Any) -> NDArray[Any]:
        """Return these columns."""
        return np.asarray(np.asarray(records)[:, self.columns])


def parallel_preprocessing(parts: Sequence[Preprocessing]) -> Preprocessing:
    """Return one preprocessing that hands on the columns of all; the records' own where none has steps."""
    if not any(part.steps for part in parts):
        return parts[0]
    columns = Columns.stack([part.columns for part in parts], parts[0].columns.uses.shape[1])
    return Preprocessing((ParallelSteps(tuple(parts)),), columns)


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
        handed = np.repeat(self.row[np.newaxis], len(values), axis=0)
        with ignoring_names():
            handed[:, self.place] = as_array(self.step.transform(block))
        return handed


@dataclass(frozen=True, eq=False)
class ShortCuts:
    """From a column of records and values of it to what is handed on, the other columns being the first record's."""

    before: Preprocessing
    records: Records
    branches: dict[int, Branch]

    @classmethod
    def prepared(cls, before: Preprocessing, records: Records, own: Mapping[int, Floats]) -> tuple[Any, Self]:
        """Return what is handed on of every record, and the branches that hand on the same bits as all steps do.

        Parameters
        ----------
        own : mapping
            Of columns that move, the records' values as they are released; a table's own precision may be another.
        """
        n, branches, size = len(records), dict[int, Branch](), len(PROBES)
        probed = list(own) if len(before.steps) == 1 and library_class(before.steps[0]) == "ColumnTransformer" else []
        values = {
            position: np.concatenate([column, *(np.where(position == p, PROBES, column[0]) for p in probed)])
            for position, column in own.items()
        }
        rows = np.concatenate([np.arange(n), np.zeros(len(probed) * size, dtype=np.intp)])
        handed = before.handed_on(records.take(rows, values))  # at once: frames take their time for each call
        handed = handed if hasattr(handed, "toarray") else np.asarray(handed)
        for position, start in zip(probed, range(n, len(rows), size), strict=True):
            part = as_array(handed[start : start + size])
            branch = _branch(before.steps[0], records, own, position, part[size // 2])
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


@dataclass(frozen=True, eq=False)
class ColumnView:
    """The estimator sees ``base + slopes @ (values - origin)`` of records whose columns at positions hold values.

    Attributes
    ----------
    base : ndarray, shape ``(records, width)``
        What it sees with the moving columns at their origin: computed by the steps themselves.
    slopes, terms : ndarray, shape ``(width, moving)``
        Change per natural unit, and the absolute terms per unit of size that rounding errors are relative to.
    fixed : ndarray, shape ``(records, width)``
        The absolute terms that stay.
    origin : ndarray, shape ``(moving,)``
    additions : int
        Rounded operations behind a seen value.
    """

    base: Floats
    slopes: Floats
    terms: Floats
    fixed: Floats
    origin: Floats
    additions: int

    @property
    def width(self) -> int:
        """How many columns the estimator sees."""
        return int(self.base.shape[1])

    def sizes(self, reach: Floats) -> Floats:
        """Bound the absolute terms of what is seen, ``(records, width)``, where no moving value exceeds its reach."""
        return np.asarray(self.fixed + self.terms @ reach)

    def at(self, rows: NDArray[np.intp], values: Floats) -> Floats:
        """Return what is seen of records with natural values of the moving columns, shape ``(n, moving)``."""
        return np.asarray(self.base[rows] + (values - self.origin) @ self.slopes.T)


def column_view(
    model: Any, steps: Sequence[Any], records: Records, positions: Sequence[int], origin: Floats
) -> ColumnView:
    """Return what stands behind a model's steps as a function of the columns at positions, or why that is not affine.

    The other columns may pass through anything that is deterministic, and hold texts and gaps.
    """
    before = preprocessing_before(model, steps)
    columns = before.columns if before.steps else Columns.of_records(len(records.names))
    moving = columns.slopes[:, list(positions)]
    if not np.isfinite(moving).all():
        raise Unsupported(_bent(columns, moving, records, positions))
    base = _seen(before, records, dict(zip(positions, origin, strict=True)))
    terms = columns.terms[:, list(positions)]
    fixed = _fixed(columns, records, positions)
    mixing = columns.uses.sum(axis=1) > 1
    moves = columns.uses[:, list(positions)].any(axis=1)
    if not np.isfinite(terms).all() or not np.isfinite(fixed[:, mixing | moves]).all():
        raise Unsupported("a step mixes columns, and how far its sums are rounded is not known")
    fixed = np.where(moves, fixed, np.fmax(fixed, np.abs(base)))  # NaN where one is computed alone, and never moves
    additions = sum(_additions(step, mixes=bool(mixing.any())) for step in steps)
    return ColumnView(base, moving, terms, fixed, origin, additions)


def _bent(columns: Columns, moving: Floats, records: Records, positions: Sequence[int]) -> str:
    """Say which moving column is no affine function of what is seen, and in which step it stops to be one."""
    row, j = np.argwhere(~np.isfinite(moving))[0]
    step, name = columns.lost[row], records.names[positions[int(j)]]
    where = f" (the step {step} stands in the way)" if step else ""
    return (
        f"what the estimator sees of the sensitive feature {name!r} is not an affine function of it{where}; exact are "
        "scalers and imputers, also with principal components behind them"
    )


def _seen(before: Preprocessing, records: Records, held: dict[int, float]) -> Floats:
    """Return what is handed on of all records with some columns held."""
    if not before.steps:
        numbers = records.numbers()
        if numbers is None:
            raise Unsupported("the table holds columns that are not numbers")
        numbers[:, list(held)] = list(held.values())
        return _finite(numbers)
    every = np.arange(len(records))
    given = before(records.take(every, {p: np.full(len(every), value) for p, value in held.items()}))
    if given.dtype == np.float32:
        raise Unsupported("a step hands on numbers in single precision")
    try:
        numbers = given.astype(np.float64)
    except (TypeError, ValueError):
        raise Unsupported("the steps hand on columns that are not numbers") from None
    single = {p: np.array([value]) for p, value in held.items()}
    if not before.row_by_row(numbers, lambda row: records.take(every[[row]], single)):
        raise Unsupported(BY_BATCH)
    return _finite(numbers)


def _finite(numbers: Floats) -> Floats:
    if not np.isfinite(numbers).all():
        raise Unsupported(MISSING)
    return numbers


def _fixed(columns: Columns, records: Records, positions: Sequence[int]) -> Floats:
    """Return the absolute terms of what does not move; NaN where they are not known.

    A gap counts 0: what stands in for it is among its step's constants.
    """
    public = np.delete(np.arange(columns.terms.shape[1]), list(positions))
    natural = np.zeros((len(records), len(public)))
    for j, position in enumerate(public.tolist()):
        try:
            natural[:, j] = np.nan_to_num(np.abs(np.asarray(records.column(position), dtype=np.float64)))
        except (TypeError, ValueError):
            natural[:, j] = np.nan  # a text
    terms = columns.terms[:, public]
    of_texts = np.isnan(natural).astype(float) @ (terms != 0).T > 0
    return np.where(of_texts, np.nan, np.nan_to_num(natural) @ terms.T + columns.constants)


def _additions(step: Any, *, mixes: bool) -> int:
    """Bound the rounded operations of a step, of those within it, and of its sums over columns where it mixes some."""
    own = int(getattr(step, "n_features_in_", 0)) if mixes else 0
    return ROUNDINGS + own + sum(_additions(part, mixes=mixes) for part in parts_of(step))
