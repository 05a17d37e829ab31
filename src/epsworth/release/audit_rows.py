"""The weights of a kernel, read for an audit: losses are ratios of sums of integers, their logarithms rounded up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import lcm
from random import SystemRandom

import numpy as np

from epsworth.arrays import Floats
from epsworth.mechanisms import Kernel
from epsworth.release.columns import Indices

EXHAUSTIVE = 256  # points up to which the weights of every input are read
EXHAUSTIVE_DELTA = 64  # points up to which delta is computed for every pair of inputs, not for those with an end alone
SPOTS = 8  # random inputs whose weights are read on larger grids, beside the ends and the middle
DRAWS = 1 << 17  # per input whose draws are tested
CELLS = 32  # groups of outputs whose shares are tested
DIGITS = 120
UP, DOWN = Context(prec=DIGITS, rounding=ROUND_CEILING), Context(prec=DIGITS, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class Check:
    """One obligation, whether it is met, and what was found."""

    name: str
    passed: bool
    says: str


def _inputs(points: int) -> list[int]:
    last = points - 1
    if points <= EXHAUSTIVE:
        return list(range(points))
    return sorted({0, 1, last // 2, last // 2 + 1, last - 1, last, *SystemRandom().sample(range(points), SPOTS)})


class Rows:
    """The weights of some inputs, each with its own sum: what is drawn has probabilities weight / sum."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.inputs = kernel, _inputs(kernel.points)
        self.weights = {i: kernel.weights(i) for i in self.inputs}
        self.sums = {i: sum(row) for i, row in self.weights.items()}

    @property
    def faults(self) -> list[int]:
        """Inputs whose weights are no probabilities, or do not add up to the total that is drawn from."""
        kernel = self.kernel
        shapes = {i: len(row) == kernel.points and min(row) >= 0 for i, row in self.weights.items()}
        return [i for i in self.inputs if not shapes[i] or self.sums[i] != kernel.total(i)]

    def scaled(self) -> Iterator[list[int]]:
        """Yield every row over one common total."""
        scale = lcm(*self.sums.values())
        for i, row in self.weights.items():
            factor = scale // self.sums[i]
            yield row if factor == 1 else [factor * weight for weight in row]

    @cached_property
    def groups(self) -> dict[int, tuple[Indices, Floats]]:
        """For the ends and the middle: the group of every output, and the groups' exact shares; about even groups."""
        found, last = {}, self.kernel.points - 1
        for i in sorted({0, last // 2, last}):
            row, total = self.weights[i], self.sums[i]
            group = [min(before * CELLS // total, CELLS - 1) for before in accumulate(row[:-1], initial=0)]
            masses = [0] * CELLS
            for at, weight in zip(group, row, strict=True):
                masses[at] += weight
            found[i] = np.array(group), np.array([mass / total for mass in masses])
        return found

    @cached_property
    def loss(self) -> Fraction | None:
        """The largest log ratio of the probabilities of one output, above by less than 1e-100; None: infinite."""
        rows = self.scaled()
        largest = smallest = next(rows)
        for row in rows:
            largest, smallest = list(map(max, largest, row)), list(map(min, smallest, row))
        most, least = 1, 1
        for a, b in zip(largest, smallest, strict=True):
            if a * least > most * b:
                most, least = a, b
        return log_above(most, least) if least else None

    def delta(self, epsilon: Decimal) -> Fraction:
        """Return the largest delta that a pair of inputs needs at ``epsilon``."""
        bound = Fraction(DOWN.next_minus(DOWN.exp(epsilon)))
        ends = {self.inputs[0], self.inputs[-1]}
        worst = Fraction(0)
        for i in self.inputs:
            for j in self.inputs:
                if i == j or (len(self.inputs) > EXHAUSTIVE_DELTA and not ends & {i, j}):
                    continue
                a, b = self.sums[j] * bound.denominator, self.sums[i] * bound.numerator
                excess = sum(max(0, a * p - b * q) for p, q in zip(self.weights[i], self.weights[j], strict=True))
                worst = max(worst, Fraction(excess, self.sums[i] * a))
        return worst


def log_above(numerator: int, denominator: int) -> Fraction:
    """Return the logarithm of a ratio, too large by less than 1e-100."""
    return Fraction(UP.next_plus(UP.ln(UP.divide(Decimal(numerator), Decimal(denominator)))))
