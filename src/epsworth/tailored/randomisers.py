"""How a region is randomised where just some regions are within reach: nothing here sees a sensitive value.

Every choice made here is one of the policy and of public columns: which regions are present, in which order, and with
which kernel.  A true region then only picks a row of that kernel, and all rows keep epsilon against each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from epsworth.arrays import Indices
from epsworth.client.kernels import exp_below
from epsworth.mechanisms import Kernel
from epsworth.mechanisms.kernels import require
from epsworth.mechanisms.krr import krr
from epsworth.mechanisms.rational import log_above, stated_epsilon
from epsworth.mechanisms.regions import RegionKernel, folded
from epsworth.mechanisms.words import WordSource
from epsworth.tailored.surrogates import Surrogate, Trees

MOST_LEAVES = 64


@dataclass(frozen=True, eq=False)
class ConditionalKernel:
    """Regions that can be drawn, and the kernel between them; a region that is none of them takes the first's row.

    Attributes
    ----------
    regions : tuple of int
        In the policy's order.
    kernel : Kernel or None
        Between their places in that order; None where there is one alone.
    """

    regions: tuple[int, ...]
    kernel: Kernel | None

    @cached_property
    def _rows(self) -> dict[int, int]:
        return {region: row for row, region in enumerate(self.regions)}

    def row(self, region: int) -> int:
        """Return the row of the kernel that a true region takes."""
        return self._rows.get(region, 0)

    def draw(self, true: Indices, words: WordSource | None) -> Indices:
        """Return fresh regions, one for each true one."""
        drawn = np.zeros(len(true), dtype=np.int64)
        if self.kernel is not None:
            known, at = np.unique(true, return_inverse=True)
            rows = np.array([self.row(region) for region in known.tolist()], dtype=np.int64)[at]
            drawn = self.kernel.draw(rows, words=words)
        return np.array(self.regions, dtype=np.int64)[np.asarray(drawn)]

    def shares(self, true: int) -> list[tuple[int, Fraction]]:
        """Return every region that can be drawn, with its exact probability."""
        if self.kernel is None:
            return [(self.regions[0], Fraction(1))]
        row = self.row(true)
        total = self.kernel.total(row)
        weighed = zip(self.regions, self.kernel.weights(row), strict=True)
        return [(region, Fraction(weight, total)) for region, weight in weighed if weight]


@dataclass(frozen=True, eq=False)
class Randomiser(ABC):
    """What a policy says of drawing regions.

    Attributes
    ----------
    epsilon : Decimal
        Of the whole record.
    count : int
        How many regions there are.
    """

    kind: ClassVar[str]
    best: ClassVar[str]
    """What it is best for, in words."""
    epsilon: Decimal
    count: int
    _cases: dict[tuple[int, tuple[int, ...]], ConditionalKernel] = field(default_factory=dict, init=False, repr=False)

    @property
    def stated(self) -> Fraction:
        """Epsilon, exactly."""
        return stated_epsilon(self.epsilon)

    @property
    def loss(self) -> float:
        """What no two rows of any case differ by more than, rounded up; never above epsilon."""
        return log_above(exp_below(self.stated))

    def leaves(self, places: Indices) -> Indices:
        """Return which prior applies, from the places of public columns alone, shape ``(n,)``."""
        return np.zeros(len(places), dtype=np.int64)

    def case(self, leaf: int, present: tuple[int, ...]) -> ConditionalKernel:
        """Return what is drawn from where just these regions, at least one, are within reach."""
        key = leaf, present
        if key not in self._cases:
            self._cases[key] = self._case(*key)
        return self._cases[key]

    @abstractmethod
    def _case(self, leaf: int, present: tuple[int, ...]) -> ConditionalKernel: ...

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the policy's table."""

    def _response(self, regions: tuple[int, ...]) -> ConditionalKernel:
        """Return randomised response between regions, built anew for their number: never a part of a larger one."""
        return ConditionalKernel(regions, krr(self.stated, len(regions)) if len(regions) > 1 else None)


@dataclass(frozen=True, eq=False)
class Worst(Randomiser):
    """Randomised response between all present regions: no mechanism is better for the worst of them."""

    kind: ClassVar[str] = "worst"
    best: ClassVar[str] = "for the worst of them"

    def _case(self, leaf: int, present: tuple[int, ...]) -> ConditionalKernel:
        return self._response(present)

    def to_dict(self) -> dict[str, Any]:
        """Return the kind alone: the kernel is rebuilt, never read."""
        return {"kind": self.kind}


