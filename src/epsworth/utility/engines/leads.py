"""By how much the leaves that a record can reach let one label lead, in integers that doubles hold exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.classifiers.trees import TreeModel
from epsworth.utility.engines.partition import Leaves

BITS = 44  # of the largest sum: mixed differences of six axes stay below 2^53, where doubles are exact

FAR = 2.0 ** (BITS + 4)  # no lead is as large

Cells = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Leads:
    """The leaves of one record as boxes of cells, and what each adds to the leads of a label over its rivals.

    The label stays where all sums exceed ``slack``, and is lost where one lies below ``-slack``.

    Attributes
    ----------
    low, high : ndarray of int32, shape ``(sensitive, leaves)``
        First and last cell.
    tree : ndarray of int32, shape ``(leaves,)``
        Rising.
    values : ndarray of integers, shape ``(rivals, leaves)``
    offset : ndarray, shape ``(rivals,)``
        Added to the sums.
    slack : float
    apart : bool
        Whether leaves of different values add different integers: where no tree varies, then, the model answers
        alike, so that one point tells how a near tie is decided.
    """

    low: Cells
    high: Cells
    tree: Cells
    values: Floats
    offset: Floats
    slack: float
    apart: bool

    @classmethod
    def of(cls, model: TreeModel, leaves: Leaves, label: int) -> Self:
        """Return the leads of a label (its place among the classes).

        Counts of trees are integers, and equal ones go to the first label: half a vote decides every tie.  Elsewhere
        every value v becomes rint(2^k v), with T max |v| + |offset| of T trees below 2^`BITS`.  A lead is the
        difference of two scores, each off by at most (T + 1) / 2.
        """
        held, trees = model.values[leaves.node], len(leaves.starts)
        size = trees * float(np.abs(held).max(initial=0)) + float(np.abs(model.offset).max(initial=0))
        bits = 0 if model.counts or size == 0 else BITS - math.frexp(size)[1]
        values, offset = (np.rint(np.ldexp(part, bits)) for part in (held, model.offset))
        if values.shape[1] == 1:
            sign, first = (1.0, np.array([True])) if label == 1 else (-1.0, np.array([False]))
            values, offset = sign * values, sign * offset
        else:
            first = np.delete(np.arange(len(offset)), label) < label
            values = values[:, [label]] - np.delete(values, label, axis=1)
            offset = offset[label] - np.delete(offset, label)
        return cls(
            low=leaves.low.astype(np.int32),
            high=leaves.high.astype(np.int32),
            tree=np.repeat(
                np.arange(trees, dtype=np.int32), np.diff(leaves.starts, append=len(held))
            ),
            values=np.ascontiguousarray(values.T),
            offset=offset + (np.where(first, -0.5, 0.5) if model.counts else 0.0),
            slack=0.0 if model.counts else trees + 1 + min(float(np.ldexp(model.slack, min(bits, 1000))), FAR),
            apart=len(np.unique(values, axis=0)) == len(np.unique(held, axis=0)),
        )  # fmt: skip
