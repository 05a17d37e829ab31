"""What an estimator sees of records while some of their columns move: affine functions of these, read off its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.classifiers.columns import Columns
from epsworth.classifiers.preprocessing import Preprocessing, preprocessing_before
from epsworth.classifiers.reading import Unsupported
from epsworth.classifiers.transformers import parts_of
from epsworth.records import Records

ROUNDINGS = 4  # of a step in each column, besides the additions of one that mixes columns
MISSING = "the estimator sees missing or infinite values"
BY_BATCH = "a step hands on other values of a record alone than among others: its answer depends on the batch"


@dataclass(frozen=True, eq=False)
class View:
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


def viewed(model: Any, steps: Sequence[Any], records: Records, positions: Sequence[int], origin: Floats) -> View:
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
    return View(base, moving, terms, fixed, origin, additions)


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
        found = given.astype(np.float64)
    except (TypeError, ValueError):
        raise Unsupported("the steps hand on columns that are not numbers") from None
    if not before.row_by_row(
        found, lambda row: records.take(every[[row]], {p: np.array([v]) for p, v in held.items()})
    ):
        raise Unsupported(BY_BATCH)
    return _finite(found)


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
    found = np.nan_to_num(natural) @ terms.T + columns.constants
    of_texts = np.isnan(natural).astype(float) @ (terms != 0).T > 0
    return np.where(of_texts, np.nan, found)


def _additions(step: Any, *, mixes: bool) -> int:
    """Bound the rounded operations of a step, of those within it, and of its sums over columns where it mixes some."""
    own = int(getattr(step, "n_features_in_", 0)) if mixes else 0
    return ROUNDINGS + own + sum(_additions(part, mixes=mixes) for part in parts_of(step))