@dataclass(frozen=True, eq=False)
class Average(Randomiser):
    """Randomised response between the likeliest of the present regions, by a prior from public columns.

    Attributes
    ----------
    prior : Trees
        One tree whose leaves have numbers; it asks about public columns alone.
    orders : tuple of tuples of int
        For each leaf all regions, the likeliest first.
    most : tuple of int
        For each leaf how many of them, at most, are drawn from.

    References
    ----------
    RRWithPrior: Ghazi, Golowich, Kumar, Manurangsi & Zhang 2021.
    """

    kind: ClassVar[str] = "average"
    best: ClassVar[str] = "on average over a prior from public columns, which rare regions pay for"
    prior: Trees
    orders: tuple[tuple[int, ...], ...]
    most: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.prior.names_regions or not len(self.orders) == len(self.most) == self.prior.count <= MOST_LEAVES:
            raise ValueError(
                f"kernel: the prior must be one tree of at most {MOST_LEAVES} leaves with an order and a number each"
            )
        for order, most in zip(self.orders, self.most, strict=True):
            if sorted(order) != list(range(self.count)):
                raise ValueError("kernel.orders: each must name all regions, each of them once")
            if not 1 <= most <= self.count:
                raise ValueError(f"kernel.most: must be whole numbers from 1 to {self.count}, got {most}")

    def leaves(self, places: Indices) -> Indices:
        """Return the numbers of the prior's leaves."""
        return self.prior(places)

    def _case(self, leaf: int, present: tuple[int, ...]) -> ConditionalKernel:
        ordered = [region for region in self.orders[leaf] if region in present]
        return self._response(tuple(ordered[: self.most[leaf]]))

    def to_dict(self) -> dict[str, Any]:
        """Return the prior, its orders and numbers."""
        return {
            "kind": self.kind,
            "prior": self.prior.to_dict(),
            "orders": [list(order) for order in self.orders],
            "most": list(self.most),
        }


@dataclass(frozen=True, eq=False)
class Gain(Randomiser):
    """A kernel between all regions; what is drawn and not within reach is replaced by what stands for it.

    Attributes
    ----------
    kernel : RegionKernel
    instead : tuple of tuples of int
        For each region the others in the order in which they stand for it.
    """

    kind: ClassVar[str] = "gain"
    best: ClassVar[str] = "for a gain that was asked for"
    kernel: RegionKernel
    instead: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        self.kernel.prove()
        require(self.kernel.epsilon == self.stated, self.kernel, "the policy states another epsilon")
        if len(self.instead) != self.count or self.kernel.points != self.count:
            raise ValueError(f"kernel: there must be a row, and an order instead, for each of {self.count} regions")
        if any(sorted(order) != list(range(self.count)) for order in self.instead):
            raise ValueError("kernel.instead: each order must name all regions, each of them once")

    def _case(self, leaf: int, present: tuple[int, ...]) -> ConditionalKernel:
        if len(present) == self.count:
            return ConditionalKernel(present, self.kernel)
        if len(present) == 1:
            return ConditionalKernel(present, None)
        rows = folded(self.kernel, present, self.instead)
        part = RegionKernel(
            "region",
            self.kernel.epsilon,
            len(present),
            tuple(map(tuple, rows)),
            np.zeros(len(present)),
            np.inf,
            -np.inf,
        )
        part.prove()
        return ConditionalKernel(present, part)

    def to_dict(self) -> dict[str, Any]:
        """Return the weights, as texts: they exceed what other readers take for whole, and the orders."""
        return {
            "kind": self.kind,
            "rows": [[str(weight) for weight in row] for row in self.kernel.rows],
            "instead": [list(order) for order in self.instead],
        }


def asks_only(copy: Surrogate, allowed: Sequence[bool]) -> bool:
    """Tell whether one tree, or several, ask about allowed inputs alone."""
    asked = copy.feature[copy.feature >= 0] if isinstance(copy, Trees) else np.arange(len(copy.inputs))
    return all(allowed[position] for position in np.unique(asked).tolist())
