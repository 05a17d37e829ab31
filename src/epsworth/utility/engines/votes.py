"""What the leaves of a sum of trees add, in integers: sums are the same in any order, by whatever engine.

*Counts.* A forest of scikit-learn whose leaves hold one class each adds zeros and ones, which doubles do exactly, and
divides all sums by the number of trees: equal counts stay equal, and argmax takes the first of them.  So the largest
count, the first one of equals, is the label (of two classes: label 1 where more trees say so), and nothing is asked.

*Fixed point.* Elsewhere every value v becomes rint(2^k v), with the largest k for which 2^k (T max |v| + |offset|) is
at most 2^58 (T trees).  Each of T + 1 terms is off by at most 1/2, so a score by (T + 1) / 2 and a lead of one score
over another by T + 1.  Leads within that and the model's own slack are near ties: the classifier decides them.

A mixed difference of s axes at one point adds at most 2^s leaves of every tree, so that nothing on the way to the sums
exceeds 2^(58 + s): up to five axes fit into 64 bits.


Boxes (`Leads`) hold sums in doubles that are integers below 2^53.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.classifiers.trees import LEAF, TreeModel
from epsworth.utility.engines.partition import Leaves

BITS = 58  # of the largest sum; 2^(BITS + s) < 2^63
NEAR = -1  # the state of a cell that the classifier decides

Ints = NDArray[np.int64]
States = NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Votes:
    """The integers that leaves add.

    Attributes
    ----------
    model : TreeModel
    values : ndarray of int64, shape ``(nodes, scores)``
        0 where a node is no leaf.
    offset : ndarray of int64, shape ``(scores,)``
    near : int
        Leads up to this are near ties; negative where there are none.
    bits : int
        Every score was multiplied by 2 to this power.
    largest : int
        No score is larger.
    """

    model: TreeModel
    values: Ints
    offset: Ints
    near: int
    bits: int
    largest: int

    @classmethod
    def of(cls, model: TreeModel) -> Self:
        """Return the votes of a model's leaves."""
        trees, size = len(model.roots), model.size
        held = np.where((model.left == LEAF)[:, np.newaxis], model.values, 0.0)
        bits = 0 if model.counts or size == 0 else BITS - math.frexp(size)[1]
        values, offset = [np.rint(np.ldexp(part, bits)).astype(np.int64) for part in (held, model.offset)]
        apart = trees + 1 if values.shape[1] > 1 else (trees + 1) / 2
        with np.errstate(over="ignore"):  # of leaves far below the slack: then everything is a near tie
            slack = float(np.ldexp(model.slack, bits))
        near = -1 if model.counts else math.ceil(min(apart + slack, 2.0 ** (BITS + 1)))
        return cls(model, values, offset, near, bits, math.ceil(math.ldexp(size, bits)))

    @property
    def asks(self) -> bool:
        """Whether some cell may be a near tie."""
        return self.near >= 0 or self.model.decision is not None

    def kind(self, axes: int) -> type[np.signedinteger]:
        """Return the smallest integers that hold all that occurs on the way to the sums over so many axes."""
        most = self.largest << axes
        return next(kind for kind in (np.int16, np.int32, np.int64) if most <= np.iinfo(kind).max)

    def states(self, scores: NDArray[np.signedinteger]) -> States:
        """Return the place of the label of each cell, or `NEAR`.

        Parameters
        ----------
        scores : ndarray of int, shape ``(scores, ..)``
        """
        if self.model.decision is not None:
            flat = np.ldexp(scores.reshape(len(scores), -1).T.astype(np.float64), -self.bits)
            places, clear = self.model.decided(flat)
            found: States = np.where(clear, places, NEAR).astype(np.int16).reshape(scores.shape[1:])
            return found
        if len(scores) == 1:
            found = (scores[0] > 0).astype(np.int16)
            lead = np.abs(scores[0]) if self.near >= 0 else None
        else:
            found = np.argmax(scores, axis=0).astype(np.int16)
            best = np.partition(scores, -2, axis=0)[-2:] if self.near >= 0 else None
            lead = None if best is None else best[1] - best[0]
        if lead is not None:
            found[lead <= self.near] = NEAR
        return found


LEAD_BITS = 44  # of the largest lead: mixed differences of six axes stay below 2^53, where doubles are exact
FAR = 2.0 ** (LEAD_BITS + 4)  # no lead is as large

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
        every value v becomes rint(2^k v), with T max |v| + |offset| of T trees below 2^`LEAD_BITS`.  A lead is the
        difference of two scores, each off by at most (T + 1) / 2.
        """
        held, trees = model.values[leaves.node], len(leaves.starts)
        size = trees * float(np.abs(held).max(initial=0)) + float(np.abs(model.offset).max(initial=0))
        bits = 0 if model.counts or size == 0 else LEAD_BITS - math.frexp(size)[1]
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
