"""Plans of noise: directions, variances and grid, from the worlds' outputs and a budget.

Noise for a task goes where it does least harm: what a unit of it costs in each direction is measured by simulated
releases.  All of that is a function of the pool and of the worlds it is given, never of the secret one, and whatever
the costs are, the noise is scaled to the budget: a wrong cost loses usefulness, not privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from epsworth.arrays import Floats
from epsworth.pac.allocation import RULES, STEPS, RoundedGaussian, Rule, Steps, allocate, gaussian_bound, spending
from epsworth.pac.mechanism import as_numbers
from epsworth.pac.simulation import Experiment
from epsworth.records import Indices
from epsworth.rounding import up

Basis = Literal["auto", "diag", "svd"]
BASES: tuple[Basis, ...] = ("auto", "diag", "svd")
Noise = Rule | Literal["task"]
NOISES: tuple[Noise, ...] = (*RULES, "task")
MOST_NATS = 20.0  # above, nothing is promised; keeps grid positions below 2**52
LEAST_NATS = 1e-9  # below, the 2**-49 by which the noise's table misses its law would weigh as much as the budget
LARGEST = 1e150  # of an output: squares stay within floating point
FARTHEST = 2.0**52
TRIALS_PER_DIRECTION = 10  # below, eigenvectors of an *estimated* covariance fit the trials


@dataclass(frozen=True, eq=False)
class Shape:
    """What the noise should look like.

    Attributes
    ----------
    rule : str
        Of `allocate`.
    basis : {"diag", "svd"}
        Directions: coordinates, or eigenvectors of the covariance.
    weights : ndarray, shape ``(d,)``, optional
        What a unit of noise variance in each number costs.  The best noise for weights W is the best one of
        W^1/2 times the outputs, taken back.
    tuned : callable, optional
        In place of the rule: from frame, variances there, outputs, budget and the worlds' probabilities (None: equal)
        to noise variances that keep the budget.
    """

    rule: Rule = "optimal"
    basis: Basis = "svd"
    weights: Floats | None = None
    tuned: Callable[[Frame, Floats, Floats, float, Floats | None], Floats] | None = None


OPTIMAL = Shape()


@dataclass(frozen=True, eq=False)
class Frame:
    """An orthonormal set of directions around a centre: all other directions are released as the centre's constant.

    ``axes`` is a matrix with one direction per row, or the indices of the coordinates that are kept; ``units`` are
    the square roots of the weights, by which vectors are multiplied beforehand.
    """

    centre: Floats
    axes: Floats | Indices
    units: Floats | float = 1.0

    def __len__(self) -> int:
        return len(self.axes)

    @property
    def basis(self) -> str:
        """The kind of directions: coordinates, or a turned basis."""
        return "diag" if self.axes.ndim == 1 else "svd"

    def coordinates(self, vectors: Floats) -> Floats:
        """Return the coordinates of vectors (rows)."""
        away = (vectors - self.centre) * self.units
        return np.asarray(away[..., self.axes] if self.axes.ndim == 1 else away @ self.axes.T)

    def vectors(self, coordinates: Floats) -> Floats:
        """Return the vectors of coordinates (rows)."""
        if self.axes.ndim == 2:
            return np.asarray(self.centre + coordinates @ self.axes / self.units)
        away = np.zeros((*coordinates.shape[:-1], len(self.centre)))
        away[..., self.axes] = coordinates
        return np.asarray(self.centre + away / self.units)


@dataclass(frozen=True, eq=False)
class Plan:
    """How a vector is released; everything in it is public.

    Attributes
    ----------
    step : ndarray, shape ``(r,)``
        Grid step, at most a 2048-th of the noise's standard deviation.
    spread : ndarray, shape ``(r,)``
        Variance of the outputs there, clipped and on the grid, in squared steps.
    ratio : float
        Standard deviation of the noise in steps, the same in all directions.
    mi : float
        Promised (or, in the estimated mode, estimated) mutual information in nats.
    clip : ndarray, shape ``(r,)``, optional
        Outputs are pulled in, towards the centre, to the ellipsoid sum (clip_k position_k / 2048)^2 <= 1.
    """

    frame: Frame
    step: Floats
    spread: Floats
    ratio: float
    mi: float
    clip: Floats | None = None

    @property
    def noise(self) -> Floats:
        """Noise variance in each direction of the frame, shape ``(r,)``."""
        return np.asarray((self.step * self.ratio) ** 2)

    @property
    def variances(self) -> Floats:
        """Variance of the outputs there, after clipping and rounding to the grid."""
        return np.asarray(self.spread * self.step**2)

    def positions(self, vectors: Floats) -> Steps:
        """Return the grid positions of un-noised outputs (rows)."""
        # outputs without bounds stay a function of the output alone: what overflows is far away, not elsewhere
        with np.errstate(over="ignore", invalid="ignore"):
            away = self.frame.coordinates(vectors) / self.step
        at = np.clip(np.nan_to_num(away, nan=FARTHEST, posinf=FARTHEST, neginf=-FARTHEST), -FARTHEST, FARTHEST)
        if self.clip is not None:
            length = np.linalg.norm(at * self.clip, axis=-1, keepdims=True) / STEPS
            at = at * (1 / np.maximum(length, 1.0))
        # 2**52 steps: beyond lie only worlds that a ledger has all but ruled out, or what a clip pulls in
        return np.asarray(np.rint(at), dtype=np.int64)

    def released(self, positions: Steps) -> Floats:
        """Return the vectors that stand for noisy grid positions: a public function of them."""
        return self.frame.vectors(positions * self.step)

    @cached_property
    def law(self) -> RoundedGaussian:
        """The law of the noise in steps."""
        return RoundedGaussian(self.ratio)

    @property
    def trace(self) -> float:
        """Total noise variance, E|B|^2 (each number's times its weight)."""
        return float(self.noise.sum())


def check_nats(mi: float) -> None:
    """Raise ValueError for a budget so large that it promises nothing, or finer than the noise's table."""
    if mi > MOST_NATS:
        raise ValueError(f"a budget of {mi:g} nats promises nothing; take at most {MOST_NATS:g}")
    if not mi >= LEAST_NATS:
        raise ValueError(
            f"a budget of {mi:g} nats is finer than the table of the noise can keep; take at least {LEAST_NATS:g}, "
            "at which nothing is told either"
        )


def check_choices(rule: str, basis: str) -> None:
    """Raise ValueError unless noise rule and basis exist."""
    if rule not in NOISES:
        raise ValueError(f"noise must be one of {', '.join(NOISES)}, got {rule!r}")
    if basis not in BASES:
        raise ValueError(f"basis must be one of {', '.join(BASES)}, got {basis!r}")


def frame_of(outputs: Floats, shape: Shape, probabilities: Floats | None = None) -> tuple[Frame, Floats]:
    """Return directions in which the outputs vary, and their variances there.

    ``svd`` costs O(m d min(m, d)) and never builds a d x d matrix.  Directions without variance are left out.
    """
    p = np.full(len(outputs), 1 / len(outputs)) if probabilities is None else probabilities
    centre, units = p @ outputs, 1.0 if shape.weights is None else np.sqrt(shape.weights)
    away = (outputs - centre) * units
    if shape.basis == "diag":
        variances = p @ away**2
        live = np.flatnonzero((variances > 0) & (np.ptp(outputs[p > 0], axis=0) > 0))
        return Frame(centre, live, units), variances[live]
    scaled = np.sqrt(p)[:, np.newaxis] * away
    _, roots, axes = np.linalg.svd(scaled, full_matrices=False)
    live = roots > roots.max(initial=0.0) * max(scaled.shape) * np.finfo(float).eps
    live &= roots**2 > 0
    return Frame(centre, axes[live], units), roots[live] ** 2


def calibrate(
    outputs: Floats, mi: float, shape: Shape = OPTIMAL, *, probabilities: Floats | None = None
) -> Plan:  # fmt: skip
    """Return the plan that keeps the mutual information with the world at ``mi`` nats.

    Claim, for a world drawn from the finite list with these probabilities (default: equal): the release of its
    output by this plan obeys MI <= ``plan.mi`` <= ``mi``; variances are those of the *rounded* outputs.
    For trials of a larger distribution the same numbers are an estimate.
    """
    check_nats(mi)
    frame, variances = frame_of(outputs, shape, probabilities)
    plan = unscaled(frame, noise_of(frame, variances, outputs, mi, shape, probabilities))
    # rounding to the grid moves variances a little: measure them on the grid (correlations: Hadamard), and pay
    spread = spread_of(plan.positions(outputs), probabilities)
    return scaled(replace(plan, spread=spread), enough(spread, STEPS**2, mi))


def noise_of(
    frame: Frame, variances: Floats, outputs: Floats, mi: float, shape: Shape, probabilities: Floats | None = None
) -> Floats:  # fmt: skip
    """Return the noise variances in a frame that keep the mutual information at ``mi`` nats, by rule or tuned."""
    if shape.tuned is None:
        return allocate(variances, mi, shape.rule)
    return shape.tuned(frame, variances, outputs, mi, probabilities)


def unscaled(frame: Frame, noise: Floats) -> Plan:
    """Return a plan of these noise variances, before anything was measured on its grid."""
    return Plan(frame, np.sqrt(noise) / STEPS, np.zeros(len(frame)), float(STEPS), 0.0)


def spread_of(positions: Steps, probabilities: Floats | None = None) -> Floats:
    """Return the variances of grid positions in squared steps, rounded up, shape ``(r,)``.

    Squares around any centre sum to no less than those around the mean.  In units of 2**-53, each term takes a
    rounding for the difference, which the square doubles, one for the square, one for the probability, one for the
    product, and one for each of the m - 1 sums: m + 4 in all; and 4 for the noise, whose ratio is a rounded root.
    """
    p = np.full(len(positions), 1 / len(positions)) if probabilities is None else probabilities
    return up(np.asarray(p @ (positions - p @ positions) ** 2), ulps=len(positions) + 8)


def scaled(plan: Plan, factor: float) -> Plan:
    """Return the plan with ``factor`` times the noise variance on the same grid."""
    mi = gaussian_bound(plan.spread, np.full(len(plan.frame), STEPS**2 * factor))
    return replace(plan, ratio=STEPS * math.sqrt(factor), mi=mi)


def enough(variances: Floats, noise: Floats | float, mi: float) -> float:
    """Return the smallest factor >= 1 (within 1e-9) on the noise that meets the budget."""
    noise = np.broadcast_to(noise, variances.shape)
    low, high = 1.0, 1.0
    while gaussian_bound(variances, noise * high) > mi:
        low, high = high, 1 + 2 * (high - 1) + 1e-9
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_bound(variances, noise * middle) > mi else (low, middle)
    return high


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
