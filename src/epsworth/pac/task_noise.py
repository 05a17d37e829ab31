"""Noise that does least harm to a task: what a unit of noise costs in each direction, measured by simulated releases.

All of it is a function of the pool and of the worlds it is given, never of the secret one, and whatever the costs are,
the noise is scaled to the budget: a wrong cost loses usefulness, not privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.pac.allocation import allocate, spending
from epsworth.pac.calibration import Frame
from epsworth.pac.mechanism import as_numbers
from epsworth.pac.simulation import Experiment

ROUNDS, DRAWS = 4, 4000
COMMON = 1000  # draws on which the rounds and the untuned noise are compared
CLEAR = 2.0  # standard errors of a gain below which noise stays untuned
LEAST_COST = 0.1  # of the average one: what does not matter to the task still does not get noise without end
JUDGED = 1000  # rows of the pool that an estimator's own score is taken on
SEED = 0


@dataclass(frozen=True, eq=False)
class Task:
    """What releases are for: a score of released vectors, the larger the better."""

    score: Callable[[Floats], float]

    def noise(
        self, frame: Frame, variances: Floats, outputs: Floats, mi: float, probabilities: Floats | None = None
    ) -> Floats:  # fmt: skip
        """Return noise variances that keep ``mi`` nats: those of the best round, or untuned where none is better.

        Each round takes what noise costs under the last one as weights of `allocate` and goes half of the way, in
        logarithms: ln(1 + s/e) is convex in ln e, so that the geometric mean keeps the budget; it is then spent.
        """
        tuned = [allocate(variances, mi)]
        if not len(frame):
            return tuned[0]
        *rounds, judge = np.random.default_rng(SEED).spawn(ROUNDS + 1)
        at, state = frame.coordinates(outputs), judge.bit_generator.state
        for rng in rounds:
            weights = _weights(costs(*self.simulated(frame, at, tuned[-1], DRAWS, rng, probabilities)), tuned[-1])
            if weights is None:
                break
            wanted = allocate(variances, mi, weights=weights)
            tuned.append(spending(variances, np.sqrt(wanted) * np.sqrt(tuned[-1]), mi))
        scores = []
        for noise in tuned if len(tuned) > 1 else ():
            judge.bit_generator.state = state  # the same draws for all
            scores.append(self.simulated(frame, at, noise, COMMON, judge, probabilities)[0])
        return tuned[_best(scores)]

    def simulated(
        self,
        frame: Frame,
        at: Floats,
        noise: Floats,
        count: int,
        rng: np.random.Generator,
        probabilities: Floats | None = None,
    ) -> tuple[Floats, Floats]:
        """Return scores of simulated releases from outputs at these coordinates, and their standardised noise."""
        worlds = rng.choice(len(at), size=count, p=probabilities)
        z = rng.standard_normal((count, len(frame)))
        scores = np.array([self.score(frame.vectors(y)) for y in at[worlds] + z * np.sqrt(noise)], dtype=float)
        if scores.shape != (count,) or not np.isfinite(scores).all():
            raise ValueError("scorer must return one finite number per release; mend it")
        return scores, z


def costs(scores: Floats, z: Floats) -> Floats:
    """Return what one per cent more noise in each direction takes off the average score, times 100.

    For noise of variance e in a direction, d E[score] / d ln e = E[score (z^2 - 1)] / 2 exactly, whatever the score: z
    is the noise in standard deviations.
    """
    return np.asarray(-((scores - scores.mean()) @ (z**2 - 1)) / (2 * len(scores)))


def _weights(found: Floats, noise: Floats) -> Floats | None:
    """Return the cost of a unit of noise variance up to a factor, None where the score does not depend on noise."""
    average = float(np.abs(found).mean())
    if not average > 0:
        return None
    each = np.maximum(found / average, LEAST_COST)
    return np.asarray(np.clip(each * (noise.max() / noise), 1e-300, 1e300))


def _best(scores: list[Floats]) -> int:
    """Return which noise scores best, the first one where no other is clearly better."""
    best = max(range(len(scores)), key=lambda i: float(scores[i].mean()), default=0)
    if not best:
        return 0
    gain = scores[best] - scores[0]
    return best if gain.mean() > CLEAR * gain.std(ddof=1) / math.sqrt(len(gain)) else 0


def task_of(experiment: Experiment, scorer: Callable[[Any], float] | None) -> Task:
    """Return the task that a scorer of released objects states; without one, their own ``score`` on the pool."""
    rebuild = experiment.mechanism.rebuild
    if scorer is not None:
        return Task(lambda vector: float(as_numbers(scorer(rebuild(vector)), "scorer")))
    from sklearn.base import ClassifierMixin

    chosen = np.sort(np.random.default_rng(SEED).permutation(len(experiment.X))[:JUDGED])
    X, y = experiment.X[chosen], None if experiment.y is None else experiment.y[chosen]
    try:
        model = rebuild(experiment.mechanism.reference)
        model.score(X, y)
    except Exception:
        raise ValueError(
            "noise='task' needs scorer=, a function of what Release.estimator_ holds that returns a number, the larger "
            "the better: what is released here has no score of its own"
        ) from None
    if type(model).score is ClassifierMixin.score:  # the accuracy, a quarter as fast
        return Task(lambda vector: float(np.mean(rebuild(vector).predict(X) == y)))
    return Task(lambda vector: float(rebuild(vector).score(X, y)))
