"""Laws of constant density on cells, with steps at theta and at whole sensitivities from it: what optima look like.

Only outputs a sensitivity apart are compared, so that averaging over the points between two such ends is
post-processing, the same for both answers (docs/theory/noise.md, "few cells are enough").  Cells have two widths in
turn; on a lattice each holds a whole number of points.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from epsworth.arrays import Floats, Indices
from epsworth.noise.lattice import HALVES, LOSS, MOST_POINTS, CellNoise, LatticeNoise
from epsworth.noise.mechanism import NoiseMechanism, TooLarge
from epsworth.noise.profiles import MARGIN
from epsworth.rounding import up


class ProgramError(TooLarge):
    """The linear program is too large, or its solver gave up."""


class Cells(NamedTuple):
    """Where densities may change: widths of a period's cells, in sensitivities, and how many are within theta.

    The first cell lies around zero where its width is that of ``odd``; else two of them meet there.
    """

    widths: tuple[Fraction, ...]
    odd: bool
    inside: int  # cells of the half-line

    @classmethod
    def of(cls, within: Fraction) -> Cells:
        """Return the cells for theta in sensitivities."""
        periods, rest = divmod(within, 1)
        near = min(rest, 1 - rest)
        widths = [width for width in (2 * near, 1 - 2 * near) if width]
        inside = len(widths) * int(periods)
        if rest:
            inside += 1 if rest <= Fraction(1, 2) else 2
        return cls(tuple(widths), bool(near), inside)

    @property
    def period(self) -> int:
        """How many cells a period has."""
        return len(self.widths)

    def sizes(self, count: int) -> tuple[Indices, Floats, Floats]:
        """Return of so many cells their levels, widths, and widths on both sides of zero.

        Densities fall by some e^-epsilon from one level to the next; the first cell outside begins one.
        """
        h = np.arange(count)
        width = np.array([float(width) for width in self.widths])[h % self.period]
        both = 2 * width
        if self.odd:
            both[0] = width[0]
        return (h + -self.inside % self.period) // self.period, width, both

    def pairs(self, count: int) -> tuple[Indices, Indices, Floats]:
        """Return the cells of the half-line that outputs a sensitivity apart fall to, left to right, and their widths.

        The whole line has so many cells on either side; what pairs with cells beyond it is left out.
        """
        _, width, _ = self.sizes(count)
        line = np.arange(1 - count, count) if self.odd else np.arange(-count, count)
        cell = np.abs(line) if self.odd else np.where(line >= 0, line, -1 - line)
        first, second = cell[: -self.period], cell[self.period :]
        return first, second, width[first]


class HalfLine(NamedTuple):
    """A law's densities outwards, cell by cell, with their widths on both sides of zero, and the mass beyond them."""

    density: Floats
    both: Floats
    lost: float

    @classmethod
    def of(cls, cells: Cells, density: Floats, decay: float, failing: float) -> HalfLine:
        """Return the law of densities made to fall, which meets the constraint with room to spare.

        Beyond them densities fall by e^-decay from one period to the next.
        """
        _, _, both = cells.sizes(density.size)
        density = np.minimum.accumulate(density)
        mass = density * both
        lost = up(float(mass[-cells.period :].sum()) / math.expm1(decay), ulps=HALVES)  # geometric
        total = float(mass.sum())
        density, mass, lost = density / total, mass / total, up(lost / total, ulps=HALVES)
        out, allowed = float(mass[cells.inside :].sum()), failing * (1 - MARGIN) - lost
        if out > allowed:
            density[: cells.inside] *= (1 - allowed) / float(mass[: cells.inside].sum())
            density[cells.inside :] *= allowed / out
        return cls(density, both, lost)

    def noise(self, cells: Cells, sensitivity: float, lattice: tuple[int, float] | None) -> NoiseMechanism:
        """Return the law as a step density, or as masses on a lattice: of so many steps a sensitivity, and its step."""
        middle, width = int(cells.odd), self.both / 2
        ends = np.cumsum(width) * sensitivity
        edges = np.concatenate([-ends[::-1], [0.0] * (1 - middle), ends])
        width[:middle] *= 2  # one cell around zero
        density, width = (np.concatenate([part[middle:][::-1], part]) for part in (self.density, width))
        pure = _pure(cells, density)
        if lattice is None:
            return CellNoise(
                masses=density * width, shift=cells.period, inside=2 * cells.inside - middle, pure=pure,
                lost=self.lost, edges=edges,
            )  # fmt: skip
        shift, step = lattice
        counts = np.rint(width * shift).astype(np.intp)  # every cell holds a whole number of points
        if counts.sum() > MOST_POINTS:
            raise ProgramError(
                f"the best noise has {counts.sum()} points of the lattice {step:g}, more than {MOST_POINTS}; take a "
                "coarser lattice, or none"
            )
        inside = int(counts[len(counts) // 2 - cells.inside + 1 : len(counts) // 2 + cells.inside].sum())
        masses = np.repeat(density / shift, counts)
        return LatticeNoise(masses=masses, shift=shift, inside=inside, pure=pure, lost=self.lost, step=step)


def _pure(cells: Cells, density: Floats) -> float:
    """Return the largest loss, infinite where a cell is empty; tails beyond go on at the same ratio."""
    if density.min() <= 0:
        return math.inf
    logs = np.log(density)
    losses = np.abs(logs[cells.period :] - logs[: -cells.period])
    return up(float(losses.max() + LOSS * np.abs(logs).max()))
