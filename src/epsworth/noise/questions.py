"""One noise, and direct questions about it: delta, Renyi divergence; and the inverse uses of a tuned one."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.noise import allowed, regions
from epsworth.noise.lattice import discrete, spacing
from epsworth.noise.mechanism import Boosted, NoiseMechanism
from epsworth.noise.optimum import MOST_RELEASES
from epsworth.noise.profiles import Kernel
from epsworth.noise.ranking import WIDEST_RATIO, cost_named, question
from epsworth.noise.regions import Kind
from epsworth.noise.tuning import with_least_boost
from epsworth.rounding import float_below

DISCRETE: dict[str, Kernel] = {"discrete_gaussian": "gaussian", "discrete_laplace": "laplace"}
MOST_BOOST = 1e300
WHOLLY = 1 - 1e-12  # of a kernel outside the region: beyond it, doubles know too little of what is inside to boost it
SURE = 1e-6  # relative precision of the inverse searches


def boosted(
    kernel: str = "gaussian",
    *,
    scale: float,
    theta: float | tuple[float, float] = 1.0,
    boost: float | None = None,
    confidence: allowed.Confidence | None = None,
    sensitivity: float = 1.0,
    region: Kind = "absolute",
    offset: float | None = None,
    answers: ArrayLike | None = None,
    lattice: float = 1.0,
) -> NoiseMechanism:
    """Return a kernel weighted up inside a region; numbers out of their ranges are refused.

    Parameters
    ----------
    kernel : {"gaussian", "laplace", "discrete_gaussian", "discrete_laplace"}
        Law around the true answer; the discrete ones live on multiples of ``lattice``.
    scale : float
        sigma or b.
    theta, region, offset, answers
        The preferred region; see `regions.region`.
    boost : float, optional
        B >= 1: weight inside over weight outside; infinity truncates.  Default: what ``confidence`` needs, or 1.
    confidence : float or Fraction, optional
        Instead of a boost: the probability of the region.
    sensitivity : float
        Largest change of the answer.

    Examples
    --------
    >>> from epsworth.noise import boosted, delta
    >>> noise = boosted("laplace", scale=3.0, theta=4.0, confidence=0.9)
    >>> print(f"{noise.boost:.6f}")
    3.221571
    >>> delta(noise, noise.epsilon(1e-3)) <= 1e-3
    True
    """
    scale, sensitivity = allowed.length(scale, "scale"), allowed.length(sensitivity, "sensitivity")
    if boost is not None and confidence is not None:
        raise ValueError("boost and confidence exclude each other; keep one")
    if boost is not None and boost != math.inf:
        boost = allowed.within(boost, "boost", 1.0, MOST_BOOST, "; infinity truncates")
    where = regions.region(region, theta, offset=offset, answers=answers)
    build: Callable[[float], NoiseMechanism]
    if kernel in DISCRETE:
        if region != "absolute":
            raise ValueError(f"kernel {kernel!r} belongs to region='absolute', got {region!r}")
        grid = spacing(allowed.length(theta, "theta"), sensitivity, allowed.length(lattice, "lattice"))
        build = partial(discrete, DISCRETE[kernel], scale, grid=grid)
    elif kernel in get_args(Kernel):
        law: Kernel = kernel  # type: ignore[assignment]
        build = partial(Boosted, law, scale, region=where, sensitivity=sensitivity)
    else:
        raise ValueError(f"kernel must be one of gaussian, laplace, {', '.join(DISCRETE)}, got {kernel!r}")
    if confidence is None:
        return build(1.0 if boost is None else boost)
    if build(1.0).outside >= WHOLLY:
        raise ValueError(f"scale {scale:g} leaves nothing in the region of theta {theta!r}; take a smaller scale")
    return with_least_boost(build, allowed.failure(confidence))


def delta(noise: NoiseMechanism, epsilon: ArrayLike) -> float | Floats:
    """Return the exact delta(epsilon) of a noise, over all neighbouring answers; never rounded down.

    Parameters
    ----------
    noise : NoiseMechanism
        What `boosted` returns, or the ``noise`` of a `Choice`.
    epsilon : array_like
        Of any sign; refused if not finite.  A number gives a number, an array an array.

    Examples
    --------
    >>> from epsworth.noise import boosted, delta
    >>> delta(boosted(scale=2.8, theta=5.0, boost=1.5215837245), 0.75)
    0.01276435...
    """
    found = noise.deltas(allowed.numbers(epsilon, "epsilon"))
    return float(found) if found.ndim == 0 else found


def renyi(noise: NoiseMechanism, order: float) -> float:
    """Return the Renyi divergence of an order above 1, over all neighbouring answers; never below the truth.

    Infinite where none is known: for discrete Gaussian noise, whose table ends.

    Parameters
    ----------
    noise : NoiseMechanism
        What `boosted` returns, or the ``noise`` of a `Choice`.
    order : float
        Above 1; others are refused.

    Examples
    --------
    >>> from epsworth.noise import boosted, renyi
    >>> round(renyi(boosted(scale=2.0, theta=2.0, confidence=0.95), 4.0), 6)
    2.15653
    """
    return noise.renyi(allowed.order(order))


def best_confidence(
    epsilon: float, theta: float, sensitivity: float = 1.0, delta: float = 1e-6, releases: int = 1,
    *, mechanism: str = "pb_gaussian",
) -> float:  # fmt: skip
    """Return the largest confidence with which answers stay within theta at this epsilon.

    Rounded down by at most 1e-6 of what may fail: the returned confidence was seen to be affordable.

    Parameters
    ----------
    epsilon, theta, sensitivity, delta, releases
        The promise for all releases together, and the question, as in `cheapest`, which refuses the same numbers.
    mechanism : str
        A name of `cheapest`.

    Examples
    --------
    >>> from epsworth.noise import best_confidence
    >>> round(1 - best_confidence(2.5, 2.0, delta=1e-5, mechanism="gaussian"), 4)
    0.221
    """

    def leaving(log_failure: float) -> float:
        return float_below(1 - Fraction(math.exp(log_failure)))

    def affordable(log_failure: float) -> bool:
        return cost_named(mechanism, question(theta, leaving(log_failure), sensitivity, delta, releases)) <= epsilon

    allowed.positive(epsilon, "epsilon")
    worst, best = math.log(0.999), math.log(1e-12)
    return leaving(_last(affordable, worst, best)) if affordable(worst) else 0.0


def narrowest_interval(
    epsilon: float, *, confidence: allowed.Confidence, sensitivity: float = 1.0, delta: float = 1e-6,
    releases: int = 1, mechanism: str = "pb_gaussian",
) -> float:  # fmt: skip
    """Return the smallest theta that this epsilon affords with this confidence; rounded up by at most 1e-6.

    Parameters
    ----------
    epsilon, confidence, sensitivity, delta, releases
        The promise for all releases together, and the question, as in `cheapest`, which refuses the same numbers.
    mechanism : str
        A name of `cheapest`.

    Examples
    --------
    >>> from epsworth.noise import narrowest_interval
    >>> round(narrowest_interval(2.0, confidence=0.95, delta=1e-5, mechanism="gaussian"), 3)
    3.908
    """

    def affordable(log_theta: float) -> bool:
        asked = question(math.exp(log_theta), confidence, sensitivity, delta, releases)
        return cost_named(mechanism, asked) <= epsilon

    allowed.positive(epsilon, "epsilon")
    size = math.log(allowed.length(sensitivity, "sensitivity"))
    wide, widest = size, size + math.log(WIDEST_RATIO) - 0.5
    while not affordable(wide):
        if wide >= widest:
            raise ValueError(
                f"epsilon {epsilon:g} affords no theta up to {np.exp(widest):g} with {mechanism!r}; allow a larger one"
            )
        wide = min(wide + 1.0, widest)
    return math.exp(_last(affordable, wide, size - 20.0))


def most_releases(
    epsilon: float, theta: float, *, confidence: allowed.Confidence, sensitivity: float = 1.0, delta: float = 1e-6,
    mechanism: str = "pb_gaussian",
) -> int:  # fmt: skip
    """Return how many releases, each within theta with this confidence, this epsilon affords; 0 if none.

    Parameters
    ----------
    epsilon, theta, confidence, sensitivity, delta
        The promise for all releases together, and the question, as in `cheapest`, which refuses the same numbers.
    mechanism : str
        A name of `cheapest`.

    Examples
    --------
    >>> from epsworth import noise
    >>> noise.most_releases(0.1, 4.0, confidence=0.95)  # what one takes: see `cheapest`
    0
    """

    def affordable(releases: int) -> bool:
        return cost_named(mechanism, question(theta, confidence, sensitivity, delta, releases)) <= epsilon

    allowed.positive(epsilon, "epsilon")
    low, high = 0, 1
    while high < MOST_RELEASES and affordable(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if affordable(middle) else (low, middle)
    return low


def _last(affordable: Callable[[float], bool], good: float, bad: float) -> float:
    """Return the last affordable point towards ``bad``: doubling steps (extremes are slow to judge), then bisection."""
    step = math.copysign(0.5, bad - good)
    while affordable(tried := good + step if abs(step) < abs(bad - good) else bad):
        good, step = tried, 2 * step
        if tried == bad:
            return bad
    bad = tried
    while abs(good - bad) > SURE:
        middle = (good + bad) / 2
        good, bad = (middle, bad) if affordable(middle) else (good, middle)
    return good
