"""What a budget costs in usefulness, before anything is released: worlds x noise, scored."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.pac.adapters.adapter import Mechanism
from epsworth.pac.calibration import Plan
from epsworth.records import Indices


@dataclass(frozen=True)
class Utility:
    """Average score of simulated releases.

    Attributes
    ----------
    mean, standard_error : float
        Over ``releases`` simulated releases, each from a random world with fresh noise.
    trace : float
        Total noise variance.
    """

    mi: float
    noise: str
    basis: str
    mean: float
    standard_error: float
    trace: float
    releases: int


def releases_of(plan: Plan, outputs: Floats, count: int, rng: np.random.Generator) -> tuple[Indices, Floats]:
    """Return worlds and vectors of simulated releases, which are not fit to leave: seeded, in floating point."""
    worlds = rng.integers(len(outputs), size=count)
    noise = plan.ratio * rng.standard_normal((count, len(plan.frame)))
    return worlds, plan.frame.vectors((plan.positions(outputs[worlds]) + noise) * plan.step)


def utility_of(
    plan: Plan,
    outputs: Floats,
    mechanism: Mechanism,
    scorer: Callable[[Any], float],
    releases: int,
    rng: np.random.Generator,
) -> tuple[float, float]:  # fmt: skip
    """Return mean and standard error of the score over simulated releases."""
    vectors = releases_of(plan, outputs, releases, rng)[1]
    scores = np.array([scorer(mechanism.rebuild(vector)) for vector in vectors])
    return float(scores.mean()), float(scores.std(ddof=1)) / math.sqrt(releases) if releases > 1 else math.nan
