"""Smoothing of the cells' estimates: post-processing, free of privacy cost; its width needs no hold-out."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from epsworth.arrays import Floats, as_floats

WIDTHS = (0.0, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25)  # of the box
REACH = 4  # standard deviations
MOST = 1024  # cells per axis: matrices are dense


@cache
def gaussian(m: int, width: float) -> Floats:
    """Return the row-normalised Gaussian of m cells, reflected at both ends; width 0 is the identity."""
    if width == 0:
        return np.eye(m)
    deviation = width * m
    steps = np.arange(-int(np.ceil(REACH * deviation)), int(np.ceil(REACH * deviation)) + 1)
    weight = np.exp(-((steps / deviation) ** 2) / 2)
    target = (np.arange(m)[:, None] + steps) % (2 * m)
    target = np.where(target < m, target, 2 * m - 1 - target)
    matrix = np.zeros((m, m))
    np.add.at(matrix, (np.arange(m)[:, None], target), weight / weight.sum())
    return matrix


def smoothed(table: Floats, matrix: Floats, d: int) -> Floats:
    """Apply a matrix along the first d axes of a table."""
    for axis in range(d):
        table = np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis)
    return table


def best_width(table: Floats, d: int, noise: float) -> float:
    """Return the width of least unbiased risk estimate |S T - T|^2 + 2 noise tr S (Stein 1981).

    Parameters
    ----------
    table : ndarray, m on each of the first d axes, then outputs
    noise : float
        Variance of one entry, known from the mechanism.
    """
    m, outputs = table.shape[0], table.shape[-1]
    if m > MOST:
        raise ValueError(
            f"smoothing by the risk estimate takes up to {MOST} cells per axis, this table has {m}; take fewer cells "
            "or smoothing=None"
        )
    risks = []
    for width in WIDTHS:
        matrix = gaussian(m, width)
        change = ((smoothed(table, matrix, d) - table) ** 2).sum()
        risks.append(change + 2 * noise * outputs * np.trace(matrix) ** d)
    return WIDTHS[int(np.argmin(risks))]


def corners(unit: Floats, m: int) -> tuple[Floats, Floats]:
    """Return the lower cell ``(n, d)`` of linear interpolation between cell centres, and the upper one's weight."""
    place = (unit * m - 0.5).clip(0, m - 1)
    lower = np.minimum(np.floor(place), max(m - 2, 0))
    return lower, place - lower


def interpolate(table: Floats, unit: Floats) -> Floats:
    """Interpolate linearly between the centres of cells, constant beyond the outermost: ``(n, outputs)``."""
    m, d = table.shape[0], unit.shape[1]
    lower, weight = corners(unit, m)
    found = np.zeros((len(unit), table.shape[-1]))
    for step in product((0, 1), repeat=d):
        share = np.where(step, weight, 1 - weight).prod(axis=1)
        index = np.minimum(lower + step, m - 1).astype(np.intp)
        found += share[:, None] * table[tuple(index.T)]
    return found


def squared_weights(unit: Floats, m: int, width: float) -> Floats:
    """Return the sum of the squared weights of all cells in a smoothed, interpolated value ``(n,)``."""
    matrix = gaussian(m, width)
    lower, weight = corners(unit, m)
    upper = np.minimum(lower + 1, m - 1).astype(np.intp)
    rows = (1 - weight)[..., None] * matrix[lower.astype(np.intp)] + weight[..., None] * matrix[upper]
    return as_floats((rows**2).sum(axis=2).prod(axis=1))
