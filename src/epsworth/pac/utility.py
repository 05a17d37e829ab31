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
from epsworth.results import Result
from epsworth.rounding import show_down, show_up


@dataclass(frozen=True)
class Utility(Result):
    """Average score of simulated releases.

    Attributes
    ----------
    mean, standard_error : float
        Over ``releases`` simulated releases, each from a random world with fresh noise.
    trace : float
        Total noise variance.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.pac import MI, PACPrivatizer
    >>> X = np.random.default_rng(0).random((40, 2))
    >>> fitted = PACPrivatizer(lambda rows: rows.mean(axis=0), MI(0.1), worlds=64, worlds_seed=0).fit(X)
    >>> error = lambda released: -float(np.linalg.norm(released - X.mean(axis=0)))
    >>> less, more = fitted.simulate_utility(error, 100, budgets=[MI(0.01), MI(1)])
    >>> less.mean < more.mean, less.trace > more.trace, more.releases
    (True, True, 100)
    """

    mi: float
    noise: str
    basis: str
    mean: float
    standard_error: float
    trace: float
    releases: int

    def __str__(self) -> str:
        return (
            f"MI {show_up(self.mi, 4)} nats, {self.noise} noise in {self.basis}: score {show_down(self.mean, 4)} +- "
            f"{show_up(self.standard_error, 2)} over {self.releases} releases"
        )


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
