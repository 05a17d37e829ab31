"""A policy's rules as the analysis sees them: the integers that are drawn from, and the doubles that leave.

A true value is encoded as the client encodes it (`Column.encode`) and stands at ``index / (points - 1)`` on the unit
scale; what is released are the doubles of `Column.values`, with probabilities ``weights(index) / total(index)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats
from epsworth.guarantees import Guarantee
from epsworth.mechanisms import Kernel, KernelLaw
from epsworth.mechanisms.law import broadcast, nearest_index
from epsworth.mechanisms.mechanism import Mechanism, Output
from epsworth.policy.columns import Column, centre, spread
from epsworth.policy.policy import Policy
from epsworth.policy.rules import Rule
from epsworth.space import Feature


@dataclass(frozen=True)
class Rounded:
    """A kernel whose outputs are rounded to a coarser public grid afterwards, as `Column.values` does it."""

    kernel: Kernel
    points: int

    @cached_property
    def first(self) -> NDArray[np.intp]:
        """The first of the kernel's outputs that goes to each point of the grid, or beyond it; one more at the end."""
        unit = np.arange(self.kernel.points) / (self.kernel.points - 1)
        return np.searchsorted(np.rint(unit * (self.points - 1)), np.arange(self.points + 1))

    def mass_of_range(self, index: Floats, low: Floats, high: Floats) -> Floats:
        """Return the probability of points low..high."""
        first, last = self.first[low.astype(np.intp)], self.first[high.astype(np.intp) + 1] - 1
        some = first <= last
        mass = self.kernel.mass_of_range(index, np.where(some, first, 0.0), np.where(some, last, 0.0))
        return np.where(some, mass, 0.0)


@dataclass(frozen=True)
class Released(Mechanism):
    """What a rule releases of one feature; true values are ``index / (points - 1)`` of its kernel's inputs."""

    rule: Rule

    title: ClassVar[str] = "a policy's rule"
    reference: ClassVar[str] = "exact weights w/W on a public grid"
    output: ClassVar[Output] = "grid"

    @classmethod
    def of(cls, rule: Rule) -> Released:
        """Return the mechanism of a rule."""
        return cls(float(rule.epsilon), rule)

    @property
    def points(self) -> int:
        """The number of values that can leave."""
        return self.rule.points or self.rule.kernel.points

    @property
    def guarantee(self) -> Guarantee:
        """The promise that the integers keep."""
        return self.rule.kernel.guarantee

    @property
    def tight_epsilon(self) -> float:
        """The pure loss of the integers, rounded up."""
        return self.rule.kernel.loss()

    def _law(self, x: Floats) -> KernelLaw:
        kernel, coarser = self.rule.kernel, self.rule.points
        index, _ = broadcast(nearest_index(x, kernel.points), self.epsilon)
        return KernelLaw(index, self.points, kernel if coarser is None else Rounded(kernel, coarser))


@dataclass(frozen=True)
class Scaled(Feature):
    """A numeric feature of which a record that releases it gives ``centre + factor (y - centre)`` in y's place."""

    released: Feature = field(default_factory=lambda: Feature("", 0, 1))
    factor: float = 1.0

    @classmethod
    def of(cls, policy: Policy, feature: Feature) -> Feature:
        """Return what a policy makes of a feature: itself, unless it scales what is sampled."""
        if policy.sampling is None or policy.sampling.unsampled != "scaled":
            return feature
        factor = len(policy.rules) / policy.sampling.features
        ends = spread(feature, np.array([feature.lower, feature.upper]), factor)
        return cls(feature.name, float(ends[0]), float(ends[1]), released=feature, factor=factor)

    def from_unit(self, unit: ArrayLike, *, points: int | None = None) -> NDArray[Any]:
        """Convert to natural units: on a grid the very doubles that leave."""
        return spread(self.released, self.released.from_unit(unit, points=points), self.factor)


def unsampled(policy: Policy, feature: Feature, rows: int) -> NDArray[Any]:
    """Return the column that stands for a feature which no record releases; it may be `Scaled`."""
    if policy.sampling is not None and policy.sampling.unsampled == "scaled":
        return np.full(rows, centre(feature.released if isinstance(feature, Scaled) else feature))
    return np.full(rows, np.nan) if feature.categories is None else np.full(rows, None, dtype=object)


def encoded(rule: Rule, column: NDArray[Any]) -> Floats:
    """Return where the client puts true values on the unit scale: missing and undeclared ones as the policy says."""
    return np.asarray(Column(rule).encode(column) / (rule.kernel.points - 1))
