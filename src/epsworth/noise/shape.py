"""The shape of a noise, in numbers: how likely one released value is to fall where, for pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.steps import Lattice, Points
from epsworth.noise.choice import Choice
from epsworth.noise.lattice import LatticeNoise

BINS = 81  # an odd number, so that the true answer lies within one; its edges are not those of the region
REACH = 1.0  # half-widths of the region that are shown beyond it, on either side


def density(law: Law, y: Floats) -> Floats:
    """Return a law's density or, of points, their chance over their distance."""
    if not isinstance(law, (Lattice, Points)):
        return law.pdf(y)
    return (law.cdf(y + law.step / 2) - law.cdf(y - law.step / 2)) / law.step


def shape_of(choice: Choice) -> dict[str, Any]:
    """Return the chance of each bin around the region, for the true answer where it is narrowest.

    A noise on a lattice gets bins around its points, so that no point lies on an edge and is counted twice.

    Examples
    --------
    >>> from epsworth.noise import cheapest
    >>> shape = shape_of(cheapest(5, confidence=0.95, delta=0).named("laplace"))
    >>> shape["within"], len(shape["edges"]) - len(shape["chance"]), sum(shape["chance"]) > 0.99
    ([-5.0, 5.0], 1, True)
    """
    answer = float(choice.region.hardest[0])
    low, high = (float(end) for end in choice.region.ends(answer))
    reach = REACH * (high - low) / 2
    first, last = low - reach, high + reach
    noise, law = choice.noise, choice.law(answer)
    if isinstance(noise, LatticeNoise):
        points = max(1, int((last - first) / noise.step))
        width = noise.step * max(1, 2 * round(points / BINS / 2 - 0.5) + 1)  # an odd number of points
        count = int((last - answer) / width)
        edges = answer + width * (np.arange(-count, count + 2) - 0.5)
    else:
        edges = np.linspace(first, last, BINS + 1)
    chance = np.asarray(law.cell_masses(edges), dtype=np.float64)
    return {"answer": answer, "within": [low, high], "edges": edges.tolist(), "chance": chance.tolist()}
