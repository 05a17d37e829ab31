"""What a client of a tailored policy does: find the region of its record, randomise it once, send what stands for it.

Notation of the claim: x_S are the sensitive columns, x_P all others that the copy g sees.  Which regions are within
reach, which records stand for them, and the kernel between them are functions of the policy and x_P alone
(`ReachableRegions`); x_S only chooses a row of that kernel, so that for every fixed x_P the probabilities of all that
can leave differ by at most e^epsilon.  g may be wrong, or made up: nothing in this depends on what it answers.

Everything in the ``[tailored]`` table of a policy is checked, and every kernel is proven, again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Indices, distinct_rows
from epsworth.grids import Grid
from epsworth.mechanisms.words import SystemWords, WordSource
from epsworth.tailored.randomisers import Average, ConditionalKernel, Randomiser, asks_only
from epsworth.tailored.surrogates import Surrogate

CHUNK = 1 << 14  # records, or contexts, that are looked at together
MOST_REPRESENTATIVES = 1 << 12  # of one region
WORDS = 1 << 64


@dataclass(frozen=True, eq=False)
class Tailoring:
    """The public tables of a tailored policy.

    Attributes
    ----------
    labels : tuple
        What the classifier answers in each region; several may share one.
    grids : tuple of Grid
        The copy's inputs.
    sensitive : tuple of bool
        Which of them are replaced; all others, and all columns that are no inputs, are sent as they are.
    copy : Surrogate
    representatives : tuple of ndarray of int, each of shape ``(candidates, sensitive)``
        For each region places of the sensitive columns that may stand for it, the first choice first.
    default : tuple of int
        What is sent where no region is within reach.
    randomiser : Randomiser
    draw : bool
        Whether any of a region's representatives is sent, all those within reach equally likely.
    classifiers : tuple of str
        Fingerprints of the classifiers that were copied.
    """

    labels: tuple[Any, ...]
    grids: tuple[Grid, ...]
    sensitive: tuple[bool, ...]
    copy: Surrogate
    representatives: tuple[Indices, ...]
    default: tuple[int, ...]
    randomiser: Randomiser
    draw: bool = False
    classifiers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not any(self.sensitive):
            raise ValueError("inputs: none is sensitive; mark those that records keep to themselves")
        if len(self.labels) != self.copy.regions or self.randomiser.count != self.copy.regions:
            raise ValueError(f"labels: there must be one for each of the copy's {self.copy.regions} regions")
        if tuple(grid.input for grid in self.grids) != self.copy.inputs:
            raise ValueError("copy: its inputs are not those of the policy")
        places = np.array([grid.input.places for grid in self._of_sensitive])
        if len(self.representatives) != len(self.labels):
            raise ValueError("representatives: there must be a list, which may be empty, for each region")
        for rows in (*self.representatives, np.array([self.default], dtype=np.int64)):
            if rows.shape[1:] != places.shape or ((rows < 0) | (rows >= places)).any():
                raise ValueError("representatives: each must hold one place on its grid for each sensitive column")
            if len(rows) > MOST_REPRESENTATIVES:
                raise ValueError(f"representatives: a region can have {MOST_REPRESENTATIVES}, one has {len(rows)}")
        if isinstance(self.randomiser, Average) and not asks_only(
            self.randomiser.prior, [not s for s in self.sensitive]
        ):
            raise ValueError("kernel.prior: it asks about a sensitive column; a prior may see public ones alone")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tailoring) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.epsilon, self.labels, self.names, self.default))

    @property
    def epsilon(self) -> Decimal:
        """Of the whole record, once."""
        return self.randomiser.epsilon

    @property
    def _of_sensitive(self) -> list[Grid]:
        return [grid for grid, hidden in zip(self.grids, self.sensitive, strict=True) if hidden]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The sensitive columns, which are replaced."""
        return tuple(grid.name for grid in self._of_sensitive)

    @cached_property
    def released_values(self) -> dict[str, list[Any]]:
        """The natural values of every sensitive column, by place."""
        return {grid.name: grid.values.tolist() for grid in self._of_sensitive}

    @cached_property
    def hidden(self) -> Bools:
        """Which of the inputs are sensitive."""
        return np.array(self.sensitive, dtype=bool)

    def released(self, true: Indices, seen: Indices, words: WordSource | None = None) -> Indices:
        """Return what is sent in place of the sensitive columns, fresh on every call.

        Parameters
        ----------
        true : ndarray of int, shape ``(n, inputs)``
            Places of the records.
        seen : ndarray of int, shape ``(n, inputs)``
            The same with the released values of columns that another rule perturbs: of it, public columns are read.

        Returns
        -------
        ndarray of int, shape ``(n, sensitive)``
        """
        sent = np.empty((len(true), len(self.names)), dtype=np.int64)
        for start in range(0, len(true), CHUNK):
            part = slice(start, start + CHUNK)
            reach = ReachableRegions.of(self, seen[part])
            sent[part] = reach.draw(self.copy(true[part]), words)
        return sent

    def outcomes(self, true: Indices, seen: Indices) -> list[tuple[tuple[int, ...], Fraction]]:
        """Return all that one record, shape ``(inputs,)`` each, can send, with exact probabilities that sum to 1."""
        reach = ReachableRegions.of(self, seen[np.newaxis])
        return reach.outcomes(0, int(self.copy(true[np.newaxis])[0]))

    def to_dict(self) -> dict[str, Any]:
        """Return the policy's table."""
        inputs = {}
        for grid, hidden in zip(self.grids, self.sensitive, strict=True):
            ordered = {"bits": grid.bits} if grid.feature.categories is None and not grid.feature.points else {}
            outside = {} if grid.outside is None else {"outside": grid.outside}
            inputs[grid.name] = (
                {"sensitive": hidden} | grid.feature.to_dict() | ordered | {"missing": grid.missing} | outside
            )
        return {
            "epsilon": self.epsilon,
            "labels": [list(label) if isinstance(label, tuple) else label for label in self.labels],
            "draw": self.draw,
            "classifiers": list(self.classifiers),
            "inputs": inputs,
            "kernel": self.randomiser.to_dict(),
            "default": list(self.default),
            "representatives": [rows.tolist() for rows in self.representatives],
            "copy": self.copy.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class ReachableRegions:
    """What public columns decide: which regions are within reach of records, and what stands for them.

    Attributes
    ----------
    contexts : ndarray of int, shape ``(contexts, inputs)``
        Different public columns; sensitive ones are 0.
    at : ndarray of int, shape ``(n,)``
        Each record's context.
    standing : ndarray of int, shape ``(contexts, regions)``
        The first representative of each region that the copy takes for one there; -1 where there is none.
    """

    tailoring: Tailoring
    contexts: Indices
    at: Indices
    standing: Indices

    @classmethod
    def of(cls, tailoring: Tailoring, seen: Indices) -> ReachableRegions:
        """Look at the public columns of records."""
        public = seen.copy()
        public[:, np.flatnonzero(tailoring.hidden)] = 0
        if tailoring.hidden.all():
            contexts, at = public[:1], np.zeros(len(seen), dtype=np.int64)
        else:
            first, at = distinct_rows(public)
            contexts = public[first]
        standing = np.full((len(contexts), len(tailoring.labels)), -1, dtype=np.int64)
        columns = np.flatnonzero(tailoring.hidden)
        for region, rows in enumerate(tailoring.representatives):
            left, tried = np.arange(len(contexts)), contexts.copy() if len(rows) else contexts
            for number, row in enumerate(rows):
                tried[:, columns] = row
                found = tailoring.copy(tried) == region
                standing[left[found], region] = number
                left, tried = left[~found], tried[~found]
                if not left.size:
                    break
        return cls(tailoring, contexts, at, standing)

    def by(self, randomiser: Randomiser) -> ReachableRegions:
        """Return the same, with regions randomised otherwise."""
        return replace(self, tailoring=replace(self.tailoring, randomiser=randomiser))

    @cached_property
    def kinds(self) -> tuple[NDArray[np.int64], list[ConditionalKernel | None]]:
        """Each context's kind, and the kinds' cases; None where nothing is within reach."""
        leaves = self.tailoring.randomiser.leaves(self.contexts)
        first, kind = distinct_rows(np.column_stack([leaves, np.packbits(self.standing >= 0, axis=1)]))
        cases: list[ConditionalKernel | None] = []
        for context in first.tolist():
            present = tuple(np.flatnonzero(self.standing[context] >= 0).tolist())
            cases.append(self.tailoring.randomiser.case(int(leaves[context]), present) if present else None)
        return kind, cases

    def case(self, context: int) -> ConditionalKernel | None:
        """Return what is drawn from in a context."""
        kind, cases = self.kinds
        return cases[int(kind[context])]

    def draw(self, true: Indices, words: WordSource | None) -> Indices:
        """Return places of sensitive columns to send, from the records' true regions."""
        kind, cases = self.kinds
        regions = np.full(len(true), -1, dtype=np.int64)
        of_records = kind[self.at]
        for number, case in enumerate(cases):
            if case is not None:
                rows = np.flatnonzero(of_records == number)
                regions[rows] = case.draw(true[rows], words)
        sent = np.tile(np.array(self.tailoring.default, dtype=np.int64), (len(true), 1))
        for region, rows in enumerate(self.tailoring.representatives):
            chosen = np.flatnonzero(regions == region)
            if chosen.size:
                sent[chosen] = rows[self._numbers(chosen, region, words)]
        return sent

    def _numbers(self, chosen: Indices, region: int, words: WordSource | None) -> Indices:
        """Return which of a region's representatives records send."""
        if not self.tailoring.draw:
            return np.asarray(self.standing[self.at[chosen], region])
        contexts, at = np.unique(self.at[chosen], return_inverse=True)
        numbers = np.empty(len(chosen), dtype=np.int64)
        for i, context in enumerate(contexts.tolist()):
            listed, mine = self.listed(context, region), np.flatnonzero(at == i)
            numbers[mine] = listed[_uniform(len(listed), mine.size, words)]
        return numbers

    def listed(self, context: int, region: int) -> Indices:
        """Return the numbers of all representatives that the copy takes for ones of a region in a context."""
        rows = self.tailoring.representatives[region]
        there = np.tile(self.contexts[context], (len(rows), 1))
        found = self.tailoring.copy(_with(self.tailoring, there, rows)) == region
        numbers: Indices = np.arange(len(rows))[found]
        return numbers

    def outcomes(self, context: int, true: int) -> list[tuple[tuple[int, ...], Fraction]]:
        """Return what a record of a true region can send in a context; equal ones are added up."""
        found: dict[tuple[int, ...], Fraction] = {}
        for region, share in self.shares(context, true):
            for sent in self.standing_for(context, region):
                found[sent[0]] = found.get(sent[0], Fraction(0)) + share * sent[1]
        return list(found.items())

    def shares(self, context: int, true: int) -> list[tuple[int, Fraction]]:
        """Return the regions that are drawn in a context, with exact probabilities; region -1 is the default."""
        case = self.case(context)
        return [(-1, Fraction(1))] if case is None else case.shares(true)

    def standing_for(self, context: int, region: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        """Yield what is sent for a drawn region, with the share of each."""
        if region < 0:
            yield self.tailoring.default, Fraction(1)
            return
        rows = self.tailoring.representatives[region]
        numbers = self.listed(context, region) if self.tailoring.draw else self.standing[[context], region]
        for number in numbers.tolist():
            yield tuple(rows[number].tolist()), Fraction(1, len(numbers))


def _with(tailoring: Tailoring, places: Indices, sensitive: Indices) -> Indices:
    """Return places with the sensitive ones replaced."""
    replaced = places.copy()
    replaced[:, tailoring.hidden] = sensitive
    return replaced


def _uniform(count: int, size: int, words: WordSource | None) -> Indices:
    """Return whole numbers below a count, all equally likely: words beyond its last multiple are drawn anew."""
    source = SystemWords() if words is None else words
    most = np.uint64(WORDS - WORDS % count - 1)
    drawn, left = np.zeros(size, dtype=np.int64), np.arange(size)
    while left.size:
        taken = source.take(left.size)
        fine = taken <= most
        drawn[left[fine]] = (taken[fine] % np.uint64(count)).astype(np.int64)
        left = left[~fine]
    return drawn
