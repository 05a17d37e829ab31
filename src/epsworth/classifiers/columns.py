"""What is known of columns that are functions of a record's own: what they depend on, and in which way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats

Order = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Columns:
    """What is known of columns that are functions of a record's own, wherever these hold numbers or texts, not gaps.

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
    lost : ndarray of str, shape ``(width,)``
        The kind of the first step behind which a column has no order; empty where it has one.
    """

    uses: Bools
    order: Order
    slopes: Floats
    terms: Floats
    constants: Floats
    lost: NDArray[np.str_]

    @classmethod
    def of_records(cls, width: int) -> Self:
        """Return a record's own columns."""
        one = np.eye(width)
        return cls(one > 0, np.ones(width, dtype=np.int8), one, one, np.zeros(width), np.full(width, ""))

    @classmethod
    def joined(cls, parts: Sequence[Columns], width: int) -> Self:
        """Return the columns of several parts side by side, of records of a width."""
        parts = [cls.of_records(width).taken(np.arange(0)), *parts]
        fields = ("uses", "order", "slopes", "terms", "constants", "lost")
        return cls(*(np.concatenate([getattr(part, field) for part in parts]) for field in fields))

    def __len__(self) -> int:
        return len(self.uses)

    def taken(self, which: Any) -> Columns:
        """Return some of the columns, by positions (which may repeat) or a mask."""
        return Columns(
            self.uses[which], self.order[which], self.slopes[which], self.terms[which], self.constants[which],
            self.lost[which],
        )  # fmt: skip

    def scaled(self, scale: ArrayLike, shift: ArrayLike) -> Columns:
        """Return ``scale * column + shift``; a factor that is not finite leaves nothing known but the dependence."""
        scale, shift = (np.broadcast_to(np.asarray(part, dtype=np.float64), len(self)) for part in (scale, shift))
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

    def bent(self, order: ArrayLike = 1) -> Columns:
        """Return functions of single columns that never fall (1), never rise (-1), or of which neither is known (0)."""
        return replace(
            self, order=(np.asarray(order) * self.order).astype(np.int8), slopes=np.where(self.uses, np.nan, 0.0),
            terms=np.where(self.uses, np.nan, 0.0), constants=np.full(len(self), np.nan),
        )  # fmt: skip

    def filled(self, values: Sequence[Any]) -> Columns:
        """Return the same columns, in which a value may stand for what is missing: sizes hold for that, too."""
        sizes = [abs(value) if isinstance(value, (float, int, np.number)) else 0.0 for value in values]
        return replace(self, constants=self.constants + np.nan_to_num(np.array(sizes, dtype=np.float64)))

    def bounded(self, size: float) -> Columns:
        """Return any functions of single columns that are exact, and no larger than a size."""
        found = self.bent(0)
        return replace(found, terms=np.zeros(found.terms.shape), constants=np.full(len(self), size))

    def constant(self, size: float) -> Columns:
        """Return functions of single columns that do not change, of a size."""
        nothing = np.zeros(self.slopes.shape)
        order = np.ones(len(self), dtype=np.int8)
        return replace(self, order=order, slopes=nothing, terms=nothing, constants=np.full(len(self), size))

    def mixed(self, matrix: Floats, shift: ArrayLike) -> Columns:
        """Return ``matrix @ columns + shift``; what a zero of the matrix stands before is not used."""
        used: Bools = np.not_equal(matrix, 0)
        uses = (used.astype(np.intp) @ self.uses.astype(np.intp)) > 0
        bent = (used.astype(np.intp) @ np.where(np.isnan(self.slopes), 1, 0)) > 0
        unsized = (used.astype(np.intp) @ np.where(np.isnan(self.terms), 1, 0)) > 0
        slopes, terms = (np.nan_to_num(part, nan=0.0) for part in (self.slopes, self.terms))
        constants = np.where(used, np.abs(matrix) * self.constants, 0.0).sum(axis=1) + np.abs(shift)
        return Columns(
            uses, np.zeros(len(uses), dtype=np.int8), np.where(bent, np.nan, matrix @ slopes),
            np.where(unsized, np.nan, np.abs(matrix) @ terms), constants, np.full(len(uses), ""),
        )  # fmt: skip

    def blended(self, width: int) -> Columns:
        """Return as many functions of all columns together, of which no more is known."""
        uses = np.repeat(self.uses.any(axis=0)[np.newaxis], width, axis=0)
        return Columns(
            uses, np.zeros(width, dtype=np.int8), np.where(uses, np.nan, 0.0), np.where(uses, np.nan, 0.0),
            np.full(width, np.nan), np.full(width, ""),
        )  # fmt: skip

    def behind(self, step: str) -> Columns:
        """Return the columns with a step's name at those that lost their order in it."""
        here = (self.order == 0) & (self.lost == "") & self.uses.any(axis=1)
        return replace(self, lost=np.where(here, step, self.lost))

    def alone(self, position: int) -> NDArray[np.intp]:
        """Return the columns that depend on a record's column, and on nothing else."""
        return np.flatnonzero(self.uses[:, position] & (self.uses.sum(axis=1) == 1))
