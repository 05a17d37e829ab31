"""Usefulness of releases before any is made, and the least budget for it.

Scores of simulated releases, worlds x noise; a budget that is searched on some is shown on fresh ones.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from epsworth.arrays import Floats, generator
from epsworth.bounds import Risk
from epsworth.pac.budgets import MI, DPEquivalent, Posterior, nats_of
from epsworth.pac.calibration import Basis, Noise, Plan, check_choices
from epsworth.pac.certificate import bernstein_upper
from epsworth.pac.conversion import posterior
from epsworth.pac.mechanism import as_numbers
from epsworth.pac.modes import Calibrated, check_scorer, plan_of
from epsworth.records import Indices
from epsworth.results import Result
from epsworth.rounding import UNIT, down, float_above, percent_down, show_down, show_up


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
    settings = fitted.settings
    plans: list[tuple[Plan, str]] = [(fitted.plan, settings.noise)]
    if not (budgets is None and noises is None and bases is None):
        for one in noises or ():
            check_choices(one, settings.basis)
        for way in bases or ():
            check_choices(settings.noise, way)
        nats = [fitted.plan.mi] if budgets is None else [nats_of(budget) for budget in budgets]
        plans = [
            (plan_of(settings, fitted.experiment, fitted.trials, mi, rule, basis), rule)
            for mi, rule, basis in product(nats, noises or [settings.noise], bases or [settings.basis])
        ]
    found = []
    for plan, rule_name in plans:
        scores = scores_of(plan, fitted, scorer, releases, generator(rng))
        error = float(scores.std(ddof=1)) / math.sqrt(releases) if releases > 1 else math.nan
        mean = float(scores.mean())
        found.append(Utility(plan.mi, rule_name, plan.frame.basis, mean, error, plan.trace, releases))
    return found


GRID = tuple(2.0 ** (k / 2) for k in range(-20, 9))  # half octaves of nats
PILOT = 1000  # simulated releases of a budget in the search
LOOKS = 8  # at budgets from the one found upwards


@dataclass(frozen=True)
class FoundBudget(Result):
    """What `PACPrivatizer.find_budget` found.

    Attributes
    ----------
    reached : bool
        Whether ``lower >= at_least``.  If not, the numbers are those of the best budget that was looked at.
    mi : float
        Nats, on a grid of half octaves.
    mean, lower : float
        Average score over ``releases`` fresh simulated releases, and the lower limit of its expectation.
    confidence : float
        With which the lower limits of all looks hold together.
    looks : int
        How many budgets were looked at on fresh releases; eight are paid for.
    certificate : float or None
        Of a certified fit: confidence to fit again with, for one budget among all of the grid.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.pac import MI, PACPrivatizer
    >>> X = np.random.default_rng(0).random((40, 2))
    >>> private = PACPrivatizer(lambda rows: rows.mean(axis=0), MI(1), worlds=64, worlds_seed=0).fit(X)
    >>> near = lambda released: np.abs(released - X.mean(axis=0)).max() < 0.2  # is it right?
    >>> found = private.find_budget(near, 0.9, n=1000)
    >>> found.reached, found.lower >= 0.9, found.mi
    (True, True, 0.25)
    >>> release = private.set_params(**found.params).fit(X).release()
    """

    reached: bool
    mi: float
    mean: float
    lower: float
    at_least: float
    confidence: float
    looks: int
    releases: int
    noise: str
    certificate: float | None = None

    @property
    def budget(self) -> MI:
        """The budget to fit with."""
        return MI(self.mi)

    @property
    def params(self) -> dict[str, Any]:
        """Parameters to set before the fit whose release is meant."""
        return {"budget": self.budget} | ({} if self.certificate is None else {"confidence": self.certificate})

    def __str__(self) -> str:
        told = f"MI {show_up(self.mi, 4)} nats ({self.noise} noise; membership is inferred with "
        told += f"{show_up(100 * posterior(self.mi, 0.5), 3)} % at most): the score is {show_down(self.mean, 4)} over "
        told += f"{self.releases} simulated releases, on average at least {show_down(self.lower, 4)} with "
        told += f"{percent_down(self.confidence, 4)} % confidence"
        return told if self.reached else f"no budget was shown to reach {self.at_least:g}; the best is {told}"


def least_budget(
    fitted: Calibrated,
    scorer: Callable[[Any], float],
    at_least: float,
    confidence: float,
    releases: int,
    score_range: tuple[float, float],
    rng: np.random.Generator | int | None,
) -> FoundBudget:  # fmt: skip
    """Return the least budget of the grid that is shown to score ``at_least`` on average.

    Claim: of the lower limits of all looks, one at least misses with probability 1 - ``confidence`` at most, over fresh
    draws from the listed worlds and the noise.  The search before them costs nothing: it takes draws of its own.
    """
    check_scorer(scorer)
    low, high = _checked(at_least, confidence, score_range)
    nats_of(fitted.settings.budget)  # refuses what speaks of records
    certified = fitted.settings.mode == "certified"
    # any budget of the grid may be the one that is found: all of their certificates are to hold
    settings = (
        replace(fitted.settings, confidence=_shared(fitted.settings.confidence)) if certified else fitted.settings
    )
    search, fresh = generator(rng).spawn(2)
    plans = dict[int, Plan]()

    def scored(at: int, count: int, draws: np.random.Generator) -> Floats:
        if at not in plans:
            plans[at] = plan_of(settings, fitted.experiment, fitted.trials, GRID[at])
        scores = scores_of(plans[at], fitted, scorer, count, draws)
        if not ((scores >= low) & (scores <= high)).all():
            raise ValueError(f"a score lies outside [{low:g}, {high:g}]; give score_range=, or mend the scorer")
        return scores

    candidates = _found(partial(scored, count=min(PILOT, releases), draws=search), at_least)
    seen = list[tuple[float, float, int]]()
    for at, risk in zip(candidates, Risk.of(confidence).split(LOOKS), strict=False):
        scores = scored(at, releases, fresh)
        seen.append((lower_limit(scores, low, high, risk), math.fsum(scores) / releases, at))
        if seen[-1][0] >= at_least:
            break
    lower, mean, at = max(seen)
    told = settings.confidence if certified else None
    return FoundBudget(
        lower >= at_least, GRID[at], mean, lower, float(at_least), float(confidence), len(seen), releases,
        fitted.settings.noise, told,
    )  # fmt: skip


def _found(scored: Callable[[int], Floats], at_least: float) -> list[int]:
    """Return the budgets to look at, from where scores seem to suffice upwards; the best one seen if none does.

    By bisection: were scores not to rise with the budget, the answer might be too large, never untrue.
    """
    means = dict[int, float]()
    below, above = -1, len(GRID)
    while above - below > 1:
        middle = (below + above) // 2
        means[middle] = float(scored(middle).mean())
        below, above = (below, middle) if means[middle] >= at_least else (middle, above)
    if above == len(GRID):
        return [max(means, key=lambda at: means[at])]
    return list(range(above, min(above + LOOKS, len(GRID))))


def lower_limit(scores: Floats, low: float, high: float, risk: Risk) -> float:
    """Return a lower confidence limit on the mean of independent scores in [low, high], paid for by a share.

    References
    ----------
    Maurer & Pontil 2009, theorem 4.
    """
    lost = high - scores
    mean = math.fsum(lost) / len(lost)
    variance = math.fsum((lost - mean) ** 2) / (len(lost) - 1)
    limit = float(bernstein_upper(mean, variance, len(lost), high - low, risk))
    size = abs(high) + abs(low)  # differences are rounded by a unit of it each
    return max(low, down(high - limit - 8 * UNIT * size, ulps=4))


def _shared(confidence: float) -> float:
    """Return the confidence of each certificate with which those of the whole grid hold together."""
    return float_above(1 - (1 - Fraction(confidence)) / len(GRID))


def _checked(at_least: Any, confidence: Any, score_range: Any) -> tuple[float, float]:
    """Return the range of scores, or say what is wrong."""
    try:
        low, high = (float(end) for end in score_range)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -1e300 <= low < high <= 1e300:
        raise ValueError(f"score_range must be two finite numbers, the lower one first, got {score_range!r}")
    if not _number(at_least) or not low <= float(at_least) <= high:
        raise ValueError(f"at_least must be a number in score_range, from {low:g} to {high:g}, got {at_least!r}")
    if not _number(confidence) or not 0 < float(confidence) < 1:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {confidence!r}")
    return low, high


def _number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
