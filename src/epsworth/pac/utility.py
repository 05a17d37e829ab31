"""What a budget costs in usefulness, before anything is released: worlds x noise, scored."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from epsworth.arrays import Floats, generator
from epsworth.pac.budgets import MI, DPEquivalent, Posterior, nats_of
from epsworth.pac.calibration import Basis, Noise, Plan, check_choices
from epsworth.pac.mechanism import as_numbers
from epsworth.pac.modes import Calibrated, plan_of
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


def scores_of(
    plan: Plan,
    fitted: Calibrated,
    scorer: Callable[[Any], float],
    releases: int,
    rng: np.random.Generator,
) -> Floats:  # fmt: skip
    """Return the scores of simulated releases."""
    vectors = releases_of(plan, fitted.trials.outputs, releases, rng)[1]
    return as_numbers([scorer(fitted.experiment.mechanism.rebuild(vector)) for vector in vectors], "scorer")


def utilities(
    fitted: Calibrated,
    scorer: Callable[[Any], float],
    releases: int,
    budgets: Sequence[MI | Posterior | DPEquivalent] | None,
    noises: Sequence[Noise] | None,
    bases: Sequence[Basis] | None,
    rng: np.random.Generator | int | None,
) -> list[Utility]:  # fmt: skip
    """Return the average score for every budget, noise and basis; where none is given, that of the fit's own plan."""
    asked = fitted.asked
    plans: list[tuple[Plan, str]] = [(fitted.plan, asked.noise)]
    if not (budgets is None and noises is None and bases is None):
        for one in noises or ():
            check_choices(one, asked.basis)
        for way in bases or ():
            check_choices(asked.noise, way)
        nats = [fitted.plan.mi] if budgets is None else [nats_of(budget) for budget in budgets]
        plans = [
            (plan_of(asked, fitted.experiment, fitted.trials, mi, rule, basis), rule)
            for mi, rule, basis in product(nats, noises or [asked.noise], bases or [asked.basis])
        ]
    found = []
    for plan, rule_name in plans:
        scores = scores_of(plan, fitted, scorer, releases, generator(rng))
        error = float(scores.std(ddof=1)) / math.sqrt(releases) if releases > 1 else math.nan
        mean = float(scores.mean())
        found.append(Utility(plan.mi, rule_name, plan.frame.basis, mean, error, plan.trace, releases))
    return found
